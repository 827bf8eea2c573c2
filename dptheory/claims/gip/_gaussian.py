"""Draws under Assumption 1."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln


def gaussian_energy(rng: np.random.Generator, n: int, dim: int) -> NDArray[np.float64]:
    """|g|^2 for Gaussian g."""
    return np.asarray(np.square(rng.standard_normal((n, dim))).sum(axis=1))


def swap_weights(dim: int, keep: int, theta: float) -> NDArray[np.float64]:
    """C(K, i) C(d - K, i) index sets lie i swaps away, each of weight e^(-2 theta i): relative to the largest, finite theta."""
    i = np.arange(min(keep, dim - keep) + 1.0)
    logs = -2.0 * theta * i
    for size in (keep, dim - keep):
        logs -= gammaln(i + 1) + gammaln(size - i + 1)
    return np.asarray(np.exp(logs - logs.max()))


def kept_entries(rng: np.random.Generator, gradient: NDArray[np.float64], keep: int, theta: float) -> NDArray[np.bool_]:
    """The perturbed top-k sets of the last axis: as many pairs as are drawn, each a random member for a random other entry."""
    dim = gradient.shape[-1]
    kept = np.zeros(gradient.shape, dtype=np.bool_)
    np.put_along_axis(kept, np.argpartition(np.abs(gradient), dim - keep, axis=-1)[..., dim - keep :], True, axis=-1)
    if math.isinf(theta):
        return kept
    weights = swap_weights(dim, keep, theta)
    swaps = rng.choice(weights.size, size=(*gradient.shape[:-1], 1), p=weights / weights.sum())
    order = rng.random(gradient.shape)
    for side in (kept.copy(), ~kept):
        place = np.where(side, order, np.inf).argsort(axis=-1).argsort(axis=-1)
        kept ^= side & (place < swaps)
    return kept


def pruned_gaussian(rng: np.random.Generator, n: int, dim: int, keep: int, theta: float) -> NDArray[np.float64]:
    """|g - g*I|^2 for Gaussian g and the perturbed top-k set; theta = 0 is random-k, inf is top-k."""
    gradient = rng.standard_normal((n, dim))
    return np.asarray(np.square(gradient * ~kept_entries(rng, gradient, keep, theta)).sum(axis=1))
