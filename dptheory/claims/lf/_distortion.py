"""LF, Proposition 3.1 (3): mean and variance of the angle between the true direction and the noisy signal."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import chi2, ncx2, norm

from dptheory import freezing, gradients
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf import _at_scale
from dptheory.claims.lf._batches import GROWING_LINE, LINE, TURNING, Batch, dot
from dptheory.gradients import DistortionAngle

Array = NDArray[np.float64]


def _signals(batch: Batch, dim: int) -> tuple[Array, Array, Array]:
    """True direction, and sums of the clipped gradients before and after; embedded in R^dim."""
    pad = np.zeros(dim - batch.dim)
    u = np.array(batch.direction(), dtype=np.float64)
    before = freezing.biased_signal(batch.rows, batch.frozen_norms, 1.0) * len(batch.trainable)
    after = freezing.biased_signal(batch.rows, 0.0, 1.0) * len(batch.trainable)
    return np.append(u, pad), np.append(before, pad), np.append(after, pad)


def _stated_fall(batch: Batch, dim: int, sigma: Fraction) -> bool:
    u, before, after = _signals(batch, dim)
    means = [
        freezing.expected_angle(dim, float(np.linalg.norm(s)) / float(sigma), freezing.bias_angle(u, s))
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
    snr = float(freezing.biased_signal(batch.rows, norms, 1.0)[0]) * len(batch.trainable)
    return math.pi**2 * float(ndtr(snr) * ndtr(-snr))


def _angles(rng: np.random.Generator, n: int, dim: int, snr: float, bias: float) -> Array:
    noisy = rng.standard_normal((n, dim))
    noisy[:, 0] += snr * math.cos(bias)
    noisy[:, 1] += snr * math.sin(bias)
    return np.asarray(np.arccos(noisy[:, 0] / np.linalg.norm(noisy, axis=1)))


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
    return float(sum(quad(part, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in itertools.pairwise(breaks)))


def _space_mean(snr: float, bias: float) -> float:
    """E gamma in three dimensions for a signal along or against u: P(cos < x) from the noise along u and its plane."""
    sign = 1.0 if bias == 0.0 else -1.0

    def tail(angle: float) -> float:
        """P(gamma > angle) = P(k + z < |rest| cot angle), |rest| of density r exp(-r^2/2)."""
        cot = 1 / math.tan(angle)
        return float(quad(lambda r: r * math.exp(-r * r / 2) * ndtr(r * cot - sign * snr), 0, 12, epsabs=1e-12)[0])

    return float(quad(tail, 1e-12, math.pi - 1e-12, epsabs=1e-10)[0])


def _low_dimensional(dim: int, snr: float, bias: float) -> float:
    if dim == 1:
        return math.pi * float(ndtr(-snr if bias == 0.0 else snr))
    return _plane_mean(snr, bias) if dim == 2 else _space_mean(snr, bias)


def _low_cases() -> Iterator[tuple[int, float, float]]:
    yield from itertools.product((1, 3), (0.1, 2.0), (0.0, math.pi))
    yield from itertools.product((2,), (0.1, 2.0), (0.0, 0.7, math.pi / 2, 2.5))


def _fall_slack(dim: float, snr: float, gain: float, bias: float, turn: float) -> float:
    """A longer signal, no further from u: the mean angle falls to no less than the bias angle, the mean cosine rises."""
    d = round(dim)
    after = freezing.expected_angle(d, gain * snr, turn * bias)
    cosines = [
        math.cos(angle) * DistortionAngle(d, ratio).expected_cos()
        for angle, ratio in ((turn * bias, gain * snr), (bias, snr))
    ]
    return min(freezing.expected_angle(d, snr, bias) - after, after - turn * bias, cosines[0] - cosines[1])


def _any_bias_slack(dim: float, snr: float, gain: float, bias: float, turn: float) -> float:
    """Wrong statement: also where the signal points away from u."""
    return _fall_slack(dim, snr, gain, bias + math.pi / 2, turn)


# --- variance with a bias angle ---------------------------------------------------------------------------------------


def _plane_variance(snr: float, bias: float) -> float:
    """Var gamma in the plane, by its density."""
    mean = _plane_mean(snr, bias)

    def part(angle: float) -> float:
        turned = abs(bias + angle)
        return (min(turned, 2 * math.pi - turned) - mean) ** 2 * _projected_normal(angle, snr)

    breaks = sorted({-math.pi, -bias, math.pi - bias, math.pi, -0.1, 0.0, 0.1})
    return float(sum(quad(part, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in itertools.pairwise(breaks)))


def _tail_moments(dim: int, snr: float, bias: float) -> float:
    """Var gamma from P(gamma <= x) = E Phi(k cos bias - R cot x), R noncentral chi of dim - 1 and k sin bias."""
    freedom, centre = dim - 1, (snr * math.sin(bias)) ** 2
    nodes, weights = np.polynomial.legendre.leggauss(200)
    top = math.sqrt(freedom + centre) + 12
    radius = 0.5 * top * (nodes + 1)
    law = (ncx2.pdf(radius**2, freedom, centre) if centre else chi2.pdf(radius**2, freedom)) * 2 * radius
    chances = 0.5 * top * weights * law
    at = 0.5 * math.pi * (nodes + 1)
    above = np.array([chances @ ndtr(radius / math.tan(x) - snr * math.cos(bias)) for x in at])
    mean, square = (float(0.5 * math.pi * weights @ (factor * above)) for factor in (1.0, 2 * at))
    return square - mean**2


def _variance_cases() -> Iterator[tuple[int, float, float]]:
    yield from itertools.product((2,), (0.1, 2.0, 10.0), (0.3, math.pi / 2, 2.5))
    yield from itertools.product((3, 5, 20, 200), (0.5, 5.0), (0.0, 0.3, 2.5))


def _variance_otherwise(dim: int, snr: float, bias: float) -> float:
    return _plane_variance(snr, bias) if dim == 2 else _tail_moments(dim, snr, bias)


def _half_squares(rng: np.random.Generator, n: int, dim: int, snr: float, bias: float) -> Array:
    return (_angles(rng, n, dim, snr, bias) - _angles(rng, n, dim, snr, bias)) ** 2 / 2


def _line_cases() -> Iterator[tuple[float, float]]:
    yield from itertools.product((0.0, 0.5, 3.0, math.inf), (0.0, math.pi))


def _falling_variance(dim: int, snr: float, bias: float) -> float:
    """Wrong statement: the bias angle changes nothing."""
    return DistortionAngle(dim, snr).var()


def _large_variance(dim: int, snr: float, bias: float) -> float:
    """Var gamma to first order where all is steep: gamma - bias is minus the noise along one direction at right angles to s.

    gamma = bias + z_1 / snr, up to a share of dim / snr^2.
    """
    return 1 / snr**2


DISTORTION = Claim(
    id="lf.prop3.1.3",
    title="freezing lowers mean and variance of the angle",
    source=Source("lf", "Proposition 3.1 (3)"),
    statement=r"Under Assumptions 3.1 and 3.2 $E[\gamma^a]\le E[\gamma^b]$ and $\mathrm{Var}[\gamma^a]\le\mathrm{Var}[\gamma^b]$.",
    verdict=Verdict.FALSE,
    conditions=(
        "the printed proof takes E gamma^BP = 0, so that E gamma = E gamma^B; an angle is never negative",
        "it rests on lf.lem3.2b and lf.prop3.1.1, both false",
    ),
    correction=r"For one batch with $\kappa = \|s^B\|/\tau$: $E\gamma = \gamma^B+2\int_{\gamma^B}^{\pi/2}E\Phi(-\kappa\rho\sin t)dt$, $\rho$ the projected length of a uniform unit vector on a plane. "
    r"It rises with $\gamma^B$, and falls with $\kappa$ if $\gamma^B\le\pi/2$: $E\gamma$ falls and $E\cos\gamma$ rises if $\gamma^{B,a}\le\min(\gamma^{B,b},\pi/2)$ and $\kappa^a\ge\kappa^b$. "
    r"$\mathrm{Var}(\gamma|batch)$ is a double integral over $\gamma^{BP}$ and the turn of the noise about $s^B$ (lf.prop3.1.3.sum).",
    calculators=(freezing.expected_angle, freezing.freezing_effect, gradients.angle_variance),
    checks=(
        ExactCheck(
            name="does the mean angle fall? full batches, in fractions",
            cases=_fall_cases,
            truth=_certified_fall,
            statement=_stated_fall,
            wrong=lambda *case: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="does the variance fall? one dimension, in fractions",
            cases=lambda: [(LINE,), (GROWING_LINE,)],
            truth=lambda batch: abs(batch.clipped_sum(True)[0]) >= abs(batch.clipped_sum(False)[0]),
            statement=lambda batch: _line_variance(batch, True) <= _line_variance(batch, False),
            wrong=lambda batch: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="mean angle by densities, up to three dimensions",
            cases=_low_cases,
            truth=_low_dimensional,
            statement=lambda dim, snr, bias: freezing.expected_angle(dim, snr, bias),
            wrong=lambda dim, snr, bias: bias,
            tolerance=1e-8,
        ),
        MeanCheck(
            name="mean angle, d = 20, snr = 3, bias 0.6",
            sampler=partial(_angles, dim=20, snr=3.0, bias=0.6),
            claimed=lambda: freezing.expected_angle(20, 3.0, 0.6),
            wrong=lambda: 0.6,
            row_bytes=500,
        ),
        ExactCheck(
            name="variance with a bias angle, by densities and by tail probabilities",
            cases=_variance_cases,
            truth=_variance_otherwise,
            statement=lambda dim, snr, bias: gradients.angle_variance(dim, snr, bias),
            wrong=_falling_variance,
            tolerance=1e-7,
        ),
        ExactCheck(
            name="variance with a bias angle, little noise in many dimensions",
            cases=lambda: [(10**6, 1e9, 0.7), (10**6, 1e9, 2.0), (10**9, 1e30, 1.0), (7, 1e40, 1e-3)],
            truth=_large_variance,
            statement=lambda dim, snr, bias: gradients.angle_variance(dim, snr, bias),
            wrong=_falling_variance,
            tolerance=1e-6,
        ),
        ExactCheck(
            name="variance on a line",
            cases=_line_cases,
            truth=lambda snr, bias: math.pi**2 * (0.25 - (0.5 - float(norm.sf(snr))) ** 2),
            statement=lambda snr, bias: gradients.angle_variance(1, snr, bias),
            wrong=lambda snr, bias: math.pi**2 / 4,
            tolerance=1e-9,
        ),
        MeanCheck(
            name="variance with a bias angle, d = 20, snr = 3, bias 0.6",
            sampler=partial(_half_squares, dim=20, snr=3.0, bias=0.6),
            claimed=lambda: gradients.angle_variance(20, 3.0, 0.6),
            wrong=lambda: DistortionAngle(20, 3.0).var(),
            row_bytes=1000,
        ),
        SearchCheck(
            name="mean angle falls with the bias angle and the noise",
            box={
                "dim": Range(2, 1e8, log=True),
                "snr": Range(1e-3, 1e4, log=True),
                "gain": Range(1.0, 10.0),
                "bias": Range(0.0, math.pi / 2),
                "turn": Range(0.0, 1.0),
            },
            slack=_fall_slack,
            wrong=_any_bias_slack,
            tolerance=1e-11,
        ),
        *_at_scale.ANGLE,
        *_at_scale.EFFECT,
    ),
    proved=True,
)
