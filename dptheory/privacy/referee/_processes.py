"""Calls in a process of their own, one after the other, each with a limit of CPU time: a busy machine changes little."""

import math
import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

Call = Callable[..., Any]

_START = 600.0
"""Seconds that imports and a first call may take; they are not counted."""
_PATIENCE = 100.0
"""Seconds on the clock per second of CPU time: a call that takes longer sleeps, or does not listen."""


@dataclass(frozen=True)
class Outcome:
    """What became of a call.

    Attributes:
        value: what it returned; None where it returned nothing in time.
        seconds: of CPU time that it took, or the limit.
        refused: why there is no value; empty where there is one.
    """

    value: Any
    seconds: float
    refused: str = ""


class Worker:
    """A process for calls of functions that can be imported by name.

    Args:
        warm_up: called once when the process starts; what it takes is not counted.
    """

    def __init__(self, warm_up: Call) -> None:
        self._warm_up = warm_up
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection[Any, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def call(self, function: Call, arguments: dict[str, Any], limit: float) -> Outcome:
        """The outcome of one call that may take ``limit`` seconds of CPU time."""
        connection = self._connection or self._start()
        connection.send((function, arguments, limit))
        if not connection.poll(_PATIENCE * limit):
            self._stop()
            return Outcome(None, limit, f"no answer in {_PATIENCE * limit:g} s on the clock")
        try:
            outcome: Outcome = connection.recv()
        except EOFError:
            self._stop()
            return Outcome(None, math.nan, "the process died")
        return outcome

    def _start(self) -> "Connection[Any, Any]":
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._warm_up), daemon=True)
        self._process.start()
        theirs.close()
        if not mine.poll(_START):
            self._stop()
            raise TimeoutError(f"a process took more than {_START:g} s to start: {self._warm_up}")
        mine.recv()
        self._connection = mine
        return mine

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._connection = self._process = None


def _serve(connection: "Connection[Any, Any]", warm_up: Call) -> None:
    warnings.simplefilter("ignore")
    warm_up()
    connection.send("ready")
    signal.signal(signal.SIGPROF, _spent)
    while True:
        try:
            function, arguments, limit = connection.recv()
        except EOFError:
            return
        connection.send(_timed(function, arguments, limit))


class _Spent(BaseException):
    """The CPU time is spent; no library takes it for an error of its own."""


def _spent(*_: object) -> None:
    raise _Spent


def _timed(function: Call, arguments: dict[str, Any], limit: float) -> Outcome:
    started = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        value, refused = function(**arguments), ""
    except _Spent:
        return Outcome(None, limit, f"no answer in {limit:g} s")
    except Exception as error:
        value, refused = None, " ".join(f"{type(error).__name__}: {error}".split())[:160]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return Outcome(value, time.process_time() - started, refused)
