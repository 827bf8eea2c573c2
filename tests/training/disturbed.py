"""``python -m dptheory.training.studies._worker`` on small images, which kills itself, or waits to be stopped, after a step.

So no test has to be in time.

The environment says when: DISTURBED_KILL, DISTURBED_STOP (steps) and DISTURBED_FOLDER (for files that say that it has happened).
"""

import os
import signal
import sys
import threading
from pathlib import Path

import torch

from dptheory.training import runs as runs
from dptheory.training.runs import _prepare, _train
from dptheory.training.studies import _worker
from tests.training.tiny import tiny_load

folder = Path(os.environ["DISTURBED_FOLDER"])
kill, stop = (int(os.environ[f"DISTURBED_{name}"]) for name in ("KILL", "STOP"))
step, stop_with_parent = _train.one_step, _worker._stop_with_parent
told = threading.Event()


def one_step(run: runs.Run) -> tuple[float, int]:
    found = step(run)
    if run.step == kill and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if run.step == stop:
        (folder / "stop").touch()
        assert told.wait(600)
    return found


def note_that_it_is_told() -> None:
    stop_with_parent()
    told.set()


_prepare.load, _train.one_step, _worker._stop_with_parent = tiny_load, one_step, note_that_it_is_told
torch.set_num_threads(1)
sys.exit(_worker.main())
