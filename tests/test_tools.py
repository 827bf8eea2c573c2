"""The tools of the tests: comparing evidence, a test of many things."""

import copy
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dptheory import claims
from dptheory.checks import Evidence
from dptheory.cli import _tables
from tests.compare_evidence import IGNORED, differences, main
from tests.every import every

# --- The comparer of evidence sees every field but the time ---


Rows = list[dict[str, Any]]


def _run() -> Rows:
    checks = claims.get("gip.order").check(60.0, seed=0)
    found: Rows = json.loads(json.dumps(_tables.evidence_json([("gip.order", one) for one in checks])))
    return found


@pytest.fixture(scope="module")
def rows() -> Rows:
    return _run()


def test_nothing_differs_between_two_runs(rows: Rows) -> None:
    assert differences(rows, _run()) == []


@pytest.mark.parametrize("field", [f.name for f in fields(Evidence) if f.name not in IGNORED])
def test_a_change_of_one_field_is_told(rows: Rows, field: str) -> None:
    changed = copy.deepcopy(rows)
    changed[1][field] = "another"
    assert any("another" in line for line in differences(rows, changed))


def test_time_does_not_count_but_order_and_absence_do(rows: Rows) -> None:
    slower = copy.deepcopy(rows)
    slower[0]["seconds"] += 1
    assert differences(rows, slower) == []
    assert differences(rows, rows[::-1]) == ["gip.order: the checks stand in another order"]
    assert differences(rows, rows[1:]) == [f"gip.order: check {rows[0]['check']!r} is gone"]
    assert differences(rows[1:], rows) == [f"gip.order: check {rows[0]['check']!r} is new"]


def test_the_command(rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(rows))
    after.write_text(json.dumps([*rows, {**rows[0], "claim": "gip.norm"}]))
    assert main([str(before), str(before)]) == 0
    assert f"{len(rows)} checks of 1 claims agree" in capsys.readouterr().out
    assert main([str(before), str(after)]) == 1
    assert main([str(before), str(after), "gip.o*"]) == 0
    assert main([str(before), str(after), "lf.*"]) == 2


# --- A test of many things fails where one of them does, and names it ---


@every((1, 3, 5))
def test_all_are_odd(number: int) -> None:
    assert number % 2 == 1


def test_those_that_fail_are_named() -> None:
    @every((1, 2, 3, 4))
    def odd(number: int) -> None:
        assert number % 2 == 1, f"{number} is even"

    with pytest.raises(pytest.fail.Exception) as caught:
        odd()
    lines = str(caught.value).splitlines()
    assert [line for line in lines if "is even" in line] == ["2: 2 is even", "4: 4 is even"]
    assert lines[0] == "fails for 2 of 4"


def test_without_things_nothing_is_shown() -> None:
    @every(())
    def anything(thing: object) -> None:
        pass

    with pytest.raises(pytest.fail.Exception, match="0 of 0"):
        anything()


def test_an_error_is_not_a_failure() -> None:
    @every((0,))
    def divides(number: int) -> None:
        assert 1 / number

    with pytest.raises(ZeroDivisionError):
        divides()
