"""What a sweep says while it runs."""

import dataclasses
import io
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy import stats

from dptheory.training.studies import Lines, Places, Standing, _results, show
from dptheory.training.studies import _plan as plans
from dptheory.training.studies._plan import Plan, PlannedRun
from dptheory.training.studies._processes import BUSY, DONE, FAILED, STOPPED, Ending
from dptheory.training.studies._study import Study
from tests.training.studies.invented import MOMENTUM, RATE, changed, find_by, result, study

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


# --- What ``sweep --status`` prints


RATES = {0.5: 0.5, 1.0: 0.7, 2.0: 0.6}


def accuracy(run: PlannedRun) -> float:
    """Masked is best at the largest rate; momentum helps; of the arms twin is the best."""
    if run.phase == "tuning":
        rate = -run.point[RATE] if run.arm == "masked" else RATES[run.point[RATE]]
        return abs(rate) / 4 + 0.1 * run.point[MOMENTUM]
    spread = 0.01 * (run.config.seed % 3)
    if run.name == "final_twin_seed=4":
        return 0.1
    return {"plain": 0.5, "masked": 0.55 + spread, "twin": 0.6 + spread}[run.arm]


def written(folder: Path, wanted: Study, names: Any) -> Places:
    """Results of all runs that ``names`` lets through."""
    places = Places(results=folder / "results", state=folder / "state")
    for run in plans.plan(wanted, find_by(accuracy)).runs:
        if names(run):
            _results.write(places.file(wanted), run.name, dict(result(run, accuracy(run))) | {"seconds": {}})
    return places


def printed(wanted: Study, places: Places) -> str:
    console = Console(file=io.StringIO(), width=240, color_system=None)
    show(wanted, places, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rows(text: str) -> list[list[str]]:
    lines = [line.replace("┃", "│") for line in text.split("\n")]
    return [[cell.strip() for cell in line.strip("│ ").split("│")] for line in lines if "│" in line]


def test_a_study_that_nobody_began(tmp_path: Path) -> None:
    text = printed(study(), Places(results=tmp_path / "results", state=tmp_path / "state"))
    assert text.startswith("invented: Invented\n") and text.rstrip().endswith("0 of 3 comparisons can be made")
    assert rows(text) == [
        ["phase", "runs", "finished", "running", "to be made again"],
        ["tuning", "24", "0", "0", "0"], ["final", "48", "0", "0", "0"], ["again", "16", "0", "0", "0"],
    ]  # fmt: skip
    assert f"0 of {24 * 2 + 48 * 3 + 16 * 2} epochs" in text and "learning_rate" not in text


def test_how_far_it_is(tmp_path: Path) -> None:
    """One run of the tuning is missing, one of another configuration, one under way."""
    wanted = study()
    lacking = "tuning_plain_learning_rate=0.5_momentum=0_seed=100"
    places = written(tmp_path, wanted, lambda run: run.phase == "tuning" and run.name != lacking)
    runs = {run.name: run for run in plans.plan(wanted, lambda run: None).runs}
    stale = runs["tuning_masked_learning_rate=1_momentum=0_seed=101"]
    other = result(dataclasses.replace(stale, config=dataclasses.replace(stale.config, epochs=9)), 0.5)
    _results.write(places.file(wanted), stale.name, dict(other) | {"seconds": {}})
    under_way = places.folder(wanted, runs[lacking])
    (under_way / "run").mkdir(parents=True)
    (under_way / "run" / "metrics.csv").write_text("epoch\n1\n")
    text = printed(wanted, places)
    assert ["tuning", "24", "22", "0", "1"] in rows(text) and f"{2 * 22 + 1} of 224 epochs" in text
    assert "comparisons can be made" in text and "learning_rate" not in text  # neither arm is tuned


def test_what_was_chosen_and_whether_it_lies_at_the_end_of_the_grid(tmp_path: Path) -> None:
    text = printed(study(), written(tmp_path, study(), lambda run: run.phase == "tuning"))
    end = " (at the end of the grid)"
    assert f"final, plain: {RATE} = 1, {MOMENTUM} = 0.5{end}\n" in text
    assert f"final, masked: {RATE} = 2{end}, {MOMENTUM} = 0.5{end}\n" in text
    assert f"final, twin: {RATE} = 1, {MOMENTUM} = 0.5{end} (that of plain)\n" in text
    assert ["again", "16", "0", "0", "0"] in rows(text) and "again, " not in text


def test_the_smallest_value_lies_at_the_end_of_the_grid_too(tmp_path: Path) -> None:
    table = changed("phases/tuning/vary", {RATE: [1.0, 2.0, 4.0], "delta": [1e-6, 1e-5, 1e-4]})
    wanted = study(table)
    places = Places(results=tmp_path / "results", state=tmp_path / "state")
    for run in plans.plan(wanted, lambda run: None).runs:
        if run.phase == "tuning":
            one = result(run, 0.9 if (run.point[RATE], run.point["delta"]) == (1.0, 1e-5) else 0.5)
            _results.write(places.file(wanted), run.name, dict(one) | {"seconds": {}})
    assert f"final, plain: {RATE} = 1 (at the end of the grid), delta = 1e-05\n" in printed(wanted, places)


def test_comparisons(tmp_path: Path) -> None:
    wanted = study()
    places = written(tmp_path, wanted, lambda run: True)
    text = printed(wanted, places)
    assert "3 of 3 comparisons can be made" in text
    heads = ["comparison (points)", "pairs", "last epoch", "sign-flip p", "times comparisons", "best epoch", "diverged"]
    table = rows(text)
    assert table[4] == heads
    difference, equivalence, winner = table[5:]
    ends = stats.ttest_1samp([5 + seed % 3 for seed in range(16)], 0).confidence_interval()
    shown = f"+5.94 [{ends.low:+.2f}, {ends.high:+.2f}]"
    p = 2 / 2**16  # all signs are the same
    assert difference == ["masked - plain (main)", "16", shown, f"{p:.3g}", f"{3 * p:.3g}", shown, "0, 0"]
    assert equivalence[:2] == ["twin - plain", "16"] and equivalence[-1] == "1, 0"
    differences = [-40 if seed == 4 else 10 + seed % 3 for seed in range(16)]
    p = stats.ttest_1samp(differences, 0.5, alternative="less").pvalue
    assert equivalence[2].endswith(f"; not shown to be within 0.5: p = {p:.2g}")
    assert winner[0] == "twin - plain" and winner[1] == "8" and "within" not in winner[2]
    some = printed(wanted, written(tmp_path / "some", wanted, lambda run: run.phase != "again"))
    assert "2 of 3 comparisons can be made" in some and len(rows(some)) == 7


def test_an_equivalence_that_is_shown(tmp_path: Path) -> None:
    wanted = study(changed("comparisons/1/margin", 60.0))
    text = printed(wanted, written(tmp_path, wanted, lambda run: run.phase != "again"))
    assert "; within 60: p = " in text and "not shown" not in text


@pytest.mark.parametrize("width", [40])
def test_lines_are_not_broken(tmp_path: Path, width: int) -> None:
    wanted = dataclasses.replace(study(), title="[red]A long title[/red] " * 5)
    console = Console(file=io.StringIO(), width=width, color_system=None)
    show(wanted, written(tmp_path, study(), lambda run: run.phase == "tuning"), console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().split("\n")
    assert f"invented: {wanted.title}" in lines and "0 of 3 comparisons can be made" in lines
    assert any(line.startswith("final, masked: ") and line.count("grid") == 2 for line in lines)
