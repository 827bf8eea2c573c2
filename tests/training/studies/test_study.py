"""Studies: what a file says, which runs there are, what is compared."""

import dataclasses
import fnmatch
import itertools
import math
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dptheory import claims
from dptheory.training.runs import _config
from dptheory.training.studies import (
    _comparisons,
    _results,
    _rules,
    _study,
    _verdicts,
    compare,
    read_study,
    study_from_dict,
)
from dptheory.training.studies import _plan as plans
from dptheory.training.studies._plan import PlannedRun
from dptheory.training.studies._results import Result
from dptheory.training.studies._rules import Condition, read_contradicted, read_forecasts, read_rules, read_studies
from dptheory.training.studies._statistics import Difference, equivalence, paired_difference, sign_flip_p
from dptheory.training.studies._study import Comparison, Phase, Study, merged
from tests.refused import refused
from tests.training.studies.invented import MOMENTUM, RATE, TABLE, changed, find_by, study

# --- Studies: what a file may say, what its configurations become, and how each mistake is answered ---


NAMED = {"name": "random-k", "keep_share": 0.5}


def test_a_study_holds_what_its_table_says() -> None:
    found = study({**TABLE, "title": "  Invented\n", "answers": ["a", "b"], "device": "cuda"})
    assert (found.name, found.title, found.question) == ("invented", "Invented", "Is it counted right?")
    assert (found.forecast, found.cost, found.answers, found.device) == ("Yes.", "Nothing.", ("a", "b"), "cuda")
    assert found.phases == (
        Phase("tuning", ("plain", "masked"), (100, 101), vary={RATE: (0.5, 1.0, 2.0), MOMENTUM: (0.0, 0.5)}),
        Phase("final", ("plain", "masked", "twin"), tuple(range(16)), {"epochs": 3}, tuned_by="tuning",
              tuned_as={"twin": "plain"}),
        Phase("again", ("plain",), tuple(range(50, 58)), per_arm={"twin": {"epochs": 7}}, winner_of="final",
              winner_among=("masked", "twin")),
    )  # fmt: skip
    assert found.comparisons == (
        Comparison(("final",), "masked", "plain", main=True),
        Comparison(("final",), "twin", "plain", "equivalence", 0.5),
        Comparison(("again",), "winner", "plain"),
    )
    assert [c.main for c in found.comparisons] == [True, False, False] and found.comparisons[0].kind == "difference"
    assert found.phase("final") is found.phases[1]
    plain = study()
    assert (plain.answers, plain.device) == ((), "any")


def test_the_winner_may_be_any_arm_that_does_not_run_anyway() -> None:
    assert study(changed("phases/again/winner_among", None)).phase("again").winner_among == ("masked", "twin")


def test_changes_come_one_after_the_other() -> None:
    """Base, arm, phase, arm in the phase, point: the later ones count."""
    table = changed("phases/tuning/changes", {"epochs": 5, "delta": 1e-6})
    table["arms"]["plain"] = {"epochs": 4, "seed": 9, "optimizer": {"weight_decay": 0.5}}
    table["phases"]["tuning"]["per_arm"] = {"plain": {"delta": 1e-7, "optimizer": {"momentum": 0.125}}}
    made = study(table)
    found = made.config("tuning", arm="plain", point={RATE: 2.0, "max_grad_norm": 3}, seed=77)
    assert (found.epochs, found.delta, found.max_grad_norm, found.seed) == (5, 1e-7, 3.0, 77)
    assert (found.optimizer.learning_rate, found.optimizer.momentum, found.optimizer.weight_decay) == (2.0, 0.125, 0.5)
    other = made.config("tuning", arm="masked", point={}, seed=77)
    assert (other.delta, other.optimizer.momentum) == (1e-6, 0.25) and other.mechanism == NAMED


def test_merged() -> None:
    table = {"a": 1, "t": {"x": 1, "y": {"z": 2}}, "m": {"name": "old", "k": 1}, "gone": 3}
    assert merged(table, {}) == table
    assert merged(table, {"a": 2, "b": 5}) == table | {"a": 2, "b": 5}
    assert merged(table, {"t": {"y": {"w": 3}}})["t"] == {"x": 1, "y": {"z": 2, "w": 3}}
    assert merged(table, {"m": {"k": 2}})["m"] == {"name": "old", "k": 2}
    assert merged(table, {"m": {"name": "new", "j": 2}})["m"] == {"name": "new", "j": 2}
    assert merged(table, {"t": 4})["t"] == 4 and merged(table, {"a": {"x": 1}})["a"] == {"x": 1}
    assert merged(table, {"unset": ["gone", "m"]}) == {"a": 1, "t": table["t"]}
    assert merged(table, {"m": {"unset": ["k"]}})["m"] == {"name": "old"}
    assert table["t"] == {"x": 1, "y": {"z": 2}}


TEXT = """
title = "A"
question = "B"
forecast = "C"
cost = "D"
base = {data = "excerpt", model = "linear-probe", epochs = 1, batch_size = 9, max_grad_norm = 1.0, noise_multiplier = 1.0}
arms = {one = {}, other = {}}
phases.only.seeds = {first = 3, count = 8}
comparisons = [{phases = ["only"], arm = "one", against = "other", main = true}]
"""


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One's own, by any path, come before those of the package; these are found from anywhere."""
    package = tmp_path / "package"
    for folder, title in ((tmp_path, "mine"), (package, "packaged")):
        (folder / "configs" / "studies").mkdir(parents=True)
        (folder / "configs" / "studies" / "a.toml").write_text(TEXT.replace('"A"', f'"{title} ü"'), encoding="utf-8")
    (package / "configs" / "studies" / "b.toml").write_text(TEXT)
    (package / "configs" / "c.toml").write_text(TEXT)
    monkeypatch.setattr(_study, "_FOLDER", package)
    monkeypatch.chdir(tmp_path)
    a, b = Path("configs/studies/a.toml"), Path("configs/studies/b.toml")
    assert (read_study(a).title, read_study(a).name) == ("mine ü", "a") == (read_study(tmp_path / a).title, "a")
    assert read_study(package / a).title == "packaged ü" and read_study(b).title == "A"
    assert read_study(b).phases[0].seeds == tuple(range(3, 11))
    for missing in (Path("none.toml"), tmp_path / b):
        with pytest.raises(FileNotFoundError) as error:
            read_study(missing)
        assert str(error.value) == (
            f"no file {missing}; the package brings configs/studies/a.toml, configs/studies/b.toml"
        )
    (tmp_path / "broken.toml").write_text("title = ")
    with refused("broken.toml"):
        read_study(Path("broken.toml"))
    (tmp_path / "broken.toml").write_text("title = 3")
    with refused("title", "broken.toml", 3):
        read_study(Path("broken.toml"))


def test_the_package_is_where_its_configurations_are() -> None:
    for folder in (_study._FOLDER, _config._HERE):
        assert (folder / "configs" / "studies").is_dir() and (folder / "_commands.py").is_file()


GRID = "phases/tuning/vary"


@pytest.mark.parametrize(
    "case",
    [
        ("colour", 1, "colour"),
        ("cost", 3, "cost", "3"),
        ("title", None, "title"),
        ("device", "tpu", "device"),
        ("base/epochs", 0, "epochs"),
        ("base/lr", 1, "lr"),
        ("arms/winner", {}, "arms"),
        ("phases/tuning/seeds", [1, 1], "phases.tuning.seeds"),
        ("phases/tuning/seeds", None, "phases.tuning.seeds"),
        ("phases/tuning/arms", ["none"], "phases.tuning.arms", "'plain'"),
        ("phases/tuning/tuned_by", "final", "phases.tuning.tuned_by"),
        ("phases/final/seeds", [100, *range(15)], "phases.final.seeds", "'tuning'"),
        ("phases/final/tuned_as", {}, "phases.final.tuned_by"),
        ("phases/final/vary", {"epochs": [1]}, "phases.final.vary"),
        ("phases/again/seeds", {"first": 7, "count": 8}, "phases.again.seeds", "'final'"),
        ("phases/again/seeds", {"first": 50, "count": 7}, "comparisons.phases", "8", "7"),
        ("phases/again/per_arm", {"none": {}}, "phases.again.per_arm"),
        ("phases/final/seeds", {"count": 15}, "comparisons.phases", "16", "15"),
        ("comparisons/0/main", False, "comparisons", "0"),
        ("comparisons/0/arm", "winner", "comparisons.arm"),
        ("comparisons/0/phases", ["tuning"], "comparisons.phases"),
        ("comparisons/0/phases", ["final", "final"], "comparisons.phases"),
        ("question", "\n", "question"),
        ("arms", [], "arms"),
        ("phases", {}, "phases"),
        ("base", None, "base"),
        ("arms/plain", [], "arms.plain"),
        ("arms/a b", {}, "arms", "'-'", "'.'", "'winner'", "'a b'"),
        ("arms/.hidden", {}, "arms"),
        ("arms/-.", {}, "arms"),
        ("phases/winner", {}, "phases"),
        ("phases/a_b", {}, "phases"),
        ("phases/tuning/seed", [1], "phases.tuning.seed"),
        ("phases/tuning/seeds", {"first": 1, "number": 2}, "phases.tuning.seeds.number"),
        ("phases/tuning/seeds", {"first": -1, "count": 2}, "phases.tuning.seeds.first"),
        ("phases/tuning/seeds", {"count": 10_001}, "phases.tuning.seeds.count", "1..10000", "10001"),
        ("phases/tuning/seeds", {"first": 5}, "phases.tuning.seeds.count", "1..10000", "0"),
        ("phases/tuning/seeds", [], "phases.tuning.seeds"),
        ("phases/tuning/seeds", 7, "phases.tuning.seeds", "7"),
        ("phases/tuning/seeds", [-1, 2], "phases.tuning.seeds", "0..9223372036854775807", "-1"),
        (GRID, {RATE: []}, "phases.tuning.vary.optimizer.learning_rate"),
        (GRID, {RATE: [1.0, 1.0]}, "phases.tuning.vary.optimizer.learning_rate"),
        (GRID, {RATE: [0.0, 1.0]}, "optimizer.learning_rate", "[1e-15, 1e+06]", "0.0"),
        (GRID, {"optimizer.lr": [1.0]}, "optimizer.lr"),
        ("phases/final/tuned_by", None, "phases.final.tuned_by"),
        ("phases/final/tuned_as", {"none": "plain"}, "phases.final.tuned_as", "'plain'", "'masked'", "'twin'"),
        ("phases/final/tuned_as", {"twin": "none"}, "phases.final.tuned_by", "'tuning'"),
        ("phases/again/winner_of", "none", "phases.again.winner_of", "'tuning'", "'final'"),
        ("phases/again/winner_of", "again", "phases.again.winner_of", "'tuning'", "'final'"),
        ("phases/again/winner_among", ["none"], "phases.again.winner_among", "'plain'"),
        ("phases/again/winner_among", [], "phases.again.winner_among", "'final'"),
        ("phases/again/winner_among", ["plain", "twin"], "phases.again.winner_among", "'final'"),
        ("comparisons/0/arms", [], "comparisons.arms"),
        ("comparisons/0/phases", [], "comparisons.phases"),
        ("comparisons/0/phases", "final", "comparisons.phases", "'final'"),
        ("comparisons/0/phases", None, "comparisons.phases"),
        ("comparisons/0/phases", ["none"], "comparisons.phases", "'tuning'", "'final'", "'again'"),
        ("comparisons/0/arm", None, "comparisons.arm", "'plain'", "'masked'", "'twin'"),
        ("comparisons/0/against", None, "comparisons.against", "'plain'", "'masked'", "'twin'"),
        ("comparisons/2/against", "twin", "comparisons.against", "'plain'", "'winner'", "'twin'"),
        ("comparisons/0/kind", "order", "comparisons.kind", "'difference'", "'equivalence'"),
        ("comparisons/0/main", 1, "comparisons.main", "1"),
        ("comparisons/1/main", True, "comparisons", "2"),
        ("comparisons", None, "comparisons", "0"),
        ("comparisons/1/margin", None, "comparisons.margin", "(0, 100]"),
        ("comparisons/1/margin", 0.0, "comparisons.margin", "(0, 100]", "0"),
        ("comparisons/1/margin", 100.1, "comparisons.margin", "(0, 100]"),
        ("comparisons/0/margin", 0.0, "comparisons.margin", "(0, 100]"),
    ],
)  # fmt: skip
def test_refuses(case: tuple[Any, ...]) -> None:
    path, value, argument, *shown = case
    with refused(argument, *shown):
        study_from_dict("invented", changed(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("phases/tuning/vary/epochs", [1, 2]),
        ("phases/tuning/seeds", {"first": 10**9, "count": 10_000}),
        ("phases/tuning/seeds", [2**63 - 1]),
        ("comparisons/1/margin", 100.0),
        ("comparisons/0/margin", 0.001),
        ("phases/again/seeds", {"first": 50, "count": 8}),
        ("comparisons/1/phases", ["final"]),
    ],
)
def test_ends_of_ranges(path: str, value: Any) -> None:
    study_from_dict("invented", changed(path, value))


def test_names_of_arms_become_parts_of_file_names() -> None:
    table = changed("arms/a.b-1", {})
    table["phases"]["tuning"]["arms"].append("a.b-1")
    assert "a.b-1" in study_from_dict("invented", table).phase("final").arms


def test_new_seeds_and_all_errors_now() -> None:
    """Of phases that choose; and every arm's configuration is built once."""
    for seeds, phase in (([100], "tuning"), ([5], "final")):
        table = changed("phases/again/seeds", [*range(60, 67), *seeds])
        table["phases"]["again"]["tuned_by"] = "tuning"
        table["phases"]["again"]["winner_among"] = ["masked"]
        with refused("phases.again.seeds", phase):
            study_from_dict("invented", table)
    with refused("batch_size"):
        study_from_dict("invented", changed("arms/twin/batch_size", 0))


def test_a_winner_is_tuned_by_a_phase_that_has_it() -> None:
    """twin was never tuned itself: were it the winner, its runs would wait for ever."""
    with refused("phases.again.tuned_by", "'tuning'"):
        study_from_dict("invented", changed("phases/again/tuned_by", "tuning"))
    table = changed("phases/again/tuned_by", "tuning")
    table["phases"]["again"]["winner_among"] = ["masked"]
    assert study_from_dict("invented", table).phase("again").tuned_by == "tuning"


def winners(among: list[str], winner_of: str = "final") -> dict[str, Any]:
    """The last phase has the winner of another one, tuned by a phase that has it too."""
    table = changed("phases/more", {"arms": ["plain"], "seeds": [90], "winner_of": "final", "vary": {RATE: [0.5, 1.0]},
                                    "winner_among": ["masked", "twin"]})  # fmt: skip
    again = table["phases"].pop("again")
    table["phases"]["again"] = again | {"tuned_by": "more", "winner_of": winner_of, "winner_among": among}
    return table


def test_a_winner_is_tuned_as_the_winner_of_the_same_phase_among_the_same_arms() -> None:
    assert study_from_dict("invented", winners(["masked", "twin"])).phase("again").tuned_by == "more"
    for among, of in ((["masked"], "final"), (["masked"], "tuning")):
        with refused("phases.again.tuned_by", "'more'"):
            study_from_dict("invented", winners(among, of))


# Which runs there are: every arm, point and seed once; what is chosen is the best mean, and nothing before all
# results


POINTS = [(rate, momentum) for rate in (0.5, 1.0, 2.0) for momentum in (0.0, 0.5)]


def at(run: PlannedRun) -> tuple[float, float]:
    return run.point[RATE], run.point[MOMENTUM]


def tuned(run: PlannedRun) -> float | None:
    """Of the tuning: plain is best at (1, 0.5), masked at (2, 0)."""
    if run.phase != "tuning":
        return None
    best = {"plain": (1.0, 0.5), "masked": (2.0, 0.0)}[run.arm]
    return (0.6 if at(run) == best else 0.5) + 0.01 * (run.config.seed == 101)


def test_before_any_result_the_first_phase_alone_is_known() -> None:
    plan = plans.plan(study(), find_by(lambda run: None))
    tuning = [run for run in plan.runs if run.phase == "tuning"]
    assert [(run.config.seed, run.arm, at(run)) for run in tuning] == [
        (seed, arm, point) for seed in (100, 101) for arm in ("plain", "masked") for point in POINTS
    ]
    assert [run.arm for run in plan.runs[24:]] == ["plain"] * 8  # of the last phase: this arm waits for nothing
    assert plan.runs[1].name == "tuning_plain_learning_rate=0.5_momentum=0.5_seed=100"
    optimizer = plan.runs[1].config.optimizer
    assert (optimizer.learning_rate, optimizer.momentum) == (0.5, 0.5)


def test_before_any_result_runs_to_come_are_counted_with_their_epochs() -> None:
    plan = plans.plan(study(), find_by(lambda run: None))
    assert plan.waiting == {"final": 48, "again": 8}
    assert plan.waiting_epochs == 48 * 3 + 8 * 2
    assert Counter(run.phase for run in plan.runs) == {"tuning": 24, "again": 8}
    grid = changed("phases/again/vary", {RATE: [0.5, 1.0]})
    del grid["comparisons"][2]
    plan = plans.plan(study(grid), find_by(lambda run: None))
    assert plan.waiting["again"] == 2 * 8 and plan.waiting_epochs == 48 * 3 + 2 * 8 * 2


def extended() -> dict[str, Any]:
    table = changed("phases/tuning/vary", {RATE: [0.5, 1.0, 4.0]})
    table["phases"]["tuning"]["extend"] = True
    return table


def rates_tried(wanted: Study, best: float) -> list[float]:
    """By an arm whose accuracy falls with the distance from a rate."""
    find = find_by(lambda run: 0.9 - abs(math.log(run.config.optimizer.learning_rate / best)) / 100)
    rates = [run.point[RATE] for run in plans.runs_of(wanted, wanted.phase("tuning"), "plain", find) or ()]
    assert rates[::2] == rates[1::2], "two seeds each"
    return rates[::2]


def test_a_grid_goes_on_until_the_best_is_inside() -> None:
    """Beyond each end by its own last ratio; for eight values at most."""
    wanted = study(extended())
    assert rates_tried(wanted, 1.0) == [0.5, 1.0, 4.0]
    assert rates_tried(wanted, 17.0) == [0.5, 1.0, 4.0, 16.0, 64.0]
    assert rates_tried(wanted, 0.25) == [0.125, 0.25, 0.5, 1.0, 4.0]
    assert len(rates_tried(wanted, 1e9)) == 3 + 8
    assert rates_tried(study(changed("phases/tuning/vary", {RATE: [0.5, 1.0, 4.0]})), 17.0) == [0.5, 1.0, 4.0]


def test_what_a_grid_tunes_waits_until_the_best_is_inside() -> None:
    wanted = study(extended())
    known = {0.5: 0.1, 1.0: 0.2, 4.0: 0.3, 16.0: 0.2}

    def chosen(rates: dict[float, float]) -> dict[str, float] | None:
        return plans.chosen(
            wanted, wanted.phase("final"), "plain", find_by(lambda run: rates.get(run.config.optimizer.learning_rate))
        )

    assert chosen({rate: known[rate] for rate in (0.5, 1.0, 4.0)}) is None
    assert chosen(known) == {RATE: 4.0}
    whole = find_by(lambda run: known.get(run.config.optimizer.learning_rate))
    assert plans.chosen_in_words(wanted, wanted.phase("final"), "plain", whole) == f"{RATE} = 4"


@pytest.mark.parametrize("vary", [{}, {RATE: [1.0]}, {RATE: [0.0, 1.0]}, {RATE: [1.0, 2.0], MOMENTUM: [0.5, 0.6]}])
def test_only_a_grid_of_one_positive_key_goes_on(vary: dict[str, list[float]]) -> None:
    table = extended()
    table["phases"]["tuning"]["vary"] = vary
    with refused("phases.tuning.extend"):
        study(table)


def test_what_was_chosen_at_an_end_of_the_grid_is_said_to_be() -> None:
    wanted, whole = (
        study(changed("phases/tuning/vary", {RATE: [0.5, 1.0, 2.0], MOMENTUM: [0.0, 0.25, 0.5]})),
        find_by(tuned),
    )
    phase, end = wanted.phase("final"), " (at the end of the grid)"
    for arm, said in (
        ("plain", f"{RATE} = 1, {MOMENTUM} = 0.5{end}"),
        ("masked", f"{RATE} = 2{end}, {MOMENTUM} = 0{end}"),
        ("twin", f"{RATE} = 1, {MOMENTUM} = 0.5{end} (that of plain)"),
    ):
        assert plans.chosen_in_words(wanted, phase, arm, whole) == said
    assert plans.chosen_in_words(wanted, wanted.phase("tuning"), "plain", whole) is None
    assert plans.chosen_in_words(wanted, phase, "plain", find_by(lambda run: None)) is None


def test_one_result_missing_and_nothing_is_chosen() -> None:
    wanted = study()
    phase = wanted.phase("final")
    whole = find_by(tuned)
    assert plans.chosen(wanted, phase, "plain", whole) == {RATE: 1.0, MOMENTUM: 0.5}
    assert plans.chosen(wanted, phase, "masked", whole) == {RATE: 2.0, MOMENTUM: 0.0}
    assert plans.chosen(wanted, phase, "twin", whole) == {RATE: 1.0, MOMENTUM: 0.5}
    for seed in (100, 101):
        lacking = find_by(
            lambda run, seed=seed: (
                None if run.name == f"tuning_plain_learning_rate=2_momentum=0.5_seed={seed}" else tuned(run)
            )
        )
        assert plans.chosen(wanted, phase, "plain", lacking) is None is plans.chosen(wanted, phase, "twin", lacking)
        assert plans.chosen(wanted, phase, "masked", lacking) == {RATE: 2.0, MOMENTUM: 0.0}
        assert plans.plan(wanted, lacking).waiting == {"final": 2 * 16, "again": 8}
    assert plans.chosen(wanted, wanted.phase("tuning"), "plain", whole) is None  # tuned by nothing


def test_tuned_runs_have_the_best_point_and_no_name_of_it() -> None:
    plan = plans.plan(study(), find_by(tuned))
    final = [run for run in plan.runs if run.phase == "final"]
    assert [(run.config.seed, run.arm) for run in final] == [
        (seed, arm) for seed in range(16) for arm in ("plain", "masked", "twin")
    ]
    assert final[0].name == "final_plain_seed=0" and final[0].point == {}
    rates = {run.arm: (run.config.optimizer.learning_rate, run.config.optimizer.momentum) for run in final}
    assert rates == {"plain": (1.0, 0.5), "masked": (2.0, 0.0), "twin": (1.0, 0.5)}
    assert {(run.arm, run.config.batch_size, run.config.epochs) for run in final} == {
        ("plain", 30, 3), ("masked", 30, 3), ("twin", 40, 3),
    }  # fmt: skip
    assert plan.waiting == {"again": 8}
    assert [run.phase for run in plan.runs] == ["tuning"] * 24 + ["final"] * 48 + ["again"] * 8


@pytest.mark.parametrize("ahead", [0.0, 1e-10, 1e-8])
def test_ties_go_to_the_smaller_value_and_the_first_arm(ahead: float) -> None:
    """Means that differ in rounding alone are equal."""
    wanted = study()
    find = find_by(lambda run: 0.5 + ahead * (run.arm == "twin" or (run.phase == "tuning" and at(run) == (1.0, 0.0))))
    best = {RATE: 1.0, MOMENTUM: 0.0} if ahead > 1e-9 else {RATE: 0.5, MOMENTUM: 0.0}
    assert plans.chosen(wanted, wanted.phase("final"), "plain", find) == best
    assert plans.winner(wanted, wanted.phase("again"), find) == ("twin" if ahead > 1e-9 else "masked")


def test_the_best_point_is_that_of_the_mean_over_all_seeds() -> None:
    """One seed is lucky; another point is better on average, though at neither seed the best."""
    accuracy = {(0.5, 100): 0.9, (0.5, 101): 0.1, (1.0, 100): 0.6, (1.0, 101): 0.6, (2.0, 100): 0.1, (2.0, 101): 0.9}
    wanted = study()
    found = plans.best_point(
        wanted, wanted.phase("tuning"), "plain", find_by(lambda run: accuracy[run.point[RATE], run.config.seed])
    )
    assert found == (pytest.approx(0.6), {RATE: 1.0, MOMENTUM: 0.0})


def test_the_winner_is_one_of_those_named() -> None:
    """The best of all is none of them."""
    wanted = study()
    final = {"plain": 0.9, "masked": 0.5, "twin": 0.7}
    find = find_by(lambda run: tuned(run) or final[run.arm])
    again = wanted.phase("again")
    assert plans.winner(wanted, again, find) == "twin" and plans.winner(wanted, wanted.phase("final"), find) is None
    assert plans.arms_of(wanted, again, find) == ["plain", "twin"]
    assert plans.arms_of(wanted, wanted.phase("final"), find) == ["plain", "masked", "twin"]
    plan = plans.plan(wanted, find)
    assert plan.waiting == {} and plan.waiting_epochs == 0
    last = [run for run in plan.runs if run.phase == "again"]
    assert [(run.config.seed, run.arm) for run in last] == [(s, a) for s in range(50, 58) for a in ("plain", "twin")]
    assert {(run.arm, run.config.epochs, run.config.optimizer.learning_rate) for run in last} == {
        ("plain", 2, 0.125), ("twin", 7, 0.125),
    }  # fmt: skip
    missing = find_by(lambda run: None if run.name == "final_masked_seed=15" else tuned(run) or final[run.arm])
    assert plans.winner(wanted, again, missing) is None and plans.arms_of(wanted, again, missing) == ["plain", None]


# --- What is compared: pairs of one seed, at the last and at the best epoch, in points ---


RNG = np.random.default_rng(3)
LUCK = dict(enumerate(RNG.normal(0.0, 0.02, 100)))
OWN = {arm: dict(enumerate(RNG.normal(0.0, 0.005, 100))) for arm in ("plain", "masked", "twin")}
MEAN = {"plain": 0.6, "masked": 0.63, "twin": 0.601}


def accuracy(run: PlannedRun) -> float:
    """Seeds have their luck, which pairs share."""
    if run.phase == "tuning":
        return 0.5
    return float(MEAN[run.arm] + LUCK[run.config.seed] + OWN[run.arm][run.config.seed])


def points(arm: str, phase: str, seeds: range) -> list[float]:
    study_of = study()
    runs = [PlannedRun(phase, arm, {}, study_of.config(phase, arm=arm, point={}, seed=seed)) for seed in seeds]
    return [100 * accuracy(run) for run in runs]


def test_a_difference() -> None:
    wanted = study()
    found = compare(wanted, wanted.comparisons[0], find_by(accuracy))
    one, other = points("masked", "final", range(16)), points("plain", "final", range(16))
    assert found is not None and (found.arm, found.against, found.comparison) == (
        "masked",
        "plain",
        wanted.comparisons[0],
    )
    t = stats.ttest_rel(one, other).confidence_interval(0.95)
    assert (found.last.pairs, found.last.mean) == (16, pytest.approx(np.mean(one) - np.mean(other)))
    assert (found.last.low, found.last.high) == pytest.approx((t.low, t.high))
    assert found.best.mean == pytest.approx(found.last.mean) and found.equivalence is None  # both are two points better
    assert found.diverged == (0, 0) and found.comparisons == 3
    assert found.adjusted_p == 3 * found.last.sign_flip_p < 1
    assert dataclasses.replace(found, comparisons=10**9).adjusted_p == 1.0


def test_diverged_runs_count_with_the_accuracy_that_they_have() -> None:
    wanted, gone = study(), ("final_masked_seed=3", "final_masked_seed=5", "final_plain_seed=7")
    find = find_by(lambda run: 0.1 if run.name in gone else 0.6 + 0.1 * (run.arm == "masked"))
    found = compare(wanted, wanted.comparisons[0], find)
    assert found is not None and found.diverged == (2, 1)
    assert found.last.mean == pytest.approx((14 * 70 + 2 * 10 - 15 * 60 - 10) / 16)


def test_the_best_epoch_is_each_runs_own() -> None:
    wanted = study()

    def find(run: PlannedRun) -> Result:
        rows = {"plain": [0.5, 0.8, 0.6], "masked": [0.9, 0.2, 0.7], "twin": [0.1] * 3}[run.arm]
        return {"epochs": {"test_accuracy": rows}, "diverged": False}

    found = compare(wanted, wanted.comparisons[0], find)
    assert found is not None and found.last.mean == pytest.approx(10) and found.best.mean == pytest.approx(10)
    assert (found.last.low, found.best.high) == pytest.approx((10, 10))


def test_an_equivalence() -> None:
    wanted = study()
    found = compare(wanted, wanted.comparisons[1], find_by(accuracy))
    assert found is not None and found.equivalence is not None
    one, other = points("twin", "final", range(16)), points("plain", "final", range(16))
    below = stats.ttest_rel(np.add(one, 0.5), other, alternative="greater").pvalue
    above = stats.ttest_rel(np.subtract(one, 0.5), other, alternative="less").pvalue
    assert found.equivalence.p == pytest.approx(max(below, above)) and found.equivalence.margin == 0.5


def test_a_margin_of_a_difference_asks_for_no_equivalence() -> None:
    wanted = study()
    difference = dataclasses.replace(wanted.comparisons[0], margin=0.5)
    found = compare(wanted, difference, find_by(accuracy))
    assert found is not None and found.equivalence is None


def test_the_winner_has_its_name_as_soon_as_it_is_known() -> None:
    wanted = study()
    last = wanted.comparisons[2]
    found = compare(wanted, last, find_by(accuracy))
    assert found is not None and (found.arm, found.against, found.last.pairs) == ("masked", "plain", 8)
    mean = np.mean(points("masked", "again", range(50, 58))) - np.mean(points("plain", "again", range(50, 58)))
    assert found.last.mean == pytest.approx(mean)
    turned = compare(wanted, dataclasses.replace(last, arm="plain", against="winner"), find_by(accuracy))
    assert turned is not None and (turned.arm, turned.against) == ("plain", "masked")
    assert turned.last.mean == pytest.approx(-mean)
    unknown = find_by(lambda run: None if run.name == "final_twin_seed=0" else accuracy(run))
    assert compare(wanted, last, unknown) is None
    assert compare(wanted, dataclasses.replace(last, arm="plain", against="winner"), unknown) is None


def test_phases_count_together() -> None:
    wanted = study()
    both = dataclasses.replace(wanted.comparisons[0], phases=("final", "again"), arm="plain", against="twin")
    found = compare(wanted, both, find_by(accuracy))
    one = points("plain", "final", range(16)) + points("plain", "again", range(50, 58))
    other = points("twin", "final", range(16)) + points("twin", "again", range(50, 58))
    assert found is not None and found.last.pairs == 24
    assert found.last.mean == pytest.approx(np.mean(one) - np.mean(other))


@pytest.mark.parametrize("missing", ["final_masked_seed=15", "final_plain_seed=0"])
def test_none_while_a_run_is_missing(missing: str) -> None:
    wanted = study()
    lacking = find_by(lambda run: None if run.name == missing else accuracy(run))
    assert compare(wanted, wanted.comparisons[0], lacking) is None
    untuned = find_by(lambda run: None if run.phase == "tuning" else accuracy(run))
    assert compare(wanted, wanted.comparisons[0], untuned) is None


# What decides about a claim: each has its rule, each rule a comparison that its study makes, and wrong ones are
# refused


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
    assert by == [
        "cuda_sparsification",
        "masking_published",
        "masking_handcrafted",
        "masking",
    ]  # the paper's network and data first


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copytree(_rules.HOME / "answers", tmp_path / "answers")
    shutil.copy(_rules.HOME / "instruments.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "argument", "place"),
    [
        ("rs", 'relation = "higher"', 'relation = "better"', "relation", "rs.table2"),
        ("rs", 'relation = "higher"', 'relation = "equal"', "relation", "rs.table2"),
        ("rs", 'arm = "sparsification-70"', 'arm = "freeze-70"', "conditions", "rs.table2"),
        ("rs", 'study = "cause"', 'study = "causes"', "study", "rs.fig2"),
        ("gip", "[table1]\nreason", "[table1]\nreasons", "reasons", "gip.table1"),
        ("gip", "[table1]\n", "[table9]\n", "answers", "gip.table9"),
        ("rs", "epsilon 1.0, difference", "epsilon 9.0, difference", "rs.table2.reported", "rs.table2"),
        ("rs", 'question = "With clipping', 'question = ""\n# ', "question", "rs.fig3"),
        ("gip", "[table1]\nreason", '[table1]\ncost = "x"\n# ', "by, measured or reason", "gip.table1"),
        ("gip", "[table1]", "[table1", "gip.toml", "gip.toml"),
        ("gip", "[assumption1.measured]", '[assumption1]\nquestion = "?"\n[assumption1.measured]', "question", "gip.assumption1"),
        ("gip", BESIDE, 'beside = ""', "beside", "gip.table5"),
        ("lf", 'corrected = "asked', 'corrected = ""\n# "', "corrected", "lf.table1"),
        ("rf", 'corrected = "asked', 'corrected = ""\n# "', "corrected", "rf.table1"),
        ("rs", 'quantity = "ranked_overlap"', 'quantity = "overlap"', "quantity", "rs.fig12"),
        ("rs", 'reported = ["random against ranked"]', 'reported = ["x"]', "rs.fig12.reported", "rs.fig12"),
        ("gip", 'study = "cuda_index_pruning"\nquestion = "With WRN-16-4 on CIFAR-10 at epsilon = 1, is GIP above DP',
         'study = "index_pruning"\nquestion = "', "conditions", "gip.table6"),
        ("forecasts", "[masking]", "[masks]", "forecasts.toml", "['masking', 'masks']"),
        ("forecasts", 'arm = "freeze-50"', 'arm = "plain"', "conditions", "forecasts.toml, masking"),
    ],
)  # fmt: skip
def test_wrong_rules_are_refused(home: Path, file: str, old: str, new: str, argument: str, place: str) -> None:
    path = home / "answers" / f"{file}.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with refused(argument, place):
        read_forecasts(STUDIES, home) if file == "forecasts" else read_rules(STUDIES, home)


def test_instruments_are_those_of_the_folder(home: Path) -> None:
    assert read_rules(STUDIES, home) == read_rules(STUDIES)
    text = (home / "instruments.toml").read_text(encoding="utf-8")
    (home / "instruments.toml").write_text(text.replace("[masks", "[others"), encoding="utf-8")
    with refused("instrument", "rf.fig1", "'masks'"):
        read_rules(STUDIES, home)


def test_a_claim_and_a_study_that_do_not_know_each_other_are_refused() -> None:
    cause = STUDIES["cause"]
    for answers, says in (
        (("rs.fig2",), "rs.fig3.study"),
        (("rs.fig2", "rs.fig3", "rs.fig5"), "rs.fig5"),
    ):
        changed = STUDIES | {"cause": dataclasses.replace(cause, answers=answers)}
        with refused(says, "'cause'"):
            read_rules(changed)


def test_a_margin_has_to_be_there() -> None:
    cause = STUDIES["cause"]
    bare = dataclasses.replace(
        cause, comparisons=tuple(dataclasses.replace(one, margin=None) for one in cause.comparisons)
    )
    with refused("relation", "rs.fig2", "'higher'", "'lower'"):
        read_rules(STUDIES | {"cause": bare})


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ('[masks]\ntext = "x"\n', "contradicted.toml: study"),
        ('[masking]\nwords = "x"\n', "words"),
        ('[masking]\ntext = ""\n', "text"),
    ],
)
def test_wrong_words_are_refused(home: Path, text: str, argument: str) -> None:
    (home / "answers" / "contradicted.toml").write_text(text, encoding="utf-8")
    with refused(argument, "contradicted.toml"):
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


# --- Paired comparisons, against SciPy, against enumeration, and by how often they err ---


RNG_OF_STATISTICS = np.random.default_rng(0)
ONE, OTHER = RNG_OF_STATISTICS.normal(0.4, 1, 16), RNG_OF_STATISTICS.normal(0, 1, 16)


@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_interval_is_that_of_scipy(confidence: float) -> None:
    found = paired_difference(ONE, OTHER, confidence=confidence)
    expected = stats.ttest_rel(ONE, OTHER).confidence_interval(confidence)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert (found.pairs, found.mean, found.confidence) == (16, pytest.approx(np.mean(ONE - OTHER)), confidence)


@pytest.mark.parametrize(
    "values", [[1.0], [3, -1, 2.5, 0, 1], list(RNG_OF_STATISTICS.normal(0.5, 1, 9)), [1.0] * 8, [0.0] * 8]
)
def test_signs_against_enumeration(values: list[float]) -> None:
    sums = [
        sum(s * v for s, v in zip(signs, values, strict=True))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    expected = np.mean([abs(s) >= abs(sum(values)) - 1e-9 for s in sums])
    assert sign_flip_p(values) == expected


@pytest.mark.parametrize("count", [21, 24, 33, 40])
def test_forty_signs_by_counting_whole_numbers(count: int) -> None:
    values = np.random.default_rng(count).integers(-40, 60, count)
    sums = Counter({0: 1})
    for value in values.tolist():
        sums = Counter(
            {total: sums[total - value] + sums[total + value] for total in range(-60 * count, 60 * count + 1)}
        )
    reached = sum(ways for total, ways in sums.items() if abs(total) >= abs(int(values.sum())))
    assert sign_flip_p(values / 8) == reached / 2**count and 0 < reached < 2**count


def test_more_pairs_by_random_signs() -> None:
    """Of 41 equal differences two sign vectors of 2^41 reach as far; the first 40 differences of these are exact."""
    assert sign_flip_p([1.0] * 41) == 1 / (2**17 + 1)
    values = RNG_OF_STATISTICS.normal(0.2, 1, 40)
    exact, drawn = sign_flip_p(values), sign_flip_p([*values, 0.0])  # the zero changes no sum
    assert drawn == pytest.approx(exact, abs=5 * (exact / 2**17) ** 0.5) and drawn != exact
    assert sign_flip_p([*values, 0.0], seed=1) != drawn == sign_flip_p([*values, 0.0])


def test_equivalence_is_the_larger_of_two_one_sided_tests() -> None:
    for shift in (-0.6, 0.0, 0.7):
        found = equivalence(ONE + shift, OTHER, margin=1.2)
        above = stats.ttest_rel(ONE + shift + 1.2, OTHER, alternative="greater")
        below = stats.ttest_rel(ONE + shift - 1.2, OTHER, alternative="less")
        assert found.p == pytest.approx(max(above.pvalue, below.pvalue), rel=1e-12)
        assert found.equivalent == (found.low > -1.2 and found.high < 1.2)
    assert equivalence(ONE, OTHER, margin=9).equivalent and not equivalence(ONE, OTHER, margin=0.01).equivalent


def test_equal_differences_have_no_spread_but_for_rounding() -> None:
    """At any scale: the digits that a subtraction loses are none."""
    second = np.random.default_rng(2).normal(0, 1e8, 16)
    first = second + 3e7 / 7
    found = paired_difference(first, second)
    assert found.low == found.mean == found.high == pytest.approx(3e7 / 7) and np.std(first - second) > 0
    small = paired_difference(second / 1e16 + 3e-9, second / 1e16)
    assert small.low == small.mean == small.high == pytest.approx(3e-9)


def test_every_field_of_an_equivalence() -> None:
    found = equivalence(ONE, OTHER, margin=1.2)
    interval = stats.ttest_rel(ONE, OTHER).confidence_interval(0.9)
    assert (found.pairs, found.mean, found.margin, found.level) == (16, pytest.approx(np.mean(ONE - OTHER)), 1.2, 0.05)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    wide = equivalence(ONE, OTHER, margin=1.2, level=0.2)
    interval = stats.ttest_rel(ONE, OTHER).confidence_interval(0.6)
    assert (wide.low, wide.high) == pytest.approx((interval.low, interval.high)) and wide.level == 0.2
    assert paired_difference(ONE, OTHER).confidence == 0.95


def test_at_the_very_margin_nothing_is_shown() -> None:
    assert (at := equivalence([2.0] * 16, [1.0] * 16, margin=1.0)).p == 1.0 and not at.equivalent
    assert (within := equivalence([2.0] * 16, [1.0] * 16, margin=1.1)).p == 0.0 and within.equivalent
    assert not dataclasses.replace(within, p=0.05).equivalent and dataclasses.replace(within, p=0.0499).equivalent


def test_forty_signs_are_enumerated_and_more_are_drawn() -> None:
    assert sign_flip_p([1.0] * 40) == 2 / 2**40
    values = np.random.default_rng(4).normal(0.3, 1, 41)
    assert paired_difference(values, np.zeros(41)).sign_flip_p == sign_flip_p(values)
    assert sign_flip_p([0.0] * 41) == sign_flip_p([1.0, -1.0]) == 1.0  # every choice reaches as far
    assert sign_flip_p([1.0], seed=2**63 - 1) == 1.0


def test_ranges_of_values_and_levels() -> None:
    assert paired_difference([1e9] * 8, [-1e9] * 8).mean == 2e9
    for bad in ([1.01e9] + [0.0] * 7, [-1.01e9] + [0.0] * 7):
        with refused("first", "-1e+09"):
            paired_difference(bad, [0.0] * 8)
        with refused("second", "-1e+09"):
            paired_difference([0.0] * 8, bad)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: paired_difference(ONE[:7], OTHER[:7]), ("first and second", "8", "7")),
        (lambda: equivalence(ONE[:15], OTHER[:15], margin=1), ("first and second", "16", "15")),
        (lambda: paired_difference(ONE, OTHER[:9]), ("first and second", "16", "9")),
        (lambda: sign_flip_p([]), ("differences",)),
        (lambda: sign_flip_p([[1.0]]), ("differences",)),
    ],
)
def test_refuses_of_statistics(call, says: str) -> None:
    with refused(*says):
        call()
