"""Result files: what they hold, which are refused, and which code they name."""

import importlib.metadata
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dptheory.training.runs import _results

ROW: dict[str, Any] = {
    "config": {"seed": 3}, "code": {"dirty": False}, "diverged": False,
    "epochs": {"epoch": [1, 2, 3], "test_accuracy": [0.25, 0.75, 0.5]}, "seconds": {"epochs": [1.5, 2.5, 3.5]},
}  # fmt: skip


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "a.json"
    _results.write(path, ROW)
    assert _results.read(path) == ROW
    lines = path.read_text().split("\n")
    assert '  "epoch": [1, 2, 3],' in lines and '  "test_accuracy": [0.25, 0.75, 0.5]' in lines  # a list on one line
    assert ' "diverged": false,' in lines and '  "seed": 3' in lines and lines[-1] == ""


@pytest.mark.parametrize("place", ["outside", "epochs", "seconds"])
def test_no_number_that_json_does_not_have(tmp_path: Path, place: str) -> None:
    bad = ROW | ({"config": {"a": math.nan}} if place == "outside" else {place: {"epochs": [math.inf]}})
    with pytest.raises(ValueError, match="JSON"):
        _results.write(tmp_path / "a.json", bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "is no result of a run: Expecting"),
        (b"\xff\xfe", "is no result of a run: 'utf-8' codec"),
        (b"[]", "is no result of a run: it lacks config, epochs, code or diverged"),
        (b"3", "is no result of a run: it lacks"),
        *(
            (json.dumps({k: v for k, v in ROW.items() if k != key}).encode(), "is no result of a run: it lacks config")
            for key in ("config", "epochs", "code", "diverged")
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=says) as refused:
        _results.read(path)
    assert str(refused.value).startswith(str(path))


def test_four_entries_make_a_result_and_no_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert _results.read(path) is None
    four = {key: ROW[key] for key in ("config", "epochs", "code", "diverged")}
    path.write_text(json.dumps(four))
    assert _results.read(path) == four


def test_a_result_lies_in_the_folder_of_its_study() -> None:
    assert _results.path_of(Path("results"), "study", "run") == Path("results/study/run.json")


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
    monkeypatch.setattr(_results, "__file__", str(tmp_path / "training" / "runs" / "_results.py"))
    packaged = {"package": importlib.metadata.version("dptheory")}
    assert _results.code_version() == packaged
    git(tmp_path, "init")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "first")
    commit, *trees = git(tmp_path, "rev-parse", "HEAD", "HEAD:training", "HEAD:dptheory").split()
    clean = {"commit": commit, "trees": dict(zip(("training", "dptheory"), trees, strict=True)), "dirty": False}
    assert _results.code_version() == clean
    assert _results.code_version(tmp_path / "training") == packaged
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
