"""The pages on fine-tuning and practice say what proofs/figures/practice_benchmark.json holds."""

import json
from typing import Any

import pytest

from dptheory.training.benchmarks._arms import DP_SGD, GHOST, PLAIN
from dptheory.training.benchmarks._networks import EVERYTHING, FEW, LORA, MANY, SEVERAL
from tests.practice_costs import PAGE, PROOFS, RESULTS, TIME, goals, written
from tests.written import page


def test_the_pages_say_what_was_measured() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(PAGE, written(results)), "python -m tests.practice_costs writes it"
    practice = (PROOFS / "practice.md").read_text(encoding="utf-8")
    assert [line for line in goals(results) if line not in practice] == [], "python -m tests.practice_page writes it"


def measured(private: float, view: float) -> dict[str, Any]:
    """Plain 2 s, ghost 7 s; 32 images take 1, as many further ones as there are further views 100 more."""
    steps = {"times": {PLAIN: {TIME: 2.0}, DP_SGD: {TIME: private}, GHOST: {TIME: 7.0}}}
    views = {FEW: 1.0, SEVERAL: 1.0 + 100 * view, MANY: 101.0}
    parts: dict[str, Any] = {f"time/{LORA}": steps, f"time/{EVERYTHING}": steps}
    parts["time/views"] = {"times": {name: {TIME: seconds} for name, seconds in views.items()}}
    return {"parts": parts | {f"memory/{DP_SGD}/{name}": {"mebibytes": peak} for name, peak in views.items()}}


@pytest.mark.parametrize(
    ("private", "view", "reached"),
    [(3.6, 1.05, ["yes"] * 5), (6.0, 1.06, ["**no**", "yes", "yes", "**no**", "**no**"]), (7.1, 0.9, ["**no**"] * 3 + ["yes"] * 2)],
)  # fmt: skip
def test_a_goal_is_judged_by_processor_time(private: float, view: float, reached: list[str]) -> None:
    rows = [line.strip("| ").split(" | ") for line in goals(measured(private, view))]
    assert [row[3] for row in rows] == reached
    assert [row[2] for row in rows] == [f"{one:.2f}" for one in (private / 2, private / 2, private / 7, view, view)]


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert list(goals({"parts": {}})) == []
