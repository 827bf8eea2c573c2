"""proofs/speed.md says what proofs/figures/step_benchmark.json holds."""

import json

import pytest

from dptheory.training.benchmarks._arms import DP_SGD, GHOST, PLAIN
from tests.speed_page import PAGE, RESULTS, written
from tests.written import page


def test_the_page_says_what_was_measured() -> None:
    now = page(PAGE, written(json.loads(RESULTS.read_text(encoding="utf-8"))))
    assert PAGE.read_text(encoding="utf-8") == now, "python -m tests.speed_page writes it anew"


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
    lines = written(head | {"parts": {"step/linear": part}}).splitlines()
    goals = [line for line in lines if line.startswith("| linear: DP-SGD /")]
    assert [line.split(" | ")[-1].removesuffix(" |") for line in goals] == reached
    assert goals[0].split(" | ")[1:5] == ["2.5", f"{seconds / 2:.2f}", "1.00", "1.00"]
    assert [line for line in lines if line.startswith("| JAX-Privacy | not installed |")]
