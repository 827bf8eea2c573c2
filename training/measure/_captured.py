"""What a mask keeps of the gradient, and how far the sums that ranked freeze ranks stand out of their noise."""

import math
from typing import Any

import torch

from dptheory.training.measure._view import View
from dptheory.training.mechanisms import RankedSparsification


def captured(view: View) -> dict[str, Any]:
    """Share of the gradient's energy on the entries kept, beside the share of the entries; signal over noise of the ranked sums.

    The energy is that of the clipped mean gradient of the examples, which no mask has touched. ``snr`` is t of
    :func:`dptheory.sparsification.captured_energy`: t^2 = |s|^2 / (d n (sigma C)^2) - 1, or 0 where that is negative, with s the
    sum of what the n steps since the last ranking released. None where nothing is summed, or summed without noise.
    """
    whole = view.clipped_mean(torch.ones(view.dim, dtype=torch.bool)).double().square()
    return {
        "kept_share": float(view.kept.double().mean()),
        "energy": float(whole[view.kept].sum() / whole.sum()) if whole.any() else None,
        "snr": _snr(view),
    }


def _snr(view: View) -> float | None:
    mechanism = view.run.optimizer.mechanism
    if type(mechanism) is not RankedSparsification:  # the one that ranks by true gradients sums no noise
        return None
    if not mechanism.steps_summed:
        return None
    sums = torch.cat([s.flatten() for s in mechanism.state_dict()["sums"]]).double()
    return math.sqrt(max(0.0, float(sums.square().mean()) / (mechanism.steps_summed * view.sum_noise_std**2) - 1.0))
