"""Sums of numbers that are given by their logarithms, and exponential moments of a loss on a lattice."""

import math

import numpy as np
from numpy.typing import NDArray


def log_sum(logs: NDArray[np.float64]) -> float:
    """log of the sum of e^logs; many times faster than SciPy's on short arrays."""
    largest = float(logs.max())
    return largest + math.log(float(np.exp(logs - largest).sum())) if math.isfinite(largest) else largest


def log_sums(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """:func:`log_sum` of every row, each with a finite entry."""
    largest = logs.max(axis=1)
    return np.asarray(largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1)))


# --- Exponential moments of a privacy loss on a lattice, at many exponents at once


Array = NDArray[np.float64]

_BLOCK = 2**16  # numbers held at once


def log_moments(low: int, log_pmf: Array, spacing: float, excess: Array, *, paired: bool) -> Array:
    """log E[e^(excess L)] of a loss on the lattice for every excess, precise where it is small.

    ``paired``: E[e^-L; L = -s] = P(L = s), as of two index sets; of no other law is that taken for granted.
    """
    j = low + np.arange(log_pmf.size, dtype=np.float64)
    found = np.empty(excess.shape)
    rows = max(1, _BLOCK // j.size)
    for start in range(0, excess.size, rows):
        found[start : start + rows] = log_sums(log_pmf + np.multiply.outer(excess[start : start + rows] * spacing, j))
    small = np.flatnonzero(found < 1e-3)
    if small.size == 0:
        return found
    # E[e^-L] = 1 takes the part that is linear in j away; the rest is >= 0 and loses no digits.
    # E[e^-L; L = -s] = P(L = s): where -s is left out its part of E[e^-L] has to come from there.
    mirror = np.rint(-j - low)
    inside = (mirror >= 0) & (mirror < j.size)
    alone = ~inside | np.isneginf(log_pmf[np.where(inside, mirror, 0).astype(np.intp)])
    pmf, linear = np.exp(log_pmf), expm1_minus(-spacing * j) + alone if paired else spacing * j
    for start in range(0, small.size, rows):
        few = small[start : start + rows]
        curved = expm1_minus(np.multiply.outer(excess[few] * spacing, j)) + np.multiply.outer(excess[few], linear)
        found[few] = np.log1p(curved @ pmf)
    return found


def expm1_minus(x: Array) -> Array:
    """e^x - 1 - x, precise for small x."""
    near = np.clip(x, -0.1, 0.1)
    series = np.zeros_like(near)
    for n in range(12, 1, -1):
        series = (1.0 + series) * near / n
    return np.asarray(np.where(np.abs(x) <= 0.1, series * near, np.expm1(x) - x))
