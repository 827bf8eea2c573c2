"""Forecast against measured: what a step of each arm is worth by the gradients of a DP-SGD run, beside the arms' accuracies."""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from training.runs import _comparisons
from training.runs._measured import FindMeasured
from training.runs._plan import Find
from training.runs._study import Comparison, Study

PREFIX = "forecast-"
_KINDS = ("isotropic", "curved")
HEAD = ("study", "difference", "isotropic, start / middle / end", "with curvature", "measured", "sign")
_PLAIN = ("dp-sgd", "gp")


def forecast_rows(
    studies: Mapping[str, Study], finds: Mapping[str, Find], measured: FindMeasured
) -> Iterator[tuple[str, ...]]:
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
            ratios = {kind: [_ratio(row["methods"], *arms, kind) for row in moments] for kind in _KINDS}
            found = _comparisons.compare(study, comparison, finds[name])
            shown = (
                "none yet"
                if found is None
                else f"{found.last.mean:+.2f} [{found.last.low:+.2f}, {found.last.high:+.2f}]"
            )
            yield (
                f"[{name}](#study-{name})",
                f"{' - '.join(arms)} ({', '.join(comparison.phases)})",
                *(" / ".join("none" if one is None else f"{one:.3g}" for one in ratios[kind]) for kind in _KINDS),
                shown,
                "" if found is None else "; ".join(f"{kind}: {sign(ratios[kind], found.last)}" for kind in _KINDS),
            )


def _of_the_run(study: Study, comparison: Comparison, run: Mapping[str, Any]) -> bool:
    """Whether the comparison is made on the data, over the epochs and at the epsilon of the run whose gradients forecast it."""
    for name in comparison.phases:
        phase = study.phase(name)
        config = study.config(phase, arm=comparison.against, point={}, seed=phase.seeds[0])
        if (config.data, config.epochs) != (run["data"], run["epochs"]) or run["epsilon"] not in (None, config.epsilon):
            return False
    return True


def sign(ratios: list[float | None], difference: Any) -> str:
    """Whether the forecast, as the median of the moments, has the sign of the difference: "agrees", "contradicts" or "open".

    Args:
        ratios: of the moments; those that could not be had are None.
        difference: with ends ``low`` and ``high`` of its interval.
    """
    known = [one for one in ratios if one is not None]
    if not known or difference.low <= 0 <= difference.high:
        return "open"
    return "agrees" if (statistics.median(known) > 1) == (difference.low > 0) else "contradicts"


def _ratio(methods: Mapping[str, Mapping[str, Any]], arm: str, against: str, kind: str) -> float | None:
    one, other = (methods["dp-sgd" if name in _PLAIN else name][f"relative_{kind}"] for name in (arm, against))
    return one / other if one is not None and other else None
