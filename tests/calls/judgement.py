"""What a call did, and what keeps a call with bad values from taking the machine with it."""

import dataclasses
import faulthandler
import functools
import inspect
import math
import re
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from dptheory.errors import ArgumentError
from dptheory.privacy.referee import _processes

_MOST_MEMORY = 3 * 2**30
_STUCK = 300.0  # seconds: only a call that C code never returns from


@contextmanager
def limits() -> Iterator[None]:
    """Memory that asks for the impossible fails at once; a call stuck in C code ends the process with its traceback."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY if hard < 0 else min(hard, _MOST_MEMORY), hard))
    faulthandler.dump_traceback_later(_STUCK, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


# --- What may come of a call with a bad argument, and running one under a limit of work.


MOST_EVENTS = 5_000_000
"""Calls and returns of functions that one call may make: deterministic, whatever else the machine does."""
_UNCOUNTED = 0.05
"""Seconds of the processor, far too few for so many events, before the counting begins: it makes calls slower."""


class TooMuchWorkError(BaseException):
    """The call went beyond the limit of work; no ``except Exception`` may swallow it."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a call did: one of the two is set, unless it returned None."""

    result: Any = None
    error: BaseException | None = None


def outcome(
    function: Callable[..., Any], arguments: Mapping[str, Any], use: Callable[[Any], Any] | None = None
) -> Outcome:
    """Run the call; warnings count as errors, and so does work without an end, or a result that cannot be used."""
    left = MOST_EVENTS

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            sys.setprofile(None)
            raise TooMuchWorkError(f"more than {MOST_EVENTS} events")

    before = sys.getprofile()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    handler = signal.signal(signal.SIGPROF, lambda *_: sys.setprofile(count))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            signal.setitimer(signal.ITIMER_PROF, _UNCOUNTED)
            try:
                result = function(**arguments)
                list(numbers_of(result))  # properties may fail
                if use is not None:
                    list(numbers_of(use(result)))
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0.0)
                signal.signal(signal.SIGPROF, handler)
                sys.setprofile(before)
    except (Exception, TooMuchWorkError) as error:
        return Outcome(error=error)
    return Outcome(result=result)


def numbers_of(result: Any) -> Iterator[float]:
    """Every number of a result, its properties included."""
    if isinstance(result, bool | str | bytes) or result is None:
        return
    if isinstance(result, int | float | np.number | np.bool_):
        yield float(min(max(result, -(10**300)), 10**300)) if isinstance(result, int) else float(result)
    elif isinstance(result, np.ndarray):
        if result.dtype.kind in "fiub":
            yield from (float(value) for value in result.ravel()[:50])
            if result.size > 50:  # of a long array the first entries, and whether there is NaN or infinity anywhere
                yield float(np.abs(result.astype(np.float64)).max())
    elif isinstance(result, tuple | list | set | frozenset):
        for one in result:
            yield from numbers_of(one)
    elif isinstance(result, dict):
        for one in result.values():
            yield from numbers_of(one)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        for field in dataclasses.fields(result):
            if field.name == "seconds":  # of a check, never the same twice
                continue
            yield from numbers_of(getattr(result, field.name))
        for name in _properties(type(result)):
            yield from numbers_of(getattr(result, name))


@functools.cache
def _properties(kind: type) -> tuple[str, ...]:
    found = inspect.getmembers_static(kind, lambda member: isinstance(member, property))
    return tuple(name for name, _ in found if not name.startswith("_"))


def kind_of(value: Any) -> str:
    """Its type by name: torch makes a class of its own for every parametrized layer."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def same(one: Any, other: Any) -> bool:
    """Equal results, number by number, up to the rounding of another order of summation; single precision is not."""
    first, second = list(numbers_of(one)), list(numbers_of(other))
    return (
        kind_of(one) == kind_of(other)
        and len(first) == len(second)
        and all(math.isclose(a, b, rel_tol=1e-10, abs_tol=1e-13) for a, b in zip(first, second, strict=True))
    )


def complaint(found: Outcome, name: str, arguments: Mapping[str, Any], never: bool, documented: str) -> str | None:
    """What is wrong with an outcome; None if nothing is.

    Args:
        found: the outcome.
        name: the argument that was replaced.
        arguments: all arguments as given.
        never: the error must name this argument and no other.
        documented: docstrings of the callable and of what it returns; infinity is right only if they speak of it.
    """
    error = found.error
    if error is None:
        numbers = list(numbers_of(found.result))
        if never and not (_is_empty(arguments[name]) and not numbers):  # element by element, nothing of nothing
            return f"accepted: {_short(found.result)}"
        if any(math.isnan(number) for number in numbers):
            return f"NaN in {_short(found.result)}"
        if any(math.isinf(number) for number in numbers) and not re.search(r"\binf\b|infinit|\\infty", documented):
            return f"undocumented infinity in {_short(found.result)}"
        return None
    message = str(error)
    if not isinstance(error, ArgumentError):
        return f"{type(error).__name__}: {_line(message)}"
    parts = error.argument.split(" ")[0].split(".")  # optimizer.learning_rate, as in a run's file; one of two
    named = next((part for part in reversed(parts) if part in arguments), None)
    if named is None or (never and named != name):
        return f"names {error.argument} for {name}: {_line(message)}"
    if not (_shows(message, arguments[named]) or named != parts[-1]):
        return f"does not show the value of {named}: {_line(message)}"
    if len(message) > 600:
        return f"message of {len(message)} characters: {_line(message)}"
    return None


def _is_empty(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray) and np.size(np.asarray(value)) == 0


def _shows(message: str, value: Any) -> bool:
    told = "".join(message.split())
    return any("".join(text.split())[:20] in told for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    """What may stand for a value in a message, the usual first."""
    yield _short(value)
    yield repr(value)[:20]
    yield str(value)[:20]
    if isinstance(value, int) and abs(value) < 10**300:
        yield repr(float(value))
    if isinstance(value, list | tuple):
        yield from (repr(one) for one in value[:50])
    if hasattr(value, "shape"):
        yield str(tuple(value.shape))
    try:
        array = np.asarray(value)
        entries = array.ravel()[:50]
        plain = array.tolist()
    except Exception:  # ragged, or a tensor that cannot be read: its own text is enough
        return
    yield str(array.shape)
    if array.ndim == 0 and array.dtype.kind in "iuf":
        yield f"{array:g}"
        yield repr(array.item())
    yield from (repr(one) for one in (*entries, *entries.tolist()))
    yield repr(array)[:20]
    yield repr(plain)[:20]


def _line(message: str) -> str:
    return " ".join(message.split())[:150]


def _short(value: Any) -> str:
    try:
        return " ".join(repr(value).split())[:60]
    except ValueError:  # an integer of too many digits
        return type(value).__name__


class Here:
    """A worker of the referee without a process: a new process for every bad value would take minutes.

    It calls in this process; an error is no answer, and half of a second has passed.
    """

    def __init__(self, warm_up: Callable[[], None]) -> None:
        """Nothing is warmed up."""

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""

    def call(self, function: Callable[..., object], arguments: dict[str, object], limit: float) -> _processes.Outcome:
        try:
            return _processes.Outcome(function(**arguments), 0.5)
        except (ValueError, ArithmeticError) as error:
            return _processes.Outcome(None, 0.5, str(error))
