"""The clip operator of DP-SGD, what it keeps of a gradient with symmetric noise, and its moments under Gaussian noise.

Notation: w = true gradient, xi = deviation of one example's gradient from it, C = clip, clip(g) = g min(1, C / |g|).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.gradients import _clipped_line
from dptheory.gradients._quadratic_form import QuadraticForm

_MAX_DIM = 10**12
_REACH = 9.5  # |g| / s is a 1-Lipschitz function of standard normals: it strays further with probability below 1e-18
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_THIN = 1e-5
_FAR = 1e3  # |w|^2 over s^2 dim from which eight terms of the series for the mean cosine give 16 digits


def clip(gradient: ArrayLike, *, clip_norm: float) -> Array:
    """g min(1, C / |g|) for each row: the nearest point of the ball of radius C.

    Args:
        gradient: finite array of shape (..., dim).
        clip_norm: clipping norm C, > 0.

    Returns:
        Array of the same shape; rows of norm at most C are unchanged.

    Raises:
        ValueError: a NaN or infinite entry, no axis, or clip_norm outside its range.

    Source: RS, section 3.2, and RF, section 2.1 (rs.lem3.2).

    Example: a gradient of norm 5 is scaled down to norm 1, one of norm 0.5 stays.
        >>> from dptheory.gradients import clip
        >>> clip([[3.0, 4.0], [0.3, 0.4]], clip_norm=1.0)
        array([[0.6, 0.8],
               [0.3, 0.4]])
    """
    gradient = _validate.finite("gradient", gradient)
    if gradient.ndim == 0:
        raise ArgumentError("gradient", "have at least one axis", gradient)
    clip_norm = _validate.real("clip_norm", clip_norm, 0.0, ends="()")
    largest = np.abs(gradient).max(axis=-1, keepdims=True, initial=0.0)
    unit = gradient / np.where(largest > 0.0, largest, 1.0)
    length = np.linalg.norm(unit, axis=-1, keepdims=True)
    with np.errstate(over="ignore"):  # a length beyond the largest float exceeds every bound
        too_long = largest * length > clip_norm
    return np.asarray(np.where(too_long, unit * (clip_norm / np.maximum(length, 1.0)), gradient))


@dataclass(frozen=True, kw_only=True)
class SymmetricClipBound:
    """Lower bounds on E<w, clip(w + xi)> for symmetric xi.

    Attributes:
        split: the papers', with one split of the clipping norm.
        integral: the stronger one.
    """

    split: float
    integral: float


def symmetric_clip_lower_bound(
    *, grad_norm: float, clip_norm: float, deviation_norms: ArrayLike, deviation_share: float = 0.75
) -> SymmetricClipBound:
    r"""What clipping keeps of the true gradient, E<w, clip(w + xi)>, from below, for xi with the law of -xi.

    .. math:: |w|\, E \min(|w|, (C - |\xi|)_+) \;\ge\; P(|\xi| < zC) \min(|w|, (1-z)C)\, |w|

    The left one is attained where |w| + |xi| <= C always.

    Args:
        grad_norm: \|w\|, in [0, 1e70].
        clip_norm: clipping norm C, in [1e-70, 1e70].
        deviation_norms: equally likely values of |xi|, for instance measured ones; >= 0, shape (samples,).
        deviation_share: z in (0, 1); the papers take 3/4 (RS) and 1/4 (RF).

    Returns:
        Both bounds, in squared units of the gradient.

    Source: RS, Lemma 3.2, and RF, equations 54 and 70 (rs.lem3.2, rf.eq70).

    Example: by hand: 2 min(2, 1/4) with one split at 3/4, and 2 times the mean of 0.9, 0.8 and 0.5 with the integral.
        >>> from dptheory.gradients import symmetric_clip_lower_bound
        >>> bound = symmetric_clip_lower_bound(grad_norm=2.0, clip_norm=1.0, deviation_norms=[0.1, 0.2, 0.5])
        >>> bound.split, round(bound.integral, 3)
        (0.5, 1.467)
    """
    grad_norm = _validate.real("grad_norm", grad_norm, 0.0, _validate.LARGEST)
    clip_norm = _validate.size("clip_norm", clip_norm)
    norms = _validate.nonnegative("deviation_norms", deviation_norms)
    if norms.ndim != 1 or not norms.size:
        raise ArgumentError("deviation_norms", "have the shape (samples,)", deviation_norms)
    deviation_share = _validate.real("deviation_share", deviation_share, 0.0, 1.0, ends="()")
    room = np.minimum(grad_norm, np.maximum(clip_norm - norms, 0.0))
    below = float(np.mean(norms < deviation_share * clip_norm))
    return SymmetricClipBound(
        split=below * min(grad_norm, (1.0 - deviation_share) * clip_norm) * grad_norm,
        integral=grad_norm * float(room.mean()),
    )


def clip_probability(*, grad_norm: float, dim: int, deviation: float, clip_norm: float) -> float:
    r"""P(|g| > C) for g ~ N(w, s^2 I), to about eight digits. It rises with \|w\| and with dim, so masking never raises it.

    Args:
        grad_norm: \|w\|, in [0, 1e70].
        dim: number of entries, 1..1e12.
        deviation: s, standard deviation of one entry, in [0, 1e70].
        clip_norm: clipping norm C, in [1e-70, 1e70].

    Returns:
        The probability.

    Source: RF, section 2.3 (rf.clip_probability).

    Example: by hand in the plane: half of all pure noise lies beyond sqrt(2 log 2).
        >>> import math
        >>> from dptheory.gradients import clip_probability
        >>> round(clip_probability(grad_norm=0.0, dim=2, deviation=1.0, clip_norm=math.sqrt(2 * math.log(2))), 6)
        0.5
    """
    grad_norm, dim, deviation, clip_norm = _gaussian(grad_norm, dim, deviation, clip_norm)
    if deviation == 0.0:
        return float(grad_norm > clip_norm)
    if dim == 1:
        return _clipped_line.clip_chance(grad_norm, deviation, clip_norm)
    if _is_thin(grad_norm, dim, deviation, clip_norm):
        return float(scipy.special.ndtr(-_thin_cut(grad_norm, dim, deviation, clip_norm)))
    return float(_chi_square(dim, (grad_norm / deviation) ** 2).tails((clip_norm / deviation) ** 2)[1])


@dataclass(frozen=True, kw_only=True)
class ClipMoments:
    """Moments of clip(g), g ~ N(w, s^2 I).

    Attributes:
        slope: a in E clip(g) = a w, in [0, 1].
        shortfall: 1 - a, without cancellation.
        second_moment: E|clip(g)|^2.
        variance: E|clip(g) - a w|^2.
        clip_probability: P(|g| > C).
    """

    slope: float
    shortfall: float
    second_moment: float
    variance: float
    clip_probability: float


def gaussian_clip_moments(*, grad_norm: float, dim: int, deviation: float, clip_norm: float) -> ClipMoments:
    r"""Moments of clip(g) for g ~ N(w, s^2 I): exact, from the noncentral chi law R_k of |g| / s with k = dim.

    .. math:: a = E \min(1, \tau / R_{k+2}), \quad E|clip(g)|^2 = s^2 E \min(R_k^2, \tau^2),
        \quad \tau = C / s,\ \lambda = |w|^2 / s^2

    Args:
        grad_norm: \|w\|, in [0, 1e70].
        dim: number of entries k, 1..1e12.
        deviation: s, standard deviation of one entry, in [0, 1e70].
        clip_norm: clipping norm C, in [1e-70, 1e70].

    Returns:
        The moments, to about eight digits; ``variance`` to about four, also where it is far below ``second_moment``. Above one
        dimension a ``shortfall`` below 1e-15 may lack these digits, and one below 1e-18 be 0.

    Source: RF, section 2.2, equations 6 and 7, and section 2.3 (rf.eq6, rf.eq7, rf.clip_probability).

    Example: an example is sqrt(1 + 550,000 s^2) long, so that clipping to 1 leaves 0.8 of the true gradient.
        >>> from dptheory.gradients import gaussian_clip_moments
        >>> moments = gaussian_clip_moments(grad_norm=1.0, dim=550_000, deviation=0.001, clip_norm=1.0)
        >>> round(moments.slope, 3), round(moments.second_moment, 3)
        (0.803, 1.0)
    """
    grad_norm, dim, deviation, clip_norm = _gaussian(grad_norm, dim, deviation, clip_norm)
    chance = clip_probability(grad_norm=grad_norm, dim=dim, deviation=deviation, clip_norm=clip_norm)
    on_line = dim == 1 and deviation > 0.0
    if on_line or _is_almost_fixed(grad_norm, dim, deviation, clip_norm):
        if on_line:
            slope, shortfall = _clipped_line.slope_and_shortfall(grad_norm, deviation, clip_norm)
            variance = _clipped_line.variance(grad_norm, deviation, clip_norm)
        else:
            shortfall = _thin_shortfall(grad_norm, dim, deviation, clip_norm)
            slope = 1.0 - shortfall if shortfall < 0.5 else clip_norm / grad_norm
            variance = _thin_variance(grad_norm, dim, deviation, clip_norm)
        return ClipMoments(
            slope=slope,
            shortfall=shortfall,
            second_moment=(slope * grad_norm) ** 2 + variance,
            variance=variance,
            clip_probability=chance,
        )
    tau, noncentrality = clip_norm / deviation, (grad_norm / deviation) ** 2
    law, shifted = _chi_square(dim, noncentrality), _chi_square(dim + 2, noncentrality)

    low, high = _bulk(shifted)
    shortfall = max(0.0, 1.0 - tau / low) if low > 0.0 else 0.0
    shortfall += _integrate(lambda u: tau / u**2 * shifted.tails(u**2)[1], max(tau, low), high)
    slope = min(1.0, tau / high) + _integrate(lambda u: tau / u**2 * shifted.tails(u**2)[0], max(tau, low), high)
    slope, shortfall = (slope, 1.0 - slope) if slope < 0.5 else (1.0 - shortfall, shortfall)

    low, high = _bulk(law)
    mean_square = grad_norm**2 + dim * deviation**2
    if tau > max(low, 0.5 * math.sqrt(law.mean)):
        excess = _integrate(lambda u: 2.0 * u * law.tails(u**2)[1], max(tau, low), high) * deviation**2
        second_moment = mean_square - excess
        variance = dim * deviation**2 - excess + shortfall * (1.0 + slope) * grad_norm**2
    else:
        missing = _integrate(lambda u: 2.0 * u * law.tails(u**2)[0], low, min(tau, high)) * deviation**2
        second_moment = clip_norm**2 - missing
        if tau <= low and noncentrality >= _FAR * dim:
            lost = _lost_cosine(dim, noncentrality)
            variance = clip_norm**2 * lost * (2.0 - lost)
        else:
            variance = second_moment - (slope * grad_norm) ** 2
    if low < tau < high and deviation * dim <= _THIN * grad_norm:  # the difference above has lost its digits
        variance = _thin_variance(grad_norm, dim, deviation, clip_norm)
    if slope >= 0.5 and _is_thin(grad_norm, dim, deviation, clip_norm):
        shortfall = _thin_shortfall(grad_norm, dim, deviation, clip_norm)
        slope = 1.0 - shortfall
    return ClipMoments(
        slope=slope,
        shortfall=shortfall,
        second_moment=second_moment,
        variance=max(0.0, variance),
        clip_probability=chance,
    )


def _thin_cut(grad_norm: float, dim: int, deviation: float, bound: float) -> float:
    """Above which value its normal part z along w lets a gradient be clipped: |w + xi| = |w| + s z + |the rest|^2 / 2|w|."""
    return (bound - grad_norm) / deviation - (dim - 1) * deviation / (2.0 * max(grad_norm, 0.5 * bound))


def _thin_shortfall(grad_norm: float, dim: int, deviation: float, bound: float) -> float:
    """To first order in s dim / |w|: what is cut off lies along w."""
    if grad_norm <= 0.5 * bound:
        return 0.0
    beyond = max(0.0, grad_norm - bound + (dim - 1) * deviation**2 / (2.0 * grad_norm))
    spread = deviation and deviation * _clipped_line.excess(abs(_thin_cut(grad_norm, dim, deviation, bound)))
    return (beyond + spread) / grad_norm


def _thin_variance(grad_norm: float, dim: int, deviation: float, bound: float) -> float:
    """To first order in s dim / |w|: the part of xi along w is a normal variable cut off at C, the rest shrinks with w."""
    if deviation == 0.0:
        return 0.0
    cut = _thin_cut(grad_norm, dim, deviation, bound)
    across = (dim - 1) * min(1.0, bound / max(grad_norm, 0.5 * bound)) ** 2
    if abs(cut) > _REACH:
        return deviation**2 * (across + float(cut > 0.0))
    inside, density = float(scipy.special.ndtr(cut)), math.exp(-0.5 * cut * cut) / math.sqrt(2.0 * math.pi)
    mean, square = cut * (1.0 - inside) - density, inside - cut * density + cut * cut * (1.0 - inside)
    return deviation**2 * (across + square - mean * mean)


def _lost_cosine(dim: int, noncentrality: float) -> float:
    """1 - E cos(w, g) for g ~ N(w, s^2 I): the asymptotic series of the confluent hypergeometric function, |w|^2 >> s^2 dim."""
    term, total = 1.0, 0.0
    for n in range(8):
        term *= (n + 0.5) * (n + 0.5 * (1 - dim)) / ((n + 1) * 0.5 * noncentrality)
        total -= term
    return total


def _gaussian(grad_norm: float, dim: int, deviation: float, bound: float) -> tuple[float, int, float, float]:
    """The parameters of a clipped Gaussian gradient, each within its range."""
    return (
        _validate.real("grad_norm", grad_norm, 0.0, _validate.LARGEST),
        _validate.integer("dim", dim, 1, _MAX_DIM),
        _validate.real("deviation", deviation, 0.0, _validate.LARGEST),
        _validate.size("clip_norm", bound),
    )


def _is_almost_fixed(grad_norm: float, dim: int, deviation: float, bound: float) -> bool:
    """Is xi ten digits below w or C? Then the first order in its variance is exact enough."""
    return deviation * math.sqrt(dim) <= 1e-10 * max(grad_norm, bound)


def _is_thin(grad_norm: float, dim: int, deviation: float, bound: float) -> bool:
    """Is xi so small that the first order, off by s^2 dim / |w|^2, loses less than |w|^2 / s^2 less C^2 / s^2 does?"""
    return deviation / max(grad_norm, bound) <= math.cbrt(1e-17 / dim)


def _chi_square(freedom: int, noncentrality: float) -> QuadraticForm:
    return QuadraticForm(
        weights=np.ones(1), freedoms=np.array([float(freedom)]), noncentralities=np.array([noncentrality])
    )


def _bulk(law: QuadraticForm) -> tuple[float, float]:
    """Where the square root R of the law lies: Var R <= 1 puts E R between sqrt(E R^2 - 1) and sqrt(E R^2)."""
    return max(0.0, math.sqrt(max(law.mean - 1.0, 0.0)) - _REACH), math.sqrt(law.mean) + _REACH


def _integrate(function: Callable[[Array], Array], low: float, high: float) -> float:
    """Gauss-Legendre rule; 0 where the range is empty."""
    if low >= high:
        return 0.0
    half = 0.5 * (high - low)
    return half * float(_WEIGHTS @ function(low + half * (1.0 + _NODES)))
