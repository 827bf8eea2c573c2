"""Calls in a process of their own, one after the other, each with a time limit: a library may take minutes or all memory."""

import math
import multiprocessing
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

Call = Callable[..., Any]

_START = 300.0
"""Seconds that imports and a first call may take; they are not counted."""


@dataclass(frozen=True)
class Outcome:
    """What became of a call.

    Attributes:
        value: what it returned; None where it returned nothing in time.
        seconds: how long it took, or the limit.
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
        """The outcome of one call that may take ``limit`` seconds; a process that takes longer is ended."""
        connection = self._connection or self._start()
        connection.send((function, arguments))
        if not connection.poll(limit):
            self._stop()
            return Outcome(None, limit, f"no answer in {limit:g} s")
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
            raise TimeoutError(f"{self._warm_up.__name__} took more than {_START:g} s")
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
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        started = time.perf_counter()
        try:
            value, refused = function(**arguments), ""
        except Exception as error:
            value, refused = None, " ".join(f"{type(error).__name__}: {error}".split())[:160]
        connection.send(Outcome(value, time.perf_counter() - started, refused))
