"""Signals and angles of layer freezing: unclipped, clipped and private mean gradients, and what freezing does to them."""

import math
from typing import Any

import torch

from dptheory import _validate
from dptheory.training.measure._view import View, angle


def signals(view: View, draws: int, frozen_layers: int) -> dict[str, Any]:
    """For every layer |s^B|, the angle of s^U and s^B, and that of s^B and s^P (mean over draws of the noise), as the run is.

    ``if_frozen`` has the same at the same weights where the first layers are frozen. s^U, s^B and s^P are the mean gradient of
    the examples, the mean clipped one, and that with noise; null for layers that are not trained.
    """
    return {
        "layers": list(view.layers),
        "as_it_is": _signals(view, view.kept, draws),
        "if_frozen": _signals(view, view.kept & view.without_first(frozen_layers), draws),
    }


def _signals(view: View, kept: torch.Tensor, draws: int) -> dict[str, list[float | None]]:
    unclipped, clipped = view.gradients.mean(0) * kept, view.clipped_mean(kept)
    noise = view.noise(draws, view.dim) * (view.sum_noise_std / view.batch_size) * kept
    found: dict[str, list[float | None]] = {"signal": [], "clipping_angle": [], "noise_angle": []}
    for place in view.layers.values():
        signal, trained = clipped[place], bool(kept[place].any())
        angles = [angle(signal, signal + z[place]) for z in noise] if trained else []
        found["signal"].append(float(signal.norm()) if trained else None)
        found["clipping_angle"].append(angle(unclipped[place], signal) if trained else None)
        found["noise_angle"].append(None if None in angles or not angles else math.fsum(angles) / draws)  # type: ignore[arg-type]
    return found


def noise(view: View) -> dict[str, Any]:
    """Root mean square norms of the noise and of the mean clipped gradient of B independent examples; the dimension."""
    mean = view.clipped_mean(view.kept)
    square = float(view.norms(view.kept).clamp_max(view.clip_norm).square().mean())
    count = _validate.integer("examples", len(view.gradients), 2, 10**9)
    spread = (square - float(mean.square().sum())) * count / (count - 1)
    signal = square - spread  # |E|^2, without bias
    return {
        "dim": view.dim,
        "gradient_norm": math.sqrt(max(0.0, signal) + spread / view.batch_size),
        "noise_norm": math.sqrt(view.dim) * view.sum_noise_std / view.batch_size,
    }


def alignment(view: View) -> dict[str, Any]:
    """Angles to the true gradient of the sum of the gradients above C, and of that of the others; null where there are none."""
    above = view.norms(view.kept) >= view.clip_norm
    return {
        "clipped": int(above.sum()),
        "unclipped": int((~above).sum()),
        "clipped_angle": angle(view.gradients[above].sum(0), view.true),
        "unclipped_angle": angle(view.gradients[~above].sum(0), view.true),
    }


def status(view: View, frozen_layers: int) -> dict[str, Any]:
    """How many gradients are clipped before and after the first layers are frozen, at the same weights.

    Beside it the angles, on the entries that stay, between the sums of the clipped ones before and after, and of the others.
    """
    rest = view.kept & view.without_first(frozen_layers)
    before, after = view.norms(view.kept) >= view.clip_norm, view.norms(rest) >= view.clip_norm
    gradients = view.gradients * rest

    def change(one: torch.Tensor, other: torch.Tensor) -> float | None:
        return angle(gradients[one].sum(0), gradients[other].sum(0))

    return {
        "clipped_before": int(before.sum()),
        "clipped_after": int(after.sum()),
        "changed": int((before != after).sum()),
        "examples": len(before),
        "clipped_turn": change(before, after),
        "unclipped_turn": change(~before, ~after),
    }
