"""Where a sweep and its study stand: a bar or lines while it runs, and the standing in words."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from dptheory.training.studies import _plan as plans
from dptheory.training.studies import _processes
from dptheory.training.studies._comparisons import ComparisonResult, compare
from dptheory.training.studies._plan import PlannedRun
from dptheory.training.studies._processes import Ending
from dptheory.training.studies._study import Study
from dptheory.training.studies._sweep import Places, Standing, Watcher, standing

# --- A study's standing in words: runs and phases, what was chosen, and the comparisons that can be made by now


def show(study: Study, places: Places, console: Console) -> None:
    """Print how far a study is, and what its results say.

    Args:
        study: whose runs are counted and compared.
        places: of results and state.
        console: where to print.

    Raises:
        ValueError: a result file that is none.

    Example: a study none of whose runs was made.
        >>> import io
        >>> from pathlib import Path
        >>> from rich.console import Console
        >>> from dptheory.training.studies import Places, read_study, show
        >>> study, text = read_study(Path("configs/studies/masking.toml")), io.StringIO()
        >>> show(study, Places(results=Path("nowhere"), state=Path("nowhere")), Console(file=text, width=100))
        >>> text.getvalue().startswith("masking: "), f"0 of {len(study.comparisons)} comparisons" in text.getvalue()
        (True, True)
    """
    now, find = standing(study, places), places.find(study)
    console.print(f"{study.name}: {study.title}", markup=False, soft_wrap=True)
    console.print(_phases(study, now))
    for words in plans.choices_in_words(study, find):
        console.print(words, soft_wrap=True)
    found = [compare(study, comparison, find) for comparison in study.comparisons]
    console.print(f"{sum(a is not None for a in found)} of {len(found)} comparisons can be made")
    if any(found):
        console.print(_comparisons([a for a in found if a is not None]))


def _phases(study: Study, now: Standing) -> Table:
    table = Table("phase", "runs", "finished", "running", "to be made again")
    for phase in study.phases:
        names = {run.name for run in now.plan.runs if run.phase == phase.name}
        count = len(names) + now.plan.waiting.get(phase.name, 0)
        table.add_row(
            phase.name, str(count), *(str(len(names & part)) for part in (now.finished, now.running, now.stale))
        )
    table.caption = f"{now.epochs:.10g} of {now.epochs_in_all:.10g} epochs"
    return table


def _comparisons(results: list[ComparisonResult]) -> Table:
    table = Table(
        "comparison (points)", "pairs", "last epoch", "sign-flip p", "times comparisons", "best epoch", "diverged"
    )
    for found in results:
        last, best, within = found.last, found.best, found.equivalence
        name = f"{found.arm} - {found.against}{' (main)' if found.comparison.main else ''}"
        shown = str(last)
        if within is not None:
            shown += f"; {'' if within.equivalent else 'not shown to be '}within {within.margin:g}: p = {within.p:.2g}"
        table.add_row(
            name,
            str(last.pairs),
            shown,
            f"{last.sign_flip_p:.3g}",
            f"{found.adjusted_p:.3g}",
            str(best),
            f"{found.diverged[0]}, {found.diverged[1]}",
        )
    return table


class Lines(Watcher):
    """A line for every run that ends, and on a terminal a bar of all epochs with the time left.

    Args:
        console: where to write.
        start: how far the study was when the sweep began.
        clock: in seconds.

    Example: a sweep that has no time makes no run, and none fails.
        >>> import io, tempfile
        >>> from pathlib import Path
        >>> from rich.console import Console
        >>> from dptheory.training.studies import Lines, Places, read_study, standing, sweep
        >>> study = read_study(Path("configs/studies/masking.toml"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     places = Places(results=Path(folder) / "results", state=Path(folder) / "state")
        ...     with Lines(Console(file=io.StringIO()), standing(study, places)) as watcher:
        ...         outcome = sweep(study, places=places, hours=0, allow_dirty=True, watcher=watcher)
        >>> outcome.failed
        {}
    """

    def __init__(self, console: Console, start: Standing, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._start, self._clock = console, start, clock
        self._began = clock()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} epochs"))
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._bar = self._progress.add_task("sweep", total=start.epochs_in_all, completed=int(start.epochs))

    def __enter__(self) -> "Lines":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def looked(self, standing: Callable[[], Standing]) -> None:
        if self._console.is_terminal:
            now = standing()
            text = f"{len(now.finished)}/{now.runs_in_all} runs{self._left(now)}"
            self._progress.update(self._bar, completed=now.epochs, total=now.epochs_in_all, description=text)

    def ended(self, run: PlannedRun, ending: Ending, standing: Callable[[], Standing]) -> None:
        if ending.kind == _processes.BUSY:
            return
        now = standing()
        text = f"[{len(now.finished)}/{now.runs_in_all}] {run.name}: {ending.kind}"
        if ending.kind == _processes.FAILED:
            text += f": {ending.message}"
        self._console.print(text + self._left(now), markup=False, highlight=False, soft_wrap=True)

    def _left(self, now: Standing) -> str:
        """The time that is left at the pace of this sweep so far; nothing before the first epoch and after the last."""
        done, left = now.epochs - self._start.epochs, now.epochs_in_all - now.epochs
        if done <= 0 or left <= 0:
            return ""
        minutes = round((self._clock() - self._began) / done * left / 60)
        return f", about {minutes // 60} h {minutes % 60:02} min left"
