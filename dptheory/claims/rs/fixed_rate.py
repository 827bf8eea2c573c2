import math
from fractions import Fraction

from dptheory import sparsification
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs._kappa import calculated, exact_kappa_of

row = new_row(
    id="rs.fixed_rate",
    source=Source("rs", "new, on Theorem 3.5"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.least_kappa,),
    figure="tradeoff",
)


@row.equal(
    lambda: [
        (Fraction(j, 4), Fraction(k, 20), Fraction(1), Fraction(n))
        for j in (1, 2, 3)
        for k in range(1, 21)
        for n in (0, 1, 7)
    ]
)
def _(x: Fraction, k: Fraction, dc: Fraction, n: Fraction) -> Sides:
    """who gains, in fractions"""
    return (
        k > sparsification.least_kappa(drop_rate=float(1 - x), delta_c=float(dc), step_noise=float(n)) * (1 + 1e-12),
        (dc + x * n) / k < dc + n,
        k > x,
    )


@row.equal(("equal entries, P = 1/2",), kind=Kind.COUNTEREXAMPLE)
def _(name: str) -> Sides:
    """gain with d sigma^2 / B^2 = 1/4, kappa = 1"""
    return (
        sparsification.least_kappa(drop_rate=0.75, delta_c=1.0, step_noise=0.25) < calculated(name).value,
        lambda: (1 + Fraction(1, 4) * Fraction(1, 4)) / exact_kappa_of(name) < 1 + Fraction(1, 4),
        Fraction(1, 4) > 1,
    )


def _needed_noise(x: float, share: float) -> float:
    """(1 + Delta_L / (g^2 T A)) / sqrt x, ``share`` = Delta_L / (g^2 T A): what D / A has to exceed where kappa <= sqrt x."""
    return (1 + share) / math.sqrt(x)


def _raised_noise_slack(x: float, share: float, excess: float, kappa_share: float) -> float:
    """Wrong statement: the same up to 1.01 times the needed noise."""
    return _needed_noise_slack(x, share, 1.01 * excess, kappa_share)


@row.inequality(
    {
        "x": Range(1e-4, 0.999, log=True),
        "share": Range(1e-6, 1e6, log=True),
        "excess": Range(0, 1),
        "kappa_share": Range(0, 1),
    },
    wrong=_raised_noise_slack,
)
def _needed_noise_slack(x: float, share: float, excess: float, kappa_share: float) -> float:
    """noise that is needed where kappa <= sqrt x

    Below the needed noise no kappa in [x, sqrt x] gives a gain; A = g = 1.
    """
    noise = excess * _needed_noise(x, share)
    kappa = x + kappa_share * (math.sqrt(x) - x)
    return sparsification.least_kappa(drop_rate=1 - x, delta_c=1 + share, step_noise=noise) / kappa - 1
