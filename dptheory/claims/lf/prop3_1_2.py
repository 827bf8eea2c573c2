import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.special import gammaln, hyp1f1

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf._angle_samples import angles_drawn, half_squares

# The slope of the variance of the distortion angle for a real dimension d > 1, by quadrature.
#
# With eta = pi / 2 - angle, p ~ cos^{d-2} Psi_d and rho ~ cos^{d-1} Psi_{d-1} in kappa sin(eta), folded at 0 into the even and
# odd parts of Psi: dVar / dkappa = -2 Q (E_p eta - E_rho eta) with Q > 0.


def _even_part(n: float, y: Array) -> Array:
    """int r^{n-1} e^{-r^2/2} cosh(r y) dr over that at y = 0."""
    return np.asarray(hyp1f1(n / 2, 0.5, y**2 / 2))


def _odd_part(n: float, y: Array) -> Array:
    """int r^{n-1} e^{-r^2/2} sinh(r y) dr over the even part at y = 0."""
    mean_norm = math.sqrt(2) * math.exp(gammaln((n + 1) / 2) - gammaln(n / 2))
    return np.asarray(mean_norm * y * hyp1f1((n + 1) / 2, 1.5, y**2 / 2))


def folded_means(dim: float, snr: float) -> tuple[float, float]:
    """(E_rho eta, E_p eta), for dim in (1, 100] and snr up to 30.

    sin(eta) = tanh(t) makes the integrands analytic, with exponential decay: the trapezoidal rule is exact to rounding.
    """
    end = 38 / (dim - 1) + math.log(1 + snr) + 3
    t = np.linspace(0.0, end, 1 + math.ceil(end / min(0.1, 0.4 / math.sqrt(dim))))
    eta, y, log_cos = np.arctan(np.sinh(np.minimum(t, 700.0))), snr * np.tanh(t), math.log(2) - np.logaddexp(t, -t)
    trapezoid = np.where(t == 0, 0.5, 1.0)

    def mean(n: float, power: float) -> float:
        weight = trapezoid * np.exp(power * log_cos)
        return float((weight * eta * _odd_part(n, y)).sum() / (weight * _even_part(n, y)).sum())

    # d eta = cos(eta) dt adds one to the powers.
    return mean(dim - 1, dim), mean(dim, dim - 1)


def printed_variance(dim: int, snr: float) -> float:
    """Var = E angle^2, from the printed E angle = 0."""
    return gradients.DistortionAngle(dim, snr=snr).second_moment()


def _variance_over_batches(dim: int, snrs: tuple[float, ...]) -> float:
    """Variance over equally likely batches and the noise."""
    found = [gradients.DistortionAngle(dim, snr=snr) for snr in snrs]
    means = np.array([angle.mean() for angle in found])
    return float(np.mean([angle.var() for angle in found]) + means.var())


def _rises_by_fractions(before: Fraction, after: Fraction) -> bool:
    """d = 10, two batches at snr ``before`` each; then one at ``after``: lower bound after against upper bound before.

    Before: at most the variance without a signal, pi^2 / 12 - (1 + 1/4 + 1/9 + 1/16) / 2. After: at least a quarter of the
    squared difference of the means; that at snr k is at least pi / 2 - k sqrt(pi / 2) and, for k >= 20, at most 6 / k + 1e-20.
    """
    assert after >= 20
    below, above = Fraction(31415, 10000), Fraction(31416, 10000)  # pi
    most_before = above**2 / 12 - (1 + Fraction(1, 4) + Fraction(1, 9) + Fraction(1, 16)) / 2
    apart = below / 2 - before * Fraction(126, 100) - 6 / after - Fraction(1, 10**20)
    return apart > 0 and apart**2 / 4 > most_before


def _variance_slack(dim: float, share: float, factor: float) -> float:
    d = round(dim)
    low, high = (gradients.DistortionAngle(d, snr=f * share * math.sqrt(d)).var() for f in (1.0, factor))
    return low / high - 1


def _fast_variance_slack(dim: float, share: float, factor: float) -> float:
    """Wrong statement: the variance falls like 1 / snr^2 or faster."""
    return (1 + _variance_slack(dim, share, factor)) / factor**2 - 1


row = new_row(
    id="lf.prop3.1.2",
    source=Source("lf", "Proposition 3.1 (2)"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    printed=printed_variance,
    calculators=(gradients.DistortionAngle.var, gradients.DistortionAngle.mean),
)


@row.equal((Fraction(1, 50), Fraction(20)), kind=Kind.COUNTEREXAMPLE)
def _(before: Fraction, after: Fraction) -> Sides:
    """d = 10, two batches: snr 1/50 and 1/50 before, 1/50 and 20 after"""
    return (
        _variance_over_batches(10, (float(before), float(after)))
        > _variance_over_batches(10, (float(before), float(before))),
        _rises_by_fractions(before, after),
        False,
    )


@row.mean(partial(half_squares, dim=20, snr=3.0), wrong=lambda: printed_variance(20, 3.0), row_bytes=960)
def _() -> float:
    """variance given the batch, d = 20, snr = 3"""
    return gradients.DistortionAngle(20, snr=3.0).var()


@row.mean(partial(angles_drawn, dim=20, snr=3.0), wrong=lambda: 0.0, row_bytes=480)
def _() -> float:
    """mean given the batch, d = 20, snr = 3"""
    return gradients.DistortionAngle(20, snr=3.0).mean()


def _steeper_slope_slack(excess: float, snr: float) -> float:
    """Wrong statement: with a margin of 5 %."""
    return _slope_slack(excess, snr) - 0.05


@row.inequality(
    {"excess": Range(0.05, 99.0, log=True), "snr": Range(1e-3, 30.0, log=True)},
    wrong=_steeper_slope_slack,
)
def _slope_slack(excess: float, snr: float) -> float:
    """the slope of the variance, real dimensions

    dVar / dkappa < 0 for every real d = 1 + excess.
    """
    rho, p = folded_means(1 + excess, snr)
    return p / rho - 1


@row.equal(
    lambda: itertools.product((2, 3, 10, 1000, 10**6, 10**9), (0.01, 0.1, 0.5, 1.0, 3.0, 30.0, 1e4), (1.001, 1.1, 2.0))
)
def _(dim: int, share: float, factor: float) -> Sides:
    """the variance falls as snr rises"""
    return (
        _variance_slack(dim, share, factor) >= -1e-10,
        True,
        lambda: _fast_variance_slack(dim, share, factor) >= -1e-10,
    )
