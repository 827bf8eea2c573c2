"""Argument checks shared by the calculators: every error names the argument, its value and the allowed range."""

import math
import numbers
import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

_NUMBERS = "iuf"  # NumPy's kinds of real numbers: no booleans, strings, dates, complex or Python objects
_SMALLEST, _LARGEST = 1e-70, 1e70


def integer(name: str, value: SupportsIndex, low: int, high: int | None = None) -> int:
    """``value`` as an int within ``low..high`` (``high=None``: no upper end)."""
    allowed = f"an integer in {low}..{high}" if high is not None else f"an integer >= {low}"
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, got {value!r}") from None
    if isinstance(value, bool | np.bool_) or number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return number


def real(name: str, value: object, low: float, high: float = math.inf, *, ends: str = "[]") -> float:
    """``value`` as a float between ``low`` and ``high``; ``ends`` says which ends belong, as in ``"[)"``."""
    left, right = ends[0], ends[1]
    allowed = f"a number in {left}{low:g}, {high:g}{right}"
    plain = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if isinstance(plain, bool | np.bool_) or not isinstance(plain, numbers.Real):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    try:
        number = float(plain)
    except OverflowError:
        raise ValueError(f"{name} must be {allowed}, got {value!r}") from None
    above = number >= low if left == "[" else number > low
    below = number <= high if right == "]" else number < high
    if not (above and below):  # also catches NaN
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return number


def size(name: str, value: object, low: float = _SMALLEST, high: float = _LARGEST, *, zero: bool = True) -> float:
    """``value`` as a float in ``low..high``, or 0 where ``zero`` allows it: far from over- and underflow."""
    number = real(name, value, 0.0 if zero else low, high)
    if 0 < number < low:
        raise ValueError(f"{name} must be 0 or a number in [{low:g}, {high:g}], got {value!r}")
    return number


def scale(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as a float array of zeros and sizes whose squares, products and 1e9-fold sums neither over- nor underflow."""
    array = _floats(name, value)
    if not ((array == 0) | ((array >= _SMALLEST) & (array <= _LARGEST))).all():
        raise ValueError(f"{name} must hold 0 or numbers in [{_SMALLEST:g}, {_LARGEST:g}], got {value!r}")
    return array


def nonnegative(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as a float array whose entries are all finite and >= 0."""
    array = _floats(name, value)
    if not (np.isfinite(array) & (array >= 0)).all():
        raise ValueError(f"{name} must hold numbers in [0, inf) only, got {value!r}")
    return array


def finite(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as a float array without NaN or infinity."""
    array = _floats(name, value)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only, got {value!r}")
    return array


def per_step(name: str, value: ArrayLike, steps: int, low: float, high: float) -> NDArray[np.float64]:
    """``value`` as an array of shape () or (steps,) within ``low..high``."""
    array = finite(name, value)
    if array.shape not in ((), (steps,)) or not ((array >= low) & (array <= high)).all():
        raise ValueError(
            f"{name} must be a number in {low:g}..{high:g}, or one for each of {steps} steps, got {value!r}"
        )
    return array


def choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """``value`` if it is one of ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def _floats(name: str, value: ArrayLike) -> NDArray[np.float64]:
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        raise ValueError(f"{name} must hold numbers in a regular array, got {value!r}") from None
    if array.dtype.kind not in _NUMBERS or isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} must hold numbers, got {value!r}")
    return array.astype(np.float64)
