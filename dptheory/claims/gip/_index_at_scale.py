"""The index mechanism at users' sizes: its law and its distances, by counting index sets in integers."""

import math
from fractions import Fraction
from functools import cache

import numpy as np

from dptheory.claims.gip._gaussian import swap_weights
from dptheory.pruning import SubsetMallows

WEIGHT = Fraction(4, 5)
SIZES = ((20_000, 5), (20_000, 19_996), (10**6, 2))
"""Groups with few entries in or out of the index set, so that the index sets can be counted."""
DISTANCES = ((7, 3), (8, 6), *SIZES, (20_000, 10_000), (2_700_032, 270_003))
"""Groups of users' sizes for what needs no counting."""


def model_of(dim: int, keep: int, weight: Fraction) -> SubsetMallows:
    """The mechanism with e^-theta = weight."""
    return SubsetMallows(dim, keep, theta=-math.log(weight))


def log_of(value: Fraction) -> float:
    """log of a fraction of any size, precise next to 1."""
    if 2 * value > 1 and value < 2:
        return math.log1p(float(value - 1))
    return math.log(value.numerator) - math.log(value.denominator)


def normalised(law: dict[int, Fraction]) -> dict[int, Fraction]:
    total = sum(law.values())
    return {j: p / total for j, p in law.items()}


@cache
def counted_swaps(dim: int, keep: int, weight: Fraction) -> dict[int, Fraction]:
    """P(i swapped pairs), by counting."""
    weights = {
        i: math.comb(keep, i) * math.comb(dim - keep, i) * weight ** (2 * i) for i in range(min(keep, dim - keep) + 1)
    }
    return normalised(weights)


def counted_mean_swaps(dim: int, keep: int, theta: float) -> float:
    """E[i], by counting the index sets i swaps away."""
    weights = swap_weights(dim, keep, theta)
    return float(weights @ np.arange(weights.size) / weights.sum())


@cache
def apart(dim: int, keep: int) -> int:
    """Places in which the first ``keep`` entries and the last ``keep`` differ: two index sets as far apart as they can be."""
    first, last = np.zeros(dim, dtype=np.bool_), np.zeros(dim, dtype=np.bool_)
    first[:keep], last[dim - keep :] = True, True
    return int(np.count_nonzero(first ^ last))
