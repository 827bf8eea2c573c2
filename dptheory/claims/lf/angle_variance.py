import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import scipy

from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.gradients import angle_variance

_Change = Callable[[float, float, float], tuple[float, float]]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_HERMITE, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def _across_grown(snr: float, bias: float, growth: float) -> tuple[float, float]:
    """(snr, bias angle) after the part of the signal across the gradient has grown and the part along it has not."""
    along, across = snr * math.cos(bias), growth * snr * math.sin(bias)
    return math.hypot(along, across), math.atan2(across, along)


def _falls(dim: int, share: float, bias: float, growth: float, change: _Change) -> bool:
    snr = share * math.sqrt(dim)
    after, angle = change(snr, bias, growth)
    return angle_variance(dim, snr=after, bias_angle=angle) < angle_variance(dim, snr=snr, bias_angle=bias)


def _lengthened(snr: float, bias: float, growth: float) -> tuple[float, float]:
    return growth * snr, bias


def _growing_cases() -> Iterator[tuple[int, float, float, float]]:
    yield from itertools.product((2, 3), (0.3, 5.0), (0.3, 2.0), (1.1,))
    yield from itertools.product((2, 3, 12, 10**4, 10**9), (0.02, 0.5, 5.0), (0.0,), (1.01, 3.0))
    yield from itertools.product((12, 10**4, 10**6, 10**9), (0.02, 0.5, 5.0), (0.3, 1.2, math.pi / 2, 2.5), (1.01, 3.0))


def _slope(dim: int, snr: float, bias: float, axis: float) -> float:
    """snr / 2 times the slope of the variance as the signal grows along a direction at the angle ``axis`` to u, by quadrature.

    The covariance of the angle and its slope for one noise draw, over the noise along u, along the signal across u, and the
    length of the rest (chi of dim - 2).
    """
    middle = math.sqrt(dim - 2)
    rest = np.maximum(middle + 9 * _NODES, 0.0)
    with np.errstate(divide="ignore"):
        log_density = (dim - 3) * np.log(rest / middle) - (rest**2 - middle**2) / 2
    chances = _WEIGHTS * np.exp(log_density)
    weight = _HERMITE_WEIGHTS[:, None, None] * _HERMITE_WEIGHTS[:, None] * (chances / chances.sum())
    weight = weight / weight.sum()
    first = snr * math.cos(bias) + _HERMITE[:, None, None]
    second = snr * math.sin(bias) + _HERMITE[:, None]
    across = np.hypot(second, rest)
    angle = np.arctan2(across, first)
    moved = (first * second / across * math.sin(axis) - across * math.cos(axis)) / (first**2 + across**2)
    centred = angle - (weight * angle).sum()
    return float(snr * (weight * centred * moved).sum())


def _difference(dim: int, snr: float, bias: float) -> float:
    """The same for a longer signal, by differences of the calculator."""
    step = 3e-3
    high, low = (angle_variance(dim, snr=snr * math.exp(move), bias_angle=bias) for move in (step, -step))
    return (high - low) / (4 * step)


def _edges(dim: int, k: float, bias: float) -> list[float]:
    """Panels of the latitude, dense about the mean direction and the equator."""
    spread = 1 / math.sqrt(k + dim)
    about = [math.pi / 2 - bias + j * spread for j in (-12, -6, -3, -1, 0, 1, 3, 6, 12)]
    about += [j * spread for j in (-12, -6, -3, 0, 3, 6, 12)]
    inside = {min(max(x, -math.pi / 2), math.pi / 2) for x in about}
    return sorted({-math.pi / 2, math.pi / 2, *inside})


def _latitudes(dim: int, k: float, bias: float) -> tuple[Array, Array, Array]:
    """Latitude against u, its chances and E[cos psi | latitude] for a von Mises-Fisher direction, concentration k.

    psi is the longitude from the mean direction, which is at the angle ``bias`` to u.
    """
    pieces = [(low, high) for low, high in itertools.pairwise(_edges(dim, k, bias)) if high > low]
    latitude = np.concatenate([low + (high - low) / 2 * (_NODES + 1) for low, high in pieces])
    width = np.concatenate([(high - low) / 2 * _WEIGHTS for low, high in pieces])
    pull = np.maximum(k * math.sin(bias) * np.cos(latitude), 1e-6)
    order = (dim - 3) / 2
    bessel = scipy.special.ive(order, pull)
    log_mean = np.log(bessel) + pull - order * np.log(pull) + order * math.log(2) + scipy.special.gammaln(order + 1)
    log_density = (dim - 2) * np.log(np.cos(latitude)) + k * np.sin(latitude) * math.cos(bias) + log_mean
    chances = width * np.exp(log_density - log_density.max())
    return latitude, chances / chances.sum(), scipy.special.ive(order + 1, pull) / bessel


def _fixed_length_slack(dim: float, k: float, bias: float, axis: float) -> float:
    """Minus the covariance of the latitude and its slope, at a fixed length of the noisy signal, over the variance."""
    latitude, chances, turn = _latitudes(round(dim), k, bias)
    slope = np.cos(latitude) * math.cos(axis) - np.sin(latitude) * math.sin(axis) * turn
    centred = latitude - chances @ latitude
    return float(-(chances @ (centred * slope)) / (chances @ centred**2))


row = new_row(
    id="lf.angle_variance",
    source=Source("lf", "new, on Proposition 3.1 (3)"),
    verdict=Verdict.HOLDS,
    calculators=(angle_variance,),
)


@row.equal(_growing_cases)
def _(dim: int, share: float, bias: float, growth: float) -> Sides:
    """does the variance fall as the signal grows?"""
    falls = partial(_falls, dim, share, bias, growth)
    return falls(_lengthened), True, lambda: falls(_across_grown)


@row.equal(
    lambda: [
        (dim, share * math.sqrt(dim), bias)
        for dim, shares in ((30, (0.3, 2.0)), (10**4, (0.1, 1.0)), (10**6, (0.01, 0.5, 3.0)))
        for share in shares
        for bias in (0.0, 0.7, math.pi / 2, 2.5)
    ],
    tolerance=1e-4,
)
def _(dim: int, snr: float, bias: float) -> Sides:
    """slope of the variance, over three parts of the noise"""
    return _difference(dim, snr, bias), lambda: _slope(dim, snr, bias, bias), lambda: _slope(dim, snr, bias, 0.0)


@row.inequality(
    {
        "dim": Range(2, 60, integer=True),
        "k": Range(1e-2, 1e4, log=True),
        "bias": Range(0.0, math.pi / 2),
    },
    # wrong: the same as the mean direction turns towards u
    wrong=lambda dim, k, bias: _fixed_length_slack(dim, k, bias, bias - math.pi / 2),
    tolerance=1e-11,
)
def _conditional_slack(dim: float, k: float, bias: float) -> float:
    """covariance of latitude and slope at a fixed length (steps 7 to 9)"""
    return _fixed_length_slack(dim, k, bias, bias)


@row.equal(
    lambda: [
        *itertools.product((2, 3), (0.1, 2.0), (0.0, 0.7), (0.3,)),
        *itertools.product((12, 10**4, 10**9), (0.02, 0.5, 5.0), (0.0, 0.3, 0.7, 1.2), (1e-3, 0.3)),
    ]
)
def _(dim: int, share: float, bias: float, turn: float) -> Sides:
    """measured: does it rise with the bias angle?"""
    snr = share * math.sqrt(dim)
    variances = [angle_variance(dim, snr=snr, bias_angle=angle) for angle in (bias, bias + turn, math.pi - bias)]
    return variances[1] > variances[0], True, lambda: variances[2] > variances[1]


@row.equal(lambda: itertools.product((2, 12, 10**6), (0.1, 2.0), (0.4, 2.4, 2.9), (0.2, 0.6, 1.5)))
def _(dim: int, share: float, before: float, after: float) -> Sides:
    """measured: does it fall where the bias angle moves away from a right angle, from above one too?"""
    snr = share * math.sqrt(dim)
    variances = [angle_variance(dim, snr=snr, bias_angle=angle) for angle in (before, after)]
    return (
        after <= min(before, math.pi - before),
        variances[1] < variances[0],
        lambda: after <= min(before, math.pi / 2),
    )
