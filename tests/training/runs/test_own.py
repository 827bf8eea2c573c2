"""Runs of networks and records of one's own: what is read, what is refused, and runs that go on bit for bit."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dptheory.convergence import SCHEDULES
from dptheory.training import runs
from dptheory.training.runs import (
    STATE,
    WEIGHTS,
    from_dict,
    own_network,
    own_records,
    prepare,
    train,
    write_statement,
    write_weights,
)
from tests.refused import refused

CPU = torch.device("cpu")
NETWORKS = """
import torch
from torch import nn
from beside import WIDTH

def build():
    return nn.Sequential(nn.Linear(4, WIDTH), nn.Dropout(0.5), nn.Tanh(), nn.Linear(WIDTH, 3))

def frozen():
    model = build()
    model[0].requires_grad_(False)
    return model

def words():
    return nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(16, 3))

class BatchMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(x - x.mean(0))

def batch_norm():
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))

def narrow():
    return nn.Linear(4, 2)

def needs(width):
    return nn.Linear(4, width)

def number():
    return 3
"""

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mynetwork.py").write_text(NETWORKS)
    Path("beside.py").write_text("WIDTH = 5\n")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(120, 4))
    labels = (features[:, 0] > 0).astype(int) + (features[:, 1] > 0)
    np.savez("private.npz", features=features, labels=labels, test_features=features[:50], test_labels=labels[:50])
    np.savez("alone.npz", features=features, labels=labels)
    np.savez("narrow.npz", features=features, labels=labels, test_features=features[:, :1], test_labels=labels)
    np.savez("words.npz", features=rng.integers(9, size=(120, 4)), labels=labels)


def config(**changes: Any) -> runs.RunConfig:
    table = {
        "data": "private.npz", "model": "mynetwork.py:build", "epochs": 2.5, "batch_size": 24, "max_grad_norm": 1.0,
        "noise_multiplier": 1.0, "physical_batch_size": 16, "average": 0.5,
        "optimizer": {"learning_rate": 0.5, "momentum": 0.9, "schedule": "cosine"},
    }  # fmt: skip
    return from_dict(table | changes)


def saved(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(folder / STATE, weights_only=True)
    return found


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else bool(a == b)


def test_epochs_may_be_part_of_one(tmp_path: Path) -> None:
    run = train(config(), CPU, tmp_path / "run", resume=False)
    assert run.steps == run.step == 12  # 2.5 times five, rounded to even
    assert [(row["epoch"], row["step"]) for row in run.rows] == [(1, 5), (2, 10), (2.5, 12)]
    assert run.mean is not None and run.mean.count == 6


def test_the_mean_is_judged_and_saved_and_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[torch.Tensor] = []

    def accuracy(model: nn.Module, *others: Any) -> float:
        judged.append(model[0].weight.detach().clone())  # type: ignore[index]
        return runs.accuracy(model, *others)

    monkeypatch.setattr(runs._train, "accuracy", accuracy)
    run = train(config(), CPU, tmp_path / "run", resume=False)
    state = saved(tmp_path / "run")
    network = own_network("mynetwork.py:build")
    write_weights(run, tmp_path / "run")
    network.load_state_dict(torch.load(tmp_path / "run" / WEIGHTS))
    assert runs.accuracy(network, run.test, CPU) == run.rows[-1]["test_accuracy"]
    assert torch.equal(judged[-1], state["average"]["weights"]["0.weight"])
    assert not torch.equal(judged[-1], state["model"]["0.weight"])
    assert torch.equal(run.model[0].weight, state["model"]["0.weight"]), "the last weights are back"  # type: ignore[index]
    write_statement(run, tmp_path / "run")
    assert "the last 6 steps" in json.loads((tmp_path / "run" / "statement.json").read_text())["output"]


def test_without_an_average_nothing_of_it_is_kept(tmp_path: Path) -> None:
    train(config(average=0.0), CPU, tmp_path / "run", resume=False)
    assert "average" not in saved(tmp_path / "run") and "average" not in config(average=0.0).as_dict()


def test_the_exponential_average_is_of_all_steps_and_stated(tmp_path: Path) -> None:
    weights: list[torch.Tensor] = []
    run = prepare(config(average=0.0, average_decay=0.75), CPU)
    while run.step < run.steps:
        runs.one_step(run)
        weights.append(run.model[0].weight.detach().double().clone())  # type: ignore[index]
    factors = [0.75 ** (run.steps - 1 - step) for step in range(run.steps)]
    wanted = sum(f * w for f, w in zip(factors, weights, strict=True)) / sum(factors)
    assert run.mean is not None and run.mean.count == run.steps == 12
    found = run.mean.state_dict()["weights"]["0.weight"].double()
    torch.testing.assert_close(found, wanted, rtol=12 * 2**-23, atol=12 * 2**-23)  # a rounding a step
    write_statement(run, tmp_path)
    said = json.loads((tmp_path / "statement.json").read_text())["output"]
    assert "exponential average, decay 0.75, of the weights after the last 12 steps" in said


@pytest.mark.parametrize("kind", [{}, {"average": 0.0, "average_decay": 0.9}], ids=["last", "exponential"])
@pytest.mark.parametrize("stop", [3, 9], ids=["before the average", "within it"])
def test_a_run_that_goes_on_has_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int, kind: dict[str, float]
) -> None:
    """Weights, mean and losses, with dropout and a falling rate."""
    train(config(**kind), CPU, tmp_path / "whole", resume=False)
    steps = 0

    def stopping() -> bool:
        nonlocal steps
        steps += 1
        return steps >= stop

    with monkeypatch.context() as patch:
        patch.setattr(runs._train, "interrupts_between_steps", _always(stopping))
        with pytest.raises(KeyboardInterrupt):
            train(config(**kind), CPU, tmp_path / "parts", resume=False)
    torch.rand(7)  # a process of its own would have another random state
    train(config(**kind), CPU, tmp_path / "parts", resume=True)
    whole, parts = saved(tmp_path / "whole"), saved(tmp_path / "parts")
    for key in ("model", "average", "step", "losses"):
        assert alike(whole[key], parts[key]), key
    assert [row["train_loss"] for row in whole["rows"]] == [row["train_loss"] for row in parts["rows"]]


def _always(stopping: Callable[[], bool]) -> Any:
    from contextlib import contextmanager

    @contextmanager
    def interrupts() -> Any:
        yield lambda: stopping()

    return interrupts


@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_the_learning_rate_falls_from_step_to_step(schedule: str) -> None:
    run = runs.prepare(config(optimizer={"learning_rate": 0.5, "schedule": schedule}), CPU)
    rates = []
    for _ in range(run.steps):
        runs.one_step(run)
        rates.append(run.optimizer.param_groups[0]["lr"])
    assert rates == [0.5 * float(SCHEDULES[schedule](step / 12)) for step in range(12)]


def test_frozen_parts_stay_and_words_are_whole_numbers(tmp_path: Path) -> None:
    run = train(config(model="mynetwork.py:frozen", epochs=1), CPU, tmp_path / "frozen", resume=False)
    before = runs.prepare(config(model="mynetwork.py:frozen"), CPU).model
    assert torch.equal(run.model[0].weight, before[0].weight)  # type: ignore[index]
    assert not torch.equal(run.model[3].weight, before[3].weight)  # type: ignore[index]
    run = train(config(model="mynetwork.py:words", data="words.npz", epochs=1), CPU, tmp_path / "words", resume=False)
    assert run.train.pixels.dtype == torch.int64
    assert math.isnan(run.rows[-1]["test_accuracy"]), "no records to judge by"


def test_the_seed_fixes_the_weights_and_leaves_torchs() -> None:
    state = torch.get_rng_state()
    one, same, other = (own_network("mynetwork.py:build", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one[0].weight, same[0].weight) and one.training  # type: ignore[index]
    assert not torch.equal(one[0].weight, other[0].weight)  # type: ignore[index]
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "name",
    ["mynetwork.py", "mynetwork.txt:build", "none.py:build", "mynetwork.py:none", "mynetwork.py:needs", "mynetwork.py:number",
     "mynetwork.py:torch", "broken.py:build", "mynetwork.py:a b", "mynetwork:build"],
)  # fmt: skip
def test_what_is_no_network_is_refused_in_one_line(name: str) -> None:
    Path("broken.py").write_text("def build(:\n")
    with pytest.raises(ValueError) as error:
        own_network(name)
    assert name.split(":")[0].split(".")[0] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("text", "line"), [("def build():\n    return layer\n", 2), ("import torch\n\nlayer\n", 3)])
def test_the_line_of_an_error_in_the_file_is_named(text: str, line: int) -> None:
    Path("named.py").write_text(text)
    with pytest.raises(ValueError) as error:
        own_network("named.py:build")
    assert f"named.py, line {line})" in str(error.value)


def test_records_are_float32_or_int64() -> None:
    features, labels = own_records("private.npz")
    assert (features.dtype, labels.dtype, len(features)) == (torch.float32, torch.int64, 120)
    assert len(own_records("private.npz", test=True)[1]) == 50
    assert len(own_records("alone.npz", test=True)[1]) == 0


def _array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.ones(3))


FILES: dict[str, Callable[[Path], object]] = {
    "no such file": lambda path: None,
    "text": lambda path: path.write_text("features"),
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(Path("private.npz").read_bytes()[:300]),
    "one array": _array,
    "no labels": lambda path: np.savez(path, features=np.ones((3, 2))),
    "lengths": lambda path: np.savez(path, features=np.ones((3, 2)), labels=np.ones(4, int)),
    "words": lambda path: np.savez(path, features=np.array(["a", "b"]), labels=np.ones(2, int)),
    "objects": lambda path: np.savez(path, features=np.array([{}, {}]), labels=np.ones(2, int)),
    "one number": lambda path: np.savez(path, features=3.0, labels=np.ones(2, int)),
    "bytes of images": lambda path: np.savez(path, features=np.ones((3, 1, 4, 4), np.uint8), labels=np.ones(3, int)),
    "labels that are no classes": lambda path: np.savez(path, features=np.ones((3, 2)), labels=np.ones(3)),
    "labels in columns": lambda path: np.savez(path, features=np.ones((3, 2)), labels=np.ones((3, 1), int)),
    "NaN": lambda path: np.savez(path, features=np.full((2, 2), np.nan), labels=np.ones(2, int)),
    "too large": lambda path: np.savez(path, features=np.full((2, 2), 1e300), labels=np.ones(2, int)),
    "a test set without labels": lambda path: np.savez(
        path, features=np.ones((3, 2)), labels=np.ones(3, int), test_features=np.ones((3, 2))
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_what_holds_no_records_is_refused_in_one_line(kind: str) -> None:
    path = Path("other.npz")
    FILES[kind](path)
    with refused("other.npz") as error:
        own_records(path, test=kind.startswith("a test set"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"model": "mynetwork.py:BatchMean"}, "records"),
        ({"model": "mynetwork.py:batch_norm"}, "module"),
        ({"model": "mynetwork.py:narrow"}, "data"),
        ({"model": "mynetwork.py:words"}, "model"),
        ({"data": "narrow.npz"}, "model"),
        ({"model": "mynetwork"}, "model"),
        ({"model": "mynetwork:build"}, "model"),
        ({"data": "other.npz"}, "other.npz"),
        ({"inputs": "unit"}, "inputs"),
        ({"average": 1.5}, "average"),
        ({"average_decay": 1.0, "average": 0.0}, "average_decay"),
        ({"average_decay": 0.5}, "average_decay"),
        ({"standardised_weights": 1}, "standardised_weights"),
        ({"epochs": 0.0}, "epochs"),
        ({"optimizer": {"schedule": "falling"}}, "optimizer.schedule"),
        ({"optimizer": {"schedule": "linear", "decay": 0.5}, "epochs": 2}, "optimizer.decay"),
    ],
)
def test_a_run_that_cannot_be_is_refused(changes: dict[str, Any], start: str) -> None:
    with refused(start):
        runs.prepare(config(**changes), CPU)


def test_a_refused_run_leaves_no_folder_behind(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for folder in (tmp_path / "new", tmp_path / "there"):
        with refused("nowhere.npz"):
            runs.train(config(data="nowhere.npz"), CPU, folder, resume=False)
    assert not (tmp_path / "new").exists() and (tmp_path / "there").is_dir()


def test_rows_that_are_there_several_times_are_counted_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def said(*places: int) -> list[str]:
        np.savez("copies.npz", features=features.numpy()[list(places)], labels=labels.numpy()[list(places)])
        caplog.clear()
        runs.write_statement(runs.prepare(config(data="copies.npz"), CPU), Path())
        told.append(Path("statement.md").read_text())
        return [record.getMessage() for record in caplog.records if "equal" in record.getMessage()]

    told: list[str] = []
    features, labels = own_records("private.npz")
    labels[1], features[1] = (labels[0] + 1) % 3, features[0]  # another label is another row
    assert said(*range(120)) == []
    (line,) = said(*range(120), 7, 7, 7, 9)
    assert "6 of the 124 rows" in line and "epsilon is that of one row" in line and "\n" not in line
    (line,) = said(*range(120), 3, 3, 2, 119)
    assert "7 of the 124 rows" in line
    assert "several rows" in told[0] and told[1] == told[2], "how many are equal is private, the statement is not"


def test_a_configuration_is_written_as_it_is_read() -> None:
    one = config()
    assert from_dict(one.as_dict()) == one
    assert one.as_dict()["optimizer"]["schedule"] == "cosine" and "inputs" not in one.as_dict()
    plain = from_dict({**one.as_dict(), "data": "excerpt", "model": "mlp", "epochs": 2.0})
    assert plain.inputs == "standardised" and repr(plain.epochs) == "2"
