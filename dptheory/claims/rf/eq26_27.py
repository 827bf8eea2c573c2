from fractions import Fraction

from dptheory import gradients
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rf._quadratic_forms import sign_error


def printed_degenerate_bound(scale: int, sigma: Fraction, dim: int) -> Fraction:
    """Equation 27, said of a rank-deficient covariance."""
    return scale + scale * sigma**2 * dim


row = new_row(
    id="rf.eq26-27",
    source=Source("rf", "Appendix A", (26, 27)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_degenerate_bound,
    calculators=(gradients.mse_lower_bound,),
)


@row.equal(((2, 2),), ((3, 3, 3),), ((2, 0),), ((3, 0, 0),), ((1, 1, 1, 1),))
def _(roots: tuple[int, ...]) -> Sides:
    """isotropic and rank one, by enumeration"""
    trace = float(sum(r * r for r in roots))
    return (
        gradients.mse_lower_bound(trace=trace, dim=len(roots), noise_multiplier=1.5),
        lambda: sign_error(roots, Fraction(3, 2)),
        gradients.mse_lower_bound(trace=trace, dim=len(roots) + 1, noise_multiplier=1.5),
    )


@row.equal(((2, 2, 0),), ((1, 1, 1, 0),), kind=Kind.COUNTEREXAMPLE)
def _(roots: tuple[int, ...]) -> Sides:
    """a rank-deficient covariance with growing trace"""
    trace = float(sum(r * r for r in roots))
    return (
        gradients.mse_lower_bound(trace=trace, dim=len(roots), noise_multiplier=1.0),
        lambda: sign_error(roots, Fraction(1)),
        printed_degenerate_bound(max(roots) ** 2, Fraction(1), len(roots)),
    )
