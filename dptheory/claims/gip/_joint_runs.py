"""Epsilon of whole runs, index sets and noisy sums, from other sources: counted losses, quadrature, a Gaussian, another library."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import scipy
from scipy.special import ndtr

from dptheory import privacy
from dptheory.claims._row import Row, Sides
from dptheory.claims.gip import _mixture
from dptheory.claims.gip._counted_run import best_on_grid
from dptheory.claims.gip._loss_at_scale import counted_delta, counted_loss
from dptheory.privacy import IndexSteps
from dptheory.pruning import SubsetMallows

_DELTA = 1e-5


def _gaussian_spent(mu: float, delta: float) -> float:
    """Epsilon at which the exact delta of the Gaussian mechanism with sensitivity / noise = mu is this one."""

    def excess(epsilon: float) -> float:
        return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)) - delta

    return 0.0 if excess(0.0) <= 0 else float(scipy.optimize.brentq(excess, 0.0, 100.0, xtol=1e-13))


def _least(
    values: Callable[[float], float],
    index: Callable[[float], float],
    pure: float,
    curve: Callable[[int], float],
) -> float:
    """The least bound: the values' epsilon with the sets' pure one, with theirs at a share of delta, and the joint curve's."""
    bounds = [values(_DELTA) + pure]
    bounds += [values((1 - share) * _DELTA) + index(share * _DELTA) for share in (1e-3, 1e-2, 0.1, 0.5)]
    bounds += [curve(a) + math.log(1 - 1 / a) - math.log(_DELTA * a) / (a - 1) for a in range(2, 257)]
    return min(bounds)


# --- a small run without sampling: 40 entries, 10 kept, 5 groups, 30 steps; every part by counting -------------------------

_SMALL = (40, 10, 5, 30)


def _small_run(sigma: float, *thetas: float) -> float:
    """Epsilon of 30 steps in equal parts, each with its own dispersion."""
    dim, keep, groups, steps = _SMALL
    parts = [
        IndexSteps(steps=steps // len(thetas), mechanism=SubsetMallows(dim, keep, theta=theta), groups=groups)
        for theta in thetas
    ]
    return privacy.index_sets.run_epsilon(releases=parts, sampling_rate=1.0, noise_multiplier=sigma, delta=_DELTA)


def _small_by_counting(sigma: float, *thetas: float) -> float:
    dim, keep, groups, steps = _SMALL
    releases = steps * groups // len(thetas)
    pure, rho = (releases * 2 * keep * sum(theta**power for theta in thetas) for power in (1, 2))
    laws = [
        (theta, {j: float(p) for j, p in counted_loss(dim, keep, Fraction(math.exp(-theta)), keep).items()})
        for theta in thetas
    ]

    def index(delta: float) -> float:
        found = max(0.0, best_on_grid(rho, delta))
        if len(thetas) > 1 or counted_delta(dim, keep, thetas[0], releases, 0.0) <= delta:
            return found if len(thetas) > 1 else 0.0
        exact = scipy.optimize.brentq(
            lambda epsilon: counted_delta(dim, keep, thetas[0], releases, epsilon) - delta, 0.0, pure, xtol=1e-14
        )
        return min(found, float(exact))

    def curve(order: int) -> float:
        """Without sampling the divergences of values and index sets add up."""
        index = sum(
            math.log1p(sum(p * math.expm1(2 * theta * j * (order - 1)) for j, p in law.items())) for theta, law in laws
        )
        return order * steps / sigma**2 / 2 + releases * index / (order - 1)

    return _least(lambda delta: _gaussian_spent(math.sqrt(steps) / sigma, delta), index, pure, curve)


# --- a run of the paper's size: noise 10, 4096 of 45,000 examples, 875 steps, 10,547 groups of 256 entries -----------------

RATE, GROUPS, STEPS = 4096 / 45_000, 10_547, 875


def _run(*thetas: float) -> float:
    """Epsilon of 875 steps in equal parts, each with its own dispersion."""
    share = STEPS // len(thetas)
    parts = [IndexSteps(steps=share, mechanism=SubsetMallows(256, 26, theta=theta), groups=GROUPS) for theta in thetas]
    return privacy.index_sets.run_epsilon(releases=parts, sampling_rate=RATE, noise_multiplier=10.0, delta=_DELTA)


@cache
def values_spent(delta: float) -> float:
    """By this library's accountant."""
    return privacy.epsilon_bounds(noise_multiplier=10.0, sampling_rate=RATE, steps=STEPS, delta=delta).upper


@cache
def _losses() -> Any:
    """Privacy loss distribution of the values, by dp-accounting."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(10.0, value_discretization_interval=1e-4, sampling_prob=RATE)
    return one.self_compose(STEPS)


@cache
def _variance(theta: float) -> float:
    """Of the loss of one group, counted."""
    law = counted_loss(256, 26, Fraction(math.exp(-theta)), 26)
    mean = float(sum(j * p for j, p in law.items()))
    return (2 * theta) ** 2 * (float(sum(j * j * p for j, p in law.items())) - mean**2)


def _by_another_library(*thetas: float) -> float:
    """The sum of 10,547 small losses is all but Gaussian: so many index sets are one more noisy value."""
    share = STEPS // len(thetas)
    pure, rho = (share * GROUPS * 52 * sum(theta**power for theta in thetas) for power in (1, 2))
    squares = [GROUPS * _variance(theta) for theta in thetas]  # of mu, a step

    def index(delta: float) -> float:
        found = max(0.0, best_on_grid(rho, delta))
        return min(found, _gaussian_spent(math.sqrt(STEPS * squares[0]), delta)) if len(thetas) == 1 else found

    def curve(order: int) -> float:
        return share * sum(_mixture.divergence(order, RATE, 1 / math.sqrt(0.01 + square)) for square in squares)

    return _least(lambda delta: float(_losses().get_epsilon_for_delta(delta)), index, pure, curve)


def _values_alone(sigma: float) -> float:
    """Wrong statement: the index sets cost nothing."""
    return _gaussian_spent(math.sqrt(_SMALL[-1]) / sigma, _DELTA)


def add_checks(row: Row) -> None:
    """To the row of gip.thm2."""

    @row.equal(
        (20.0, 1e-9),
        (20.0, 1e-5),
        (20.0, 1e-2),
        (20.0, 1e-4, 2e-4),
        (20.0, 1e-2, 2e-2, 3e-2),
        (1.0, 1e-2),
        (1.0, 1e-2, 2e-2, 3e-2),
        (1e3, 1e-2),
        tolerance=1e-8,
    )
    def _(sigma: float, *thetas: float) -> Sides:
        """joint epsilon of a run without sampling, bound by bound: losses counted, values in closed form"""
        return _small_run(sigma, *thetas), lambda: _small_by_counting(sigma, *thetas), lambda: _values_alone(sigma)

    @row.equal(
        (2e-11,),
        (2e-5,),
        (1e-7, 2e-7, 3e-7, 2e-7, 1e-8),
        (1e-5, 2e-5, 3e-5, 2e-5, 1e-6),
        tolerance=4e-3,
    )
    def _(*thetas: float) -> Sides:
        """joint epsilon of the paper's run, bound by bound: a Gaussian for its index sets, values by another library"""
        index_free = values_spent(_DELTA)
        return _run(*thetas), lambda: _by_another_library(*thetas), index_free
