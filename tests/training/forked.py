"""Processes for the tests of whole runs, forked from a server that has imported what they need.

A fresh interpreter takes seconds of imports for each. The server starts with the first process that is asked for and ends with
the tests. Every process begins with the usual signals, one thread, and no standard input.
"""

import io
import multiprocessing
import os
import pickle
import runpy
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any


def in_a_fork(work: Callable[[], Any]) -> Any:
    """What the work gives in a child of this process; it needs no threads, which a fork does not take along."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            with os.fdopen(write, "wb") as out:
                pickle.dump(work(), out)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as found:
        sent = found.read()
    os.waitpid(child, 0)
    return pickle.loads(sent)


ROOT = Path(__file__).parents[2]
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["dptheory.cli", "dptheory.training.runs", "torch.distributed", "torch._dynamo"])


class Forked:
    """``python SCRIPT ARGUMENT...`` as a process of its own; what it says on stderr goes to a file.

    Args:
        said: that file; it must not exist.
        script: a Python file, whose folder becomes the first place of imports.
        arguments: what follows on the command line.
        env: additions to the environment.
    """

    def __init__(
        self, said: Path, script: Path, arguments: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        self._said = said
        given = (said, script, [str(one) for one in arguments], dict(env or {}))
        self._process: BaseProcess = FORKSERVER.Process(target=_run, args=given)
        self._process.start()

    def finish(self, seconds: float = 600) -> tuple[int | None, str]:
        """Exit code and what was said on stderr; a process that does not end in time is killed."""
        self._process.join(seconds)
        self._process.kill()
        self._process.join()
        return self._process.exitcode, self._said.read_text(encoding="utf-8")


def _run(said: Path, script: Path, arguments: list[str], env: dict[str, str]) -> None:
    """What the process does; an exit by ``SystemExit`` gives its code."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 2)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8", write_through=True)
    os.environ.update(env)
    os.chdir(ROOT)
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script), *arguments]
    import torch

    torch.set_num_threads(1)
    runpy.run_path(str(script), run_name="__main__")
