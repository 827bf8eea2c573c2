import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import scipy

from dptheory import privacy, pruning
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _at_scale, _finite
from dptheory.claims.gip._finite import gaussian_log_delta, model_of
from dptheory.privacy.methods import references
from dptheory.pruning import SubsetMallows

_WEIGHTS = (Fraction(1, 2), Fraction(9, 10))


def _pair(dim: int, keep: int, pairs: int) -> tuple[_finite.Subset, _finite.Subset]:
    """Two references ``pairs`` swaps apart."""
    return tuple(j < keep for j in range(dim)), tuple(pairs <= j < keep + pairs for j in range(dim))


@cache
def _loss(dim: int, keep: int, weight: Fraction, pairs: int) -> dict[int, Fraction]:
    """P(loss = 2 theta j) by summing over all outputs."""
    first, second = _pair(dim, keep, pairs)
    law: dict[int, Fraction] = {}
    for out, p in _finite.mallows(first, weight).items():
        j = (_finite.hamming(out, second) - _finite.hamming(out, first)) // 2
        law[j] = law.get(j, Fraction(0)) + p
    return law


def _delta(law: dict[int, Fraction], weight: Fraction, at: int) -> Fraction:
    """delta(epsilon) at epsilon = 2 theta * at."""
    return sum((p * (1 - weight ** (2 * (j - at))) for j, p in law.items() if j > at), Fraction(0))


def _sum_law(law: dict[int, Fraction], count: int) -> dict[int, Fraction]:
    total = {0: Fraction(1)}
    for _ in range(count):
        step: dict[int, Fraction] = {}
        for s, p in total.items():
            for j, r in law.items():
                step[s + j] = step.get(s + j, Fraction(0)) + p * r
        total = step
    return total


def _stated_loss(dim: int, keep: int, weight: Fraction, pairs: int, j: int) -> float:
    law = privacy.index_sets.loss_law(mechanism=model_of(dim, keep, weight), distance=2 * pairs)
    return math.exp(law.log_pmf[j - law.low])


def _independent_loss(dim: int, keep: int, weight: Fraction, pairs: int, j: int) -> float:
    """The loss if all pairs were split and answered one by one: randomised response."""
    up = float(1 / (1 + weight**2))
    ones, odd = divmod(j + pairs, 2)
    return 0.0 if odd else math.comb(pairs, ones) * up**ones * (1 - up) ** (pairs - ones)


def _loss_cases() -> Iterator[tuple[int, int, Fraction, int, int]]:
    for dim, keep in _finite.SIZES:
        for weight in _WEIGHTS:
            for pairs in range(1, min(keep, dim - keep) + 1):
                for j in _loss(dim, keep, weight, pairs):
                    yield dim, keep, weight, pairs, j


_COMPOSED = [
    (*size, weight, count, at)
    for size in ((4, 2), (6, 2), (7, 4))
    for weight in _WEIGHTS
    for count in (1, 5, 30)
    for at in (0, 2, 9)
    if at < min(size[1], size[0] - size[1]) * count
]


@cache
def _composed_delta(dim: int, keep: int, weight: Fraction, count: int, at: int) -> float:
    law = _sum_law(_loss(dim, keep, weight, min(keep, dim - keep)), count)
    return float(_delta(law, weight, at))


def _stated_delta(dim: int, keep: int, weight: Fraction, count: int, at: int) -> float:
    model = model_of(dim, keep, weight)
    return privacy.index_sets.loss_law(mechanism=model).delta(epsilon=2 * model.theta * at, count=count)


def _moment(dim: int, keep: int, weight: Fraction, pairs: int, order: int) -> Fraction:
    """E[(P_A / P_B)^(order - 1)] under P_A."""
    law = _loss(dim, keep, weight, pairs)
    return sum((p / weight ** (2 * j * (order - 1)) for j, p in law.items()), Fraction(0))


def _split_factor(weight: Fraction, order: int) -> Fraction:
    """cosh((2a-1) theta) / cosh theta."""
    return (weight ** (2 * order - 1) + weight ** (1 - 2 * order)) / (weight + 1 / weight)


def _all_split_moment(dim: int, keep: int, weight: Fraction, pairs: int, order: int) -> Fraction:
    """Wrong statement: every pair is split."""
    return Fraction(_split_factor(weight, order) ** pairs)


def _split_moment(dim: int, keep: int, weight: Fraction, pairs: int, order: int) -> Fraction:
    """E[(cosh((2a-1) theta) / cosh theta)^J], J the number of split pairs, drawn around the other reference."""
    one = _split_factor(weight, order)
    _, second = _pair(dim, keep, pairs)
    return sum(
        (
            p * one ** sum(out[i] != out[keep + i] for i in range(pairs))
            for out, p in _finite.mallows(second, weight).items()
        ),
        Fraction(0),
    )


def _moment_cases() -> Iterator[tuple[int, int, Fraction, int, int]]:
    for dim, keep in _finite.SIZES:
        for weight in _WEIGHTS:
            for pairs in range(1, min(keep, dim - keep) + 1):
                for order in (2, 5):
                    yield dim, keep, weight, pairs, order


def _is_dominated(dim: int, keep: int, weight: Fraction) -> bool:
    """delta of every nearer pair at most that of the next farther one, at all lattice points (delta is convex between)."""
    laws = [_loss(dim, keep, weight, pairs) for pairs in range(1, min(keep, dim - keep) + 1)]
    return all(
        _delta(near, weight, at) <= _delta(far, weight, at)
        for near, far in itertools.pairwise(laws)
        for at in range(-len(laws), len(laws))
    )


def _small_constant(dim: int, keep: int) -> float:
    """Limit of D_a / (a theta^2) as theta -> 0 at the largest distance."""
    k = keep / dim
    return 4 * k * (1 - k) * min(keep, dim - keep) * dim / (dim - 1)


def _renyi(dim: int, keep: int, theta: float, order: float) -> float:
    return privacy.index_sets.loss_law(mechanism=SubsetMallows(dim, keep, theta=theta)).renyi(order=order)


def _leading_slack(dim: float, keep_share: float, theta: float, order: float) -> float:
    """Wrong statement: the constant of small theta bounds every theta."""
    size, keep = _finite.sizes(dim, keep_share)
    return 1 - _renyi(size, keep, theta, order) / (order * theta**2 * _small_constant(size, keep))


def _gaussian_short_slack(rho: float, log_delta: float) -> float:
    epsilon = 0.9 * privacy.zcdp_epsilon(zcdp_rho=rho, delta=math.exp(log_delta))
    return log_delta - gaussian_log_delta(math.sqrt(2 * rho), epsilon)


def _many_delta(count: int, theta: float, epsilon: float) -> float:
    """delta of very many releases with d = 2: their losses are +-2 theta, so the sum is binomial."""
    up = 1 / (1 + math.exp(-2 * theta))
    least = math.floor((epsilon / (2 * theta) + count) / 2)  # more gains than this exceed epsilon
    return float(
        scipy.stats.binom.sf(least, count, up) - math.exp(epsilon) * scipy.stats.binom.sf(least, count, 1 - up)
    )


def _many(count: int, spread: float, epsilon: float) -> float:
    return privacy.index_sets.loss_law(mechanism=SubsetMallows(2, 1, theta=spread / math.sqrt(count))).delta(
        epsilon=epsilon, count=count
    )


_COUNTS = [(count, spread, eps) for count in (4 * 10**9, 10**12) for spread in (0.05, 0.3) for eps in (0.0, 0.2, 1.0)]


row = new_row(
    id="gip.tight",
    source=Source("gip", "new, on Theorems 1 and 2, section 4.2"),
    verdict=Verdict.HOLDS,
    calculators=(
        privacy.index_sets.loss_law,
        privacy.index_sets.LatticeLoss.delta,
        privacy.index_sets.LatticeLoss.epsilon,
        privacy.index_sets.LatticeLoss.renyi,
        privacy.index_sets.composed,
        references.IndexPRV.cdf,
        references.IndexPRV.pdf,
        references.IndexPRV.probability,
        references.IndexPRV.mean,
        references.IndexPRV.rdp,
        privacy.index_sets.theta_for_delta_budget,
        privacy.index_sets.retained_gain_for_delta_budget,
        privacy.index_sets.epsilon_for_retained_gain,
        pruning.theta_for_retained_gain,
        pruning.SubsetMallows.zcdp,
        privacy.zcdp_epsilon,
        privacy.zcdp_budget,
    ),
    figure="theta_accounting",
)


@row.equal(_loss_cases, tolerance=1e-12)
def _(dim: int, keep: int, weight: Fraction, pairs: int, j: int) -> Sides:
    """law of the loss by enumeration"""
    return (
        _stated_loss(dim, keep, weight, pairs, j),
        lambda: _loss(dim, keep, weight, pairs)[j],
        _independent_loss(dim, keep, weight, pairs, j),
    )


@row.equal(lambda: _COMPOSED, tolerance=1e-10)
def _(dim: int, keep: int, weight: Fraction, count: int, at: int) -> Sides:
    """composed delta in fractions"""
    return (
        _stated_delta(dim, keep, weight, count, at),
        lambda: _composed_delta(dim, keep, weight, count, at),
        _stated_delta(dim, keep, weight, count + 1, at),
    )


@row.equal(lambda: [case for case in _COMPOSED if case[4] > 0], tolerance=1e-5)
def _(dim: int, keep: int, weight: Fraction, count: int, at: int) -> Sides:
    """composed epsilon in fractions"""
    return (
        privacy.index_sets.loss_law(mechanism=model_of(dim, keep, weight)).epsilon(
            delta=_composed_delta(dim, keep, weight, count, at), count=count
        ),
        -2 * math.log(weight) * at,
        -2 * math.log(weight) * (at + 1),
    )


@row.equal(_moment_cases)
def _(dim: int, keep: int, weight: Fraction, pairs: int, order: int) -> Sides:
    """split pairs are randomised responses"""
    return (
        _split_moment(dim, keep, weight, pairs, order),
        lambda: _moment(dim, keep, weight, pairs, order),
        _all_split_moment(dim, keep, weight, pairs, order),
    )


@row.equal(lambda: [case for case in _moment_cases() if case[3] == min(case[1], case[0] - case[1])], tolerance=1e-10)
def _(dim: int, keep: int, weight: Fraction, pairs: int, order: int) -> Sides:
    """Renyi divergence by enumeration"""
    return (
        _renyi(dim, keep, -math.log(weight), order),
        lambda: math.log(_moment(dim, keep, weight, pairs, order)) / (order - 1),
        math.log(_all_split_moment(dim, keep, weight, pairs, order)) / (order - 1),
    )


@row.equal(lambda: [(*size, weight) for size in _finite.SIZES for weight in _WEIGHTS])
def _(dim: int, keep: int, weight: Fraction) -> Sides:
    """the farthest pair dominates"""
    return True, lambda: _is_dominated(dim, keep, weight), min(keep, dim - keep) == 1


@row.inequality(
    {
        "dim": Range(2, 300, log=True),
        "keep_share": Range(0, 1),
        "theta": Range(1e-6, 3, log=True),
        "order": Range(1.01, 500, log=True),
    },
    wrong=_leading_slack,
    tolerance=1e-10,
)
def _zcdp_slack(dim: float, keep_share: float, theta: float, order: float) -> float:
    """zCDP at every order"""
    size, keep = _finite.sizes(dim, keep_share)
    model = SubsetMallows(size, keep, theta=theta)
    return 1 - _renyi(size, keep, theta, order) / (order * model.zcdp(2 * model.max_swaps))


@row.equal((2.0, 1e-6), (30.0, 1e-7), tolerance=1e-6)
def _(order: float, theta: float) -> Sides:
    """zCDP constant is reached"""
    return (
        SubsetMallows(2, 1, theta=theta).zcdp(2),
        lambda: _renyi(2, 1, theta, order) / order,
        SubsetMallows(2, 1, theta=theta).zcdp(2) / 4,  # the rate of the exponential mechanism
    )


@row.equal(
    lambda: [(*size, order) for size in ((2, 1), (8, 3), (256, 26), (1000, 500)) for order in (1.5, 8.0)],
    tolerance=1e-5,
)
def _(dim: int, keep: int, order: float) -> Sides:
    """constant for small theta"""
    return (
        1e-16 * _small_constant(dim, keep),
        lambda: _renyi(dim, keep, 1e-8, order) / order,
        SubsetMallows(dim, keep, theta=1e-8).zcdp(2 * min(keep, dim - keep)),
    )


@row.inequality(
    {"rho": Range(1e-4, 10, log=True), "log_delta": Range(-34, -3)}, wrong=_gaussian_short_slack, tolerance=1e-9
)
def _gaussian_slack(rho: float, log_delta: float) -> float:
    """zCDP conversion against the exact Gaussian"""
    epsilon = privacy.zcdp_epsilon(zcdp_rho=rho, delta=math.exp(log_delta))
    return log_delta - gaussian_log_delta(math.sqrt(2 * rho), epsilon)


@row.equal(lambda: _COUNTS, tolerance=2e-3)
def _(count: int, spread: float, epsilon: float) -> Sides:
    """very many releases: delta by the binomial law"""
    return (
        _many(count, spread, epsilon),
        lambda: _many_delta(count, spread / math.sqrt(count), epsilon),
        1.01 * _many(count, spread, epsilon),
    )


@row.equal(lambda: _COUNTS)
def _(count: int, spread: float, epsilon: float) -> Sides:
    """very many releases: delta is never too small"""
    return (
        _many(count, spread, epsilon) >= (1 - 1e-7) * _many_delta(count, spread / math.sqrt(count), epsilon),
        True,
        0.998 * _many(count, spread, epsilon) >= _many_delta(count, spread / math.sqrt(count), epsilon),
    )


@row.equal((1.0, 10**10), (0.1, 10**11), (3.0, 10**12), tolerance=2e-3)
def _(epsilon: float, count: int) -> Sides:
    """very many releases: theta spends delta"""
    return (
        _many_delta(
            count,
            privacy.index_sets.theta_for_delta_budget(epsilon=epsilon, delta=1e-5, dim=2, keep=1, steps=count),
            epsilon,
        ),
        1e-5,
        _many_delta(
            count,
            privacy.index_sets.theta_for_delta_budget(
                epsilon=epsilon, delta=1e-5, dim=2, keep=1, steps=count, groups=1, method="zcdp"
            ),
            epsilon,
        ),
    )


_at_scale.add_run_checks(row)
_at_scale.add_loss_checks(row)
