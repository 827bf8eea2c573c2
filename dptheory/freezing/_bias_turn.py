"""The angle between the true direction and the biased signal, and how it turns as the signal grows."""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError

# --- The mean angle between a true direction and a noisy signal that is itself at an angle to it


_MAX_DIM = 10**12
_INNER = np.polynomial.legendre.leggauss(48)
_OUTER = np.polynomial.legendre.leggauss(400)
_WIDTHS = 9.0  # ndtr(-9) < 2e-19
_SHORTEST = 1e-17  # radii R below it hold at most this share of the integral, at any signal-to-noise ratio


def expected_angle(dim: int, *, snr: float, bias_angle: float = 0.0) -> float:
    r"""Mean angle between u and the noisy signal s + z, z ~ N(0, tau^2 I), for a signal at the angle ``bias_angle`` to u.

    .. math:: E\gamma = \gamma^B + 2\int_{\gamma^B}^{\pi/2} E\,\Phi(-\kappa\rho\sin t)\,dt

    with kappa = snr and rho the length of the projection of a uniform unit vector of R^dim onto a plane,
    P(rho^2 > x) = (1 - x)^(dim/2 - 1). It rises with ``bias_angle``, and falls with snr if ``bias_angle`` <= pi/2. It is
    pi/2 for ``bias_angle`` = pi/2 and for snr = 0.

    Args:
        dim: number of entries, 1..1e12; in one dimension ``bias_angle`` is 0 or pi.
        snr: kappa = |s| / tau, in [0, inf].
        bias_angle: angle between u and s in radians, in [0, pi].

    Returns:
        The mean angle in radians, in [0, pi].

    Source: LF, Proposition 3.1 (lf.prop3.1.3).

    Example: half a radian of bias adds little once the noise is much longer than the signal.
        >>> from dptheory.freezing import expected_angle
        >>> [round(expected_angle(10_000, snr=30.0, bias_angle=bias), 3) for bias in (0.0, 0.5)]
        [1.279, 1.316]
    """
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    snr = _validate.real("snr", snr, 0.0)
    bias_angle = _validate.real("bias_angle", bias_angle, 0.0, math.pi)
    if dim == 1 and bias_angle not in (0.0, math.pi):
        raise ArgumentError("bias_angle", "be 0 or pi in one dimension", bias_angle)
    if bias_angle > math.pi / 2:
        return math.pi - expected_angle(dim, snr=snr, bias_angle=math.pi - bias_angle)
    if dim == 1:
        return math.pi * float(scipy.special.ndtr(-snr))
    if math.isinf(snr):
        return bias_angle
    if dim == 2:
        return bias_angle + 2.0 * float(_tail_integral(np.array([snr]), bias_angle)[0])
    # rho^2 = 1 - exp(-R^2 / (dim - 2)) with R of density R exp(-R^2 / 2), integrated over log R
    nodes, weights = _OUTER
    half = 0.5 * math.log(_WIDTHS / _SHORTEST)
    radius = _SHORTEST * np.exp(half * (nodes + 1.0))
    rho = np.sqrt(-np.expm1(-(radius**2) / (dim - 2)))
    density = weights * radius**2 * np.exp(-0.5 * radius**2)
    return bias_angle + 2.0 * float(density @ _tail_integral(snr * rho, bias_angle) / density.sum())


def _tail_integral(scale: Array, start: float) -> Array:
    """Integral of ndtr(-scale sin t) over t from start to pi/2, cut where nothing of it is left."""
    nodes, weights = _INNER
    reach = np.hypot(math.sin(start), _WIDTHS / np.maximum(scale, 1e-300))
    half = 0.5 * (np.arcsin(np.minimum(reach, 1.0)) - start)
    t = start + half[:, None] * (nodes + 1.0)
    return np.asarray(np.maximum(half, 0.0) * (scipy.special.ndtr(-scale[:, None] * np.sin(t)) @ weights))


_PARALLEL = 1e-15  # unit vectors this close to parallel are parallel but for rounding
_ROUNDING = 4e-16  # margins below it are rounding


def bias_angle(*, direction: ArrayLike, signal: ArrayLike) -> float:
    r"""Angle between the true direction and the biased signal, in [0, pi]; accurate also near 0 and pi.

    Args:
        direction: u, shape (dim,), its largest entry of size in [1e-70, 1e70].
        signal: s, the same.

    Returns:
        The angle in radians.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Definition 3.2 and Appendix C (lf.appC.cos, lf.prop3.1.1).

    Example: by hand: pi / 4.
        >>> from dptheory.freezing import bias_angle
        >>> round(bias_angle(direction=[1.0, 0.0], signal=[1.0, 1.0]), 4)
        0.7854
    """
    (u, _), (s, _) = _unit("direction", direction), _unit("signal", signal)
    _same_shape("signal", s, "direction", u)
    return 2.0 * math.atan2(float(np.linalg.norm(u - s)), float(np.linalg.norm(u + s)))


@dataclass(frozen=True, kw_only=True)
class BiasAngleChange:
    """What adding t w to the signal x does to its angle with u.

    Attributes:
        margin: cos(u, w) - cos(u, x) cos(x, w): the angle falls at first if > 0, rises if < 0.
        limit: the angle does not rise from t = 0 up to here; 0 where it rises at once, inf where it never does.
    """

    margin: float
    limit: float


def bias_turn(*, direction: ArrayLike, signal: ArrayLike, added: ArrayLike) -> BiasAngleChange:
    r"""Does the angle between u and x + t w fall as t grows from 0, and for how long?

    The derivative of cos(u, x + t w) has the sign of N(0) + t N', which is linear in t:

    .. math:: N(0) = \langle u, w\rangle |x|^2 - \langle u, x\rangle\langle x, w\rangle, \quad
        N' = \langle u, w\rangle\langle x, w\rangle - \langle u, x\rangle |w|^2

    so that the angle falls at first if cos(u, w) > cos(u, x) cos(x, w), and until t = -N(0) / N'. For freezing, x = signal before
    and w = signal after - x: a limit >= 1 says that the bias angle falls all the way. A margin of size below 4e-16 counts as 0:
    the limit is then inf if N' >= 0, as for x opposite to u, and 0 if N' < 0, as for x along u. Where w is opposite to x, the
    angle turns into its supplement as x + t w passes 0: the limit is there if that is a rise.

    Args:
        direction: u, shape (dim,), its largest entry of size in [1e-70, 1e70].
        signal: x, the same.
        added: w, the same.

    Returns:
        The sign of the first turn, and how far it goes.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Proposition 3.1 (lf.prop3.1.1).

    Example: (1, 1) turns towards (1, 0) as (0, -1/2) is added, by hand until t = 2, where it has arrived.
        >>> from dptheory.freezing import bias_turn
        >>> turn = bias_turn(direction=[1.0, 0.0], signal=[1.0, 1.0], added=[0.0, -0.5])
        >>> turn.margin > 0, round(turn.limit, 4)
        (True, 2.0)
    """
    u, _ = _unit("direction", direction)
    x, length = _unit("signal", signal)
    w, step = _unit("added", added)
    _same_shape("signal", x, "direction", u)
    _same_shape("added", w, "direction", u)
    across = _rest(x, w)
    if np.linalg.norm(across) < _PARALLEL:
        opposite = float(x @ w) < 0 < float(u @ x)
        return BiasAngleChange(margin=0.0, limit=length / step if opposite else math.inf)
    margin, fall = float(u @ _rest(w, x)), float(u @ across)  # N(0) and -N' for vectors of length 1
    if abs(margin) < _ROUNDING:
        return BiasAngleChange(margin=0.0, limit=0.0 if fall > 0 else math.inf)
    if margin < 0:
        return BiasAngleChange(margin=margin, limit=0.0)
    return BiasAngleChange(margin=margin, limit=length / step * margin / fall if fall > 0 else math.inf)


def _rest(vector: Array, unit: Array) -> Array:
    """The part of a vector at right angles to a unit vector; the second pass takes off what rounding left of the first."""
    once = vector - (vector @ unit) * unit
    return np.asarray(once - (once @ unit) * unit)


def _unit(name: str, value: ArrayLike) -> tuple[Array, float]:
    """The direction of a vector, and its norm."""
    vector = _validate.bounded(name, value)
    largest = float(np.abs(vector).max(initial=0.0))
    if vector.ndim != 1 or largest < _validate.SMALLEST:
        raise ArgumentError(name, f"be a vector with an entry of size >= {_validate.SMALLEST:g}", value)
    scaled = vector / largest
    norm = float(np.linalg.norm(scaled))
    return np.asarray(scaled / norm), largest * norm


def _same_shape(name: str, value: Array, other: str, reference: Array) -> None:
    if value.shape != reference.shape:
        raise ArgumentError(name, f"have the shape of {other}, {reference.shape}", value.shape)
