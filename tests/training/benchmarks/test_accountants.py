"""The accountants' benchmark: settings with a certified value, tools that answer what they are asked, and honest counting."""

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dptheory.training.benchmarks import _accountants
from dptheory.training.benchmarks.__main__ import app
from dptheory.training.benchmarks._accountants import (
    TOOLS,
    Answer,
    Certified,
    Outcome,
    Setting,
    Worker,
    draw,
    excess,
    summaries,
)
from tests.said import says

pytestmark = pytest.mark.filterwarnings("ignore:Optimal order")

pytest.importorskip("flint")


EASY = Certified(  # epsilon is that of another program, in balls of 96 bits
    setting=Setting(noise_multiplier=1.0, sampling_rate=0.02, steps=1000, delta=1e-5),
    lower=3.899087994199775,
    upper=3.899087994200032,
)


def answer(upper: float | None, quantity: str = "epsilon", seconds: float = 1.0, tool: str = "a") -> Answer:
    return Answer(number=0, tool=tool, quantity=quantity, lower=None, upper=upper, seconds=seconds, refused="")  # type: ignore[arg-type]


def test_settings_are_drawn_over_the_core_and_certified() -> None:
    first, again = next(draw(1, 3)), list(draw(1, 3))
    assert [first] == again
    one = first
    assert 0.4 <= one.setting.noise_multiplier <= 20 and 1e-4 <= one.setting.sampling_rate <= 1
    assert 100 <= one.setting.steps <= 1e6 and 1e-15 <= one.setting.delta <= 0.1
    assert 0 < one.lower < one.upper <= 1000 and one.upper - one.lower < 1e-9 * one.upper


def test_every_tool_knows_the_easy_setting() -> None:
    found = {name: tool.epsilon(setting=EASY.setting) for name, tool in TOOLS.items()}
    assert {name for name, (_, upper) in found.items() if not EASY.lower - 1e-9 <= upper < 1.15 * EASY.upper} == set()
    assert {name for name, (lower, _) in found.items() if lower is not None} == {"dptheory", "prv-accountant"}
    assert all(lower is None or lower <= EASY.upper for lower, _ in found.values())


def noise_is_wrong(names: list[str]) -> dict[str, float]:
    found = {
        name: ask(setting=EASY.setting, epsilon=EASY.upper)[1]
        for name in names
        if (ask := TOOLS[name].noise_multiplier) is not None
    }
    return {name: sigma for name, sigma in found.items() if not 1 - 1e-9 <= sigma < 1.15}


def test_noise_for_the_easy_setting() -> None:
    assert noise_is_wrong(["dptheory", "Opacus RDP"]) == {}


@pytest.mark.slow
def test_noise_for_the_easy_setting_by_tools_that_take_longer() -> None:
    assert noise_is_wrong(list(TOOLS)) == {}


def test_our_renyi_epsilon_is_never_above_opacus() -> None:
    rng, above = np.random.default_rng(5), []
    for _ in range(12):
        setting = Setting(
            noise_multiplier=float(np.exp(rng.uniform(math.log(0.4), math.log(20)))),
            sampling_rate=float(10 ** rng.uniform(-4, 0)),
            steps=round(10 ** rng.uniform(2, 6)),
            delta=float(10 ** rng.uniform(-15, -1)),
        )
        ours, theirs = (TOOLS[name].epsilon(setting=setting)[1] for name in ("dptheory RDP", "Opacus RDP"))
        if not ours <= max(theirs, 0.0) * (1 + 1e-9):
            above.append((setting, ours, theirs))
    assert above == []


def test_distance_from_the_truth() -> None:
    assert excess(answer(EASY.upper * 1.5), [EASY]) == pytest.approx(0.5, rel=1e-9)
    small = Certified(setting=EASY.setting, lower=0.1, upper=0.1)
    assert excess(answer(0.3), [small]) == pytest.approx(0.2)  # absolute below 1
    assert excess(answer(1.25, "noise_multiplier"), [EASY]) == 0.25
    assert math.isnan(excess(answer(None), [EASY]))


def test_refusals_and_answers_below_the_truth_are_counted() -> None:
    uppers = (EASY.upper * 1.1, EASY.upper * 1.3, EASY.lower * 0.99, None)
    found = summaries([answer(upper, seconds=k) for k, upper in enumerate(uppers)] + [answer(1.0, tool="b")], [EASY])
    assert [(one.tool, one.answered, one.refused, one.below) for one in found] == [("a", 3, 1, 1), ("b", 1, 0, 1)]
    assert found[0].seconds == 1.0
    assert found[0].excess == pytest.approx(0.1, rel=1e-6) and found[0].worst == pytest.approx(0.3, rel=1e-6)


class Here:
    """A worker without a process."""

    def __init__(self, warm_up: Callable[[], None]) -> None:
        warm_up()

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""

    def call(self, function: Callable[..., object], arguments: dict[str, object], limit: float) -> Outcome:
        return Outcome(function(**arguments), limit / 2)


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two settings and two tools."""
    monkeypatch.setattr(_accountants, "Worker", Here)
    monkeypatch.setattr(_accountants, "TOOLS", {name: TOOLS[name] for name in ("dptheory RDP", "dptheory")})
    monkeypatch.setattr(_accountants, "draw", lambda count, seed, known=(): iter([EASY] * count))
    options = ["--count", "2", "--noise-count", "1", "--limit", "8", "--out", str(tmp_path / "found.json")]
    try:
        done = CliRunner().invoke(app, ["accountants", *options])
    finally:
        logging.disable(logging.NOTSET)
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["seed"] == 0 and found["limit"] == 8 and {"opacus", "python-flint"} <= set(found["versions"])
    assert [one["setting"]["steps"] for one in found["settings"]] == [1000, 1000]
    assert [(one["number"], one["tool"], one["quantity"], one["seconds"]) for one in found["answers"]] == [
        (0, "dptheory RDP", "epsilon", 4.0),
        (0, "dptheory", "epsilon", 4.0),
        (0, "dptheory", "noise_multiplier", 4.0),
        (1, "dptheory RDP", "epsilon", 4.0),
        (1, "dptheory", "epsilon", 4.0),
    ]
    loose, tight, noise, *_ = (one["upper"] for one in found["answers"])
    assert EASY.upper < loose < 1.15 * EASY.upper and EASY.upper < tight < EASY.upper + 1e-9
    assert 1.0 < noise < 1 + 1e-6


def test_a_stopped_run_goes_on_and_other_options_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "found.json"
    monkeypatch.setattr(_accountants, "Worker", Here)

    def run(name: str, *options: str) -> dict[str, list[dict[str, object]]]:
        monkeypatch.setattr(_accountants, "TOOLS", {name: TOOLS["dptheory"]})
        monkeypatch.setattr(_accountants, "_warm_up", lambda name: None)
        try:
            done = CliRunner().invoke(app, ["accountants", "--noise-count", "0", "--out", str(out), *options])
        finally:
            logging.disable(logging.NOTSET)
        assert done.exit_code == 0, done.output
        return json.loads(out.read_text())  # type: ignore[no-any-return]

    run("first", "--count", "2")
    found = run("second", "--count", "3")
    assert [(one["number"], one["tool"]) for one in found["answers"]] == [(0, "first"), (1, "first"), (2, "second")]
    assert [Setting(**one["setting"]) for one in found["settings"]] == [one.setting for one in draw(3, 0)]  # type: ignore[arg-type]
    found = run("third", "--count", "1", "--limit", "7")
    assert [(one["number"], one["tool"]) for one in found["answers"]] == [(0, "third")]


def test_infinity_is_no_answer() -> None:
    class Stub:
        def call(self, *_: object) -> Outcome:
            return Outcome((None, math.inf), 0.1)

    found = _accountants._answer(Stub(), 0, "dptheory", "epsilon", EASY, 1.0)  # type: ignore[arg-type]
    assert (found.upper, found.refused) == (None, "inf")


PROOFS = Path(__file__).parents[3] / "proofs"


def committed() -> tuple[list[Certified], list[Answer]]:
    found = json.loads((PROOFS / "figures" / "accountant_benchmark.json").read_text(encoding="utf-8"))
    settings = [Certified(**{**one, "setting": Setting(**one["setting"])}) for one in found["settings"]]
    return settings, [Answer(**one) for one in found["answers"]]


def times_of(tool: str, quantity: str, answers: list[Answer]) -> float:
    """The median over settings of our time over the tool's."""
    seconds = {
        (one.tool, one.number): one.seconds for one in answers if one.quantity == quantity and one.upper is not None
    }
    return float(np.median([seconds["dptheory", n] / spent for (name, n), spent in seconds.items() if name == tool]))


def test_the_page_says_what_the_committed_benchmark_measured() -> None:
    """A row per tool and question; where it fails, it shows the rows that the page has to have."""
    settings, answers = committed()
    rows = [
        f"| {one.tool} | {one.quantity} | {one.answered} | {one.refused} | {one.below} | {one.seconds:.3f} "
        f"| {times_of(one.tool, one.quantity, answers):.2g} | {one.excess:.0e} | {one.worst:.0e} |"
        for one in summaries(answers, settings)
    ]
    page = (PROOFS / "privacy" / "saddle_line.md").read_text(encoding="utf-8")
    assert [row for row in rows if row not in page] == [], "\n".join(rows)
    assert says(page, len(settings))


def test_what_the_readme_says_of_the_benchmark() -> None:
    settings, answers = committed()
    found = {(one.tool, one.quantity): one for one in summaries(answers, settings)}
    ours, pld = found["dptheory", "epsilon"], found["dp-accounting PLD 1e-3", "epsilon"]
    assert len(settings) == 50 and ours.answered == 50 and ours.below == 0 and ours.worst < 1.1e-10
    assert ours.seconds < pld.seconds and 1000 * ours.excess < pld.excess
    assert found["dptheory", "noise_multiplier"].worst <= 1e-6


# --- Calls in a process of their own: what comes back, what does not in time, and what breaks


def nothing() -> None:
    """A warm-up."""


def double(number: float) -> float:
    return 2 * number


def fail(number: float) -> None:
    raise OverflowError(f"{number} is\ntoo large")


def spin() -> None:
    while True:
        with contextlib.suppress(Exception):
            sum(range(1000))


def hang(seconds: float) -> None:
    time.sleep(seconds)


def die(code: int) -> None:
    os._exit(code)


def test_what_becomes_of_a_call() -> None:
    with Worker(nothing) as worker:
        answer = worker.call(double, {"number": 4.0}, 60.0)
        assert (answer.value, answer.refused) == (8.0, "") and 0 <= answer.seconds < 60
        assert worker.call(fail, {"number": 1.0}, 60.0).refused == "OverflowError: 1.0 is too large"
        assert worker.call(spin, {}, 0.2) == Outcome(None, 0.2, "no answer in 0.2 s")
        assert worker.call(double, {"number": 3.0}, 60.0).value == 6.0
        # what does not listen is ended, and another process answers
        asleep = worker.call(hang, {"seconds": 600.0}, 0.01)
        assert asleep == Outcome(None, 0.01, "no answer in 1 s on the clock")
        assert worker.call(double, {"number": 1.0}, 60.0).value == 2.0
        assert worker.call(die, {"code": 3}, 60.0).refused == "the process died"
        assert worker.call(double, {"number": 2.0}, 60.0).value == 4.0
        process = worker._process
        assert process is not None and process.is_alive()
    assert not process.is_alive()
