"""Times of pieces of work in turns: a busy machine slows all alike."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Work = Callable[[], object]
WARM_UP = 2
"""Rounds that do not count: the first step of a run has checks of its own, and the second asks for memory."""


@dataclass(frozen=True)
class Case:
    """Two pieces of work whose times are compared.

    Attributes:
        work, against: functions without arguments; the ratio is time of ``work`` over time of ``against``.
        target: the ratio should be at most this.
        against_times: how often ``against`` counts, where only part of it is run.
        rounds: the most rounds, for work that takes seconds; None for as many as are asked for.
    """

    name: str
    work: Work
    against: Work
    target: float
    against_times: float = 1.0
    rounds: int | None = None


@dataclass(frozen=True)
class Timing:
    """What was measured; times are medians, in seconds."""

    name: str
    seconds: float
    against_seconds: float
    ratio: float
    target: float
    repetitions: int

    @property
    def met(self) -> bool:
        """Whether the target was met."""
        return self.ratio <= self.target


def compare(case: Case, repetitions: int, finish: Work = lambda: None) -> Timing:
    """Run both in turns, after one round that does not count, and take the median of the ratios of neighbours."""
    rounds = repetitions if case.rounds is None else min(repetitions, case.rounds)
    found = _rounds({"work": case.work, "against": case.against}, rounds, warm_up=1, finish=finish)
    work, part = ([clock for clock, _ in times] for times in found.values())
    against = [case.against_times * one for one in part]
    return Timing(
        name=case.name,
        seconds=statistics.median(work),
        against_seconds=statistics.median(against),
        ratio=statistics.median(one / other for one, other in zip(work, against, strict=True)),
        target=case.target,
        repetitions=rounds,
    )


def in_turns(
    works: Mapping[str, Work], rounds: int, *, warm_up: int = WARM_UP, limit: float = math.inf
) -> dict[str, Any]:
    """Run all in turns, for ``limit`` seconds or little longer: each one's median and least time, on the clock and of the processor."""
    return {name: _summary(*zip(*times, strict=True)) for name, times in _rounds(works, rounds, warm_up, limit).items()}


def _summary(clock: tuple[float, ...], processor: tuple[float, ...]) -> dict[str, Any]:
    return {
        "median": statistics.median(clock),
        "least": min(clock),
        "processor_median": statistics.median(processor),
        "processor_least": min(processor),
        "rounds": len(clock),
    }


def _rounds(
    works: Mapping[str, Work], rounds: int, warm_up: int, limit: float = math.inf, finish: Work = lambda: None
) -> dict[str, list[tuple[float, float]]]:
    """Seconds on the clock and of the processor, of every round that counts."""
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
    return found
