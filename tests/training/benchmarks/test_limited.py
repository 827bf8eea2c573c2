"""Calls in a process of their own: what comes back, what does not in time, and what breaks."""

import contextlib
import os
import time

from dptheory.training.benchmarks._limited import Outcome, Worker


def nothing() -> None:
    """A warm-up."""


def double(number: float) -> float:
    return 2 * number


def fail(number: float) -> None:
    raise OverflowError(f"{number} is\ntoo large")


def spin() -> None:
    while True:
        with contextlib.suppress(Exception):
            sum(range(1000))


def hang(seconds: float) -> None:
    time.sleep(seconds)


def die(code: int) -> None:
    os._exit(code)


def test_what_becomes_of_a_call() -> None:
    with Worker(nothing) as worker:
        answer = worker.call(double, {"number": 4.0}, 60.0)
        assert (answer.value, answer.refused) == (8.0, "") and 0 <= answer.seconds < 60
        assert worker.call(fail, {"number": 1.0}, 60.0).refused == "OverflowError: 1.0 is too large"
        assert worker.call(spin, {}, 0.2) == Outcome(None, 0.2, "no answer in 0.2 s")
        assert worker.call(double, {"number": 3.0}, 60.0).value == 6.0
        # what does not listen is ended, and another process answers
        asleep = worker.call(hang, {"seconds": 600.0}, 0.01)
        assert asleep == Outcome(None, 0.01, "no answer in 1 s on the clock")
        assert worker.call(double, {"number": 1.0}, 60.0).value == 2.0
        assert worker.call(die, {"code": 3}, 60.0).refused == "the process died"
        assert worker.call(double, {"number": 2.0}, 60.0).value == 4.0
        process = worker._process
        assert process is not None and process.is_alive()
    assert not process.is_alive()
