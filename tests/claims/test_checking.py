"""Checks of several claims in one call: which run, what the report says of them, who is told."""

from collections.abc import Sequence

import pytest

from dptheory import claims
from dptheory.checks import Evidence, Kind
from dptheory.claims import CheckedClaim, CheckReport, Claim


def _evidence(passed: bool, detectable: float | None, name: str = "x") -> Evidence:
    return Evidence(name, Kind.EXACT, passed, 1.0, 1.0, None, detectable, 1, 0.0, 3, "")


def _found(claim: Claim, budget: float, seed: int, executor: None) -> tuple[Evidence, ...]:
    """In place of the checks, which run in ``test_claims``."""
    return tuple(
        Evidence(c.name, c.kind, True, budget, 1.0, None, None, i, 0.0, seed, claim.id)
        for i, c in enumerate(claim.checks)
    )


class _Notes(claims.Watcher):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def started(self, claims: Sequence[Claim]) -> None:
        self.seen.append("started " + " ".join(one.id for one in claims))

    def checking(self, claim: Claim) -> None:
        self.seen.append(f"checking {claim.id}")

    def checked(self, one: CheckedClaim) -> None:
        self.seen.append(f"checked {one.claim.id}: {len(one.evidence)}")


def test_outcomes_are_those_of_the_claims_in_the_order_of_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claim, "check", _found)
    notes = _Notes()
    report = claims.check_claims(["gip.table1", "gip.eq18", "gip.order"], budget=60.0, seed=3, watcher=notes)
    ids = [claim.id for claim in claims.select(["gip.table1", "gip.eq18", "gip.order"])]
    assert [one.claim.id for one in report.checked] == ids
    assert report.seed == 3 and report.passed and report.failed == () and report.unchecked == ("gip.table1",)
    for one in report.checked:
        assert one.evidence == _found(one.claim, 60.0, 3, None)
    assert report.rows == tuple((one.claim.id, e) for one in report.checked for e in one.evidence)
    counts = {one.claim.id: len(one.evidence) for one in report.checked}
    steps = [step for id in ids for step in (f"checking {id}", f"checked {id}: {counts[id]}")]
    assert notes.seen == ["started " + " ".join(ids), *steps]


def test_a_report_names_what_failed_and_what_sees_least() -> None:
    first, second = claims.get("gip.eq18"), claims.get("gip.order")
    bad, fine = _evidence(False, 0.01), _evidence(True, 0.02, "y")
    report = CheckReport(
        seed=0,
        checked=(
            CheckedClaim(claim=first, evidence=(_evidence(True, None), bad)),
            CheckedClaim(claim=second, evidence=(fine,)),
        ),
    )
    assert report.failed == (("gip.eq18", bad),) and not report.passed and report.unchecked == ()
    assert report.coarsest == ("gip.order", fine)
    assert CheckReport(seed=0, checked=()).coarsest is None and CheckReport(seed=0, checked=()).passed


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"budget": 0.0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"budget": None}, "budget"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
        ({"patterns": "gip.eq18"}, "patterns must be"),
        ({"patterns": [3]}, "patterns must"),
        ({"patterns": None}, "patterns must be"),
        ({"executor": 3}, "executor must be"),
        ({"watcher": print}, "watcher must be"),
    ],
)
def test_arguments_are_judged_before_anything_runs(
    wrong: dict[str, object], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Claim, "check", lambda *_: pytest.fail("a check ran"))
    with pytest.raises(ValueError, match=says):
        claims.check_claims(**({"patterns": ["gip.eq18"]} | wrong))  # type: ignore[arg-type]
