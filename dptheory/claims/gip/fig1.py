import math
from functools import partial

import numpy as np
import scipy

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row


def _cosines(rng: np.random.Generator, n: int, dim: int, snr: float) -> Array:
    signal = np.full(dim, snr / math.sqrt(dim))
    noisy = signal + rng.standard_normal((n, dim))
    return np.asarray(noisy @ signal / snr / np.linalg.norm(noisy, axis=1))


def _low_dimensional_cosine(dim: int, snr: float) -> float:
    """E cos in one dimension (the error function) and in the plane (modified Bessel functions)."""
    if dim == 1:
        return math.erf(snr / math.sqrt(2))
    return math.sqrt(math.pi / 8) * snr * float(scipy.special.ive(0, snr**2 / 4) + scipy.special.ive(1, snr**2 / 4))


def _tighter_slack(dim: float, snr: float) -> float:
    """Wrong statement: the upper bound with d in place of d - 1."""
    d = round(dim)
    return snr / math.hypot(snr, math.sqrt(d)) / gradients.DistortionAngle(d, snr=snr).expected_cos() - 1


def _fast_fall_slack(dim: float, snr: float) -> float:
    """Wrong statement: the cosine falls like 1 / dim."""
    small, large = (gradients.DistortionAngle(d, snr=snr).expected_cos() for d in (round(dim), 4 * round(dim)))
    return small / large - 4


row = new_row(
    id="gip.fig1",
    source=Source("gip", "Fig. 1, observation 3 of section 1"),
    verdict=Verdict.HOLDS,
    calculators=(gradients.DistortionAngle.expected_cos,),
    figure="cosine_dimension",
)


@row.mean(partial(_cosines, dim=50, snr=3.0), wrong=lambda: 3.0 / math.sqrt(50), row_bytes=1200)
def _() -> float:
    """d = 50, snr = 3"""
    return gradients.DistortionAngle(50, snr=3.0).expected_cos()


@row.equal(lambda: [(dim, snr) for dim in (1, 2) for snr in (0.01, 1.0, 6.0)], tolerance=1e-12)
def _(dim: int, snr: float) -> Sides:
    """one and two dimensions in closed form"""
    return (
        gradients.DistortionAngle(dim, snr=snr).expected_cos(),
        lambda: _low_dimensional_cosine(dim, snr),
        snr / math.hypot(snr, math.sqrt(dim)),
    )


@row.inequality({"dim": Range(1, 1e8, log=True), "snr": Range(1e-6, 1e6, log=True)}, wrong=_fast_fall_slack)
def _fall_slack(dim: float, snr: float) -> float:
    """falls in the dimension"""
    lower, higher = (gradients.DistortionAngle(d, snr=snr).expected_cos() for d in (round(dim), round(1.1 * dim) + 1))
    return lower / higher - 1


@row.inequality({"dim": Range(1, 1e6, log=True), "snr": Range(1e-3, 1e3, log=True)}, wrong=_tighter_slack)
def _two_sided_slack(dim: float, snr: float) -> float:
    """two-sided bound"""
    d, value = round(dim), gradients.DistortionAngle(round(dim), snr=snr).expected_cos()
    return min(value * math.hypot(snr, math.sqrt(d + 2)) / snr - 1, snr / math.hypot(snr, math.sqrt(d - 1)) / value - 1)
