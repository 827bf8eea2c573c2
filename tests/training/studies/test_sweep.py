"""Sweeps."""

import dataclasses
import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy import stats
from typer.testing import CliRunner

from dptheory.claims import all_claims
from dptheory.cli import app
from dptheory.training import runs as runs
from dptheory.training._machine import only_here, taken
from dptheory.training.runs import _train
from dptheory.training.studies import Lines, Standing, _processes, _results, _sweep, _worker, show
from dptheory.training.studies import _plan as plans
from dptheory.training.studies._comparisons import compare
from dptheory.training.studies._plan import Plan, PlannedRun
from dptheory.training.studies._processes import BUSY, DONE, FAILED, STOPPED, Ending, in_fresh_process
from dptheory.training.studies._study import Study, read_study, study_from_dict
from dptheory.training.studies._sweep import Outcome, Places, Watcher, standing, sweep
from dptheory.training.studies._worker import Task
from tests.refused import refused
from tests.training.studies.invented import MOMENTUM, RATE, changed, find_by, result
from tests.training.studies.invented import study as study_of_progress
from tests.training.tiny import made_up_data

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG"),
    pytest.mark.usefixtures("small_data"),
]

# --- Sweeps: which runs are made, what their files hold, and that nothing is lost, mixed up or made twice ---


HERE = Path(__file__).parent
ROOT = HERE.parents[2]
STUDIES = sorted((ROOT / "training" / "configs" / "studies").glob("*.toml"))
SPARSE = {"name": "random-sparsification", "drop_rate": 0.5, "cooling_epochs": 2}
WORDS = {"title": "Tiny", "question": "Does it work?", "forecast": "Yes.", "cost": "Seconds."}

TABLE = {
    **WORDS,
    "base": {
        "data": "excerpt", "model": "linear-probe", "epochs": 2, "batch_size": 30, "physical_batch_size": 30,
        "max_grad_norm": 1.0, "noise_multiplier": 1.0, "optimizer": {"learning_rate": 0.5, "momentum": 0.5},
    },
    "arms": {"dp-sgd": {}, "sparse": {"mechanism": SPARSE}, "partition": {"sampling": "partition"}},
    "phases": {
        "tuning": {"arms": ["dp-sgd", "sparse"], "seeds": [100, 101], "vary": {"optimizer.learning_rate": [1e-4, 0.5, 50.0]}},
        "final": {"seeds": {"first": 0, "count": 8}, "tuned_by": "tuning", "tuned_as": {"partition": "dp-sgd"}},
        "again": {
            "arms": ["dp-sgd"], "winner_of": "final", "tuned_by": "tuning",
            "winner_among": ["sparse"], "changes": {"epochs": 3}, "per_arm": {"sparse": {"mechanism": {"cooling_epochs": 3}}},
            "seeds": {"first": 20, "count": 8},
        },
    },
    "comparisons": [
        {"phases": ["final"], "arm": "sparse", "against": "dp-sgd", "main": True},
        {"phases": ["final"], "arm": "partition", "against": "dp-sgd"},
        {"phases": ["again"], "arm": "winner", "against": "dp-sgd"},
    ],
}  # fmt: skip

TWO_ARMS = {
    "phases": {"final": {"arms": ["dp-sgd", "sparse"], "seeds": {"count": 8}}},
    "comparisons": TABLE["comparisons"][:1],
}


def study(**changes) -> Study:
    return study_from_dict("tiny", TABLE | changes)


class Here(Executor):
    """Makes runs in this process: no test needs a fresh one for each."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def submit(self, function, task: Task, deadline) -> Future:
        assert function is in_fresh_process
        self.made.append(task.name)
        future: Future = Future()
        try:
            _worker.make(task)
            future.set_result(Ending(_processes.DONE))
        except ValueError as error:
            future.set_result(Ending(_processes.FAILED, str(error)))
        return future


def swept(places: Places, wanted: Study, **options) -> tuple[Outcome, list[str]]:
    here = Here()
    return sweep(wanted, places=places, executor=here, allow_dirty=True, **options), here.made


def files(places: Places) -> dict[str, dict]:
    """All results but for the times."""
    (path,) = places.results.iterdir()
    found = {name: dict(row) for name, row in _results.read(path).items()}
    assert all(set(f.pop("seconds")) == {"epochs"} for f in found.values())
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Places, Outcome, list[str]]:
    """The study, once."""
    folder = tmp_path_factory.mktemp("made")
    places = Places(results=folder / "results", state=folder / "state")
    with pytest.MonkeyPatch.context() as patch:
        made_up_data(patch)
        outcome, names = swept(places, study(), workers=3)
    return places, outcome, names


def test_every_run_is_made_once(made) -> None:
    places, outcome, names = made
    assert outcome.complete and not outcome.failed
    assert len(names) == len(set(names)) == 12 + 24 + 16 == outcome.standing.runs_in_all
    assert set(files(places)) == set(names)
    assert outcome.standing.epochs == outcome.standing.epochs_in_all == 2 * 36 + 3 * 16
    assert names.index("final_dp-sgd_seed=0") < names.index("again_dp-sgd_seed=20")
    again, remade = swept(places, study())
    assert again.complete and remade == []


def test_rates_and_winner_are_those_of_the_results(made) -> None:
    places, _, _ = made
    found, wanted = files(places), study()
    for arm in ("dp-sgd", "sparse"):
        means = {}
        for rate, shown in ((1e-4, "0.0001"), (0.5, "0.5"), (50.0, "50")):
            rows = [found[f"tuning_{arm}_learning_rate={shown}_seed={seed}"] for seed in (100, 101)]
            means[rate] = sum(r["epochs"]["test_accuracy"][-1] for r in rows) / 2
        best = max(means, key=lambda rate: (round(means[rate], 9), -rate))
        phase = wanted.phase("final")
        assert plans.chosen(wanted, phase, arm, places.find(wanted)) == {"optimizer.learning_rate": best}
        assert found[f"final_{arm}_seed=3"]["config"]["optimizer"] == {
            "name": "sgd", "learning_rate": best, "momentum": 0.5, "weight_decay": 0.0,
        }  # fmt: skip
    same = (found[f"final_{arm}_seed=3"]["config"]["optimizer"] for arm in ("dp-sgd", "partition"))
    assert next(same) == next(same)
    last = found["again_sparse_seed=20"]["config"]
    assert (last["epochs"], last["mechanism"]) == (3, SPARSE | {"cooling_epochs": 3})


def test_a_file_holds_all_that_its_run_depends_on(made) -> None:
    places, _, _ = made
    row = files(places)["final_sparse_seed=3"]
    assert (row["study"], row["phase"], row["arm"], row["seed"]) == ("tiny", "final", "sparse", 3)
    assert row["config"]["seed"] == 3 and row["noise_multiplier"] == 1.0 and row["device"].startswith("cpu (")
    assert row["code"] == _results.code_version() and {"torch", "numpy", "python"} < set(row["versions"])
    assert row["privacy"]["epsilon"] == row["epochs"]["epsilon"][-1] > 0 and row["privacy"]["steps"] == 8
    assert row["epochs"]["epoch"] == [1, 2] and len(row["epochs"]["test_accuracy"]) == 2
    partition = files(places)["final_partition_seed=3"]["privacy"]
    assert partition["sampling_rate"] == 1.0 and partition["epsilon"] > 2 * row["privacy"]["epsilon"]
    wild = [row for name, row in files(places).items() if "learning_rate=0.0001" in name]
    assert [one["diverged"] for one in wild] == [one["epochs"]["test_accuracy"][-1] < 0.2 for one in wild] and len(
        wild
    ) == 4


def test_a_changed_study_takes_no_stale_file(made, tmp_path: Path) -> None:
    places = Places(results=tmp_path / "results", state=tmp_path / "state")
    first = study(**TWO_ARMS)
    swept(places, first)
    second = study(**TWO_ARMS, arms=TABLE["arms"] | {"sparse": {"mechanism": SPARSE | {"drop_rate": 0.6}}})
    now = standing(second, places)
    assert now.stale == {f"final_sparse_seed={seed}" for seed in range(8)} and len(now.finished) == 8
    assert compare(second, second.comparisons[0], places.find(second)) is None
    _, remade = swept(places, second)
    assert sorted(remade) == sorted(now.stale)
    assert files(places)["final_sparse_seed=0"]["config"]["mechanism"]["drop_rate"] == 0.6


def test_a_run_that_fails_is_named_and_tried_again(tmp_path: Path) -> None:
    places = Places(results=tmp_path / "results", state=tmp_path / "state")
    one = study(**TWO_ARMS, arms=TABLE["arms"] | {"sparse": {"mechanism": SPARSE, "batch_size": 121}})
    outcome, _ = swept(places, one, workers=2)
    assert set(outcome.failed) == {f"final_sparse_seed={seed}" for seed in range(8)} and not outcome.complete
    assert "batch_size must be at most the 120" in outcome.failed["final_sparse_seed=0"]
    assert len(outcome.standing.finished) == 8


def test_no_run_is_started_when_the_time_is_over(tmp_path: Path) -> None:
    outcome, names = swept(Places(results=tmp_path / "results", state=tmp_path / "state"), study(), hours=0.0)
    assert names == [] and not outcome.complete and not outcome.failed


class Scripted(Executor):
    """Ends what it is given one by one, as the test says: the first one under way, whenever it is waited for."""

    def __init__(self, places: Places, wanted: Study, ends: dict[str, list[Ending]] | None = None) -> None:
        self.places, self.wanted, self.ends = places, wanted, ends or {}
        self.given: list[tuple[str, Task, tuple]] = []
        self.most = 0
        self.under_way: list[tuple[str, Task, Future]] = []

    def submit(self, function, task: Task, *rest) -> Future:
        assert function is in_fresh_process
        name, future = task.name, Future()
        self.given.append((name, task, rest))
        self.under_way.append((name, task, future))
        self.most = max(self.most, len(self.under_way))
        return future

    def wait(self, futures, timeout: float, return_when: str) -> tuple[set[Future], set[Future]]:
        assert 0 < timeout < 10 and return_when == "FIRST_COMPLETED"
        assert set(futures) == {future for *_, future in self.under_way}
        name, task, future = self.under_way.pop(0)
        ending = self.ends.get(name, [Ending(_processes.DONE)]).pop(0)
        if ending.kind == _processes.DONE:
            row = {"config": dict(task.config), "code": {}, "diverged": False, "seconds": {}}
            _results.write(
                Path(task.result), task.name, row | {"epochs": {"test_accuracy": [0.5], "train_loss": [1.0]}}
            )
        future.set_result(ending)
        return {future}, set(futures) - {future}


class Watching(Watcher):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []
        self.looks = 0

    def looked(self, standing) -> None:
        self.looks += 1
        assert standing().runs_in_all == 16

    def ended(self, run, ending: Ending, standing) -> None:
        self.seen.append((run.name, ending.kind, len(standing().finished)))


def scripted(monkeypatch, folder: Path, ends: dict[str, list[Ending]], **options) -> tuple[Scripted, Outcome]:
    places, wanted = Places(results=folder / "results", state=folder / "state"), study(**TWO_ARMS)
    executor = Scripted(places, wanted, ends)
    monkeypatch.setattr(_sweep, "wait", executor.wait)
    return executor, sweep(wanted, places=places, executor=executor, allow_dirty=True, **options)


NAMES = [f"final_{arm}_seed={seed}" for seed in range(8) for arm in ("dp-sgd", "sparse")]


def test_as_many_at_a_time_as_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    watching = Watching()
    executor, outcome = scripted(monkeypatch, tmp_path, {}, workers=3, watcher=watching)
    assert executor.most == 3 and [name for name, *_ in executor.given] == NAMES and outcome.complete
    assert watching.looks == 16 and watching.seen == [(name, "done", n) for n, name in enumerate(NAMES, 1)]
    assert scripted(monkeypatch, tmp_path / "one", {})[0].most == 1  # by default


def test_what_a_run_is_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whole paths, also on other machines; a deadline by the clock."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_sweep.time, "time", lambda: 1000.0)
    executor, _ = scripted(monkeypatch, Path("here"), {}, hours=2.0)
    name, task, rest = executor.given[1]
    assert (name, rest) == ("final_sparse_seed=0", (1000.0 + 7200.0,))
    assert (task.study, task.phase, task.arm, task.point, task.device) == ("tiny", "final", "sparse", {}, "cpu")
    assert task.config["seed"] == 0 and task.config["mechanism"] == SPARSE and task.allow_dirty is True
    assert task.folder == str(tmp_path.resolve() / "here/state/tiny/final_sparse_seed=0")
    assert task.result == str(tmp_path.resolve() / "here/results/tiny.jsonl") and task.name == name
    executor, _ = scripted(monkeypatch, Path("there"), {}, device="auto")
    assert executor.given[0][1].device == "auto" and executor.given[0][2] == (None,)
    assert scripted(monkeypatch, Path("elsewhere"), {}, hours=0.0)[0].given == []  # at the very end of the time


def test_runs_that_others_have_come_last_and_stopped_ones_are_left(monkeypatch, tmp_path: Path) -> None:
    busy, stopped, failed = NAMES[0], NAMES[3], NAMES[5]
    ends = {
        busy: [Ending(_processes.BUSY), Ending(_processes.DONE)],
        stopped: [Ending(_processes.STOPPED)],
        failed: [Ending(_processes.FAILED, "a reason")],
    }
    executor, outcome = scripted(monkeypatch, tmp_path, ends, workers=2)
    names = [name for name, *_ in executor.given]
    assert names == [*NAMES, busy]
    assert outcome.failed == {failed: "a reason"} and not outcome.complete
    assert outcome.standing.finished == set(NAMES) - {stopped, failed}


def test_when_the_time_is_over_the_runs_under_way_are_waited_for(monkeypatch, tmp_path: Path) -> None:
    clock = iter([1000.0] * 4 + [5000.0] * 1000)
    monkeypatch.setattr(_sweep.time, "time", lambda: next(clock))
    executor, outcome = scripted(monkeypatch, tmp_path, {}, hours=1.0, workers=2)
    assert 1 <= len(executor.given) <= 2 and not executor.under_way and not outcome.complete
    assert len(outcome.standing.finished) == len(executor.given)


def test_an_error_of_the_watcher_leaves_nothing_queued(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Interrupting(Watcher):
        def ended(self, run, ending, standing) -> None:
            raise KeyboardInterrupt

    wanted, places = study(**TWO_ARMS), Places(results=tmp_path / "results", state=tmp_path / "state")
    executor = Scripted(places, wanted)
    monkeypatch.setattr(_sweep, "wait", executor.wait)
    with pytest.raises(KeyboardInterrupt):
        sweep(wanted, places=places, executor=executor, allow_dirty=True, workers=3, watcher=Interrupting())
    assert [future.cancelled() for *_, future in executor.under_way] == [True, True]


def test_processes_of_this_machine_are_told_to_stop_when_the_sweep_ends(monkeypatch, tmp_path: Path) -> None:
    told: list[bool] = []
    entered = threading.Event()

    def process(task: Task, deadline: float | None, stop) -> Ending:
        told.append(stop())
        entered.set()
        for _ in range(60_000):
            if stop():
                break
            time.sleep(0.01)
        told.append(stop())
        return Ending(_processes.STOPPED)

    class Interrupting(Watcher):
        def looked(self, standing) -> None:
            assert entered.wait(600)
            raise KeyboardInterrupt

    monkeypatch.setattr(_sweep, "in_fresh_process", process)
    monkeypatch.setattr(_sweep, "_LOOK_SECONDS", 0.01)
    with pytest.raises(KeyboardInterrupt):
        sweep(
            study(**TWO_ARMS),
            places=Places(results=tmp_path / "r", state=tmp_path / "s"),
            allow_dirty=True,
            watcher=Interrupting(),
        )
    assert told == [False, True]


def test_changed_code_is_refused_unless_it_is_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_results, "code_version", lambda: {"dirty": True})
    with refused("allow_dirty"):
        sweep(study(), places=Places(results=tmp_path / "r", state=tmp_path / "s"), executor=Here(), hours=0.0)
    assert not sweep(study(), places=Places(results=tmp_path, state=tmp_path), hours=0.0, allow_dirty=True).complete


@pytest.mark.parametrize(("workers", "hours"), [(10_000, 1e6), (1, 0.0)])
def test_ends_of_ranges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, workers: int, hours: float) -> None:
    places, wanted = Places(results=tmp_path, state=tmp_path), study(device="cuda")
    monkeypatch.setattr(_sweep, "_missing", lambda *given: [])
    assert not sweep(wanted, places=places, workers=workers, hours=hours, device="cuda", allow_dirty=True).complete


def test_how_far_a_study_is(tmp_path: Path) -> None:
    """Finished, stale and running ones, and the epochs of all."""
    wanted, places = study(**TWO_ARMS), Places(results=tmp_path / "results", state=tmp_path / "state")
    runs = {run.name: run for run in plans.plan(wanted, lambda run: None).runs}
    row = {"code": {}, "diverged": False, "seconds": {}, "epochs": {"test_accuracy": [0.5]}}
    for name in NAMES[:3]:
        _results.write(places.file(wanted), name, row | {"config": runs[name].config.as_dict()})
    _results.write(places.file(wanted), NAMES[4], row | {"config": runs[NAMES[5]].config.as_dict()})
    table = places.folder(wanted, runs[NAMES[6]]) / "run" / "metrics.csv"
    table.parent.mkdir(parents=True)
    table.write_text("epoch\n1\n")
    with only_here(places.folder(wanted, runs[NAMES[7]])):
        found = standing(wanted, places)
    assert (found.finished, found.stale, found.running) == (set(NAMES[:3]), {NAMES[4]}, {NAMES[7]})
    assert (found.epochs, found.epochs_in_all, found.runs_in_all) == (3 * 2 + 1, 16 * 2, 16)
    whole = standing(
        study(), Places(results=tmp_path / "none", state=tmp_path / "none")
    )  # most runs wait for the first
    assert (whole.runs_in_all, whole.epochs_in_all) == (12 + 24 + 16, 2 * 36 + 3 * 16)
    assert not Outcome(found).complete and Outcome(found).failed == {}


def test_the_usual_places() -> None:
    assert (Places().results, Places().state) == (Path("proofs/results"), Path("sweep-state"))


# --- processes --------------------------------------------------------------------------------------------------------
def one_task(folder: Path, epochs: int = 3) -> Task:
    wanted = study(base=TABLE["base"] | {"epochs": epochs})
    places = Places(results=folder / "results", state=folder / "state")
    run = plans.plan(wanted, places.find(wanted)).runs[0]
    return Task(
        "tiny", run.phase, run.arm, dict(run.point), run.config.as_dict(), "cpu",
        str(places.folder(wanted, run)), str(places.file(wanted)), True,
    )  # fmt: skip


class Killed(BaseException):
    """Ends a run as kill -9 does: nothing is saved on the way."""


def test_killed_restarted_stopped_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the second epoch, started again, stopped in the third: the end is that of a run that nobody disturbed."""
    disturbed, calm = one_task(tmp_path / "disturbed"), one_task(tmp_path / "calm")
    _worker.make(calm)
    steps: list[int] = []
    step = _train.one_step

    def one_step(run: runs.Run) -> tuple[float, int]:
        steps.append(run.step)
        if steps.count(6) == 1 and run.step == 6:
            raise Killed
        if run.step == 9 and steps.count(9) == 1:
            signal.raise_signal(signal.SIGTERM)
        return step(run)

    def watched(task: Task, *when: object) -> tuple[int, bool]:
        try:
            _worker.make(task)
        except Killed:
            return -signal.SIGKILL, False
        except KeyboardInterrupt:
            return _worker.STOPPED, True
        return 0, False

    monkeypatch.setattr(_train, "one_step", one_step)
    monkeypatch.setattr(_processes, "_watched", watched)
    assert in_fresh_process(disturbed) == Ending(_processes.STOPPED)
    assert steps == [0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8, 9]  # again from the end of an epoch
    assert _processes.epochs_done(Path(disturbed.folder)) == 2
    assert in_fresh_process(disturbed) == Ending(_processes.DONE)
    assert steps[13:] == [10, 11]  # the step under way was finished, and its state saved
    first, second = (files(Places(results=tmp_path / name / "results")) for name in ("disturbed", "calm"))
    assert first == second and len(first) == 1
    assert not (Path(disturbed.folder) / "run").exists()
    monkeypatch.setattr(_processes, "_watched", None)
    assert in_fresh_process(disturbed) == Ending(_processes.DONE)  # it has its result: no process


def test_a_run_that_another_process_has_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_processes, "_BUSY_SECONDS", 0.0)
    task = one_task(tmp_path)
    assert not taken(Path(task.folder))
    with only_here(Path(task.folder)):
        assert taken(Path(task.folder))
        assert in_fresh_process(task) == Ending(_processes.BUSY)
        with pytest.raises(BlockingIOError):
            _worker.make(task)
    assert not taken(Path(task.folder)) and not Path(task.result).exists()
    assert in_fresh_process(task, deadline=0.0) == Ending(_processes.STOPPED)


def test_a_worker_that_always_dies_ends_in_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_processes, "_MOST_DEATHS", 3)
    die = "import os; print('too little memory', flush=True); os.kill(os.getpid(), 9)"
    monkeypatch.setattr(_processes, "_worker_of", lambda code: ("-c", die))
    ending = in_fresh_process(one_task(tmp_path))
    assert (
        ending.kind == _processes.FAILED
        and "killed 3 times" in ending.message
        and "too little memory" in ending.message
    )
    monkeypatch.setattr(_processes, "_worker_of", lambda code: ("-c", "raise SystemExit('no such thing')"))
    assert in_fresh_process(one_task(tmp_path)) == Ending(_processes.FAILED, "no such thing")
    monkeypatch.setattr(_processes, "_worker_of", lambda code: ("-c", ""))
    assert "no result" in in_fresh_process(one_task(tmp_path)).message


def command(folder: Path, workers: int = 2) -> list[str]:
    return [sys.executable, "-m", "dptheory", "sweep", str(folder / "tiny.toml"), "--workers", str(workers),
            "--allow-dirty", "--results", str(folder / "results"), "--state", str(folder / "state")]  # fmt: skip


def real_study(folder: Path, epochs: int = 4) -> Study:
    """On the excerpt, as workers have no small images."""
    text = (
        "\n".join(f'{key} = "{value}"' for key, value in WORDS.items())
        + f"""
[base]
data = "excerpt"
model = "linear-probe"
epochs = {epochs}
batch_size = 200
physical_batch_size = 200
max_grad_norm = 1.0
noise_multiplier = 1.0
[arms]
dp-sgd = {{}}
[phases.only]
seeds = {{count = 8}}
[[comparisons]]
phases = ["only"]
arm = "dp-sgd"
against = "dp-sgd"
main = true
"""
    )
    folder.mkdir(parents=True)
    (folder / "tiny.toml").write_text(text)
    return read_study(folder / "tiny.toml")


@pytest.mark.slow
def test_killed_five_times_at_random(tmp_path: Path) -> None:
    """kill -9 of runners and of workers at any moment; leftover workers end by themselves and do not meet their successors."""
    rng = random.Random(0)
    real_study(tmp_path / "calm")
    subprocess.run(command(tmp_path / "calm"), check=True, cwd=ROOT)
    real_study(tmp_path / "disturbed")
    for number in range(10):
        runner = subprocess.Popen(command(tmp_path / "disturbed"), cwd=ROOT)
        time.sleep(rng.uniform(3, 12))
        victims = [runner.pid] if number % 2 else _children(runner.pid)[:1]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        if number % 2 == 0:
            time.sleep(rng.uniform(0, 3))
            runner.kill()
        runner.wait()
    subprocess.run(command(tmp_path / "disturbed"), check=True, cwd=ROOT)
    calm, disturbed = (files(Places(results=tmp_path / name / "results")) for name in ("calm", "disturbed"))
    assert calm == disturbed and len(calm) == 8


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# --- studies and code -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_studies_that_come_with_the_package(path: Path) -> None:
    found = read_study(path)
    ids = {claim.id for claim in all_claims()}
    assert found.answers and set(found.answers) <= ids
    named = {word.strip("();,.:") for word in found.forecast.split()}
    assert named & ids, "the forecast names the claims that it rests on"
    plan = plans.plan(found, lambda run: None)
    assert len({run.name for run in plan.runs}) == len(plan.runs)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": 10_001}, "workers"),
        ({"hours": 1.01e6}, "hours"),
        ({"device": "tpu"}, "device"),
        ({"hours": -1}, "hours"),
        ({"hours": float("nan")}, "hours"),
    ],
)
def test_refuses_arguments(tmp_path: Path, changes: dict, says: str) -> None:
    with refused(says):
        sweep(study(), places=Places(results=tmp_path, state=tmp_path), allow_dirty=True, **changes)


def test_a_study_for_cuda_is_not_run_without(tmp_path: Path) -> None:
    with refused("device", "'cuda'", "'tiny'", "'cpu'"):
        sweep(study(device="cuda"), places=Places(results=tmp_path, state=tmp_path), allow_dirty=True)


def test_the_command_line(tmp_path: Path) -> None:
    real_study(tmp_path / "study")
    names = [str(tmp_path / "study" / "tiny.toml"), "--results", str(tmp_path / "r"), "--state", str(tmp_path / "s")]
    shown = CliRunner().invoke(app, ["sweep", *names, "--status"])
    assert shown.exit_code == 0 and "0 of 32 epochs" in shown.output and "0 of 1 comparisons" in shown.output
    left = CliRunner().invoke(app, ["sweep", *names, "--hours", "0", "--allow-dirty"])
    assert left.exit_code == 75 and "runs are left" in left.stderr
    none = CliRunner().invoke(app, ["sweep", "none.toml"])
    assert none.exit_code == 2 and "configs/studies/masking.toml" in " ".join(none.stderr.split())
    (tmp_path / "r").mkdir(parents=True)
    (tmp_path / "r" / "tiny.jsonl").write_text("{}\n")
    bad = CliRunner().invoke(app, ["sweep", *names, "--status"])
    assert bad.exit_code == 2 and "must hold results of a run" in " ".join(bad.stderr.split())


# --- What a sweep says while it runs ---


RUNS = plans.plan(study_of_progress(), lambda run: None).runs
LONG = "an error that says [bold]very much[/bold] " * 5


def standing_of_progress(finished: int, epochs: int, of: int = 224) -> Standing:
    plan = Plan(RUNS[:24], {"final": 6}, 10)
    return Standing(
        plan, frozenset(run.name for run in RUNS[:finished]), frozenset(), frozenset(), epochs=epochs, epochs_in_all=of
    )


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def said(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), width=60, force_terminal=terminal, color_system=None, legacy_windows=False)


def text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def refuse() -> Standing:
    raise AssertionError("nothing is shown, and so nothing is to be looked up")


@pytest.mark.parametrize(
    ("seconds", "epochs", "left"),
    [
        (60, 4, ""),  # none done since the start, with 4
        (60, 5, ", about 3 h 39 min left"),  # one in a minute, 219 to go
        (60, 14, ", about 0 h 21 min left"),
        (30, 104, ", about 0 h 1 min left"),  # 36 s
        (7200, 114, ", about 2 h 00 min left"),
        (60, 223, ", about 0 h 00 min left"),
        (60, 224, ""),
        (60, 3, ""),
    ],
)
def test_the_time_left_is_that_at_the_pace_so_far(seconds: float, epochs: int, left: str) -> None:
    left = left.replace("h 1 min", "h 01 min")
    clock, console = Clock(), said(terminal=False)
    lines = Lines(console, standing_of_progress(2, 4), clock)
    clock.now += seconds
    lines.ended(RUNS[0], Ending(DONE), lambda: standing_of_progress(7, epochs))
    assert text(console) == f"[7/30] {RUNS[0].name}: done{left}\n"


def test_a_line_for_every_run_that_ends() -> None:
    clock, console = Clock(), said(terminal=False)
    with Lines(console, standing_of_progress(0, 0), clock) as lines:
        lines.looked(refuse)
        lines.ended(RUNS[0], Ending(BUSY), refuse)
        clock.now += 60
        lines.ended(RUNS[1], Ending(STOPPED, "unread"), lambda: standing_of_progress(0, 0))
        lines.ended(RUNS[2], Ending(FAILED, LONG), lambda: standing_of_progress(1, 112))
    assert text(console).split("\n") == [
        f"[0/30] {RUNS[1].name}: stopped",
        f"[1/30] {RUNS[2].name}: failed: {LONG}, about 0 h 01 min left",
        "",
    ]


def shown(lines: Lines) -> str:
    console = said(terminal=False)
    console.print(lines._progress.get_renderable())
    return text(console)


def test_a_bar_on_a_terminal() -> None:
    clock, console = Clock(), said(terminal=True)
    lines = Lines(console, standing_of_progress(2, 56), clock)
    assert shown(lines).split()[0] == "sweep" and shown(lines).rstrip().endswith("56/224 epochs")
    with lines:
        clock.now += 60
        lines.looked(lambda: standing_of_progress(3, 112, 225))
        during = shown(lines)
    assert during.startswith("3/30 runs, about 0 h 02 min left ") and during.rstrip().endswith("112/225 epochs")
    assert "━" in during
    end = text(console)
    assert "\x1b[?25h" in end and end.rstrip("\n").endswith("\x1b[2K")  # the cursor is back, the bar is gone


def test_lines_are_not_coloured() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    Lines(console, standing_of_progress(0, 0)).ended(RUNS[0], Ending(DONE), lambda: standing_of_progress(1, 0))
    assert text(console) == f"[1/30] {RUNS[0].name}: done\n"


def test_the_usual_clock_is_one_that_is_never_set_back() -> None:
    lines = Lines(said(terminal=False), standing_of_progress(0, 0))
    assert lines._clock is time.monotonic


# --- What ``sweep --status`` prints
RATES = {0.5: 0.5, 1.0: 0.7, 2.0: 0.6}


def accuracy(run: PlannedRun) -> float:
    """Masked is best at the largest rate; momentum helps; of the arms twin is the best."""
    if run.phase == "tuning":
        rate = -run.point[RATE] if run.arm == "masked" else RATES[run.point[RATE]]
        return abs(rate) / 4 + 0.1 * run.point[MOMENTUM]
    spread = 0.01 * (run.config.seed % 3)
    if run.name == "final_twin_seed=4":
        return 0.1
    return {"plain": 0.5, "masked": 0.55 + spread, "twin": 0.6 + spread}[run.arm]


def written(folder: Path, wanted: Study, names: Any) -> Places:
    """Results of all runs that ``names`` lets through."""
    places = Places(results=folder / "results", state=folder / "state")
    for run in plans.plan(wanted, find_by(accuracy)).runs:
        if names(run):
            _results.write(places.file(wanted), run.name, dict(result(run, accuracy(run))) | {"seconds": {}})
    return places


def printed(wanted: Study, places: Places) -> str:
    console = Console(file=io.StringIO(), width=240, color_system=None)
    show(wanted, places, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rows(text: str) -> list[list[str]]:
    lines = [line.replace("┃", "│") for line in text.split("\n")]
    return [[cell.strip() for cell in line.strip("│ ").split("│")] for line in lines if "│" in line]


def test_a_study_that_nobody_began(tmp_path: Path) -> None:
    text = printed(study_of_progress(), Places(results=tmp_path / "results", state=tmp_path / "state"))
    assert text.startswith("invented: Invented\n") and text.rstrip().endswith("0 of 3 comparisons can be made")
    assert rows(text) == [
        ["phase", "runs", "finished", "running", "to be made again"],
        ["tuning", "24", "0", "0", "0"], ["final", "48", "0", "0", "0"], ["again", "16", "0", "0", "0"],
    ]  # fmt: skip
    assert f"0 of {24 * 2 + 48 * 3 + 16 * 2} epochs" in text and "learning_rate" not in text


def test_how_far_it_is(tmp_path: Path) -> None:
    """One run of the tuning is missing, one of another configuration, one under way."""
    wanted = study_of_progress()
    lacking = "tuning_plain_learning_rate=0.5_momentum=0_seed=100"
    places = written(tmp_path, wanted, lambda run: run.phase == "tuning" and run.name != lacking)
    runs = {run.name: run for run in plans.plan(wanted, lambda run: None).runs}
    stale = runs["tuning_masked_learning_rate=1_momentum=0_seed=101"]
    other = result(dataclasses.replace(stale, config=dataclasses.replace(stale.config, epochs=9)), 0.5)
    _results.write(places.file(wanted), stale.name, dict(other) | {"seconds": {}})
    under_way = places.folder(wanted, runs[lacking])
    (under_way / "run").mkdir(parents=True)
    (under_way / "run" / "metrics.csv").write_text("epoch\n1\n")
    text = printed(wanted, places)
    assert ["tuning", "24", "22", "0", "1"] in rows(text) and f"{2 * 22 + 1} of 224 epochs" in text
    assert "comparisons can be made" in text and "learning_rate" not in text  # neither arm is tuned


def test_comparisons(tmp_path: Path) -> None:
    wanted = study_of_progress()
    places = written(tmp_path, wanted, lambda run: True)
    text = printed(wanted, places)
    assert "3 of 3 comparisons can be made" in text
    heads = ["comparison (points)", "pairs", "last epoch", "sign-flip p", "times comparisons", "best epoch", "diverged"]
    table = rows(text)
    assert table[4] == heads
    difference, equivalence, winner = table[5:]
    ends = stats.ttest_1samp([5 + seed % 3 for seed in range(16)], 0).confidence_interval()
    shown = f"+5.94 [{ends.low:+.2f}, {ends.high:+.2f}]"
    p = 2 / 2**16  # all signs are the same
    assert difference == ["masked - plain (main)", "16", shown, f"{p:.3g}", f"{3 * p:.3g}", shown, "0, 0"]
    assert equivalence[:2] == ["twin - plain", "16"] and equivalence[-1] == "1, 0"
    differences = [-40 if seed == 4 else 10 + seed % 3 for seed in range(16)]
    p = stats.ttest_1samp(differences, 0.5, alternative="less").pvalue
    assert equivalence[2].endswith(f"; not shown to be within 0.5: p = {p:.2g}")
    assert winner[0] == "twin - plain" and winner[1] == "8" and "within" not in winner[2]
    some = printed(wanted, written(tmp_path / "some", wanted, lambda run: run.phase != "again"))
    assert "2 of 3 comparisons can be made" in some and len(rows(some)) == 7


def test_an_equivalence_that_is_shown(tmp_path: Path) -> None:
    wanted = study_of_progress(changed("comparisons/1/margin", 60.0))
    text = printed(wanted, written(tmp_path, wanted, lambda run: run.phase != "again"))
    assert "; within 60: p = " in text and "not shown" not in text


@pytest.mark.parametrize("width", [40])
def test_lines_are_not_broken(tmp_path: Path, width: int) -> None:
    wanted = dataclasses.replace(study_of_progress(), title="[red]A long title[/red] " * 5)
    console = Console(file=io.StringIO(), width=width, color_system=None)
    show(wanted, written(tmp_path, study_of_progress(), lambda run: run.phase == "tuning"), console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().split("\n")
    assert f"invented: {wanted.title}" in lines and "0 of 3 comparisons can be made" in lines
    assert any(line.startswith("final, masked: ") and line.count("grid") == 2 for line in lines)
