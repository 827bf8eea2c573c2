"""rs.loss_divisor: losses divided by the weights of the whole batch."""

import itertools
from fractions import Fraction
from functools import partial

from dptheory import privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _loss_divisor
from dptheory.claims.rs.alg1_divisor import printed_delta

_OWN = {"add-remove": 1, "replace-one": 2}

row = new_row(
    id="rs.loss_divisor",
    source=Source("rs", "new, on Algorithm 1, lines 3 to 6"),
    ours=True,
    verdict=Verdict.HOLDS,
    calculators=(privacy.weighted_mean_sensitivity,),
    proved=True,
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
        privacy.weighted_mean_sensitivity(
            batch_size=size, clip_norm=float(clip), weight_ratio=float(ratio), adjacency=adjacency
        ),
        lambda: _loss_divisor.largest_move(size, ratio, clip, adjacency),
        _OWN[adjacency] * clip,
    )


@row.equal(
    *itertools.product((64, 512, 10_000, 10**9), (2, 50, 1000, 10**6), ("add-remove", "replace-one")), tolerance=1e-14
)
def _(size: int, ratio: int, adjacency: str) -> Sides:
    """attained in batches of users' sizes, in fractions"""
    first, second = _loss_divisor.worst_sums(size, Fraction(ratio), Fraction(1), adjacency)
    found = privacy.weighted_mean_sensitivity(
        batch_size=size, clip_norm=1.0, weight_ratio=float(ratio), adjacency=adjacency
    )
    return found, first - second, _OWN[adjacency]


def _slack(bound: float, size: int, ratio: float, replaced: int, point: dict[str, float]) -> float:
    rows = [(ratio ** point[f"w{j}"], point["longer"] * point[f"g{j}"]) for j in range(4)]
    shared, old, new = rows[: size - 1], rows[2:3], rows[3:]
    return bound - _loss_divisor.move((*shared, *(old if replaced else ())), (*shared, *new))


def _bound(size: int, ratio: float, replaced: int) -> float:
    adjacency = "replace-one" if replaced else "add-remove"
    return privacy.weighted_mean_sensitivity(batch_size=size, clip_norm=1.0, weight_ratio=ratio, adjacency=adjacency)


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
    first, second = _loss_divisor.worst_sums(size, Fraction(ratio), Fraction(1), adjacency)
    found = privacy.weighted_mean_sensitivity(
        batch_size=size, clip_norm=1.0, weight_ratio=float(ratio), adjacency=adjacency
    )
    return (
        privacy.gaussian_delta(found / sigma, epsilon),
        lambda: _loss_divisor.gaussian_step_delta(float(first), float(second), sigma, epsilon),
        privacy.gaussian_delta(_OWN[adjacency] / sigma, epsilon),
    )


def _covered(worth: float, epsilon: float, rate: float, sigma: float, ratio: float, point: dict[str, float]) -> float:
    batch = [(ratio ** point[f"w{j}"], point[f"g{j}"]) for j in range(3)]
    return printed_delta(epsilon, rate, sigma / worth) - _loss_divisor.sampled_delta(epsilon, rate, sigma, batch)


def _uncovered_slack(epsilon: float, rate: float, sigma: float, ratio: float, **point: float) -> float:
    """Wrong statement: at sigma itself."""
    return _covered(1.0, epsilon, rate, sigma, ratio, point)


@row.inequality(
    {
        "epsilon": Range(0.0, 1.0),
        "rate": Range(0.05, 0.95),
        "sigma": Range(0.5, 10.0, log=True),
        "ratio": Range(1.0, 30.0, log=True),
        **{f"w{j}": Range(0.0, 1.0) for j in range(3)},
        **{f"g{j}": Range(-2.0, 2.0) for j in range(3)},
    },
    wrong=_uncovered_slack,
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
        lambda: _loss_divisor.largest_move(size, ratio, Fraction(1), adjacency, _loss_divisor.own_sum),
        lambda: _loss_divisor.largest_move(max(size, 2), ratio, Fraction(1), adjacency),
    )


@row.equal(lambda: itertools.product((1, 2, 3), (Fraction(1), Fraction(3), Fraction(10))))
def _(size: int, ratio: Fraction) -> Sides:
    """a constant in front of the weighted mean, one record that joins, over the same grid, in fractions"""
    # so many as to bring the gradients of the grid to the clip where the others stand alone
    summed = partial(_loss_divisor.constant_sum, factor=max(size - 1, 1))
    return (
        1 + (size - 1) * ratio / (size - 1 + ratio),
        lambda: _loss_divisor.largest_move(size, ratio, Fraction(1), "add-remove", summed),
        lambda: _loss_divisor.largest_move(max(size, 2), ratio + 1, Fraction(1), "add-remove"),
    )
