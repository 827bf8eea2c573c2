"""Results: what they hold, which are refused, and which code they name."""

import importlib.metadata
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dptheory.training.studies import _results
from dptheory.training.studies._rules import read_studies

ROW: dict[str, Any] = {
    "config": {"seed": 3}, "code": {"dirty": False}, "diverged": False,
    "epochs": {"epoch": [1, 2, 3], "test_accuracy": [0.25, 0.75, 0.5]}, "seconds": {"epochs": [1.5, 2.5, 3.5]},
}  # fmt: skip


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "study.jsonl"
    other = ROW | {"config": {"seed": 4}}
    _results.write(path, "one", ROW)
    _results.write(path, "other", other)
    assert _results.read(path) == {"one": ROW, "other": other}
    assert [json.loads(line)["run"] for line in path.read_text().splitlines()] == ["one", "other"]


def test_a_later_result_of_a_run_stands_for_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    for name, seed in (("one", 3), ("other", 4), ("one", 5)):
        _results.write(path, name, ROW | {"config": {"seed": seed}})
    assert {name: row["config"]["seed"] for name, row in _results.read(path).items()} == {"one": 5, "other": 4}


@pytest.mark.parametrize("place", ["outside", "epochs", "seconds"])
def test_no_number_that_json_does_not_have(tmp_path: Path, place: str) -> None:
    bad = ROW | ({"config": {"a": math.nan}} if place == "outside" else {place: {"epochs": [math.inf]}})
    with pytest.raises(ValueError, match="JSON"):
        _results.write(tmp_path / "study.jsonl", "one", bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lacking", ["run", "config", "epochs", "code", "diverged"])
def test_a_line_that_is_no_result_is_refused(tmp_path: Path, lacking: str) -> None:
    path = tmp_path / "study.jsonl"
    _results.write(path, "one", ROW)
    line = {key: value for key, value in (ROW | {"run": "other"}).items() if key != lacking}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    with pytest.raises(ValueError, match=rf"study\.jsonl .* 2 .*{lacking}$"):
        _results.read(path)


def test_four_entries_make_a_result_and_no_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    assert _results.read(path) == {}
    four = {key: ROW[key] for key in ("config", "epochs", "code", "diverged")}
    _results.write(path, "one", four)
    assert _results.read(path) == {"one": four}


def test_a_study_has_a_file_and_a_run_its_name() -> None:
    assert _results.path_of(Path("results"), "study") == Path("results/study.jsonl")
    named = _results.run_name(phase="p", arm="a-b", point={"optimizer.learning_rate": 0.50, "epochs": 2}, seed=7)
    assert named == "p_a-b_learning_rate=0.5_epochs=2_seed=7"


def test_committed_results_have_the_names_of_their_runs() -> None:
    folder = Path(__file__).parents[3] / "proofs" / "results"
    for path in (_results.path_of(folder, name) for name in read_studies() if (folder / f"{name}.jsonl").exists()):
        for name, row in _results.read(path).items():
            place = {key: row[key] for key in ("phase", "arm", "point")}
            assert name == _results.run_name(**place, seed=row["config"]["seed"]) and row["study"] == path.stem


def test_accuracies_at_the_last_and_at_the_best_epoch() -> None:
    assert (_results.last_accuracy(ROW), _results.best_accuracy(ROW)) == (0.5, 0.75)


@pytest.mark.parametrize(
    ("loss", "accuracy", "diverged"),
    [(1.0, 0.2, False), (1.0, 0.1999, True), (None, 0.9, True), (math.nan, 0.9, True), (math.inf, 0.9, True)],
)
def test_diverged_at_the_last_epoch(loss: float | None, accuracy: float, diverged: bool) -> None:
    assert (
        _results.has_diverged({"train_loss": [1.0, math.nan, loss], "test_accuracy": [0.1, 0.1, accuracy]}) is diverged
    )
    assert not _results.has_diverged({"train_loss": [math.nan, loss, 1.0], "test_accuracy": [0.1, accuracy, 0.3]})


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.check_output(["git", "-C", str(folder), *who, *arguments], text=True, stderr=subprocess.PIPE)


def test_the_code_is_that_of_the_checkout_that_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's own checkout, unless another is named; outside a checkout it is the package's version."""
    for name in _results._PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(name)
    monkeypatch.setattr(_results, "__file__", str(tmp_path / "training" / "studies" / "_results.py"))
    packaged = {"package": importlib.metadata.version("dptheory")}
    assert _results.code_version() == packaged
    git(tmp_path, "init")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "first")
    commit, *trees = git(tmp_path, "rev-parse", "HEAD", "HEAD:training", "HEAD:dptheory").split()
    clean = {"commit": commit, "trees": dict(zip(("training", "dptheory"), trees, strict=True)), "dirty": False}
    (tmp_path / "proofs").mkdir()
    (tmp_path / "proofs" / "study.jsonl").write_text("{}")  # results change no run
    assert _results.code_version() == clean
    assert _results.code_version(tmp_path / "training") == packaged
    (tmp_path / "training" / "new.py").touch()
    assert _results.code_version() == clean | {"dirty": True}
    (tmp_path / "training" / "new.py").unlink()
    (tmp_path / "dptheory" / "a.py").write_text("changed")
    assert _results.code_version() == clean | {"dirty": True}
    with pytest.raises(ValueError, match="commit it, or say --allow-dirty"):
        _results.refuse_dirty(_results.code_version())
    _results.refuse_dirty(clean)
    _results.refuse_dirty(packaged)
    (tmp_path / ".git" / "HEAD").write_text("nothing")
    with pytest.raises(OSError, match=rf"git status failed in {tmp_path}: .*not a git repository"):
        _results.code_version()


def test_floats_are_written_to_twelve_digits() -> None:
    third = 1 / 3
    assert _results.settled({"a": [third, 7, None, True], "b": ("x", third)}) == {
        "a": [0.333333333333, 7, None, True],
        "b": ("x", third),
    }
