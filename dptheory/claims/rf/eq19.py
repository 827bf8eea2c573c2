import itertools
from collections.abc import Sequence
from fractions import Fraction

from dptheory import gradients
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rf._quadratic_forms import approximate, exact, paired_cases, paired_max, spectrum


def _third_central_moment(eigenvalues: Sequence[int]) -> Fraction:
    """E(Q - E Q)^3, Q = sum p_j z_j^2 with trace one, from E z^2 = 1, E z^4 = 3, E z^6 = 15 by multiplying out."""
    trace = sum(eigenvalues)
    p = [Fraction(x, trace) for x in eigenvalues]
    centred = {1: Fraction(0), 2: Fraction(2), 3: Fraction(8)}  # E(z^2 - 1)^k = 3 - 1, 15 - 9 + 3 - 1
    total = Fraction(0)
    for i, j, k in itertools.product(range(len(p)), repeat=3):
        factor = Fraction(1)
        for index in {i, j, k}:
            factor *= centred[(i, j, k).count(index)]
        total += p[i] * p[j] * p[k] * factor
    return total


def printed_third_moment(eigenvalues: Sequence[int]) -> Fraction:
    """E(Q - E Q)^3 of the Gamma(k, k) variable of equation 19: 2 / k^2 = 8 (sum p^2)^2."""
    trace = sum(eigenvalues)
    return 8 * sum((Fraction(x, trace) ** 2 for x in eigenvalues), Fraction(0)) ** 2


row = new_row(
    id="rf.eq19",
    source=Source("rf", "Appendix A", (19, 20)),
    verdict=Verdict.CONDITIONAL,
    printed=approximate,
    calculators=(gradients.expected_max_quadratic_form,),
    figure="expected_max",
)


@row.equal(((1,),), ((1, 1),), ((3, 1),), ((5, 2, 1),), kind=Kind.COUNTEREXAMPLE)
def _(e: tuple[int, ...]) -> Sides:
    """third central moment in fractions"""
    return (
        8 * sum((Fraction(x, sum(e)) ** 3 for x in e), Fraction(0)),
        lambda: _third_central_moment(e),
        printed_third_moment(e),
    )


@row.equal(paired_cases, tolerance=1e-9, kind=Kind.COUNTEREXAMPLE)
def _(half: tuple[int, ...], n: int) -> Sides:
    """E max of exponential sums in fractions"""
    return exact(2 * half, n), lambda: paired_max([Fraction(x) for x in half], n), approximate(2 * half, n)


def _reversed_skew_slack(dim: int, decay: float) -> float:
    """Wrong statement: the skewness is never too small, not even by 1e-3."""
    return -1e-3 - _skew_slack(dim, decay)


@row.inequality(
    {"dim": Range(1, 1000, integer=True, log=True), "decay": Range(0.0, 4.0)},
    wrong=_reversed_skew_slack,
)
def _skew_slack(dim: int, decay: float) -> float:
    """the skewness is never too large"""
    p = spectrum(dim, decay) / spectrum(dim, decay).sum()
    return float((p**3).sum() / (p**2).sum() ** 2) - 1.0
