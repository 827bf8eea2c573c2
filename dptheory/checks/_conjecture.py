"""A claim of the user's own: what is claimed, what to hold it against, and for which parameters."""

import functools
import inspect
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dptheory import _validate
from dptheory.checks._certificate import WorstCase
from dptheory.checks._equality import evaluated
from dptheory.checks._search import Range
from dptheory.errors import ArgumentError

RELATIONS = ("==", "<=", ">=")
_MOST_BYTES = 2**30


class ConjectureError(ValueError):
    """A conjecture cannot be judged: a function of it, or the file that defines it, failed. Names the file and the line."""


@dataclass(frozen=True, kw_only=True)
class Conjecture:
    """A claimed value or bound, what to hold it against, and the ranges of its parameters, for :func:`refute`.

    All functions take the parameters by name. Exactly one of ``truth``, ``sampler`` and ``outcomes`` is given.

    Args:
        claimed: ``claimed(**parameters)`` is the claimed number, or yes or no; with ``outcomes`` the claimed probabilities.
        ranges: for every parameter a :class:`Range`, or the values to try, the simplest first.
        truth: ``truth(**parameters)``, found without the claim: by enumeration or by a second method; or a
            :class:`WorstCase`.
        sampler: ``sampler(rng, count, **parameters)`` gives count independent draws, shape (count,), whose mean is the truth.
            A few thousand of them must show their spread: no rare, huge values.
        outcomes: ``outcomes(rng, count, **parameters)`` gives count independent outcomes 0, 1, ..., shape (count,), whose law
            is the truth.
        where: ``where(**parameters)`` says whether the claim speaks of these parameters; None: of all.
        relation: "==", "<=" or ">=": how the truth is claimed to lie to the claimed number; "<=" is an upper bound.
        tolerance: relative difference that rounding may cause, in [0, 1).
        absolute_tolerance: the difference that it may cause where the truth is near 0, >= 0.
        resolution: relative error (of a law the effect w) that draws have to be able to show, in (0, 1).
        row_bytes: memory that one draw takes inside ``sampler`` or ``outcomes``, 1..2^30 bytes.

    Raises:
        ValueError: an argument outside its range, or not exactly one truth.

    Example: that n^2 is the sum of the first n odd numbers.
        >>> from dptheory.checks import Conjecture, Range
        >>> squares = Conjecture(
        ...     claimed=lambda n: n**2,
        ...     truth=lambda n: sum(range(1, 2 * n, 2)),
        ...     ranges={"n": Range(1, 50, integer=True)},
        ... )
        >>> squares.relation
        '=='
    """

    claimed: Callable[..., Any]
    ranges: Mapping[str, Range | Sequence[Any]]
    truth: Callable[..., Any] | None = None
    sampler: Callable[..., Any] | None = None
    outcomes: Callable[..., Any] | None = None
    where: Callable[..., Any] | None = None
    relation: str = "=="
    tolerance: float = 1e-9
    absolute_tolerance: float = 0.0
    resolution: float = 0.01
    row_bytes: int = 8192

    def __post_init__(self) -> None:
        _function("claimed", self.claimed)
        for name in ("truth", "sampler", "outcomes", "where"):
            if getattr(self, name) is not None:
                _function(name, getattr(self, name))
        given = [name for name in ("truth", "sampler", "outcomes") if getattr(self, name) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise ArgumentError(
                "truth",
                "be given, or sampler or outcomes in its place, and one of them alone",
                self.truth,
                got=f"{got}",
            )
        _validate.choice("relation", self.relation, RELATIONS if self.outcomes is None else RELATIONS[:1])
        _validate.real("tolerance", self.tolerance, 0.0, 1.0, ends="[)")
        _validate.real("absolute_tolerance", self.absolute_tolerance, 0.0, ends="[)")
        _validate.real("resolution", self.resolution, 0.0, 1.0, ends="()")
        _validate.integer("row_bytes", self.row_bytes, 1, _MOST_BYTES)
        object.__setattr__(self, "ranges", _ranges(self.ranges))

    @property
    def name(self) -> str:
        """The name of the claimed function."""
        found = getattr(inner(self.claimed), "__name__", "claimed")
        return "claimed" if found == "<lambda>" else str(found)

    def call(self, parameters: Mapping[str, Any]) -> str:
        """The claimed function's call, as Python.

        Args:
            parameters: values by name.

        Returns:
            The text, as in ``claimed(dim=2, keep=1)``.

        Raises:
            ValueError: something else than values by name.

        Example: the first odd number.
            >>> from dptheory.checks import Conjecture, Range
            >>> one = Conjecture(claimed=lambda n: n**2, truth=lambda n: n, ranges={"n": Range(1, 50, integer=True)})
            >>> one.call({"n": 2})
            'claimed(n=2)'
        """
        if not isinstance(parameters, Mapping):
            raise ArgumentError("parameters", "be values by name", parameters)
        return called(self.name, parameters)


def called(name: str, parameters: Mapping[str, Any]) -> str:
    """A call as Python writes it."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in parameters.items())})"


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a partial or a wrapper calls in the end."""
    while isinstance(function, functools.partial):
        function = function.func
    unwrapped: Callable[..., Any] = inspect.unwrap(function)
    return unwrapped


def stated(conjecture: Conjecture, role: str, parameters: Mapping[str, Any]) -> Any:
    """What ``claimed`` or ``truth`` says of the parameters: a number or a boolean, never NaN."""
    function = getattr(conjecture, role)
    found = guarded(role, function, parameters)
    if isinstance(found, WorstCase):
        return found
    try:
        plain = evaluated(found)
        fine = isinstance(plain, bool) or not math.isnan(plain)
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise bad_result(role, function, parameters, f"must give a number, got {_validate.shown(found)}")
    return plain


def guarded(role: str, function: Callable[..., Any], parameters: Mapping[str, Any], *first: Any) -> Any:
    """The function's value; what goes wrong in it is said in one line with its file, line and call."""
    try:
        return function(*first, **parameters)
    except (Exception, SystemExit) as error:
        code = getattr(inner(function), "__code__", None)
        place = (
            "" if code is None else line_of(error, code.co_filename) or _place(code.co_filename, code.co_firstlineno)
        )
        call = called(_named(role, function), parameters)
        raise ConjectureError(f"{place}{described(error)}, in {call}") from error


def bad_result(role: str, function: Callable[..., Any], parameters: Mapping[str, Any], says: str) -> ConjectureError:
    """The error for a function that ran and gave something that cannot be used."""
    code = getattr(inner(function), "__code__", None)
    place = "" if code is None else _place(code.co_filename, code.co_firstlineno)
    return ConjectureError(f"{place}{called(_named(role, function), parameters)} {says}")


def line_of(error: BaseException, file: str) -> str:
    """ "FILE, line N: " of the innermost line of the file that was under way, "" where none was."""
    own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return _place(file, own[-1]) if own else ""


def described(error: BaseException) -> str:
    """Kind and message of an error, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _place(file: str, line: int | None) -> str:
    return f"{file}, line {line}: "


def _named(role: str, function: Callable[..., Any]) -> str:
    found = getattr(inner(function), "__name__", role)
    return role if found == "<lambda>" else str(found)


def _function(name: str, value: object) -> None:
    if not callable(value):
        raise ArgumentError(name, "be a function", value)


def _ranges(ranges: object) -> dict[str, Range | tuple[Any, ...]]:
    if not isinstance(ranges, Mapping) or not ranges:
        raise ArgumentError("ranges", "give a Range or values for each parameter", ranges)
    found: dict[str, Range | tuple[Any, ...]] = {}
    for name, one in ranges.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ArgumentError("ranges", "have names of parameters as keys", name)
        found[name] = _range(name, one)
    return found


def _range(name: str, one: object) -> Range | tuple[Any, ...]:
    if isinstance(one, Range):
        ends = (one.low, one.high)
        plain = all(isinstance(end, int | float | np.number) and math.isfinite(end) for end in ends)
        if not plain or not one.low < one.high or (one.log and one.low <= 0):
            least = "0 < low < high" if one.log else "low < high"
            raise ArgumentError("ranges", f"have {least}, both finite, for {name}", one)
        if one.integer and not all(float(end).is_integer() for end in ends):
            raise ArgumentError("ranges", f"have whole ends for whole numbers, for {name}", one)
        return one
    if isinstance(one, str | bytes | Mapping) or not isinstance(one, Sequence | range) or len(one) == 0:
        raise ArgumentError("ranges", f"give a Range or a row of values for {name}", one)
    return tuple(cast(Sequence[Any], one))
