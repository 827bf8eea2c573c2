"""What results say of a claim: invented ones in a folder drive every state, and one run less is no answer."""

import dataclasses
import fnmatch
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from dptheory.claims import Answer, _answer
from dptheory.training.studies import _plan as plans
from dptheory.training.studies import _results, _verdicts
from dptheory.training.studies._plan import PlannedRun
from dptheory.training.studies._rules import Asked, Condition, Rule
from dptheory.training.studies._study import Study
from dptheory.training.studies._sweep import Places
from tests.training.studies.invented import Accuracy, find_by, forget, result, study

WANTED = dataclasses.replace(study(), answers=("rs.table2",))
CELL = "CIFAR10, DP-CNN (d = 550K), epsilon 1.0, difference"


def asked(*relations: str, of: Study = WANTED) -> Asked:
    """The study's comparisons in turn: masked and twin against plain, then the winner's."""
    conditions = tuple(Condition(c, r) for c, r in zip(of.comparisons, relations, strict=False))
    return Asked(of, "Is it?", "it is invented", (CELL,), conditions)


def accuracies(gain: Mapping[str, float]) -> Accuracy:
    """A gain in points over plain, and a tenth of a point more at every other seed."""

    def accuracy(run: PlannedRun) -> float:
        more = 0.0 if run.arm == "plain" else gain.get(run.arm, 0.0) / 100 + 0.001 * (run.config.seed % 2)
        return 0.5 if run.phase == "tuning" else 0.6 + more

    return accuracy


def written(folder: Path, gain: Mapping[str, float], code: Mapping[str, object] | None = None) -> Path:
    """Results of all runs."""
    places, accuracy = Places(results=folder), accuracies(gain)
    for run in plans.plan(WANTED, find_by(accuracy)).runs:
        made = dict(result(run, accuracy(run) or 0.0)) | {"seconds": {}}
        _results.write(places.file(WANTED), run.name, made | {"code": code or {"commit": "c0ffee", "dirty": False}})
    return folder


def answered(folder: Path, *rules: Asked) -> Answer:
    finds = {one.study.name: _verdicts.committed(one.study, folder) for one in rules}
    return _verdicts.claim_answer("rs.table2", Rule(rules), finds)


def test_what_was_asked_after_the_results_stands_beside_them_alone(tmp_path: Path) -> None:
    said = dataclasses.replace(asked("higher"), beside="that too")
    assert answered(tmp_path, said).beside == ""
    assert answered(written(tmp_path, {"masked": 2.0}), said).beside == "that too"


def test_confirmed(tmp_path: Path) -> None:
    found = answered(written(tmp_path, {"masked": 2.0}), asked("higher", "equal"))
    assert found.state == "confirmed" and found.reason == "" and found.study == "invented"
    masked, twin = found.findings
    assert (masked.comparison, masked.pairs) == ("masked - plain (final)", 16)
    assert (masked.relation, masked.outcome) == ("above 0", "holds")
    assert masked.mean == pytest.approx(2.05) and masked.low < 2.05 < masked.high < 2.2 and masked.confidence == 0.95
    assert (twin.relation, twin.outcome, twin.confidence) == ("within 0.5 of 0", "holds", 0.9)
    assert found.reported == ((CELL, "+2.6 points"),)
    assert found.files == (
        "proofs/results/invented.jsonl: final_masked_seed=* (16 runs)",
        "proofs/results/invented.jsonl: final_plain_seed=* (16 runs)",
        "proofs/results/invented.jsonl: final_twin_seed=* (16 runs)",
    )
    for pattern in found.files:
        path, names, count, _ = pattern.removeprefix("proofs/results/").split()
        assert len(fnmatch.filter(_results.read(tmp_path / path.strip(":")), names)) == int(count.strip("("))
    assert found.command == "dptheory sweep configs/studies/invented.toml"
    assert found.cost == "88 runs, 224 epochs. Nothing."


@pytest.mark.parametrize(
    ("gain", "relations", "outcomes"),
    [
        ({"masked": -2.0}, ("higher",), ["the opposite"]),
        ({"masked": -0.05}, ("higher",), ["open"]),
        ({"masked": -0.05}, ("lower",), ["open"]),
        ({"masked": 2.0}, ("lower",), ["the opposite"]),
        ({"masked": 2.0, "twin": 2.0}, ("higher", "equal"), ["holds", "the opposite"]),
        ({"masked": 2.0, "twin": 0.45}, ("higher", "equal"), ["holds", "open"]),
        ({"twin": 2.0}, ("lower", "not higher"), ["the opposite", "the opposite"]),
        ({"twin": 0.45}, ("lower", "not lower"), ["the opposite", "holds"]),
    ],
)  # fmt: skip
def test_not_confirmed(gain: dict[str, float], relations: tuple[str, ...], outcomes: list[str]) -> None:
    rule = Rule((asked(*relations),))
    found = _verdicts.claim_answer("rs.table2", rule, {"invented": find_by(accuracies(gain))})
    assert found.state == "not confirmed" and [one.outcome for one in found.findings] == outcomes
    parts = found.summary.removeprefix("not confirmed: ").removesuffix(" points").split("; ")
    for part, one, outcome in zip(parts, found.findings, outcomes, strict=True):
        assert part == one.effect + ("" if outcome == "holds" else f" ({outcome})")
    assert found.summary.endswith(" points")


def test_a_comparison_asked_twice_is_said_once() -> None:
    """By the outcome that decides, in either order."""
    main, *_ = WANTED.comparisons
    near = dataclasses.replace(main, margin=1.0)
    for relations in (("higher", "not higher"), ("not higher", "higher")):
        conditions = tuple(Condition(near, relation) for relation in relations)
        found = [_verdicts.finding(WANTED, one, find_by(accuracies({"masked": 2.0}))) for one in conditions]
        answer = Answer(state="not confirmed", findings=tuple(one for one in found if one is not None))
        assert len(answer.findings) == 2
        assert answer.summary.count("+2.05") == 1 and answer.summary.endswith("] (the opposite) points")


def test_why_a_question_was_corrected_goes_with_the_answer(tmp_path: Path) -> None:
    folder = written(tmp_path, {"masked": 2.0})
    found = answered(folder, dataclasses.replace(asked("higher"), corrected="it asked for less"))
    assert found.corrected == "it asked for less"
    assert "corrected when results were known: it asked for less" in found.lines()
    assert not [line for line in answered(folder, asked("higher")).lines() if line.startswith("corrected")]


@pytest.mark.parametrize(
    "missing",
    ["final_plain_seed=0", "final_masked_seed=15", "tuning_masked_learning_rate=2_momentum=0_seed=101"],
)
def test_a_run_less_is_no_answer(tmp_path: Path, missing: str) -> None:
    folder = written(tmp_path, {"masked": 2.0})
    forget(folder / "invented.jsonl", missing)
    found = answered(folder, asked("higher", "equal"))
    assert (found.state, found.findings, found.files) == ("not run", (), ())
    assert found.reason == "study invented has runs to go" and found.command and found.cost


def test_one_comparison_alone_decides_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path, {"masked": 2.0})
    forget(folder / "invented.jsonl", "final_twin_seed=3")
    assert answered(folder, asked("higher")).state == "confirmed"
    assert answered(folder, asked("higher", "equal")).state == "not run"


def test_results_of_code_that_is_not_committed_do_not_count(tmp_path: Path) -> None:
    folder = written(tmp_path, {"masked": 2.0}, {"commit": "c0ffee", "dirty": True})
    assert answered(folder, asked("higher")).state == "not run"
    assert _verdicts.progress(WANTED, _verdicts.committed(WANTED, folder)).runs == 0


def test_the_nearest_study_with_results_decides(tmp_path: Path) -> None:
    near = dataclasses.replace(WANTED, name="near", device="cuda")
    folder = written(tmp_path, {"masked": 2.0})
    both = asked("lower", of=near), asked("higher")
    found = answered(folder, *both)
    assert (found.study, found.state) == ("invented", "confirmed")
    assert [(one.study, one.state) for one in found.others] == [("near", "not run")]
    assert found.others[0].command == "dptheory sweep configs/studies/near.toml --device cuda"
    (folder / "invented.jsonl").rename(folder / "near.jsonl")
    found = answered(folder, *both)
    assert (found.study, found.state) == ("near", "not confirmed") and found.others[0].study == "invented"
    found = answered(folder / "none", *both)
    assert (found.study, found.state) == ("near", "not run")


def test_the_winner_has_its_name(tmp_path: Path) -> None:
    again = Asked(WANTED, "?", "-", (CELL,), (Condition(WANTED.comparisons[2], "higher"),))
    found = answered(written(tmp_path, {"twin": 1.0}), again)
    assert found.findings[0].comparison == "twin - plain (again)"
    assert found.files[0] == "proofs/results/invented.jsonl: again_twin_seed=* (8 runs)"


def test_without_a_study_there_are_reason_and_command() -> None:
    rule = Rule(reason="why", question="is it?", command="do", cost="much")
    found = _verdicts.claim_answer("rs.table2", rule, {})
    assert found == Answer(state="not run", question="is it?", reason="why", command="do", cost="much")
    assert found.lines()[1] == "asked before any run: is it?"


def test_progress(tmp_path: Path) -> None:
    folder = written(tmp_path, {})
    far = _verdicts.progress(WANTED, _verdicts.committed(WANTED, folder))
    assert (far.runs, far.runs_in_all, far.versions, str(far)) == (88, 88, ("c0ffee",), "88 of 88 runs")
    forget(folder / "invented.jsonl", "again_plain_seed=50")
    assert str(_verdicts.progress(WANTED, _verdicts.committed(WANTED, folder))) == "87 of 88 runs so far"


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, read = written(tmp_path, {}), list[Path]()
    whole = _results.read
    monkeypatch.setattr(_results, "read", lambda path: (read.append(path), whole(path))[1])
    find = _verdicts.committed(WANTED, folder)
    for _ in range(2):
        _verdicts.progress(WANTED, find)
    assert read == [folder / "invented.jsonl"]


def test_json_keeps_everything(tmp_path: Path) -> None:
    near = dataclasses.replace(WANTED, name="near")
    found = answered(written(tmp_path, {"masked": 2.0}), asked("higher", of=near), asked("higher", "equal"))
    text = _verdicts.to_json({"rs.table2": found})
    assert {id: _answer.from_dict(table) for id, table in json.loads(text).items()} == {"rs.table2": found}
