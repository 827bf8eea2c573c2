"""Clipped sums of losses that are weighted means over the batch, from the loss on: by enumeration, in fractions, on a grid."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from scipy.stats import norm

Record = tuple[Fraction, Fraction]
"""Weight, and gradient of the record's own loss, in one dimension."""


def clipped_sum(batch: Sequence[Record], clip: Fraction) -> Fraction:
    """Sum of clip(n w_i g_i / sum w): what the engine releases before noise."""
    total = sum((weight for weight, _ in batch), Fraction(0))
    return sum((max(-clip, min(clip, len(batch) * w * g / total)) for w, g in batch), Fraction(0))


def own_sum(batch: Sequence[Record], clip: Fraction) -> Fraction:
    """Sum of clip(w_i g_i): weights by hand, divided by a constant."""
    return sum((max(-clip, min(clip, w * g)) for w, g in batch), Fraction(0))


def constant_sum(batch: Sequence[Record], clip: Fraction, factor: int) -> Fraction:
    """Sum of clip(B w_i g_i / sum w) with a constant B."""
    total = sum((weight for weight, _ in batch), Fraction(0))
    return sum((max(-clip, min(clip, factor * w * g / total)) for w, g in batch), Fraction(0))


def largest_move(
    size: int, ratio: Fraction, clip: Fraction, adjacency: str, summed: Callable[..., Fraction] = clipped_sum
) -> Fraction:
    """How far one record moves the sum, over all batches of a grid: weights 1, R and between, gradients up to 2 C."""
    weights = dict.fromkeys((Fraction(1), (1 + ratio) / 2, ratio))
    gradients = [clip * share for share in (Fraction(-1), Fraction(-1, 2), Fraction(0), Fraction(1, 2), Fraction(1), 2)]
    records = list(itertools.product(weights, gradients))
    largest = Fraction(0)
    for others in itertools.combinations_with_replacement(records, size - 1):
        sums = [summed((*others, record), clip) for record in records]
        without = summed(others, clip) if others else Fraction(0)
        found = max(sums) - min(sums) if adjacency == "replace-one" else max(abs(one - without) for one in sums)
        largest = max(largest, found)
    return largest


def worst_sums(size: int, ratio: Fraction, clip: Fraction, adjacency: str) -> tuple[Fraction, Fraction]:
    """Clipped sums of two batches: m - 1 records of weight 1 at the clip; one of weight R that points the other way joins, or
    takes the place of one like them. Alike records are counted."""
    total = size - 1 + ratio
    after = (size - 1) * min(clip, size * clip / total) - min(clip, size * ratio * clip / total)
    return (size if adjacency == "replace-one" else size - 1) * clip, after


def gaussian_step_delta(first: float, second: float, std: float, epsilon: float) -> float:
    """delta of a step on the whole data: both densities on a grid, by the trapezoidal rule."""
    low, high = sorted((first, second))
    y = np.linspace(low - 10 * std, high + 10 * std, 40_001)
    gap = norm.pdf(y, first, std) - math.exp(epsilon) * norm.pdf(y, second, std)
    return float(np.trapezoid(np.maximum(gap, 0.0), y))


def move(batch: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> float:
    """Distance of the clipped sums of two batches, C = 1, one dimension."""
    return abs(_sum(batch) - _sum(other))


def _sum(batch: Sequence[tuple[float, float]]) -> float:
    total = sum(weight for weight, _ in batch)
    return sum(max(-1.0, min(1.0, len(batch) * w * g / total)) for w, g in batch)


_GRID = np.linspace(-14.0, 14.0, 1401)


def sampled_delta(epsilon: float, rate: float, sigma: float, batch: Sequence[tuple[float, float]]) -> float:
    """delta of a Poisson-sampled step with and without the last record, C = 1, one dimension; worst direction."""
    laws = []
    for records in (batch, batch[:-1]):
        law = np.zeros(_GRID.size)
        for drawn in itertools.product((False, True), repeat=len(records)):
            chosen = [record for record, one in zip(records, drawn, strict=True) if one]
            chance = rate ** len(chosen) * (1 - rate) ** (len(records) - len(chosen))
            law += chance * np.exp(-((_GRID - _sum(chosen) / sigma) ** 2) / 2)
        laws.append(law)
    gaps = [p - math.exp(epsilon) * q for p, q in (laws, laws[::-1])]
    return max(float(np.maximum(gap, 0.0).sum()) for gap in gaps) * float(_GRID[1] - _GRID[0]) / math.sqrt(2 * math.pi)
