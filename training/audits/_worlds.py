"""Two worlds, with and without an example: their batches, what a mechanism releases on them, and log-likelihood ratios."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from dptheory.training._streams import simulated
from dptheory.training.mechanisms import Mechanism, Noise

Array = NDArray[np.float64]
Make = Callable[[], Mechanism]
World = Callable[[torch.Tensor, int, Noise], Array]
"""Scores of so many trials on the given per-sample gradients, shape (n, d)."""

CLIP = 1.3
SIGMA = 2.0


def seeded_noise(seed: int) -> Noise:
    rng = np.random.default_rng(seed)

    def noise(like: torch.Tensor, std: float) -> torch.Tensor:
        return torch.from_numpy(std * rng.standard_normal(tuple(like.shape))).to(like)

    return noise


def batch_of_five(dim: int, seed: int = 0) -> torch.Tensor:
    """Five gradients, some of them clipped."""
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 0.4, (5, dim))).float()


def both_worlds(batch: torch.Tensor, canary: torch.Tensor, world: World) -> Callable[[int, Noise], tuple[Array, Array]]:
    joined = torch.cat([batch, canary[None]])
    return lambda trials, noise: (world(joined, trials, noise), world(batch, trials, noise))


def one_entry(dim: int, entry: int) -> torch.Tensor:
    canary = torch.zeros(dim)
    canary[entry] = CLIP
    return canary


def clipped_total(make: Make, samples: torch.Tensor) -> Array:
    """The clipped sum that a fresh mechanism releases with noise."""
    mechanism = simulated(make)
    mechanism.begin_step([torch.zeros(samples.shape[1])])
    return np.asarray(mechanism.contribute([samples], CLIP).total[0].double().numpy())


def tiled_releases(
    make: Make, samples: torch.Tensor, trials: int, noise: Noise, noise_multiplier: float = SIGMA
) -> Array:
    """Releases of a mechanism that acts on every entry apart, all trials at once; shape (trials, d)."""
    mechanism = simulated(make)
    mechanism.begin_step([torch.zeros(samples.shape[1])])
    total = mechanism.contribute([samples], CLIP).total[0]
    return np.asarray(
        mechanism.release([total.expand(trials, -1)], noise_multiplier=noise_multiplier, clip_norm=CLIP, noise=noise)[0]
        .double()
        .numpy()
    )


def grouped_releases(
    make: Make, samples: torch.Tensor, trials: int, noise: Noise, noise_multiplier: float = SIGMA
) -> Array:
    """Releases of a mechanism that acts on every group apart: each trial is a group."""
    mechanism, dim = simulated(make), samples.shape[1]
    mechanism.begin_step([torch.zeros(dim)])
    total = mechanism.contribute([samples], CLIP).total[0]
    mechanism.begin_step([torch.zeros(trials * dim)])
    return np.asarray(
        mechanism.release([total.repeat(trials)], noise_multiplier=noise_multiplier, clip_norm=CLIP, noise=noise)[0]
        .view(-1, dim)
        .double()
        .numpy()
    )


def log_ratio(released: Array, first: Array, second: Array, noise_multiplier: float = SIGMA) -> Array:
    """log N(first, (sigma C)^2) - log N(second, ...) of the entries released; those pruned are 0."""
    squares = np.square(released - second) - np.square(released - first)
    return np.asarray((squares * (released != 0)).sum(-1) / (2 * (noise_multiplier * CLIP) ** 2))
