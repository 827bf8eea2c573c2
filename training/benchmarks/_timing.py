"""Times of two pieces of work in turns, and the median of their ratios: a busy machine slows both alike."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Work = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """Two pieces of work whose times are compared.

    Attributes:
        name: what is asked.
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
    """Run both in turns, after one round that does not count, and take the median of the ratios of neighbours.

    Args:
        case: what to compare.
        repetitions: rounds, >= 1; fewer where the case wants fewer.
        finish: waits for the device.
    """
    rounds = repetitions if case.rounds is None else min(repetitions, case.rounds)
    pairs = [(_time(case.work, finish), _time(case.against, finish)) for _ in range(rounds + 1)][1:]
    whole = [(work, against * case.against_times) for work, against in pairs]
    return Timing(
        name=case.name,
        seconds=statistics.median(work for work, _ in whole),
        against_seconds=statistics.median(against for _, against in whole),
        ratio=statistics.median(work / against for work, against in whole),
        target=case.target,
        repetitions=rounds,
    )


def _time(work: Work, finish: Work) -> float:
    finish()
    started = time.perf_counter()
    work()
    finish()
    return time.perf_counter() - started
