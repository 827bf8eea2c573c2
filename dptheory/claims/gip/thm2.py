import functools
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import scipy

from dptheory import privacy
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _at_scale, _finite, _joint
from dptheory.claims.gip._at_scale import DISTANCES, WEIGHT, apart, model_of
from dptheory.claims.gip._finite import RATES, STEPS, values_curve
from dptheory.privacy import IndexSteps
from dptheory.pruning import SubsetMallows


def _joint_curve(order: int, rate: float, sigma: float, dim: int, keep: int, weight: Fraction) -> float:
    return float(
        privacy.index_sets.joint_rdp(
            orders=[order], sampling_rate=rate, noise_multiplier=sigma, mechanism=model_of(dim, keep, weight)
        )[0]
    )


def _amplified_sum(order: int, rate: float, sigma: float, dim: int, keep: int, weight: Fraction) -> float:
    """The invalid accounting: both parts amplified by the one sample, each on its own, and added."""
    return values_curve(order, rate, sigma) + _joint_curve(order, rate, math.inf, dim, keep, weight)


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
    alone = float(
        privacy.index_sets.joint_rdp(orders=[order], sampling_rate=rate, noise_multiplier=math.inf, mechanism=model)[0]
    )
    return 1 - float(
        privacy.index_sets.joint_rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma, mechanism=model)[0]
    ) / (alone + values_curve(order, rate, sigma))


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
def _ratios(dim: int, keep: int, groups: int) -> dict[float, float]:
    """Law of P_B(I) / P_A(I) under P_A for the index sets of all groups: minus the loss, counted and convolved."""
    law = _at_scale.convolved(_at_scale.counted_loss(dim, keep, WEIGHT, apart(dim, keep) // 2), groups)
    return {float(WEIGHT ** (2 * j)): float(p) for j, p in law.items()}


def _joint_of_groups(order: int, rate: float, sigma: float, dim: int, keep: int, groups: int) -> float:
    return float(
        privacy.index_sets.joint_rdp(
            orders=[order],
            sampling_rate=rate,
            noise_multiplier=sigma,
            mechanism=model_of(dim, keep, WEIGHT),
            groups=groups,
        )[0]
    )


def _spent(what: str, dim: int, keep: int, steps: int, groups: int) -> float:
    """Release by release: theta for every place that moves, and its square."""
    one = (-math.log(WEIGHT)) ** {"epsilon": 1, "zcdp_rho": 2}[what] * apart(dim, keep)
    return math.fsum(one for _ in range(steps) for _ in range(groups))


def _one_index(dim: int, epsilon: float, delta: float) -> float:
    """theta at which one index of ``dim``, released once and alone, spends the budget."""
    return math.log(_at_scale.odds_of_one(dim, epsilon, delta)) / 2


def _spent_by_run(epsilon: float, dim: int, keep: int) -> float:
    """Epsilon of 50 sampled steps with 20 groups at the dispersion for it, order by order."""
    theta = privacy.index_sets.theta_for_joint_budget(
        epsilon=epsilon, delta=1e-5, dim=dim, keep=keep, sampling_rate=0.1, noise_multiplier=4.0, steps=50, groups=20
    )
    weight = Fraction(math.exp(-theta))
    law = _at_scale.convolved(_at_scale.counted_loss(dim, keep, weight, min(keep, dim - keep)), 20)
    index = {float(weight ** (2 * j)): float(p) for j, p in law.items()}
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
    return (
        _joint_curve(order, rate, sigma, dim, keep, weight),
        lambda: _finite.divergence(order, rate, sigma, index=_finite.ratios(dim, keep, weight)),
        _amplified_sum(order, rate, sigma, dim, keep, weight),
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
    """joint curve <= eps_2 + curve of the values

    Relative gap of the joint curve below eps_2 + the curve of the values.
    """
    model = SubsetMallows(*_SIZE, theta=theta)
    bound = model.epsilon(4) + values_curve(order, rate, sigma)
    return (
        1
        - float(
            privacy.index_sets.joint_rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma, mechanism=model)[0]
        )
        / bound
    )


@thm2.inequality(
    _BOX,
    wrong=lambda order, rate, sigma, theta: (
        1 - _reverse_joint(order, rate, sigma, theta) / values_curve(order, rate, sigma)
    ),
    tolerance=1e-7,
)
def _reverse_joint_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    """joint curve bounds the other direction"""
    bound = float(
        privacy.index_sets.joint_rdp(
            orders=[order], sampling_rate=rate, noise_multiplier=sigma, mechanism=SubsetMallows(2, 1, theta=theta)
        )[0]
    )
    return 1 - _reverse_joint(order, rate, sigma, theta) / bound


_joint.add_checks(thm2)


@thm2.equal(lambda: [(*step, *size) for step in STEPS for size in _SIZES], tolerance=1e-8)
def _(order: int, rate: float, sigma: float, dim: int, keep: int, groups: int) -> Sides:
    """joint curve of many entries and groups: counting and quadrature"""
    return (
        _joint_of_groups(order, rate, sigma, dim, keep, groups),
        lambda: _finite.divergence(order, rate, sigma, index=_ratios(dim, keep, groups)),
        _joint_of_groups(order, rate, sigma, dim, keep, groups + 1),
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
        lambda: _one_index(dim, 1.0, 1e-6),
        0.5,
    )


@thm2.equal((1.0, 20_000, 1), (3.0, 20_000, 1), (1.0, 8, 2), tolerance=1e-5)
def _(epsilon: float, dim: int, keep: int) -> Sides:
    """theta for a joint budget spends all of it: counting and quadrature"""
    return _spent_by_run(epsilon, dim, keep), epsilon, 1.005 * epsilon


Reals = Array

_REPLACED_SIZES = ((3, 1), (4, 2), (5, 2), (5, 3))
_LINE = np.linspace(-8.0, 8.0, 801)
_MESH = float(_LINE[1] - _LINE[0])


@functools.cache
def _subsets(dim: int, keep: int) -> tuple[frozenset[int], ...]:
    return tuple(frozenset(one) for one in itertools.combinations(range(dim), keep))


def _law(reference: frozenset[int], dim: int, theta: float) -> Reals:
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


def _counted(laws: Reals) -> tuple[tuple[Reals, ...], Reals]:
    """Columns without repeated rows, and how often each row stood."""
    rows, counts = np.unique(laws.round(14), axis=0, return_counts=True)
    return tuple(rows.T), counts.astype(float)


def _half_line(scale: float, against: float, still: float) -> float:
    """E of (phi(x - s) - a phi(x + s) - c phi(x))_+ over dx; the event is a half-line."""

    def excess(x: float) -> float:
        return scale * x - scale**2 / 2 - float(np.logaddexp(math.log(against) - scale * x - scale**2 / 2, log_still))

    log_still = math.log(still) if still > 0 else -math.inf
    edge = scipy.optimize.brentq(excess, -1e5, 1e5)
    return float(
        scipy.special.ndtr(scale - edge)
        - against * scipy.special.ndtr(-scale - edge)
        - still * scipy.special.ndtr(-edge)
    )


def farthest_and_base(dim: int, keep: int, theta: float, *, scale: float, rate: float, gamma: float) -> float:
    """H_gamma, gamma >= 1: one record moves the reference as far as it can, the other leaves it; set by set, half-lines."""
    base, far = frozenset(range(keep)), frozenset(range(dim - keep, dim))
    total, still = 0.0, (gamma - 1) * (1 - rate) / rate
    for here, there in zip(_law(base, dim, theta), _law(far, dim, theta), strict=True):
        total += rate * there * _half_line(scale, gamma * here / there, still * here / there)
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
