"""What a mechanism releases against what it has; the entries of the batch gradient against a Gaussian law."""

import copy
import math
from typing import Any

import torch

from dptheory.training._streams import simulation
from dptheory.training.engine import generator_noise
from dptheory.training.measure._gradient import excess_kurtosis, ks_distance
from dptheory.training.measure._view import View, trained_entries
from dptheory.training.mechanisms import Mechanism, Tensors, clip_factors
from dptheory.training.runs import Run


def released(view: View, run: Run, mechanism: Mechanism, gradients: torch.Tensor) -> Tensors:
    """What a mechanism releases in a step of a run, of flat per-sample gradients (n, d) in the place of a batch's.

    Clip and noise generator are the view's, the noise multiplier is the run's.
    """
    trained = [p for p in run.model.parameters() if p.requires_grad]
    pieces = torch.split(gradients[:, trained_entries(run.model)], [p.numel() for p in trained], dim=1)
    samples: Tensors = [piece.reshape(-1, *p.shape) for piece, p in zip(pieces, trained, strict=True)]
    mechanism.begin_step([p.detach() for p in trained])
    with simulation():  # numbers of the view's own generator, in its order
        noise = generator_noise(view.generator)
    return mechanism.release(
        mechanism.contribute(samples, view.clip_norm).total,
        noise_multiplier=run.optimizer.noise_multiplier,
        clip_norm=view.clip_norm,
        noise=noise,
    )


def cosines(view: View, draws: int) -> dict[str, Any]:
    """Cosine of the released gradient with the clipped sum that no mask and no noise has touched, over draws of both.

    The batch is the first B examples; a copy of the run's mechanism releases, with a noise of its own.
    """
    gradients = view.gradients[: view.batch_size]
    whole = (clip_factors(gradients.norm(dim=1), view.clip_norm) @ gradients)[view.trained]
    mechanism = copy.deepcopy(view.run.optimizer.mechanism)
    found = []
    for _ in range(draws):
        flat = torch.cat([r.flatten() for r in released(view, view.run, mechanism, gradients)])
        found.append(float(torch.nn.functional.cosine_similarity(flat, whole, dim=0)))
    values = torch.tensor(found, dtype=torch.float64)
    return {
        "cosine": float(values.mean()),
        "standard_error": float(values.std() / math.sqrt(draws)),
        "norm_over_noise": float(whole.norm()) / (view.sum_noise_std * math.sqrt(len(whole))),
    }


ENTRY_EDGES = (-12.0, 12.0)
ENTRY_BINS = 96


def entries(view: View) -> dict[str, Any]:
    """Entries of the clipped batch gradient against N(0, s^2), s their root mean square: KS distance, kurtosis, histogram."""
    clipped = view.clipped_mean(view.kept)[view.kept].double()
    size = float(clipped.square().mean().sqrt())
    scaled = clipped / size
    return {
        "ks_distance": ks_distance(clipped.numpy(), size),
        "excess_kurtosis": excess_kurtosis(clipped.numpy(), size),
        "histogram": torch.histc(scaled, ENTRY_BINS, *ENTRY_EDGES).int().tolist(),
        "outside": int((scaled.abs() > ENTRY_EDGES[1]).sum()),
    }
