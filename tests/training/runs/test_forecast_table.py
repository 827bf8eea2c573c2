"""The forecast beside what was measured, comparison by comparison."""

from types import SimpleNamespace
from typing import Any

import pytest

from dptheory.training.runs._forecast_table import forecast_rows, ratio_of_gains, sign
from tests.training.runs.invented import TABLE, find_by, study


def moment(step: int, **methods: tuple[float | None, float | None]) -> dict[str, Any]:
    table = {
        name.replace("_", "-"): {"isotropic": one, "isotropic_error": 0.06, "curved": other, "curved_error": 0.08}
        for name, (one, other) in methods.items()
    }
    return {"step": step, "methods": table}


ABOVE, BELOW, AROUND = (SimpleNamespace(low=low, high=high) for low, high in ((0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1)))


def exact(*values: float | None) -> list[tuple[float | None, float | None]]:
    return [(value, None if value is None else 0.0) for value in values]


def test_signs() -> None:
    assert [sign(exact(2.0, 0.5, 3.0), one) for one in (ABOVE, BELOW, AROUND)] == ["agrees", "contradicts", "open"]
    assert [sign(exact(0.2, None, 0.3), one) for one in (ABOVE, BELOW, AROUND)] == ["contradicts", "agrees", "open"]
    assert sign(exact(None, None), ABOVE) == "open"
    assert [sign(exact(*ratios), ABOVE) for ratios in ([0.4, 2.2], [0.5, 2.2], [0.0, 9.0])] == [
        "contradicts", "agrees", "contradicts"
    ]  # fmt: skip


def test_a_moment_near_1_forecasts_nothing() -> None:
    """3.0 and 0.2 within two of their errors drop out; without an error nothing is told."""
    assert [sign([(3.0, e), (0.5, 0.1)], ABOVE) for e in (0.9, 1.1)] == ["agrees", "contradicts"]
    assert [sign([(0.2, e), (1.5, 0.1)], ABOVE) for e in (0.3, 0.5)] == ["contradicts", "agrees"]
    assert sign([(3.0, 1.1), (0.7, 0.2)], BELOW) == sign([(3.0, None)], ABOVE) == "open"


def test_the_error_of_a_ratio() -> None:
    one, other = {"curved": 3.0, "curved_error": 0.4}, {"curved": 2.0, "curved_error": 0.2}
    assert ratio_of_gains(one, other, "curved") == pytest.approx((1.5, (0.4**2 + (1.5 * 0.2) ** 2) ** 0.5 / 2.0))
    for lacks in ({"curved": None}, {"curved": 0.0}):
        assert ratio_of_gains(one, other | lacks, "curved") == (None, None)
    assert ratio_of_gains(one | {"curved": None}, other, "curved") == (None, None)
    assert ratio_of_gains(one | {"curved": 0.0}, other, "curved")[0] == 0.0
    for gains in ((one | {"curved_error": None}, other), (one, other | {"curved_error": None})):
        assert ratio_of_gains(*gains, "curved") == (1.5, None)


@pytest.mark.parametrize(
    ("after", "steps", "known"),
    [(0.5, 10, [False, True, True]), (0.6, 10, [False, False, True]), (0.5, 20, [False] * 3)],
)
def test_an_arm_that_freezes_nothing_yet_forecasts_nothing(after: float, steps: int, known: list[bool]) -> None:
    arm = {"mechanism": {"name": "layer-freezing", "frozen_layers": 1, "after": after}}
    wanted = study(TABLE | {"arms": {**TABLE["arms"], "twin": arm}})
    comparison = next(one for one in wanted.comparisons if one.arm == "twin")
    phase = wanted.phase(comparison.phases[0])
    config = wanted.config(phase, arm="plain", point={}, seed=0).as_dict()
    moments = [moment(step, dp_sgd=(1.0, 1.0), plain=(1.0, 1.0), twin=(2.0, 2.0)) for step in (4, 5, 9)]
    run = {"config": config, "steps_per_epoch": steps / config["epochs"], "measured": {"forecast": moments}}
    rows = forecast_rows(
        {"invented": wanted}, {"invented": find_by(lambda run: None)}, lambda name, seed: {"arms": {"dp-sgd": run}}
    )
    (found,) = [row for row in rows if row.difference.startswith("twin")]
    assert all([value is not None for value, _ in found.ratios[kind]] == known for kind in ("isotropic", "curved"))


def test_rows() -> None:
    wanted = study()
    one, other = wanted.comparisons[0].arm, wanted.comparisons[0].against
    moments = [
        moment(0, dp_sgd=(1.0, 1.0), **{one: (0.5, 2.0), other: (1.0, None)}),
        moment(3, dp_sgd=(1.0, 1.0), **{one: (0.6, 2.0), other: (1.0, 1.0)}),
    ]
    phase = wanted.phase(wanted.comparisons[0].phases[0])
    config = wanted.config(phase, arm=other, point={}, seed=0).as_dict()
    run = {"config": config, "steps_per_epoch": 2.5, "measured": {"forecast": moments}}
    result = {"arms": {"dp-sgd": run}}
    find = find_by(lambda run: 0.6 if run.arm == other else 0.55 + 0.001 * (run.config.seed % 2))
    found = list(forecast_rows({"invented": wanted}, {"invented": find}, lambda name, seed: result))
    assert found[0].signs == {"isotropic": "agrees", "curved": "contradicts"}
    rows = [row.cells for row in found]
    assert rows[0][:5] == (
        "[invented](#study-invented)",
        f"{one} - {other} ({', '.join(wanted.comparisons[0].phases)})",
        f"rate {config['optimizer']['learning_rate']:g}, after 0 / 3 of {2.5 * config['epochs']:.0f} steps",
        "0.5 ± 0.067 / 0.6 ± 0.07",
        "none / 2 ± 0.18",
    )
    assert rows[0][5].startswith("-4.95 [") and rows[0][6] == "isotropic: agrees; curved: contradicts"
    assert all(set(row[1].split(" (")[0].split(" - ")) <= {one, other} for row in rows)
    none = list(forecast_rows({"invented": wanted}, {"invented": find_by(lambda run: None)}, lambda name, seed: result))
    assert none[0].cells[5:] == ("none yet", "") and none[0].signs == {}
    assert list(forecast_rows({"invented": wanted}, {"invented": find}, lambda name, seed: None)) == []
    for change in ({"data": "mnist"}, {"epochs": 77}, {"epsilon": 77.0}):
        run["config"] = config | change
        assert list(forecast_rows({"invented": wanted}, {"invented": find}, lambda name, seed: result)) == []
