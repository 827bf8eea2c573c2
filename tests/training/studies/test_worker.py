"""Workers, their processes, and results made again."""

import contextlib
import dataclasses
import io
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from dptheory.cli import app
from dptheory.training import runs, studies
from dptheory.training._machine import versions
from dptheory.training.data import data_folder
from dptheory.training.runs import CSV, STATE
from dptheory.training.studies import _processes, _rerun, _results, _worker, rerun, seconds_taken
from dptheory.training.studies._processes import BUSY, DONE, FAILED, STOPPED, Ending, in_fresh_process
from dptheory.training.studies._worker import Task
from tests.refused import refused
from tests.training.tiny import made_up_data, tiny_config

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")

# --- One run by a worker: what the file holds, which state is gone on with, and what the exit code says ---


CODE = {"commit": "c", "trees": {"training": "t", "dptheory": "d"}, "dirty": False}


@pytest.fixture
def small_and_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_data(monkeypatch)
    monkeypatch.setattr(_results, "code_version", lambda: CODE)


def a_task(folder: Path, **changes: Any) -> Task:
    config = tiny_config(**{"model": "linear-probe", "batch_size": 60, "epochs": 2} | changes).as_dict()
    return Task("s", "p", "a", {"x": 1}, config, "cpu", str(folder / "state"), str(folder / "results" / "r.jsonl"))


@pytest.mark.usefixtures("small_and_clean")
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


@pytest.mark.usefixtures("small_and_clean")
def test_code_that_differs_from_its_commit_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_results, "code_version", lambda: CODE | {"dirty": True})
    with refused("allow_dirty"):
        _worker.make(a_task(tmp_path))
    task = dataclasses.replace(a_task(tmp_path, epochs=1), allow_dirty=True)
    _worker.make(task)
    assert _results.read(Path(task.result))[task.name]["code"]["dirty"] is True


@pytest.mark.usefixtures("small_and_clean")
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


@pytest.mark.usefixtures("small_and_clean")
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


@pytest.mark.usefixtures("small_and_clean")
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


@pytest.mark.usefixtures("small_and_clean")
def test_a_line_that_the_parent_did_not_finish(standard_input) -> None:
    standard_input(b"half a li")
    assert _worker._line() == "half a li"


@pytest.mark.usefixtures("small_and_clean")
def test_the_end_of_standard_input_is_the_signal_to_stop(monkeypatch: pytest.MonkeyPatch, standard_input) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    standard_input(b"x" * 9000)
    _worker._stop_with_parent()
    assert killed == [(os.getpid(), signal.SIGTERM)]
    assert os.read(0, 1) == b""  # all was read before


# --- How the process of a run is watched: what its end means, how often it is started again, and what it is given ---


ROOT = Path(__file__).parents[3]
KILLED = -signal.SIGKILL


def a_task_of_processes(folder: Path) -> Task:
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
    workers = Workers(a_task_of_processes(folder), *ends, **more)
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
    task = a_task_of_processes(tmp_path)
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
    assert in_fresh_process(a_task_of_processes(tmp_path), 51.0, lambda: False) == Ending(BUSY) and len(slept) == 1


def test_epochs_done(tmp_path: Path) -> None:
    task = a_task_of_processes(tmp_path)
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
    task = a_task_of_processes(tmp_path / "new")
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
    task = a_task_of_processes(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert watched(monkeypatch, task, "import os; print(os.environ['PYTHONPATH'])") == (0, False)
    assert (Path(task.folder) / "log.txt").read_text() == f"{ROOT}\n"


def test_a_worker_that_ends_before_it_is_told_anything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dumps = json.dumps

    def late(value: object) -> str:
        time.sleep(1.0)
        return dumps(value)

    monkeypatch.setattr(_processes.json, "dumps", late)
    assert watched(monkeypatch, a_task_of_processes(tmp_path), "import sys; sys.exit(3)") == (3, False)


def test_the_end_of_what_a_worker_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    task = a_task_of_processes(tmp_path)
    long = "import os; os.write(1, b'a' * 3000 + b'\\xff' + b'b' * 1998 + b'\\n'); os._exit(1)"
    assert watched(monkeypatch, task, long) == (1, False)
    assert _processes._tail(task) == "�" + "b" * 1998
    assert in_fresh_process(task) == Ending(FAILED, "�" + "b" * 1998)


def test_a_worker_that_reads_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its exit code tells, also where the task no longer fits into the pipe."""
    task = dataclasses.replace(a_task_of_processes(tmp_path), config={"seed": 1, "text": "x" * 200_000})
    assert watched(monkeypatch, task, "import os; os._exit(3)") == (3, False)


# --- A result made again: by which code, with what told to it, and what is said to differ ---


WORKER = """
import json, sys
task = json.loads(sys.stdin.readline())
found = {name: task[name] for name in ("study", "phase", "arm", "point", "config")}
found |= json.loads(open(__file__.replace("_worker.py", "says.json")).read())
open(task["result"], "w").write(json.dumps(found | {"device": task["device"]}))
"""

INSTRUMENT = """
import json, os, pathlib, sys
_, kind, name, _, seed, _, device, _, out = sys.argv
assert kind == "instrument" and [os.environ[n] for n in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")] == ["1", "1"]
path = pathlib.Path(out) / "instruments" / f"{name}_seed={seed}.json"
path.parent.mkdir(parents=True)
says = pathlib.Path(__file__).parent / "runs" / "says.json"
path.write_text(json.dumps(json.loads(says.read_text()) | {"instrument": name, "seed": int(seed), "device": device}))
"""

SAYS: dict[str, Any] = {
    "epochs": {"accuracy": [0.5, 0.75], "loss": [2.0, None]},
    "diverged": False,
    "versions": {"torch": "2.13.0"},
    "quantities": {"gain": 1.5},
    "arms": {"dp-sgd": {"noise": 1.0}},
    "seconds": {"epochs": [1.0, 2.5]},
    "cpu_seconds": 7,
}

RUN = {"study": "s", "phase": "p", "arm": "a", "point": {"lr": 0.5}, "config": {"seed": 3}, "device": "cpu"}
MEASURED = {"instrument": "masks", "seed": 3, "device": "cpu"}
KINDS = pytest.mark.parametrize("kind", [RUN, MEASURED], ids=["run", "instrument"])


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A checkout whose code writes down what it is told to say; each call is one more commit."""
    root = tmp_path / "checkout"
    (root / "training" / "runs").mkdir(parents=True)
    (root / "training" / "__init__.py").touch()
    (root / "training" / "runs" / "__init__.py").touch()
    (root / "training" / "runs" / "_worker.py").write_text(WORKER)
    (root / "training" / "__main__.py").write_text(INSTRUMENT)
    who = ("-c", "user.name=who", "-c", "user.email=who@example.org", "-c", "commit.gpgsign=false")

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout

    def commit(**says: Any) -> str:
        (root / "training" / "runs" / "says.json").write_text(json.dumps(SAYS | {"code": {}} | says))
        git("add", ".")
        git(*who, "commit", "--quiet", "--message", "one more")
        return git("rev-parse", "HEAD").strip()

    git("init", "--quiet")
    monkeypatch.setattr(_rerun, "_ROOT", root)
    monkeypatch.chdir(ROOT)  # where another package of that name lies
    return commit


def written(folder: Path, kind: dict[str, Any], **changes: Any) -> Path:
    path = folder / "result.jsonl"
    path.write_text(json.dumps({"run": "it"} | SAYS | kind | changes) + "\n")
    return path


def code(commit: str) -> dict[str, Any]:
    return {"commit": commit, "dirty": False}


def coming_out(history: Callable[..., str], folder: Path, kind: dict[str, Any], **says: Any) -> studies.Rerun:
    """When the code says something else than the file, which it cannot be told of its commit."""
    path = written(folder, kind, code=code(history(**says)))
    found = rerun(path, "it")
    assert found.changed[-1].startswith("code.") and json.loads(path.read_text())["code"]["commit"] == found.commit
    return studies.Rerun(commit=found.commit, changed=found.changed[:-2], machine=found.machine)


@KINDS
def test_the_code_is_that_of_the_commit(history: Callable[..., str], tmp_path: Path, kind: dict[str, Any]) -> None:
    """Of three commits the middle one, and neither checkout nor file is touched."""
    history(diverged=True)
    middle = history()
    last = history(diverged=True)
    path = written(tmp_path, kind, code=code(middle))
    before = path.read_text()
    found = rerun(path, "it")
    assert (found.commit, found.machine) == (middle, ())
    assert found.changed == (
        f'code.commit: "{middle}" before, null now',
        "code.dirty: false before, null now",
    )
    assert path.read_text() == before and sorted(p.name for p in tmp_path.iterdir()) == ["checkout", "result.jsonl"]
    head = subprocess.run(
        ["git", "-C", str(tmp_path / "checkout"), "rev-parse", "HEAD"], capture_output=True, text=True
    )
    assert head.stdout.strip() == last
    assert rerun(written(tmp_path, kind, code=code(last)), "it").changed[0] == "diverged: false before, true now"


@KINDS
@pytest.mark.parametrize(
    ("says", "changed"),
    [
        ({}, ()),
        ({"seconds": {"epochs": [9.0]}, "cpu_seconds": 99}, ()),
        (
            {"epochs": {"accuracy": [0.5, 0.8], "loss": [2.0, 3.0]}},
            ("epochs.accuracy[1]: 0.75 before, 0.8 now", "epochs.loss[1]: null before, 3.0 now"),
        ),
        (
            {"epochs": {"accuracy": [0.5], "loss": [2.0, None]}},
            ("epochs.accuracy: [0.5, 0.75] before, [0.5] now",),
        ),
        ({"quantities": {"gain": 1.5, "loss": 2}}, ("quantities.loss: null before, 2 now",)),
        ({"arms": {"other": {}}}, ('arms.dp-sgd: {"noise": 1.0} before, null now', "arms.other: null before, {} now")),
    ],
)  # fmt: skip
def test_what_came_out_otherwise(
    history: Callable[..., str], tmp_path: Path, kind: dict[str, Any], says: dict[str, Any], changed: tuple[str, ...]
) -> None:
    found = coming_out(history, tmp_path, kind, **says)
    assert (found.changed, found.machine, found.same) == (changed, (), not changed)


@KINDS
def test_other_versions_and_devices_are_said_and_are_no_change(
    history: Callable[..., str], tmp_path: Path, kind: dict[str, Any]
) -> None:
    found = coming_out(history, tmp_path, kind | {"device": "cpu (AVX512)"}, versions={"torch": "2.14.0"})
    versions = 'versions.torch: "2.13.0" before, "2.14.0" now'
    assert found.same and set(found.machine) == {versions, 'device: "cpu (AVX512)" before, "cpu" now'}


@KINDS
@pytest.mark.parametrize(("name", "device"), [("cuda: NVIDIA A100", "cuda"), ("cpu (AVX2)", "cpu"), ("cpu", "cpu")])
def test_the_device(history: Callable[..., str], tmp_path: Path, kind: dict[str, Any], name: str, device: str) -> None:
    found = coming_out(history, tmp_path, kind | {"device": name})
    assert found.machine == (() if name == device else (f'device: "{name}" before, "{device}" now',))


@pytest.mark.parametrize("made_by", [{"package": "0.2.0"}, {"commit": "c0ffee", "dirty": True}])
@KINDS
def test_code_that_nobody_can_find_again(tmp_path: Path, kind: dict[str, Any], made_by: dict[str, Any]) -> None:
    with refused("run"):
        rerun(written(tmp_path, kind, code=made_by), "it")


@pytest.mark.parametrize("text", [None, "{", "[]\n", "{}\n", json.dumps({"config": {}}) + "\n"])
@pytest.mark.parametrize("of", [rerun, seconds_taken])
def test_a_file_without_results(tmp_path: Path, of: Callable[[Path, str], Any], text: str | None) -> None:
    if text is not None:
        (tmp_path / "result.jsonl").write_text(text)
    with refused("path"):
        of(tmp_path / "result.jsonl", "it")


@pytest.mark.parametrize("of", [rerun, seconds_taken])
@KINDS
def test_a_run_that_is_not_among_them(tmp_path: Path, of: Callable[[Path, str], Any], kind: dict[str, Any]) -> None:
    with refused("run", "'it'", "'that'"):
        of(written(tmp_path, kind, code={}), "that")


@KINDS
def test_code_that_writes_lines(history: Callable[..., str], tmp_path: Path, kind: dict[str, Any]) -> None:
    """As it does after 0.3.0: what comes out is the same, and the name of the run is no entry."""
    root = tmp_path / "checkout" / "training"
    worker = (root / "runs" / "_worker.py").read_text()
    (root / "runs" / "_worker.py").write_text(
        worker.replace("dumps(found |", 'dumps({"run": "it"} | found |') + '\nopen(task["result"], "a").write("\\n")\n'
    )
    measuring = (root / "__main__.py").read_text().replace("{name}_seed={seed}.json", "instruments.jsonl")
    (root / "__main__.py").write_text(measuring.replace("dumps(", 'dumps({"run": "it"} | '))
    path = written(tmp_path, kind, code=code(history()))
    assert [line.split(":")[0] for line in rerun(path, "it").changed] == ["code.commit", "code.dirty"]


def test_a_commit_that_is_not_there(history: Callable[..., str], tmp_path: Path) -> None:
    history()
    with pytest.raises(OSError, match="git cat-file failed"):
        rerun(written(tmp_path, RUN, code=code("c0ffee" * 6 + "c0ff")), "it")


def test_an_installed_package_has_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rerun, "_ROOT", tmp_path)
    with pytest.raises(OSError, match="made again from a git checkout"):
        rerun(written(tmp_path, RUN, code=code("c0ffee")), "it")


def test_a_run_that_fails(history: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, RUN, code=code(history()))
    monkeypatch.setattr(_processes, "_worker_of", lambda code: ("-c", "raise SystemExit('no such thing')"))
    with pytest.raises(ValueError, match="the run was not made again: no such thing"):
        rerun(path, "it")
    monkeypatch.setattr(_processes, "in_fresh_process", lambda *_, **__: Ending(_processes.BUSY))
    with pytest.raises(ValueError, match="the run was not made again: busy"):
        rerun(path, "it")


def test_measurements_that_fail(history: Callable[..., str], tmp_path: Path) -> None:
    path = written(tmp_path, MEASURED, code=code(history()))
    path.write_text(path.read_text().replace('"masks"', '"../masks"'))
    with pytest.raises(ValueError, match=r"the measurements were not made again: Traceback[^$]*FileNotFoundError"):
        rerun(path, "it")


def test_how_long_it_took(tmp_path: Path) -> None:
    assert seconds_taken(written(tmp_path, RUN, code={}), "it") == 3.5
    assert seconds_taken(written(tmp_path, MEASURED, code={}), "it") == 7.0


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, RUN, code=code("c0ffee"))

    def invoke(**found: tuple[str, ...]) -> tuple[int, list[str]]:
        monkeypatch.setattr(
            studies,
            "rerun",
            lambda path, run: studies.Rerun(**({"commit": "c0ffee", "changed": (), "machine": ()} | found)),
        )
        result = CliRunner().invoke(app, ["rerun", str(path), "it"])
        return result.exit_code, result.output.splitlines()

    same = "the same but for the times, by the code of commit c0ffee"
    assert invoke() == (0, [same])
    assert invoke(machine=("torch",)) == (0, ["torch", same])
    told = (1, ["torch", "loss", "gain", "2 entries came out otherwise, by the code of commit c0ffee"])
    assert invoke(machine=("torch",), changed=("loss", "gain")) == told


def test_errors_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(app, ["rerun", "nowhere.jsonl", "it"])
    assert result.exit_code == 2 and "PATH must be a file of results" in result.output

    def interrupted(path: Path, run: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(studies, "rerun", interrupted)
    assert CliRunner().invoke(app, ["rerun", str(written(tmp_path, RUN, code={})), "it"]).exit_code == 130


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the history")
@pytest.mark.parametrize(
    ("study", "run"), [("instruments", "inversion_seed=0"), ("cause", "no-noise-large-clip_clipped-90_seed=21")]
)
def test_a_committed_result_comes_out_again(study: str, run: str) -> None:
    """Some minutes of one core."""
    if not (data_folder() / "fashion-mnist" / "train-images-idx3-ubyte").is_file():
        pytest.skip(f"needs the published FashionMNIST files in {data_folder() / 'fashion-mnist'}")
    assert rerun(ROOT / "proofs" / "results" / f"{study}.jsonl", run).changed == ()
