"""Benchmarks: settings, honest counting, timing, and what is left out."""

import dataclasses
import importlib.util
import itertools
import json
import math
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from dptheory.privacy import epsilon_bounds
from dptheory.training import runs
from dptheory.training.benchmarks import (
    _arms,
    _calculators,
    _independent,
    _networks,
    _practice,
    _steps,
)
from dptheory.training.benchmarks.__main__ import app
from dptheory.training.benchmarks._networks import FEW, MANY, SEVERAL, VIEWS
from dptheory.training.benchmarks._timing import in_turns
from dptheory.training.networks import mlp
from dptheory.training.runs import _prepare, _train, from_dict
from tests.refused import refused
from tests.training.tiny import tiny_load

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Optimal order")

# --- The benchmarks run, and count right; with `--slow`, memory stays bounded. No test asks how long anything takes
# ---


CPU = torch.device("cpu")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return 10 * self.now

    def sleeper(self, *seconds: float) -> Callable[[], None]:
        """Work that takes the times in turn."""
        waits = itertools.cycle(seconds)

        def work() -> None:
            self.now += next(waits)

        return work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("dptheory.training.benchmarks._timing.time", clock)
    return clock


def test_calculators_are_held_against_a_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Work of 1 s is timed beside a sort of 10 s, and may take .8 s on a core whose sort takes .08: ten of them."""
    cases = {"fast": (lambda: clock.sleeper(1.0), 0.8, 2), "slow": (lambda: clock.sleeper(101.0), 0.8, 9)}
    monkeypatch.setattr(_calculators, "CASES", cases)
    monkeypatch.setattr(_calculators, "_sort", clock.sleeper(10.0))
    monkeypatch.setattr(_calculators, "_importing", lambda package: clock.sleeper(1.0))
    done = CliRunner().invoke(app, ["calculators", "--rounds", "3", "--out", str(tmp_path / "found.json")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "found.json").read_text())["parts"]
    assert [(one["ratio"], one["goal"], one["reached"]) for one in found.values()] == [
        (0.1, 10.0, True),
        (10.1, 10.0, False),
        (1.0, 1.5, True),
    ]
    assert [one["times"]["work"]["rounds"] for one in found.values()] == [2, 3, 3]


LARGE = (_calculators.kappa, _calculators.best_rate, _calculators.epsilon_after_every_epoch)


@pytest.mark.parametrize(
    "build",
    [
        partial(_calculators.kappa, dim=30),
        partial(_calculators.best_rate, dim=15),
        partial(_calculators.epsilon_after_every_epoch, epochs=3),
        *(one for one, _, _ in _calculators.CASES.values() if one not in LARGE),
    ],
)
def test_calculators_can_be_timed(build: Callable[[], Callable[[], object]]) -> None:
    build()()


@pytest.mark.slow
def test_memory_depends_on_the_physical_batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """WRN-16-4, a logical batch of 96 in physical ones of 16: after two of them the peak stays where it is."""
    monkeypatch.setattr(_prepare, "load", tiny_load)
    table = {
        "data": "cifar-10", "model": "wrn-16-4", "epochs": 1, "batch_size": 96, "physical_batch_size": 16,
        "max_grad_norm": 1.0, "noise_multiplier": 1.0,
        "mechanism": {"name": "index-pruning", "keep_share": 0.1, "index_epsilon": 0.01},
    }  # fmt: skip
    run = runs.prepare(from_dict(table), CPU)
    peaks = []
    backward = _train._backward

    def watched(run: runs.Run, part: torch.Tensor) -> float:
        loss = backward(run, part)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
        return loss

    monkeypatch.setattr(_train, "_backward", watched)
    _train.one_step(run)
    assert len(peaks) >= 4 and peaks[-1] < 12
    assert peaks[-1] - peaks[1] < 0.25


# --- The benchmark of steps runs on tiny networks and counts right; no test asks how long anything takes ---


SMALL = {name: dataclasses.replace(one, batch=3) for name, one in _networks.NETWORKS.items()}


def test_medians_and_least_times_in_turns(clock: Clock) -> None:
    order: list[str] = []
    slow, fast = clock.sleeper(100.0, 8.0, 2.0, 4.0), clock.sleeper(50.0, 1.0)
    works = {"slow": lambda: (order.append("s"), slow()), "fast": lambda: (order.append("f"), fast())}
    found = in_turns(works, 3, warm_up=1)
    assert order == ["s", "f"] * 4
    slow_times = {"median": 4.0, "least": 2.0, "processor_median": 40.0, "processor_least": 20.0, "rounds": 3}
    assert found["slow"] == slow_times
    assert (found["fast"]["median"], found["fast"]["least"]) == (1.0, 1.0)  # of 1, 50, 1: the first is left out
    waited = in_turns({"device": clock.sleeper(1.0)}, 3, finish=clock.sleeper(0.0, 3.0))
    assert waited["device"]["median"] == 4.0  # what the device still had to do belongs to the work


def test_no_round_is_begun_after_the_limit(clock: Clock) -> None:
    assert in_turns({"one": clock.sleeper(2.0)}, 10, warm_up=1, limit=5.0)["one"]["rounds"] == 2
    assert in_turns({"one": clock.sleeper(9.0)}, 10, warm_up=1, limit=5.0)["one"]["rounds"] == 1


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


NEEDS_TEXT = pytest.mark.skipif(not _networks.installed(), reason="needs dptheory[architectures]")

small = partial(_networks.timed, batch=2, sizes=_networks.SMALL)


def test_further_views_are_as_many_rows_as_further_images() -> None:
    assert VIEWS[SEVERAL].batch == VIEWS[MANY].batch == VIEWS[FEW].batch * VIEWS[SEVERAL].views
    assert VIEWS[FEW].views == VIEWS[MANY].views == 1


@NEEDS_TEXT
@pytest.mark.architectures
def test_every_part_of_text_is_measured() -> None:
    tiny = {name: one for name, one in VIEWS.items() if name == FEW}
    parts = dict(_practice.parts(1, 1, text=small, views=tiny))
    peaks = {f"memory/{arm}/{way}" for arm in (_arms.PLAIN, _arms.DP_SGD) for way in _networks.WAYS}
    peaks |= {f"memory/{_arms.GHOST}/{way}" for way in (_networks.LORA, _networks.EVERYTHING)} | {
        f"memory/{_arms.DP_SGD}/{FEW}"
    }
    assert {name for name in parts if name.startswith("memory/")} == peaks
    found = parts["time/ways"]()
    assert set(found["times"]) == {f"{arm}/{way}" for arm in (_arms.PLAIN, _arms.DP_SGD) for way in _networks.WAYS}
    counts = found["trained"]
    assert (
        sorted(counts, key=counts.get)[-1] == _networks.EVERYTHING and min(counts.values()) == counts["the head alone"]
    )
    assert set(parts[f"time/{_networks.EVERYTHING}"]()["times"]) == set(_practice.OTHERS)


@NEEDS_TEXT
@pytest.mark.architectures
@pytest.mark.parametrize("way", _networks.WAYS)
def test_steps_of_every_arm_are_plain_ones_without_noise_and_clip(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with places and kinds of tokens by hand, and nothing else moves than what is trained."""
    monkeypatch.setattr(_arms, "_SIGMA", 0.0)
    monkeypatch.setattr(_arms, "_CLIP", 1e6)
    moved = {}
    for arm in (_arms.PLAIN, _arms.DP_SGD, *((_arms.GHOST,) if way == _networks.EVERYTHING else ())):
        timed = small(way, by_hand=arm == _arms.GHOST)
        model = timed.model()
        monkeypatch.setattr(type(timed), "model", lambda self, model=model: model)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        _arms.build(arm, timed, *timed.examples(2))()
        monkeypatch.undo()
        monkeypatch.setattr(_arms, "_SIGMA", 0.0)
        monkeypatch.setattr(_arms, "_CLIP", 1e6)
        moved[arm] = {name: p.detach() - before[name] for name, p in model.named_parameters()}
        still = {name for name, p in model.named_parameters() if not p.requires_grad}
        assert not any(moved[arm][name].any() for name in still)
    largest = max(float(p.abs().max()) for p in before.values())
    ulp = torch.finfo(torch.float32).eps * largest  # of a weight, to which the step is added
    for found in moved.values():
        assert any(one.any() for one in found.values())
        assert all(float((found[name] - one).abs().max()) <= 2 * ulp for name, one in moved[_arms.PLAIN].items())


def test_the_command_writes_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "found.json"
    names = ("time/views", "memory/one")
    monkeypatch.setattr(_practice, "parts", lambda rounds, threads: ((n, lambda: {"answer": rounds}) for n in names))
    threads = str(torch.get_num_threads())
    done = CliRunner().invoke(
        app, ["practice", "--out", str(out), "--rounds", "3", "--threads", threads, "--only", "time"]
    )
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(out.read_text("utf-8"))
    assert found["parts"] == {"time/views": {"answer": 3}} and found["rounds"] == 3
    assert {"torch", "opacus"} <= set(found["versions"])


def test_text_is_left_out_where_its_packages_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_practice, "installed", lambda: False)
    assert {name.split("/")[0] for name, _ in _practice.parts(1, 1)} == {"time", "memory"}
    assert len(list(_practice.parts(1, 1))) == 1 + len(VIEWS) and _practice.versions() == {}


def first_of(law: str) -> dict[str, Any]:
    """A setting of few steps, for time."""
    return min(list(_independent.settings(law, 12, 11))[1:], key=lambda one: one.get("steps_per_epoch", 0) or math.inf)


ALLOCATED = {"noise_multiplier": 1.76, "sampling": "random allocation", "steps_per_epoch": 3, "delta": 3.4e-7}


@pytest.mark.parametrize(
    ("law", "setting"),
    [
        *((law, first_of(law)) for law in _independent.LAWS),
        # nothing cancels at this noise but in many digits
        ("poisson", {"noise_multiplier": 320.0, "sampling_rate": 0.28, "steps": 1, "delta": 1e-30}),
        # the integral of few epochs falls off slowly
        *(
            ("random allocation", ALLOCATED | {"steps": 3 * epochs, "direction": direction})
            for epochs in (1, 2, 4)
            for direction in ("remove", "add")
        ),
    ],
)
def test_the_plain_code_tells_bounds_that_miss(
    law: str, setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours lie inside; moved by a ten-thousandth of themselves, to either side, they do not."""
    found = epsilon_bounds(**setting)
    for factor, finding in ((1.0, "inside"), (0.9999, "missed"), (1.0001, "missed")):
        moved = dataclasses.replace(found, lower=factor * found.lower, upper=factor * found.upper)
        monkeypatch.setattr(_independent, "epsilon_bounds", lambda moved=moved, **_: moved)
        assert _independent.check(law, setting).finding == finding


def test_the_plain_code_has_what_doubles_cancel() -> None:
    """Three rare steps at a delta of 1e-25, which the integrand passes by e^50 where its contour crosses."""
    setting = {"noise_multiplier": 1.06, "sampling_rate": 3.5e-6, "steps": 3, "delta": 1.5e-25}
    found = _independent.check("poisson", setting)
    assert found.finding == "inside" and found.error < 2e-8 and abs(found.above - 1) < 1e-6
