"""A study's runs, spread over processes or a cluster: finished ones are skipped, unfinished ones go on."""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training._machine import taken
from dptheory.training.studies import _plan as plans
from dptheory.training.studies import _processes, _results
from dptheory.training.studies._plan import Plan, PlannedRun
from dptheory.training.studies._processes import Ending, in_fresh_process
from dptheory.training.studies._results import Result
from dptheory.training.studies._study import Study
from dptheory.training.studies._worker import Task

_LOOK_SECONDS = 1.0
RESULTS, STATE = Path("proofs/results"), Path("sweep-state")


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a study's files are. All workers must see both folders.

    Args:
        results: of finished runs, to be kept.
        state: of runs under way.

    Example: results go where they are committed, unless said otherwise.
        >>> from pathlib import Path
        >>> from dptheory.training.studies import Places
        >>> str(Places(state=Path("scratch")).results)
        'proofs/results'
    """

    results: Path = RESULTS
    state: Path = STATE

    def file(self, study: Study) -> Path:
        """The results of a study."""
        return _results.path_of(self.results, study.name)

    def folder(self, study: Study, run: PlannedRun) -> Path:
        """Where a run under way keeps its state."""
        return self.state / study.name / run.name

    def find(self, study: Study) -> plans.Find:
        """Results of the study's runs, as they are now; one of another configuration is none."""
        kept = _results.read(self.file(study))

        def found(run: PlannedRun) -> Result | None:
            result = kept.get(run.name)
            same = result is not None and _results.of_configuration(result, run.config.as_dict())
            return result if same else None

        return found


@dataclass(frozen=True)
class Standing:
    """How far a study is.

    Attributes:
        plan: all its runs, as far as they are decided.
        finished: names of those with a result.
        stale: names of those whose result is of another configuration: they are made again.
        running: names of those that some process has now.
        epochs: that are done, of finished runs and of those under way.
        epochs_in_all: of all runs, those that are not decided yet included.
    """

    plan: Plan
    finished: frozenset[str]
    stale: frozenset[str]
    running: frozenset[str]
    _: KW_ONLY
    epochs: float
    epochs_in_all: float

    @property
    def runs_in_all(self) -> int:
        """Number of runs, those that are not decided yet included."""
        return len(self.plan.runs) + sum(self.plan.waiting.values())


@dataclass
class Outcome:
    """How a sweep ended.

    Attributes:
        standing: at the end.
        failed: names and errors of runs that failed; they are tried again by the next sweep.
    """

    standing: Standing
    _: KW_ONLY
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every run has its result."""
        return len(self.standing.finished) == self.standing.runs_in_all


class Watcher:
    """Told what happens; the default says nothing."""

    def looked(self, standing: Callable[[], Standing]) -> None:
        """Every second or so."""

    def ended(self, run: PlannedRun, ending: Ending, standing: Callable[[], Standing]) -> None:
        """A run has ended, one way or another."""


def standing(study: Study, places: Places) -> Standing:
    """How far a study is.

    Args:
        study: whose runs are counted.
        places: of results and state.

    Returns:
        Runs that are planned, finished, stale and running, and epochs.

    Raises:
        ValueError: a result file that is none.

    Example: a study none of whose runs was made.
        >>> from pathlib import Path
        >>> from dptheory.training.studies import Places, read_study, standing
        >>> places = Places(results=Path("nowhere"), state=Path("nowhere"))
        >>> found = standing(read_study(Path("configs/studies/masking.toml")), places)
        >>> len(found.finished), found.epochs, 0 < found.runs_in_all < found.epochs_in_all
        (0, 0, True)
    """
    find = places.find(study)
    plan = plans.plan(study, find)
    finished = {run.name for run in plan.runs if find(run) is not None}
    rest = [run for run in plan.runs if run.name not in finished]
    return Standing(
        plan=plan,
        finished=frozenset(finished),
        stale=frozenset(run.name for run in rest) & _results.read(places.file(study)).keys(),
        running=frozenset(run.name for run in rest if taken(places.folder(study, run))),
        epochs=sum(run.config.epochs for run in plan.runs if run.name in finished)
        + sum(_processes.epochs_done(places.folder(study, run)) for run in rest),
        epochs_in_all=sum(run.config.epochs for run in plan.runs) + plan.waiting_epochs,
    )


def sweep(
    study: Study,
    *,
    places: Places | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    device: str = "cpu",
    hours: float | None = None,
    allow_dirty: bool = False,
    watcher: Watcher | None = None,
) -> Outcome:
    """Make all runs of a study that have no result yet, each in a process of its own.

    It may be killed at any moment, and called again: a run goes on from its last epoch. Ctrl-C stops after the step under way.

    Args:
        study: what to run.
        places: of results and state; by default ``proofs/results`` and ``sweep-state``.
        workers: runs at a time, 1 to 10000; with an executor, the number that it is given at a time.
        executor: any ``concurrent.futures.Executor``, such as Dask's ``Client.get_executor()``, whose workers see the same
            files;
            each of its workers starts the processes. By default the processes are started here.
        device: "auto", "cpu" or "cuda".
        hours: after which no run is started and those under way are stopped, their state saved, 0 to 1e6; None for no end.
        allow_dirty: make results with code that differs from its commit; they say so.
        watcher: told of what happens.

    Returns:
        How far the study is at the end, and which runs failed.

    Raises:
        ValueError: code that differs from its commit, a study for CUDA on another device, a bad argument.
        KeyboardInterrupt: after the runs under way have saved their state.

    Example: without time no run is started.
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dptheory.training.studies import Places, read_study, sweep
        >>> study = read_study(Path("configs/studies/masking.toml"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     places = Places(results=Path(folder) / "results", state=Path(folder) / "state")
        ...     outcome = sweep(study, places=places, hours=0, allow_dirty=True)
        >>> outcome.complete, len(outcome.standing.finished)
        (False, 0)
    """
    places, watcher = places or Places(), watcher or Watcher()
    _validate.integer("workers", workers, 1, 10_000)
    _validate.choice("device", device, ("auto", "cpu", "cuda"))
    if study.device == "cuda" and device != "cuda":
        raise ArgumentError("device", f"be 'cuda' for study {study.name!r}", device)
    deadline = None if hours is None else time.time() + 3600 * _validate.real("hours", hours, 0.0, 1e6)
    if not allow_dirty:
        _results.refuse_dirty(_results.code_version())
    stop = threading.Event()
    stopping = (stop.is_set,) if executor is None else ()  # what runs here ends with the sweep
    running: AbstractContextManager[Executor] = (
        ThreadPoolExecutor(workers) if executor is None else nullcontext(executor)
    )

    def now() -> Standing:
        return standing(study, places)

    failed: dict[str, str] = {}
    stopped: set[str] = set()
    busy: set[str] = set()
    under_way: dict[Future[Ending], PlannedRun] = {}
    queue = deque(_missing(study, places, set()))
    with running as pool:
        try:
            while under_way or (queue and not _past(deadline)):
                while queue and len(under_way) < workers and not _past(deadline):
                    run = queue.popleft()
                    task = _task(study, places, run, device, allow_dirty)
                    under_way[pool.submit(in_fresh_process, task, deadline, *stopping)] = run
                ended, _ = wait(under_way, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in ended:
                    run, ending = under_way.pop(future), _ending(future)
                    if ending.kind == _processes.FAILED:
                        failed[run.name] = ending.message
                    if ending.kind == _processes.STOPPED:
                        stopped.add(run.name)
                    if ending.kind == _processes.BUSY:
                        busy.add(run.name)
                    watcher.ended(run, ending, now)
                if ended:  # what a phase's results decide is known now; runs that others have come last
                    left = _missing(study, places, {*failed, *stopped, *(run.name for run in under_way.values())})
                    queue = deque(sorted(left, key=lambda run: run.name in busy))
                watcher.looked(now)
        finally:
            for future in under_way:
                future.cancel()
            stop.set()
    return Outcome(now(), failed=failed)


def _ending(future: Future[Ending]) -> Ending:
    """How a run ended; of one whose executor gave it up, as a cluster does when several machines die of it, that it failed."""
    error = future.exception()
    return future.result() if error is None else Ending(_processes.FAILED, f"{type(error).__name__}: {error}")


def _missing(study: Study, places: Places, dealt_with: Collection[str]) -> list[PlannedRun]:
    """Runs to make, of those that are known by now."""
    find = places.find(study)
    known = plans.plan(study, find).runs
    return [run for run in known if run.name not in dealt_with and find(run) is None]


def _past(deadline: float | None) -> bool:
    return deadline is not None and time.time() >= deadline


def _task(study: Study, places: Places, run: PlannedRun, device: str, allow_dirty: bool) -> Task:
    return Task(
        study=study.name,
        phase=run.phase,
        arm=run.arm,
        point=dict(run.point),
        config=run.config.as_dict(),
        device=device,
        folder=str(places.folder(study, run).resolve()),
        result=str(places.file(study).resolve()),
        allow_dirty=allow_dirty,
    )
