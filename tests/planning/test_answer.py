"""The one call of the command line: the plan of its parts, and what it refuses."""

import functools
from pathlib import Path
from typing import Any

import pytest

from dptheory.planning import (
    PlannedTraining,
    TrainingSetup,
    compare_runs,
    plan,
    plan_training,
    read_statistics,
    shipped_statistics,
    statistics_text,
)
from tests.planning.made import LAYERS, STATS
from tests.planning.test_plan import FEW, differences

RUN = Path(__file__).parent / "metrics.json"
_GIVEN: dict[str, Any] = {"batch_size": 1000, "epochs": 10, "clip_norm": 1.0, "learning_rate": 0.7, "max_epochs": 50}


@functools.cache
def of_parts(like: str | None, file: Path | None) -> PlannedTraining:
    measured = read_statistics(file) if file is not None else shipped_statistics(like or "")
    layers = measured.layer_sizes
    setup = TrainingSetup(**FEW, dim=sum(layers), layer_sizes=layers, **_GIVEN)
    found = plan(setup, stats=measured, borrowed=like is not None)
    return PlannedTraining(plan=found, results=_with_interval(compare_runs(found, runs=_runs())))


@functools.cache
def _runs() -> list[Path]:
    """Two runs of DP-SGD and two of another method, so that no field is empty."""
    return [RUN.parent / f"metrics{name}.json" for name in ("", "-again", "-masked", "-masked-again")]


def _with_interval(results: Any) -> Any:
    assert any(one.lower is not None for one in results)
    return results


@pytest.mark.parametrize("source", ["stats", "like"])
def test_every_field(source: str) -> None:
    file = RUN.parent / "made.json"
    given: dict[str, Any] = {"stats": file} if source == "stats" else {"like": "small-cnn/mnist"}
    layers = LAYERS if source == "stats" else shipped_statistics("small-cnn/mnist").layer_sizes
    found = plan_training(
        FEW | _GIVEN | {"dim": sum(layers), "layer_sizes": layers},
        **({"stats": None, "like": None} | given),
        runs=_runs(),
    )
    assert not differences(found, of_parts(given.get("like"), given.get("stats")))


def test_the_file_made_by_hand_is_the_one_of_the_module() -> None:
    assert (RUN.parent / "made.json").read_text(encoding="utf-8") == statistics_text(STATS)


def test_without_a_size_it_is_that_of_the_statistics() -> None:
    found = plan_training(
        FEW | {"batch_size": 2000, "epochs": 1}, stats=RUN.parent / "made.json", like=None, runs=[]
    ).plan
    assert found.setup.layer_sizes == LAYERS and found.statistics == "made/by-hand" and not found.borrowed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stats": RUN, "like": "small-cnn/mnist"}, "stats must be left out where like='small-cnn/mnist' is given"),
        (
            {"like": "nothing"},
            "like must be one of 'linear-probe/cifar-10', 'small-cnn/cifar-10', .*, got 'nothing'",
        ),
        ({"like": 3}, "like must be one of"),
        ({"stats": "file"}, "stats must be a Path, got 'file'"),
        ({"stats": RUN}, "must hold the format dptheory-statistics-1"),
        ({}, "dim must be given, or layer_sizes"),
        ({"like": "small-cnn/mnist", "batch_size": 0}, "batch_size must be an integer"),
        ({"dim": 100, "epochs": 3, "max_epochs": 2}, "epochs must be at most max_epochs = 2, got 3"),
        ({"dim": 100, "runs": "abc"}, "runs must be a row of paths, got 'abc'"),
        ({"dim": 100, "epsilon": float("nan")}, "epsilon must be a number"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    changes = dict(changes)
    with pytest.raises(ValueError, match=message):
        rest = {name: changes.pop(name, other) for name, other in (("stats", None), ("like", None), ("runs", []))}
        plan_training(FEW | {"batch_size": 2000, "epochs": 1} | changes, **rest)
