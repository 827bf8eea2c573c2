"""``--scheduler``: the workers of a Dask scheduler make a study's runs, plan, and check."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptheory.cli import app
from dptheory.training.data import load
from dptheory.training.runs import _prepare
from dptheory.training.studies._processes import FAILED, epochs_done
from dptheory.training.studies._sweep import Places, _ending, sweep
from tests.training.studies.test_sweep import ROOT, Here, files, real_study

COMMANDS = {
    "sweep": ["sweep", "configs/studies/masking.toml", "--allow-dirty"],
    "plan": ["plan", "small-cnn", "--data", "excerpt", "--epsilon", "3", "--delta", "1e-5"],
    "check": ["check", "gip.mse_t0"],
}
LONGEST = 600.0
needs_dask = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="distributed is not installed")


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_without_dask_one_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str]) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = CliRunner().invoke(app, [*command, "--scheduler", "tcp://127.0.0.1:8786"])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("Error: --scheduler ") and "pip install distributed" in done.stderr


@needs_dask
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "no address"])
def test_without_a_scheduler_one_line_says_so(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr("dptheory.cli._cluster._SECONDS", 1)
    done = CliRunner().invoke(app, ["check", "gip.mse_t0", "--scheduler", address])
    assert done.exit_code == 2 and done.stderr.splitlines()[-1].startswith("Error: --scheduler ")


def test_a_run_that_the_cluster_gives_up_has_failed() -> None:
    future: Future = Future()
    future.set_exception(RuntimeError("four workers died of it"))
    ending = _ending(future)
    assert (ending.kind, ending.message) == (FAILED, "RuntimeError: four workers died of it")


@contextmanager
def started(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """Address of a scheduler on the loopback address, and its workers: each of them a process, as a guide says to start them."""
    told, dask = folder / "scheduler.json", [sys.executable, "-m", "dask"]
    own = {"cwd": folder, "env": os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}}
    with ExitStack() as stack:

        def process(*words: str) -> subprocess.Popen:
            one = stack.enter_context(
                subprocess.Popen([*dask, *words, "--scheduler-file", str(told), "--no-dashboard"], **own)
            )
            stack.callback(one.kill)
            return one

        process("scheduler", "--host", "127.0.0.1", "--port", "0")
        until(told.exists)
        found = [process("worker", "--nthreads", "1", "--no-nanny") for _ in range(workers)]
        yield address_of(told, workers), found


def address_of(told: Path, workers: int) -> str:
    from distributed import Client

    with Client(scheduler_file=str(told), timeout=LONGEST, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=LONGEST)
        return str(client.scheduler.address)


def until(happens) -> None:
    end = time.monotonic() + LONGEST
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.01)


def has_a_run_half_made(worker: subprocess.Popen) -> bool:
    """Whether a process of the worker's has trained an epoch; its log tells the folder of its run."""
    for children in Path(f"/proc/{worker.pid}/task").glob("*/children"):
        for child in children.read_text().split():
            log = Path(f"/proc/{child}/fd/1").readlink()
            if log.name == "log.txt" and epochs_done(log.parent):
                return True
    return False


@needs_dask
@pytest.mark.cluster
@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A study spread over two workers, one of which is killed in the middle of a run, has the results of a study made here."""
    monkeypatch.setattr(_prepare, "load", load)
    wanted = real_study(tmp_path / "study", epochs=12)
    there, here = (Places(results=tmp_path / name / "results", state=tmp_path / name / "state") for name in "ab")
    assert sweep(wanted, places=here, executor=Here(), allow_dirty=True).complete
    with started(tmp_path, workers=2) as (address, workers):
        places = ["--results", str(there.results), "--state", str(there.state)]
        command = [sys.executable, "-m", "dptheory", "sweep", str(tmp_path / "study/tiny.toml"), *places]
        with subprocess.Popen([*command, "--allow-dirty", "--scheduler", address], cwd=ROOT) as running:
            until(lambda: has_a_run_half_made(workers[0]))
            workers[0].send_signal(signal.SIGKILL)
            assert running.wait(LONGEST) == 0
        assert workers[1].poll() is None
    assert files(there) == files(here) and len(files(here)) == 8


@needs_dask
@pytest.mark.cluster
@pytest.mark.slow
def test_checks_and_plans_are_the_same_there(tmp_path: Path) -> None:
    """Also of a network whose file the workers do not have."""
    (tmp_path / "mine").mkdir()
    network = tmp_path / "mine" / "mynetwork.py"
    network.write_text(
        "import torch\n\nclass Mine(torch.nn.Linear):\n    pass\n\n"
        "def build():\n    return torch.nn.Sequential(torch.nn.Flatten(), Mine(784, 10))\n"
    )
    plan = ["plan", f"{network}:build", *COMMANDS["plan"][2:], "--batch-size", "500", "--seconds", "2", "--json"]
    check = [*COMMANDS["check"], "--budget", "10m", "--json"]
    with started(tmp_path, workers=1) as (address, _):
        made = {}
        for name, more in {"here": [], "there": ["--scheduler", address]}.items():
            one = CliRunner().invoke(app, [*plan, *more])
            assert one.exit_code == 0, one.output
            done = CliRunner().invoke(app, [*check, str(tmp_path / name), *more])
            assert done.exit_code == 0, done.output
            made[name] = [{k: v for k, v in row.items() if k != "seconds"} for row in rows(tmp_path / name)]
    assert made["here"] == made["there"]


def rows(path: Path) -> list[dict]:
    return json.loads(path.read_text())
