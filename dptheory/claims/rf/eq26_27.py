"""rf.eq26-27: the bound of Theorem 1 between linear and quadratic in d."""

from fractions import Fraction

from dptheory import gradients
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict
from dptheory.claims.rf._quadratic_forms import sign_error


def printed_degenerate_bound(scale: int, sigma: Fraction, dim: int) -> Fraction:
    """Equation 27, said of a rank-deficient covariance."""
    return scale + scale * sigma**2 * dim


row = Row(
    Claim(
        id="rf.eq26-27",
        title="between linear and quadratic in d",
        source=Source("rf", "Appendix A", (26, 27)),
        statement=r"""For $\Sigma = \lambda I$, $\mathrm{MSE}\ge\lambda d+\lambda\sigma^2d^2$. In the opposite extreme of a rank-deficient covariance
the trace is said to be constant in $d$, and $\mathrm{MSE}\ge\lambda+\lambda\sigma^2d$. So the lower bound is between linear and
quadratic in $d$.""",
        verdict=Verdict.CONDITIONAL,
        kernel="rf/eq26_27.v",
        kernel_theorems=("printed_is_false", "correction_holds"),
        summary="the two ends are right for the two covariances that they are computed for; low rank alone does not "
        "keep the trace constant, and a constant trace is not within the theorem's hypothesis.",
        conditions=(
            r"Unstated: in the second case the trace is the constant $\lambda$ (rank one with a fixed eigenvalue, "
            "for example). Rank below $d$ is not enough.",
            r"Unstated: $\lambda_{\max}$ stays between two positive constants as $d$ grows. Without this the trace "
            "can fall or grow at any rate.",
            "Theorem 1 as printed assumes a trace that grows linearly in $d$. The second case contradicts that; the "
            "bound itself does not need it ([rf.thm1](thm1.md)).",
        ),
        correction=r"""The bound is $\mathrm{Tr}\Sigma(1+d\sigma^2)$, and if $\lambda_{\max}$ is the largest eigenvalue

$$\lambda_{\max}(1+d\sigma^2)\le\mathrm{Tr}\Sigma(1+d\sigma^2)\le d\lambda_{\max}(1+d\sigma^2) .$$

Both ends are attained. Rank $d-1$ with equal eigenvalues $\lambda$ has trace $(d-1)\lambda$.""",
        printed=printed_degenerate_bound,
        calculators=(gradients.mse_lower_bound,),
        proved=True,
    )
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
