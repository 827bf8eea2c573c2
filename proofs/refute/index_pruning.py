"""GIP, Proposition 2 (gip.mse_t0): the error of keeping the largest entries. Held against draws."""

import numpy as np

from dptheory import claims, pruning
from dptheory.checks import Conjecture

RANGES = {"dim": [2, 10, 100], "keep": [1, 5, 50]}


def lost(rng: np.random.Generator, count: int, dim: int, keep: int) -> np.ndarray:
    """Squared norm of what is left out when the largest entries of a Gaussian gradient are kept, of count gradients."""
    squares = np.sort(rng.standard_normal((count, dim)) ** 2, axis=1)
    return squares[:, : dim - keep].sum(axis=1)


def smaller(dim: int, keep: int) -> bool:
    return keep < dim


def corrected_mse(dim: int, keep: int) -> float:
    return pruning.top_k_mse(dim, keep, sigma_g=1.0)


printed = Conjecture(claimed=claims.get("gip.mse_t0").printed, sampler=lost, ranges=RANGES, where=smaller)
corrected = Conjecture(claimed=corrected_mse, sampler=lost, ranges=RANGES, where=smaller)
