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


def metrics(method: str, accuracy: float) -> dict[str, Any]:
    """Of a run as planned; the setting of a method is that of its forecast."""
    parts = {"random-sparsification": {"drop_rate": 0.5}, "ranked-sparsification": {"drop_rate": 0.5}}
    return {
        "config": {
            "data": "excerpt",
            "model": "small-cnn",
            "batch_size": 1000,
            "epochs": 10,
            "max_grad_norm": 1.0,
            "delta": 1e-5,
            "optimizer": {"name": "sgd", "learning_rate": planned().learning_rate.value},
            "mechanism": {"name": method, **parts.get(method, {})},
        },
        "noise_multiplier": planned().noise_multiplier,
        "training_images": 2000,
        "privacy": {"epsilon": 2.9},
        "epochs": [{"test_accuracy": 0.1}, {"test_accuracy": accuracy}],
    }


def written(folder: Path, method: str, accuracy: float, **changes: Any) -> Path:
    """The folder of such a run; ``changes`` by the path of an entry, its dots written as ``__``."""
    path = folder / f"run-{next(_NUMBERS)}"
    path.mkdir()
    found = metrics(method, accuracy)
    for name, value in changes.items():
        *above, last = name.split("__")
        functools.reduce(dict.__getitem__, above, found)[last] = value
    (path / "metrics.json").write_text(json.dumps(found))
    return path


def noise(factor: float) -> dict[str, float]:
    return {"noise_multiplier": factor * planned().noise_multiplier}


@functools.cache
def _seven() -> tuple[Path, ...]:
    """Three runs of DP-SGD, two of a method that loses, one of a method that was run once, with other noise."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    runs = [written(folder, "dp-sgd", a, privacy__epsilon=2.5 + a) for a in (0.70, 0.72, 0.71)]
    runs += [written(folder, "random-sparsification", a, **noise(1.01)) for a in (0.60, 0.63)]
    return (*runs, written(folder, "gep-joint", 0.2, **noise(1.05)))


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
                     forecast=next(m.verdict for m in planned().methods if m.method == "gep-joint"), outcome="not as planned"),
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


@pytest.mark.parametrize(
    "change",
    [
        {"config__batch_size": 999},
        {"config__epochs": 9},
        {"config__delta": 1e-6},
        {"config__max_grad_norm": 1.1},
        {"config__optimizer__name": "adam"},
        {"config__mechanism__drop_rate": 0.9},
        {"config__mechanism": {"name": "random-sparsification"}},
        {"training_images": 60_000},
        {"noise_multiplier": 1.0},
    ],
    ids=str,
)
def test_runs_that_are_not_as_planned_decide_nothing(tmp_path: Path, change: dict[str, Any]) -> None:
    ours = [written(tmp_path, "dp-sgd", 0.70 + 0.001 * i) for i in range(2)]
    theirs = [written(tmp_path, "random-sparsification", 0.90 + 0.001 * i) for i in range(2)]
    assert compare_runs(planned(), runs=[*ours, *theirs])[1].outcome == "contradicts"
    other = written(tmp_path, "random-sparsification", 0.9, **change)
    result = compare_runs(planned(), runs=[*ours, *theirs, other])[1]
    assert (result.planned, result.outcome) == (False, "not as planned")
    if "config__mechanism" not in next(iter(change)):  # DP-SGD has no setting of its own
        other = written(tmp_path, "dp-sgd", 0.7, **change)
        first, second = compare_runs(planned(), runs=[*ours, *theirs, other])
        assert (first.planned, first.outcome) == (False, "reference")
        assert (second.planned, second.outcome) == (True, "not as planned")


def test_what_the_plan_leaves_open_may_be_anything(tmp_path: Path) -> None:
    leaving = plan(setup_of(**_FIXED | {"clip_norm": None}))
    assert leaving.clip_norm.value is None and leaving.learning_rate.value is None
    change = {"config__max_grad_norm": 7.0, "config__optimizer__learning_rate": 3.0, "config__optimizer__momentum": 0.9}
    run = written(tmp_path, "dp-sgd", 0.7, noise_multiplier=leaving.noise_multiplier, **change)
    (result,) = compare_runs(leaving, runs=[run])
    assert result.planned


def test_a_run_without_privacy_has_infinite_epsilon(tmp_path: Path) -> None:
    (result,) = compare_runs(planned(), runs=[written(tmp_path, "dp-sgd", 0.7, privacy__epsilon=None)])
    assert math.isinf(result.largest_epsilon)
    assert compare_runs(planned(), runs=[]) == ()


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    one = written(tmp_path, "dp-sgd", 0.7)
    for same in (one, one / "metrics.json", one / ".." / one.name):
        with pytest.raises(ValueError, match="runs must differ from each other"):
            compare_runs(planned(), runs=[one, same])
    for text in (
        "",
        "[]",
        "{}",
        '{"config": 3}',
        '{"config": {}, "privacy": {"epsilon": 1}, "epochs": []}',
        "[" * 10**5,
    ):
        (one / "metrics.json").write_text(text)
        with pytest.raises(ValueError, match=r"runs must be results of dptheory run, got .*metrics\.json: "):
            compare_runs(planned(), runs=[one])
    with pytest.raises(OSError):
        compare_runs(planned(), runs=[tmp_path / "nothing"])


_BAD = (math.nan, math.inf, -0.1, "0.7", True, None, [])


@pytest.mark.parametrize(
    ("entry", "values"),
    [
        ("epochs.test_accuracy", (*_BAD, 70.0)),
        ("noise_multiplier", (*_BAD, 1e7)),
        ("privacy.epsilon", tuple(value for value in _BAD if value is not None)),
        ("config.max_grad_norm", _BAD),
        ("config.mechanism.name", (3, None)),
    ],
)
def test_entries_outside_their_range_are_refused(tmp_path: Path, entry: str, values: tuple[Any, ...]) -> None:
    for value in values:
        change = {entry.replace(".", "__"): value}
        if entry == "epochs.test_accuracy":
            change = {"epochs": [{"test_accuracy": value}]}
        run = written(tmp_path, "random-k", 0.9, **change)
        with pytest.raises(ValueError, match=rf"got {run}/metrics.json: {entry} must be "):
            compare_runs(planned(), runs=[written(tmp_path, "dp-sgd", 0.7), run])


def test_a_run_without_a_finished_epoch_is_said_to_be_one(tmp_path: Path) -> None:
    run = written(tmp_path, "dp-sgd", 0.7, epochs=[])
    with pytest.raises(ValueError, match=rf"got {run}/metrics.json: it has no finished epoch"):
        compare_runs(planned(), runs=[run])


@pytest.mark.parametrize("entry", ["data", "model"])
def test_runs_of_different_data_or_networks_are_not_compared(tmp_path: Path, entry: str) -> None:
    runs = [written(tmp_path, "dp-sgd", 0.7), written(tmp_path, "dp-sgd", 0.7, **{f"config__{entry}": "other"})]
    with pytest.raises(ValueError, match="runs must be of one data set and one network, got "):
        compare_runs(planned(), runs=runs)


def test_a_plan_knows_nothing_of_the_runs() -> None:
    assert "results" not in {field.name for field in dataclasses.fields(Plan)}
