"""Argument checks shared by the calculators: every error names the argument, its value and the allowed range.

Numbers may be Python's or NumPy's, or arrays or tensors without dimensions; arrays anything that NumPy reads as numbers,
such as lists, integer arrays and tensors on the CPU. Booleans and strings do not count as numbers, and masked arrays are refused: a
calculator would read what the mask hides.
"""

import difflib
import math
import numbers
import operator
from collections.abc import Iterable
from typing import Literal, SupportsIndex, TypeVar, cast, get_args

import numpy as np

from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.errors import shown as shown

_NUMBERS = "iuf"  # NumPy's kinds of real numbers: no booleans, strings, dates, complex or Python objects
SMALLEST, LARGEST = 1e-70, 1e70
"""Sizes in this range can be squared, multiplied and added up 1e9 times without over- or underflow."""

Adjacency = Literal["add-remove", "replace-one"]
"""Which data sets are neighbours: one record is added or removed, or one is replaced by another."""

_T = TypeVar("_T")


def integer(name: str, value: SupportsIndex, low: int, high: int | None = None) -> int:
    """``value`` as an int within ``low..high`` (``high=None``: no upper end)."""
    plain = _scalar(value)
    try:
        number = operator.index(plain)  # type: ignore[arg-type]
    except TypeError:
        number = low - 1
    if (
        isinstance(plain, bool | np.bool_ | np.timedelta64 | np.ma.MaskedArray)
        or getattr(plain, "ndim", None) not in (None, 0)
        or number < low
        or (high is not None and number > high)
    ):
        allowed = f"in {_whole(low)}..{_whole(high)}" if high is not None else f">= {_whole(low)}"
        raise ArgumentError(name, f"be an integer {allowed}", value)
    return number


def integer_or_infinity(name: str, value: SupportsIndex | float, low: int, high: int) -> float:
    """``value`` as an int within ``low..high``, or infinity."""
    plain = _scalar(value)
    if isinstance(plain, float | np.floating) and plain == math.inf:
        return math.inf
    try:
        return integer(name, plain, low, high)  # type: ignore[arg-type]
    except ValueError:
        allowed = f"in {_whole(low)}..{_whole(high)} or inf"
        raise ArgumentError(name, f"be an integer {allowed}", value) from None


def integers(name: str, value: object, low: int, high: int) -> list[int]:
    """``value``, a row of one or more integers within ``low..high``, as a list."""
    rows = () if isinstance(value, bytes | bytearray | set | frozenset | dict | np.ma.MaskedArray) else value
    try:
        found = [integer(name, one, low, high) for one in rows]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        found = []
    if not found:
        raise ArgumentError(name, f"be a row of integers in {_whole(low)}..{_whole(high)}", value) from None
    return found


def real(name: str, value: object, low: float, high: float = math.inf, *, ends: str = "[]") -> float:
    """``value`` as a float between ``low`` and ``high``; ``ends`` says which ends belong, as in ``"[)"``."""
    left, right = ends[0], ends[1]
    plain = _scalar(value)
    number = math.nan
    if not isinstance(plain, bool | np.bool_ | np.timedelta64) and isinstance(plain, numbers.Real):
        try:
            number = float(plain)
        except OverflowError:
            number = math.nan
    above = number >= low if left == "[" else number > low
    below = number <= high if right == "]" else number < high
    if not (above and below):  # also catches NaN
        raise ArgumentError(name, f"be a number in {left}{low:g}, {high:g}{right}", value)
    return number


def size(name: str, value: object, low: float = SMALLEST, high: float = LARGEST, *, zero: bool = False) -> float:
    """``value`` as a float in ``low..high``, or 0 where ``zero`` allows it: far from over- and underflow."""
    number = real(name, value, 0.0 if zero else low, high)
    if 0.0 < number < low:
        raise ArgumentError(name, f"be 0 or a number in [{low:g}, {high:g}]", value)
    return number


def bounded(name: str, value: ArrayLike) -> Array:
    """``value`` as a float array whose entries have squares and 1e9-fold sums that do not overflow."""
    array = finite(name, value)
    if array.size and np.abs(array).max() > LARGEST:
        raise ArgumentError(name, f"hold numbers of size at most {LARGEST:g}", value)
    return array


def vector(name: str, value: ArrayLike) -> Array:
    """``value`` as an array of one axis with at least one entry and sizes of at most 1e70."""
    array = bounded(name, value)
    if array.ndim != 1 or array.size == 0:
        raise ArgumentError(name, "be a vector with at least one entry", value, got=f"shape {array.shape}")
    return array


def scale(name: str, value: ArrayLike) -> Array:
    """``value`` as a float array of zeros and sizes whose squares, products and 1e9-fold sums neither over- nor underflow."""
    array = _floats(name, value)
    if not ((array == 0) | ((array >= SMALLEST) & (array <= LARGEST))).all():
        raise ArgumentError(name, f"hold 0 or numbers in [{SMALLEST:g}, {LARGEST:g}]", value)
    return array


def signed_scale(name: str, value: ArrayLike) -> Array:
    """``value`` as a float array of any sign whose absolute values are as for :func:`scale`."""
    array = _floats(name, value)
    size = np.abs(array)
    if not ((size == 0) | ((size >= SMALLEST) & (size <= LARGEST))).all():
        raise ArgumentError(name, f"hold 0 or numbers of absolute value in [{SMALLEST:g}, {LARGEST:g}]", value)
    return array


def nonnegative(name: str, value: ArrayLike) -> Array:
    """``value`` as a float array whose entries are all finite and >= 0."""
    array = _floats(name, value)
    if not (np.isfinite(array) & (array >= 0)).all():
        raise ArgumentError(name, "hold numbers in [0, inf) only", value)
    return array


def extended(name: str, value: ArrayLike) -> Array:
    """``value`` as a float array whose entries are >= 0, infinity included."""
    array = _floats(name, value)
    if not (array >= 0).all():  # also catches NaN
        raise ArgumentError(name, "hold numbers in [0, inf] only", value)
    return array


def numbers_and_infinities(name: str, value: ArrayLike) -> Array:
    """``value`` as a float array without NaN."""
    array = _floats(name, value)
    if np.isnan(array).any():
        raise ArgumentError(name, "hold numbers or infinities, no NaN", value)
    return array


def zeros_and_ones(name: str, value: ArrayLike) -> Array:
    """``value``, booleans or numbers, as a float array of zeros and ones."""
    array = _floats(name, booleans_as_numbers(value))
    if not np.isin(array, (0.0, 1.0)).all():
        raise ArgumentError(name, "hold zeros and ones only", value)
    return array


def finite(name: str, value: ArrayLike) -> Array:
    """``value`` as a float array without NaN or infinity."""
    array = _floats(name, value)
    if not np.isfinite(array).all():
        raise ArgumentError(name, "hold finite numbers only", value)
    return array


def per_step(
    name: str, value: ArrayLike, steps: int, low: float, high: float, *, ends: str = "[]", each: str = "steps"
) -> Array:
    """``value`` as an array of shape () or (steps,) between ``low`` and ``high``, ``ends`` as in :func:`real`."""
    array = finite(name, value)
    left, right = ends[0], ends[1]
    above = array >= low if left == "[" else array > low
    below = array <= high if right == "]" else array < high
    if array.shape not in ((), (steps,)) or not (above & below).all():
        allowed = f"a number in {left}{low:g}, {high:g}{right}, or one for each of {steps} {each}"
        raise ArgumentError(name, f"be {allowed}", value)
    return array


def choice(name: str, value: str, allowed: tuple[str, ...], *, then: str = "") -> str:
    """``value`` if it is one of ``allowed``; an error says the nearest and ends with ``then``."""
    if not isinstance(value, str) or value not in allowed:
        wanted = f"be one of {', '.join(map(repr, allowed))}"
        raise ArgumentError(name, wanted, value, then=f"{meant(value, allowed)}{then}")
    return value


def adjacency(value: str) -> Adjacency:
    """``value`` where it is one."""
    return cast(Adjacency, choice("adjacency", value, get_args(Adjacency)))


def meant(word: object, known: Iterable[str]) -> str:
    """The end of a message: which of the known words may be meant, whatever its capitals; nothing where none is near."""
    by_letters = {one.lower(): one for one in known}
    near = difflib.get_close_matches(word.lower(), by_letters, n=1) if isinstance(word, str) else []
    return f"; did you mean {by_letters[near[0]]}?" if near else ""


def booleans_as_numbers(value: ArrayLike) -> ArrayLike:
    """Booleans as an array of zeros and ones; anything else as it is."""
    if isinstance(value, np.ma.MaskedArray):
        return value
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):  # what is wrong with it is said by the check that comes next
        return value
    return array.astype(np.float64) if array.dtype == np.bool_ else value


def flag(name: str, value: object) -> bool:
    """``value`` if it is True or False."""
    if not isinstance(value, bool):
        raise ArgumentError(name, "be True or False", value)
    return value


def store(frozen: object, **checked: object) -> None:
    """Put the checked arguments of a frozen dataclass in the place of those given."""
    for name, value in checked.items():
        object.__setattr__(frozen, name, value)


def calls(name: str, value: object) -> None:
    """Make sure that ``value`` can be called."""
    if not callable(value):
        raise ArgumentError(name, "be a function", value)


def instance(name: str, value: object, kind: type[_T]) -> _T:
    """``value`` if it is an object of this kind."""
    if not isinstance(value, kind):
        raise ArgumentError(name, f"be a {kind.__name__}", value)
    return value


def broadcast(**arrays: Array) -> None:
    """Make sure that the shapes of the arguments fit together."""
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        first, *others = arrays
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ArgumentError(
            first,
            f"have a shape that goes with {', '.join(others)}",
            tuple(array.shape for array in arrays.values()),
            got=f"shapes {shapes}",
        ) from None


def _floats(name: str, value: ArrayLike) -> Array:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):  # ragged; a tensor on a GPU, or one that needs a gradient
        raise ArgumentError(name, "hold numbers in a regular array (a tensor: on the CPU, detached)", value) from None
    if array.dtype.kind not in _NUMBERS or isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(name, "hold numbers", value)
    return array.astype(np.float64)


def _scalar(value: object) -> object:
    """The number in an array or tensor without dimensions; anything else, a masked entry too, as it is."""
    if getattr(value, "ndim", None) != 0 or isinstance(value, np.ma.MaskedArray):
        return value
    try:
        return np.asarray(value)[()]
    except (ValueError, TypeError, RuntimeError):
        return value


def _whole(number: int) -> str:
    """A bound in a message: large powers of ten as such."""
    power = len(str(number)) - 1
    return f"10^{power}" if power > 15 and number == 10**power else str(number)
