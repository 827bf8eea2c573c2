"""An instrument leaves the run as it is, measures at its steps, and writes what it measured."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from dptheory.cli import app
from dptheory.training import runs
from dptheory.training._machine import versions
from dptheory.training.measure import MEASUREMENTS, QUANTITIES, _instrument, measure_instrument
from dptheory.training.measure._instrument import measured_arm, watched
from dptheory.training.runs import Run, _prepare
from dptheory.training.studies import Instrument, Measuring, _instruments, _results, read_instrument
from tests.refused import refused
from tests.training.tiny import tiny_load

CPU = torch.device("cpu")
SPARSE = {"name": "random-sparsification", "drop_rate": 0.5}
OPTIONS: dict[str, dict[str, Any]] = {
    "errors": {"drop_rates": [0.5], "masks": 1},
    "relaxed": {"drop_rates": [0.5], "masks": 1},
    "deviations": {"shown": 3, "projections": 3},
    "signals": {"draws": 2, "frozen_layers": 2},
    "status": {"frozen_layers": 2},
    "cosines": {"draws": 2},
    "spectrum": {"rows": 10},
    "projection": {"dims": [2], "anchors": 10, "other": "excerpt"},
    "residuals": {"dim": 2, "anchors": 10, "other": "excerpt", "rows": 10},
    "inversion": {"images": 2, "drop_rates": [0.5], "noise_std": 0.0, "iterations": 2, "smoothing": 0.0},
}

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")


@pytest.fixture(autouse=True)
def _of_measurements(small_data: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dptheory.training.measure._measurements.load", tiny_load)


def instrument(steps: tuple[int, ...], **arms: dict[str, Any]) -> Instrument:
    base = {
        "data": "excerpt", "model": "small-cnn", "epochs": 3, "batch_size": 30, "physical_batch_size": 16, "max_grad_norm": 1.0,
        "noise_multiplier": 1.0, "optimizer": {"name": "sgd", "learning_rate": 0.5, "momentum": 0.9},
    }  # fmt: skip
    return Instrument(
        name="masks",
        title="invented",
        cost="nothing",
        examples=20,
        base=base,
        arms=arms,
        seeds=(4,),
        measurings=tuple(Measuring(kind, tuple(arms), steps, OPTIONS.get(kind, {})) for kind in MEASUREMENTS),
        quantities=(),
    )


def state(run: Run) -> list[torch.Tensor]:
    """Weights, velocities, and the states of all generators."""
    held = run.optimizer.state_dict()
    velocity = [v["momentum_buffer"] for v in held["optimizer"]["state"].values()]
    generators = [held["generator"]] + ([held["mechanism"]["generator"]] if "generator" in held["mechanism"] else [])
    return [*(p.detach().clone() for p in run.model.parameters()), *velocity, *generators, torch.random.get_rng_state()]


@pytest.mark.parametrize("mechanism", [SPARSE, {"name": "index-pruning", "keep_share": 0.1, "index_epsilon": 1.0}])
def test_a_watched_run_is_the_run(mechanism: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = instrument((0, 1, 3), arm={"mechanism": mechanism})
    config = wanted.config("arm", seed=4)
    torch.manual_seed(0)
    alone = state(watched(runs.prepare(config, CPU), 3, lambda run: None))
    made: list[Run] = []
    prepare = runs.prepare
    monkeypatch.setattr(_instrument, "prepare", lambda *given: made.append(prepare(*given)) or made[-1])
    torch.manual_seed(0)
    found = measured_arm(wanted, "arm", seed=4, device=CPU)
    assert all(torch.equal(a, b) for a, b in zip(alone, state(made[0]), strict=True))
    assert made[0].step == 3 and {kind: [row["step"] for row in rows] for kind, rows in found["measured"].items()} == {
        kind: [0, 1, 3] for kind in MEASUREMENTS
    }
    again = measured_arm(wanted, "arm", seed=4, device=CPU) if mechanism is SPARSE else found
    assert _instrument.rounded({"arms": {"arm": again}}) == _instrument.rounded({"arms": {"arm": found}})


def test_an_arm_is_trained_no_further_than_it_is_measured() -> None:
    wanted = instrument((2,), one={"mechanism": SPARSE}, other={})
    few = tuple(dataclasses.replace(one, arms=("other",)) for one in wanted.measurings if one.kind == "norms")
    wanted = dataclasses.replace(wanted, measurings=few)
    assert (wanted.last_step("one"), wanted.last_step("other")) == (0, 2)
    assert measured_arm(wanted, "one", seed=4, device=CPU)["measured"] == {}
    with refused("arm"):
        measured_arm(wanted, "third", seed=4, device=CPU)


def test_the_budget_ends_a_watched_run() -> None:
    config = instrument((0,), arm={"epsilon": 3.0, "unset": []}).config("arm", seed=4)
    seen: list[int] = []
    run = watched(runs.prepare(config, CPU), 12, lambda run: seen.append(run.step))
    assert run.spent and seen == list(range(run.step + 1)) and 0 < run.step < 12


def test_result_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = instrument((0, 1), **{"dp-sgd": {}})
    rates = {"drop_rates": [0.3, 0.5], "masks": 1}
    wanted = dataclasses.replace(
        wanted,
        measurings=(Measuring("errors", ("dp-sgd",), (0, 1), rates), Measuring("norms", ("dp-sgd",), (1,), {})),
        quantities=("signal_loss_rise", "least_mse_gain"),
    )
    monkeypatch.setattr(_results, "code_version", lambda: {"commit": "c0ffee", "dirty": True})
    with refused("allow_dirty"):
        measure_instrument(wanted, seed=4, folder=tmp_path, device=CPU)
    path = measure_instrument(wanted, seed=4, folder=tmp_path, device=CPU, allow_dirty=True)
    assert path == tmp_path / "instruments.jsonl"
    found = json.loads(path.read_text())
    assert found["run"] == "masks_seed=4"
    assert found["code"] == {"commit": "c0ffee", "dirty": True} and found["seed"] == 4 and found["examples"] == 20
    assert (found["versions"], found["device"]) == (versions(), "cpu")
    arm = found["arms"]["dp-sgd"]
    assert arm["config"]["seed"] == 4 and arm["noise_multiplier"] == 1.0 and arm["steps_per_epoch"] == 4
    assert arm["epsilon"] > 0 and 0 <= arm["test_accuracy"] <= 1
    assert [row["step"] for row in arm["measured"]["errors"]] == [0, 1]
    assert found["quantities"] == pytest.approx(
        {name: QUANTITIES[name](found["arms"]) for name in wanted.quantities}, rel=1e-4
    )
    with refused("seed"):
        measure_instrument(wanted, seed=5, folder=tmp_path, device=CPU)


def test_numbers_that_json_has_not_are_null() -> None:
    arm = {"y": 1.0, "config": {"x": 1 / 3}, "measured": {"k": [{"z": math.inf}]}}
    found = _instrument.rounded({"a": math.nan, "b": [1 / 3, 2, True], "arms": {"x": arm}})
    wanted = {"y": 1.0, "config": {"x": 1 / 3}, "measured": {"k": [{"z": None}]}}
    assert found == {"a": None, "b": [0.333333, 2, True], "arms": {"x": wanted}}


def test_command(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, bool]] = []

    def noted(wanted: Instrument, *, seed: int, folder: Path, device: torch.device, allow_dirty: bool) -> Path:
        asked.append((wanted.name, seed, allow_dirty))
        return folder / wanted.name

    monkeypatch.setattr("dptheory.training.measure.measure_instrument", noted)
    done = CliRunner().invoke(app, ["instrument", "masks", "clips", "--allow-dirty"])
    assert done.exit_code == 0 and asked == [(name, seed, True) for name in ("masks", "clips") for seed in (0, 1, 2)]
    assert CliRunner().invoke(app, ["instrument", "masks", "--seed", "3"]).exit_code == 0 and asked[-1] == (
        "masks",
        3,
        False,
    )
    assert CliRunner().invoke(app, ["instrument", "nothing"]).exit_code == 2


def test_every_committed_instrument_measures_what_there_is() -> None:
    """Kinds, options, quantities; and the noise that is written out is about the one that the others' budget gives."""
    import inspect

    for name, found in _instruments.read_instruments().items():
        assert set(found.quantities) <= set(QUANTITIES)
        for one in found.measurings:
            wanted = set(list(inspect.signature(MEASUREMENTS[one.kind]).parameters)[1:])
            assert set(one.options) == wanted, (name, one.kind)
    masks = read_instrument("masks")
    assert masks.config("ranked-without-noise", seed=0).epsilon is None
    written = masks.config("ranked-without-noise", seed=0).noise_multiplier
    needed = _prepare._noise_multiplier(masks.config("dp-sgd", seed=0), 1 / 60, 360)
    assert needed <= written <= 1.001 * needed  # found by an earlier accountant, whose bound was looser
