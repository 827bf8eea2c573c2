"""The index mechanism at users' sizes, by counting and in integers: its law, its loss, what a budget buys, and whole runs."""

import itertools
import math
from fractions import Fraction
from functools import cache
from typing import get_args

import numpy as np
import scipy

from dptheory import privacy, pruning
from dptheory._arrays import Array
from dptheory.claims._row import Row, Sides
from dptheory.claims.gip._finite import (
    DISTANCES,
    LARGE_SIZES,
    WEIGHT,
    apart,
    counted_mean_swaps,
    counted_swaps,
    log_of,
    model_of,
    normalised,
)
from dptheory.privacy.index_sets._budgets import Method
from dptheory.privacy.methods.references import IndexPRV
from dptheory.pruning import SubsetMallows

# --- The loss of the index mechanism at users' sizes, what a budget buys, and its composition: by counting and in closed form


_THETA = 0.002


@cache
def counted_loss(dim: int, keep: int, weight: Fraction, pairs: int) -> dict[int, Fraction]:
    """P(loss = 2 theta j) of two references A, B ``pairs`` swaps apart, by counting the index sets.

    x members only of A, y only of B, a of both, b of neither: at distance 2 (y + b) from A.
    """
    law: dict[int, Fraction] = {}
    both, neither = keep - pairs, dim - keep - pairs
    for x, y in itertools.product(range(pairs + 1), repeat=2):
        left = keep - x - y
        for a in range(max(0, left - neither), min(both, left) + 1):
            ways = math.comb(pairs, x) * math.comb(pairs, y) * math.comb(both, a) * math.comb(neither, left - a)
            law[x - y] = law.get(x - y, Fraction(0)) + ways * weight ** (2 * (y + left - a))
    return normalised(law)


def convolved(law: dict[int, Fraction], count: int) -> dict[int, Fraction]:
    """Law of the sum of ``count`` independent values."""
    total = {0: Fraction(1)}
    for _ in range(count):
        step: dict[int, Fraction] = {}
        for (s, p), (j, r) in itertools.product(total.items(), law.items()):
            step[s + j] = step.get(s + j, Fraction(0)) + p * r
        total = step
    return total


def counted_delta(dim: int, keep: int, theta: float, releases: int, epsilon: float) -> float:
    """delta(epsilon) of so many releases with the farthest pair of references: the counted law, composed by Fourier transform."""
    most = min(keep, dim - keep)
    one = counted_loss(dim, keep, Fraction(math.exp(-theta)), most)
    size = 2 * most * releases + 1
    law = np.fft.irfft(np.fft.rfft([float(one[j]) for j in range(-most, most + 1)], size) ** releases, size)
    loss = 2 * theta * np.arange(-most * releases, most * releases + 1)
    return float(law @ -np.expm1(np.minimum(0.0, epsilon - loss)))


# --- the loss ---------------------------------------------------------------------------------------------------------
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
    x = np.arange(keep + 1.0)
    logs = (
        2 * (scipy.special.gammaln(keep + 1) - scipy.special.gammaln(x + 1) - scipy.special.gammaln(keep - x + 1))
        + 2 * _THETA * x
    )
    return float(logs[round(keep * (1 + share) / 2)] - scipy.special.logsumexp(logs))


def _stated_entry(dim: int, share: float) -> float:
    law = privacy.index_sets.loss_law(mechanism=SubsetMallows(dim, dim // 2, theta=_THETA))
    return float(law.log_pmf[2 * round(dim // 2 * (1 + share) / 2) - dim // 2 - law.low])


_CUT = ((990, 495, 495, 0.05), (990, 495, 490, 0.01), (20_000, 10_000, 10_000, 0.002), (20_000, 2000, 2000, 0.01))
"""d, K, swaps and theta at which rare outcomes are left out."""


def _omitted(dim: int, keep: int, pairs: int, theta: float) -> float:
    """log(d^3 e^-230 / Z), Z the sum of all products of four binomial weights, each relative to its mode.

    The odds are tilted so that the mean size of independent choices is K, found by bisection here.
    """
    low, high = -50.0, 50.0
    for _ in range(100):
        tau = (low + high) / 2
        mean = keep / (1 + math.exp(-tau - 2 * theta)) + (dim - keep) / (1 + math.exp(-tau))
        low, high = (tau, high) if mean < keep else (low, tau)
    swaps = np.arange(min(keep, dim - keep) + 1.0)
    total = (
        scipy.special.logsumexp(_log_comb(keep, swaps) + _log_comb(dim - keep, swaps) - 2 * theta * swaps)
        + 2 * theta * keep
    )
    modes = 0.0
    for trials, odds in (
        (pairs, low + 2 * theta), (pairs, low), (keep - pairs, low + 2 * theta), (dim - keep - pairs, low)
    ):  # fmt: skip
        n = np.arange(trials + 1.0)
        modes += float(np.max(_log_comb(trials, n) + odds * n))
    return float(3 * math.log(dim) - 230 - (total + keep * low - modes))


def _log_comb(n: int, k: Array) -> Array:
    return np.asarray(scipy.special.gammaln(n + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(n - k + 1))


def _covers_omitted(dim: int, theta: float, shift: float) -> bool:
    """K = d/2, farthest pair: is the mass outside the law at most the bound, moved by ``shift`` nats?"""
    keep = dim // 2
    law = privacy.index_sets.loss_law(mechanism=SubsetMallows(dim, keep, theta=theta))
    x = np.arange(keep + 1.0)
    logs = 2 * _log_comb(keep, x) + 2 * theta * x
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


def odds_of_one(dim: int, epsilon: float, delta: float) -> float:
    """e^(2 theta) with which one index of ``dim`` spends the budget: P(loss = 2 theta) = w / (w + d - 1)."""
    return (math.exp(epsilon) + delta * (dim - 1)) / (1 - delta)


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
def _run_loss(dim: int, keep: int, releases: int) -> dict[int, Fraction]:
    return convolved(counted_loss(dim, keep, WEIGHT, min(keep, dim - keep)), releases)


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
    variable, spacing = IndexPRV(mechanism=model_of(dim, keep, WEIGHT), releases=releases), -2 * math.log(WEIGHT)
    if what == "probability":
        return float(variable.probability(0.5 * spacing, 2.5 * spacing))
    if what == "mean":
        return variable.mean()
    if what in ("cdf", "pdf"):
        return float(getattr(variable, what)(1.25 * spacing))
    return variable.rdp(float(what))


def add_loss_checks(row: Row) -> None:
    """To the row of gip.tight."""
    _of_one_release(row)
    _of_one_index(row)
    _of_swaps(row)
    _of_many_releases(row)


def _of_one_release(row: Row) -> None:
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


def _of_one_index(row: Row) -> None:
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


def _of_swaps(row: Row) -> None:
    @row.equal(
        lambda: [(*size, weight) for size in ((8, 3), *LARGE_SIZES) for weight in (WEIGHT, Fraction(1, 50))],
        tolerance=1e-7,
    )
    def _(dim: int, keep: int, weight: Fraction) -> Sides:
        """theta of a gain at users' sizes, from the law of the swaps"""
        mean = sum(i * p for i, p in counted_swaps(dim, keep, weight).items())
        gain = float(1 - mean * Fraction(dim, keep * (dim - keep)))
        found = pruning.theta_for_retained_gain(retained_gain=gain, dim=dim, keep=keep)
        return found, -math.log(weight), -2 * math.log(weight)

    @row.equal(lambda: [(*size, theta) for size in DISTANCES for theta in (1e-3, 1e-4)], tolerance=1e-4)
    def _(dim: int, keep: int, theta: float) -> Sides:
        """zCDP at users' sizes: the sum over split pairs"""
        stated = SubsetMallows(dim, keep, theta=theta).zcdp(apart(dim, keep))
        return stated, lambda: _spread_of_pair(apart(dim, keep), theta), stated / 4


def _of_many_releases(row: Row) -> None:
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


# --- A run of the index mechanism by counting: the laws of loss and swaps, what 150 releases cost, and what a budget buys


def best_on_grid(rho: float, delta: float) -> float:
    """Least epsilon with delta = e^((a-1)(rho a - epsilon)) max_u u^(a-1) (1 - u), reached at u = (a-1)/a, over a grid of orders."""
    excess = np.exp(np.arange(-4000, 4000) / 500)
    largest = excess * np.log(excess / (1 + excess)) - np.log1p(excess)
    return float(np.min(rho * (1 + excess) + (largest - math.log(delta)) / excess))


_RUN = (40, 10, 30, 5)  # dim, keep, steps, groups
_METHODS = get_args(Method)


def _epsilon_by_counting(theta: float, delta: float, method: str) -> float:
    """What the run's 150 releases cost: 20 theta each, 20 theta^2 each, or the least of the two and of the counted law composed."""
    dim, keep, steps, groups = _RUN
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
    dim, keep, steps, groups = _RUN

    def excess(theta: float) -> float:
        if method == "exact":
            return counted_delta(dim, keep, theta, steps * groups, epsilon) - delta
        return _epsilon_by_counting(theta, delta, method) - epsilon

    return float(scipy.optimize.brentq(excess, 1e-9, 1.0, xtol=1e-16, rtol=1e-9))


def _counted_gain(theta: float) -> float:
    """1 - E[i] / (its mean under random-k), the swaps of the run's index sets counted."""
    dim, keep, *_ = _RUN
    return 1 - counted_mean_swaps(dim, keep, theta) / counted_mean_swaps(dim, keep, 0.0)


def _gain_by_counting(epsilon: float, delta: float, method: str) -> float:
    return _counted_gain(_theta_by_counting(epsilon, delta, method))


def _cost_by_counting(gain: float, method: str) -> float:
    """Epsilon of the run at the dispersion whose gain, by the counted swaps, is this one."""
    theta = float(scipy.optimize.brentq(lambda theta: _counted_gain(theta) - gain, 0.0, 20.0, xtol=1e-14))
    return _epsilon_by_counting(theta, 1e-5, method)


def add_run_checks(row: Row) -> None:
    """To the row of gip.tight."""
    dim, keep, steps, groups = _RUN

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

    def theta(epsilon: float, delta: float, method: Method) -> float:
        return privacy.index_sets.theta_for_delta_budget(
            epsilon=epsilon, delta=delta, dim=dim, keep=keep, steps=steps, groups=groups, method=method
        )

    @row.equal(lambda: [(e, 1e-5, method) for e in (0.3, 4.0) for method in _METHODS], tolerance=1e-5)
    def _(epsilon: float, delta: float, method: Method) -> Sides:
        """theta for an (epsilon, delta) budget: the loss counted and composed, theta by root finding"""
        return (
            theta(epsilon, delta, method),
            lambda: _theta_by_counting(epsilon, delta, method),
            lambda: theta(1.01 * epsilon, delta, method),
        )

    @row.equal(lambda: [(g, m) for g in (1e-3, 0.1, 0.65, 0.99) for m in _METHODS], tolerance=1e-5)
    def _(gain: float, method: Method) -> Sides:
        """epsilon that a share of the gain costs: laws of loss and swaps counted"""
        found = privacy.index_sets.epsilon_for_retained_gain(
            retained_gain=gain, delta=1e-5, dim=dim, keep=keep, steps=steps, groups=groups, method=method
        )
        return found, lambda: _cost_by_counting(gain, method), 1.01 * found

    @row.equal(lambda: [(e, 1e-5, method) for e in (0.01, 4.0) for method in _METHODS], tolerance=1e-5)
    def _(epsilon: float, delta: float, method: Method) -> Sides:
        """share of the gain for a budget: laws of loss and swaps counted"""
        found = privacy.index_sets.retained_gain_for_delta_budget(
            epsilon=epsilon, delta=delta, dim=dim, keep=keep, steps=steps, groups=groups, method=method
        )
        # wrong: the leading term in theta, with d for d - 1
        return (
            found,
            lambda: _gain_by_counting(epsilon, delta, method),
            lambda: 2 * 0.25 * 0.75 * _theta_by_counting(epsilon, delta, method),
        )
