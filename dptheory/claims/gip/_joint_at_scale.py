"""Index sets and values of one sample at users' sizes and over many groups and steps: from laws that are counted."""

import itertools
import math
from fractions import Fraction
from functools import cache

from dptheory import privacy
from dptheory.checks import ExactCheck
from dptheory.claims.gip import _loss_at_scale, _mixture
from dptheory.claims.gip._index_at_scale import DISTANCES, WEIGHT, apart, model_of
from dptheory.privacy import FreshMask, IndexSteps

_STEPS = ((2, 0.01, 1.0), (5, 0.3, 2.0), (16, 0.1, 4.0))
"""Order, sampling rate and noise multiplier."""
_SIZES = ((5, 2, 1), (4, 2, 3), (5, 3, 2), (20_000, 3, 1), (20_000, 19_998, 1), (10**6, 1, 4))
"""d, K and the number of groups."""


@cache
def _ratios(dim: int, keep: int, groups: int) -> dict[float, float]:
    """Law of P_B(I) / P_A(I) under P_A for the index sets of all groups: minus the loss, counted and convolved."""
    law = _loss_at_scale.convolved(_loss_at_scale.counted_loss(dim, keep, WEIGHT, apart(dim, keep) // 2), groups)
    return {float(WEIGHT ** (2 * j)): float(p) for j, p in law.items()}


def _joint(order: int, rate: float, sigma: float, dim: int, keep: int, groups: int) -> float:
    return float(privacy.joint_rdp([order], rate, sigma, model_of(dim, keep, WEIGHT), groups)[0])


def _spent(what: str, dim: int, keep: int, steps: int, groups: int) -> float:
    """Release by release: theta for every place that moves, and its square."""
    one = (-math.log(WEIGHT)) ** {"epsilon": 1, "rho": 2}[what] * apart(dim, keep)
    return math.fsum(one for _ in range(steps) for _ in range(groups))


def _one_index(dim: int, epsilon: float, delta: float) -> float:
    """theta at which one index of ``dim``, released once and alone, spends the budget."""
    return math.log(_loss_at_scale.odds_of_one(dim, epsilon, delta)) / 2


def _spent_by_run(epsilon: float, dim: int, keep: int) -> float:
    """Epsilon of 50 sampled steps with 20 groups at the dispersion for it, order by order."""
    theta = privacy.theta_for_joint_budget(epsilon, 1e-5, dim, keep, 0.1, 4.0, steps=50, groups=20)
    weight = Fraction(math.exp(-theta))
    law = _loss_at_scale.convolved(_loss_at_scale.counted_loss(dim, keep, weight, min(keep, dim - keep)), 20)
    index = {float(weight ** (2 * j)): float(p) for j, p in law.items()}
    return min(
        50 * _mixture.divergence(a, 0.1, 4.0, index=index) + math.log(1 - 1 / a) - math.log(1e-5 * a) / (a - 1)
        for a in range(2, 64)
    )


JOINT = (
    ExactCheck(
        name="joint curve of many entries and groups: counting and quadrature",
        cases=lambda: [(*step, *size) for step in _STEPS for size in _SIZES],
        truth=lambda order, rate, sigma, dim, keep, groups: _mixture.divergence(
            order, rate, sigma, index=_ratios(dim, keep, groups)
        ),
        statement=_joint,
        wrong=lambda order, rate, sigma, dim, keep, groups: _joint(order, rate, sigma, dim, keep, groups + 1),
        tolerance=1e-8,
    ),
    ExactCheck(
        name="steps of one dispersion, release by release",
        cases=lambda: [
            (what, *size, *run)
            for what in ("epsilon", "rho")
            for size in DISTANCES
            for run in ((1, 1), (7, 1), (1, 9), (20, 30))
        ],
        truth=_spent,
        statement=lambda what, dim, keep, steps, groups: getattr(
            IndexSteps(steps, model_of(dim, keep, WEIGHT), groups), what
        ),
        wrong=lambda what, dim, keep, steps, groups: _spent(what, dim, keep, steps, 1),
        tolerance=1e-12,
    ),
    ExactCheck(
        name="theta for a joint budget without values, one index of many: in closed form",
        cases=lambda: [(6, 1, math.inf), (20_000, 1, math.inf), (20_000, 19_999, math.inf)],
        truth=lambda dim, keep, sigma: _one_index(dim, 1.0, 1e-6),
        statement=lambda dim, keep, sigma: privacy.theta_for_joint_budget(1.0, 1e-6, dim, keep, 1.0, sigma),
        wrong=lambda dim, keep, sigma: 0.5,
        tolerance=1e-5,
    ),
    ExactCheck(
        name="theta for a joint budget spends all of it: counting and quadrature",
        cases=lambda: [(1.0, 20_000, 1), (3.0, 20_000, 1), (1.0, 8, 2)],
        truth=lambda epsilon, dim, keep: epsilon,
        statement=_spent_by_run,
        wrong=lambda epsilon, dim, keep: 1.005 * epsilon,
        tolerance=1e-5,
    ),
)

_MASKS = ((3, 1), (4, 3), (20_000, 500), (10**9, 10**8))


def _masked(order: int, rate: float, sigma: float, steps: int, dim: int, keep: int) -> float:
    """An example with one entry: in each step its share of the masks shows it, so the number of steps is binomial."""
    one = (order - 1) * _mixture.divergence(order, rate, sigma)
    seen = Fraction(keep, dim)
    moments = (
        float(math.comb(steps, t) * seen**t * (1 - seen) ** (steps - t)) * math.exp(t * one) for t in range(steps + 1)
    )
    return math.log(math.fsum(moments)) / (order - 1)


FRESH = (
    ExactCheck(
        name="example with one entry over many entries and steps",
        cases=lambda: [(*step, steps, *mask) for step, steps, mask in itertools.product(_STEPS, (1, 2, 40), _MASKS)],
        truth=_masked,
        statement=lambda order, rate, sigma, steps, dim, keep: float(
            FreshMask(dim, keep).rdp([order], rate, sigma, steps=steps)[0]
        ),
        wrong=lambda order, rate, sigma, steps, dim, keep: float(FreshMask(dim, keep).rdp([order], rate, sigma)[0]),
        tolerance=1e-7,
    ),
)
