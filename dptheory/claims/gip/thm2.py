import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

from dptheory import privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _at_scale, _finite, _joint, _mixture
from dptheory.claims.gip._at_scale import DISTANCES, WEIGHT, apart, model_of
from dptheory.claims.gip._mixture import RATES, STEPS, values_curve
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
    return _mixture.divergence(order, rate, sigma, index={up: 1 / (1 + up), 1 / up: up / (1 + up)}, sign=-1)


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
        50 * _mixture.divergence(a, 0.1, 4.0, index=index) + math.log(1 - 1 / a) - math.log(1e-5 * a) / (a - 1)
        for a in range(2, 64)
    )


row = new_row(
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


@row.equal(_joint_cases, tolerance=1e-8)
def _(order: int, rate: float, sigma: float, dim: int, keep: int, weight: Fraction) -> Sides:
    """joint curve by enumeration and quadrature"""
    return (
        _joint_curve(order, rate, sigma, dim, keep, weight),
        lambda: _mixture.divergence(order, rate, sigma, index=_mixture.ratios(dim, keep, weight)),
        _amplified_sum(order, rate, sigma, dim, keep, weight),
    )


@row.equal(
    lambda: itertools.product(
        (Fraction(1, 2), Fraction(1, 100)), (Fraction(1, 2), Fraction(9, 10)), (Fraction(1, 3), Fraction(1, 10))
    ),
    kind=Kind.COUNTEREXAMPLE,
)
def _(rate: Fraction, weight: Fraction, chance: Fraction) -> Sides:
    """separately amplified parts do not add up"""
    return _stated_excess(rate, weight, chance), lambda: _excess(rate, weight, chance), Fraction(0)


@row.inequality(_BOX, wrong=_amplified_slack)
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


@row.inequality(
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


_joint.add_checks(row)


@row.equal(lambda: [(*step, *size) for step in STEPS for size in _SIZES], tolerance=1e-8)
def _(order: int, rate: float, sigma: float, dim: int, keep: int, groups: int) -> Sides:
    """joint curve of many entries and groups: counting and quadrature"""
    return (
        _joint_of_groups(order, rate, sigma, dim, keep, groups),
        lambda: _mixture.divergence(order, rate, sigma, index=_ratios(dim, keep, groups)),
        _joint_of_groups(order, rate, sigma, dim, keep, groups + 1),
    )


@row.equal(
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


@row.equal((6, 1, math.inf), (20_000, 1, math.inf), (20_000, 19_999, math.inf), tolerance=1e-5)
def _(dim: int, keep: int, sigma: float) -> Sides:
    """theta for a joint budget without values, one index of many: in closed form"""
    return (
        privacy.index_sets.theta_for_joint_budget(
            epsilon=1.0, delta=1e-6, dim=dim, keep=keep, sampling_rate=1.0, noise_multiplier=sigma
        ),
        lambda: _one_index(dim, 1.0, 1e-6),
        0.5,
    )


@row.equal((1.0, 20_000, 1), (3.0, 20_000, 1), (1.0, 8, 2), tolerance=1e-5)
def _(epsilon: float, dim: int, keep: int) -> Sides:
    """theta for a joint budget spends all of it: counting and quadrature"""
    return _spent_by_run(epsilon, dim, keep), epsilon, 1.005 * epsilon
