"""Numbers of other kinds than Python's in the place of those of a valid call."""

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.calls import Call
from tests.calls.judgement import kind_of, outcome, same

_KEPT = {"drop_rate"}
"""Not rounded to single precision: it has to keep a whole number of entries."""


def _refuse(number: Any, *_: Any) -> Any:
    raise AssertionError(f"calculated with {number!r} as it was given, unchecked")


class _ReadOnly:
    """A number that can be read and not calculated with: only what was checked, and converted by it, gets any further."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return float(self.value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.value, dtype)

    def __repr__(self) -> str:
        return repr(self.value)

    def __hash__(self) -> int:
        return id(self)


class _ReadOnlyInteger(_ReadOnly):
    def __index__(self) -> int:
        return int(self.value)


for _operation in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "neg",
    "abs",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
):
    setattr(_ReadOnly, f"__{_operation}__", _refuse)
    setattr(_ReadOnly, f"__r{_operation}__", _refuse)
_ReadOnly.__bool__ = _refuse  # type: ignore[attr-defined]
numbers.Real.register(_ReadOnly)


def _narrow(name: str, value: float) -> float:
    """The number in the narrowest kind of NumPy's that holds it: what is calculated in that kind is wrong, or overflows."""
    if isinstance(value, int):
        kinds = (np.int8, np.int16, np.int32, np.int64)
        return next((kind(value) for kind in kinds if abs(value) <= np.iinfo(kind).max), value)
    if name in _KEPT or not (value == 0 or 1e-37 < abs(value) < 1e38):
        return value
    return np.float32(value)


def _numbers(one: Call) -> dict[str, float]:
    return {
        name: value
        for name, value in one.made().items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _kinds(result: Any) -> Iterator[Any]:
    """The types of all numbers of a result."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple | list | set | frozenset):
        for one in result:
            yield from _kinds(one)
    elif dataclasses.is_dataclass(result):
        for field in dataclasses.fields(result):
            yield from _kinds(getattr(result, field.name))
    else:
        yield result.dtype if isinstance(result, np.ndarray) else kind_of(result)


def _same_as_plain(function: Callable[..., Any], one: Call, plain: dict[str, Any], given: dict[str, Any]) -> None:
    expected, found = (outcome(function, one.made() | numbers, one.use) for numbers in (plain, given))
    assert expected.error is None, f"{plain}: {expected.error!r}"
    assert found.error is None, f"{given}: {found.error!r}"
    assert same(found.result, expected.result), f"{given}: {found.result}, not {expected.result}"[:400]
    assert list(_kinds(found.result)) == list(_kinds(expected.result)), given


def narrow_numbers_change_nothing(function: Callable[..., Any], one: Call) -> None:
    """Numbers of NumPy's narrowest kinds, alone and as arrays without dimensions, get what plain ones get, of the same type."""
    narrow = {argument: _narrow(argument, value) for argument, value in _numbers(one).items()}
    plain = {argument: np.asarray(value).item() for argument, value in narrow.items()}
    _same_as_plain(function, one, plain, narrow)
    _same_as_plain(function, one, plain, {argument: np.array(value) for argument, value in narrow.items()})


def nothing_is_calculated_with_as_given(function: Callable[..., Any], one: Call) -> None:
    """All numbers are checked, and what comes of the checks is used."""
    given = {
        argument: (_ReadOnlyInteger if isinstance(value, int) else _ReadOnly)(value)
        for argument, value in _numbers(one).items()
        if math.isfinite(value)
    }
    found = outcome(function, one.made() | given, one.use)
    assert found.error is None, f"{given}: {found.error!r}"
