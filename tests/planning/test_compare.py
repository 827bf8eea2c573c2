"""The forecast beside finished runs: every field by hand, and when the two may be said to agree."""

import atexit
import dataclasses
import functools
import itertools
import json
import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from dptheory.planning import MethodResult, Plan, compare_runs
from tests.planning.test_plan import STATS, differences, plan, setup_of

_FIXED = {"dim": 200, "batch_size": 1000, "epochs": 10, "clip_norm": 1.0}
_NUMBERS = itertools.count()


@functools.cache
def planned() -> Plan:
    """Random sparsification is forecast to lose, GEP to gain."""
    return plan(setup_of(**_FIXED), stats=STATS)


def written(
    folder: Path, method: str, accuracy: float, *, epsilon: float | None = 2.9, noise: float = 1.0, epochs: int = 10
) -> Path:
    path = folder / f"run-{next(_NUMBERS)}"
    path.mkdir()
    metrics = {
        "config": {"batch_size": 1000, "epochs": epochs, "mechanism": {"name": method}},
        "noise_multiplier": noise * planned().noise_multiplier,
        "privacy": {"epsilon": epsilon},
        "epochs": [{"test_accuracy": 0.1}, {"test_accuracy": accuracy}],
    }
    (path / "metrics.json").write_text(json.dumps(metrics))
    return path


@functools.cache
def _seven() -> tuple[Path, ...]:
    """Three runs of DP-SGD, two of a method that loses, one of a method that was run once, with other noise."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    runs = [written(folder, "dp-sgd", a, epsilon=2.5 + a) for a in (0.70, 0.72, 0.71)]
    runs += [written(folder, "random-sparsification", a, noise=1.01) for a in (0.60, 0.63)]
    return (*runs, written(folder, "gep-joint", 0.2, noise=1.05))


def test_every_field() -> None:
    ours, theirs = [0.70, 0.72, 0.71], [0.60, 0.63]
    found = compare_runs(planned(), runs=_seven())
    difference = np.mean(theirs) - np.mean(ours)
    reach = student.ppf(0.975, 1) * math.sqrt(np.var(theirs, ddof=1) / 2 + np.var(ours, ddof=1) / 3)
    lone = float(0.2 - np.mean(ours))
    blank: dict[str, Any] = {"lower": None, "upper": None}
    expected = (
        MethodResult(method="dp-sgd", runs=3, accuracy=0.71, difference=0.0, **blank, largest_epsilon=3.22, planned=True,
                     forecast="reference", outcome="reference"),
        MethodResult(method="random-sparsification", runs=2, accuracy=0.615, difference=float(difference),
                     lower=float(difference - reach), upper=float(difference + reach), largest_epsilon=2.9, planned=True,
                     forecast="loss", outcome="undecided"),
        MethodResult(method="gep-joint", runs=1, accuracy=0.2, difference=lone, **blank, largest_epsilon=2.9, planned=False,
                     forecast=next(m.verdict for m in planned().methods if m.method == "gep-joint"), outcome="undecided"),
    )  # fmt: skip
    assert not differences(found, expected)


@pytest.mark.parametrize(
    ("method", "accuracy", "forecast", "outcome"),
    [
        ("random-sparsification", 0.3, "loss", "agrees"),
        ("random-sparsification", 0.9, "loss", "contradicts"),
        ("random-sparsification", 0.7, "loss", "undecided"),
        ("ranked-sparsification", 0.3, "undecided", "measured, not forecast"),
        ("quiet-layers", 0.3, "undecided", "measured, not forecast"),
    ],
)
def test_agreement_needs_both_to_be_decided(
    tmp_path: Path, method: str, accuracy: float, forecast: str, outcome: str
) -> None:
    runs = [written(tmp_path, "dp-sgd", 0.70 + 0.001 * i) for i in range(4)]
    runs += [written(tmp_path, method, accuracy + 0.001 * i) for i in range(4)]
    result = compare_runs(planned(), runs=runs)[1]
    assert (result.forecast, result.outcome) == (forecast, outcome)


def test_runs_of_another_setting_are_marked(tmp_path: Path) -> None:
    (result,) = compare_runs(planned(), runs=[written(tmp_path, "dp-sgd", 0.7, epochs=9)])
    assert not result.planned
    (result,) = compare_runs(planned(), runs=[written(tmp_path, "dp-sgd", 0.7, epsilon=None)])
    assert math.isinf(result.largest_epsilon)
    assert compare_runs(planned(), runs=[]) == ()


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    one = written(tmp_path, "dp-sgd", 0.7)
    with pytest.raises(ValueError, match="runs must differ from each other"):
        compare_runs(planned(), runs=[one, one])
    for text in ("", "[]", "{}", '{"config": 3}', '{"config": {}, "privacy": {"epsilon": 1}, "epochs": []}'):
        (one / "metrics.json").write_text(text)
        with pytest.raises(ValueError, match="runs must be results of python -m training run, got"):
            compare_runs(planned(), runs=[one])
    with pytest.raises(OSError):
        compare_runs(planned(), runs=[tmp_path / "nothing"])


def test_a_plan_knows_nothing_of_the_runs() -> None:
    assert "results" not in {field.name for field in dataclasses.fields(Plan)}
