from fractions import Fraction

from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row

row = new_row(
    id="rs.sensitivity",
    source=Source("rs", "section 1, before equation 4; RF, section 1"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
)


@row.equal(
    lambda: [(Fraction(c, 2), Fraction(s)) for c in (1, 8, 50) for s in (1, 3)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(clip: Fraction, sigma: Fraction) -> Sides:
    """squared distance of two neighbours over the variance of the noise"""
    gradients = (-clip, clip / 3, clip)
    whole = sum(gradients, Fraction(0))
    without = [sum(gradients[:i] + gradients[i + 1 :], Fraction(0)) for i in range(len(gradients))]
    furthest = max(abs(whole - one) for one in without)
    return 1 / sigma**2, lambda: furthest**2 / (clip * sigma) ** 2, furthest**2 / (furthest * sigma**2)
