"""A study whose results no run has made, so that what is planned, answered and shown is known beforehand."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dptheory.training.studies._plan import Find, PlannedRun
from dptheory.training.studies._results import Result
from dptheory.training.studies._study import Study, study_from_dict

RATE, MOMENTUM = "optimizer.learning_rate", "optimizer.momentum"
TABLE: dict[str, Any] = {
    "title": "Invented", "question": "Is it counted right?", "forecast": "Yes.", "cost": "Nothing.",
    "base": {
        "data": "excerpt", "model": "linear-probe", "epochs": 2, "batch_size": 30, "max_grad_norm": 1.0,
        "noise_multiplier": 1.0, "optimizer": {"learning_rate": 0.125, "momentum": 0.25},
    },
    "arms": {"plain": {}, "masked": {"mechanism": {"name": "random-k", "keep_share": 0.5}}, "twin": {"batch_size": 40}},
    "phases": {
        "tuning": {
            "arms": ["plain", "masked"], "seeds": [100, 101], "vary": {RATE: [0.5, 1.0, 2.0], MOMENTUM: [0.0, 0.5]},
        },
        "final": {"seeds": {"count": 16}, "tuned_by": "tuning", "tuned_as": {"twin": "plain"}, "changes": {"epochs": 3}},
        "again": {
            "arms": ["plain"], "seeds": [50, 51, 52, 53, 54, 55, 56, 57], "winner_of": "final",
            "winner_among": ["masked", "twin"], "per_arm": {"twin": {"epochs": 7}},
        },
    },
    "comparisons": [
        {"phases": ["final"], "arm": "masked", "against": "plain", "main": True},
        {"phases": ["final"], "arm": "twin", "against": "plain", "kind": "equivalence", "margin": 0.5},
        {"phases": ["again"], "arm": "winner", "against": "plain"},
    ],
}  # fmt: skip

Accuracy = Callable[[PlannedRun], float | None]
"""Of a run at its last epoch; None where it has no result."""


def changed(path: str, value: Any) -> dict[str, Any]:
    """The table with one value, at a path such as "phases/final/seeds", set; None takes it out."""
    table = copy.deepcopy(TABLE)
    *inner, last = path.split("/")
    part: Any = table
    for name in inner:
        part = part[int(name) if isinstance(part, list) else name]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return table


def study(table: dict[str, Any] | None = None) -> Study:
    return study_from_dict("invented", table or TABLE)


def result(run: PlannedRun, accuracy: float) -> Result:
    """The best epoch is two points better than the last; a run below 20 % has diverged."""
    return {
        "config": run.config.as_dict(), "code": {}, "diverged": accuracy < 0.2,
        "epochs": {"test_accuracy": [0.1, accuracy + 0.02, accuracy], "train_loss": [2.0, 1.0, 1.0]},
    }  # fmt: skip


def find_by(accuracy: Accuracy) -> Find:
    def find(run: PlannedRun) -> Result | None:
        found = accuracy(run)
        return None if found is None else result(run, found)

    return find


def forget(path: Path, name: str) -> None:
    """Take the results of a run out of a file."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    left = [line for line in lines if json.loads(line)["run"] != name]
    assert len(left) < len(lines), name
    path.write_text("".join(left), encoding="utf-8")
