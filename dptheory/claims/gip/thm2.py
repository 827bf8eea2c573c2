"""Theorem 2, by divergences and on epsilon itself: index sets and values of one sample under any accountant."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import scipy

from dptheory import privacy, pruning
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._finite import (
    DISTANCES,
    RATES,
    STEPS,
    WEIGHT,
    apart,
    best_on_grid,
    counted_delta,
    counted_loss,
    gaussian_delta,
    half_line,
    model_of,
    ratios,
    together,
    values_curve,
)
from dptheory.privacy import IndexSteps
from dptheory.pruning import SubsetMallows

# --- Epsilon of whole runs, index sets and noisy sums, from other sources: counted losses, quadrature, a Gaussian, another library


_DELTA = 1e-5


def _gaussian_spent(mu: float, delta: float) -> float:
    """Epsilon at which the exact delta of the Gaussian mechanism with sensitivity / noise = mu is this one."""

    def excess(epsilon: float) -> float:
        return float(gaussian_delta(mu, epsilon)) - delta

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


def _run(size: tuple[int, int, int, int], rate: float, sigma: float, thetas: tuple[float, ...]) -> float:
    """Epsilon of a run in equal parts, each with its own dispersion; its size: entries, kept, groups, steps."""
    dim, keep, groups, steps = size
    parts = [
        IndexSteps(steps=steps // len(thetas), mechanism=SubsetMallows(dim, keep, theta=theta), groups=groups)
        for theta in thetas
    ]
    return privacy.index_sets.run_epsilon(releases=parts, sampling_rate=rate, noise_multiplier=sigma, delta=_DELTA)


# --- a small run without sampling: 40 entries, 10 kept, 5 groups, 30 steps; every part by counting -------------------------

_SMALL = (40, 10, 5, 30)


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

RATE, GROUPS, _RUN_STEPS = 4096 / 45_000, 10_547, 875


@cache
def values_spent(delta: float) -> float:
    """By this library's accountant."""
    return privacy.epsilon_bounds(noise_multiplier=10.0, sampling_rate=RATE, steps=_RUN_STEPS, delta=delta).upper


@cache
def _losses() -> Any:
    """Privacy loss distribution of the values, by dp-accounting."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(10.0, value_discretization_interval=1e-4, sampling_prob=RATE)
    return one.self_compose(_RUN_STEPS)


@cache
def _variance(theta: float) -> float:
    """Of the loss of one group, counted."""
    law = counted_loss(256, 26, Fraction(math.exp(-theta)), 26)
    mean = float(sum(j * p for j, p in law.items()))
    return (2 * theta) ** 2 * (float(sum(j * j * p for j, p in law.items())) - mean**2)


def _by_another_library(*thetas: float) -> float:
    """The sum of 10,547 small losses is all but Gaussian: so many index sets are one more noisy value."""
    share = _RUN_STEPS // len(thetas)
    pure, rho = (share * GROUPS * 52 * sum(theta**power for theta in thetas) for power in (1, 2))
    squares = [GROUPS * _variance(theta) for theta in thetas]  # of mu, a step

    def index(delta: float) -> float:
        found = max(0.0, best_on_grid(rho, delta))
        return min(found, _gaussian_spent(math.sqrt(_RUN_STEPS * squares[0]), delta)) if len(thetas) == 1 else found

    def curve(order: int) -> float:
        return share * sum(_finite.divergence(order, RATE, 1 / math.sqrt(0.01 + square)) for square in squares)

    return _least(lambda delta: float(_losses().get_epsilon_for_delta(delta)), index, pure, curve)


_GRID = np.linspace(-12.0, 14.0, 2601)


def _sampled_hockey_stick(rate: float, sigma: float, theta: float, log_gamma: float, index: float) -> float:
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


def _true_delta(sigma: float, theta: float, epsilon: float) -> float:
    """delta of one step without sampling, d = 2: the mean over the index set of the Gaussian's delta at what is left."""
    up, mu = 1 / (1 + math.exp(-2 * theta)), 1 / sigma
    total = 0.0
    for chance, loss in ((up, 2 * theta), (1 - up, -2 * theta)):
        total += chance * float(gaussian_delta(mu, epsilon - loss))
    return total


def _covered(sigma: float, theta: float, delta: float) -> bool:
    """Does the joint epsilon of one step without sampling cover its exact delta?"""
    model = SubsetMallows(2, 1, theta=theta)
    found = privacy.index_sets.run_epsilon(
        releases=[IndexSteps(steps=1, mechanism=model)], sampling_rate=1.0, noise_multiplier=sigma, delta=delta
    )
    return _true_delta(sigma, theta, found) <= delta * (1 + 1e-9)


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


def _joint_curve(order: int, rate: float, sigma: float, mechanism: SubsetMallows, groups: int = 1) -> float:
    found = privacy.index_sets.joint_rdp(
        orders=[order], sampling_rate=rate, noise_multiplier=sigma, mechanism=mechanism, groups=groups
    )
    return float(found[0])


def _amplified_sum(order: int, rate: float, sigma: float, mechanism: SubsetMallows) -> float:
    """The invalid accounting: both parts amplified by the one sample, each on its own, and added."""
    return values_curve(order, rate, sigma) + _joint_curve(order, rate, math.inf, mechanism)


def _joint_cases() -> Iterator[tuple[int, float, float, int, int, Fraction]]:
    for order, rate, sigma in RATES[:4]:
        for dim, keep in ((2, 1), (4, 2), (5, 3)):
            yield order, rate, sigma, dim, keep, Fraction(4, 5)


def _second_moment(laws: tuple[tuple[Fraction, ...], tuple[Fraction, ...]], rate: Fraction) -> Fraction:
    """E[(mixture / base)^2] under the base, the mixture taking the second law with probability ``rate``."""
    base, other = laws
    return sum((p * ((1 - rate) + rate * o / p) ** 2 for p, o in zip(base, other, strict=True)), Fraction(0))


def _excess(rate: Fraction, weight: Fraction, chance: Fraction) -> Fraction:
    """exp of the joint order-2 divergence minus exp of the sum of the parts; the values are a randomised response."""
    first, second = (True, True, False, False), (False, False, True, True)
    one, two = _finite.mallows(first, weight), _finite.mallows(second, weight)
    index = (tuple(one.values()), tuple(two[out] for out in one))
    values = ((chance, 1 - chance), (1 - chance, chance))
    both = tuple(tuple(p * v for p in laws for v in ends) for laws, ends in zip(index, values, strict=True))
    return _second_moment((both[0], both[1]), rate) - _second_moment(index, rate) * _second_moment(values, rate)


def _stated_excess(rate: Fraction, weight: Fraction, chance: Fraction) -> Fraction:
    one = _finite.mallows((True, True, False, False), weight)
    two = _finite.mallows((False, False, True, True), weight)
    w = sum((two[out] ** 2 / p for out, p in one.items()), Fraction(0))
    v = (1 - chance) ** 2 / chance + chance**2 / (1 - chance)
    return Fraction(rate**2 * (1 - rate**2) * (w - 1) * (v - 1))


_SIZE = (4, 2)


def _amplified_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    model = SubsetMallows(*_SIZE, theta=theta)
    return 1 - _joint_curve(order, rate, sigma, model) / _amplified_sum(order, rate, sigma, model)


def _reverse_joint(order: int, rate: float, sigma: float, theta: float) -> float:
    """D_a(base, mixture) of index and values for d = 2, where the ratio is e^(+-2 theta)."""
    up = math.exp(2 * theta)
    return _finite.divergence(order, rate, sigma, index={up: 1 / (1 + up), 1 / up: up / (1 + up)}, sign=-1)


_BOX = {
    "order": Range(2, 16, integer=True),
    "rate": Range(0.02, 1),
    "sigma": Range(0.7, 6, log=True),
    "theta": Range(0.01, 1, log=True),
}


_SIZES = ((5, 2, 1), (4, 2, 3), (5, 3, 2), (20_000, 3, 1), (20_000, 19_998, 1), (10**6, 1, 4))
"""d, K and the number of groups."""


@cache
def _group_ratios(dim: int, keep: int, weight: Fraction, groups: int) -> dict[float, float]:
    """Law of P_B(I) / P_A(I) under P_A for the index sets of all groups, counted and convolved."""
    return ratios(together([counted_loss(dim, keep, weight, apart(dim, keep) // 2)] * groups), weight)


def _spent(what: str, dim: int, keep: int, steps: int, groups: int) -> float:
    """Release by release: theta for every place that moves, and its square."""
    one = (-math.log(WEIGHT)) ** {"epsilon": 1, "zcdp_rho": 2}[what] * apart(dim, keep)
    return math.fsum(one for _ in range(steps) for _ in range(groups))


def _spent_by_run(epsilon: float, dim: int, keep: int) -> float:
    """Epsilon of 50 sampled steps with 20 groups at the dispersion for it, order by order."""
    theta = privacy.index_sets.theta_for_joint_budget(
        epsilon=epsilon, delta=1e-5, dim=dim, keep=keep, sampling_rate=0.1, noise_multiplier=4.0, steps=50, groups=20
    )
    index = _group_ratios(dim, keep, Fraction(math.exp(-theta)), 20)
    return min(
        50 * _finite.divergence(a, 0.1, 4.0, index=index) + math.log(1 - 1 / a) - math.log(1e-5 * a) / (a - 1)
        for a in range(2, 64)
    )


thm2 = new_row(
    id="gip.thm2",
    source=Source("gip", "Theorem 2"),
    verdict=Verdict.LOOSE,
    calculators=(
        privacy.index_sets.joint_rdp,
        privacy.index_sets.joint_epsilon,
        privacy.index_sets.run_epsilon,
        privacy.index_sets.values_epsilon,
        privacy.index_sets.theta_for_joint_budget,
    ),
    figure="theta_accounting",
)


@thm2.equal(_joint_cases, tolerance=1e-8)
def _(order: int, rate: float, sigma: float, dim: int, keep: int, weight: Fraction) -> Sides:
    """joint curve by enumeration and quadrature"""
    model = model_of(dim, keep, weight)
    loss = _finite.enumerated_loss(dim, keep, weight, model.max_swaps)
    return (
        _joint_curve(order, rate, sigma, model),
        lambda: _finite.divergence(order, rate, sigma, index=ratios(loss, weight)),
        _amplified_sum(order, rate, sigma, model),
    )


@thm2.equal(
    lambda: itertools.product(
        (Fraction(1, 2), Fraction(1, 100)), (Fraction(1, 2), Fraction(9, 10)), (Fraction(1, 3), Fraction(1, 10))
    ),
    kind=Kind.COUNTEREXAMPLE,
)
def _(rate: Fraction, weight: Fraction, chance: Fraction) -> Sides:
    """separately amplified parts do not add up"""
    return _stated_excess(rate, weight, chance), lambda: _excess(rate, weight, chance), Fraction(0)


@thm2.inequality(_BOX, wrong=_amplified_slack)
def _bound_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    """joint curve <= eps_2 + curve of the values"""
    model = SubsetMallows(*_SIZE, theta=theta)
    return 1 - _joint_curve(order, rate, sigma, model) / (model.epsilon(4) + values_curve(order, rate, sigma))


@thm2.inequality(
    _BOX,
    wrong=lambda order, rate, sigma, theta: (
        1 - _reverse_joint(order, rate, sigma, theta) / values_curve(order, rate, sigma)
    ),
    tolerance=1e-7,
)
def _reverse_joint_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    """joint curve bounds the other direction"""
    bound = _joint_curve(order, rate, sigma, SubsetMallows(2, 1, theta=theta))
    return 1 - _reverse_joint(order, rate, sigma, theta) / bound


@thm2.inequality(
    {
        "rate": Range(0.01, 0.99),
        "sigma": Range(0.7, 6, log=True),
        "theta": Range(0.01, 1.5, log=True),
        "log_gamma": Range(-2.0, 3.0),
    },
    # wrong: so do both parts sampled one by one
    wrong=lambda rate, sigma, theta, log_gamma: (
        _sampled_hockey_stick(rate, sigma, theta, log_gamma, rate)
        - _sampled_hockey_stick(rate, sigma, theta, log_gamma, math.nan)
    ),
    tolerance=1e-9,
)
def _unsampled_slack(rate: float, sigma: float, theta: float, log_gamma: float) -> float:
    """values of the sample with index sets that are not sampled dominate the step"""
    joint = _sampled_hockey_stick(rate, sigma, theta, log_gamma, math.nan)
    return _sampled_hockey_stick(rate, sigma, theta, log_gamma, 1.0) - joint


@thm2.equal(lambda: itertools.product((0.7, 2.0, 20.0), (1e-3, 0.03, 0.3, 1.5), (0.1, 1e-3, 1e-6, 1e-10)))
def _(sigma: float, theta: float, delta: float) -> Sides:
    """joint epsilon of one step covers its exact delta"""
    # wrong: the epsilon of the values alone covers both
    values = privacy.gaussian_epsilon(1 / sigma, delta)
    return _covered(sigma, theta, delta), True, lambda: _true_delta(sigma, theta, values) <= delta


@thm2.equal(
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
    # wrong: the index sets cost nothing
    return (
        _run(_SMALL, 1.0, sigma, thetas),
        lambda: _small_by_counting(sigma, *thetas),
        lambda: _gaussian_spent(math.sqrt(_SMALL[-1]) / sigma, _DELTA),
    )


@thm2.equal(
    (2e-11,),
    (2e-5,),
    (1e-7, 2e-7, 3e-7, 2e-7, 1e-8),
    (1e-5, 2e-5, 3e-5, 2e-5, 1e-6),
    tolerance=4e-3,
)
def _(*thetas: float) -> Sides:
    """joint epsilon of the paper's run, bound by bound: a Gaussian for its index sets, values by another library"""
    found = _run((256, 26, GROUPS, _RUN_STEPS), RATE, 10.0, thetas)
    return found, lambda: _by_another_library(*thetas), values_spent(_DELTA)


@thm2.equal((Fraction(1, 100),), (Fraction(3),), tolerance=1e-12)
def _(spent: Fraction) -> Sides:
    """joint epsilon by basic composition alone"""
    found = privacy.index_sets.joint_epsilon(delta=1e-5, values=lambda delta: 1.0, index_epsilon=float(spent))
    return found, 1 + spent, 1.0


@thm2.equal((10.0, 4096 / 45_000, 875), (1.0, 0.02, 1000), (1.0, 0.005, 1), tolerance=1e-3)
def _(sigma: float, rate: float, steps: int) -> Sides:
    """without index sets a run costs what DP-SGD costs"""
    nothing = IndexSteps(steps=steps, mechanism=SubsetMallows(256, 26, theta=1e-15), groups=GROUPS)
    return (
        privacy.index_sets.run_epsilon(releases=[nothing], sampling_rate=rate, noise_multiplier=sigma, delta=1e-5),
        lambda: privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=1e-5).upper,
        lambda: privacy.rdp_epsilon(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=1e-5),
    )


@thm2.equal((0.01,), (1.0,), tolerance=1e-3)
def _(epsilon: float) -> Sides:
    """theta for a joint budget spends all of delta where the values spend nothing: the loss counted and composed"""
    return _spent_at(epsilon), 1e-5, lambda: _spent_at(epsilon, 0.99)


@thm2.equal((1.05, 1000.0))
def _(epsilon: float, least: float) -> Sides:
    """theta for a joint budget is never below basic composition"""
    found = privacy.index_sets.theta_for_joint_budget(
        epsilon=epsilon,
        delta=1e-5,
        dim=256,
        keep=26,
        sampling_rate=RATE,
        noise_multiplier=10.0,
        steps=_RUN_STEPS,
        groups=GROUPS,
    )
    basic = pruning.theta_for_budget(
        epsilon=epsilon - values_spent(1e-5), dim=256, keep=26, steps=_RUN_STEPS, groups=GROUPS
    )
    return found >= least * basic, True, found >= 1e9 * basic


@thm2.equal(lambda: _finite.SIZES)
def _(dim: int, keep: int) -> Sides:
    """the worst pair occurs: one example, alone"""
    sensitivity = pruning.index_sensitivity(dim, keep)
    return sensitivity, lambda: _reached_alone(dim, keep), sensitivity - 2


@thm2.equal(lambda: [(*step, *size) for step in STEPS for size in _SIZES], tolerance=1e-8)
def _(order: int, rate: float, sigma: float, dim: int, keep: int, groups: int) -> Sides:
    """joint curve of many entries and groups: counting and quadrature"""
    model = model_of(dim, keep, WEIGHT)
    return (
        _joint_curve(order, rate, sigma, model, groups),
        lambda: _finite.divergence(order, rate, sigma, index=_group_ratios(dim, keep, WEIGHT, groups)),
        _joint_curve(order, rate, sigma, model, groups + 1),
    )


@thm2.equal(
    lambda: [
        (what, *size, *run)
        for what in ("epsilon", "zcdp_rho")
        for size in DISTANCES
        for run in ((1, 1), (7, 1), (1, 9), (20, 30))
    ],
    tolerance=1e-12,
)
def _(what: str, dim: int, keep: int, steps: int, groups: int) -> Sides:
    """steps of one dispersion, release by release"""
    return (
        getattr(IndexSteps(steps=steps, mechanism=model_of(dim, keep, WEIGHT), groups=groups), what),
        lambda: _spent(what, dim, keep, steps, groups),
        _spent(what, dim, keep, steps, 1),
    )


@thm2.equal((6, 1, math.inf), (20_000, 1, math.inf), (20_000, 19_999, math.inf), tolerance=1e-5)
def _(dim: int, keep: int, sigma: float) -> Sides:
    """theta for a joint budget without values, one index of many: in closed form"""
    return (
        privacy.index_sets.theta_for_joint_budget(
            epsilon=1.0, delta=1e-6, dim=dim, keep=keep, sampling_rate=1.0, noise_multiplier=sigma
        ),
        lambda: math.log(_finite.odds_of_one(dim, 1.0, 1e-6)) / 2,
        0.5,
    )


@thm2.equal((1.0, 20_000, 1), (3.0, 20_000, 1), (1.0, 8, 2), tolerance=1e-5)
def _(epsilon: float, dim: int, keep: int) -> Sides:
    """theta for a joint budget spends all of it: counting and quadrature"""
    return _spent_by_run(epsilon, dim, keep), epsilon, 1.005 * epsilon


_REPLACED_SIZES = ((3, 1), (4, 2), (5, 2), (5, 3))
_LINE = np.linspace(-8.0, 8.0, 801)
_MESH = float(_LINE[1] - _LINE[0])


@functools.cache
def _subsets(dim: int, keep: int) -> tuple[frozenset[int], ...]:
    return tuple(frozenset(one) for one in itertools.combinations(range(dim), keep))


def _law(reference: frozenset[int], dim: int, theta: float) -> Array:
    weights = np.array([math.exp(-2 * theta * len(reference - one)) for one in _subsets(dim, len(reference))])
    return np.asarray(weights / weights.sum())


@functools.cache
def _triples(dim: int, keep: int) -> tuple[tuple[frozenset[int], frozenset[int]], ...]:
    """References of the two records beside that without them, {0..K-1}: one of each kind."""
    base = frozenset(range(keep))
    kinds = {
        (len(base & a), len(base & b), len(a & b), len(base & a & b)): (a, b)
        for a, b in itertools.product(_subsets(dim, keep), repeat=2)
    }
    return tuple(kinds.values())


def _hockey_stick(
    pair: tuple[frozenset[int], frozenset[int]],
    *,
    dim: int,
    theta: float,
    means: tuple[float, float],
    rate: float,
    gamma: float,
) -> float:
    """H_gamma of a step, by a grid, over all index sets."""

    base = frozenset(range(len(pair[0])))
    laws = np.stack([_law(one, dim, theta) for one in (base, *pair)], axis=1)
    (still, *moved), counts = _counted(laws)
    without, *sampled = (np.exp(-((_LINE - at) ** 2) / 2) / math.sqrt(2 * math.pi) for at in (0.0, *means))
    first, second = (
        (1 - rate) * np.outer(still, without) + rate * np.outer(law, density)
        for law, density in zip(moved, sampled, strict=True)
    )
    return float(counts @ np.maximum(first - gamma * second, 0.0).sum(axis=1)) * _MESH


def _counted(laws: Array) -> tuple[tuple[Array, ...], Array]:
    """Columns without repeated rows, and how often each row stood."""
    rows, counts = np.unique(laws.round(14), axis=0, return_counts=True)
    return tuple(rows.T), counts.astype(float)


def farthest_and_base(dim: int, keep: int, theta: float, *, scale: float, rate: float, gamma: float) -> float:
    """H_gamma, gamma >= 1: one record moves the reference as far as it can, the other leaves it; set by set, half-lines."""
    base, far = frozenset(range(keep)), frozenset(range(dim - keep, dim))
    total, still = 0.0, (gamma - 1) * (1 - rate) / rate
    for here, there in zip(_law(base, dim, theta), _law(far, dim, theta), strict=True):
        total += rate * there * half_line(scale, gamma * here / there, still * here / there)
    return total


def worst(dim: int, keep: int, theta: float, *, scale: float, rate: float, gamma: float) -> float:
    """The profile h of the statement."""
    if gamma < 1:
        return 1 - gamma + gamma * worst(dim, keep, theta, scale=scale, rate=rate, gamma=1 / gamma)
    return farthest_and_base(dim, keep, theta, scale=scale, rate=rate, gamma=gamma)


def _as_far_as_three_can_be(size: int, theta: float, scale: float, rate: float, log_gamma: float, **_: float) -> float:
    """Wrong statement: the worst three references are those that are farthest from one another."""
    dim, keep = _REPLACED_SIZES[size]
    base, gamma = frozenset(range(keep)), math.exp(log_gamma)
    apart = min(_triples(dim, keep), key=lambda two: len(base & two[0]) + len(base & two[1]) + len(two[0] & two[1]))
    pairs = (apart, (frozenset(range(dim - keep, dim)), base))
    thought, other = (
        _hockey_stick(pair, dim=dim, theta=theta, means=(scale, -scale), rate=rate, gamma=gamma) for pair in pairs
    )
    return thought - other


replaced_indices = new_row(
    id="gip.replaced_indices",
    source=Source("gip", "new, on Theorem 2"),
    verdict=Verdict.HOLDS,
)


@replaced_indices.inequality(
    {
        "size": Range(0, len(_REPLACED_SIZES) - 1, integer=True),
        "theta": Range(0.05, 2.0),
        "scale": Range(0.3, 2.0),
        "rate": Range(0.05, 0.95),
        "log_gamma": Range(-2.0, 2.0),
        "first": Range(-1.0, 1.0),
        "second": Range(-1.0, 1.0),
    },
    wrong=_as_far_as_three_can_be,
    tolerance=2e-5,  # of the grid
)
def _worst_slack(
    size: int, theta: float, scale: float, rate: float, log_gamma: float, first: float, second: float
) -> float:
    """no references are worse, nor gradients that are alike on every set, gamma below 1 too, all kinds of three sets"""
    dim, keep = _REPLACED_SIZES[size]
    gamma = math.exp(log_gamma)
    most = max(
        _hockey_stick(pair, dim=dim, theta=theta, means=(first * scale, second * scale), rate=rate, gamma=gamma)
        for pair in _triples(dim, keep)
    )
    return worst(dim, keep, theta, scale=scale, rate=rate, gamma=gamma) - most


def _cases() -> Iterator[tuple[int, int, float, float, float, float]]:
    for (dim, keep), theta, scale in itertools.product(_REPLACED_SIZES, (0.1, 1.0), (0.5, 1.5)):
        yield from ((dim, keep, theta, scale, 0.3, gamma) for gamma in (1.0, 1.5, 3.0))


@replaced_indices.equal(lambda: list(_cases()), tolerance=1e-3)  # of the grid
def _(dim: int, keep: int, theta: float, scale: float, rate: float, gamma: float) -> Sides:
    """attained: the profile set by set against the grid over the whole step; with a record that moves no reference it is not"""
    base, far = frozenset(range(keep)), frozenset(range(dim - keep, dim))
    setting = {"dim": dim, "theta": theta, "means": (scale, -scale), "rate": rate, "gamma": gamma}
    return (
        _hockey_stick((far, base), **setting),  # type: ignore[arg-type]
        worst(dim, keep, theta, scale=scale, rate=rate, gamma=gamma),
        _hockey_stick((base, base), **setting),  # type: ignore[arg-type]
    )
