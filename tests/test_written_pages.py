"""Pages of numbers that a script writes say what was measured, or what the code does today."""

import difflib
import itertools
import json
import math
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest

from dptheory.privacy import epsilon_bounds, least_noise_multiplier
from dptheory.privacy.referee import draw
from dptheory.training.benchmarks._arms import DP_SGD, GHOST, PLAIN
from dptheory.training.benchmarks._independent import LAWS, _deltas, settings
from dptheory.training.benchmarks._networks import EVERYTHING, FEW, LORA, MANY, SEVERAL
from tests import opacus_page, practice_costs, speed_page
from tests.said import page, says


def _unchanged(path: Path, *written: str) -> None:
    before, now = path.read_text(encoding="utf-8"), page(path, *written)
    assert list(difflib.unified_diff(before.splitlines(), now.splitlines(), path.name, "now", n=0)) == []


def test_the_page_on_opacus_is_what_the_code_does() -> None:
    """``python -m tests.opacus_page`` writes it anew."""
    _unchanged(opacus_page.PAGE, opacus_page.written())


@pytest.mark.architectures
@pytest.mark.filterwarnings("ignore")
def test_the_page_on_practice_is_what_the_code_does() -> None:
    """``python -m tests.practice_page`` writes it anew."""
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    from tests import practice_page

    here = practice_page.versions()
    if f"Made with {here}," not in practice_page.PAGE.read_text(encoding="utf-8"):
        pytest.skip(f"the page is of other versions, here are {here}")
    _unchanged(practice_page.PAGE, *practice_page.written())


def test_speed_is_what_was_measured() -> None:
    both = (json.loads(path.read_text(encoding="utf-8")) for path in (speed_page.RESULTS, speed_page.CUDA))
    now = page(speed_page.PAGE, speed_page.written(*both))
    assert speed_page.PAGE.read_text(encoding="utf-8") == now, "python -m tests.speed_page writes it anew"


@pytest.mark.parametrize(("seconds", "reached"), [(5.0, ["yes", "yes"]), (6.0, ["**no**", "**no**"])])
def test_a_goal_is_judged_by_medians(seconds: float, reached: list[str]) -> None:
    """Plain 2 s, ghost 7 s: the goals are 2.5 times the one and .8 times the other, 5 s and 5.6 s."""
    medians = {PLAIN: 2.0, DP_SGD: seconds, GHOST: 7.0}
    times = {
        arm: dict.fromkeys(("least", "processor_median"), 1.0) | {"median": t, "rounds": 3}
        for arm, t in medians.items()
    }
    part = {"batch": 8, "parameters": 9, "times": times, "skipped": {}}
    part["skipped"] = dict.fromkeys(
        ("masks at .5", "lower half frozen", "GEP, 20 directions", "DP-SGD, secure noise"), "no"
    )
    part["skipped"] |= dict.fromkeys(("DP-SGD, hooks", "Opacus hooks", "JAX-Privacy"), "not installed")
    head = {"machine": "m", "cores": 2, "threads": 1, "versions": {"torch": "1"}}
    lines = speed_page.written(head | {"parts": {"step/linear": part}}).splitlines()
    goals = [line for line in lines if line.startswith("| linear: DP-SGD /")]
    assert [line.split(" | ")[-1].removesuffix(" |") for line in goals] == reached
    assert goals[0].split(" | ")[1:5] == ["2.5", f"{seconds / 2:.2f}", "1.00", "1.00"]
    assert [line for line in lines if line.startswith("| JAX-Privacy | not installed |")]


def test_costs_are_what_was_measured() -> None:
    results = json.loads(practice_costs.RESULTS.read_text(encoding="utf-8"))
    assert practice_costs.PAGE.read_text(encoding="utf-8") == page(
        practice_costs.PAGE, practice_costs.written(results)
    ), "python -m tests.practice_costs writes it"
    practice = (practice_costs.PROOFS / "practice.md").read_text(encoding="utf-8")
    assert [row for row in practice_costs.goals(results) if f"| {' | '.join(row)} |" not in practice] == [], (
        "python -m tests.practice_page writes it"
    )


def measured(private: float, view: float) -> dict[str, Any]:
    """Plain 2 s, ghost 7 s; 32 images take 1, as many further ones as there are further views 100 more."""
    steps = {
        "times": {
            PLAIN: {practice_costs.TIME: 2.0},
            DP_SGD: {practice_costs.TIME: private},
            GHOST: {practice_costs.TIME: 7.0},
        }
    }
    views = {FEW: 1.0, SEVERAL: 1.0 + 100 * view, MANY: 101.0}
    parts: dict[str, Any] = {f"time/{LORA}": steps, f"time/{EVERYTHING}": steps}
    parts["time/views"] = {"times": {name: {practice_costs.TIME: seconds} for name, seconds in views.items()}}
    return {"parts": parts | {f"memory/{DP_SGD}/{name}": {"mebibytes": peak} for name, peak in views.items()}}


@pytest.mark.parametrize(
    ("private", "view", "reached"),
    [(3.6, 1.05, ["yes"] * 5), (6.0, 1.06, ["**no**", "yes", "yes", "**no**", "**no**"]), (7.1, 0.9, ["**no**"] * 3 + ["yes"] * 2)],
)  # fmt: skip
def test_a_goal_of_costs_is_judged_by_processor_time(private: float, view: float, reached: list[str]) -> None:
    rows = list(practice_costs.goals(measured(private, view)))
    assert [row[3] for row in rows] == reached
    assert [row[2] for row in rows] == [f"{one:.2f}" for one in (private / 2, private / 2, private / 7, view, view)]


def test_nothing_is_said_of_costs_was_not_measured() -> None:
    assert list(practice_costs.goals({"parts": {}})) == []


# --- accountants: what the committed answers say ---


FOLDER = Path(__file__).parents[1] / "proofs" / "results"
ACCOUNTANTS = (FOLDER / "accountants.md").read_text(encoding="utf-8")


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


TIMES = rows("accountant_times.jsonl")
COMPARED = [one for one in rows("accountants.jsonl") if "tool" in one]
ALARMS = [one for one in rows("accountants.jsonl") if "tool" not in one]
INDEPENDENT = rows("independent.jsonl")


def test_the_settings_of_accountants_are_those_of_the_law() -> None:
    assert [one["setting"] for one in TIMES] == [asdict(setting) for setting in draw(count=1000, seed=11)]
    drawn = [asdict(setting) for setting in draw(count=10_000, seed=5)]
    assert [one["setting"] for one in ALARMS] == [drawn[one["number"]] for one in ALARMS]


def test_the_times_of_accountants() -> None:
    seconds = [one["answers"][0]["seconds"] for one in TIMES]
    widths = [(one["upper"] - one["lower"]) / one["upper"] if one["upper"] else 0.0 for one in TIMES]
    assert all(math.isfinite(one["upper"]) for one in TIMES)
    row = (
        f"| {len(TIMES)} | {median(seconds):.3f} | {quantiles(seconds, n=100)[-1]:.2f} | {max(seconds):.1f} "
        f"| {sum(one > 5.0 for one in seconds)} | {sum(one > 1e-9 for one in widths)} | {sum(one > 1e-4 for one in widths)} "
        f"| {sum(one > 1e-3 for one in widths)} |"
    )
    assert row in ACCOUNTANTS, row


def test_no_bound_missed_an_independent_value() -> None:
    """``python -m dptheory.training.benchmarks independent``: settings of each law in turns."""
    for number, law in enumerate(LAWS):
        found = [one for one in INDEPENDENT if one["law"] == law]
        drawn = itertools.islice(settings(law, 1000, 11 + number), len(found))
        assert [one["setting"] for one in found] == list(drawn)
        told = [sum(one["finding"] == name for one in found) for name in ("inside", "missed", "undecided")]
        assert told == [1000, 0, 0]
        seconds = [one["seconds"] for one in found]
        widths = [(one["upper"] - one["lower"]) / one["upper"] if one["upper"] else 0.0 for one in found]
        row = (
            f"| {law} | {len(found)} | {told[0]} | {told[1]} | {told[2]} "
            f"| {median(one['error'] or math.inf for one in found):.0e} | {median(seconds):.3f} | {max(seconds):.2f} "
            f"| {median(widths):.0e} | {max(widths):.0e} |"
        )
        assert row in ACCOUNTANTS, row


def test_what_was_found_of_accountants() -> None:
    """And nothing that promises a bound lies below ours but what is listed as an alarm."""
    ours = COMPARED[0]
    counts = len(ours["off"]), sum(seconds > 5.0 for seconds in ours["seconds"]), 5, ours["off"].count(None)
    assert ours["tool"] == "dptheory" and says(ACCOUNTANTS, *counts)
    for one in COMPARED:
        offs = [off for off in one["off"] if off is not None]
        row = (
            f"| {one['tool']} | {len(one['off'])} | {len(one['off']) - len(offs)} | {sum(off < -1e-9 for off in offs)} "
            f"| {min(offs):.1e} | {median(offs):.1e} | {median(one['seconds']):.3f} |"
        )
        assert row in ACCOUNTANTS, row
        if one["tool"] != "Opacus GDP":
            below = [number for number, off in enumerate(one["off"]) if off is not None and off < -1e-9]
            assert below == [alarm["number"] for alarm in ALARMS if alarm["answers"][0]["tool"] == one["tool"]]


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda one: f"{one['answers'][0]['tool']} {one['number']}")
def test_no_alarm_is_false(alarm: dict[str, Any]) -> None:
    """delta at what the tool promises, by the code that shares nothing with our bounds, is above the setting's."""
    setting, [answer] = alarm["setting"], alarm["answers"]
    above, _, error = _deltas("poisson", setting, (answer["upper"], answer["upper"]))
    assert answer["finding"] == "too small" and answer["upper"] < alarm["lower"] and above > 1 + error
    where = " | ".join(f"{value:.6g}" for value in setting.values())
    row = f"| {answer['tool']} | {where} | {answer['upper']:.6g} | {alarm['lower']:.6g} | {above:.1e} |"
    assert row in ACCOUNTANTS, row


CORE = rows("accountants_core.jsonl")


def test_accountants_over_the_core() -> None:
    """Of the settings drawn, those with an epsilon in (0, 1000]; a row per tool; ours within 1e-10, and faster than PLD."""
    drawn = [asdict(setting) for setting in draw(count=63, seed=0, law="core")]
    places = [drawn.index(one["setting"]) for one in CORE]
    assert places == sorted(places) and len(CORE) == 50
    spent = [epsilon_bounds(**setting).upper for place, setting in enumerate(drawn) if place not in places]
    assert all(not 0.0 < one <= 1000.0 for one in spent)
    page = (FOLDER.parent / "privacy" / "saddle_line.md").read_text(encoding="utf-8")
    told: dict[str, tuple[float, float, float]] = {}
    for place, first in enumerate(CORE[0]["answers"]):
        answers = [one["answers"][place] for one in CORE]
        given = [(one, answer) for one, answer in zip(CORE, answers, strict=True) if answer["upper"] is not None]
        truths = [(one["lower"] + one["upper"]) / 2 for one, _ in given]
        excess = [(answer["upper"] - truth) / max(1.0, truth) for (_, answer), truth in zip(given, truths, strict=True)]
        seconds = [answer["seconds"] for _, answer in given]
        ours = [one["answers"][0]["seconds"] for one, _ in given]
        faster = median(mine / theirs if theirs else math.inf for mine, theirs in zip(ours, seconds, strict=True))
        row = (
            f"| {first['tool']} | {len(given)} | {len(answers) - len(given)} | {sum(one < -1e-9 for one in excess)} "
            f"| {median(seconds):.3f} | {faster:.2g} | {median(excess):.0e} | {max(excess):.0e} |"
        )
        assert row in page, row
        told[first["tool"]] = median(seconds), median(excess), max(excess)
    ours, pld = told["dptheory"], told["dp-accounting PLD 1e-3"]
    assert ours[2] < 1.1e-10 and ours[0] < pld[0] and 1000 * ours[1] < pld[1]


@pytest.mark.parametrize("one", CORE[:15], ids=lambda one: f"{one['setting']['noise_multiplier']:.3g}")
def test_the_noise_that_spends_a_certified_epsilon_is_found_again(one: dict[str, Any]) -> None:
    asked = one["setting"] | {"epsilon": one["upper"]}
    sigma = asked.pop("noise_multiplier")
    assert 1 - 1e-9 <= least_noise_multiplier(**asked) / sigma <= 1 + 1e-6


def test_the_bounds_are_still_those() -> None:
    """Of the first settings, which take a second together."""
    for one in TIMES[:20]:
        found = epsilon_bounds(**one["setting"])
        assert found.lower <= one["upper"] * (1 + 1e-12) and one["lower"] * (1 - 1e-12) <= found.upper
