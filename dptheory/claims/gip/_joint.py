"""GIP: index sets and values of one sample under any accountant; the checks of gip.thm2 on epsilon itself."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import scipy

from dptheory import privacy, pruning
from dptheory.claims._row import Range, Row, Sides
from dptheory.claims.gip import _finite
from dptheory.claims.gip._at_scale import best_on_grid, counted_delta, counted_loss
from dptheory.privacy import IndexSteps
from dptheory.pruning import SubsetMallows

# --- Epsilon of whole runs, index sets and noisy sums, from other sources: counted losses, quadrature, a Gaussian, another library


_DELTA = 1e-5


def _gaussian_spent(mu: float, delta: float) -> float:
    """Epsilon at which the exact delta of the Gaussian mechanism with sensitivity / noise = mu is this one."""

    def excess(epsilon: float) -> float:
        return (
            float(
                scipy.special.ndtr(mu / 2 - epsilon / mu)
                - math.exp(epsilon) * scipy.special.ndtr(-mu / 2 - epsilon / mu)
            )
            - delta
        )

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
        return share * sum(_finite.divergence(order, RATE, 1 / math.sqrt(0.01 + square)) for square in squares)

    return _least(lambda delta: float(_losses().get_epsilon_for_delta(delta)), index, pure, curve)


def _values_alone(sigma: float) -> float:
    """Wrong statement: the index sets cost nothing."""
    return _gaussian_spent(math.sqrt(_SMALL[-1]) / sigma, _DELTA)


def add_run_checks(row: Row) -> None:
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


_GRID = np.linspace(-12.0, 14.0, 2601)


def _hockey_stick(rate: float, sigma: float, theta: float, log_gamma: float, index: float) -> float:
    """sup P(S) - gamma Q(S) of a sampled noisy sum and an index set that is drawn from the other law with this chance.

    d = 2, where the ratio of the index laws is e^(+-2 theta). Joint: the sample that holds the example decides both.
    """
    up = math.exp(2 * theta)
    base = np.exp(-(_GRID**2) / 2) / math.sqrt(2 * math.pi) * (_GRID[1] - _GRID[0])
    values = np.exp(_GRID / sigma - 0.5 / sigma**2)
    total = 0.0
    for ratio, chance in ((up, 1 / (1 + up)), (1 / up, up / (1 + up))):
        mixed = 1 - rate + rate * values
        seen = 1 - rate + rate * ratio * values if math.isnan(index) else (1 - index + index * ratio) * mixed
        total += chance * float(base @ np.maximum(seen - math.exp(log_gamma), 0.0))
    return total


def _unsampled_slack(rate: float, sigma: float, theta: float, log_gamma: float) -> float:
    """Sampled values and index sets that are not sampled dominate the joint step."""
    joint = _hockey_stick(rate, sigma, theta, log_gamma, math.nan)
    return _hockey_stick(rate, sigma, theta, log_gamma, 1.0) - joint


def _sampled_slack(rate: float, sigma: float, theta: float, log_gamma: float) -> float:
    """Wrong statement: so do both parts sampled one by one."""
    joint = _hockey_stick(rate, sigma, theta, log_gamma, math.nan)
    return _hockey_stick(rate, sigma, theta, log_gamma, rate) - joint


def _true_delta(sigma: float, theta: float, epsilon: float) -> float:
    """delta of one step without sampling, d = 2: the mean over the index set of the Gaussian's delta at what is left."""
    up, mu = 1 / (1 + math.exp(-2 * theta)), 1 / sigma
    total = 0.0
    for chance, loss in ((up, 2 * theta), (1 - up, -2 * theta)):
        left = epsilon - loss
        total += chance * float(
            scipy.special.ndtr(mu / 2 - left / mu) - math.exp(left) * scipy.special.ndtr(-mu / 2 - left / mu)
        )
    return total


def _covered(sigma: float, theta: float, delta: float) -> bool:
    """Does the joint epsilon of one step without sampling cover its exact delta?"""
    model = SubsetMallows(2, 1, theta=theta)
    found = privacy.index_sets.run_epsilon(
        releases=[IndexSteps(steps=1, mechanism=model)], sampling_rate=1.0, noise_multiplier=sigma, delta=delta
    )
    return _true_delta(sigma, theta, found) <= delta * (1 + 1e-9)


def _covered_by_values(sigma: float, theta: float, delta: float) -> bool:
    """Wrong statement: the epsilon of the values alone covers both."""
    return _true_delta(sigma, theta, privacy.gaussian_epsilon(1 / sigma, delta)) <= delta


def _reached_alone(dim: int, keep: int) -> int:
    """Distance of the index set of one example, alone in its data set, from that of no example at all."""
    example = [Fraction(int(j >= dim - keep)) for j in range(dim)]  # of any norm: only the order of the entries counts
    return _finite.hamming(_finite.top_subset([0] * dim, keep), _finite.top_subset(example, keep))


def _spent_at(epsilon: float, share: float = 1.0) -> float:
    """The counted delta of the index sets at the dispersion for a share of a joint budget; the values spend nothing."""
    theta = privacy.index_sets.theta_for_joint_budget(
        epsilon=share * epsilon,
        delta=1e-5,
        dim=40,
        keep=10,
        sampling_rate=1.0,
        noise_multiplier=math.inf,
        steps=10,
        groups=100,
    )
    return counted_delta(40, 10, theta, 1000, epsilon)


@cache
def _theta_of_run(epsilon: float) -> float:
    return privacy.index_sets.theta_for_joint_budget(
        epsilon=epsilon,
        delta=1e-5,
        dim=256,
        keep=26,
        sampling_rate=RATE,
        noise_multiplier=10.0,
        steps=STEPS,
        groups=GROUPS,
    )


def _over_basic(epsilon: float, least: float) -> bool:
    """Is the dispersion for the paper's run at least this many times that of basic composition?"""
    return _theta_of_run(epsilon) >= least * pruning.theta_for_budget(
        epsilon=epsilon - values_spent(1e-5), dim=256, keep=26, steps=STEPS, groups=GROUPS
    )


def add_checks(row: Row) -> None:
    """To the row of gip.thm2."""
    row.inequality(
        {
            "rate": Range(0.01, 0.99),
            "sigma": Range(0.7, 6, log=True),
            "theta": Range(0.01, 1.5, log=True),
            "log_gamma": Range(-2.0, 3.0),
        },
        wrong=_sampled_slack,
        tolerance=1e-9,
        name="values of the sample with index sets that are not sampled dominate the step",
    )(_unsampled_slack)

    @row.equal(lambda: itertools.product((0.7, 2.0, 20.0), (1e-3, 0.03, 0.3, 1.5), (0.1, 1e-3, 1e-6, 1e-10)))
    def _(sigma: float, theta: float, delta: float) -> Sides:
        """joint epsilon of one step covers its exact delta"""
        return _covered(sigma, theta, delta), True, lambda: _covered_by_values(sigma, theta, delta)

    add_run_checks(row)

    @row.equal((Fraction(1, 100),), (Fraction(3),), tolerance=1e-12)
    def _(spent: Fraction) -> Sides:
        """joint epsilon by basic composition alone"""
        found = privacy.index_sets.joint_epsilon(delta=1e-5, values=lambda delta: 1.0, index_epsilon=float(spent))
        return found, 1 + spent, 1.0

    @row.equal((10.0, 4096 / 45_000, 875), (1.0, 0.02, 1000), (1.0, 0.005, 1), tolerance=1e-3)
    def _(sigma: float, rate: float, steps: int) -> Sides:
        """without index sets a run costs what DP-SGD costs"""
        nothing = IndexSteps(steps=steps, mechanism=SubsetMallows(256, 26, theta=1e-15), groups=GROUPS)
        return (
            privacy.index_sets.run_epsilon(releases=[nothing], sampling_rate=rate, noise_multiplier=sigma, delta=1e-5),
            lambda: privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=1e-5).upper,
            lambda: privacy.rdp_epsilon(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=1e-5),
        )

    @row.equal((0.01,), (1.0,), tolerance=1e-3)
    def _(epsilon: float) -> Sides:
        """theta for a joint budget spends all of delta where the values spend nothing: the loss counted and composed"""
        return _spent_at(epsilon), 1e-5, lambda: _spent_at(epsilon, 0.99)

    @row.equal((1.05, 1000.0))
    def _(epsilon: float, least: float) -> Sides:
        """theta for a joint budget is never below basic composition"""
        return _over_basic(epsilon, least), True, lambda: _over_basic(epsilon, 1e9)

    @row.equal(lambda: _finite.SIZES)
    def _(dim: int, keep: int) -> Sides:
        """the worst pair occurs: one example, alone"""
        sensitivity = pruning.index_sensitivity(dim, keep)
        return sensitivity, lambda: _reached_alone(dim, keep), sensitivity - 2
