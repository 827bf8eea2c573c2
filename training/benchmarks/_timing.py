"""Times of pieces of work in turns: a busy machine slows all alike."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

Work = Callable[[], object]
WARM_UP = 2
"""Rounds that do not count: the first step of a run has checks of its own, and the second asks for memory."""


def in_turns(
    works: Mapping[str, Work],
    rounds: int,
    *,
    warm_up: int = WARM_UP,
    limit: float = math.inf,
    finish: Work = lambda: None,
) -> dict[str, Any]:
    """Run all in turns, for ``limit`` seconds or little longer: each one's median and least time, on the clock and of the processor.

    ``finish`` waits for a device, before and after each; what it had still to do belongs to the work.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    begun = time.perf_counter()
    for number in range(warm_up + rounds):
        if number > warm_up and time.perf_counter() - begun > limit:
            break
        for name, work in works.items():
            finish()
            spent, started = time.process_time(), time.perf_counter()
            work()
            finish()
            ended = time.perf_counter() - started, time.process_time() - spent
            if number >= warm_up:
                found[name].append(ended)
    return {name: _summary(*zip(*times, strict=True)) for name, times in found.items()}


def _summary(clock: tuple[float, ...], processor: tuple[float, ...]) -> dict[str, Any]:
    return {
        "median": statistics.median(clock),
        "least": min(clock),
        "processor_median": statistics.median(processor),
        "processor_least": min(processor),
        "rounds": len(clock),
    }
