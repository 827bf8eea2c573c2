"""What runs while checks do: processes to spread them over, and a progress bar."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dptheory import claims
from dptheory._progress import ProgressLines
from dptheory.cli._cluster import cluster


class Bar(claims.Watcher):
    """A progress bar on a terminal, gone when the checks are done; elsewhere lines."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("checks", total=None)
        self._lines = ProgressLines()
        self._done = self._all = 0

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def started(self, claims: Sequence[claims.Claim]) -> None:
        self._all = sum(len(claim.checks) for claim in claims)
        self._progress.update(self._task, total=self._all)

    def checking(self, claim: claims.Claim) -> None:
        self._progress.update(self._task, description=claim.id)

    def checked(self, one: claims.CheckedClaim) -> None:
        self._done += len(one.claim.checks)
        self._progress.update(self._task, completed=self._done)
        self._lines.look(lambda: f"{self._done} of {self._all} checks done")


@contextmanager
def executor_of(workers: int, scheduler: str | None) -> Iterator[Executor | None]:
    if scheduler is not None:
        with cluster(scheduler) as executor:
            yield executor
        return
    if workers == 1:
        yield None
        return
    # Being terminated has to end the workers too.
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        # "spawn": workers start clean on every system, whatever threads this process holds.
        with ProcessPoolExecutor(min(workers, os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
            yield pool
    finally:
        signal.signal(signal.SIGTERM, before)
