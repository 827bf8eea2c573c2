import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import get_args

import numpy as np
import scipy

from dptheory import privacy, pruning
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._finite import (
    DISTANCES,
    LARGE_SIZES,
    WEIGHT,
    Loss,
    apart,
    best_on_grid,
    counted_delta,
    counted_gain,
    counted_loss,
    enumerated_loss,
    gain,
    gaussian_log_delta,
    log_comb,
    log_of,
    model_of,
    odds_of_one,
    together,
)
from dptheory.privacy.index_sets._budgets import Method
from dptheory.privacy.methods import references
from dptheory.pruning import SubsetMallows

_WEIGHTS = (Fraction(1, 2), Fraction(9, 10))


def _delta(law: Loss, weight: Fraction, at: int) -> Fraction:
    """delta(epsilon) at epsilon = 2 theta * at."""
    return sum((p * (1 - weight ** (2 * (j - at))) for j, p in law.items() if j > at), Fraction(0))


def _independent_loss(dim: int, keep: int, weight: Fraction, pairs: int, j: int) -> float:
    """The loss if all pairs were split and answered one by one: randomised response."""
    up = float(1 / (1 + weight**2))
    ones, odd = divmod(j + pairs, 2)
    return 0.0 if odd else math.comb(pairs, ones) * up**ones * (1 - up) ** (pairs - ones)


def _loss_cases() -> Iterator[tuple[int, int, Fraction, int, int]]:
    for dim, keep in _finite.SIZES:
        for weight in _WEIGHTS:
            for pairs in range(1, min(keep, dim - keep) + 1):
                for j in enumerated_loss(dim, keep, weight, pairs):
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
    law = together([enumerated_loss(dim, keep, weight, min(keep, dim - keep))] * count)
    return float(_delta(law, weight, at))


def _stated_delta(dim: int, keep: int, weight: Fraction, count: int, at: int) -> float:
    model = model_of(dim, keep, weight)
    return privacy.index_sets.loss_law(mechanism=model).delta(epsilon=2 * model.theta * at, count=count)


def _moment(dim: int, keep: int, weight: Fraction, pairs: int, order: int) -> Fraction:
    """E[(P_A / P_B)^(order - 1)] under P_A."""
    law = enumerated_loss(dim, keep, weight, pairs)
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
    _, second = _finite.references(dim, keep, pairs)
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
    laws = [enumerated_loss(dim, keep, weight, pairs) for pairs in range(1, min(keep, dim - keep) + 1)]
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


def _zcdp_room(
    zcdp: Callable[[SubsetMallows], float], dim: float, keep_share: float, theta: float, order: float
) -> float:
    """By how much the divergence at the largest distance stays below order * rho, relative to that."""
    size, keep = _finite.sizes(dim, keep_share)
    return 1 - _renyi(size, keep, theta, order) / (order * zcdp(SubsetMallows(size, keep, theta=theta)))


def _gaussian_room(rho: float, log_delta: float, share: float = 1.0) -> float:
    """log delta less that of the exact Gaussian at a share of the converted epsilon."""
    epsilon = share * privacy.zcdp_epsilon(zcdp_rho=rho, delta=math.exp(log_delta))
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


_THETA = 0.002
_PAIRS = ((7, 3, 3), (7, 3, 2), (8, 6, 2), (20_000, 5, 5), (20_000, 5, 2), (20_000, 19_996, 4), (10**6, 2, 2))
_FIELDS = ("spacing", "low", "top", "entry")


def _loss_field(field: str, dim: int, keep: int, pairs: int) -> float:
    law = counted_loss(dim, keep, WEIGHT, pairs)
    found = {"spacing": -2 * math.log(WEIGHT), "low": min(law), "top": max(law)}
    return found[field] if field in found else log_of(law[1])


def _stated_field(field: str, dim: int, keep: int, pairs: int) -> float:
    model = model_of(dim, keep, WEIGHT)
    law = privacy.index_sets.loss_law(mechanism=model, distance=None if pairs == min(keep, dim - keep) else 2 * pairs)
    return float(law.log_pmf[1 - law.low] if field == "entry" else getattr(law, field))


def _trimmed_entry(dim: int, share: float) -> float:
    """log P(j), j about ``share`` of the largest, for K = d/2 and the farthest pair: C(K, x)^2 e^(2 theta x), x = (K + j) / 2."""
    keep = dim // 2
    logs = _half_logs(keep, _THETA)
    return float(logs[round(keep * (1 + share) / 2)] - scipy.special.logsumexp(logs))


def _half_logs(keep: int, theta: float) -> Array:
    """log C(K, x)^2 e^(2 theta x), x = 0..K."""
    x = np.arange(keep + 1.0)
    return 2 * log_comb(keep, x) + 2 * theta * x


def _stated_entry(dim: int, share: float) -> float:
    law = privacy.index_sets.loss_law(mechanism=SubsetMallows(dim, dim // 2, theta=_THETA))
    return float(law.log_pmf[2 * round(dim // 2 * (1 + share) / 2) - dim // 2 - law.low])


_CUT = ((990, 495, 495, 0.05), (990, 495, 490, 0.01), (20_000, 10_000, 10_000, 0.002), (20_000, 2000, 2000, 0.01))
"""d, K, swaps and theta at which rare outcomes are left out."""


def _omitted(dim: int, keep: int, pairs: int, theta: float) -> float:
    """log(d^3 e^-230 / Z), Z the sum of all products of four binomial weights, each relative to its mode.

    The odds are tilted so that the mean size of independent choices is K, by root finding here.
    """

    def excess(tau: float) -> float:
        return float(keep * scipy.special.expit(tau + 2 * theta) + (dim - keep) * scipy.special.expit(tau)) - keep

    tau = float(scipy.optimize.brentq(excess, -50.0, 50.0, xtol=1e-15))
    swaps = np.arange(min(keep, dim - keep) + 1.0)
    total = scipy.special.logsumexp(log_comb(keep, swaps) + log_comb(dim - keep, swaps) - 2 * theta * swaps)
    modes = 0.0
    for trials, odds in (
        (pairs, tau + 2 * theta), (pairs, tau), (keep - pairs, tau + 2 * theta), (dim - keep - pairs, tau)
    ):  # fmt: skip
        n = np.arange(trials + 1.0)
        modes += float(np.max(log_comb(trials, n) + odds * n))
    return float(3 * math.log(dim) - 230 - (total + keep * (tau + 2 * theta) - modes))


def _covers_omitted(dim: int, theta: float, shift: float) -> bool:
    """K = d/2, farthest pair: is the mass outside the law at most the bound, moved by ``shift`` nats?"""
    keep = dim // 2
    law = privacy.index_sets.loss_law(mechanism=SubsetMallows(dim, keep, theta=theta))
    logs = _half_logs(keep, theta)
    j = 2 * np.arange(keep + 1) - keep
    out = (j < law.low) | (j >= law.low + law.log_pmf.size)
    return bool(scipy.special.logsumexp(logs[out]) - scipy.special.logsumexp(logs) <= law.log_omitted + shift)


# --- one index at users' sizes: K = 1 or d - 1, one release, in closed form -------------------------------------------
_ONE = (
    (6, 1, 0.5, 1e-5),
    (6, 5, 2.0, 1e-9),
    (20_000, 1, 2.0, 1e-9),
    (20_000, 19_999, 0.5, 1e-5),
    (10**6, 1, 0.5, 1e-5),
)
"""d, K, epsilon and delta."""


def _gain_of_one(dim: int, odds: float) -> float:
    return (odds - 1) / (odds + dim - 1)


def _spread_of_pair(distance: int, theta: float) -> float:
    """Divergence over the order of as many split pairs as there are, each answered by a coin, as the order tends to 1."""
    order = 1 + 1e-4
    one = math.log1p((math.cosh((2 * order - 1) * theta) - math.cosh(theta)) / math.cosh(theta))
    return distance // 2 * one / (order - 1) / order


# --- composition ------------------------------------------------------------------------------------------------------
_RUNS = ((6, 3, 3), (4, 1, 30), (20_000, 2, 7))  # d, K, releases


@cache
def _run_loss(dim: int, keep: int, releases: int) -> Loss:
    return together([counted_loss(dim, keep, WEIGHT, min(keep, dim - keep))] * releases)


def _composed_entry(what: str, dim: int, keep: int, releases: int) -> float:
    law = _run_loss(dim, keep, releases)
    return min(law) if what == "first" else log_of(law[1])


def _stated_composed(what: str, dim: int, keep: int, releases: int) -> float:
    low, log_pmf = privacy.index_sets.composed(
        loss=privacy.index_sets.loss_law(mechanism=model_of(dim, keep, WEIGHT)), count=releases
    )
    return low if what == "first" else float(log_pmf[1 - low])


def _variable(what: str, dim: int, keep: int, releases: int) -> float:
    """The sum of the losses, each atom spread evenly over the lattice step above it."""
    law, spacing = _run_loss(dim, keep, releases), -2 * math.log(WEIGHT)
    if what == "cdf":  # at a quarter of the step above 1
        return float(sum(p for j, p in law.items() if j < 1) + law[1] / 4)
    if what == "pdf":
        return float(law[1]) / spacing
    if what == "probability":  # from the middle of the step above 0 to that above 2
        return float(law.get(0, 0) / 2 + law[1] + law.get(2, 0) / 2)
    if what == "mean":
        return spacing * float(sum(j * p for j, p in law.items()) + Fraction(1, 2))
    order = int(what)  # a Renyi order, for a variable that is one step too large
    return (
        log_of(sum((p / WEIGHT ** (2 * j * (order - 1)) for j, p in law.items()), Fraction(0))) / (order - 1) + spacing
    )


def _stated_variable(what: str, dim: int, keep: int, releases: int) -> float:
    variable, spacing = (
        references.IndexPRV(mechanism=model_of(dim, keep, WEIGHT), releases=releases),
        -2 * math.log(WEIGHT),
    )
    if what == "probability":
        return float(variable.probability(0.5 * spacing, 2.5 * spacing))
    if what == "mean":
        return variable.mean()
    if what in ("cdf", "pdf"):
        return float(getattr(variable, what)(1.25 * spacing))
    return variable.rdp(float(what))


# --- A run of the index mechanism by counting: the laws of loss and swaps, what 150 releases cost, and what a budget buys


_RUN = {"dim": 40, "keep": 10, "steps": 30, "groups": 5}
_RUN_SIZE = (40, 10)
_METHODS = get_args(Method)


def _epsilon_by_counting(theta: float, delta: float, method: str) -> float:
    """What the run's 150 releases cost: 20 theta each, 20 theta^2 each, or the least of the two and of the counted law composed."""
    dim, keep, steps, groups = _RUN.values()
    releases = steps * groups
    basic, zcdp = releases * 2 * keep * theta, best_on_grid(releases * 2 * keep * theta**2, delta)
    if method != "exact":
        return basic if method == "basic" else zcdp
    exact = scipy.optimize.brentq(
        lambda epsilon: counted_delta(dim, keep, theta, releases, epsilon) - delta,
        0.0,
        basic,
        xtol=1e-14,
    )
    return min(basic, zcdp, float(exact))


def _theta_by_counting(epsilon: float, delta: float, method: str) -> float:
    """Dispersion at which the run spends the budget."""
    dim, keep, steps, groups = _RUN.values()

    def excess(theta: float) -> float:
        if method == "exact":
            return counted_delta(dim, keep, theta, steps * groups, epsilon) - delta
        return _epsilon_by_counting(theta, delta, method) - epsilon

    return float(scipy.optimize.brentq(excess, 1e-9, 1.0, xtol=1e-16, rtol=1e-9))


def _cost_by_counting(share: float, method: str) -> float:
    """Epsilon of the run at the dispersion whose gain, by the counted swaps, is this one."""
    theta = float(scipy.optimize.brentq(lambda theta: counted_gain(*_RUN_SIZE, theta) - share, 0.0, 20.0, xtol=1e-14))
    return _epsilon_by_counting(theta, 1e-5, method)


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
    law = privacy.index_sets.loss_law(mechanism=model_of(dim, keep, weight), distance=2 * pairs)
    return (
        math.exp(law.log_pmf[j - law.low]),
        lambda: enumerated_loss(dim, keep, weight, pairs)[j],
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
    # wrong: the constant of small theta bounds every theta
    wrong=lambda dim, keep_share, theta, order: _zcdp_room(
        lambda model: theta**2 * _small_constant(model.dim, model.keep), dim, keep_share, theta, order
    ),
    tolerance=1e-10,
)
def _zcdp_slack(dim: float, keep_share: float, theta: float, order: float) -> float:
    """zCDP at every order"""
    return _zcdp_room(lambda model: model.zcdp(2 * model.max_swaps), dim, keep_share, theta, order)


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
    {"rho": Range(1e-4, 10, log=True), "log_delta": Range(-34, -3)},
    # wrong: nine tenths of that epsilon are enough
    wrong=lambda rho, log_delta: _gaussian_room(rho, log_delta, 0.9),
    tolerance=1e-9,
)
def _gaussian_slack(rho: float, log_delta: float) -> float:
    """zCDP conversion against the exact Gaussian"""
    return _gaussian_room(rho, log_delta)


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


@row.equal((1e-3, 1e-5), (0.5, 1e-6), (5.0, 1e-10), tolerance=1e-5)
def _(rho: float, delta: float) -> Sides:
    """zCDP conversion at its best order"""
    return (
        privacy.zcdp_epsilon(zcdp_rho=rho, delta=delta),
        lambda: best_on_grid(rho, delta),
        rho + 2 * math.sqrt(rho * math.log(1 / delta)),
    )


@row.equal((0.01, 1e-5), (1.0, 1e-5), (8.0, 1e-9), tolerance=1e-5)
def _(epsilon: float, delta: float) -> Sides:
    """zCDP budget spends all of it, over a grid of orders"""
    return (
        best_on_grid(privacy.zcdp_budget(epsilon=epsilon, delta=delta), delta),
        epsilon,
        lambda: best_on_grid(epsilon**2 / (4 * math.log(1 / delta)), delta),
    )


def _stated_theta(epsilon: float, delta: float, method: Method) -> float:
    return privacy.index_sets.theta_for_delta_budget(epsilon=epsilon, delta=delta, method=method, **_RUN)


@row.equal(lambda: [(e, 1e-5, method) for e in (0.3, 4.0) for method in _METHODS], tolerance=1e-5)
def _(epsilon: float, delta: float, method: Method) -> Sides:
    """theta for an (epsilon, delta) budget: the loss counted and composed, theta by root finding"""
    return (
        _stated_theta(epsilon, delta, method),
        lambda: _theta_by_counting(epsilon, delta, method),
        lambda: _stated_theta(1.01 * epsilon, delta, method),
    )


@row.equal(lambda: [(g, m) for g in (1e-3, 0.1, 0.65, 0.99) for m in _METHODS], tolerance=1e-5)
def _(share: float, method: Method) -> Sides:
    """epsilon that a share of the gain costs: laws of loss and swaps counted"""
    found = privacy.index_sets.epsilon_for_retained_gain(retained_gain=share, delta=1e-5, method=method, **_RUN)
    return found, lambda: _cost_by_counting(share, method), 1.01 * found


@row.equal(lambda: [(e, 1e-5, method) for e in (0.01, 4.0) for method in _METHODS], tolerance=1e-5)
def _(epsilon: float, delta: float, method: Method) -> Sides:
    """share of the gain for a budget: laws of loss and swaps counted"""
    found = privacy.index_sets.retained_gain_for_delta_budget(epsilon=epsilon, delta=delta, method=method, **_RUN)
    # wrong: the leading term in theta, with d for d - 1
    return (
        found,
        lambda: counted_gain(*_RUN_SIZE, _theta_by_counting(epsilon, delta, method)),
        lambda: 2 * 0.25 * 0.75 * _theta_by_counting(epsilon, delta, method),
    )


@row.equal(lambda: [(field, *pair) for field in _FIELDS for pair in _PAIRS], tolerance=1e-10)
def _(field: str, dim: int, keep: int, pairs: int) -> Sides:
    """law of the loss field by field, by counting"""
    return (
        _stated_field(field, dim, keep, pairs),
        lambda: _loss_field(field, dim, keep, pairs),
        lambda: 1.005 * _loss_field(field, dim, keep, pairs),
    )


@row.equal(lambda: [(dim, share) for dim in (990, 20_000) for share in (-0.02, 0.0, 0.02, 0.05)], tolerance=1e-8)
def _(dim: int, share: float) -> Sides:
    """law of the loss where rare outcomes are left out, by the gamma function"""
    stated = _stated_entry(dim, share)
    return stated, lambda: _trimmed_entry(dim, share), 1.005 * stated


@row.equal(*_CUT, tolerance=1e-9)
def _(dim: int, keep: int, pairs: int, theta: float) -> Sides:
    """bound on what is left out: as documented"""
    farthest = pairs == min(keep, dim - keep)
    law = privacy.index_sets.loss_law(
        mechanism=SubsetMallows(dim, keep, theta=theta), distance=None if farthest else 2 * pairs
    )
    return (
        law.log_omitted,
        lambda: _omitted(dim, keep, pairs, theta),
        lambda: _omitted(dim, keep, pairs, theta) + 1.0,
    )


@row.equal((990, 0.05), (20_000, 0.002))
def _(dim: int, theta: float) -> Sides:
    """bound on what is left out: covers it"""
    return _covers_omitted(dim, theta, 0.0), True, lambda: _covers_omitted(dim, theta, -500.0)


@row.equal(*_ONE, tolerance=1e-5)
def _(dim: int, keep: int, epsilon: float, delta: float) -> Sides:
    """one index of many: theta in closed form"""
    return (
        privacy.index_sets.theta_for_delta_budget(epsilon=epsilon, delta=delta, dim=dim, keep=keep),
        math.log(odds_of_one(dim, epsilon, delta)) / 2,
        epsilon / 2,
    )


@row.equal(*_ONE, tolerance=1e-5)
def _(dim: int, keep: int, epsilon: float, delta: float) -> Sides:
    """one index of many: gain in closed form"""
    return (
        privacy.index_sets.retained_gain_for_delta_budget(epsilon=epsilon, delta=delta, dim=dim, keep=keep),
        _gain_of_one(dim, odds_of_one(dim, epsilon, delta)),
        _gain_of_one(dim, math.exp(epsilon)),
    )


@row.equal(*_ONE, tolerance=1e-8)
def _(dim: int, keep: int, epsilon: float, delta: float) -> Sides:
    """one index of many: epsilon of a gain in closed form"""
    odds = odds_of_one(dim, epsilon, delta)
    gain = _gain_of_one(dim, odds)
    found = privacy.index_sets.epsilon_for_retained_gain(retained_gain=gain, delta=delta, dim=dim, keep=keep)
    return found, epsilon, math.log(odds)


@row.equal(
    lambda: [(*size, weight) for size in ((8, 3), *LARGE_SIZES) for weight in (WEIGHT, Fraction(1, 50))],
    tolerance=1e-7,
)
def _(dim: int, keep: int, weight: Fraction) -> Sides:
    """theta of a gain at users' sizes, from the law of the swaps"""
    found = pruning.theta_for_retained_gain(retained_gain=gain(dim, keep, weight), dim=dim, keep=keep)
    return found, -math.log(weight), -2 * math.log(weight)


@row.equal(lambda: [(*size, theta) for size in DISTANCES for theta in (1e-3, 1e-4)], tolerance=1e-4)
def _(dim: int, keep: int, theta: float) -> Sides:
    """zCDP at users' sizes: the sum over split pairs"""
    stated = SubsetMallows(dim, keep, theta=theta).zcdp(apart(dim, keep))
    return stated, lambda: _spread_of_pair(apart(dim, keep), theta), stated / 4


@row.equal(lambda: [(what, *run) for what in ("first", "entry") for run in _RUNS], tolerance=1e-10)
def _(what: str, dim: int, keep: int, releases: int) -> Sides:
    """composed law in fractions"""
    return (
        _stated_composed(what, dim, keep, releases),
        lambda: _composed_entry(what, dim, keep, releases),
        lambda: 1.005 * _composed_entry(what, dim, keep, releases),
    )


@row.equal(
    lambda: [(what, *run) for what in ("cdf", "pdf", "probability", "mean", "2", "5") for run in _RUNS],
    tolerance=1e-10,
)
def _(what: str, dim: int, keep: int, releases: int) -> Sides:
    """the variable for another accountant, in fractions"""
    return (
        _stated_variable(what, dim, keep, releases),
        lambda: _variable(what, dim, keep, releases),
        lambda: 1.005 * _variable(what, dim, keep, releases),
    )
