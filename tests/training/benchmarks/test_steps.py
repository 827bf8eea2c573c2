"""The benchmark of steps runs on tiny networks and counts right; no test asks how long anything takes."""

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from dptheory.training.benchmarks import _arms, _networks, _steps
from dptheory.training.benchmarks.__main__ import app
from dptheory.training.networks import mlp
from dptheory.training.runs import _prepare
from tests.refused import refused
from tests.training.benchmarks.test_timing import Clock
from tests.training.tiny import tiny_load

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")

SMALL = {name: dataclasses.replace(one, batch=3) for name, one in _networks.NETWORKS.items()}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(clock, "process_time", lambda: 10 * clock.now, raising=False)
    monkeypatch.setattr("dptheory.training.benchmarks._steps.time", clock)
    return clock


def test_medians_and_least_times_in_turns(clock: Clock) -> None:
    order: list[str] = []
    slow, fast = clock.sleeper(100.0, 8.0, 2.0, 4.0), clock.sleeper(50.0, 1.0)
    works = {"slow": lambda: (order.append("s"), slow()), "fast": lambda: (order.append("f"), fast())}
    found = _steps.in_turns(works, 3, warm_up=1)
    assert order == ["s", "f"] * 4
    slow_times = {"median": 4.0, "least": 2.0, "processor_median": 40.0, "processor_least": 20.0, "rounds": 3}
    assert found["slow"] == slow_times
    assert (found["fast"]["median"], found["fast"]["least"]) == (1.0, 1.0)  # of 1, 50, 1: the first is left out


def test_no_round_is_begun_after_the_limit(clock: Clock) -> None:
    assert _steps.in_turns({"one": clock.sleeper(2.0)}, 10, warm_up=1, limit=5.0)["one"]["rounds"] == 2
    assert _steps.in_turns({"one": clock.sleeper(9.0)}, 10, warm_up=1, limit=5.0)["one"]["rounds"] == 1


@pytest.mark.parametrize("name", ["linear", "MLP", "small CNN", "transformer"])
def test_every_arm_makes_a_step(name: str) -> None:
    """But JAX-Privacy's where it is not installed, and half of one layer."""
    found = _steps.step_times(dataclasses.replace(SMALL[name], batch=4), 1)
    jax = importlib.util.find_spec("jax_privacy") is not None and name in ("linear", "MLP")
    wanted = {arm for arm in _arms.ARMS if (jax or arm != _arms.JAX) and (name != "linear" or arm != _arms.FROZEN)}
    assert set(found["times"]) == wanted and set(found["skipped"]) == set(_arms.ARMS) - wanted
    assert all(one["rounds"] == 1 for one in found["times"].values())


def test_steps_change_weights_by_the_released_gradients() -> None:
    """Without noise and with a clip that nothing reaches, every arm of DP-SGD is plain SGD."""
    timed = dataclasses.replace(SMALL["MLP"], batch=5)
    inputs, labels = timed.examples(5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_arms, "_SIGMA", 0.0)
        patch.setattr(_arms, "_CLIP", 1e6)
        moved = {}
        for arm in (_arms.PLAIN, _arms.DP_SGD, _arms.HOOKS, _arms.OPACUS, _arms.GHOST):
            model = mlp(3)
            patch.setattr(_networks.Timed, "model", lambda self, model=model: model)
            _arms.build(arm, timed, inputs, labels)()
            moved[arm] = torch.cat([p.detach().flatten() for p in model.parameters()])
    start = torch.cat([p.detach().flatten() for p in mlp(3).parameters()])
    step = moved[_arms.PLAIN] - start
    assert step.norm() > 0
    ulp = torch.finfo(torch.float32).eps * start.abs().max()  # of a weight, to which the step is added
    for found in moved.values():
        assert (found - moved[_arms.PLAIN]).abs().max() <= 2 * ulp


def test_memory_beyond_the_start() -> None:
    """A process of its own: per-sample gradients of 256 examples by hooks are 199 MiB, which the factors never hold."""
    hooks, factors = (_steps.peak(arm, "MLP", 256, 1) for arm in (_arms.HOOKS, _arms.DP_SGD))
    formed = 4 * 256 * sum(p.numel() for p in mlp(0).parameters()) / 2**20
    assert hooks > formed > 2 * factors


def test_an_epoch_and_a_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_prepare, "load", tiny_load)
    monkeypatch.setattr(_steps, "EPOCH_BATCH", 60)
    epoch = _steps.epoch_times("excerpt", 1)
    assert epoch["steps"] == 2 and set(epoch["times"]) == {"run", _arms.PLAIN}
    draw = _steps.draw_times(1000, 2)["times"]
    assert [one["rounds"] for one in draw.values()] == [2] * 4 and "Opacus" in draw


def test_a_transformer_keeps_examples_apart() -> None:
    model = _networks.transformer(0)
    inputs = torch.randn(3, 32, 16)
    alone = torch.cat([model(one[None]) for one in inputs])
    torch.testing.assert_close(model(inputs), alone)
    assert len([one for one in model.modules() if isinstance(one, nn.Linear)]) == 2 * 6 + 2


def test_a_stopped_run_goes_on_and_other_options_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "found.json"

    def run(answer: int, names: tuple[str, ...], *options: str) -> dict[str, Any]:
        monkeypatch.setattr(_steps, "parts", lambda _: ((name, lambda: {"answer": answer}) for name in names))
        threads = str(torch.get_num_threads())
        done = CliRunner().invoke(app, ["steps", "--out", str(out), "--threads", threads, *options])
        assert done.exit_code == 0, done.output
        return json.loads(out.read_text())  # type: ignore[no-any-return]

    assert run(1, ("draw/1", "epoch"), "--only", "draw")["parts"] == {"draw/1": {"answer": 1}}
    found = run(2, ("draw/1", "epoch"))
    assert found["parts"] == {"draw/1": {"answer": 1}, "epoch": {"answer": 2}}
    assert found["rounds"] == 15 and {"torch", "opacus"} <= set(found["versions"])
    assert run(3, ("epoch",), "--rounds", "4")["parts"] == {"epoch": {"answer": 3}}


def test_options() -> None:
    assert len(list(_steps.parts(_steps.Options(rounds=1, threads=1)))) == 5 + len(_steps.MEMORY_ARMS) + 3 + 1
    with refused("data", "'nothing'"):
        _steps.Options(rounds=1, threads=1, data="nothing")
