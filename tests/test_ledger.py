"""Claims: their files and words, measured rows, finding, checking several, writing pages."""

import dataclasses
import math
import pickle
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dptheory import claims
from dptheory.checks import Evidence
from dptheory.claims import (
    PAPERS,
    Answer,
    Baseline,
    CheckedClaim,
    CheckReport,
    Claim,
    Compared,
    Finding,
    Measured,
    Prose,
    _measured,
    _prose,
    find,
)
from dptheory.claims import _find as module
from dptheory.claims._row import Kind, Range, Row, Sides, Source, Verdict
from tests.refused import refused

# --- A claim's file: what the decorators of its row make of the functions below them ---


def _row(printed: Callable[..., Any] | None = None) -> Row:
    return Row(Claim("gip.x", Source("gip", "Lemma 1"), Verdict.FALSE, printed=printed))


def _uniform(rng: np.random.Generator, n: int, scale: float) -> Any:
    return scale * rng.random(n)


def _die(rng: np.random.Generator, n: int) -> Any:
    return rng.integers(0, 2, n)


def test_the_printed_formula_is_what_has_to_be_rejected() -> None:
    row = _row(printed=lambda n: 2.0 * n)

    @row.equal((3,), (4,), tolerance=1e-9, kind=Kind.COUNTEREXAMPLE)
    def _(n: int) -> tuple[float, float]:
        """n is
        n

        A remark."""
        return float(n), float(n)

    (evidence,) = row.claim.check()
    assert (evidence.check, evidence.kind, evidence.passed) == ("n is n", Kind.COUNTEREXAMPLE, True)
    assert (evidence.claimed, evidence.observed, evidence.samples) == (3.0, 3.0, 2)
    assert evidence.detail == "rejects wrong 6 at (3)"


@pytest.mark.parametrize(
    ("sides", "passed", "says"),
    [
        ((1.0, 1.0, 2.0), True, "rejects wrong 2 at (1)"),
        ((np.float64(1.0), lambda: np.array(1.0), lambda: 2.0), True, "rejects wrong 2 at (1)"),
        ((1.0, 1.0, 1.0), False, "does not reject the wrong statement"),
        ((1.0, 1.0, None), False, "does not reject the wrong statement"),
        ((1.0, lambda: 2.0, 1.0), False, "fails at (1), off by 0.5"),
        ((1.0, 1.0), False, "ValueError: gip.x has no printed formula"),
    ],
)
def test_sides(sides: Any, passed: bool, says: str) -> None:
    row = _row()
    row.equal((1,), name="sides")(lambda n: sides)
    (evidence,) = row.claim.check()
    assert evidence.passed is passed and evidence.detail.startswith(says)


def test_the_function_runs_once_per_case_and_lazy_sides_after_it() -> None:
    """Wrong values up to the first that is rejected, here that of 1: the one of 0 is right."""
    calls: list[str] = []

    def compare(n: int) -> Sides:
        calls.append(f"compare {n}")
        return n, lambda: (calls.append(f"truth {n}"), n)[1], lambda: (calls.append(f"wrong {n}"), n * n + n)[1]

    row = _row()
    row.equal(lambda: [(i,) for i in range(3)], name="once")(compare)
    (evidence,) = row.claim.check()
    assert evidence.passed and evidence.detail == "rejects wrong 2 at (1)" and evidence.samples == 3
    assert calls == ["compare 0", "truth 0", "wrong 0", "compare 1", "truth 1", "wrong 1", "compare 2", "truth 2"]


def test_mean_law_inequality_and_certificate() -> None:
    row = _row(printed=lambda smoothness, distance: smoothness / 4 * distance**2)

    @row.mean(partial(_uniform, scale=2.0), wrong=lambda: 1.1, row_bytes=8)
    def _() -> float:
        """mean"""
        return 1.0

    @row.law(_die, wrong=lambda: np.array([0.4, 0.6]), row_bytes=8)
    def _() -> Any:
        """law"""
        return np.array([0.5, 0.5])

    def certified(smoothness: float, distance: float) -> float:
        """certificate"""
        return smoothness / 2 * distance**2

    row.certificate((1.0, 1.0), problem=print)(certified)
    row.inequality({"x": Range(0, 1)}, wrong=math.cos, name="slack")(math.sin)
    names = [check.name for check in row.claim.checks]
    assert names == ["mean", "law", "certificate", "slack"]
    mean, law, certificate, slack = row.claim.checks
    assert mean.run(60.0, 0).passed and law.run(60.0, 0).passed
    assert certificate.bound(1.0, 1.0) == 0.5 and certificate.wrong(1.0, 1.0) == 0.25  # type: ignore[attr-defined]
    assert slack.slack.function is math.sin and slack.wrong.function is math.cos  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(mean.sampler)).keywords == {"scale": 2.0}  # type: ignore[attr-defined]


def test_what_a_file_may_not_do() -> None:
    row = _row()
    with refused("name"):
        row.equal((1,))(lambda n: (n, n, 0))
    with refused("name"):
        row.mean(_uniform, row_bytes=8)(partial(float, "1"))
    with refused("cases"):
        row.equal((1,), lambda: [(2,)], name="two ways")(lambda n: (n, n, 0))
    assert row.claim.checks == ()
    with pytest.raises(RuntimeError, match=r"gip\.x .*'late'"):
        row.equal((1,), name="late")(lambda n: (n, n, 0))


# --- The words of a claim, read from its page ---


PAGE = """# gip.x: a title: with a colon

[Ledger](../README.md#x) › Somewhere

**NOT_SHOWN** (observed, not proved): why it is so: in short.

The mistake is that of [`gip.y`](y.md).

**For a user.** Less noise.

**Answers.** Is it less? How much?

## Key points

- One
  goes on.
- Two - with a dash.

## Statement

First.

- an item

Last.

## Sharper

Better.

## Conditions

None.

## Where the print errs

There.

## Proof
## Statement
of another thing
"""


def test_every_part_is_read() -> None:
    assert _prose.prose_of(PAGE) == Prose(
        title="a title: with a colon",
        statement="First.\n\n- an item\n\nLast.",
        summary="why it is so: in short.",
        for_users="Less noise.",
        questions="Is it less? How much?",
        key_points=("One\n  goes on.", "Two - with a dash."),
        conditions=(),
        correction="Better.",
        printed_error="There.",
        proved=True,
    )


def test_a_severity_may_stand_behind_the_verdict() -> None:
    page = PAGE.replace("**NOT_SHOWN**", "**FALSE, serious**")
    assert _prose.prose_of(page).summary == "why it is so: in short."


def test_what_a_page_may_leave_out() -> None:
    found = _prose.prose_of("# gip.x: a title\n\n## Statement\n\nIt is so.\n")
    assert found == Prose(title="a title", statement="It is so.")


@pytest.mark.parametrize(
    "text",
    ["", "no title\n## Statement\nx\n", "# gip.x: a title\n", PAGE.replace("## Sharper", "## Key points")],
    ids=["empty", "no title", "no statement", "a section twice"],
)
def test_a_page_that_cannot_be_read_is_refused(text: str) -> None:
    with refused("page"):
        _prose.prose_of(text)


def test_the_page_is_read_when_its_words_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_prose, "page_folders", lambda: (tmp_path / "none", tmp_path))
    claim = claims.Claim("gip.x", claims.Source("gip", "Lemma 1"), claims.Verdict.FALSE)
    with refused("page", "proofs/gip/x.md"):
        _ = claim.title
    page = tmp_path / "gip" / "x.md"
    page.parent.mkdir()
    page.write_text("# gip.x: a title\n")
    with refused("page", page):
        _ = claim.title
    page.write_text(PAGE)
    assert (claim.title, claim.page_file) == ("a title: with a colon", page)
    page.unlink()
    assert claim.statement.startswith("First."), "read once"


# --- Measured claims: a row for each table of a TOML file ---


HOME = Path(claims.__file__).parent


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_is_a_claim_and_every_measured_claim_a_table(paper: str) -> None:
    tables = tomllib.loads((HOME / paper / "measured.toml").read_text(encoding="utf-8"))
    found = claims.all_claims(paper, Verdict.EMPIRICAL)
    assert {f"{paper}.{name}" for name in tables} == {claim.id for claim in found}
    for claim in found:
        row = tables[claim.id.partition(".")[2]]
        assert (claim.title, claim.source.label, claim.statement) == (row["title"], row["label"], row["statement"])
        said = [(what, value) for what, value in row.get("reported", ())]
        assert said == list(claim.reported[len(claim.reported) - len(said) :])
        assert claims.get(claim.id) == claim


def test_numbers_that_are_told_otherwise_than_cell_by_cell() -> None:
    def first(id: str) -> tuple[str, str]:
        return claims.get(id).reported[0]

    assert first("gep.table1") == ("MNIST, GP, epsilon 2", "94.7 % (+0.0)")
    assert first("gep.appA.par")[0] == "GP, epsilon 0.1" and len(claims.get("gep.appA.par").reported) == 3
    assert first("gip.table2")[1].endswith(" a batch")
    rates = [what for what, _ in claims.get("rf.table1").reported if what.endswith(", final freeze rate")]
    assert len(rates) == 5, "a row of the table each"
    assert set(_measured._TOLD) == {"gep.table1", "gep.appA.par", "gip.table2", "rf.table1"}


def test_a_key_that_no_row_has_is_refused() -> None:
    row = {"title": "a", "label": "Table 1", "statement": "b", "repotred": []}
    with refused("rs.x of rs/measured.toml", "figure", "['repotred']"):
        _measured._claim("rs", "rs.x", row)


# --- What our own runs answer, in two words ---


SAME = tuple(Compared(what=what, here="a", there="a") for what in ("data", "network", "epochs"))
OTHER = (*SAME[:2], Compared(what="epochs", here="3", there="80"))


def _finding(outcome: str, *, size: bool = False, cannot: str = "", high: float = 0.1) -> Finding:
    numbers = dict(mean=0.0, low=-0.1, high=high, confidence=0.95, pairs=4)
    return Finding(comparison="a - b", **numbers, relation="above 0", outcome=outcome, size=size, cannot=cannot)  # type: ignore[arg-type]


def _number(outcome: str, *, size: bool = False) -> Measured:
    return Measured(quantity="x", values=(0.0,), relation="above 0", outcome=outcome, size=size)


@pytest.mark.parametrize(
    ("outcomes", "sizes", "state"),
    [
        (("holds", "holds"), (), "seen"),
        (("holds",), ("holds",), "seen"),
        (("holds",), ("open",), "trend only"),
        (("holds",), ("the opposite",), "trend only"),
        (("holds", "open"), (), "open"),
        (("holds", "the opposite"), (), "not seen"),
        (("the opposite", "open"), (), "not seen"),
        (("the opposite", "the opposite"), ("holds",), "opposite"),
        (("open",), ("holds",), "open"),
        ((), ("holds",), "seen"),
        ((), ("holds", "open"), "open"),
        ((), (), "not run"),
    ],
)
def test_what_was_seen(outcomes: tuple[str, ...], sizes: tuple[str, ...], state: str) -> None:
    parts = (*map(_finding, outcomes), *(_finding(one, size=True) for one in sizes))
    assert Answer(findings=parts).state == state


def test_numbers_of_instruments_count_alike() -> None:
    assert Answer(measured=(_number("holds"),)).state == "seen"
    assert Answer(measured=(_number("fails"),)).state == "not seen"
    assert Answer(measured=(_number("holds"), _number("fails", size=True))).state == "trend only"


def test_what_is_not_asked_or_cannot_be_told_is_not_seen() -> None:
    assert Answer(findings=(_finding("holds"),), unasked="the rest").state == "trend only"
    assert Answer(findings=(_finding("holds"), _finding("the opposite", cannot="no noise"))).state == "open"
    assert Answer(findings=(_finding("holds"), _finding("holds", size=True, cannot="no noise"))).state == "trend only"
    assert "it cannot decide here: no noise" in str(_finding("open", cannot="no noise"))


def test_an_interval_without_the_printed_gain_is_not_open() -> None:
    def with_gain(gain: float | None) -> Answer:
        baseline = Baseline(what="DP-SGD", here=83.5, there=83.2, gain=gain)
        return Answer(findings=(_finding("open", high=0.11),), baseline=baseline, compared=SAME)

    assert (with_gain(1.3).state, with_gain(0.1).state, with_gain(None).state) == ("not seen", "open", "open")
    assert "of the paper's gain of 1.3 points +0.00 [-0.10, +0.11] is left over it" in with_gain(1.3).far()[1]
    assert "left over it" not in with_gain(None).far()[1]


def test_where_it_was_looked_for() -> None:
    def where(compared: tuple[Compared, ...], here: float | None = None) -> str | None:
        baseline = None if here is None else Baseline(what="DP-SGD", here=here, there=69.4)
        return Answer(findings=(_finding("holds"),), compared=compared, baseline=baseline).setting

    assert (where(SAME), where(OTHER), where(())) == ("paper's setting", "small setting", "small setting")
    assert (where(SAME, 67.4), where(SAME, 67.3), where(SAME, 75.0)) == (
        "paper's setting",
        "small setting",
        "paper's setting",
    )
    unsaid = (*SAME, Compared(what="epochs", here="15", there="not printed"))
    settings = [
        where(unsaid, 69.4),
        where(unsaid, 69.3),
        where(unsaid),
        where((*OTHER, *unsaid), 75.0),
        where(unsaid[-1:], 75.0),
    ]
    assert settings == ["paper's setting", *4 * ["small setting"]]
    nothing = Answer(reason="needs a GPU", compared=OTHER)
    assert (nothing.state, nothing.setting, nothing.in_words) == ("not run", None, "not run")
    assert Answer(findings=(_finding("holds"),), compared=OTHER).in_words == "seen, small setting"


def test_how_far_the_setting_is() -> None:
    answer = Answer(
        findings=(_finding("holds"),),
        compared=OTHER,
        baseline=Baseline(what="CNN", here=57.24, there=69.4),
        differs="last epoch",
    )
    assert answer.far() == [
        "setting: data a; network a; epochs 3 (the paper: 80)",
        "baseline, CNN: 57.2 % here, 69.4 in the paper, 12.2 points below",
        "differs in: last epoch",
    ]
    assert [line for line in answer.lines() if line in answer.far()] == answer.far()


# --- Finding things by words: what a reader has in hand leads to the row, the function and the page ---


def _names(query: str, count: int = 3) -> list[str]:
    return [one.name for one in find(query).matches[:count]]


def test_every_label_finds_its_claim() -> None:
    """With the paper's short name in front, as a reader of the paper would ask."""
    lost = []
    for claim in claims.all_claims():
        found = find(f"{claim.source.paper} {claim.source.label}", max_matches=1000).matches
        if claim.id not in [one.name for one in found]:
            lost.append((claim.id, claim.source.label))
        elif claim.source.label not in [one.label for one in found[: 4 if claim.ours else 3]]:
            lost.append((claim.id, found[0].label))
    assert lost == []


def test_every_id_every_function_and_every_argument_finds_itself_first() -> None:
    names = [one.match for one in module._index()]
    assert {one.kind for one in names} == {"command", "claim", "function", "argument", "letter"}
    lost = [one.name for one in names if one.kind == "claim" and _names(one.name, 1) != [one.name]]
    lost += [one.name for one in names if one.kind == "function" and _names(one.name, 1) != [one.name]]
    for one in names:
        if one.kind == "argument":
            lost += [name for name in one.name.split(", ") if not any(name in found for found in _names(name, 4))]
    assert lost == []


@pytest.mark.parametrize(
    ("query", "among"),
    [
        ("GIP Proposition 2", {"gip.mse_r", "gip.mse_t0", "gip.mse_t"}),
        ("gip prop. 2", {"gip.mse_r", "gip.mse_t0", "gip.mse_t"}),
        ("gip.prop2", {"gip.mse_r", "gip.mse_t0", "gip.mse_t"}),
        ("LF lem 3.1", {"lf.lem3.1"}),
        ("equation 12", {"gep.eq12", "rs.thm3.4"}),
        ("eq 15 gip", {"gip.mse_t0"}),
        ("kappa", {"dptheory.sparsification.kappa"}),
        ("κ", {"dptheory.sparsification.kappa"}),
        ("top-k", {"dptheory.pruning.top_k_mse", "dptheory.pruning.top_k_mask"}),
        ("clip_norm", {"clip_norm, max_grad_norm"}),
        ("sampling rate", {"sampling_rate"}),
        ("fine-tune bert", {"dptheory.training.make_private_with_epsilon"}),
        ("lora", {"dptheory.training.make_private_with_epsilon"}),
        ("excess risk", {"gep.thm3.3"}),
    ],
)
def test_what_people_ask_for_is_near_the_top(query: str, among: set[str]) -> None:
    assert among <= set(_names(query, 8 if query == "sampling rate" else 4))


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("does masking make the gradient less noisy", "rf.eq7"),
        ("does random freeze reduce the clipping bias", "rf.clip_bias"),
        ("can I raise the noise and train longer with a mask", "rf.raise_noise"),
        ("is a ranked mask better than a random one", "rf.ranked"),
        ("does sparsification cost extra privacy", "rs.thm3.1"),
        ("does random sparsification converge", "rs.thm3.5"),
        ("how much communication does a mask save", "rs.communication"),
        ("does masking protect against gradient inversion", "rs.thm5.1"),
        ("does freezing lower the noise", "lf.privacy"),
        ("does freezing lower the privacy cost", "lf.privacy"),
        ("which layers should I freeze", "lf.when_to_freeze"),
        ("does layer freezing improve accuracy", "lf.table1"),
        ("how much noise does GEP add", "gep.thm3.1"),
        ("how many power iterations do I need", "gep.power"),
        ("does the risk depend on the number of parameters", "gep.independent_p"),
        ("is GEP better than plain DP-SGD", "gep.versus"),
        ("how do I choose theta", "gip.thm1"),
        ("is top-k pruning private", "gip.thm1"),
        ("does pruning beat DP-SGD", "gip.cor1"),
        ("what pruning ratio is best", "gip.fixed_ratio"),
    ],
)
def test_a_reader_of_a_paper_asks_in_plain_words(question: str, best: str) -> None:
    assert _names(question, 1) == [best]


def test_words_that_every_question_has_are_not_asked_for_but_where_nothing_else_is() -> None:
    plain, asked = find("kappa", max_matches=1000), find("what is a kappa", max_matches=1000)
    assert asked.whole and {one.name for one in asked.matches} == {one.name for one in plain.matches}
    assert find("is").matches and not find("xyzzy is").matches


def test_a_label_and_its_number_are_one_word() -> None:
    """Not one here and the other there: "proposition" and "2" alone stand in dozens of rows."""
    found = [claims.get(one.name) for one in find("Proposition 2", max_matches=1000).matches if one.kind == "claim"]
    texts = {row.id: " ".join((row.source.label, row.statement, *row.conditions, str(row.correction))) for row in found}
    assert texts and [id for id, text in texts.items() if not re.search(r"[Pp]roposition 2(?!\.?\d)", text)] == []
    assert "gip.mse_t0" not in [one.name for one in find("Proposition 20", max_matches=1000).matches]


def test_all_words_have_to_fit() -> None:
    both = {one.name for one in find("kappa freezing", max_matches=1000).matches}
    one, other = ({m.name for m in find(word, max_matches=1000).matches} for word in ("kappa", "freezing"))
    assert both == one & other != one


def test_a_match_says_what_to_type_next() -> None:
    best = next(one for one in find("gip.mse_t0").matches)
    assert (best.kind, best.verdict, best.label, best.title) == (
        "claim", Verdict.FALSE, "Proposition 2", "top-k pruning MSE",
    )  # fmt: skip
    assert best.next_steps == (
        "dptheory claim gip.mse_t0",
        "from dptheory.pruning import top_k_mse",
        "proofs/gip/mse_t0.md",
    )


def test_every_next_step_can_be_taken() -> None:
    known = {claim.id for claim in claims.all_claims()}
    root = Path(__file__).parents[1]
    wrong, imports = [], set()
    for step in {step for one in module._index() for step in one.match.next_steps}:
        if step.endswith(" --help") or step == "dptheory claim ID --cite":
            continue  # tests/cli/test_app.py asks for them
        if step.startswith("dptheory claim "):
            wrong += [step] if step.removeprefix("dptheory claim ") not in known else []
        elif step.startswith("from "):
            imports.add(step)
        elif not (root / step).is_file():
            wrong.append(step)
    exec("\n".join(sorted(imports)), {})
    assert wrong == [] and len(imports) > 100


@pytest.mark.parametrize("name", ["PosteriorFreeze", "LayerFreezing", "draw_mask"])
def test_a_mechanism_is_found_by_its_name(name: str) -> None:
    assert find(name).matches[0].name == f"dptheory.training.mechanisms.{name}"


def test_nothing_found_names_what_is_near() -> None:
    found = find("kapa")
    assert (found.matches, found.found, found.near) == ((), 0, ("kappa",))


def test_a_question_in_words_of_which_some_fit_nothing_is_answered() -> None:
    """Both had no answer."""
    for question in ("gradient index pruning beats DP-SGD accuracy", "GIP accuracy better than DP-SGD"):
        found = claims.find(question)
        assert not found.whole and found.matches[0].name == "gip.cor1"
    assert claims.find("GIP Proposition 2").whole
    assert "proposition 2" in find("GIP Proposition 9").near
    assert find("kappa").near == ()


def test_as_many_as_asked_for_the_best_first() -> None:
    few, all_of_them = find("freezing", max_matches=2), find("freezing", max_matches=1000)
    assert len(few.matches) == 2 and few.found == all_of_them.found == len(all_of_them.matches) > 20
    assert few.matches == all_of_them.matches[:2]
    scores = [one.score for one in all_of_them.matches]
    assert scores == sorted(scores, reverse=True) and scores[-1] > 0


def test_without_the_repository_the_glossary_is_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert find("kappa").glossary
    monkeypatch.setattr(module, "_GLOSSARY", tmp_path / "glossary.md")
    module._index.cache_clear()
    try:
        found = find("kappa", max_matches=1000)
    finally:
        module._index.cache_clear()
    assert not found.glossary and found.matches
    assert {one.kind for one in found.matches} <= {"command", "claim", "function"}


def test_results_are_plain_data() -> None:
    found = find("kappa")
    assert dataclasses.replace(found) == found == find("kappa")


# --- Checks of several claims in one call: which run, what the report says of them, who is told ---


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
        ({"seed": -1}, "seed"),
        ({"patterns": "gip.eq18"}, "patterns"),
        ({"patterns": None}, "patterns"),
        ({"executor": 3}, "executor"),
        ({"watcher": print}, "watcher"),
    ],
)
def test_arguments_are_judged_before_anything_runs(
    wrong: dict[str, object], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Claim, "check", lambda *_: pytest.fail("a check ran"))
    with refused(says):
        claims.check_claims(**({"patterns": ["gip.eq18"]} | wrong))  # type: ignore[arg-type]


# --- Writing pages: what is written is named, and nothing is written in a folder that is not that of the pages ---


def _folder(tmp_path: Path) -> Path:
    for paper in claims.PAPERS:
        (tmp_path / paper).mkdir()
    return tmp_path


def test_what_was_written_is_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    page, erratum = folder / "gip" / "eq18.md", folder / "gip" / "erratum.md"
    page.write_text("by hand")
    erratum.write_text("[gip.mse_t0](mse_t0.md)\n<!-- verdicts:begin -->\nold\n<!-- verdicts:end -->\n")
    found = claims.write_pages(folder)
    assert found.ledger.read_text() == claims.ledger_markdown(claims.all_claims())
    assert "[exact value of kappa](rs/kappa.md)" in found.own_results.read_text()
    assert found.errata == (erratum,)
    treated, rest = erratum.read_text().split("\n\n| the others |")
    assert "[Proposition 2 (eq. 7, 14 to 16)](mse_t0.md) FALSE" in treated and "](cor1.md)" in rest
    written = {path for path in folder.rglob("*") if path.is_file()}
    assert written == {found.ledger, found.own_results, erratum, page} and page.read_text() == "by hand"


def test_nothing_is_written_where_an_erratum_lacks_its_markers(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder / "rf" / "erratum.md").write_text("no markers")
    with refused("page", folder / "rf" / "erratum.md"):
        claims.write_pages(folder)
    assert not (folder / "README.md").exists()


@pytest.mark.parametrize(
    "value", [None, 3, b"gip", "no such folder", [], Path("no such folder"), Path(__file__).parent]
)
def test_a_directory_is_that_of_the_pages(value: object) -> None:
    with refused("directory", *claims.PAPERS):
        claims.write_pages(value)  # type: ignore[arg-type]


def test_the_whole_page_shows_outcomes_where_there_are_some() -> None:
    claim = claims.get("gip.eq18")
    listed = claims.page_markdown(claim)
    assert "| number of zeros | counterexample |\n" in listed and "`dptheory check gip.eq18`" in listed
    evidence = claim.check(20.0, seed=3)
    shown = claims.page_markdown(claim, evidence)
    assert "Seed 3." in shown and "| number of zeros | counterexample | yes |" in shown


def test_the_whole_page_is_of_a_claim() -> None:
    for bad in ({"claim": "gip.eq18"}, {"evidence": None}, {"evidence": ["yes"]}, {"evidence": "yes"}):
        with refused(next(iter(bad))):
            claims.page_markdown(**{"claim": claims.get("gip.eq18")} | bad)  # type: ignore[arg-type]
