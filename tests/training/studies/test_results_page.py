"""The page of all studies, and the committed files: what the results say of theory and claims, by the rules, and nothing else."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from dptheory import claims
from dptheory.training.studies import _results_page, _verdicts, write_answers
from dptheory.training.studies._results_page import Pages
from dptheory.training.studies._rules import Condition, Rule, read_studies
from tests.refused import refused
from tests.training.studies.test_verdicts import CELL, WANTED, asked, written

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
    assert below == {"claims.md", "instruments.md", *(f"{study}.md" for study in read_studies())}
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


def test_before_any_result(tmp_path: Path) -> None:
    found = pages(tmp_path, "not lower", "equal", "lower")
    assert "Nothing so far: none of the 3 conditions" in found.overview
    assert "Without an answer so far: [invented](results/invented.md) (0 of 88 runs so far).\n" in found.overview
    assert "2 claims: 0 confirmed, 0 not confirmed, 2 not run." in found.overview
    study, claimed = found.below["invented"], found.below["claims"]
    assert "**Answer.** None yet: 0 of 88 runs so far." in study
    assert "2 claims: 0 confirmed, 0 not confirmed, 2 not run." in claimed
    assert r"| [`rs.fig5`](../rs/empirical.md) | not run |  | no \| way |" in claimed
    assert f"| [`rs.table2`](../rs/empirical.md) | not run | {CELL}: +2.6 points | [invented](invented.md) |" in claimed
    details = claimed.split("## What was asked and found")[1].split("## Corrected")[0].split()
    assert " ".join(details) == f"- [`rs.table2`](../rs/empirical.md), not run. {asked('higher').question}"
    assert "Tuned" not in study and "Results: `" not in study and "| difference |" not in study and "![" not in study


@pytest.mark.parametrize(
    ("title", "answers", "heading", "said"),
    [
        ("Does it?", ("rs.table2", "rs.fig5"), "**Does it?** Really?", "Claims: `rs.table2`, `rs.fig5`. Command"),
        ("It does", (), "**It does.** Really?", "Claims: none of the papers. Command"),
    ],
)
def test_head_of_a_study(tmp_path: Path, title: str, answers: tuple[str, ...], heading: str, said: str) -> None:
    study = dataclasses.replace(WANTED, title=title, question="Really?", answers=answers)
    finds = {"invented": _verdicts.committed(study, tmp_path)}
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
        return claims.Answer(state="confirmed", measured=(number,) if seeds else ())

    answers = {"a": answer(1.0), "b": answer(1.0, 2.0, 3.0), "c": answer(2.0), "d": answer()}
    said = " Of the answers 3 are of instrumented runs (2 with 1 seed, 1 with 3 seeds): no interval, every seed has to hold."
    assert _results_page._by_instruments(answers) == said and _results_page._by_instruments({"d": answer()}) == ""


def test_answers_that_rest_on_the_same_numbers() -> None:
    def answer(state: str, value: float, instrument: str = "masks") -> claims.Answer:
        number = claims.Measured(quantity="gain", values=(value,), relation="above 0", outcome="holds")
        return claims.Answer(state=state, instrument=instrument, measured=(number,))

    alone = {"a": answer("confirmed", 1.0), "b": answer("confirmed", 1.0, "clips"), "c": answer("not confirmed", 1.0)}
    assert _results_page._shared(alone) == ""
    both = alone | {
        "d": answer("confirmed", 1.0),
        "e": claims.Answer(state="not run"),
        "f": claims.Answer(state="not run"),
    }
    assert (
        _results_page._shared(both) == " Some rest on the same numbers: the 3 confirmed on 2, the 1 not confirmed on 1."
    )


def test_what_was_asked_and_found(tmp_path: Path) -> None:
    finds = {"invented": _verdicts.committed(WANTED, written(tmp_path, {"masked": 2.0}))}
    for beside in ("", "that too"):
        rule = Rule((dataclasses.replace(asked("higher", "equal"), beside=beside),))
        (answer,) = (answers := _verdicts.all_answers({"rs.table2": rule}, finds)).values()
        text = _results_page.results_pages({"invented": WANTED}, {"invented": ()}, answers, finds).below["claims"]
        lines = text.split("## What was asked and found\n\n")[1].split("\n\n")[0].splitlines()
        assert lines == [
            f"- [`rs.table2`](../rs/empirical.md), {answer.state}. Is it?",
            *(f"  - {one}" for one in answer.findings),
            "  - not the paper's setting: it is invented",
            *(["  - asked after the results, deciding nothing: that too"] if beside else []),
        ]
        assert len(answer.findings) == 2
    number = claims.Measured(quantity="gain", values=(1.0,), relation="above 0", outcome="holds")
    measured = claims.Answer(state="confirmed", question="Does it?", differs="all", measured=(number,))
    both = {"rs.fig5": measured, "rs.fig4": claims.Answer(state="not run")}
    text = _results_page.results_pages({"invented": WANTED}, {"invented": ()}, both, finds).below["claims"]
    assert text.split("## What was asked and found\n\n")[1].split("\n\n")[0].splitlines() == [
        "- [`rs.fig5`](../rs/empirical.md), confirmed. Does it?", f"  - {number}", "  - not the paper's setting: all",
    ]  # fmt: skip


def test_corrected_questions_are_listed(tmp_path: Path) -> None:
    finds = {"invented": _verdicts.committed(WANTED, written(tmp_path, {"masked": 2.0}))}
    said = Rule((dataclasses.replace(asked("higher"), corrected="it asked for less"),))
    for rule, line in ((said, "- `rs.table2`: it asked for less"), (Rule((asked("higher"),)), "none")):
        answers = _verdicts.all_answers({"rs.table2": rule}, finds)
        text = _results_page.results_pages({"invented": WANTED}, {"invented": ()}, answers, finds).below["claims"]
        _, _, rest = text.partition("was changed when results were known:\n\n")
        assert rest == f"{line}\n"
