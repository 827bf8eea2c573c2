"""Which runs a study consists of, as far as the results so far decide it."""

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dptheory.training.runs import RunConfig
from dptheory.training.studies import _results
from dptheory.training.studies._results import Result
from dptheory.training.studies._study import Phase, Study

_ROUNDING = 1e-9
_MOST_EXTENSIONS = 8
"""Of a grid: an arm that is better still beyond says so."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study: of an arm, in a phase, at a point of its grid."""

    phase: str
    arm: str
    point: Mapping[str, Any]
    config: RunConfig

    @property
    def name(self) -> str:
        """In its study; what an earlier phase chose is not part of it."""
        return _results.run_name(phase=self.phase, arm=self.arm, point=self.point, seed=self.config.seed)


Find = Callable[[PlannedRun], Result | None]
"""The result of a run, if there is one of this very configuration."""


@dataclass(frozen=True)
class Plan:
    """Runs that are known, pairs together, and how many are not, by phase, because they wait for the results of others."""

    runs: tuple[PlannedRun, ...]
    waiting: Mapping[str, int]
    waiting_epochs: float


def plan(study: Study, find: Find) -> Plan:
    """The runs of all phases."""
    runs: list[PlannedRun] = []
    waiting: dict[str, int] = {}
    epochs: float = 0
    for phase in study.phases:
        for arm in arms_of(study, phase, find):
            known = None if arm is None else runs_of(study, phase, arm, find)
            if known is None:
                points = _points(phase)
                count = len(points) * len(phase.seeds)
                waiting[phase.name] = waiting.get(phase.name, 0) + count
                one = _planned(study, phase, arm or next(iter(study.arms)), points[0], {}, phase.seeds[0])
                epochs += count * one.config.epochs
            else:
                runs.extend(known)
    order = {phase.name: number for number, phase in enumerate(study.phases)}
    runs.sort(key=lambda run: (order[run.phase], run.config.seed))  # stable: the runs of a pair one after the other
    return Plan(tuple(runs), waiting, epochs)


def runs_of(study: Study, phase: Phase, arm: str, find: Find) -> list[PlannedRun] | None:
    """The runs of an arm in a phase; None while the phase that tunes it has some to go."""
    if phase.tuned_by is None or arm in phase.untuned:
        named = points = _grid(study, phase, arm, find)
    else:
        best = chosen(study, phase, arm, find)
        if best is None:
            return None
        points, named = [best], [{}]
    return [
        _planned(study, phase, arm, point, name, seed)
        for point, name in zip(points, named, strict=True)
        for seed in phase.seeds
    ]


def arms_of(study: Study, phase: Phase, find: Find) -> list[str | None]:
    """The arms of a phase; None for a winner that is not known yet."""
    return [*phase.arms, winner(study, phase, find)] if phase.winner_of else list(phase.arms)


def winner(study: Study, phase: Phase, find: Find) -> str | None:
    """The arm that ``phase`` takes over from the one that it names, ties to the first; None while that has runs to go."""
    if phase.winner_of is None:
        return None
    earlier = study.phase(phase.winner_of)
    best: tuple[float, str] | None = None
    for arm in phase.winner_among:
        found = best_point(study, earlier, arm, find)
        if found is None:
            return None
        if best is None or found[0] > best[0] + _ROUNDING:
            best = found[0], arm
    return None if best is None else best[1]


def chosen(study: Study, phase: Phase, arm: str, find: Find) -> Mapping[str, Any] | None:
    """The grid point that was best for the arm in the phase that tunes this one; None while that has runs to go."""
    if phase.tuned_by is None or arm in phase.untuned:
        return None
    found = best_point(study, study.phase(phase.tuned_by), phase.tuned_as.get(arm, arm), find)
    return None if found is None else found[1]


def chosen_in_words(study: Study, phase: Phase, arm: str, find: Find) -> str | None:
    """The same as "learning_rate = 4", saying where a value is the first or the last that was tried, and which arm was tuned."""
    point = chosen(study, phase, arm, find)
    if point is None or phase.tuned_by is None:
        return None
    grid = _grid(study, study.phase(phase.tuned_by), phase.tuned_as.get(arm, arm), find)
    ends = {key: " (at the end of the grid)" for key, value in point.items() if value in (grid[0][key], grid[-1][key])}
    whose = f" (that of {phase.tuned_as[arm]})" if arm in phase.tuned_as else ""
    return ", ".join(f"{key} = {value:g}{ends.get(key, '')}" for key, value in point.items()) + whose


def choices_in_words(study: Study, find: Find) -> Iterator[str]:
    """The grid point of every tuned arm that is known, as "final, plain: learning_rate = 4"."""
    for phase in study.phases:
        for arm in dict.fromkeys(arms_of(study, phase, find)):
            words = None if arm is None else chosen_in_words(study, phase, arm, find)
            if words is not None:
                yield f"{phase.name}, {arm}: {words}"


def best_point(study: Study, phase: Phase, arm: str, find: Find) -> tuple[float, Mapping[str, Any]] | None:
    """The best mean accuracy of an arm at the points of a phase, and the point; None while the phase has runs to go.

    At the last epoch, over all seeds, diverged runs included; ties to the smaller values.
    """
    runs = runs_of(study, phase, arm, find)
    best: tuple[float, Mapping[str, Any]] | None = None
    for first in range(0, len(runs or ()), len(phase.seeds)):  # points in rising order: a later one must be better
        part = (runs or [])[first : first + len(phase.seeds)]
        found = [find(run) for run in part]
        accuracies = [_results.last_accuracy(result) for result in found if result is not None]
        if len(accuracies) < len(part):
            return None
        mean = statistics.fmean(accuracies)
        if best is None or mean > best[0] + _ROUNDING:
            best = mean, part[0].point
    return best


def _grid(study: Study, phase: Phase, arm: str, find: Find) -> list[Mapping[str, Any]]:
    """The points of an arm's grid, the smaller values first; where the phase extends it, as far as the results ask for."""
    if not phase.extend:
        return _points(phase)
    ((key, values),) = phase.vary.items()
    known = list(values)
    while len(known) < len(values) + _MOST_EXTENSIONS:
        found = [
            [find(_planned(study, phase, arm, {key: value}, {key: value}, seed)) for seed in phase.seeds]
            for value in known
        ]
        if any(None in results for results in found):
            break
        means = [statistics.fmean(_results.last_accuracy(one) for one in results if one) for results in found]
        best = next(place for place, mean in enumerate(means) if mean >= max(means) - _ROUNDING)
        if 0 < best < len(known) - 1:
            break
        end, inner = (known[0], known[1]) if best == 0 else (known[-1], known[-2])
        known.insert(0 if best == 0 else len(known), float(f"{end * end / inner:.6g}"))
    return [{key: value} for value in known]


def _planned(
    study: Study, phase: Phase, arm: str, point: Mapping[str, Any], named: Mapping[str, Any], seed: int
) -> PlannedRun:
    return PlannedRun(phase.name, arm, named, study.config(phase.name, arm=arm, point=point, seed=seed))


def _points(phase: Phase) -> list[Mapping[str, Any]]:
    """All points of the grid, the smaller values first."""
    return [dict(zip(phase.vary, values, strict=True)) for values in itertools.product(*phase.vary.values())]
