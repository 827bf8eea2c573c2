"""The angle between the true direction and the biased signal, and how it turns as the signal grows."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptheory import _validate
from dptheory.errors import ArgumentError

Array = NDArray[np.float64]

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
