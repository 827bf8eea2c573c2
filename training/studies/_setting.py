"""How far the setting of runs is from the paper's: declared in words, its baseline taken from the results."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dptheory import _validate
from dptheory.claims import Baseline, Compared
from dptheory.errors import ArgumentError
from dptheory.training._toml import only
from dptheory.training.studies import _plan as plans
from dptheory.training.studies import _results
from dptheory.training.studies._plan import Find
from dptheory.training.studies._results import Result
from dptheory.training.studies._study import Study

_PARTS = ("data", "network", "epochs")


@dataclass(frozen=True)
class BaselineRule:
    """Which runs are those of the paper's baseline.

    Attributes:
        what: the paper's name of it.
        there: its accuracy in the paper, percent.
        arm: whose runs they are here.
        phase: of the study; None where the arm is an instrument's.
        gain: of the paper's method over it, in points; None where the claim is none of a gain.
    """

    what: str
    there: float
    arm: str
    phase: str | None = None
    gain: float | None = None

    def made(self, accuracies: Sequence[float]) -> Baseline | None:
        """With the accuracies here, percent; None without any."""
        if not accuracies:
            return None
        here = float(f"{statistics.fmean(accuracies):.6g}")
        return Baseline(what=self.what, here=here, there=self.there, gain=self.gain)


@dataclass(frozen=True)
class Setting:
    """What of the setting is the paper's.

    Attributes:
        compared: data, network and epochs, here and there.
        baseline: None where the paper has none with the same data.
    """

    compared: tuple[Compared, ...] = ()
    baseline: BaselineRule | None = None

    def of_study(self, study: Study, find: Find) -> Baseline | None:
        """The baseline by the results of a study; None while a run is missing."""
        if self.baseline is None or self.baseline.phase is None:
            return None
        runs = plans.runs_of(study, study.phase(self.baseline.phase), self.baseline.arm, find) or ()
        rows = [find(run) for run in runs]
        known = [row for row in rows if row is not None]
        return self.baseline.made(
            [100 * _results.last_accuracy(row) for row in known] if len(known) == len(rows) else []
        )

    def of_instrument(self, results: Sequence[Result]) -> Baseline | None:
        """The baseline by the runs of an instrument."""
        if self.baseline is None:
            return None
        arm = self.baseline.arm
        return self.baseline.made([100 * result["arms"][arm]["test_accuracy"] for result in results])


NO_SETTING = Setting()
"""Of a rule that says nothing of it."""


def read_setting(table: Mapping[str, Any], *, arms: Sequence[str], phases: Sequence[str] = ()) -> Setting:
    """A setting from TOML: ``data``, ``network`` and ``epochs`` as [here, there]; ``baseline``.

    Args:
        table: of the rule.
        arms: of the study or the instrument.
        phases: of the study; empty for an instrument.

    Raises:
        ValueError: a part that is missing, or runs that there are none of.
    """
    only(table, (*_PARTS, "baseline"))
    for part in _PARTS:
        pair = table.get(part)
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(one, str) and one for one in pair):
            raise ArgumentError(part, "say what it is here and in the paper", pair)
    compared = tuple(Compared(what=part, here=table[part][0], there=table[part][1]) for part in _PARTS)
    return Setting(compared, _baseline(table["baseline"], arms, phases) if "baseline" in table else None)


def _baseline(table: Mapping[str, Any], arms: Sequence[str], phases: Sequence[str]) -> BaselineRule:
    only(table, ("what", "there", "arm", "phase", "gain"))
    _validate.choice("arm", table.get("arm", ""), tuple(arms))
    if phases:
        _validate.choice("phase", table.get("phase", ""), tuple(phases))
    if not table.get("what") or not 0 < table.get("there", 0) <= 100 or (not phases and "phase" in table):
        raise ArgumentError(
            "baseline", "have what it is, its accuracy there, and a phase if it is a study's", dict(table)
        )
    return BaselineRule(**table)
