"""The claims on the page of all studies: how many, what was asked of each, what was found, and what was corrected."""

import dataclasses
from pathlib import Path

from dptheory import claims
from dptheory.training.studies import _claims_section, _results_page, _verdicts
from dptheory.training.studies._rules import Rule
from tests.training.studies.test_verdicts import WANTED, asked, written


def test_how_many_answers_are_of_instrumented_runs() -> None:
    def answer(*seeds: float) -> claims.Answer:
        number = claims.Measured(quantity="gain", values=seeds, relation="above 0", outcome="holds")
        return claims.Answer(state="confirmed", measured=(number,) if seeds else ())

    answers = {"a": answer(1.0), "b": answer(1.0, 2.0, 3.0), "c": answer(2.0), "d": answer()}
    said = " Of the answers 3 are of instrumented runs (2 with 1 seed, 1 with 3 seeds): no interval, every seed has to hold."
    assert _claims_section._by_instruments(answers) == said and _claims_section._by_instruments({"d": answer()}) == ""


def test_answers_that_rest_on_the_same_numbers() -> None:
    def answer(state: str, value: float, instrument: str = "masks") -> claims.Answer:
        number = claims.Measured(quantity="gain", values=(value,), relation="above 0", outcome="holds")
        return claims.Answer(state=state, instrument=instrument, measured=(number,))

    alone = {"a": answer("confirmed", 1.0), "b": answer("confirmed", 1.0, "clips"), "c": answer("not confirmed", 1.0)}
    assert _claims_section._shared(alone) == ""
    both = alone | {
        "d": answer("confirmed", 1.0),
        "e": claims.Answer(state="not run"),
        "f": claims.Answer(state="not run"),
    }
    assert (
        _claims_section._shared(both)
        == " Some rest on the same numbers: the 3 confirmed on 2, the 1 not confirmed on 1."
    )


def test_what_was_asked_and_found(tmp_path: Path) -> None:
    finds = {"invented": _verdicts.committed(WANTED, written(tmp_path, {"masked": 2.0}))}
    for beside in ("", "that too"):
        rule = Rule((dataclasses.replace(asked("higher", "equal"), beside=beside),))
        (answer,) = (answers := _verdicts.all_answers({"rs.table2": rule}, finds)).values()
        text = _results_page.results_page({"invented": WANTED}, {"invented": ()}, answers, finds)
        lines = text.split("## What was asked and found\n\n")[1].split("\n\n")[0].splitlines()
        assert lines == [
            f"- [`rs.table2`](rs/empirical.md), {answer.state}. Is it?",
            *(f"  - {one}" for one in answer.findings),
            "  - not the paper's setting: it is invented",
            *(["  - asked after the results, deciding nothing: that too"] if beside else []),
        ]
        assert len(answer.findings) == 2
    number = claims.Measured(quantity="gain", values=(1.0,), relation="above 0", outcome="holds")
    measured = claims.Answer(state="confirmed", question="Does it?", differs="all", measured=(number,))
    assert list(_claims_section.details({"rs.fig5": measured, "rs.fig4": claims.Answer(state="not run")})) == [
        "- [`rs.fig5`](rs/empirical.md), confirmed. Does it?", f"  - {number}", "  - not the paper's setting: all",
    ]  # fmt: skip


def test_corrected_questions_are_listed(tmp_path: Path) -> None:
    finds = {"invented": _verdicts.committed(WANTED, written(tmp_path, {"masked": 2.0}))}
    said = Rule((dataclasses.replace(asked("higher"), corrected="it asked for less"),))
    for rule, line in ((said, "- `rs.table2`: it asked for less"), (Rule((asked("higher"),)), "none")):
        answers = _verdicts.all_answers({"rs.table2": rule}, finds)
        text = _results_page.results_page({"invented": WANTED}, {"invented": ()}, answers, finds)
        _, _, rest = text.partition("was changed when results were known:\n\n")
        assert rest.split("\n\n")[0] == line
