"""One run in a fresh process, watched: started again where it is killed, stopped where its time is over."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from dptheory.training._machine import taken
from dptheory.training.studies import _worker
from dptheory.training.studies._worker import Task

_MOST_DEATHS = 10
"""Of a run's processes in a row without an epoch more: then something kills it every time, as too little memory does."""
_LOOK_SECONDS = 0.2
_BUSY_SECONDS = 2.0
_LOG = "log.txt"
_TAIL = 2000
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_ROOT = Path(__file__).resolve().parents[2]

DONE, STOPPED, BUSY, FAILED = "done", "stopped", "busy", "failed"


@dataclass(frozen=True)
class Ending:
    """How the work on a run ended: done; stopped, with its state saved; busy, as another process has it; or failed, and why."""

    kind: str
    message: str = ""


def in_fresh_process(
    task: Task, deadline: float | None = None, stop: Callable[[], bool] | None = None, *, code: Path = _ROOT
) -> Ending:
    """Do a run in a process of its own on the packages in ``code``; ``deadline`` is by this machine's clock, None for never."""
    deaths, epochs = 0, 0
    while deaths < _MOST_DEATHS:
        if task.finished():
            return Ending(DONE)
        if _over(deadline, stop):
            return Ending(STOPPED)
        if taken(Path(task.folder)):
            time.sleep(_BUSY_SECONDS)
            return Ending(BUSY)
        ended, told = _watched(task, deadline, stop, code)
        if ended == 0:
            return (
                Ending(DONE)
                if task.finished()
                else Ending(FAILED, f"it left no result of its configuration in {task.result}")
            )
        if ended == _worker.BUSY:
            return Ending(BUSY)
        if told and ended != _worker.FAILED:
            return Ending(STOPPED)
        if 0 < ended != _worker.STOPPED:
            return Ending(FAILED, _tail(task))
        reached = epochs_done(Path(task.folder))
        deaths, epochs = (0, reached) if reached > epochs else (deaths + 1, epochs)
    return Ending(FAILED, f"its process was killed {_MOST_DEATHS} times without an epoch more\n{_tail(task)}")


def epochs_done(folder: Path) -> int:
    """Epochs that a run under way has finished."""
    try:
        return max(0, len((folder / "run" / "metrics.csv").read_text().splitlines()) - 1)
    except FileNotFoundError:
        return 0


def environment(code: Path) -> dict[str, str]:
    """Of a process with one thread that takes its packages from a folder."""
    path = os.pathsep.join((str(code), *filter(None, [os.environ.get("PYTHONPATH")])))
    return os.environ | {"PYTHONPATH": path} | dict.fromkeys(_THREADS, "1")


def _worker_of(code: Path) -> tuple[str, ...]:
    """What Python is told to run for a worker of that code; -P, as other packages may lie in the working directory.

    Up to version 0.2.0 ``training`` was a package of its own, and up to 0.3.0 the worker was among the runs; results of that code
    are made again under those names.
    """
    home = "dptheory." if (code / "dptheory" / "training").exists() else ""
    room = "studies" if (code / "training" / "studies").exists() else "runs"
    return ("-P", "-m", f"{home}training.{room}._worker")


def _watched(task: Task, deadline: float | None, stop: Callable[[], bool] | None, code: Path) -> tuple[int, bool]:
    """Exit code of a worker, negative for the signal that killed it, and whether it was told to stop.

    Its standard input stays open while it is wanted, and is closed when this process ends, however it ends.
    """
    folder = Path(task.folder)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *_worker_of(code)]
    told = False
    with (
        (folder / _LOG).open("wb") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment(code), start_new_session=True
        ) as process,
    ):
        assert process.stdin is not None
        try:
            process.stdin.write((json.dumps(asdict(task)) + "\n").encode())
            process.stdin.flush()
        except BrokenPipeError:  # it died at once; its exit code tells
            with contextlib.suppress(BrokenPipeError):  # again, as closing sends what is left
                process.stdin.close()
        while process.poll() is None:
            if not told and _over(deadline, stop):
                process.stdin.close()
                told = True
            time.sleep(_LOOK_SECONDS)
    return process.returncode, told


def _over(deadline: float | None, stop: Callable[[], bool] | None) -> bool:
    return (deadline is not None and time.time() >= deadline) or (stop is not None and stop())


def _tail(task: Task) -> str:
    """The end of what a worker said."""
    return (Path(task.folder) / _LOG).read_text(errors="replace")[-_TAIL:].strip()
