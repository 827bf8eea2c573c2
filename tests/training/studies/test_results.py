"""Results, verdicts, and the page of all studies."""

import dataclasses
import fnmatch
import importlib.metadata
import json
import math
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dptheory import claims, privacy
from dptheory.claims import Answer, Measured, _answer
from dptheory.training.studies import (
    Measuring,
    _measured,
    _results,
    _results_page,
    _verdicts,
    read_instrument,
    write_answers,
    write_measured,
)
from dptheory.training.studies import _plan as plans
from dptheory.training.studies._instruments import FILE, read_instruments
from dptheory.training.studies._measured import AskedOfInstrument, Bound, committed, path_of, read_asked, read_setting
from dptheory.training.studies._plan import PlannedRun
from dptheory.training.studies._results_page import Pages
from dptheory.training.studies._rules import Asked, Condition, Rule, read_studies
from dptheory.training.studies._statistics import paired_difference
from dptheory.training.studies._study import Study
from dptheory.training.studies._sweep import Places
from tests.refused import refused
from tests.training.studies.invented import Accuracy, find_by, forget, result, study

# --- Results: what they hold, which are refused, and which code they name ---


ROW: dict[str, Any] = {
    "config": {"seed": 3}, "code": {"dirty": False}, "diverged": False,
    "epochs": {"epoch": [1, 2, 3], "test_accuracy": [0.25, 0.75, 0.5]}, "seconds": {"epochs": [1.5, 2.5, 3.5]},
}  # fmt: skip


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "study.jsonl"
    other = ROW | {"config": {"seed": 4}}
    _results.write(path, "one", ROW)
    _results.write(path, "other", other)
    assert _results.read(path) == {"one": ROW, "other": other}
    assert [json.loads(line)["run"] for line in path.read_text().splitlines()] == ["one", "other"]


def test_how_many_examples_were_held_at_once_is_no_other_configuration() -> None:
    made = {"config": {"seed": 3, "physical_batch_size": 4096}}
    assert _results.of_configuration(made, {"seed": 3, "physical_batch_size": 256})
    assert not _results.of_configuration(made, {"seed": 4, "physical_batch_size": 4096})


def test_a_later_result_of_a_run_stands_for_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    for name, seed in (("one", 3), ("other", 4), ("one", 5)):
        _results.write(path, name, ROW | {"config": {"seed": seed}})
    assert {name: row["config"]["seed"] for name, row in _results.read(path).items()} == {"one": 5, "other": 4}


@pytest.mark.parametrize("place", ["outside", "epochs", "seconds"])
def test_no_number_that_json_does_not_have(tmp_path: Path, place: str) -> None:
    bad = ROW | ({"config": {"a": math.nan}} if place == "outside" else {place: {"epochs": [math.inf]}})
    with pytest.raises(ValueError, match="JSON"):
        _results.write(tmp_path / "study.jsonl", "one", bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lacking", ["run", "config", "epochs", "code", "diverged"])
def test_a_line_that_is_no_result_is_refused(tmp_path: Path, lacking: str) -> None:
    path = tmp_path / "study.jsonl"
    _results.write(path, "one", ROW)
    line = {key: value for key, value in (ROW | {"run": "other"}).items() if key != lacking}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    with refused(str(path), 2) as error:
        _results.read(path)
    assert error.value.value == [lacking]


def test_four_entries_make_a_result_and_no_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    assert _results.read(path) == {}
    four = {key: ROW[key] for key in ("config", "epochs", "code", "diverged")}
    _results.write(path, "one", four)
    assert _results.read(path) == {"one": four}


def test_a_study_has_a_file_and_a_run_its_name() -> None:
    assert _results.path_of(Path("results"), "study") == Path("results/study.jsonl")
    named = _results.run_name(phase="p", arm="a-b", point={"optimizer.learning_rate": 0.50, "epochs": 2}, seed=7)
    assert named == "p_a-b_learning_rate=0.5_epochs=2_seed=7"


def test_committed_results_have_the_names_of_their_runs() -> None:
    folder = Path(__file__).parents[3] / "proofs" / "results"
    for path in (_results.path_of(folder, name) for name in read_studies() if (folder / f"{name}.jsonl").exists()):
        for name, row in _results.read(path).items():
            place = {key: row[key] for key in ("phase", "arm", "point")}
            assert name == _results.run_name(**place, seed=row["config"]["seed"]) and row["study"] == path.stem


def test_accuracies_at_the_last_and_at_the_best_epoch() -> None:
    assert (_results.last_accuracy(ROW), _results.best_accuracy(ROW)) == (0.5, 0.75)


@pytest.mark.parametrize(
    ("loss", "accuracy", "diverged"),
    [(1.0, 0.2, False), (1.0, 0.1999, True), (None, 0.9, True), (math.nan, 0.9, True), (math.inf, 0.9, True)],
)
def test_diverged_at_the_last_epoch(loss: float | None, accuracy: float, diverged: bool) -> None:
    assert (
        _results.has_diverged({"train_loss": [1.0, math.nan, loss], "test_accuracy": [0.1, 0.1, accuracy]}) is diverged
    )
    assert not _results.has_diverged({"train_loss": [math.nan, loss, 1.0], "test_accuracy": [0.1, accuracy, 0.3]})


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.check_output(["git", "-C", str(folder), *who, *arguments], text=True, stderr=subprocess.PIPE)


def test_the_code_is_that_of_the_checkout_that_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's own checkout, unless another is named; outside a checkout it is the package's version."""
    for name in _results._PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(name)
    monkeypatch.setattr(_results, "__file__", str(tmp_path / "training" / "studies" / "_results.py"))
    packaged = {"package": importlib.metadata.version("dptheory")}
    assert _results.code_version() == packaged
    git(tmp_path, "init")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "first")
    commit, *trees = git(tmp_path, "rev-parse", "HEAD", "HEAD:training", "HEAD:dptheory").split()
    clean = {"commit": commit, "trees": dict(zip(("training", "dptheory"), trees, strict=True)), "dirty": False}
    (tmp_path / "proofs").mkdir()
    (tmp_path / "proofs" / "study.jsonl").write_text("{}")  # results change no run
    assert _results.code_version() == clean
    assert _results.code_version(tmp_path / "training") == packaged
    (tmp_path / "training" / "new.py").touch()
    assert _results.code_version() == clean | {"dirty": True}
    (tmp_path / "training" / "new.py").unlink()
    (tmp_path / "dptheory" / "a.py").write_text("changed")
    assert _results.code_version() == clean | {"dirty": True}
    with refused("allow_dirty", "--allow-dirty"):
        _results.refuse_dirty(_results.code_version())
    _results.refuse_dirty(clean)
    _results.refuse_dirty(packaged)
    (tmp_path / ".git" / "HEAD").write_text("nothing")
    with pytest.raises(OSError, match=rf"git status failed in {tmp_path}: .*not a git repository"):
        _results.code_version()


def test_floats_are_written_to_twelve_digits() -> None:
    third = 1 / 3
    assert _results.settled({"a": [third, 7, None, True], "b": ("x", third)}) == {
        "a": [0.333333333333, 7, None, True],
        "b": ("x", third),
    }


# --- What results say of a claim: invented ones in a folder drive every state, and one run less is no answer ---


WANTED = dataclasses.replace(study(), answers=("rs.table2",))
CELL = "CIFAR10, DP-CNN (d = 550K), epsilon 1.0, difference"


def asked(*relations: str, of: Study = WANTED) -> Asked:
    """The study's comparisons in turn: masked and twin against plain, then the winner's."""
    conditions = tuple(Condition(c, r) for c, r in zip(of.comparisons, relations, strict=False))
    return Asked(study=of, question="Is it?", differs="it is invented", reported=(CELL,), conditions=conditions)


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


def test_seen(tmp_path: Path) -> None:
    found = answered(written(tmp_path, {"masked": 2.0}), asked("higher", "equal"))
    assert found.state == "seen" and found.reason == "" and found.study == "invented"
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
def test_not_seen(gain: dict[str, float], relations: tuple[str, ...], outcomes: list[str]) -> None:
    rule = Rule((asked(*relations),))
    found = _verdicts.claim_answer("rs.table2", rule, {"invented": find_by(accuracies(gain))})
    assert found.state != "seen" and [one.outcome for one in found.findings] == outcomes
    parts = found.summary.removeprefix(f"{found.in_words}: ").removesuffix(" points").split("; ")
    for part, one, outcome in zip(parts, found.findings, outcomes, strict=True):
        assert part == one.effect + ("" if outcome == "holds" else f" ({outcome})")
    assert found.summary.endswith(" points")


def test_the_opposite_of_a_paper_is_said_by_the_interval_of_all_comparisons() -> None:
    """Its own interval does for our own forecasts; as many comparisons as leave it open turn the opposite into open."""
    found = find_by(accuracies({"masked": -0.081}))
    condition = Condition(WANTED.comparisons[0], "higher")
    alone = _verdicts.finding(WANTED, condition, found)
    assert alone is not None and (alone.outcome, alone.high < 0) == ("the opposite", True)
    together = _verdicts.finding(WANTED, condition, found, together=True)
    assert together is not None and (together.low, together.high) == (alone.low, alone.high)
    assert together.outcome == "open"
    first = paired_difference([0.0] * 8, [0.0, 1.0] * 4)
    low, high = _verdicts._of_all_comparisons(first, first.low, first.high, 0.95, 5)
    wide = paired_difference([0.0] * 8, [0.0, 1.0] * 4, confidence=0.99)
    assert (low, high) == pytest.approx((wide.low, wide.high))


def test_a_comparison_asked_twice_is_said_once() -> None:
    """By the outcome that decides, in either order."""
    main, *_ = WANTED.comparisons
    near = dataclasses.replace(main, margin=1.0)
    for relations in (("higher", "not higher"), ("not higher", "higher")):
        conditions = tuple(Condition(near, relation) for relation in relations)
        found = [_verdicts.finding(WANTED, one, find_by(accuracies({"masked": 2.0}))) for one in conditions]
        answer = Answer(findings=tuple(one for one in found if one is not None))
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
    assert answered(folder, asked("higher")).state == "seen"
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
    assert (found.study, found.state) == ("invented", "seen")
    assert [(one.study, one.state) for one in found.others] == [("near", "not run")]
    assert found.others[0].command == "dptheory sweep configs/studies/near.toml --device cuda"
    (folder / "invented.jsonl").rename(folder / "near.jsonl")
    found = answered(folder, *both)
    assert (found.study, found.state) == ("near", "opposite") and found.others[0].study == "invented"
    found = answered(folder / "none", *both)
    assert (found.study, found.state) == ("near", "not run")


def test_the_winner_has_its_name(tmp_path: Path) -> None:
    wins = Condition(WANTED.comparisons[2], "higher")
    again = Asked(study=WANTED, question="?", differs="-", reported=(CELL,), conditions=(wins,))
    found = answered(written(tmp_path, {"twin": 1.0}), again)
    assert found.findings[0].comparison == "twin - plain (again)"
    assert found.files[0] == "proofs/results/invented.jsonl: again_twin_seed=* (8 runs)"


def test_without_a_study_there_are_reason_and_command() -> None:
    rule = Rule(reason="why", question="is it?", command="do", cost="much")
    found = _verdicts.claim_answer("rs.table2", rule, {})
    assert found == Answer(question="is it?", reason="why", command="do", cost="much")
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


# The page of all studies, and the committed files: what the results say of theory and claims, by the rules, and
# nothing else


ROOT = Path(__file__).parents[3]
TWO_SCREENS = 100
"""Lines."""


def pages(folder: Path, *relations: str) -> Pages:
    """Of the invented study alone, with what the theory expects of its comparisons."""
    finds = {"invented": _verdicts.committed(WANTED, folder)}
    forecasts = {"invented": tuple(Condition(c, r) for c, r in zip(WANTED.comparisons, relations, strict=False))}
    answers = _verdicts.all_answers({"rs.table2": Rule((asked("higher"),)), "rs.fig5": Rule(reason="no | way")}, finds)
    return _results_page.results_pages({"invented": WANTED}, forecasts, answers, finds)


def test_committed_files_are_fresh(tmp_path: Path) -> None:
    out, text = tmp_path / "answers.json", tmp_path / "results.md"
    counts = write_answers(ROOT / "proofs" / "results", out, text)
    stale = "run `dptheory answers` and `dptheory pages proofs`"
    assert (ROOT / "dptheory" / "claims" / "answers.json").read_text(encoding="utf-8") == out.read_text(
        encoding="utf-8"
    ), stale
    below = {made.name for made in (tmp_path / "results").iterdir()}
    compared = json.loads(text.with_suffix(".json").read_text(encoding="utf-8"))
    assert below == {"claims.md", "instruments.md", *(f"{study}.md" for study in compared)}
    for made in (text, text.with_suffix(".json"), *(tmp_path / "results").iterdir()):
        committed = ROOT / "proofs" / made.relative_to(tmp_path)
        assert committed.read_text(encoding="utf-8") == made.read_text(encoding="utf-8"), stale
    assert len(text.read_text(encoding="utf-8").splitlines()) < TWO_SCREENS
    measured = claims.all_claims(verdict=claims.Verdict.EMPIRICAL)
    assert list(json.loads(out.read_text(encoding="utf-8"))) == [claim.id for claim in measured]
    assert sum(counts.values()) == len(measured) == 57
    claimed = (tmp_path / "results" / "claims.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| \[`", claimed, re.MULTILINE)) == len(measured)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for out, text, says in (
        (tmp_path / "a" / "b", tmp_path / "c", "out"),
        (tmp_path / "b", tmp_path / "a" / "c", "page"),
    ):
        with refused(says):
            write_answers(tmp_path, out, text)
    with refused("results"):
        write_answers(tmp_path / "typo", tmp_path / "a", tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


DECLARED = "../../training/configs/studies/invented.toml"


def test_before_any_result(tmp_path: Path) -> None:
    found = pages(tmp_path, "not lower", "equal", "lower")
    assert "Nothing so far: none of the 3 conditions" in found.overview
    assert (
        "Without an answer so far: [invented](../training/configs/studies/invented.toml) (0 of 88 runs so far).\n"
        in found.overview
    )
    assert "2 claims: 0 seen, 0 trend only, 0 not seen, 0 opposite, 0 open, 2 not run." in found.overview
    assert set(found.below) == {"claims", "instruments"}
    claimed = found.below["claims"]
    assert "2 claims: 0 seen, 0 trend only, 0 not seen, 0 opposite, 0 open, 2 not run." in claimed
    assert r"| [`rs.fig5`](../measured.md) | not run |  | no \| way |" in claimed
    assert f"| [`rs.table2`](../measured.md) | not run | {CELL}: +2.6 points | [invented]({DECLARED}) |" in claimed
    details = claimed.split("## What was asked and found")[1].split("## Corrected")[0].split()
    assert " ".join(details) == f"- [`rs.table2`](../measured.md), not run. {asked('higher').question}"


def test_a_study_has_a_page_with_its_first_comparison(tmp_path: Path) -> None:
    places = Places(results=tmp_path)
    first = plans.plan(WANTED, find_by(accuracies({}))).runs[0]
    made = dict(result(first, 0.5)) | {"seconds": {}, "code": {"commit": "c0ffee", "dirty": False}}
    _results.write(places.file(WANTED), first.name, made)
    found = pages(tmp_path, "not lower")
    assert "invented" not in found.below
    assert "[invented](../training/configs/studies/invented.toml) (1 of 88 runs so far)" in found.overview


@pytest.mark.parametrize(
    ("title", "answers", "heading", "said"),
    [
        ("Does it?", ("rs.table2", "rs.fig5"), "**Does it?** Really?", "Claims: `rs.table2`, `rs.fig5`. Command"),
        ("It does", (), "**It does.** Really?", "Claims: none of the papers. Command"),
    ],
)
def test_head_of_a_study(tmp_path: Path, title: str, answers: tuple[str, ...], heading: str, said: str) -> None:
    study = dataclasses.replace(WANTED, title=title, question="Really?", answers=answers)
    finds = {"invented": _verdicts.committed(study, written(tmp_path, {}))}
    text = _results_page.results_pages({"invented": study}, {"invented": ()}, {}, finds).below["invented"]
    assert f"\n{heading}\n" in text and said in text


def test_what_contradicts_the_theory_comes_first(tmp_path: Path) -> None:
    forecast = dataclasses.replace(WANTED.comparisons[0], margin=1.0)
    folder = written(tmp_path, {"masked": 2.0, "twin": 0.45})
    finds = {"invented": _verdicts.committed(WANTED, folder)}
    _, equal, winner = WANTED.comparisons
    conditions = Condition(forecast, "not higher"), Condition(equal, "equal"), Condition(winner, "higher")
    said = {"invented": "A mask gains more than was thought: by 2 points. That is much."}
    found = _results_page.results_pages({"invented": WANTED}, {"invented": conditions}, {}, finds, contradicted=said)
    head, _ = found.overview.split("## The studies")
    assert "- [invented](results/invented.md): A mask gains more than was thought.\n" in head
    assert f"**What contradicts the theory.** {said['invented']}\n" in found.below["invented"]
    line = r"- \[invented\]\(results/invented.md\), masked - plain \(final\): \+2\.05 .* points, below 1: the opposite"
    assert re.search(line, head)
    assert (
        "conditions that the theory sets on comparisons 3 can be tried by now: 1 hold, 1 came out the other way, and 1 are open"
        in head
    )
    assert head.count("\n- ") == 2 and found.below["invented"].count("\n- ") == 3


def test_what_the_pictures_are_drawn_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two conditions on one comparison leave what both allow; one without a forecast has none; without results no study."""
    near = dataclasses.replace(WANTED.comparisons[0], margin=1.0)
    wanted = dataclasses.replace(WANTED, comparisons=(near, *WANTED.comparisons[1:]))
    forecast = Condition(near, "not higher"), Condition(near, "not lower"), Condition(wanted.comparisons[1], "higher")
    folder = written(tmp_path, {"masked": 2.0, "twin": 0.45})
    found = json.loads(
        _results_page.tables(
            {"invented": wanted}, {"invented": forecast}, {"invented": _verdicts.committed(wanted, folder)}
        )
    )["invented"]
    assert [row["forecast"] for row in found] == [[-1.0, 1.0], [0.0, None], None]
    assert [(row["arm"], row["against"], row["phases"], row["pairs"]) for row in found] == [
        ("masked", "plain", ["final"], 16), ("twin", "plain", ["final"], 16), ("masked", "plain", ["again"], 8)
    ]  # fmt: skip
    assert found[0]["mean"] == pytest.approx(2.05)
    nothing = {"invented": _verdicts.committed(wanted, tmp_path / "nothing")}
    assert json.loads(_results_page.tables({"invented": wanted}, {"invented": forecast}, nothing)) == {}
    assert "![Invented](../figures/study_invented.png)" in pages(folder, "not lower").below["invented"]
    made = _results_page._comparisons.compare(wanted, near, _verdicts.committed(wanted, folder))
    assert made is not None
    last, best = (dataclasses.replace(made.last, mean=m, low=m - 1, high=m + 2) for m in (5.0, 7.1234567))
    other = dataclasses.replace(made, last=last, best=best)
    monkeypatch.setattr(_results_page._comparisons, "compare", lambda *given: other)
    (row, *_) = _results_page._differences(wanted, forecast, lambda run: None)
    assert [row[name] for name in ("mean", "low", "high", "best")] == [5.0, 4.0, 7.0, 7.12346]


@pytest.mark.parametrize(
    ("gain", "sentence"),
    [
        (2.0, "masked is better than plain (final): +2.05 ["),
        (-2.0, "masked is worse than plain (final): -1.95 ["),
        (-0.04, "masked is not told apart from plain (final): +0.01 ["),
    ],
)
def test_the_answer_is_the_main_comparison_in_a_sentence(tmp_path: Path, gain: float, sentence: str) -> None:
    found = pages(written(tmp_path, {"masked": gain}), "not lower")
    text = found.below["invented"]
    assert f"**Answer.** {sentence}" in text and "points over 16 pairs." in text
    assert f"| [invented](results/invented.md) | Invented | {sentence}" in found.overview
    assert "Without an answer so far: none.\n" in found.overview
    row = next(line for line in text.splitlines() if line.startswith("| masked - plain (main) | final | 16 |"))
    assert len(row.split(" | ")) == 8 and row.endswith("|  | 0, 0 |")
    assert (
        "**Tuned.** final, plain: optimizer.learning_rate = 0.5 (at the end of the grid), optimizer.momentum = 0"
        in text
    )
    assert "Results: `proofs/results/invented.jsonl`, made by `c0ffee`." in text and "88 of 88 runs, of " in text


def test_the_sentence_says_what_the_margin_says(tmp_path: Path) -> None:
    folder = written(tmp_path, {"masked": 0.2})
    find = _verdicts.committed(WANTED, folder)
    main, equal, _ = WANTED.comparisons
    for comparison, end in (
        (dataclasses.replace(main, margin=1.0), "; a gain of 1 is excluded."),
        (dataclasses.replace(main, margin=0.1), "; a gain of 0.1 is not excluded."),
        (equal, "; shown to be within 0.5 (p = "),
        (dataclasses.replace(equal, margin=0.05), "; not shown to be within 0.05 (p = "),
    ):
        found = _results_page._comparisons.compare(WANTED, comparison, find)
        assert found is not None and end in _results_page._sentence(found)
    lost = _verdicts.committed(WANTED, written(tmp_path / "lost", {"masked": -2.0}))
    worse = _results_page._comparisons.compare(WANTED, dataclasses.replace(main, margin=1.0), lost)
    assert worse is not None and _results_page._sentence(worse).endswith(" points over 16 pairs.")


def test_p_values_of_a_table(tmp_path: Path) -> None:
    """Of three comparisons one has eight pairs, and no p below 3 * 2 / 2^8; an equivalence has that of its two tests."""
    folder = written(tmp_path, {"masked": 0.2})
    text = pages(folder, "not lower").below["invented"]
    assert "\n\nOf 8 pairs p is at least 0.0234 here.\n" in text and min(3 * 2 / 2**8, 1) == 0.0234375
    equal = WANTED.comparisons[1]
    found = _results_page._comparisons.compare(WANTED, equal, _verdicts.committed(WANTED, folder))
    assert found is not None and found.equivalence is not None
    row = next(line for line in text.splitlines() if line.startswith("| twin - plain | "))
    assert row.endswith(f"| 0.5 (TOST p = {found.equivalence.p:.3f}) | 0, 0 |")


# --- the papers' claims ------------------------------------------------------------------------------------------------
def test_how_many_answers_are_of_instrumented_runs() -> None:
    def answer(*seeds: float) -> claims.Answer:
        number = claims.Measured(quantity="gain", values=seeds, relation="above 0", outcome="holds")
        return claims.Answer(measured=(number,) if seeds else ())

    answers = {"a": answer(1.0), "b": answer(1.0, 2.0, 3.0), "c": answer(2.0), "d": answer()}
    said = " Of the answers 3 are of instrumented runs (2 with 1 seed, 1 with 3 seeds): no interval, every seed has to hold."
    assert _results_page._by_instruments(answers) == said and _results_page._by_instruments({"d": answer()}) == ""


def test_answers_that_rest_on_the_same_numbers() -> None:
    def answer(value: float, instrument: str = "masks") -> claims.Answer:
        number = claims.Measured(quantity="gain", values=(value,), relation="above 0", outcome="holds")
        return claims.Answer(instrument=instrument, measured=(number,))

    alone = {"a": answer(1.0), "b": answer(1.0, "clips"), "c": answer(2.0)}
    assert _results_page._shared(alone) == ""
    both = alone | {"d": answer(1.0), "e": claims.Answer(), "f": claims.Answer()}
    assert _results_page._shared(both) == " Some rest on the same numbers: the 4 on 3."


def test_what_was_asked_and_found(tmp_path: Path) -> None:
    finds = {"invented": _verdicts.committed(WANTED, written(tmp_path, {"masked": 2.0}))}
    for beside in ("", "that too"):
        rule = Rule((dataclasses.replace(asked("higher", "equal"), beside=beside),))
        (answer,) = (answers := _verdicts.all_answers({"rs.table2": rule}, finds)).values()
        text = _results_page.results_pages({"invented": WANTED}, {"invented": ()}, answers, finds).below["claims"]
        lines = text.split("## What was asked and found\n\n")[1].split("\n\n")[0].splitlines()
        assert lines == [
            f"- [`rs.table2`](../measured.md), {answer.in_words}. Is it?",
            *(f"  - {one}" for one in answer.findings),
            "  - differs in: it is invented",
            *(["  - asked after the results, deciding nothing: that too"] if beside else []),
        ]
        assert len(answer.findings) == 2
    number = claims.Measured(quantity="gain", values=(1.0,), relation="above 0", outcome="holds")
    measured = claims.Answer(question="Does it?", differs="all", measured=(number,))
    both = {"rs.fig5": measured, "rs.fig4": claims.Answer()}
    text = _results_page.results_pages({"invented": WANTED}, {"invented": ()}, both, finds).below["claims"]
    assert text.split("## What was asked and found\n\n")[1].split("\n\n")[0].splitlines() == [
        "- [`rs.fig5`](../measured.md), seen, small setting. Does it?", f"  - {number}", "  - differs in: all",
    ]  # fmt: skip


def test_corrected_questions_are_listed(tmp_path: Path) -> None:
    finds = {"invented": _verdicts.committed(WANTED, written(tmp_path, {"masked": 2.0}))}
    said = Rule((dataclasses.replace(asked("higher"), corrected="it asked for less"),))
    for rule, line in ((said, "- `rs.table2`: it asked for less"), (Rule((asked("higher"),)), "none")):
        answers = _verdicts.all_answers({"rs.table2": rule}, finds)
        text = _results_page.results_pages({"invented": WANTED}, {"invented": ()}, answers, finds).below["claims"]
        _, _, rest = text.partition("was changed when results were known:\n\n")
        assert rest == f"{line}\n"


# --- Instrumented runs decide by bounds that were declared before: holds, fails, open, and not run ---


MASKS = dataclasses.replace(read_instrument("masks"), seeds=(0, 1))

TABLE: dict[str, Any] = {
    "instrument": "masks",
    "question": "Does it?",
    "differs": "invented",
    "setting": {"data": ["a", "b"], "network": ["a", "b"], "epochs": ["1", "2"]},
    "reported": ["MSE, dense minus frozen"],
    "bounds": [{"quantity": "least_mse_gain", "words": "gain", "above": 0.0}],
}


def asked_of_measured(**bounds: float) -> AskedOfInstrument:
    return AskedOfInstrument(
        instrument=MASKS,
        question="Does it?",
        differs="invented",
        reported=("MSE, dense minus frozen",),
        bounds=(Bound("least_mse_gain", "gain", **bounds),),
        setting=read_setting(TABLE["setting"], arms=MASKS.arms),
    )


def written_of_measured(folder: Path, *values: float | None, code: dict[str, Any] | None = None) -> Path:
    for seed, value in enumerate(values):
        result = {
            "instrument": "masks",
            "seed": seed,
            "quantities": {"least_mse_gain": value},
            "code": code or {"commit": "c0ffee", "dirty": False},
            "arms": {},
        }
        write_measured(folder, result)
    return folder


@pytest.mark.parametrize(
    ("values", "bounds", "relation", "outcome", "state"),
    [
        ((0.1, 0.2), {"above": 0.0}, "above 0", "holds", "seen"),
        ((0.1, -0.2), {"above": 0.0}, "above 0", "open", "open"),
        ((-0.1, -0.2), {"above": 0.0}, "above 0", "fails", "not seen"),
        ((0.1, 0.2), {"below": 0.15}, "below 0.15", "open", "open"),
        ((0.1, 0.2), {"above": 0.05, "below": 0.25}, "between 0.05 and 0.25", "holds", "seen"),
        ((0.0, 0.0), {"above": 0.0}, "above 0", "fails", "not seen"),
        ((0.1, None), {"above": 0.0}, "above 0", "open", "open"),
    ],
)  # fmt: skip
def test_states(tmp_path: Path, values, bounds: dict[str, float], relation: str, outcome: str, state: str) -> None:
    rule = Rule(measured=asked_of_measured(**bounds))
    found = _verdicts.claim_answer("rf.fig1", rule, {}, committed(written_of_measured(tmp_path, *values)))
    assert found.measured == (Measured(quantity="gain", values=values, relation=relation, outcome=outcome),)
    assert (found.state, found.instrument, found.study, found.reason) == (state, "masks", None, "")
    assert found.files == (
        "proofs/results/instruments.jsonl: masks_seed=0",
        "proofs/results/instruments.jsonl: masks_seed=1",
    )
    assert found.reported == (("MSE, dense minus frozen", "positive"),)
    assert found.command == "dptheory instrument masks" and found.cost == MASKS.cost
    assert found.summary.startswith(f"{state}, small setting: gain ")
    assert found.summary.endswith("" if outcome == "holds" else f" ({outcome})")
    assert f"asked of instrument masks: {found.question}" in found.lines()


def test_a_seed_less_and_code_that_nobody_can_find_are_no_answer(tmp_path: Path) -> None:
    rule = Rule(measured=asked_of_measured(above=0.0))
    for folder in (
        written_of_measured(tmp_path, 0.1),
        written_of_measured(tmp_path, 0.1, 0.2, code={"commit": "x", "dirty": True}),
    ):
        found = _verdicts.claim_answer("rf.fig1", rule, {}, committed(folder))
        assert (found.state, found.measured, found.files) == ("not run", (), ())
        assert found.reason == "instrument masks has seeds to go" and found.command
    assert _verdicts.claim_answer("rf.fig1", rule, {}).state == "not run"
    path_of(tmp_path).write_text('{"run": "masks_seed=0", "code": {}, "arms": {}}\n')
    with refused(str(path_of(tmp_path)), "quantities"):
        committed(tmp_path)


def test_what_was_asked_after_the_results_stands_beside_them_alone_of_measured(tmp_path: Path) -> None:
    said = dataclasses.replace(asked_of_measured(above=0.0), beside="that too")
    assert read_asked(TABLE | {"beside": " that\ntoo "}, {"masks": MASKS}) == said
    for values, words in (((0.1,), ""), ((0.1, 0.2), "that too")):
        found = _verdicts.claim_answer(
            "rf.fig1", Rule(measured=said), {}, committed(written_of_measured(tmp_path, *values))
        )
        assert found.beside == words and ("asked after the results: that too" in found.lines()) == (words != "")


def test_how_many_of_the_other_numbers_hold() -> None:
    def number(outcome: str) -> Measured:
        return Measured(quantity="gain", values=(0.1,), relation="above 0", outcome=outcome)

    first, *others = (number(one) for one in ("fails", "holds", "open", "holds"))
    for rest, said in (
        ((), ""),
        (others[:1], "; 1 of 1 others holds"),
        (others[1:2], "; 0 of 1 others hold"),
        (others, "; 2 of 3 others hold"),
    ):
        found = Answer(measured=(*rest[:1], first, *rest[1:]) if rest[:1] == others[:1] else (first, *rest))
        assert found.summary == f"not seen, small setting: gain 0.1 (fails){said}"
    held = Answer(measured=(others[0], others[2]))
    assert held.summary == "seen, small setting: gain 0.1; 1 of 1 others holds"


def test_wrong_rules_are_refused() -> None:
    assert read_asked(TABLE, {"masks": MASKS}) == asked_of_measured(above=0.0)
    bound = TABLE["bounds"][0]
    wrong = [
        ({"instrument": "mask"}, "instrument"),
        ({"differs": ""}, "differs"),
        ({"beside": ""}, "beside"),
        ({"reported": []}, "reported"),
        ({"bounds": []}, "bounds"),
        ({"bounds": [bound | {"quantity": "alignment_gap"}]}, "quantity"),
        ({"bounds": [{"quantity": "least_mse_gain", "words": "gain"}]}, "bounds"),
        ({"bounds": [bound | {"words": ""}]}, "bounds"),
        ({"bounds": [bound | {"beneath": 0.0}]}, "beneath"),
        ({"conditions": []}, "conditions"),
    ]
    for change, argument in wrong:
        with refused(argument):
            read_asked(TABLE | change, {"masks": MASKS})


def test_committed_results_are_those_of_their_instruments() -> None:
    """Each line holds what its instrument measures, at its steps and with its options' names."""
    folder = Path(__file__).parents[3] / "proofs" / "results"
    find = committed(folder)
    for run in _measured.read(path_of(folder)):
        name, seed = run.split("_seed=")
        instrument, result = read_instrument(name), find(name, int(seed))
        assert result is not None and int(seed) in instrument.seeds, run
        assert tuple(result["quantities"]) == instrument.quantities
        assert set(result["arms"]) == set(instrument.arms)
        for one in instrument.measurings:
            for arm in one.arms:
                assert [row["step"] for row in result["arms"][arm]["measured"][one.kind]] == list(one.steps)
                wanted, config = instrument.config(arm, seed=int(seed)).as_dict(), dict(result["arms"][arm]["config"])
                wanted["grad_sample_mode"] = config["grad_sample_mode"]  # they differ in rounding alone
                sigma = wanted.pop("noise_multiplier"), config.pop("noise_multiplier")
                assert config == json.loads(json.dumps(wanted))
                assert sigma == (None, None) or sigma[0] == pytest.approx(sigma[1], rel=1e-5)
    assert FILE.is_file()


# --- Instruments are read from TOML, and wrong ones are refused ---


def test_what_a_file_says() -> None:
    found = read_instrument("masks")
    assert (found.name, found.examples, found.last_step("ranked"), found.last_step("dp-sgd")) == (
        "masks",
        2000,
        301,
        360,
    )
    norms = next(one for one in found.measurings if one.kind == "norms")
    assert norms == Measuring("norms", ("dp-sgd", "freeze"), (60, 240, 360), {})
    errors = next(one for one in found.measurings if one.kind == "errors")
    assert errors.options == {"drop_rates": [0.1, 0.3, 0.5, 0.7, 0.9], "masks": 4}
    freeze, free = (found.config(arm, seed=7) for arm in ("freeze", "ranked-without-noise"))
    assert (freeze.seed, freeze.epsilon, freeze.mechanism["drop_rate"]) == (7, 7.53, 0.9)
    least = privacy.least_noise_multiplier(epsilon=7.53, delta=1e-5, sampling_rate=1 / 60, steps=360)
    assert free.epsilon is None and 0 < free.noise_multiplier / least - 1 < 5e-4
    assert found.config("ranked-without-noise", seed=7) == free  # and again
    assert set(read_instruments()) == set(tomllib.loads(FILE.read_text(encoding="utf-8")))


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    wrong = [
        ("examples = 2000", "examples = 1", "examples", "2..10000"),
        ("examples = 2000", "", "masks"),
        ("examples = 2000", "examples = 2000\nmore = 1", "masks", "more"),
        ("[masks.measure.norms]\n", "[masks.measure.norms]\nsteps = [60, 60]\n#", "instruments.toml"),
        ("steps = [60, 240, 360]", "steps = [240, 60]", "measure.norms.steps", "(240, 60)"),
        ("steps = [60, 240, 360]", "", "measure.norms.steps"),
        ('arms = ["dp-sgd", "freeze"]', 'arms = ["dp-sgd", "freezes"]', "measure.norms.arms"),
        ("delta = 1e-5", "delta = 1.0", "delta"),
        ("max_grad_norm", "max_norm", "max_norm"),
    ]
    for old, new, argument, *shown in wrong:
        before, text = FILE.read_text(encoding="utf-8").split("[masks]\n")
        assert old in text
        changed = f"{before}[masks]\n{text.replace(old, new, 1)}"
        (tmp_path / "instruments.toml").write_text(changed, encoding="utf-8")
        with refused(argument, *shown):
            read_instrument("masks", file=tmp_path / "instruments.toml")
    shutil.copy(FILE, tmp_path)
    assert read_instrument("masks", file=tmp_path / "instruments.toml") == read_instrument("masks")
    with refused("name"):
        read_instrument("mask", file=tmp_path / "instruments.toml")
