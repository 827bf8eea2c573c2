"""What a sweep says while it runs."""

import io
import time

import pytest
from rich.console import Console

from dptheory.training.studies import Lines, Standing
from dptheory.training.studies import _plan as plans
from dptheory.training.studies._plan import Plan
from dptheory.training.studies._processes import BUSY, DONE, FAILED, STOPPED, Ending
from tests.training.studies.invented import study

RUNS = plans.plan(study(), lambda run: None).runs
LONG = "an error that says [bold]very much[/bold] " * 5


def standing(finished: int, epochs: int, of: int = 224) -> Standing:
    plan = Plan(RUNS[:24], {"final": 6}, 10)
    return Standing(
        plan, frozenset(run.name for run in RUNS[:finished]), frozenset(), frozenset(), epochs=epochs, epochs_in_all=of
    )


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def said(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), width=60, force_terminal=terminal, color_system=None, legacy_windows=False)


def text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def refuse() -> Standing:
    raise AssertionError("nothing is shown, and so nothing is to be looked up")


@pytest.mark.parametrize(
    ("seconds", "epochs", "left"),
    [
        (60, 4, ""),  # none done since the start, with 4
        (60, 5, ", about 3 h 39 min left"),  # one in a minute, 219 to go
        (60, 14, ", about 0 h 21 min left"),
        (30, 104, ", about 0 h 1 min left"),  # 36 s
        (7200, 114, ", about 2 h 00 min left"),
        (60, 223, ", about 0 h 00 min left"),
        (60, 224, ""),
        (60, 3, ""),
    ],
)
def test_the_time_left_is_that_at_the_pace_so_far(seconds: float, epochs: int, left: str) -> None:
    left = left.replace("h 1 min", "h 01 min")
    clock, console = Clock(), said(terminal=False)
    lines = Lines(console, standing(2, 4), clock)
    clock.now += seconds
    lines.ended(RUNS[0], Ending(DONE), lambda: standing(7, epochs))
    assert text(console) == f"[7/30] {RUNS[0].name}: done{left}\n"


def test_a_line_for_every_run_that_ends() -> None:
    clock, console = Clock(), said(terminal=False)
    with Lines(console, standing(0, 0), clock) as lines:
        lines.looked(refuse)
        lines.ended(RUNS[0], Ending(BUSY), refuse)
        clock.now += 60
        lines.ended(RUNS[1], Ending(STOPPED, "unread"), lambda: standing(0, 0))
        lines.ended(RUNS[2], Ending(FAILED, LONG), lambda: standing(1, 112))
    assert text(console).split("\n") == [
        f"[0/30] {RUNS[1].name}: stopped",
        f"[1/30] {RUNS[2].name}: failed: {LONG}, about 0 h 01 min left",
        "",
    ]


def shown(lines: Lines) -> str:
    console = said(terminal=False)
    console.print(lines._progress.get_renderable())
    return text(console)


def test_a_bar_on_a_terminal() -> None:
    clock, console = Clock(), said(terminal=True)
    lines = Lines(console, standing(2, 56), clock)
    assert shown(lines).split()[0] == "sweep" and shown(lines).rstrip().endswith("56/224 epochs")
    with lines:
        clock.now += 60
        lines.looked(lambda: standing(3, 112, 225))
        during = shown(lines)
    assert during.startswith("3/30 runs, about 0 h 02 min left ") and during.rstrip().endswith("112/225 epochs")
    assert "━" in during
    end = text(console)
    assert "\x1b[?25h" in end and end.rstrip("\n").endswith("\x1b[2K")  # the cursor is back, the bar is gone


def test_lines_are_not_coloured() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="standard")
    Lines(console, standing(0, 0)).ended(RUNS[0], Ending(DONE), lambda: standing(1, 0))
    assert text(console) == f"[1/30] {RUNS[0].name}: done\n"


def test_the_usual_clock_is_one_that_is_never_set_back() -> None:
    lines = Lines(said(terminal=False), standing(0, 0))
    assert lines._clock is time.monotonic
