"""What decides about a claim: each has its rule, each rule a comparison that its study makes, and wrong ones are refused."""

import dataclasses
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dptheory import claims
from training.runs import _comparisons, _plan, _rules, _verdicts
from training.runs._rules import Condition, read_contradicted, read_forecasts, read_rules, read_studies
from training.runs._statistics import Difference
from training.runs._study import Comparison

STUDIES = read_studies()


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
        list(rules) == [claim.id for claim in claims.all_claims(verdict=claims.Verdict.EMPIRICAL)] and len(rules) == 49
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
    for folder in ("answers", "instruments"):
        shutil.copytree(_rules.HOME / folder, tmp_path / folder)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("rs", 'relation = "higher"', 'relation = "better"', "rs.toml, rs.table2: relation must be one of"),
        ("rs", 'relation = "higher"', 'relation = "equal"', "rs.toml, rs.table2: relation must not be 'equal'"),
        ("rs", 'arm = "sparsification-70"', 'arm = "freeze-70"', "rs.table2: conditions must name comparisons of study 'cuda_s"),
        ("rs", 'study = "cause"', 'study = "causes"', "rs.fig2: study must be one of"),
        ("gip", "[fig5]\nreason", "[fig5]\nreasons", "gip.fig5: there is no key reasons"),
        ("gip", "[fig5]\n", "[fig9]\n", "a rule per measured claim, got ['gip.fig5', 'gip.fig9']"),
        ("rs", "epsilon 1.0, difference", "epsilon 9.0, difference", "rs.table2.reported must be one of"),
        ("rs", 'question = "Does', 'question = ""\n# ', "rs.fig2: question must say something"),
        ("gip", "[fig5]\nreason", '[fig5]\ncost = "x"\n# ', "gip.fig5: by, measured or reason must be given"),
        ("gip", "[fig5]", "[fig5", "gip.toml is not TOML"),
        ("rs", 'quantity = "ranked_overlap"', 'quantity = "overlap"', "rs.fig12: quantity must be one of"),
        ("rs", 'reported = ["random against ranked", "epochs"]', 'reported = ["x"]', "rs.fig12.reported must be one of"),
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
    (home / "instruments" / "masks.toml").unlink()
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


def test_numbers_of_the_words_on_masking_are_those_of_the_results() -> None:
    text = read_contradicted(STUDIES)["masking"]
    study, results = STUDIES["masking"], _rules.HOME.parents[1] / "proofs" / "results"
    find = _verdicts.committed(study, results)
    made = {one.arm: _comparisons.compare(study, one, find) for one in study.comparisons if one.phases == ("final",)}
    above = sorted(one.last.mean for arm, one in made.items() if one.last.low > 0)
    masked = [arm for arm in made if arm != "dp-sgd-partition"]
    assert (len(above), len(masked)) == (3, 4) and f"{above[0]:.2f} to {above[-1]:.2f} points above DP-SGD" in text
    phase = study.phase("final")
    chosen = {_plan.chosen(study, phase, arm, find)["optimizer.learning_rate"] for arm in ("dp-sgd", *masked)}
    assert chosen == {4.0}
    between = Comparison(("final",), "sparsification-90", "sparsification-50")
    found = _comparisons.compare(study, between, find).last
    words = " ".join(text.split())
    (winner,) = (one for one in study.comparisons if one.phases == ("final-epsilon-3",))
    last = _comparisons.compare(study, winner, find).last
    assert f"is {-last.mean:.2f} points below ({-last.high:.2f} to {-last.low:.2f})" in words and last.high < 0
    assert f"by {found.mean:.2f} points ({found.low:.2f} to {found.high:.2f};" in words
    tuning = study.phase("tuning")
    accuracies = dict.fromkeys((2.0, 4.0, 8.0), 0.0)
    for run in _plan.runs_of(study, tuning, "dp-sgd", find):
        if run.point["optimizer.learning_rate"] in accuracies:
            accuracies[run.point["optimizer.learning_rate"]] += 100 * find(run)["epochs"]["test_accuracy"][-1] / 2
    curve = np.polyfit(np.log2(list(accuracies)), list(accuracies.values()), 2)
    top = -curve[1] / (2 * curve[0])
    assert curve[0] < 0 and len(tuning.seeds) == 2
    assert f"top at {2**top:.1f}, {np.polyval(curve, top) - accuracies[4.0]:.2f} points above 4." in words


def test_numbers_of_the_words_on_handcrafted_features_are_those_of_the_results() -> None:
    text = " ".join(read_contradicted(STUDIES)["handcrafted"].split())
    study, results = STUDIES["handcrafted"], _rules.HOME.parents[1] / "proofs" / "results"
    find = _verdicts.committed(study, results)
    made = {
        (*one.phases, one.arm, one.against): _comparisons.compare(study, one, find).last for one in study.comparisons
    }
    gain = made["final", "ranked-freeze", "freeze"]
    assert (
        f"is {gain.mean:.2f} points ({gain.low:.2f} to {gain.high:.2f}) above random freeze" in text and gain.low > 0.5
    )
    for arm, words in (("freeze", "random freeze is {} below DP-SGD"), ("ranked-freeze", "is still {} below DP-SGD")):
        loss = made["final", arm, "dp-sgd"]
        assert words.format(f"{-loss.mean:.2f} ({-loss.high:.2f} to {-loss.low:.2f})") in text and loss.high < 0
    assert all(one.low < 0 < one.high for (phase, *_), one in made.items() if phase == "linear")


def test_numbers_of_the_words_on_the_cause_are_those_of_the_results() -> None:
    text = " ".join(read_contradicted(STUDIES)["cause"].split())
    study, results = STUDIES["cause"], _rules.HOME.parents[1] / "proofs" / "results"
    find = _verdicts.committed(study, results)

    def last(phases: tuple[str, ...], arm: str) -> Difference:
        made = _comparisons.compare(study, Comparison(phases, arm, arm.split("-")[0]), find)
        assert made is not None
        return made.last

    half, most = (last(("noise-1-no-clip", "noise-4-no-clip"), f"noisy-{rate}") for rate in (50, 90))
    assert half.low > 0 and most.low > 0
    assert f"{half.mean:.2f} points ({half.low:.2f} to {half.high:.2f}) at 50 percent" in text
    assert f"{most.mean:.2f} ({most.low:.2f} to {most.high:.2f}) at 90" in text

    def interval(arm: str, *cells: str) -> tuple[float, float, float]:
        """Mean of the paired differences in points, with the ends of its 95 % interval."""
        points = []
        for name in (arm, arm.split("-")[0]):
            files = [one for cell in cells for one in sorted((results / "cause").glob(f"{cell}_{name}_seed=*.json"))]
            assert len(files) == 4 * len(cells)
            points.append(
                [100 * json.loads(one.read_text(encoding="utf-8"))["epochs"]["test_accuracy"][-1] for one in files]
            )
        differences = np.subtract(*points)
        half = stats.t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / len(differences) ** 0.5
        return differences.mean(), differences.mean() - half, differences.mean() + half

    allowed, others = "noise-4-large-clip", ("noise-1-small-clip", "noise-1-large-clip", "noise-4-small-clip")
    one, other = (interval(f"both-{rate}", allowed) for rate in (50, 90))
    assert one[1] < 0 < one[2] and other[1] < 0 < other[2]
    assert (
        f"(4 pairs: {one[0]:.2f}, {one[1]:.2f} to {one[2]:.2f}, at 50 percent, {other[0]:.2f}, {other[1]:.2f} to"
        in text
    )
    assert f"to {other[2]:.2f}, at 90)" in text
    assert all(interval(f"both-{rate}", cell)[2] < 0 for cell in others for rate in (50, 90))
    mean, low, high = interval("both-50", "noise-1-large-clip", "noise-4-small-clip")
    differs = read_rules(STUDIES)["rs.fig2"].by[0].differs
    assert (
        f"The two cells of 1 alone, asked after the results: {mean:.2f} [{low:.2f}, {high:.2f}] points over 8"
        in differs
    )
