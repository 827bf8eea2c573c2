import math
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import embedding
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _subspace_bounds
from dptheory.claims.gep import _subspace_bounds as bounds

_LAWS = [(law, k, m) for law, k in ((bounds.SKEW, 1), (bounds.PLANE, 1), (bounds.FLAT, 1)) for m in (5, 12)]
_BOX = {
    "share": Range(0.05, 0.95),
    "ratio": Range(0.1, 1.0),
    "angle": Range(0.1, math.pi / 2),
    "anchors": Range(1, 30, integer=True),
}


def _trace_off(law: bounds.Law, k: int) -> float:
    return float(np.square(law.matrix[:, k:]).sum() / len(law.atoms))


lem3_2 = new_row(
    id="gep.lem3.2",
    source=Source("gep", "Lemma 3.2", (3,)),
    verdict=Verdict.LOOSE,
    printed=bounds.printed_residual_bound,
    calculators=(embedding.residual_bound, embedding.residual_energy),
)


@lem3_2.equal(lambda: _LAWS, tolerance=1e-9)
def _(law: bounds.Law, k: int, m: int) -> Sides:
    """estimation term: E|S - Sigma|^2 over all samples"""
    return (
        bounds.bound(law, k, m, bounds.ALMOST_SURE_FAILURE).estimation,
        lambda: bounds.enumerated_estimation(law, k, m),
        bounds.printed_mean_estimation(law, k, m),
    )


@lem3_2.equal(lambda: _LAWS, tolerance=1e-9)
def _(law: bounds.Law, k: int, m: int) -> Sides:
    """tail: the trace without the leading eigenvalues"""
    return (
        bounds.bound(law, k, m, bounds.ALMOST_SURE_FAILURE).tail,
        float(np.trace(_subspace_bounds.second_moments(law.matrix, law.weights)) - np.sum(law.eigenvalues[::-1][:k])),
        float(law.eigenvalues.sum()),
    )


@lem3_2.equal((bounds.PLANE, 1, 20, 0.9), (bounds.PLANE, 1, 30, 0.8), tolerance=1e-9)
def _(law: bounds.Law, k: int, m: int, failure: float) -> Sides:
    """deviation term: the largest change by one anchor"""
    return (
        bounds.bound(law, k, m, failure).deviation,
        lambda: bounds.exchanged_deviation(law, k, m, failure),
        lambda: bounds.exchanged_deviation(law, k, m, failure / 2),
    )


@lem3_2.equal((bounds.SKEW, 1), (bounds.SKEW, 2), (bounds.FLAT, 1), tolerance=1e-12)
def _(law: bounds.Law, k: int) -> Sides:
    """residual energy is the trace off the subspace"""
    return (
        embedding.residual_energy(law.matrix, basis=np.eye(3)[:k]),
        _trace_off(law, k),
        float(np.square(law.matrix).sum() / 3),
    )


@lem3_2.equal(
    lambda: [
        (part, *case, fourth)
        for part in ("tail", "estimation", "deviation", "subspace_dim", "first_dim", "last_dim", "value")
        for case in ((3, 3, 2), (5, 2, 1), (5, 4, 400), (300, 20, 50), (20_000, 5, 50), (20_000, 40, 10**7))
        for fourth in (None, 3.9)
    ],
    tolerance=1e-9,
)
def _(part: str, p: int, k: int, m: int, fourth: float | None) -> Sides:
    """every term and the best j, by a loop over j"""
    return (
        bounds.power_law_bound(part, p, k, m, fourth),
        lambda: bounds.looped_bound(part, p, k, m, fourth),
        lambda: bounds.looped_bound(part, p, max(1, k - 1), m, fourth, every=False),
    )


lem3_2.inequality(
    _BOX, wrong=partial(bounds.mean_slack, kept=0.2), tolerance=1e-9, name="mean residual over all samples"
)(bounds.mean_slack)


lem3_2.inequality(
    {**_BOX, "failure": Range(0.01, 0.9)},
    wrong=partial(bounds.tail_slack, kept=0.1),
    name="probability of a residual above the bound",
)(bounds.tail_slack)


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


lem3_2_text = new_row(
    id="gep.lem3.2.text",
    source=Source("gep", "section 3.2, after Lemma 3.2"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false",),
    calculators=(embedding.residual_bound,),
)


@lem3_2_text.equal((_TEN, 10, 1, 4), kind=Kind.COUNTEREXAMPLE)
def _(weights: tuple[Fraction, ...], m: int, low: int, high: int) -> Sides:
    """axes with weights .6, .1, .1, .1, .1, ten anchors: the printed bound from k = 1 to k = 4"""
    return False, not _bound_rises(weights, m, low, high), True


@lem3_2_text.equal((1, 2), (2, 5), (5, 8), kind=Kind.COUNTEREXAMPLE)
def _(few: int, many: int) -> Sides:
    """lengths 1 and sqrt 8, weights .9 and .1, k = 1: is the mean residual smaller with more anchors?"""
    return False, lambda: _mean_line_residual(many) < _mean_line_residual(few), True


lem3_2_text.inequality(
    {
        "decay": Range(0.05, 1.0),
        "anchors": Range(1, 10**4, integer=True, log=True),
        "subspace_dim": Range(1, 5, integer=True),
        "failure": Range(0.01, 0.99),
    },
    wrong=bounds.printed_growth_slack,
    name="smallest bound over j <= k does not grow with k",
)(bounds.growth_slack)


@lem3_2_text.equal((_TEN, 6, 4), tolerance=1e-9)
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
