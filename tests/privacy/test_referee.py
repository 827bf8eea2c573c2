"""Other people's accountants: known faults are found again, valid ones raise no alarm, and what fails is said to fail."""

import contextlib
import dataclasses
import json
import math
import os
import time
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptheory import privacy
from dptheory.cli import app
from dptheory.privacy import referee
from dptheory.privacy.referee import Answer, Finding, Setting, _compare, _processes, draw
from dptheory.privacy.referee._compare import LAWS, _judged
from dptheory.privacy.referee._processes import Outcome, Worker
from dptheory.privacy.referee._tools import TOOLS, Tool, installed
from tests.calls.judgement import Here
from tests.refused import refused

TINY = Setting(
    noise_multiplier=0.7926014190185479, sampling_rate=0.0007154502129052433, steps=4900, delta=7.273389679246273e-11
)
TINY_EPSILON = 1.76344889
"""Of :data:`TINY`, where rounding decides dp-accounting's distributions: which neighbours are too small differs by processor."""


def test_known_faults_are_found_again() -> None:
    """And an estimate is called one, however far it is off; nothing is said against our own bounds and Opacus's Renyi."""
    neighbours = [dataclasses.replace(TINY, noise_multiplier=TINY.noise_multiplier * (1 + k * 1e-9)) for k in range(20)]
    pld = TOOLS["dp-accounting PLD 1e-4"].epsilon
    setting = next(one for one in neighbours if pld(setting=one)[1] < 0.9999 * TINY_EPSILON)
    tools = ["dptheory", "dp-accounting PLD 1e-4", "Opacus RDP", "Opacus GDP"]
    found = referee.compare(**dataclasses.asdict(setting), tools=tools, limit=120.0)
    assert found.certified and found.lower == pytest.approx(TINY_EPSILON, abs=1e-6)
    fewer = privacy.epsilon_bounds(**dataclasses.asdict(TINY) | {"steps": 4827}, certified=True)
    assert fewer.lower <= 1.7605297702 <= fewer.upper + 1e-9
    ours, below, renyi, central = found.answers
    assert (ours.finding, renyi.finding) == (Finding.VALID, Finding.VALID)
    assert ours.off is not None and renyi.off is not None and 0 <= ours.off < 1e-9 < renyi.off
    assert below.finding == Finding.TOO_SMALL and below.off is not None and below.off < -0.00009
    assert central.finding == Finding.ESTIMATE and central.off is not None and central.off < -0.2


EASY = Setting(noise_multiplier=1.0, sampling_rate=0.02, steps=1000, delta=1e-5)
EASY_ENDS = 3.899087994199775, 3.899087994200032
"""Of its epsilon, by another program, in balls of 96 bits."""


@pytest.mark.filterwarnings("ignore:dp_accounting import:RuntimeWarning")
def test_every_tool_knows_the_easy_setting() -> None:
    low, high = EASY_ENDS
    found = {name: tool.epsilon(setting=EASY) for name, tool in installed().items()}
    estimates = {name: found.pop(name) for name, tool in installed().items() if tool.estimate}
    assert list(estimates) == ["Opacus GDP"] and estimates["Opacus GDP"][1] < 0.95 * low
    assert {name for name, (_, upper) in found.items() if not low - 1e-9 <= upper < 1.15 * high} == set()
    assert {name for name, (lower, _) in found.items() if lower is not None} == {"dptheory", "prv-accountant"}
    assert all(lower is None or lower <= high for lower, _ in found.values())


def test_our_renyi_epsilon_is_never_above_opacus() -> None:
    above = []
    for setting in draw(count=12, seed=5, law="core"):
        ours, theirs = (TOOLS[name].epsilon(setting=setting)[1] for name in ("dptheory RDP", "Opacus RDP"))
        if not ours <= max(theirs, 0.0) * (1 + 1e-9):
            above.append((setting, ours, theirs))
    assert above == []


def answered(upper: float | None, tool: str = "Opacus RDP", lower: float | None = None) -> Answer:
    return Answer(tool=tool, finding=Finding.FAILED, lower=lower, upper=upper, off=None, seconds=0.1, refused="")


@pytest.mark.parametrize(
    ("answer", "finding", "off"),
    [
        (answered(1.0), Finding.TOO_SMALL, -0.5),
        (answered(2.5), Finding.VALID, 0.0),
        (answered(6.0), Finding.VALID, 1.0),
        (answered(2.0 * (1 - 1e-10)), Finding.VALID, -1e-10),  # rounded
        (answered(1.0, "Opacus GDP"), Finding.ESTIMATE, -0.5),
        (answered(4.0, "prv-accountant", lower=3.5), Finding.LOWER_TOO_LARGE, 1.0 / 3.0),
        (answered(None), Finding.FAILED, None),
    ],
)
def test_findings(answer: Answer, finding: Finding, off: float | None) -> None:
    judged = _judged(answer, 2.0, 3.0)
    assert judged.finding == finding
    assert judged.off == (None if off is None else pytest.approx(off, rel=1e-5, abs=0.0))


def test_where_nothing_is_spent_an_upper_bound_is_off_by_itself() -> None:
    below = _judged(answered(-0.87), 0.0, 0.0)  # Opacus's Renyi accountant, where delta covers all
    assert below.finding == Finding.VALID and below.off == 0.0
    assert _judged(answered(0.25), 0.0, 0.0).off == 0.25 and _judged(answered(0.0), 0.0, 0.0).off == 0.0


def sleeping(setting: Setting) -> tuple[None, float]:
    while True:
        time.process_time()


def raising(setting: Setting) -> tuple[None, float]:
    raise ZeroDivisionError("no")


def endless(setting: Setting) -> tuple[None, float]:
    return None, math.inf


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> dict[str, Tool]:
    """Tools that answer in this process; those that fail come first."""
    tools = {
        "raising": Tool(module="dptheory", epsilon=raising),
        "endless": Tool(module="dptheory", epsilon=endless),
        "missing": Tool(module="no_such_accountant", epsilon=endless),
        "halved": Tool(module="dptheory", epsilon=lambda setting: (None, TOOLS["dptheory"].epsilon(setting)[1] / 2)),
        "dptheory": TOOLS["dptheory"],
    }
    monkeypatch.setattr(_compare, "Worker", Here)
    monkeypatch.setattr("dptheory.privacy.referee._tools.TOOLS", tools)
    return tools


def test_what_fails_is_said_to_fail_and_what_is_not_installed_is_not_asked(here: dict[str, Tool]) -> None:
    assert set(installed()) == set(here) - {"missing"}
    setting = {"noise_multiplier": 1.0, "sampling_rate": 0.02, "steps": 1000, "delta": 1e-5}
    found = referee.compare(**setting)  # type: ignore[arg-type]
    assert [(one.tool, one.finding, one.upper is None) for one in found.answers] == [
        ("raising", Finding.FAILED, True),
        ("endless", Finding.FAILED, True),
        ("halved", Finding.TOO_SMALL, False),
        ("dptheory", Finding.VALID, False),
    ]
    assert found.answers[0].refused == "no" and found.answers[1].refused == "inf"
    with refused("tools", "'missing'"):
        referee.compare(**setting, tools=["missing"])  # type: ignore[arg-type]
    with refused("tools", "[]"):
        referee.compare(**setting, tools=[])  # type: ignore[arg-type]
    with refused("tools", "'dptheory'"):
        referee.compare(**setting, tools="dptheory")  # type: ignore[arg-type]
    with refused("limit", "0.0"):
        referee.compare(**setting, limit=0.0)  # type: ignore[arg-type]


def test_a_search_finds_a_tool_that_is_too_small_and_confirms_it(here: dict[str, Tool]) -> None:
    found = list(referee.search(count=3, seed=2, law="core", tools=["halved", "dptheory"]))
    assert [one.setting for one in found] == list(draw(count=3, seed=2, law="core"))
    for one in found:
        halved, ours = one.answers
        assert (
            halved.finding == (Finding.TOO_SMALL if one.lower > 0 else Finding.VALID) and ours.finding == Finding.VALID
        )
    assert any(one.certified for one in found)


def test_the_limit_holds_in_a_process_of_its_own() -> None:
    with Worker(int) as worker:
        outcome = worker.call(sleeping, {"setting": None}, 0.2)
    assert outcome.value is None and "no answer" in outcome.refused


def test_a_process_that_does_not_start_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_processes, "_START", 0.0)
    with Worker(partial(hang, 60.0)) as worker, pytest.raises(TimeoutError):
        worker.call(double, {"number": 1.0}, 60.0)
    assert worker._process is None


@pytest.mark.parametrize("law", sorted(LAWS))
def test_settings_lie_in_their_law_and_reach_its_ends(law: str) -> None:
    settings = [dataclasses.astuple(one) for one in draw(count=400, seed=3, law=law)]
    for values, (low, high) in zip(zip(*settings, strict=True), LAWS[law], strict=True):
        assert low <= min(values) and max(values) <= high
        span = math.log(high / low)
        # the chance that none of 400 is in the outermost fortieth at one end is 4e-5; seeds are fixed
        assert math.log(min(values) / low) < span / 40 and math.log(high / max(values)) < span / 40


def test_the_command_line(here: dict[str, Tool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "found.jsonl"
    run = ["privacy", "compare", "--search", "2", "--law", "core", "--tool", "halved", "--out", str(out)]
    done = CliRunner().invoke(app, run)
    assert done.exit_code == 1, done.output  # something was too small
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 2 and {row["answers"][0]["tool"] for row in rows} == {"halved"}
    whole = out.read_text()
    out.write_text(whole[: whole.index("\n") + 20])  # stopped while it wrote the second
    settings = list(draw(count=2, law="core"))
    monkeypatch.setitem(here, "halved", dataclasses.replace(here["halved"], epsilon=here["endless"].epsilon))
    done = CliRunner().invoke(app, [*run, "--resume"])
    again = [json.loads(line) for line in out.read_text().splitlines()]
    assert again[0] == rows[0] and [one["setting"] for one in again] == [dataclasses.asdict(one) for one in settings]
    assert again[1]["answers"][0]["refused"] == "inf", "the second alone was asked again"
    for other in ([*run, "--resume", "--seed", "1"], ["privacy", "compare", "--search", "2", "--resume"]):
        assert CliRunner().invoke(app, other).exit_code == 2
    out.write_text('{"a": 1}\n')
    assert CliRunner().invoke(app, [*run, "--resume"]).exit_code == 2 and out.read_text() == '{"a": 1}\n'
    setting = ["--noise-multiplier", "1", "--sampling-rate", "0.02", "--steps", "100", "--delta", "1e-5"]
    done = CliRunner().invoke(app, ["privacy", "compare", *setting, "--tool", "dptheory", "--json"])
    assert done.exit_code == 0 and json.loads(done.output)["answers"][0]["finding"] == "valid"
    assert CliRunner().invoke(app, ["privacy", "compare", *setting, "--search", "2"]).exit_code == 2


def test_more_is_asked_for_less_width() -> None:
    """Few rare steps: at the usual width one line serves; ten times less makes others be asked, and both brackets hold."""
    run = {"noise_multiplier": 1.0, "sampling_rate": 1e-4, "steps": 10, "delta": 1e-5, "direction": "remove"}
    usual, close = (privacy.epsilon_bounds(**run, rtol=rtol) for rtol in (1e-4, 1e-5))  # type: ignore[arg-type]
    assert max(usual.lower, close.lower) <= min(usual.upper, close.upper)
    assert usual.upper - usual.lower < 1e-3 * usual.upper
    with refused("rtol", "1.0"):
        privacy.epsilon_bounds(**run, rtol=1.0)  # type: ignore[arg-type]


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
