"""The planner held against results: regret, order and coverage, by forecasts that were committed before the runs.

Forecasts lie in ``configs/planner``, one JSON file per setting, as ``dptheory plan --json`` writes them. The study ``planner``
trains each plan beside the best of a tuned grid (phase ``final-SETTING``), ``planner_methods`` every method at its own best
learning rate, and the instruments ``planner-SETTING`` measure what a step of each method is worth.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.special import betaincinv

from dptheory.training.runs import _plan as plans
from dptheory.training.runs import _results
from dptheory.training.runs._plan import Find
from dptheory.training.runs._results import Result
from dptheory.training.runs._statistics import paired_difference
from dptheory.training.runs._study import Study

FORECASTS = Path(__file__).resolve().parents[1] / "configs" / "planner"
LEAST_PAIRS = 20
"""Pairs that separate, below which the order is undecided."""
_LEVEL = 0.95
_KINDS = ("descent", "curved_descent")
Forecast = Mapping[str, Any]
Measured = Callable[[str], Sequence[Result]]
"""The results of the instrument of a setting, one per seed; empty where there are none."""


@dataclass(frozen=True, kw_only=True)
class Regret:
    """Accuracy of the best of a tuned grid less that of the plan, in points, over pairs of seeds.

    Attributes:
        setting: data and epsilon.
        tuned, planned: mean accuracies in percent.
        mean, low, high: of the difference, with its 95 % t interval; positive where the plan is worse.
    """

    setting: str
    tuned: float
    planned: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two methods in one setting.

    Attributes:
        setting: data and epsilon.
        first, second: methods.
        mean, low, high: accuracy of the first less that of the second, in points, with its 95 % t interval.
        outcome: "agrees" or "contradicts" where the forecast intervals separate and the measured one does not hold 0, "not
            forecast" where only the measured one is decided, "not separated" where that holds 0.
        isotropic, curved: the same by the forecast of the one descent alone; a plan takes both together.
    """

    setting: str
    first: str
    second: str
    mean: float
    low: float
    high: float
    outcome: str
    isotropic: str
    curved: str


@dataclass(frozen=True, kw_only=True)
class Covered:
    """One measured worth of a step over that of DP-SGD, and the interval that was forecast.

    Attributes:
        setting: data and epsilon.
        method: its name.
        kind: "descent" or "curved_descent".
        value, error: measured, with its standard error.
        lower, upper: forecast.
    """

    setting: str
    method: str
    kind: str
    value: float
    error: float
    lower: float
    upper: float

    @property
    def inside(self) -> bool:
        """Whether the forecast holds the measured value."""
        return self.lower <= self.value <= self.upper

    @property
    def near(self) -> bool:
        """Whether the forecast holds a value within two standard errors of the measured one."""
        return self.lower - 2.0 * self.error <= self.value <= self.upper + 2.0 * self.error


@dataclass(frozen=True, kw_only=True)
class Held:
    """All that was measured so far, the cases where the planner is wrong first.

    Attributes:
        regrets: the largest first.
        pairs: contradicted ones first.
        covered: those further outside than two standard errors first.
        missing: settings of the study whose runs are not all there.
    """

    regrets: tuple[Regret, ...]
    pairs: tuple[Pair, ...]
    covered: tuple[Covered, ...]
    missing: tuple[str, ...]


def read_plans(folder: Path = FORECASTS) -> dict[str, Forecast]:
    """The forecasts by setting.

    Raises:
        ValueError: a file that is no JSON.
    """
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def share_interval(hits: int, count: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a probability."""
    tail = (1.0 - _LEVEL) / 2.0
    low = 0.0 if hits == 0 else float(betaincinv(hits, count - hits + 1, tail))
    high = 1.0 if hits == count else float(betaincinv(hits + 1, count - hits, 1.0 - tail))
    return low, high


def hold(
    forecasts: Mapping[str, Forecast],
    *,
    regret: tuple[Study, Find],
    order: tuple[Study, Find],
    measured: Measured,
) -> Held:
    """What the results say of the forecasts.

    Args:
        forecasts: by setting.
        regret: the study of plans beside tuned grids, and its results.
        order: the study of methods, and its results.
        measured: results of the instruments.
    """
    regrets = [_regret(*regret, setting) for setting in _settings(regret[0])]
    pairs = [pair for setting in _settings(order[0]) for pair in _pairs(*order, setting, forecasts[setting])]
    covered = [one for setting, found in forecasts.items() for one in _covered(setting, found, measured(setting))]
    rank = ("contradicts", "not forecast", "agrees", "not separated")
    return Held(
        regrets=tuple(sorted((one for one in regrets if one is not None), key=lambda one: -one.mean)),
        pairs=tuple(sorted(pairs, key=lambda one: (rank.index(one.outcome), -abs(one.mean)))),
        covered=tuple(sorted(covered, key=lambda one: (one.near, one.inside))),
        missing=tuple(name for name, one in zip(_settings(regret[0]), regrets, strict=True) if one is None),
    )


def _settings(study: Study) -> list[str]:
    return [phase.name.removeprefix("final-") for phase in study.phases if phase.name.startswith("final-")]


def _points(study: Study, find: Find, setting: str, arm: str) -> list[float] | None:
    """Accuracies in percent at the last epoch, in the order of the seeds; None while a run is missing."""
    runs = plans.runs_of(study, study.phase(f"final-{setting}"), arm, find)
    found = [find(run) for run in runs or ()]
    there = [100.0 * _results.last_accuracy(one) for one in found if one is not None]
    return there if there and len(there) == len(found) else None


def _regret(study: Study, find: Find, setting: str) -> Regret | None:
    tuned, planned = (_points(study, find, setting, arm) for arm in ("tuned", "planned"))
    if tuned is None or planned is None:
        return None
    found = paired_difference(tuned, planned)
    return Regret(
        setting=setting,
        tuned=math.fsum(tuned) / len(tuned),
        planned=math.fsum(planned) / len(planned),
        mean=found.mean,
        low=found.low,
        high=found.high,
    )


def _pairs(study: Study, find: Find, setting: str, forecast: Forecast) -> Iterator[Pair]:
    methods = {one["method"]: one for one in forecast["methods"]}
    for first, second in itertools.combinations(study.phase(f"final-{setting}").arms, 2):
        ours, theirs = (_points(study, find, setting, arm) for arm in (first, second))
        if ours is None or theirs is None:
            continue
        found = paired_difference(ours, theirs)
        above = (found.low > 0.0) - (found.high < 0.0)
        both, isotropic, curved = (
            _outcome(above, *(_span(methods[arm], kinds) for arm in (first, second)))
            for kinds in (_KINDS, _KINDS[:1], _KINDS[1:])
        )
        yield Pair(
            setting=setting,
            first=first,
            second=second,
            mean=found.mean,
            low=found.low,
            high=found.high,
            outcome=both,
            isotropic=isotropic,
            curved=curved,
        )


def _outcome(above: int, ours: tuple[float, float], theirs: tuple[float, float]) -> str:
    """``above``: 1 or -1 where the measured interval lies above or below 0, otherwise 0."""
    expected = (ours[0] > theirs[1]) - (ours[1] < theirs[0])
    if above == 0:
        return "not separated"
    if expected == 0:
        return "not forecast"
    return "agrees" if above == expected else "contradicts"


def _span(method: Mapping[str, Any], kinds: Sequence[str]) -> tuple[float, float]:
    """The descents together, as a plan's verdicts take them; anything where one is missing. JSON has no inf: a null is one."""
    if method["method"] == "dp-sgd":
        return 1.0, 1.0
    spans = [method[name] for name in kinds]
    if None in spans:
        return 0.0, math.inf
    return min(_end(one["lower"]) for one in spans), max(_end(one["upper"]) for one in spans)


def _end(value: float | None) -> float:
    return math.inf if value is None else float(value)


def _covered(setting: str, forecast: Forecast, results: Sequence[Result]) -> Iterator[Covered]:
    methods = {one["method"]: one for one in forecast["methods"]}
    for result in results:
        for moment in result["arms"]["dp-sgd"]["measured"]["forecast"]:
            for name, worth in moment["methods"].items():
                for kind, key in zip(_KINDS, ("relative_isotropic", "relative_curved"), strict=True):
                    span, value, error = methods.get(name, {}).get(kind), worth[key], worth[f"{key}_error"]
                    # An end that is not known would make every value covered.
                    if name == "dp-sgd" or span is None or value is None or error is None or span["upper"] is None:
                        continue
                    yield Covered(
                        setting=setting,
                        method=name,
                        kind=kind,
                        value=float(value),
                        error=float(error),
                        lower=float(span["lower"]),
                        upper=float(span["upper"]),
                    )
