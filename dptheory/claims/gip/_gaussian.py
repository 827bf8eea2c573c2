"""Draws under Assumption 1."""

import numpy as np
from numpy.typing import NDArray

from dptheory import pruning


def gaussian_energy(rng: np.random.Generator, n: int, dim: int) -> NDArray[np.float64]:
    """|g|^2 for Gaussian g."""
    return np.asarray(np.square(rng.standard_normal((n, dim))).sum(axis=1))


def pruned_gaussian(rng: np.random.Generator, n: int, dim: int, keep: int, theta: float) -> NDArray[np.float64]:
    """|g - g*I|^2 for Gaussian g and the perturbed top-k set; theta = 0 is random-k, inf is top-k."""
    gradient = rng.standard_normal((n, dim))
    kept = pruning.SubsetMallows(dim, keep, theta).sample(pruning.top_k_mask(gradient, keep), rng)
    return np.asarray(np.square(gradient * ~kept).sum(axis=1))
