"""How the process of a run is watched: what its end means, how often it is started again, and what it is given."""

import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dptheory.training.studies import _processes, _results, _worker
from dptheory.training.studies._processes import BUSY, DONE, FAILED, STOPPED, Ending, in_fresh_process
from dptheory.training.studies._worker import Task

ROOT = Path(__file__).parents[3]
KILLED = -signal.SIGKILL


def a_task(folder: Path) -> Task:
    return Task("s", "p", "a", {}, {"seed": 1}, "cpu", str(folder / "state"), str(folder / "result.jsonl"))


def finish(task: Task) -> None:
    whole = {"config": dict(task.config), "epochs": {}, "code": {}, "diverged": False}
    _results.write(Path(task.result), task.name, whole)


def epochs(task: Task, count: int) -> None:
    table = Path(task.folder) / "run" / "metrics.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text("epoch,step\n" + "1,1\n" * count)


class Workers:
    """Stands in for the processes: each ends as is said, with as many epochs done."""

    def __init__(self, task: Task, *ends: tuple[int, int], told: bool = False, result: bool = False) -> None:
        self.task, self.ends, self.told, self.result, self.count = task, ends, told, result, 0

    def __call__(self, task: Task, *when: object) -> tuple[int, bool]:
        assert task is self.task
        Path(task.folder).mkdir(exist_ok=True)
        (Path(task.folder) / "log.txt").write_text("what it said\n")
        code, done = self.ends[min(self.count, len(self.ends) - 1)]
        self.count += 1
        epochs(task, done)
        if self.result:
            finish(task)
        return code, self.told


def ending(monkeypatch: pytest.MonkeyPatch, folder: Path, *ends: tuple[int, int], **more: bool) -> tuple[Ending, int]:
    """Of a run whose processes end so, and how many there were."""
    workers = Workers(a_task(folder), *ends, **more)
    monkeypatch.setattr(_processes, "_watched", workers)
    return in_fresh_process(workers.task), workers.count


def test_ten_deaths_without_an_epoch_more_are_too_many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, count = ending(monkeypatch, tmp_path, (KILLED, 0))
    says = "its process was killed 10 times without an epoch more\nwhat it said"
    assert (found, count) == (Ending(FAILED, says), 10)


def test_an_epoch_more_and_deaths_are_counted_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nine deaths, then the first epoch; nine more, then the second; and then ten."""
    ends = [(KILLED, 0)] * 9 + [(KILLED, 1)] * 10 + [(KILLED, 2)] * 30
    found, count = ending(monkeypatch, tmp_path, *ends)
    assert found.kind == FAILED and count == 9 + 10 + 1 + 10


def test_fewer_epochs_than_before_are_no_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, count = ending(monkeypatch, tmp_path, (KILLED, 3), *[(KILLED, 1), (KILLED, 2), (KILLED, 3)] * 30)
    assert found.kind == FAILED and count == 11


def test_a_stop_that_nobody_asked_for_is_a_death(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Such as SIGTERM from outside: the run is gone on with."""
    assert ending(monkeypatch, tmp_path, (_worker.STOPPED, 0))[1] == 10


@pytest.mark.parametrize(
    ("code", "told", "result", "wanted"),
    [
        (0, False, True, Ending(DONE)),
        (0, True, True, Ending(DONE)),
        (0, False, False, Ending(FAILED, "it left no result of its configuration in {result}")),
        (_worker.BUSY, False, False, Ending(BUSY)),
        (_worker.STOPPED, True, False, Ending(STOPPED)),
        (KILLED, True, False, Ending(STOPPED)),
        (_worker.FAILED, False, False, Ending(FAILED, "what it said")),
        (_worker.FAILED, True, False, Ending(FAILED, "what it said")),
        (2, False, False, Ending(FAILED, "what it said")),
    ],
)
def test_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, told: bool, result: bool, wanted: Ending
) -> None:
    wanted = dataclasses.replace(wanted, message=wanted.message.format(result=tmp_path / "result.jsonl"))
    assert ending(monkeypatch, tmp_path, (code, 1), told=told, result=result) == (wanted, 1)


def test_no_process_where_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    task = a_task(tmp_path)
    monkeypatch.setattr(_processes, "_watched", None)
    monkeypatch.setattr(_processes.time, "time", lambda: 50.0)
    for deadline in (49.0, 50.0):
        assert in_fresh_process(task, deadline) == Ending(STOPPED)
    assert in_fresh_process(task, stop=lambda: True) == Ending(STOPPED)
    assert in_fresh_process(task, 51.0, lambda: True) == Ending(STOPPED)
    finish(task)
    assert in_fresh_process(task, 49.0, lambda: True) == Ending(DONE)


def test_a_run_that_another_process_has_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slept: list[float] = []
    monkeypatch.setattr(_processes, "_watched", None)
    monkeypatch.setattr(_processes, "taken", lambda folder: folder == tmp_path / "state")
    monkeypatch.setattr(_processes.time, "sleep", slept.append)
    monkeypatch.setattr(_processes.time, "time", lambda: 50.0)
    assert in_fresh_process(a_task(tmp_path), 51.0, lambda: False) == Ending(BUSY) and len(slept) == 1


def test_epochs_done(tmp_path: Path) -> None:
    task = a_task(tmp_path)
    assert _processes.epochs_done(Path(task.folder)) == 0
    for count in (0, 1, 2):
        epochs(task, count)
        assert _processes.epochs_done(Path(task.folder)) == count
    (Path(task.folder) / "run" / "metrics.csv").write_text("")
    assert _processes.epochs_done(Path(task.folder)) == 0


# --- a process ---------------------------------------------------------------------------------------------------------

REPORT = """
import json, os, sys
line = sys.stdin.readline()
print(json.dumps([json.loads(line), os.environ["PYTHONPATH"], [os.environ[n] for n in sys.argv[1].split()],
      os.getsid(0) == os.getpid()]), flush=True)
print("the end", file=sys.stderr)
sys.stdin.read()
sys.exit(7 if os.path.exists(sys.argv[2]) else "closed before it was time")
"""


def watched(
    monkeypatch: pytest.MonkeyPatch, task: Task, code: str, *, stop: Callable[[], bool] | None = None
) -> tuple[int, bool]:
    threads = "OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS"
    monkeypatch.setattr(_processes, "_worker_of", lambda _: ("-S", "-c", code, threads, f"{task.result} told"))
    return _processes._watched(task, None, stop, ROOT)


def test_what_a_worker_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The task on its standard input, which stays open until it is told to stop; this package, and one thread."""
    task = a_task(tmp_path / "new")
    log = Path(task.folder) / "log.txt"
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv("OMP_NUM_THREADS", "5")

    def stop() -> bool:
        if "the end" in log.read_text():
            Path(f"{task.result} told").touch()
            return True
        return False

    assert watched(monkeypatch, task, REPORT, stop=stop) == (7, True)
    said, end, *_ = log.read_text().split("\n")
    given, path, threads, own_session = json.loads(said)
    assert Task(**given) == task and path == f"{ROOT}{os.pathsep}elsewhere" and threads == ["1"] * 3
    assert own_session is True  # Ctrl-C at the terminal does not reach it
    assert end == "the end"


def test_only_this_package_where_no_path_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    task = a_task(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert watched(monkeypatch, task, "import os; print(os.environ['PYTHONPATH'])") == (0, False)
    assert (Path(task.folder) / "log.txt").read_text() == f"{ROOT}\n"


def test_a_worker_that_ends_before_it_is_told_anything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dumps = json.dumps

    def late(value: object) -> str:
        time.sleep(1.0)
        return dumps(value)

    monkeypatch.setattr(_processes.json, "dumps", late)
    assert watched(monkeypatch, a_task(tmp_path), "import sys; sys.exit(3)") == (3, False)


def test_the_end_of_what_a_worker_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    task = a_task(tmp_path)
    long = "import os; os.write(1, b'a' * 3000 + b'\\xff' + b'b' * 1998 + b'\\n'); os._exit(1)"
    assert watched(monkeypatch, task, long) == (1, False)
    assert _processes._tail(task) == "�" + "b" * 1998
    assert in_fresh_process(task) == Ending(FAILED, "�" + "b" * 1998)


def test_a_worker_that_reads_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its exit code tells, also where the task no longer fits into the pipe."""
    task = dataclasses.replace(a_task(tmp_path), config={"seed": 1, "text": "x" * 200_000})
    assert watched(monkeypatch, task, "import os; os._exit(3)") == (3, False)
