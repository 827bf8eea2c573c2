"""The forecast beside what was measured, comparison by comparison."""

from types import SimpleNamespace
from typing import Any

from tests.training.runs.invented import find_by, study
from training.runs._forecast_table import forecast_rows, sign


def moment(**methods: tuple[float | None, float | None]) -> dict[str, Any]:
    table = {
        name.replace("_", "-"): {"relative_isotropic": one, "relative_curved": other}
        for name, (one, other) in methods.items()
    }
    return {"methods": table}


def test_signs() -> None:
    above, below, around = (
        SimpleNamespace(low=low, high=high) for low, high in ((0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1))
    )
    assert [sign([2.0, 0.5, 3.0], one) for one in (above, below, around)] == ["agrees", "contradicts", "open"]
    assert [sign([0.2, None, 0.3], one) for one in (above, below, around)] == ["contradicts", "agrees", "open"]
    assert sign([None, None], above) == "open"
    assert [sign(ratios, above) for ratios in ([0.4, 2.2], [0.5, 2.2], [0.0, 9.0])] == [
        "contradicts", "agrees", "contradicts"
    ]  # fmt: skip


def test_rows() -> None:
    wanted = study()
    one, other = wanted.comparisons[0].arm, wanted.comparisons[0].against
    moments = [
        moment(dp_sgd=(1.0, 1.0), **{one: (0.5, 2.0), other: (1.0, None)}),
        moment(dp_sgd=(1.0, 1.0), **{one: (0.6, 2.0), other: (1.0, 1.0)}),
    ]
    phase = wanted.phase(wanted.comparisons[0].phases[0])
    config = wanted.config(phase, arm=other, point={}, seed=0).as_dict()
    result = {"arms": {"dp-sgd": {"config": config, "measured": {"forecast": moments}}}}
    find = find_by(lambda run: 0.6 if run.arm == other else 0.55 + 0.001 * (run.config.seed % 2))
    found = list(forecast_rows({"invented": wanted}, {"invented": find}, lambda name, seed: result))
    assert found[0].signs == {"isotropic": "agrees", "curved": "contradicts"}
    rows = [row.cells for row in found]
    assert rows[0][:4] == (
        "[invented](#study-invented)",
        f"{one} - {other} ({', '.join(wanted.comparisons[0].phases)})",
        "0.5 / 0.6",
        "none / 2",
    )
    assert rows[0][4].startswith("-4.95 [") and rows[0][5] == "isotropic: agrees; curved: contradicts"
    assert all(set(row[1].split(" (")[0].split(" - ")) <= {one, other} for row in rows)
    none = list(forecast_rows({"invented": wanted}, {"invented": find_by(lambda run: None)}, lambda name, seed: result))
    assert none[0].cells[4:] == ("none yet", "") and none[0].signs == {}
    assert list(forecast_rows({"invented": wanted}, {"invented": find}, lambda name, seed: None)) == []
    for change in ({"data": "mnist"}, {"epochs": 77}, {"epsilon": 77.0}):
        result["arms"]["dp-sgd"]["config"] = config | change
        assert list(forecast_rows({"invented": wanted}, {"invented": find}, lambda name, seed: result)) == []
