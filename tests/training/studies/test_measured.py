"""How far a setting is from the paper's, and trends by invented measurements whose trend is known."""

import math
from typing import Any

import pytest

from dptheory.claims import Baseline
from dptheory.training.studies._measured import TRENDS, rank_correlation, read_setting
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


# --- trends: the most extreme step does not decide ---


def _arm(kind: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"measured": {kind: rows}}


def _signals(frozen: list[float], plain: list[float]) -> dict[str, Any]:
    """Two steps of two layers, the first of which would be frozen."""
    rows = [
        {"as_it_is": {key: [1.0, a] for key in _KEYS}, "if_frozen": {key: [None, b] for key in _KEYS}}
        for a, b in zip(plain, frozen, strict=True)
    ]
    return {"dp-sgd": _arm("signals", rows)}


_KEYS = ("signal", "clipping_angle", "noise_angle")
_ERRORS = {"drop_rates": [0.0, 0.3, 0.6, 0.9], "signal_loss": [2.0, 2.2, 2.1, 2.6], "mse": [4.0, 3.0, 5.0, 2.0]}
_NORMS = {
    "dp-sgd": _arm("norms", [{"log10_std": x} for x in (9.0, 2.0, 2.0)]),
    "freeze": _arm("norms", [{"log10_std": x} for x in (1.0, 1.5, 2.1)]),
}
_NOISE = {
    name: _arm("noise", [{"dim": dim, "gradient_norm": 1.0, "noise_norm": dim**0.5}])
    for name, dim in (("small-cnn", 10), ("resnet20", 1000), ("wrn-16-4", 10**6))
}

WANTED: dict[str, tuple[dict[str, Any], float]] = {
    # of the differences -.1, -.05, -.3 two pairs of three fall
    "signal_loss_order": ({"dp-sgd": _arm("errors", [_ERRORS])}, -1 / 3),
    "mean_mse_gain": ({"dp-sgd": _arm("errors", [_ERRORS])}, (0.25 - 0.25 + 0.5) / 3),
    "norm_spread": (_NORMS, (-0.5 + 0.1) / 2),
    "inversion_order": (
        {"untrained": _arm("inversion", [{"drop_rates": [0.0, 0.3, 0.6], "mse": [0.0, 1.0, 3.0, 2.0]}])},
        1 / 3,
    ),
    "frozen_signal": (_signals([4.0, 1.0], [2.0, 1.0]), math.log(2) / 2),
    "frozen_clipping_angle": (_signals([1.0, 1.0], [2.0, 2.0]), -math.log(2)),
    "frozen_noise_angle": (_signals([1.0, 3.0], [2.0, 3.0]), -math.log(2) / 2),
    "noise_slope": (_NOISE, 0.5),
}


def test_trends() -> None:
    assert set(WANTED) == set(TRENDS)
    found = {name: TRENDS[name](measured) for name, (measured, _) in WANTED.items()}
    assert found == pytest.approx({name: value for name, (_, value) in WANTED.items()}, rel=1e-12)


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3], [5, 6, 9]) == 1.0
    assert rank_correlation([1, 2, 3], [9, 6, 5]) == -1.0
    assert rank_correlation([1, 2], [4, 4]) == 0.0
