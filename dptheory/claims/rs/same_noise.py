from fractions import Fraction

from dptheory import sparsification
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

row = new_row(
    id="rs.same_noise",
    source=Source("rs", "section 6.1, item (iii)"),
    verdict=Verdict.CONDITIONAL,
    calculators=(sparsification.least_kappa,),
)


def _bounds(clip: Fraction) -> tuple[Fraction, Fraction]:
    """Theorem 3.5 with a mask of x = 1/4 and kappa = 1/2, and without, at sigma C = 1, d = 8, all else 1: term by term."""
    kept, kappa, noise = Fraction(1, 4), Fraction(1, 2), Fraction(8, 2)
    others = 1 + clip**2 / 2
    return (others + kept * noise) / kappa, others + noise


@row.equal((Fraction(2),), (Fraction(3),), (Fraction(1),), (Fraction(1, 2),), kind=Kind.COUNTEREXAMPLE)
def _(clip: Fraction) -> Sides:
    """does a mask lower the bound? at one sigma C the answer changes with C"""
    least = sparsification.least_kappa(drop_rate=0.75, delta_c=float(1 + clip**2 / 2), step_noise=4.0)
    masked, plain = _bounds(clip)
    same_as_at_one = True
    return least < 0.5, lambda: masked < plain, same_as_at_one


@row.equal((Fraction(1),), (Fraction(2),), (Fraction(3),), tolerance=1e-14)
def _(clip: Fraction) -> Sides:
    """the kappa at which it is a draw, by the two bounds"""
    others = 1 + clip**2 / 2
    return (
        sparsification.least_kappa(drop_rate=0.75, delta_c=float(others), step_noise=4.0),
        lambda: _bounds(clip)[0] / 2 / _bounds(clip)[1],
        sparsification.least_kappa(drop_rate=0.75, delta_c=1.0, step_noise=4.0),
    )
