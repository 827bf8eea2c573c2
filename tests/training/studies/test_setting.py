"""How far a setting is from the paper's: declared in words, the baseline by the results."""

from typing import Any

import pytest

from dptheory.claims import Baseline
from dptheory.training.studies._measured import read_setting
from dptheory.training.studies._rules import read_rules, read_studies
from tests.refused import refused
from tests.training.studies.invented import find_by, study

STUDY = study()

TABLE: dict[str, Any] = {
    "data": ["MNIST", "CIFAR-10"],
    "network": ["a small CNN", "ResNet20"],
    "epochs": ["3", "200"],
    "baseline": {"phase": "final", "arm": "plain", "what": "GP", "there": 56.4, "gain": 18.5},
}
ARMS, PHASES = ("plain", "masked"), ("tuning", "final")


def test_parts_and_baseline_are_read() -> None:
    found = read_setting(TABLE, arms=ARMS, phases=PHASES)
    assert [str(one) for one in found.compared] == [
        "data MNIST (the paper: CIFAR-10)",
        "network a small CNN (the paper: ResNet20)",
        "epochs 3 (the paper: 200)",
    ]
    assert found.baseline is not None and (found.baseline.there, found.baseline.gain) == (56.4, 18.5)
    alone = {key: value for key, value in TABLE.items() if key != "baseline"}
    assert read_setting(alone, arms=ARMS).baseline is None


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"data": ["MNIST"]}, "data"),
        ({"epochs": [3, 200]}, "epochs"),
        ({"network": ["", "ResNet20"]}, "network"),
        ({"baseline": {**TABLE["baseline"], "arm": "other"}}, "arm"),
        ({"baseline": {**TABLE["baseline"], "phase": "other"}}, "phase"),
        ({"baseline": {**TABLE["baseline"], "what": ""}}, "baseline"),
        ({"baseline": {**TABLE["baseline"], "there": 0.564e3}}, "baseline"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], argument: str) -> None:
    with refused(argument):
        read_setting(TABLE | changes, arms=ARMS, phases=PHASES)


def test_an_instruments_baseline_has_no_phase() -> None:
    with refused("baseline"):
        read_setting(TABLE, arms=ARMS)
    table = TABLE | {"baseline": {"arm": "plain", "what": "GP", "there": 56.4}}
    found = read_setting(table, arms=ARMS)
    results = [{"arms": {"plain": {"test_accuracy": value}}} for value in (0.5, 0.51)]
    assert found.of_instrument(results) == Baseline(what="GP", here=50.5, there=56.4)
    assert found.of_instrument([]) is None


def test_a_studys_baseline_is_the_mean_of_its_runs() -> None:
    found = read_setting(TABLE, arms=ARMS, phases=PHASES)
    find = find_by(lambda run: 0.5 if run.phase == "tuning" else 0.6 + 0.01 * (run.config.seed % 2))
    assert found.of_study(STUDY, find) == Baseline(what="GP", here=60.5, there=56.4, gain=18.5)
    assert found.of_study(STUDY, lambda run: None) is None


def test_every_rule_says_how_far_its_setting_is() -> None:
    rules = read_rules(read_studies())
    asked = [(id, one) for id, rule in rules.items() for one in (*rule.by, *filter(None, [rule.measured]))]
    assert [id for id, one in asked if len(one.setting.compared) != 3] == []
    with_baseline = {id for id, one in asked if one.setting.baseline is not None}
    assert with_baseline == {
        "rs.table2", "rf.table1", "rf.table3", "rf.table4", "lf.table1", "gep.table1", "gip.table5",
    }  # fmt: skip
