import math
from fractions import Fraction

import numpy as np

from dptheory import embedding
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _subspace_bounds
from dptheory.claims.gep import _subspace_bounds as bounds


def _bound_rises(weights: tuple[Fraction, ...], anchors: int, low: int, high: int) -> bool:
    """Whether the printed bound is larger at k = high than at k = low, when the anchors hit each axis as often as expected.

    xi = e_j with probability w_j and anchors with the same frequencies: both brackets are 1 - sum w_j^2. The difference is
    (sqrt(high) - sqrt(low)) sqrt(C/m) - (sum of the eigenvalues between); for squares low and high its sign is rational.
    """
    roots = math.isqrt(high) - math.isqrt(low)
    constant = 2 * (1 - sum((w * w for w in weights), Fraction(0)))
    between = sum(sorted(weights, reverse=True)[low:high], Fraction(0))
    return roots**2 * constant / anchors > between**2


def _mean_line_residual(anchors: int) -> Fraction:
    """Mean residual of the leading line of the anchors: e_1 with probability .9, sqrt(8) e_2 with probability .1."""
    energies = (Fraction(9, 10), Fraction(8, 10))
    total = Fraction(0)
    for picked, chance in _subspace_bounds.samples((Fraction(9, 10), Fraction(1, 10)), anchors):
        second = 8 * sum(picked) > anchors - sum(picked)
        total += chance * energies[0 if second else 1]
    return total


_TEN = (Fraction(6, 10),) + (Fraction(1, 10),) * 4


row = new_row(
    id="gep.lem3.2.text",
    source=Source("gep", "section 3.2, after Lemma 3.2"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false",),
    calculators=(embedding.residual_bound,),
)


@row.equal((_TEN, 10, 1, 4), kind=Kind.COUNTEREXAMPLE)
def _(weights: tuple[Fraction, ...], m: int, low: int, high: int) -> Sides:
    """axes with weights .6, .1, .1, .1, .1, ten anchors: the printed bound from k = 1 to k = 4"""
    return False, not _bound_rises(weights, m, low, high), True


@row.equal((1, 2), (2, 5), (5, 8), kind=Kind.COUNTEREXAMPLE)
def _(few: int, many: int) -> Sides:
    """lengths 1 and sqrt 8, weights .9 and .1, k = 1: is the mean residual smaller with more anchors?"""
    return False, lambda: _mean_line_residual(many) < _mean_line_residual(few), True


row.inequality(
    {
        "decay": Range(0.05, 1.0),
        "anchors": Range(1, 10**4, integer=True, log=True),
        "subspace_dim": Range(1, 5, integer=True),
        "failure": Range(0.01, 0.99),
    },
    wrong=bounds.printed_growth_slack,
    name="smallest bound over j <= k does not grow with k",
)(bounds.growth_slack)


@row.equal((_TEN, 6, 4), tolerance=1e-9)
def _(weights: tuple[Fraction, ...], m: int, k: int) -> Sides:
    """estimation term, unit atoms, over all samples"""
    unit_atoms = bounds.Law(tuple(map(tuple, np.eye(len(weights)).tolist())), tuple(map(float, weights)))
    return (
        embedding.residual_bound(
            eigenvalues=[float(w) for w in weights],
            subspace_dim=k,
            anchors=m,
            squared_norm_bound=1.0,
            failure_probability=bounds.ALMOST_SURE_FAILURE,
            fourth_moment=1.0,
        ).estimation,
        lambda: bounds.enumerated_estimation(unit_atoms, k, m),
        math.sqrt(k * 2 * (1 - float(sum(w * w for w in weights))) / m),
    )
