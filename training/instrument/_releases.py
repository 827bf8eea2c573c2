"""What a mechanism releases against what it has; the entries of the batch gradient against a Gaussian law."""

import copy
import math
from typing import Any

import torch

from training.engine import generator_noise
from training.instrument._view import View


def cosines(view: View, draws: int) -> dict[str, Any]:
    """Cosine of the released gradient with the clipped sum that no mask and no noise has touched, over draws of both.

    The batch is the first B examples; a copy of the run's mechanism releases, with a noise of its own.
    """
    gradients = view.gradients[: view.batch_size]
    shapes = [p for p in view.run.model.parameters() if p.requires_grad]
    pieces = torch.split(gradients[:, view.trained], [p.numel() for p in shapes], dim=1)
    samples = [piece.reshape(-1, *p.shape) for piece, p in zip(pieces, shapes, strict=True)]
    factors = (view.clip_norm / gradients.norm(dim=1)).clamp_max(1.0)
    whole = (factors @ gradients)[view.trained]
    mechanism, noise = copy.deepcopy(view.run.optimizer.mechanism), generator_noise(view.generator)
    found = []
    for _ in range(draws):
        mechanism.begin_step([p.detach() for p in shapes])
        total = mechanism.contribute(samples, view.clip_norm).total
        released = mechanism.release(
            total,
            noise_multiplier=view.run.optimizer.noise_multiplier,
            clip_norm=view.clip_norm,
            noise=noise,
        )
        flat = torch.cat([r.flatten() for r in released])
        found.append(float(torch.nn.functional.cosine_similarity(flat, whole, dim=0)))
    values = torch.tensor(found, dtype=torch.float64)
    return {
        "cosine": float(values.mean()),
        "standard_error": float(values.std() / math.sqrt(draws)),
        "norm_over_noise": float(whole.norm()) / (view.noise_std * math.sqrt(len(whole))),
    }


ENTRY_EDGES = (-12.0, 12.0)
ENTRY_BINS = 96


def entries(view: View) -> dict[str, Any]:
    """Entries of the clipped batch gradient against N(0, s^2), s their root mean square: KS distance, kurtosis, histogram."""
    clipped = view.clipped_mean(view.kept)[view.kept].double()
    scaled = (clipped / clipped.square().mean().sqrt()).sort().values
    law = torch.special.ndtr(scaled)
    steps = torch.arange(len(scaled) + 1, dtype=torch.float64) / len(scaled)
    return {
        "ks_distance": float(torch.maximum((steps[1:] - law).max(), (law - steps[:-1]).max())),
        "excess_kurtosis": float(scaled.pow(4).mean()) - 3.0,
        "histogram": torch.histc(scaled, ENTRY_BINS, *ENTRY_EDGES).int().tolist(),
        "outside": int((scaled.abs() > ENTRY_EDGES[1]).sum()),
    }
