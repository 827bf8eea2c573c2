"""Moments of one clipped normal variable, min(max(x, -C), C) for x ~ N(w, s^2) with w >= 0 and s > 0, to about twelve digits.

Every term is positive or has no near equal to cancel with, down to where a result underflows. Ratios may be infinite.
"""

import math

import numpy as np
import scipy

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_PLACES, _SHARES = 0.5 * (1.0 + _NODES), 0.5 * _WEIGHTS  # on [0, 1]
_NOTHING = 40.0  # standard deviations beyond which a tail underflows
_FALL = 45.0  # e^-45 of the largest value and less is left out


def clip_chance(grad_norm: float, deviation: float, bound: float) -> float:
    """P(|x| > C)."""
    return float(
        scipy.special.ndtr((grad_norm - bound) / deviation) + scipy.special.ndtr(-(grad_norm + bound) / deviation)
    )


def slope_and_shortfall(grad_norm: float, deviation: float, bound: float) -> tuple[float, float]:
    r"""a and 1 - a of E clip(x) = a w.

    a = min(1, C / w) (1 - e), e the mean of erfc(t / sqrt 2) over t from \|w - C| / s to (w + C) / s.
    """
    whole = min(1.0, bound / grad_norm) if grad_norm > 0.0 else 1.0
    start, width = abs(grad_norm - bound) / deviation, 2.0 * min(grad_norm, bound) / deviation
    lost = _mean_erfc(start, width)
    # A lost share near 1 would leave the slope without digits.
    left = (
        float(_SHARES @ scipy.special.erf((start + width * _PLACES) / math.sqrt(2.0)))
        if start + width < 2.0
        else 1.0 - lost
    )
    beyond = (grad_norm - bound) / grad_norm if grad_norm > bound else 0.0
    return whole * left, beyond + whole * lost


def variance(grad_norm: float, deviation: float, bound: float) -> float:
    """Variance of the clipped variable."""
    low, high = (bound - grad_norm) / deviation, (bound + grad_norm) / deviation
    if low < 1.0:
        return _variance_of_excess(-low, 2.0 * bound / deviation, deviation)
    low, high = min(low, _NOTHING), min(high, _NOTHING)
    square = 1.0 - _lost_square(low) - _lost_square(high)
    return deviation**2 * (square - (excess(low) - excess(high)) ** 2)


def excess(cut: float) -> float:
    """E(z - cut)_+ of a standard normal z."""
    if cut < 0.0:
        return -cut + excess(-cut)
    if cut > _NOTHING:
        return 0.0
    rest = 1.0 / math.sqrt(2.0 * math.pi) - 0.5 * cut * float(scipy.special.erfcx(cut / math.sqrt(2.0)))
    return math.exp(-0.5 * cut * cut) * rest


def _lost_square(cut: float) -> float:
    """E[z^2 - cut^2; z > cut] of a standard normal z."""
    return (1.0 - cut * cut) * float(scipy.special.ndtr(-cut)) + cut * math.exp(-0.5 * cut * cut) / math.sqrt(
        2.0 * math.pi
    )


def _variance_of_excess(start: float, width: float, deviation: float) -> float:
    """s^2 times the variance of D = min((z - start)_+, width), start > -1: E D^2 and E D are integrals of the tail of z."""
    if start > 1.5 * _NOTHING:
        return 0.0
    used = min(width, _reach(start))
    x = used * _PLACES
    tail = (
        0.5 * used * scipy.special.erfcx((start + x) / math.sqrt(2.0)) * np.exp(-x * (start + 0.5 * x))
    )  # over e^(-start^2 / 2)
    mean, square = float(_SHARES @ tail), float(_SHARES @ (2.0 * x * tail))
    # A large s can lift what e^(-start^2 / 2) alone would make underflow.
    root = deviation * math.exp(-0.25 * start * start)
    return root * root * (square - math.exp(-0.5 * start * start) * mean * mean)


def _mean_erfc(start: float, width: float) -> float:
    """Mean of erfc(t / sqrt 2) over start <= t <= start + width, start >= 0."""
    if start > _NOTHING:
        return 0.0
    used = min(width, _reach(start))
    x = used * _PLACES
    mean = float(_SHARES @ (scipy.special.erfcx((start + x) / math.sqrt(2.0)) * np.exp(-x * (start + 0.5 * x))))
    return math.exp(-0.5 * start * start) * mean * (used / width if width > used else 1.0)


def _reach(start: float) -> float:
    """How far beyond start > -1 the normal tail falls by e^-45: the x with x start + x^2 / 2 = 45."""
    return 2.0 * _FALL / (start + math.hypot(start, math.sqrt(2.0 * _FALL)))
