"""What is compared: pairs of one seed, at the last and at the best epoch, in points."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from dptheory.training.studies import compare
from dptheory.training.studies._plan import PlannedRun
from dptheory.training.studies._results import Result
from tests.training.studies.invented import find_by, study

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
    runs = [
        PlannedRun(phase, arm, {}, study_of.config(study_of.phase(phase), arm=arm, point={}, seed=seed))
        for seed in seeds
    ]
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
