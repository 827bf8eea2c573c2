"""Forecast against measured: what a step of each arm is worth by the gradients of a DP-SGD run, beside the arms' accuracies."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dptheory.training.runs import _comparisons
from dptheory.training.runs._measured import FindMeasured
from dptheory.training.runs._plan import Find
from dptheory.training.runs._study import Comparison, Study

PREFIX = "forecast-"
KINDS = ("isotropic", "curved")
AGREES, CONTRADICTS, OPEN = "agrees", "contradicts", "open"
HEAD = ("study", "difference", "of a DP-SGD run", "isotropic", "with curvature", "measured", "sign")
_PLAIN = ("dp-sgd", "gp")

Ratio = tuple[float | None, float | None]
"""A value and its standard error, each None where it could not be had."""


@dataclass(frozen=True)
class ForecastRow:
    """A comparison whose steps were forecast.

    Attributes:
        study: name.
        difference: the arms, and the phases in which they are compared.
        run: after which steps of which DP-SGD run.
        ratios: worth of a step of the one arm over that of the other, by kind, one per moment.
        measured: the difference with its interval; None while a run has no result.
        signs: by kind, whether the forecast has the sign of the difference; empty while a run has no result.
    """

    study: str
    difference: str
    run: str
    ratios: Mapping[str, tuple[Ratio, ...]]
    measured: str | None
    signs: Mapping[str, str]

    @property
    def cells(self) -> tuple[str, ...]:
        """Of the table, as :data:`HEAD` names them."""
        return (
            f"[{self.study}](#study-{self.study})",
            self.difference,
            self.run,
            *(" / ".join(_said(one) for one in self.ratios[kind]) for kind in KINDS),
            self.measured or "none yet",
            "; ".join(f"{kind}: {said}" for kind, said in self.signs.items()),
        )


def forecast_rows(
    studies: Mapping[str, Study], finds: Mapping[str, Find], measured: FindMeasured
) -> Iterator[ForecastRow]:
    """A row per comparison of two arms, in phases with the data, epochs and epsilon of the run, whose steps were forecast.

    The forecast is the worth of a step of the one arm over that of the other: above 1 the theory expects the one to be better.
    """
    for name, study in studies.items():
        result = measured(f"{PREFIX}{name}", 0)
        if result is None:
            continue
        dense = result["arms"]["dp-sgd"]
        moments = dense["measured"]["forecast"]
        steps = " / ".join(str(row["step"]) for row in moments)
        known = [plain for plain in _PLAIN if plain in study.arms] + list(moments[0]["methods"])
        for comparison in study.comparisons:
            arms = (comparison.arm, comparison.against)
            if not set(arms) <= set(known) or not _of_the_run(study, comparison, dense["config"]):
                continue
            start = max(_starts(study, comparison, arm) for arm in arms) * _steps(dense)
            ratios = {kind: tuple(_ratio(row, *arms, kind, start=start) for row in moments) for kind in KINDS}
            found = _comparisons.compare(study, comparison, finds[name])
            last = None if found is None else found.last
            yield ForecastRow(
                name,
                f"{' - '.join(arms)} ({', '.join(comparison.phases)})",
                f"rate {dense['config']['optimizer']['learning_rate']:g}, after {steps} of {round(_steps(dense))} steps",
                ratios,
                None if last is None else str(last),
                {} if last is None else {kind: sign(ratios[kind], last) for kind in KINDS},
            )


def _steps(dense: Mapping[str, Any]) -> float:
    """Of the whole run, of which the instrument makes those up to its last moment."""
    return float(dense["steps_per_epoch"] * dense["config"]["epochs"])


def _starts(study: Study, comparison: Comparison, arm: str) -> float:
    """After which share of its run an arm is what its name says; before it, it is DP-SGD."""
    phase = study.phase(comparison.phases[0])
    return float(study.config(phase, arm=arm, point={}, seed=phase.seeds[0]).mechanism.get("after", 0.0))


def _of_the_run(study: Study, comparison: Comparison, run: Mapping[str, Any]) -> bool:
    """Whether the comparison is made on the data, over the epochs and at the epsilon of the run whose gradients forecast it."""
    for name in comparison.phases:
        phase = study.phase(name)
        config = study.config(phase, arm=comparison.against, point={}, seed=phase.seeds[0])
        if (config.data, config.epochs) != (run["data"], run["epochs"]) or run["epsilon"] not in (None, config.epsilon):
            return False
    return True


def sign(ratios: Sequence[Ratio], difference: Any) -> str:
    """Whether the forecast has the sign of the difference: "agrees", "contradicts" or "open".

    Moments whose ratio lies within two standard errors of 1 forecast nothing. The forecast is the median of the logarithms of
    the others, so that the arms may be exchanged: of two moments the geometric mean.

    Args:
        ratios: of the moments, >= 0.
        difference: with ends ``low`` and ``high`` of its interval.
    """
    told = [
        value for value, error in ratios if value is not None and error is not None and abs(value - 1.0) > 2 * error
    ]
    if not told or difference.low <= 0 <= difference.high:
        return OPEN
    middle = statistics.median(math.log(one) if one > 0 else -math.inf for one in told)
    return AGREES if (middle > 0) == (difference.low > 0) else CONTRADICTS


def ratio_of_gains(one: Mapping[str, float | None], other: Mapping[str, float | None], kind: str) -> Ratio:
    """The worth of a step of the one method over that of the other, and its standard error to first order.

    Args:
        one, other: a worth of each ``kind`` and its error as ``kind_error``, over draws of their own.
        kind: of :data:`KINDS`.

    Returns:
        Both None where the other's is 0 or could not be had; the error alone None where one of the two errors could not be had.

    Example: a step that is worth half as much again.
        >>> from dptheory.training.runs import ratio_of_gains
        >>> one, other = {"curved": 3.0, "curved_error": 0.4}, {"curved": 2.0, "curved_error": 0.2}
        >>> ratio_of_gains(one, other, "curved")
        (1.5, 0.25)
    """
    value, base = one[kind], other[kind]
    if value is None or not base:
        return None, None
    errors = one[f"{kind}_error"], other[f"{kind}_error"]
    if errors[0] is None or errors[1] is None:
        return value / base, None
    return value / base, math.hypot(errors[0], value / base * errors[1]) / base


def _ratio(moment: Mapping[str, Any], arm: str, against: str, kind: str, *, start: float) -> Ratio:
    """At a moment; none before the step from which the arms differ."""
    if moment["step"] < start:
        return None, None
    methods = moment["methods"]
    one, other = (methods["dp-sgd" if name in _PLAIN else name] for name in (arm, against))
    return ratio_of_gains(one, other, kind)


def _said(ratio: Ratio) -> str:
    value, error = ratio
    if value is None:
        return "none"
    return f"{value:.2g} ± {'?' if error is None else f'{error:.2g}'}"
