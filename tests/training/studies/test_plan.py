"""Which runs there are: every arm, point and seed once; what is chosen is the best mean, and nothing before all results."""

from collections import Counter

import pytest

from dptheory.training.studies import _plan as plans
from dptheory.training.studies._plan import PlannedRun
from tests.training.studies.invented import MOMENTUM, RATE, changed, find_by, study

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
