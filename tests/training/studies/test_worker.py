"""One run by a worker: what the file holds, which state is gone on with, and what the exit code says."""

import contextlib
import dataclasses
import io
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dptheory.training import runs
from dptheory.training._locks import only_here
from dptheory.training._machine import versions
from dptheory.training.runs import CSV, STATE, _prepare
from dptheory.training.studies import _results, _worker
from dptheory.training.studies._worker import Task
from tests.training.tiny import tiny_config, tiny_load

CODE = {"commit": "c", "trees": {"training": "t", "dptheory": "d"}, "dirty": False}

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")


@pytest.fixture(autouse=True)
def small_and_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_prepare, "load", tiny_load)
    monkeypatch.setattr(_results, "code_version", lambda: CODE)


def a_task(folder: Path, **changes: Any) -> Task:
    config = tiny_config(**{"model": "linear-probe", "batch_size": 60, "epochs": 2} | changes).as_dict()
    return Task("s", "p", "a", {"x": 1}, config, "cpu", str(folder / "state"), str(folder / "results" / "r.jsonl"))


def test_results_of_changed_code_are_not_wanted_by_default() -> None:
    assert a_task(Path()).allow_dirty is False


def test_a_result_and_nothing_else_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    task = a_task(tmp_path)
    assert task.finished() is False
    _worker.make(task)
    assert asked == [1] and task.finished()
    assert sorted(p.name for p in (tmp_path / "results").iterdir()) == ["r.jsonl"]
    assert sorted(p.name for p in (tmp_path / "state").iterdir()) == [".run.lock", "task.json"]
    found = _results.read(Path(task.result))["p_a_x=1_seed=5"]
    rest = {"mechanism", "noise_multiplier", "budget_spent", "training_images", "test_images", "privacy"}
    assert found.keys() - rest == {
        "study", "phase", "arm", "point", "config", "seed", "diverged", "code", "device", "versions", "epochs", "seconds",
    }  # fmt: skip
    assert (found["study"], found["phase"], found["arm"], found["point"], found["seed"]) == ("s", "p", "a", {"x": 1}, 5)
    assert found["config"] == json.loads(json.dumps(task.config)) and found["code"] == CODE
    assert found["versions"] == versions()
    assert found["device"] == f"cpu ({torch.backends.cpu.get_cpu_capability()})"
    assert set(found["epochs"]) == {"epoch", "step", "train_loss", "test_accuracy", "epsilon", "nonfinite_samples"}
    assert found["epochs"]["epoch"] == [1, 2] and len(found["seconds"]["epochs"]) == 2
    for epsilon in (*found["epochs"]["epsilon"], found["privacy"]["epsilon"]):
        assert epsilon == float(f"{epsilon:.12g}") > 0
    assert found["diverged"] is (found["epochs"]["test_accuracy"][-1] < 0.2)
    monkeypatch.setattr(runs, "train", None)
    _worker.make(task)  # it has its result: nothing is trained
    with pytest.raises(TypeError):
        _worker.make(dataclasses.replace(task, config=dict(task.config) | {"seed": 6}))


def test_code_that_differs_from_its_commit_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_results, "code_version", lambda: CODE | {"dirty": True})
    with pytest.raises(ValueError, match="the code differs from its commit"):
        _worker.make(a_task(tmp_path))
    task = dataclasses.replace(a_task(tmp_path, epochs=1), allow_dirty=True)
    _worker.make(task)
    assert _results.read(Path(task.result))[task.name]["code"]["dirty"] is True


def test_a_run_without_a_step_makes_no_result(tmp_path: Path) -> None:
    task = a_task(tmp_path, epsilon=1e-3)
    with pytest.raises(ValueError, match="the run made no step: its budget does not afford one"):
        _worker.make(task)
    assert not Path(task.result).exists()


class Interrupted:
    """``train`` that leaves a state behind and is interrupted; says whether it was to go on, and whether it found one."""

    def __init__(self) -> None:
        self.calls: list[tuple[bool, bool]] = []

    def __call__(self, config: runs.RunConfig, device: torch.device, out: Path, resume: bool) -> runs.Run:
        self.calls.append((resume, (out / STATE).exists()))
        out.mkdir(parents=True, exist_ok=True)
        (out / STATE).touch()
        raise KeyboardInterrupt


def test_which_state_is_gone_on_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One of the same trees of code, the same configuration and device; another commit with the same trees is the same code."""
    trained = Interrupted()
    monkeypatch.setattr(runs, "train", trained)
    task = a_task(tmp_path)

    def made(code: dict[str, Any], task: Task = task) -> tuple[bool, bool]:
        monkeypatch.setattr(_results, "code_version", lambda: code)
        with pytest.raises(KeyboardInterrupt):
            _worker.make(task)
        return trained.calls[-1]

    fresh, goes_on = (False, False), (True, True)
    assert made(CODE) == fresh
    assert made(CODE) == made(CODE | {"commit": "other"}) == goes_on
    assert made(CODE | {"trees": {"training": "t2", "dptheory": "d"}}) == fresh
    assert made(CODE) == fresh and made(CODE) == goes_on
    more = dataclasses.replace(task, config=dict(task.config) | {"epochs": 3})
    assert made(CODE, more) == fresh and made(CODE, more) == goes_on
    turned = dict(reversed(more.config.items()))
    assert made(CODE, dataclasses.replace(more, config=turned)) == goes_on  # the order of the keys means nothing
    assert made({"package": "1"}) == fresh and made({"package": "1"}) == goes_on and made({"package": "2"}) == fresh
    (Path(task.folder) / "run" / STATE).unlink()
    metrics = Path(task.folder) / "run" / CSV  # which a new run would refuse to overwrite
    metrics.touch()
    assert made({"package": "2"}) == fresh and not metrics.exists()
    shutil.rmtree(Path(task.folder) / "run")
    assert made({"package": "2"}) == fresh
    monkeypatch.setattr("dptheory.training.runs.pick_device", lambda wanted: torch.device("cuda"))
    assert made({"package": "2"}) == fresh  # another device


def test_another_device_is_named() -> None:
    assert _worker._device(torch.device("cpu")).startswith("cpu (")


# --- the process -------------------------------------------------------------------------------------------------------


@pytest.fixture
def standard_input(usual_signals: None) -> Iterator[Callable[[bytes], None]]:
    """Puts a pipe with some text in the place of standard input; it comes to its end where the text does not say "..."."""
    before, open_ends = os.dup(0), []

    def put(text: bytes) -> None:
        out, into = os.pipe()
        os.dup2(out, 0)
        os.close(out)
        os.write(into, text.removesuffix(b"..."))
        if text.endswith(b"..."):
            open_ends.append(into)
        else:
            os.close(into)

    yield put
    os.dup2(before, 0)
    for end in (*open_ends, before):
        os.close(end)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (None, 0, ""),
        (KeyboardInterrupt(), 130, ""),
        (BlockingIOError(11, "held"), 75, ""),
        (ValueError("a reason"), 1, "a reason\n"),
        (OSError("no disk"), 1, "no disk\n"),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, standard_input, error: BaseException | None, code: int, said: str
) -> None:
    """The task is the first line of standard input; what follows is left to the thread that waits for its end."""
    made: list[Task] = []
    waiting, waits = threading.Event(), []

    def make(task: Task) -> None:
        made.append(task)
        assert waiting.wait(600)
        if error is not None:
            raise error

    def wait() -> None:
        waits.append(threading.current_thread().daemon)
        waiting.set()

    monkeypatch.setattr(_worker, "make", make)
    monkeypatch.setattr(_worker, "_stop_with_parent", wait)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    task = a_task(Path("somewhere"))
    standard_input((json.dumps(dataclasses.asdict(task)) + "\nrest...").encode())
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        assert _worker.main() == code
    assert made == [task] and waits == [True]
    assert os.read(0, 100) == b"rest"
    assert errors.getvalue() == said
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # whatever the parent did with it
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_line_that_the_parent_did_not_finish(standard_input) -> None:
    standard_input(b"half a li")
    assert _worker._line() == "half a li"


def test_the_end_of_standard_input_is_the_signal_to_stop(monkeypatch: pytest.MonkeyPatch, standard_input) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    standard_input(b"x" * 9000)
    _worker._stop_with_parent()
    assert killed == [(os.getpid(), signal.SIGTERM)]
    assert os.read(0, 1) == b""  # all was read before


def test_a_run_of_another_process_is_busy(tmp_path: Path) -> None:
    task = a_task(tmp_path)
    with only_here(Path(task.folder)), pytest.raises(BlockingIOError):
        _worker.make(task)
