import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._at_scale import DISTANCES, WEIGHT, apart, log_of, model_of

_WEIGHTS = (Fraction(1, 2), Fraction(9, 10), Fraction(1))


def _largest_ratio(dim: int, keep: int, weight: Fraction, distance: int) -> Fraction:
    """max P(I | A) / P(I | B) over all outputs I and all B at this distance from A."""
    first = _finite.subsets(dim, keep)[0]  # any other reference is a relabelling
    near = [s for s in _finite.subsets(dim, keep) if _finite.hamming(first, s) == distance]
    law = _finite.mallows(first, weight)
    return max(law[out] / other[out] for other in (_finite.mallows(s, weight) for s in near) for out in law)


def _ratio_cases() -> Iterator[tuple[int, int, Fraction, int]]:
    for dim, keep in _finite.SIZES:
        for distance in {2, 2 * min(keep, dim - keep)}:
            for weight in _WEIGHTS:
                yield dim, keep, weight, distance


def _log_ratio(dim: int, keep: int, weight: Fraction, distance: int) -> float:
    return math.log(_largest_ratio(dim, keep, weight, distance))


def _spent(dim: int, keep: int, steps: int, groups: int) -> float:
    """Epsilon of one release at the theta that a budget of 0.3 gives."""
    theta = pruning.theta_for_budget(epsilon=0.3, dim=dim, keep=keep, steps=steps, groups=groups)
    return pruning.SubsetMallows(dim, keep, theta=theta).epsilon(_finite.diameter(dim, keep))


def _is_private(dim: int, keep: int, weight: Fraction, epsilon: float) -> bool:
    """Pure epsilon-DP for every pair of references, by enumeration."""
    reach = 2 * min(keep, dim - keep)
    return all(abs(_log_ratio(dim, keep, weight, m)) <= epsilon + 1e-12 for m in range(2, reach + 1, 2))


def printed_privacy_condition(theta: float, epsilon: float, sensitivity: int) -> bool:
    """Theorem 1 as printed, with no lower bound on theta."""
    return theta <= epsilon / sensitivity


row = new_row(
    id="gip.thm1",
    source=Source("gip", "Theorem 1, Definition 4", (4, 8, 9, 10)),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
    printed=printed_privacy_condition,
    calculators=(pruning.SubsetMallows.epsilon, pruning.index_sensitivity, pruning.theta_for_budget),
)


@row.equal(_ratio_cases, tolerance=1e-12)
def _(dim: int, keep: int, weight: Fraction, distance: int) -> Sides:
    """largest privacy loss of a pair"""
    return (
        pruning.SubsetMallows(dim, keep, theta=-math.log(weight)).epsilon(distance),
        lambda: _log_ratio(dim, keep, weight, distance),
        -math.log(weight) * (distance - 2),
    )


@row.equal(lambda: [(*size, *run) for size in _finite.SIZES for run in ((1, 1), (7, 5), (1, 3))], tolerance=1e-12)
def _(dim: int, keep: int, steps: int, groups: int) -> Sides:
    """theta for a budget spends all of it"""
    return steps * groups * _spent(dim, keep, steps, groups), 0.3, steps * _spent(dim, keep, steps, groups)


@row.equal(lambda: DISTANCES, tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """loss of a far pair at users' sizes"""
    return (
        model_of(dim, keep, WEIGHT).epsilon(apart(dim, keep)),
        # P(A | A) / P(A | B) = weight^-distance: both laws have one normalisation
        lambda: -log_of(WEIGHT ** apart(dim, keep)),
        model_of(dim, keep, WEIGHT).epsilon(apart(dim, keep) - 2),
    )


@row.equal(
    lambda: [(*size, *run) for size in DISTANCES for run in ((1, 1), (875, 1), (1, 10_547), (2500, 10_547))],
    tolerance=1e-12,
)
def _(dim: int, keep: int, steps: int, groups: int) -> Sides:
    """theta for a budget at users' sizes spends all of it"""
    return (
        steps
        * groups
        * pruning.theta_for_budget(epsilon=0.3, dim=dim, keep=keep, steps=steps, groups=groups)
        * apart(dim, keep),
        0.3,
        steps * pruning.theta_for_budget(epsilon=0.3, dim=dim, keep=keep) * apart(dim, keep),
    )


@row.equal((2, 1, Fraction(2), 0.1), (4, 2, Fraction(3), 1.0), (4, 2, Fraction(1, 2), 3.0), kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int, weight: Fraction, epsilon: float) -> Sides:
    """negative theta breaks the printed condition"""
    return (
        abs(math.log(weight)) * _finite.diameter(dim, keep) <= epsilon,
        lambda: _is_private(dim, keep, weight, epsilon),
        printed_privacy_condition(-math.log(weight), epsilon, _finite.diameter(dim, keep)),
    )
