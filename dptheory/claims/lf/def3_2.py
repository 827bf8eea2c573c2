import math
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.special import gammaincinv, gammaln, hyp1f1

from dptheory import gradients
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf._angle_samples import private_cosines


def printed_angle(bias_angle: float, noise_angle: float) -> float:
    """The decomposition of Definition 3.2."""
    return bias_angle + noise_angle


_PYTHAGOREAN = tuple(
    (Fraction(cosine, size), Fraction(sine, size))
    for cosine, sine, size in ((4, 3, 5), (12, 5, 13), (15, 8, 17), (-12, 35, 37))
)


def _angle_of(point: tuple[Fraction, Fraction]) -> float:
    return math.atan2(point[1], point[0])


def _folded_back(bias: tuple[Fraction, Fraction], noise: tuple[Fraction, Fraction]) -> Fraction:
    """Cosine of the angle of s^P with the first axis: the noise turns s^B back towards it, in the plane."""
    return bias[0] * noise[0] + bias[1] * noise[1]


def _angle_at(bias: float, noise: float, twist: float) -> float:
    """Angle of e_1 with a vector at angle ``noise`` from one at angle ``bias``, turned out of their plane by ``twist``."""
    first = np.array([1.0, 0.0, 0.0])
    along, across = np.array([math.cos(bias), math.sin(bias), 0.0]), np.array([-math.sin(bias), math.cos(bias), 0.0])
    side = math.cos(twist) * across + math.sin(twist) * np.array([0.0, 0.0, 1.0])
    private = math.cos(noise) * along + math.sin(noise) * side
    return 2 * math.atan2(float(np.linalg.norm(private - first)), float(np.linalg.norm(private + first)))


def _kummer(dim: int, snr: float) -> float:
    scale = math.exp(gammaln((dim + 1) / 2) - gammaln(dim / 2 + 1)) / math.sqrt(2)
    return snr * scale * float(hyp1f1(0.5, dim / 2 + 1, -(snr**2) / 2))


_ANGLE = Range(0.0, math.pi)


def _mean_cos(dim: int, snr: float) -> float:
    """E (snr + z) / sqrt((snr + z)^2 + r^2), z normal and r the length of the noise across the signal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    r2 = 2.0 * gammaincinv((dim - 1) / 2, (np.arange(4000) + 0.5) / 4000)
    along = (snr + nodes)[:, None]
    return float((weights / weights.sum()) @ (along / np.sqrt(along**2 + r2)).mean(axis=1))


row = new_row(
    id="lf.def3.2",
    source=Source("lf", "Definition 3.2"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    kernel_theorems=("printed_is_false",),
    printed=printed_angle,
    calculators=(gradients.angle_range, gradients.batch_expected_cos),
)


@row.equal(lambda: [(b, n) for b in _PYTHAGOREAN for n in _PYTHAGOREAN], tolerance=1e-12, kind=Kind.COUNTEREXAMPLE)
def _(b: tuple[Fraction, Fraction], n: tuple[Fraction, Fraction]) -> Sides:
    """noise that turns the signal back: cosines in fractions"""
    cosine_of_the_sum = b[0] * n[0] - b[1] * n[1]
    return (
        math.cos(gradients.angle_range(bias_angle=_angle_of(b), noise_angle=_angle_of(n))[0]),
        _folded_back(b, n),
        cosine_of_the_sum,
    )


@row.inequality(
    {"bias": _ANGLE, "noise": _ANGLE, "twist": _ANGLE},
    # wrong: The printed statement
    wrong=lambda bias, noise, twist: -abs(_angle_at(bias, noise, twist) - printed_angle(bias, noise)),
)
def _range_slack(bias: float, noise: float, twist: float) -> float:
    """range of the angle"""
    low, high = gradients.angle_range(bias_angle=bias, noise_angle=noise)
    found = _angle_at(bias, noise, twist)
    return min(found - float(low), float(high) - found)


@row.inequality(
    {"bias": _ANGLE, "noise": _ANGLE},
    # wrong: The printed statement where the noise turns the signal away from the gradient
    wrong=lambda bias, noise: -abs(_angle_at(bias, noise, 0.0) - printed_angle(bias, noise)),
)
def _end_slack(bias: float, noise: float) -> float:
    """both ends of the range are taken

    In the plane.
    """
    low, high = gradients.angle_range(bias_angle=bias, noise_angle=noise)
    return -max(abs(_angle_at(bias, noise, math.pi) - float(low)), abs(_angle_at(bias, noise, 0.0) - float(high)))


@row.mean(
    partial(private_cosines, dim=20, snr=4.0, cos_bias=0.6),
    wrong=lambda: math.cos(printed_angle(math.acos(0.6), gradients.DistortionAngle(20, snr=4.0).mean())),
    row_bytes=480,
)
def _() -> float:
    """E cos given the batch, d = 20, snr = 4"""
    return float(gradients.batch_expected_cos(cos_bias=0.6, dim=20, snr=4.0))


@row.equal(lambda: [(dim, snr) for dim in (1, 2, 7, 100) for snr in (0.01, 1.0, 5.0)], tolerance=1e-12)
def _(dim: int, snr: float) -> Sides:
    """A_d as a confluent hypergeometric function"""
    return gradients.batch_expected_cos(cos_bias=1.0, dim=dim, snr=snr), _kummer(dim, snr), _kummer(dim + 1, snr)


@row.equal(
    lambda: [(c, d, share) for c in (1.0, 0.3, -0.5) for d in (20_000, 10**6) for share in (0.01, 0.5, 3.0)],
    tolerance=1e-5,
)
def _(c: float, d: int, share: float) -> Sides:
    """E cos given the batch at users' sizes: quadrature over both parts of the noise"""
    return (
        gradients.batch_expected_cos(cos_bias=c, dim=d, snr=share * math.sqrt(d)),
        lambda: c * _mean_cos(d, share * math.sqrt(d)),
        lambda: c * _mean_cos(d, 1.01 * share * math.sqrt(d)),
    )
