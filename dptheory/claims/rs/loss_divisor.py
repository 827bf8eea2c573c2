import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs.alg1_divisor import printed_delta

# Clipped sums of losses that are weighted means over the batch, from the loss on: by enumeration, in fractions, on a grid.


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
    gap = scipy.stats.norm.pdf(y, first, std) - math.exp(epsilon) * scipy.stats.norm.pdf(y, second, std)
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


_OWN = {"add-remove": 1, "replace-one": 2}

row = new_row(
    id="rs.loss_divisor",
    source=Source("rs", "new, on Algorithm 1, lines 3 to 6"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.clipping.weighted_mean_sensitivity,),
)


@row.equal(
    lambda: itertools.product(
        (1, 2, 3),
        (Fraction(1), Fraction(3), Fraction(10)),
        (Fraction(1), Fraction(3, 4)),
        ("add-remove", "replace-one"),
    ),
    tolerance=1e-15,
    kind=Kind.COUNTEREXAMPLE,
)
def _(size: int, ratio: Fraction, clip: Fraction, adjacency: str) -> Sides:
    """how far a record moves the sum, over all batches of a grid, in fractions"""
    return (
        privacy.clipping.weighted_mean_sensitivity(
            batch_size=size, clip_norm=float(clip), weight_ratio=float(ratio), adjacency=adjacency
        ),
        lambda: largest_move(size, ratio, clip, adjacency),
        _OWN[adjacency] * clip,
    )


@row.equal(
    *itertools.product((64, 512, 10_000, 10**9), (2, 50, 1000, 10**6), ("add-remove", "replace-one")), tolerance=1e-14
)
def _(size: int, ratio: int, adjacency: str) -> Sides:
    """attained in batches of users' sizes, in fractions"""
    first, second = worst_sums(size, Fraction(ratio), Fraction(1), adjacency)
    found = privacy.clipping.weighted_mean_sensitivity(
        batch_size=size, clip_norm=1.0, weight_ratio=float(ratio), adjacency=adjacency
    )
    return found, first - second, _OWN[adjacency]


def _slack(bound: float, size: int, ratio: float, replaced: int, point: dict[str, float]) -> float:
    rows = [(ratio ** point[f"w{j}"], point["longer"] * point[f"g{j}"]) for j in range(4)]
    shared, old, new = rows[: size - 1], rows[2:3], rows[3:]
    return bound - move((*shared, *(old if replaced else ())), (*shared, *new))


def _bound(size: int, ratio: float, replaced: int) -> float:
    adjacency = "replace-one" if replaced else "add-remove"
    return privacy.clipping.weighted_mean_sensitivity(
        batch_size=size, clip_norm=1.0, weight_ratio=ratio, adjacency=adjacency
    )


def _one_more_slack(size: int, ratio: float, replaced: int, **point: float) -> float:
    """Wrong statement: m + R below the line."""
    bound = 1.0 + replaced + (size - 1) * (ratio - 1) / (size + ratio)
    return _slack(bound, size, ratio, replaced, point)


@row.inequality(
    {
        "size": Range(2, 3, integer=True),
        "ratio": Range(2.0, 30.0, log=True),
        "replaced": Range(0, 1, integer=True),
        **{f"w{j}": Range(0.0, 1.0) for j in range(4)},
        **{f"g{j}": Range(-1.0, 1.0) for j in range(4)},
        "longer": Range(1.0, 3.0),
    },
    wrong=_one_more_slack,
    tolerance=1e-12,
)
def _moved_slack(size: int, ratio: float, replaced: int, **point: float) -> float:
    """no batches of two or three records are further apart"""
    return _slack(_bound(size, ratio, replaced), size, ratio, replaced, point)


@row.equal(
    *itertools.product((2, 64, 512), (3, 50), ("add-remove", "replace-one"), (1.0, 5.0), (0.0, 0.1)),
    tolerance=1e-6,  # of the rule at the kink: step^2 / 8 times the slope there, over delta > 0.05
)
def _(size: int, ratio: int, adjacency: str, sigma: float, epsilon: float) -> Sides:
    """delta of one step on the whole data, by quadrature"""
    first, second = worst_sums(size, Fraction(ratio), Fraction(1), adjacency)
    found = privacy.clipping.weighted_mean_sensitivity(
        batch_size=size, clip_norm=1.0, weight_ratio=float(ratio), adjacency=adjacency
    )
    return (
        privacy.gaussian_delta(found / sigma, epsilon),
        lambda: gaussian_step_delta(float(first), float(second), sigma, epsilon),
        privacy.gaussian_delta(_OWN[adjacency] / sigma, epsilon),
    )


def _covered(worth: float, epsilon: float, rate: float, sigma: float, ratio: float, point: dict[str, float]) -> float:
    batch = [(ratio ** point[f"w{j}"], point[f"g{j}"]) for j in range(3)]
    return printed_delta(epsilon, rate, sigma / worth) - sampled_delta(epsilon, rate, sigma, batch)


@row.inequality(
    {
        "epsilon": Range(0.0, 1.0),
        "rate": Range(0.05, 0.95),
        "sigma": Range(0.5, 10.0, log=True),
        "ratio": Range(1.0, 30.0, log=True),
        **{f"w{j}": Range(0.0, 1.0) for j in range(3)},
        **{f"g{j}": Range(-2.0, 2.0) for j in range(3)},
    },
    # wrong: at sigma itself
    wrong=lambda epsilon, rate, sigma, ratio, **point: _covered(1.0, epsilon, rate, sigma, ratio, point),
    tolerance=1e-5,  # of the sum over the grid
)
def _sampled_slack(epsilon: float, rate: float, sigma: float, ratio: float, **point: float) -> float:
    """three records in Poisson batches are covered by the smaller noise multiplier"""
    return _covered(_bound(3, ratio, 0), epsilon, rate, sigma, ratio, point)


@row.equal(
    lambda: itertools.product((1, 2, 3), (Fraction(3), Fraction(10)), ("add-remove", "replace-one")),
    kind=Kind.EXACT,
)
def _(size: int, ratio: Fraction, adjacency: str) -> Sides:
    """weights by hand over a constant, over all batches of the same grid, in fractions"""
    return (
        _OWN[adjacency],
        lambda: largest_move(size, ratio, Fraction(1), adjacency, own_sum),
        lambda: largest_move(max(size, 2), ratio, Fraction(1), adjacency),
    )


@row.equal(lambda: itertools.product((1, 2, 3), (Fraction(1), Fraction(3), Fraction(10))))
def _(size: int, ratio: Fraction) -> Sides:
    """a constant in front of the weighted mean, one record that joins, over the same grid, in fractions"""
    # so many as to bring the gradients of the grid to the clip where the others stand alone
    summed = partial(constant_sum, factor=max(size - 1, 1))
    return (
        1 + (size - 1) * ratio / (size - 1 + ratio),
        lambda: largest_move(size, ratio, Fraction(1), "add-remove", summed),
        lambda: largest_move(max(size, 2), ratio + 1, Fraction(1), "add-remove"),
    )
