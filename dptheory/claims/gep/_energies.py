"""Noise energies of GEP and of what it is compared with, from variances found by search."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory.claims.gep._mechanism import Way

WAYS: tuple[Way, ...] = ("plain", "embedding_only", "published", "published_sum", "optimal", "joint")


def least(energy: Callable[[float], float]) -> float:
    """Minimum over t > 0 of a function that falls and then rises in log t, by golden section."""
    low, high, golden = -30.0, 30.0, (math.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if energy(math.exp(left)) < energy(math.exp(right)) else (left, high)
    return float(energy(math.exp(low)))


def traced_energy(
    way: str, dim: int, k: int, clip: float, second: float, mu: float, lost: float, embedding_clip: float | None
) -> float:
    """Trace of the noise's covariance, from variances found by a search over their ratio; for B-GEP with what is lost."""
    first, q = clip if embedding_clip is None else embedding_clip, dim - k
    if way == "plain":
        return math.fsum([k * (clip / mu) ** 2, q * (clip / mu) ** 2])
    if way == "embedding_only":
        return math.fsum([k * (first / mu) ** 2, lost * lost])
    if way == "published":
        return math.fsum([2 * k * (first / mu) ** 2, 2 * k * (second / mu) ** 2, 2 * q * (second / mu) ** 2])
    if way == "published_sum":  # mu^2 = S1^2 / (s1^2 + s2^2) + S2^2 / s2^2 at s_i = s S_i, in the span and off it
        scale = (first**2 / (first**2 + second**2) + 1) / mu**2
        return scale * math.fsum([k * (first**2 + second**2), q * second**2])
    share = min(1.0, second / clip)
    corners = [(first**2, second**2)]
    if way == "joint":  # the two corners of what occurs
        corners = [(clip**2, 0.0), ((1 - share**2) * clip**2, (share * clip) ** 2)]

    def energy(t: float) -> float:
        return (k + q * t) * max(a + b / t for a, b in corners) / mu**2

    return least(energy)


def spread(norm: float, rows: int, width: int) -> NDArray[np.float64]:
    """Equal rows of this norm, spread evenly over the entries."""
    return np.full((rows, width), norm / math.sqrt(width))


def least_by_search(dim: int, k: int, worst: Callable[[float], float], mu: float) -> float:
    """min over t = s2^2/s1^2 of (k + q t) worst(t) / mu^2; worst(t) = max of a^2 + b^2/t over the pairs (a, b) that occur."""
    q = dim - k

    def energy(log_t: float) -> float:
        return (k + q * math.exp(log_t)) * worst(math.exp(log_t)) / mu**2

    found = scipy.optimize.minimize_scalar(energy, bounds=(-40.0, 40.0), method="bounded", options={"xatol": 1e-9})
    return float(found.fun)


# Random subspaces: draws of what they lose of a vector, and the law of what they keep.


Array = NDArray[np.float64]


def lost_energy(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    """Squared relative errors |g - B^T B g|^2 / |g|^2 for one fixed g and orthonormalised Gaussian rows."""
    vector = np.arange(1.0, dim + 1)
    basis = np.linalg.qr(rng.standard_normal((n, dim, subspace_dim)))[0]
    return np.asarray(1 - np.square(vector @ basis).sum(axis=-1) / float(vector @ vector))


def kept_law(dim: int, k: int) -> Any:
    """Share of energy that a random subspace keeps."""
    return scipy.stats.beta(k / 2, (dim - k) / 2)
