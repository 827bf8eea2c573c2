"""What decides about a claim: each has its rule, each rule a comparison that its study makes, and wrong ones are refused."""

import dataclasses
import fnmatch
import math
import re
import shutil
from pathlib import Path

import pytest

from dptheory import claims
from dptheory.training.studies import _comparisons, _results, _rules, _verdicts
from dptheory.training.studies._rules import Condition, read_contradicted, read_forecasts, read_rules, read_studies
from dptheory.training.studies._statistics import Difference
from dptheory.training.studies._study import Comparison

STUDIES = read_studies()
BESIDE = (
    'beside = """\nat a thousand times the index budget GIP is the same run in 12 of the 16 seeds: what is asked of both is '
    'nearly one comparison"""'
)


def comparison(margin: float | None = 0.5) -> Comparison:
    return Comparison(("final",), "masked", "plain", "difference", margin)


@pytest.mark.parametrize(
    ("relation", "target", "words"),
    [
        ("higher", (0.0, math.inf), "above 0"),
        ("lower", (-math.inf, 0.0), "below 0"),
        ("not higher", (-math.inf, 0.5), "below 0.5"),
        ("not lower", (-0.5, math.inf), "above -0.5"),
        ("equal", (-0.5, 0.5), "within 0.5 of 0"),
    ],
)
def test_where_the_interval_has_to_lie(relation: str, target: tuple[float, float], words: str) -> None:
    condition = Condition(comparison(), relation)
    assert condition.target == target and str(condition) == words


def test_every_measured_claim_has_its_rule_and_every_study_its_forecast() -> None:
    rules, forecasts = read_rules(STUDIES), read_forecasts(STUDIES)
    assert (
        list(rules) == [claim.id for claim in claims.all_claims(verdict=claims.Verdict.EMPIRICAL)] and len(rules) == 57
    )
    assert all(bool(rule.by) + bool(rule.reason) + bool(rule.measured) == 1 for rule in rules.values())
    assert sum(bool(rule.measured) for rule in rules.values()) == 20
    asked = {(id, one.study.name) for id, rule in rules.items() for one in rule.by}
    assert asked == {(id, study.name) for study in STUDIES.values() for id in study.answers}
    assert list(forecasts) == list(STUDIES) and all(forecasts.values())
    by = [one.study.name for one in rules["rs.table2"].by]
    assert by == ["cuda_sparsification", "masking"]  # the paper's network and data first


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copytree(_rules.HOME / "answers", tmp_path / "answers")
    shutil.copy(_rules.HOME / "instruments.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("rs", 'relation = "higher"', 'relation = "better"', "rs.toml, rs.table2: relation must be one of"),
        ("rs", 'relation = "higher"', 'relation = "equal"', "rs.toml, rs.table2: relation must not be 'equal'"),
        ("rs", 'arm = "sparsification-70"', 'arm = "freeze-70"', "rs.table2: conditions must name comparisons of study 'cuda_s"),
        ("rs", 'study = "cause"', 'study = "causes"', "rs.fig2: study must be one of"),
        ("gip", "[table1]\nreason", "[table1]\nreasons", "gip.table1: there is no key reasons"),
        ("gip", "[table1]\n", "[table9]\n", "a rule per measured claim, got ['gip.table1', 'gip.table9']"),
        ("rs", "epsilon 1.0, difference", "epsilon 9.0, difference", "rs.table2.reported must be one of"),
        ("rs", 'question = "With clipping', 'question = ""\n# ', "rs.fig3: question must say something"),
        ("gip", "[table1]\nreason", '[table1]\ncost = "x"\n# ', "gip.table1: by, measured or reason must be given"),
        ("gip", "[table1]", "[table1", "gip.toml is not TOML"),
        ("gip", "[assumption1.measured]", '[assumption1]\nquestion = "?"\n[assumption1.measured]', "question must stand with reason"),
        ("gip", BESIDE, 'beside = ""', "gip.table5: beside must say something"),
        ("lf", 'corrected = "asked', 'corrected = ""\n# "', "lf.asm3.2: corrected must say something"),
        ("rf", 'corrected = "asked', 'corrected = ""\n# "', "rf.table4: corrected must say something"),
        ("rs", 'quantity = "ranked_overlap"', 'quantity = "overlap"', "rs.fig12: quantity must be one of"),
        ("rs", 'reported = ["random against ranked"]', 'reported = ["x"]', "rs.fig12.reported must be one of"),
        ("gip", 'study = "cuda_index_pruning"\nquestion = "With WRN-16-4 on CIFAR-10 at epsilon = 1, is GIP above DP',
         'study = "index_pruning"\nquestion = "', "gip.table6: conditions must name comparisons"),
        ("forecasts", "[masking]", "[masks]", "a forecast per study, got ['masking', 'masks']"),
        ("forecasts", 'arm = "freeze-50"', 'arm = "plain"', "forecasts.toml, masking: conditions must name comparisons"),
    ],
)  # fmt: skip
def test_wrong_rules_are_refused(home: Path, file: str, old: str, new: str, says: str) -> None:
    path = home / "answers" / f"{file}.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError) as caught:
        read_forecasts(STUDIES, home) if file == "forecasts" else read_rules(STUDIES, home)
    assert says in str(caught.value)


def test_instruments_are_those_of_the_folder(home: Path) -> None:
    assert read_rules(STUDIES, home) == read_rules(STUDIES)
    text = (home / "instruments.toml").read_text(encoding="utf-8")
    (home / "instruments.toml").write_text(text.replace("[masks", "[others"), encoding="utf-8")
    with pytest.raises(ValueError, match="instrument must be one of"):
        read_rules(STUDIES, home)


def test_a_claim_and_a_study_that_do_not_know_each_other_are_refused() -> None:
    cause = STUDIES["cause"]
    for answers, says in (
        (("rs.fig2",), "rs.fig3.study must be one that answers it, got 'cause'"),
        (("rs.fig2", "rs.fig3", "rs.fig5"), "rs.fig5 must have a rule for study 'cause'"),
    ):
        changed = STUDIES | {"cause": dataclasses.replace(cause, answers=answers)}
        with pytest.raises(ValueError) as caught:
            read_rules(changed)
        assert says in str(caught.value)


def test_a_margin_has_to_be_there() -> None:
    cause = STUDIES["cause"]
    bare = dataclasses.replace(
        cause, comparisons=tuple(dataclasses.replace(one, margin=None) for one in cause.comparisons)
    )
    with pytest.raises(
        ValueError, match="fig2: relation must be 'higher' or 'lower' where the comparison has no margin"
    ):
        read_rules(STUDIES | {"cause": bare})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[masks]\ntext = "x"\n', "contradicted.toml: study must be one of"),
        ('[masking]\nwords = "x"\n', "contradicted.toml, masking: there is no key words"),
        ('[masking]\ntext = ""\n', "contradicted.toml, masking: text must say something"),
    ],
)
def test_wrong_words_are_refused(home: Path, text: str, says: str) -> None:
    (home / "answers" / "contradicted.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(says)):
        read_contradicted(STUDIES, home)


def test_numbers_of_the_words_on_the_cause_are_those_of_the_results() -> None:
    text = " ".join(read_contradicted(STUDIES)["cause"].split())
    study, results = STUDIES["cause"], _rules.HOME.parents[1] / "proofs" / "results"
    find, rows = _verdicts.committed(study, results), _results.read(results / "cause.jsonl")

    def last(phases: tuple[str, ...], arm: str) -> Difference:
        made = _comparisons.compare(study, Comparison(phases, arm, arm.split("-")[0]), find)
        assert made is not None
        return made.last

    half, most = (last(("noise-1-no-clip", "noise-4-no-clip"), f"noisy-{rate}") for rate in (50, 90))
    assert half.low > 0 > most.low
    said = f"p = {half.sign_flip_p:.3f} by signs, {len(study.comparisons) * half.sign_flip_p:.2f} corrected"
    assert f"{half.mean:.2f} points ({half.low:.2f} to {half.high:.2f}), both noise levels together ({said}" in text
    assert f"open ({most.mean:.2f}, {most.low:.2f} to {most.high:.2f})" in text

    def accuracies(name: str) -> list[float]:
        made = fnmatch.filter(rows, name)
        assert len(made) == 4, name
        return [rows[one]["epochs"]["test_accuracy"][-1] for one in made]

    cells = {one.name: one.arms for one in study.phases if not one.name.endswith("no-clip")}
    assert len(cells) == 8 and "noise-4-large-clip" in cells
    for cell, (plain, *masked) in cells.items():
        assert len(masked) == 2
        for arm in masked:
            pairs = zip(accuracies(f"{cell}_{arm}_*"), accuracies(f"{cell}_{plain}_*"), strict=True)
            assert all(one < other for one, other in pairs), (cell, arm)
