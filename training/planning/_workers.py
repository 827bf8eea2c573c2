"""Pilots side by side: in processes of this machine, or wherever an executor of the user's runs them."""

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed

import torch

from dptheory.training.planning._pilot import Job, Outcome, Problem, pilot

Run = Callable[[Sequence[Job]], Iterator[tuple[int, Outcome]]]
_held: list[Problem] = []
"""In a process of the pool: what it was forked with."""


@contextlib.contextmanager
def runner(problem: Problem, executor: Executor | None) -> Iterator[Run]:
    """What runs pilots and gives their places and scores as they end.

    Without an executor there is a process for each core where processes can be forked and the network is on the CPU, and none
    otherwise: forked processes take the network over as it is, also one that cannot be pickled.

    Args:
        problem: the network and its records.
        executor: the user's; the problem is sent along with every pilot.
    """
    if executor is not None:
        yield lambda jobs: _ended({executor.submit(pilot, problem, job): i for i, job in enumerate(jobs)})
    elif _may_fork(problem):
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(workers(problem, executor), context, _hold, (problem,)) as pool:
            yield lambda jobs: _ended({pool.submit(_held_pilot, job): i for i, job in enumerate(jobs)})
    else:
        yield lambda jobs: ((i, pilot(problem, job)) for i, job in enumerate(jobs))


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


def _hold(problem: Problem) -> None:
    torch.set_num_threads(1)
    _held.append(problem)


def _held_pilot(job: Job) -> Outcome:
    return pilot(_held[-1], job)
