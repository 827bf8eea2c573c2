"""Pilots side by side: in processes of this machine, or in an executor of the user's; those that have ended, kept in a file."""

import contextlib
import dataclasses
import hashlib
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dptheory.errors import ArgumentError
from dptheory.training._files import JsonLines, Line
from dptheory.training.planning._pilot import Job, Outcome, Problem, Score, pilot

_log = logging.getLogger("dptheory.training")

_LOOK_SECONDS = 0.5
_BEGIN_SECONDS, _TRIES = 20.0, 3
_BEGINS = '{"plan": "'


class Journal:
    """A line of JSON for every pilot that has ended.

    Args:
        path: of the file; None for none.
        setup: all that the pilots depend on, beside their jobs; a file of another setup is begun anew.
    """

    def __init__(self, path: Path | None, setup: Any) -> None:
        self._file = None if path is None else JsonLines(path)
        self._known: dict[str, Outcome] = {}
        self._began, self._before = time.monotonic(), 0.0
        if path is None or self._file is None:
            return
        if path.exists() and not f"{path.read_text('utf-8')}{_BEGINS}".startswith(_BEGINS):
            raise ArgumentError("journal", "be a file of a plan, or none yet", str(path), then=", which is another one")
        head: Line = {"plan": hashlib.sha256(repr(setup).encode()).hexdigest()}
        lines = self._file.lines()
        if lines and lines[0] == head:
            self._known = {line["job"]: _outcome(line) for line in lines[1:]}
            self._before = max((line.get("at", 0.0) for line in lines[1:]), default=0.0)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", "utf-8")
        self._file.add(head)

    def __len__(self) -> int:
        """How many pilots had ended before."""
        return len(self._known)

    @property
    def seconds(self) -> float:
        """Since the plan began, without the time for which it was stopped."""
        return self._before + time.monotonic() - self._began

    def known(self, job: Job) -> Outcome | None:
        """How this very pilot went, where it has ended."""
        return self._known.get(_key(job))

    def add(self, job: Job, outcome: Outcome) -> None:
        """Note a pilot that has ended, at once."""
        if self._file is not None:
            scores = [[share, score.aside, score.seen, score.guide] for share, score in outcome.scores.items()]
            self._file.add({"job": _key(job), "at": self.seconds, "seconds": outcome.seconds, "scores": scores})


def _outcome(found: Line) -> Outcome:
    scores = {share: Score(aside=aside, seen=seen, guide=guide) for share, aside, seen, guide in found["scores"]}
    return Outcome(scores=scores, seconds=found["seconds"])


def _key(job: Job) -> str:
    return hashlib.sha256(repr(dataclasses.astuple(job)).encode()).hexdigest()


Run = Callable[[Sequence[Job]], Iterator[tuple[int, Outcome]]]
_held: list[Problem] = []
"""In a process of the pool: what it was forked with."""


@contextlib.contextmanager
def runner(problem: Problem, executor: Executor | None) -> Iterator[Run]:
    """What runs pilots and gives their places and scores as they end.

    Without an executor there is a process for each core where processes can be forked and the network is on the CPU, and none
    otherwise: forked processes take the network over as it is, also one that cannot be pickled.
    """
    if executor is not None:
        yield lambda jobs: _ended({executor.submit(pilot, problem, job): i for i, job in enumerate(jobs)})
    elif _may_fork(problem) and (pool := _forked(problem)) is not None:
        with pool:
            yield lambda jobs: _ended({pool.submit(_held_pilot, job): i for i, job in enumerate(jobs)})
    else:
        yield lambda jobs: ((i, pilot(problem, job)) for i, job in enumerate(jobs))


def _forked(problem: Problem) -> ProcessPoolExecutor | None:
    """A process for each core, which all have begun to compute; None where some never do.

    A lock that a thread holds when the process is forked stays closed in the new one for good. MKL has one of its memory, so that
    the first matrix product may never end; also of a thread that is just ending.
    """
    context = multiprocessing.get_context("fork")
    for _ in range(_TRIES):
        begun, given_up = context.Semaphore(0), context.Event()
        pool = ProcessPoolExecutor(cores(), context, _hold, (problem, os.getpid(), begun, given_up))
        try:
            pool.submit(os.getpid)  # all of them are forked here
            if all(begun.acquire(timeout=_BEGIN_SECONDS) for _ in range(cores())):
                return pool
        except BaseException:  # or the interpreter would wait for a process that hangs
            given_up.set()
            pool.shutdown(wait=False)
            raise
        given_up.set()
        pool.shutdown()
    _log.warning("pilots run one by one: no processes could be forked beside the threads that compute in this one")
    return None


def workers(problem: Problem, executor: Executor | None) -> int:
    """Pilots that run at the same time."""
    if executor is not None:
        return getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    return cores() if _may_fork(problem) else 1


def _ended(futures: Mapping[Future[Outcome], int]) -> Iterator[tuple[int, Outcome]]:
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def _may_fork(problem: Problem) -> bool:
    on_cpu = problem.features.device.type == "cpu" and not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]

    return on_cpu and sys.platform == "linux" and cores() > 1


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _hold(problem: Problem, parent: int, begun: Semaphore, given_up: Event) -> None:
    threading.Thread(target=_end_with, args=(parent, given_up), daemon=True).start()
    torch.set_num_threads(1)
    _held.append(problem)
    first_steps()
    begun.release()


def first_steps() -> None:
    """What hangs in a process that was forked while a thread held the lock of memory, of a generator or of kernels."""
    torch.ones(200, 200, dtype=torch.float64).mm(torch.ones(200, 200, dtype=torch.float64))
    torch.rand(1)
    np.random.rand()  # noqa: NPY002
    images, kernel = torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3, requires_grad=True)
    torch.nn.functional.conv2d(images, kernel).sum().backward()  # type: ignore[no-untyped-call]


def _end_with(parent: int, given_up: Event) -> None:
    """End this process once its parent has: one that was killed tells its pool nothing, and a pilot would go on for minutes."""
    while os.getppid() == parent and not given_up.is_set():
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def _held_pilot(job: Job) -> Outcome:
    return pilot(_held[-1], job)
