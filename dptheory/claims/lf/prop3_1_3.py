import functools
import itertools
import math
import operator
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
import scipy
from scipy.special import ndtr

from dptheory import freezing, gradients
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf._angle_samples import density_in_two_or_three
from dptheory.claims.lf._batches import GROWING_LINE, LINE, TURNING, Batch, Block, dot
from dptheory.gradients import DistortionAngle

# Mean and variance of the angle gamma between u and s + z, z ~ N(0, I), by densities and quadrature: the second methods.
#
# snr = |s|; bias is the angle between u and s.


def _projected_normal(angle: float, snr: float) -> float:
    """Density of the angle between s and s + z in the plane."""
    c = snr * math.cos(angle)
    tail = float(ndtr(c)) * math.exp(0.5 * (c * c - snr * snr)) * math.sqrt(2 * math.pi)
    return (math.exp(-0.5 * snr * snr) + c * tail) / (2 * math.pi)


def _plane_mean(snr: float, bias: float) -> float:
    """E gamma in the plane, by its density."""

    def part(angle: float) -> float:
        turned = abs(bias + angle)
        return min(turned, 2 * math.pi - turned) * _projected_normal(angle, snr)

    breaks = sorted({-math.pi, -bias, math.pi - bias, math.pi, -0.1, 0.0, 0.1})
    return float(
        sum(scipy.integrate.quad(part, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in itertools.pairwise(breaks))
    )


def _space_mean(snr: float, bias: float) -> float:
    """E gamma in three dimensions for a signal along or against u: P(cos < x) from the noise along u and its plane."""
    sign = 1.0 if bias == 0.0 else -1.0

    def tail(angle: float) -> float:
        """P(gamma > angle) = P(k + z < |rest| cot angle), |rest| of density r exp(-r^2/2)."""
        cot = 1 / math.tan(angle)
        return float(
            scipy.integrate.quad(lambda r: r * math.exp(-r * r / 2) * ndtr(r * cot - sign * snr), 0, 12, epsabs=1e-12)[
                0
            ]
        )

    return float(scipy.integrate.quad(tail, 1e-12, math.pi - 1e-12, epsabs=1e-10)[0])


def mean_by_density(dim: int, snr: float, bias: float) -> float:
    """E gamma up to three dimensions; in one and three the signal points along u or against it."""
    if dim == 1:
        return math.pi * float(ndtr(-snr if bias == 0.0 else snr))
    return _plane_mean(snr, bias) if dim == 2 else _space_mean(snr, bias)


def _plane_variance(snr: float, bias: float) -> float:
    """Var gamma in the plane, by its density."""
    mean = _plane_mean(snr, bias)

    def part(angle: float) -> float:
        turned = abs(bias + angle)
        return (min(turned, 2 * math.pi - turned) - mean) ** 2 * _projected_normal(angle, snr)

    breaks = sorted({-math.pi, -bias, math.pi - bias, math.pi, -0.1, 0.0, 0.1})
    return float(
        sum(scipy.integrate.quad(part, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in itertools.pairwise(breaks))
    )


_gauss_rule = functools.cache(np.polynomial.legendre.leggauss)
"""Nodes and weights, which cost more than the sums that take them."""


def _variance_by_tails(dim: int, snr: float, bias: float) -> float:
    """Var gamma from P(gamma <= x) = E Phi(k cos bias - R cot x), R noncentral chi of dim - 1 and k sin bias."""
    freedom, centre = dim - 1, (snr * math.sin(bias)) ** 2
    nodes, weights = _gauss_rule(200)
    top = math.sqrt(freedom + centre) + 12
    radius = 0.5 * top * (nodes + 1)
    law = (
        (scipy.stats.ncx2.pdf(radius**2, freedom, centre) if centre else scipy.stats.chi2.pdf(radius**2, freedom))
        * 2
        * radius
    )
    chances = 0.5 * top * weights * law
    at = 0.5 * math.pi * (nodes + 1)
    above = np.array([chances @ ndtr(radius / math.tan(x) - snr * math.cos(bias)) for x in at])
    mean, square = (float(0.5 * math.pi * weights @ (factor * above)) for factor in (1.0, 2 * at))
    return square - mean**2


def variance_by_density(dim: int, snr: float, bias: float) -> float:
    """Var gamma by the density in the plane, by tail probabilities beyond it."""
    return _plane_variance(snr, bias) if dim == 2 else _variance_by_tails(dim, snr, bias)


def mean_over_noise(dim: int, snr: float, bias: float, cosine: bool = False) -> float:
    """E gamma, or E cos gamma, over the noise along the signal's plane and the length of the rest, chi of dim - 2 >= 3.

    The angle of (snr cos(bias) + y, snr sin(bias) + z, rest) with the first axis, by products of Gauss rules.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    freedom = dim - 2
    middle = math.sqrt(freedom)
    low, high = max(0.0, middle - 9), middle + 9
    points, widths = _gauss_rule(120)
    rest = low + (high - low) / 2 * (points + 1)
    log_density = (freedom - 1) * np.log(rest / middle) - (rest**2 - middle**2) / 2
    chances = widths * np.exp(log_density)
    chances /= chances.sum()
    along = snr * math.cos(bias) + nodes[:, None, None]
    across = np.hypot(snr * math.sin(bias) + nodes[:, None], rest)
    gamma = np.arctan2(across, along)
    return float(weights @ ((np.cos(gamma) if cosine else gamma) @ chances) @ weights)


def mean_in_space(dim: int, snr: float, bias: float, cosine: bool) -> float:
    """E gamma, or E cos gamma, without bias in three dimensions, by the density that is elementary there."""

    def part(angle: float) -> float:
        return (math.cos(angle) if cosine else angle) * density_in_two_or_three(dim, snr, angle)

    return float(scipy.integrate.quad(part, 0, math.pi, epsabs=0, epsrel=1e-12, limit=200)[0])


def _signals(batch: Batch, dim: int) -> tuple[Array, Array, Array]:
    """True direction, and sums of the clipped gradients before and after; embedded in R^dim."""
    pad = np.zeros(dim - batch.dim)
    u = np.array(batch.direction(), dtype=np.float64)
    before = freezing.biased_signal(batch.rows, frozen_norms=batch.frozen_norms, clip_norm=1.0) * len(batch.trainable)
    after = freezing.biased_signal(batch.rows, frozen_norms=0.0, clip_norm=1.0) * len(batch.trainable)
    return np.append(u, pad), np.append(before, pad), np.append(after, pad)


def _stated_fall(batch: Batch, dim: int, sigma: Fraction) -> bool:
    u, before, after = _signals(batch, dim)
    means = [
        freezing.expected_angle(
            dim, snr=float(np.linalg.norm(s)) / float(sigma), bias_angle=freezing.bias_angle(direction=u, signal=s)
        )
        for s in (before, after)
    ]
    return means[1] <= means[0]


def _certified_fall(batch: Batch, dim: int, sigma: Fraction) -> bool:
    """Does E gamma fall? In fractions.

    On a line through u the signal points along u before and after, and the longer one is closer to u for every draw of the noise
    (lf.appC.cos). In the plane |gamma - gamma^B| is at most the noise angle, whose mean is at most pi E|z| / |s|; a rise of
    gamma^B by more than both means makes E gamma rise. Other batches are not decided.
    """
    if not batch.meets_the_assumptions():
        raise ValueError(f"batch must meet the assumptions, got {batch}")
    u, before, after = batch.direction(), batch.clipped_sum(False), batch.clipped_sum(True)
    if all(dot(s, s) * dot(u, u) == dot(s, u) ** 2 and dot(s, u) > 0 for s in (before, after)):
        return dot(after, after) >= dot(before, before)
    tangents = [abs(dot(s, (u[1], -u[0]))) / dot(s, u) for s in (before, after)]
    q = (tangents[1] - tangents[0]) / (1 + tangents[0] * tangents[1])
    noise = (
        Fraction(22, 7) * Fraction(3, 2) * sigma * sum(1 / max(abs(Fraction(x)) for x in s) for s in (before, after))
    )
    if dim != 2 or not q / (1 + q * q) > noise:
        raise ValueError(f"batch must be decided by the noise, got {batch}")
    return False


def _fall_cases() -> list[tuple[Batch, int, Fraction]]:
    return [
        *(
            (batch, dim, Fraction(1))
            for batch, dim in ((LINE, 1), (LINE, 2), (LINE, 10), (GROWING_LINE, 1), (GROWING_LINE, 50))
        ),
        (TURNING, 2, Fraction(1, 100)),
    ]


def _line_variance(batch: Batch, frozen: bool) -> float:
    """Var gamma in one dimension, sigma = 1: the angle is 0 or pi."""
    norms = np.zeros_like(batch.frozen_norms) if frozen else batch.frozen_norms
    snr = float(freezing.biased_signal(batch.rows, frozen_norms=norms, clip_norm=1.0)[0]) * len(batch.trainable)
    return math.pi**2 * float(ndtr(snr) * ndtr(-snr))


def _angles(rng: np.random.Generator, n: int, dim: int, snr: float, bias: float) -> Array:
    noisy = rng.standard_normal((n, dim))
    noisy[:, 0] += snr * math.cos(bias)
    noisy[:, 1] += snr * math.sin(bias)
    return np.asarray(np.arccos(noisy[:, 0] / np.linalg.norm(noisy, axis=1)))


def _low_cases() -> Iterator[tuple[int, float, float]]:
    yield from itertools.product((1, 3), (0.1, 2.0), (0.0, math.pi))
    yield from itertools.product((2,), (0.1, 2.0), (0.0, 0.7, math.pi / 2, 2.5))


def _variance_cases() -> Iterator[tuple[int, float, float]]:
    yield from itertools.product((2,), (0.1, 2.0, 10.0), (0.3, math.pi / 2, 2.5))
    yield from itertools.product((3, 5, 20, 200), (0.5, 5.0), (0.0, 0.3, 2.5))


def _half_squares(rng: np.random.Generator, n: int, dim: int, snr: float, bias: float) -> Array:
    return (_angles(rng, n, dim, snr, bias) - _angles(rng, n, dim, snr, bias)) ** 2 / 2


def _line_cases() -> Iterator[tuple[float, float]]:
    yield from itertools.product((0.0, 0.5, 3.0, math.inf), (0.0, math.pi))


def _falling_variance(dim: int, snr: float, bias: float) -> float:
    """Wrong statement: the bias angle changes nothing."""
    return DistortionAngle(dim, snr=snr).var()


def _large_variance(dim: int, snr: float, bias: float) -> float:
    """Var gamma to first order where all is steep: gamma - bias is minus the noise along one direction at right angles to s.

    gamma = bias + z_1 / snr, up to a share of dim / snr^2.
    """
    return 1 / snr**2


_SNRS = ((12, 0.5), (12, 8.0), (20_000, 0.5), (20_000, 150.0), (10**6, 300.0), (10**8, 2e5))
_LAYERS = ((7, 2, 1), (7, 2, 30), (70_000, 20_000, 9000), (10**7, 200, 300_000))


def _effect(sizes: Block, clip: int, alignment: Fraction) -> freezing.FreezingEffect:
    """Two samples, the first of three layers frozen, sigma = 2, B = 10."""
    norms = [[4, 0, 3], [12, 3, 4]]
    if alignment == 1:
        return freezing.freezing_effect(
            sizes, layer_norms=norms, frozen_layers=1, clip_norm=clip, noise_multiplier=2.0, batch_size=10
        )
    return freezing.freezing_effect(
        sizes,
        layer_norms=norms,
        frozen_layers=1,
        clip_norm=clip,
        noise_multiplier=2.0,
        batch_size=10,
        alignment=float(alignment),
    )


def _effect_by_hand(field: str, sizes: Block, clip: int, alignment: Fraction) -> float | Fraction:
    """Trainable norms 3 and 5, whole norms 5 and 13."""
    when, _, name = field.partition(".")
    norms = {
        at: sum(
            (
                min(Fraction(kept), Fraction(kept * clip, whole_norm))
                for kept, whole_norm in zip((3, 5), whole, strict=True)
            ),
            Fraction(0),
        )
        / 2
        for at, whole in {"before": (5, 13), "after": (3, 5)}.items()
    }
    if field == "growth":
        return norms["after"] / norms["before"]
    dim = sizes[1] + sizes[2]
    variance = Fraction(2 * clip, 10) ** 2
    snr = alignment * Fraction(norms[when]) / Fraction(2 * clip, 10)
    if name in ("noise_cos", "noise_angle"):
        mean = mean_in_space if dim == 3 else mean_over_noise
        return mean(dim, float(snr), 0.0, name == "noise_cos")
    return {
        "dim": Fraction(dim),
        "clipped_norm": Fraction(norms[when]),
        "snr": snr,
        "noise_energy": dim * variance,
        "update_noise": (sum(sizes) if when == "before" else dim) * variance,
    }[name]


def _stated_effect(field: str, sizes: Block, clip: int, alignment: Fraction) -> float:
    return float(operator.attrgetter(field)(_effect(sizes, clip, alignment)))


_OTHER = {"before": "after", "after": "before"}


def _other_half(field: str, sizes: Block, clip: int, alignment: Fraction) -> float:
    """Wrong statement: before and after exchanged."""
    when, _, name = field.partition(".")
    if not name:
        return 1 / _stated_effect(field, sizes, clip, alignment)
    return _stated_effect(f"{_OTHER[when]}.{name}", sizes, clip, alignment)


def _effect_cases(*names: str) -> list[tuple[str, Block, int, Fraction]]:
    return [
        (field, sizes, clip, alignment)
        for field in dict.fromkeys(name if name == "growth" else f"{when}.{name}" for name in names for when in _OTHER)
        for sizes in _LAYERS
        for clip, alignment in ((1, Fraction(1, 2)), (4, Fraction(1)), (20, Fraction(1, 2)))
    ]


row = new_row(
    id="lf.prop3.1.3",
    source=Source("lf", "Proposition 3.1 (3)"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    calculators=(freezing.expected_angle, freezing.freezing_effect, gradients.angle_variance),
)


@row.equal(_fall_cases, kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch, dim: int, sigma: Fraction) -> Sides:
    """does the mean angle fall? full batches, in fractions"""
    return _stated_fall(batch, dim, sigma), _certified_fall(batch, dim, sigma), True


@row.equal((LINE,), (GROWING_LINE,), kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch) -> Sides:
    """does the variance fall? one dimension, in fractions"""
    before, after = (abs(Fraction(batch.clipped_sum(frozen)[0])) for frozen in (False, True))
    return _line_variance(batch, True) <= _line_variance(batch, False), after >= before, True


@row.equal(_low_cases, tolerance=1e-8)
def _(dim: int, snr: float, bias: float) -> Sides:
    """mean angle by densities, up to three dimensions"""
    return freezing.expected_angle(dim, snr=snr, bias_angle=bias), lambda: mean_by_density(dim, snr, bias), bias


@row.mean(partial(_angles, dim=20, snr=3.0, bias=0.6), wrong=lambda: 0.6, row_bytes=500)
def _() -> float:
    """mean angle, d = 20, snr = 3, bias 0.6"""
    return freezing.expected_angle(20, snr=3.0, bias_angle=0.6)


@row.equal(_variance_cases, tolerance=1e-7)
def _(dim: int, snr: float, bias: float) -> Sides:
    """variance with a bias angle, by densities and by tail probabilities"""
    return (
        gradients.angle_variance(dim, snr=snr, bias_angle=bias),
        lambda: variance_by_density(dim, snr, bias),
        _falling_variance(dim, snr, bias),
    )


@row.equal((10**6, 1e9, 0.7), (10**6, 1e9, 2.0), (10**9, 1e30, 1.0), (7, 1e40, 1e-3), tolerance=1e-6)
def _(dim: int, snr: float, bias: float) -> Sides:
    """variance with a bias angle, little noise in many dimensions"""
    return (
        gradients.angle_variance(dim, snr=snr, bias_angle=bias),
        _large_variance(dim, snr, bias),
        _falling_variance(dim, snr, bias),
    )


@row.equal(_line_cases, tolerance=1e-9)
def _(snr: float, bias: float) -> Sides:
    """variance on a line"""
    return (
        gradients.angle_variance(1, snr=snr, bias_angle=bias),
        math.pi**2 * (0.25 - (0.5 - float(scipy.stats.norm.sf(snr))) ** 2),
        math.pi**2 / 4,
    )


@row.mean(
    partial(_half_squares, dim=20, snr=3.0, bias=0.6), wrong=lambda: DistortionAngle(20, snr=3.0).var(), row_bytes=1000
)
def _() -> float:
    """variance with a bias angle, d = 20, snr = 3, bias 0.6"""
    return gradients.angle_variance(20, snr=3.0, bias_angle=0.6)


def _any_bias_slack(dim: float, snr: float, gain: float, bias: float, turn: float) -> float:
    """Wrong statement: also where the signal points away from u."""
    return _fall_slack(dim, snr, gain, bias + math.pi / 2, turn)


@row.inequality(
    {
        "dim": Range(2, 1e8, log=True),
        "snr": Range(1e-3, 1e4, log=True),
        "gain": Range(1.0, 10.0),
        "bias": Range(0.0, math.pi / 2),
        "turn": Range(0.0, 1.0),
    },
    wrong=_any_bias_slack,
    tolerance=1e-11,
)
def _fall_slack(dim: float, snr: float, gain: float, bias: float, turn: float) -> float:
    """mean angle falls with the bias angle and the noise

    A longer signal, no further from u: the mean angle falls to no less than the bias angle, the mean cosine rises.
    """
    d = round(dim)
    after = freezing.expected_angle(d, snr=gain * snr, bias_angle=turn * bias)
    cosines = [
        math.cos(angle) * DistortionAngle(d, snr=ratio).expected_cos()
        for angle, ratio in ((turn * bias, gain * snr), (bias, snr))
    ]
    return min(
        freezing.expected_angle(d, snr=snr, bias_angle=bias) - after, after - turn * bias, cosines[0] - cosines[1]
    )


@row.equal(
    lambda: [(dim, snr, bias) for dim, snr in _SNRS for bias in (0.0, 0.7, math.pi / 2, 2.5)],
    tolerance=1e-9,
)
def _(dim: int, snr: float, bias: float) -> Sides:
    """mean angle, over noise in the plane and length of the rest"""
    return freezing.expected_angle(dim, snr=snr, bias_angle=bias), lambda: mean_over_noise(dim, snr, bias), bias


@row.equal(
    lambda: _effect_cases("dim", "clipped_norm", "snr", "noise_energy", "update_noise", "growth"), tolerance=1e-13
)
def _(field: str, sizes: Block, clip: int, alignment: Fraction) -> Sides:
    """forecast for two samples of three layers, in fractions"""
    case = (field, sizes, clip, alignment)
    return _stated_effect(*case), _effect_by_hand(*case), lambda: _other_half(*case)


@row.equal(lambda: _effect_cases("noise_cos", "noise_angle"), tolerance=1e-9)
def _(field: str, sizes: Block, clip: int, alignment: Fraction) -> Sides:
    """forecast of angle and cosine, by quadrature"""
    case = (field, sizes, clip, alignment)
    return _stated_effect(*case), lambda: _effect_by_hand(*case), lambda: _other_half(*case)
