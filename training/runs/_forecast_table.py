"""Forecast against measured: what a step of each arm is worth by the gradients of a DP-SGD run, beside the arms' accuracies."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.runs import _comparisons
from training.runs._measured import FindMeasured
from training.runs._plan import Find
from training.runs._study import Comparison, Study

PREFIX = "forecast-"
KINDS = ("isotropic", "curved")
AGREES, CONTRADICTS, OPEN = "agrees", "contradicts", "open"
HEAD = ("study", "difference", "isotropic, start / middle / end", "with curvature", "measured", "sign")
_PLAIN = ("dp-sgd", "gp")


@dataclass(frozen=True)
class ForecastRow:
    """A comparison whose steps were forecast.

    Attributes:
        study: name.
        difference: the arms, and the phases in which they are compared.
        ratios: worth of a step of the one arm over that of the other, by kind, one per moment; None where it could not be had.
        measured: the difference with its interval; None while a run has no result.
        signs: by kind, whether the forecast has the sign of the difference; empty while a run has no result.
    """

    study: str
    difference: str
    ratios: Mapping[str, tuple[float | None, ...]]
    measured: str | None
    signs: Mapping[str, str]

    @property
    def cells(self) -> tuple[str, ...]:
        """Of the table, as :data:`HEAD` names them."""
        return (
            f"[{self.study}](#study-{self.study})",
            self.difference,
            *(" / ".join("none" if one is None else f"{one:.3g}" for one in self.ratios[kind]) for kind in KINDS),
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
        moments = result["arms"]["dp-sgd"]["measured"]["forecast"]
        known = [plain for plain in _PLAIN if plain in study.arms] + list(moments[0]["methods"])
        for comparison in study.comparisons:
            arms = (comparison.arm, comparison.against)
            if not set(arms) <= set(known) or not _of_the_run(study, comparison, result["arms"]["dp-sgd"]["config"]):
                continue
            ratios = {kind: tuple(_ratio(row["methods"], *arms, kind) for row in moments) for kind in KINDS}
            found = _comparisons.compare(study, comparison, finds[name])
            last = None if found is None else found.last
            yield ForecastRow(
                name,
                f"{' - '.join(arms)} ({', '.join(comparison.phases)})",
                ratios,
                None if last is None else str(last),
                {} if last is None else {kind: sign(ratios[kind], last) for kind in KINDS},
            )


def _of_the_run(study: Study, comparison: Comparison, run: Mapping[str, Any]) -> bool:
    """Whether the comparison is made on the data, over the epochs and at the epsilon of the run whose gradients forecast it."""
    for name in comparison.phases:
        phase = study.phase(name)
        config = study.config(phase, arm=comparison.against, point={}, seed=phase.seeds[0])
        if (config.data, config.epochs) != (run["data"], run["epochs"]) or run["epsilon"] not in (None, config.epsilon):
            return False
    return True


def sign(ratios: Sequence[float | None], difference: Any) -> str:
    """Whether the forecast has the sign of the difference: "agrees", "contradicts" or "open".

    The forecast is the median of the logarithms, so that the arms may be exchanged: of two moments the geometric mean.

    Args:
        ratios: of the moments, >= 0; those that could not be had are None.
        difference: with ends ``low`` and ``high`` of its interval.
    """
    known = [math.log(one) if one > 0 else -math.inf for one in ratios if one is not None]
    if not known or difference.low <= 0 <= difference.high:
        return OPEN
    return AGREES if (statistics.median(known) > 0) == (difference.low > 0) else CONTRADICTS


def _ratio(methods: Mapping[str, Mapping[str, Any]], arm: str, against: str, kind: str) -> float | None:
    one, other = (methods["dp-sgd" if name in _PLAIN else name][f"relative_{kind}"] for name in (arm, against))
    return one / other if one is not None and other else None
