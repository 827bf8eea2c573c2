"""Where a call of minutes stands, in lines: of the logger ``dptheory.progress`` at level INFO, which commands show on stderr."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_SECONDS = 30.0
_log = logging.getLogger("dptheory.progress")


class ProgressLines:
    """Lines about one call, the first when something is said, the others at least 30 seconds apart."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def say(self, line: str) -> None:
        """A line at once."""
        self._last = self._clock()
        _log.info("%s", line)

    def look(self, line: Callable[[], str]) -> None:
        """A line if the last one is 30 seconds ago."""
        if self._clock() - self._last >= _SECONDS:
            self.say(line())


@contextmanager
def spoken_bar(seconds: float = _SECONDS) -> Iterator["Progress"]:
    """A bar on stderr, if that is a terminal; and a line at each half minute for each of its tasks that is not done."""
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    ended = threading.Event()

    def speak() -> None:
        while not ended.wait(seconds):
            for task in bar.tasks:
                if not task.finished:
                    known = "under way" if task.total is None else f"{task.completed:,.0f} of {task.total:,.0f} done"
                    _log.info("%s: %s, for %.0f s", task.description, known, task.elapsed or 0.0)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        with bar:
            yield bar
    finally:
        ended.set()
        speaker.join()


@contextmanager
def lines_on_stderr() -> Iterator[None]:
    """Show the lines meanwhile, unless stderr is a terminal, where a bar says the same."""
    if sys.stderr.isatty():
        yield
        return
    shown, before = logging.StreamHandler(sys.stderr), (_log.level, _log.propagate)
    _log.addHandler(shown)
    _log.setLevel(logging.INFO)
    _log.propagate = False  # Opacus gives the root logger a handler, which would say it again
    try:
        yield
    finally:
        _log.removeHandler(shown)
        _log.setLevel(before[0])
        _log.propagate = before[1]
