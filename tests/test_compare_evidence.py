"""The comparer of evidence sees every field but the time."""

import copy
import json
from dataclasses import fields
from pathlib import Path

import pytest

from dptheory import claims
from dptheory.checks import Evidence
from dptheory.cli import _tables
from tests.compare_evidence import IGNORED, differences, main

ROWS = json.loads(
    json.dumps(_tables.evidence_json([("gip.order", one) for one in claims.get("gip.order").check(60.0, seed=0)]))
)


def test_nothing_differs_between_two_runs() -> None:
    again = _tables.evidence_json([("gip.order", one) for one in claims.get("gip.order").check(60.0, seed=0)])
    assert differences(ROWS, json.loads(json.dumps(again))) == []


@pytest.mark.parametrize("field", [f.name for f in fields(Evidence) if f.name not in IGNORED])
def test_a_change_of_one_field_is_told(field: str) -> None:
    changed = copy.deepcopy(ROWS)
    changed[1][field] = "another"
    assert any("another" in line for line in differences(ROWS, changed))


def test_time_does_not_count_but_order_and_absence_do() -> None:
    slower = copy.deepcopy(ROWS)
    slower[0]["seconds"] += 1
    assert differences(ROWS, slower) == []
    assert differences(ROWS, ROWS[::-1]) == ["gip.order: the checks stand in another order"]
    assert differences(ROWS, ROWS[1:]) == [f"gip.order: check {ROWS[0]['check']!r} is gone"]
    assert differences(ROWS[1:], ROWS) == [f"gip.order: check {ROWS[0]['check']!r} is new"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(ROWS))
    after.write_text(json.dumps([*ROWS, {**ROWS[0], "claim": "gip.norm"}]))
    assert main([str(before), str(before)]) == 0
    assert f"{len(ROWS)} checks of 1 claims agree" in capsys.readouterr().out
    assert main([str(before), str(after)]) == 1
    assert main([str(before), str(after), "gip.o*"]) == 0
    assert main([str(before), str(after), "lf.*"]) == 2
