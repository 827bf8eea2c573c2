"""``dptheory`` that sends itself a signal after one of its steps, so that no test has to be in time.

Usage: python -m tests.training.interrupted STEP SIGNAL ARGUMENT...; of several processes the second (RANK 1) does it.
"""

import os
import signal
import sys

from dptheory.cli import app
from dptheory.training import runs
from dptheory.training.runs import _train

at, number = int(sys.argv[1]), signal.Signals[sys.argv[2]]
step = _train.one_step


def one_step(run: runs.Run) -> tuple[float, int]:
    found = step(run)
    if run.step == at and os.environ.get("RANK", "1") == "1":
        os.kill(os.getpid(), number)
    return found


_train.one_step = one_step
app(sys.argv[3:])
