import math
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.special import gammaincinv

from dptheory import gradients
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf._angle_samples import squares

Sample = tuple[Fraction, Fraction, Fraction]
"""Trainable x and y, and the squared norm of the frozen part."""


def _clipped_sum(samples: tuple[Sample, ...], frozen: bool) -> Fraction:
    """Squared norm of the sum of clipped trainable gradients, C = 1."""
    x, y = Fraction(0), Fraction(0)
    for first, second, rest in samples:
        square = first**2 + second**2 + (0 if frozen else rest)
        size = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
        assert size**2 == square
        scale = min(1 / size, Fraction(1))
        x, y = x + scale * first, y + scale * second
    return x**2 + y**2


_CANCELLING = ((Fraction(1), Fraction(0), Fraction(0)), (Fraction(-48, 25), Fraction(14, 25), Fraction(12)))
_ALIGNED = ((Fraction(1), Fraction(0), Fraction(0)), (Fraction(48, 25), Fraction(14, 25), Fraction(12)))


def _second_moment_falls(samples: tuple[Sample, ...], snr: float) -> bool:
    """E angle^2 after freezing against before, at snr = ``snr`` times the norm of the sum; d = 2."""
    before, after = (
        gradients.DistortionAngle(2, snr=snr * math.sqrt(_clipped_sum(samples, frozen))).second_moment()
        for frozen in (False, True)
    )
    return after < before


def _second_moment_fast_slack(dim: float, share: float, factor: float) -> float:
    """Wrong statement: it falls like 1 / snr^2 or faster."""
    d = round(dim)
    low, high = (gradients.DistortionAngle(d, snr=f * share * math.sqrt(d)).second_moment() for f in (1.0, factor))
    return low / high / factor**2 - 1


def _mean_square_angle(dim: int, snr: float) -> float:
    """E of the squared angle between e and snr e + noise, from the normal part along e and the length across it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    across = np.sqrt(2.0 * gammaincinv((dim - 1) / 2, (np.arange(4000) + 0.5) / 4000))
    return float((weights / weights.sum()) @ np.square(np.arctan2(across, (snr + nodes)[:, None])).mean(axis=1))


row = new_row(
    id="lf.appC.second_moment",
    source=Source("lf", "Appendix C, the mean squared angle"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    calculators=(gradients.DistortionAngle.second_moment,),
)


@row.mean(
    partial(squares, dim=30, snr=2.0), wrong=lambda: gradients.DistortionAngle(30, snr=2.0).mean() ** 2, row_bytes=720
)
def _() -> float:
    """mean squared angle, d = 30, snr = 2"""
    return gradients.DistortionAngle(30, snr=2.0).second_moment()


@row.inequality(
    {"dim": Range(2, 1e9, log=True), "share": Range(1e-3, 1e6, log=True), "factor": Range(1.0, 2.0)},
    wrong=_second_moment_fast_slack,
    tolerance=1e-11,
)
def _second_moment_slack(dim: float, share: float, factor: float) -> float:
    """falls as snr rises"""
    d = round(dim)
    low, high = (gradients.DistortionAngle(d, snr=f * share * math.sqrt(d)).second_moment() for f in (1.0, factor))
    return low / high - 1


@row.equal(
    lambda: [(samples, snr) for samples in (_CANCELLING, _ALIGNED) for snr in (0.1, 5.0)], kind=Kind.COUNTEREXAMPLE
)
def _(samples: tuple[Sample, ...], snr: float) -> Sides:
    """two samples, norms in fractions: rises where the clipped gradients cancel"""
    return _second_moment_falls(samples, snr), _clipped_sum(samples, True) > _clipped_sum(samples, False), True


@row.equal(lambda: [(d, share) for d in (20_000, 10**6) for share in (0.1, 1.0, 4.0)], tolerance=1e-5)
def _(d: int, share: float) -> Sides:
    """users' sizes, by quadrature over both parts of the noise"""
    return (
        gradients.DistortionAngle(d, snr=share * math.sqrt(d)).second_moment(),
        lambda: _mean_square_angle(d, share * math.sqrt(d)),
        lambda: _mean_square_angle(d, 1.01 * share * math.sqrt(d)),
    )
