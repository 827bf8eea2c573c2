"""What a sweep says while it runs: a bar with the time left on a terminal, a line per run elsewhere."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from dptheory.training.studies import _processes
from dptheory.training.studies._plan import PlannedRun
from dptheory.training.studies._processes import Ending
from dptheory.training.studies._sweep import Standing, Watcher


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
