"""proofs/results/plan.md and audits.md say what plan.jsonl and audits.jsonl beside them hold."""

from typing import Any

import pytest

from dptheory.training._files import JsonLines
from dptheory.training.audits._power import REPETITIONS
from dptheory.training.planning._evidence import DEFAULT, DEFAULTS, GRID, GRID_SEED, OWN, PLAN
from tests import audit_page
from tests.evidence_page import PAGE, Line, grid_best, read, row, rows, written
from tests.said import page

_POINT = {
    "batch_size": 100,
    "epochs": 2.0,
    "steps": 40,
    "clip_norm": 1.0,
    "learning_rate": 0.5,
    "momentum": 0.0,
    "schedule": "constant",
    "average": 0.0,
    "seconds": 1.5,
}


def _made(*, plan: float, records: int = 1000, setting: str = "tabular") -> list[Line]:
    """A grid of two points with means .70 and .72, defaults of .6, .65 and .71, and a plan."""
    said: dict[str, Any] = {"records": records, "low": 0.5, "high": 0.705, "examples": 8000, "core_seconds": 60.0}
    head = {"setting": setting, **_POINT}
    lines: list[Line] = []
    for place, values in ((1, (0.80, 0.65, 0.65)), (2, (0.70, 0.72, 0.74))):
        for seed, value in enumerate(values):
            kind = GRID_SEED if seed else GRID
            lines.append({**head, "kind": kind, "place": [place, 1, 1, 1], "seed": seed, "accuracy": value})
    for name, value in zip(DEFAULTS, (0.6, 0.65, 0.71), strict=True):
        lines += [{**head, "kind": DEFAULT, "name": name, "seed": seed, "accuracy": value} for seed in range(3)]
    for seed, step in enumerate((-0.01, 0.0, 0.01)):
        lines.append({**head, "kind": PLAN, "public": OWN, "seed": seed, "accuracy": plan + step, "plan": said})
    return lines


def test_the_page_says_what_was_measured() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(PAGE, written(read())), (
        "python -m tests.evidence_page writes it anew"
    )


def test_the_page_of_audits_says_what_was_measured() -> None:
    lines = JsonLines(audit_page.LINES).lines()
    assert audit_page.PAGE.read_text(encoding="utf-8") == page(audit_page.PAGE, audit_page.written(lines)), (
        "python -m tests.audit_page writes it anew"
    )


def test_a_true_claim_is_refused_at_most_as_often_as_stated() -> None:
    """200 repetitions at 95 %: more than 18 refusals have a chance of 1 % where each has one of 5 %."""
    whole = [lines for lines in audit_page.again(JsonLines(audit_page.LINES).lines()) if len(lines) == REPETITIONS]
    assert whole and all(line["claim"] == line["epsilon"] for lines in whole for line in lines)
    assert all(sum(map(audit_page.refused, lines)) <= 18 for lines in whole)


def test_the_best_of_the_grid_is_a_mean_of_three_seeds() -> None:
    """.80 with one seed is no more than .70 with three."""
    assert grid_best(_made(plan=0.7)) == [0.70, 0.72, 0.74]


def test_a_grid_without_its_seeds_has_no_best() -> None:
    assert grid_best([line for line in _made(plan=0.7) if line["seed"] < 2]) is None


def test_regret_and_cost_by_hand() -> None:
    """.72 less .70 is two points, .71 less .70 one; errors .02/sqrt(3) and .01/sqrt(3); 4,000 examples a run; .71 is out of range."""
    found = row(_made(plan=0.70), "tabular", OWN)
    assert found is not None
    assert found.regret == pytest.approx(2.0)
    assert found.below == pytest.approx(1.0)
    assert found.error == pytest.approx(100 * ((0.02**2 + 0.01**2) / 3) ** 0.5)
    assert (found.run_examples, found.inside, found.points) == (4000, 2, 2)


@pytest.mark.parametrize("kind", [DEFAULT, PLAN, GRID_SEED])
def test_a_setting_with_runs_missing_has_no_row(kind: str) -> None:
    lines = [line for line in _made(plan=0.7) if (line["kind"], line["seed"]) != (kind, 1)]
    assert row(lines, "tabular", OWN) is None
    assert "Not measured yet: tabular, " in written(lines)


def test_a_grid_without_a_plan_is_shown() -> None:
    """.72 with seeds two points apart, .02/sqrt(3) of error; and the defaults' one value each."""
    lines = [line for line in _made(plan=0.7) if line["kind"] != PLAN]
    assert "| tabular | 2 | 72.00 ± 1.15 | 60.00 ± 0.00 | 65.00 ± 0.00 | 71.00 ± 0.00 | not yet |" in written(lines)


@pytest.mark.parametrize(
    ("plan", "records", "missed"),
    [(0.712, 1000, False), (0.708, 1000, True), (0.706, 250, False), (0.698, 250, True), (0.704, 250, True)],
)
def test_what_misses_a_goal_is_said_first(plan: float, records: int, missed: bool) -> None:
    """One point of .72 with many records, two with few; and half a point of the best default, .71, with either."""
    lines = written(_made(plan=plan, records=records)).splitlines()
    assert lines[2] == "## What does not reach the goal"
    first = lines[3 : lines.index("## Goals")]
    assert any(line.startswith("- tabular: ") for line in first) == missed


def test_the_worst_is_first() -> None:
    lines = _made(plan=0.72) + _made(plan=0.70, setting="words") + _made(plan=0.71, setting="diamonds")
    assert [one.name for one in rows(lines, OWN)] == ["words", "diamonds", "tabular"]
