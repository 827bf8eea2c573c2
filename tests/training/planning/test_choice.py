"""The choice: its code trains for as many steps as it says, within the budget, and what it prints."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dptheory.planning import candidates
from dptheory.training.planning import Choice, MethodGain, Range
from dptheory.training.planning._point import Schedule
from tests.training.planning.small import SCHEDULES_AND_AVERAGES, labelled, linear

BUDGET: dict[str, Any] = {"num_examples": 60, "epsilon": 3.0, "delta": 1e-5}
(PRICED,) = candidates(**BUDGET, max_epochs=2, batch_size=12, epochs=2)


def choice(**more: Any) -> Choice:
    plain = {
        "batch_size": PRICED.batch_size, "epochs": PRICED.epochs, "steps": PRICED.steps,
        "noise_multiplier": PRICED.noise_multiplier, "clip_norm": 1.0, "learning_rate": 0.5, "momentum": 0.5,
        "schedule": "constant", "average": 0.0, "metric": "accuracy", "expected": Range(0.5, 0.75),
    }  # fmt: skip
    return Choice(**BUDGET, **plain | more)


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


def run(code: str, model: nn.Module, features: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
    names: dict[str, Any] = {"model": model, "private": TensorDataset(features, labels)}
    exec(compile(code, "choice", "exec"), names)
    return names


@pytest.mark.parametrize(("schedule", "average"), SCHEDULES_AND_AVERAGES)
def test_the_code_takes_exactly_the_steps_and_keeps_the_budget(schedule: Schedule, average: float) -> None:
    one, model = choice(schedule=schedule, average=average), linear()
    names = run(one.code(), model, *labelled())
    assert names["taken"] == names["optimizer"].accountant.steps == one.steps == 10
    assert names["optimizer"].epsilon(one.delta) <= one.epsilon
    if schedule != "constant":
        assert names["sgd"].param_groups[0]["lr"] == pytest.approx(0.0, abs=1e-12)
    if average:
        mean = names["mean"]
        assert int(mean.n_averaged) == round(average * one.steps)
        assert not torch.equal(mean.module.weight, model.weight)  # type: ignore[arg-type]


def test_the_code_serves_attention_and_a_frozen_part() -> None:
    from opacus.layers import DPMultiheadAttention

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 6).requires_grad_(False)
            self.attention = DPMultiheadAttention(6, 2, batch_first=True)
            self.last = nn.Linear(6, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen = self.first(x)[:, None]
            found: torch.Tensor = self.last(self.attention(seen, seen, seen)[0][:, 0])
            return found

    one, model = choice(average=0.5), Attending()
    before = model.first.weight.clone()
    names = run(one.code(), model, *labelled())
    assert names["taken"] == one.steps
    assert torch.equal(model.first.weight, before) and torch.equal(names["mean"].module.first.weight, before)
    assert not torch.equal(names["mean"].module.last.weight, model.last.weight)


def test_what_is_printed() -> None:
    gain = MethodGain(
        method="layer freezing", setting="half", gain=Range(-0.02, 0.01), learning_rate=0.1, why="it may", claim="lf.x"
    )
    one = choice(
        schedule="cosine", average=0.2, as_good={"learning rate": Range(0.25, 1.0)}, costs={"epochs x 4": 0.125},
        methods=(gain,), pilots=17, public="60 public records",
    )  # fmt: skip
    text = " ".join(str(one).split())
    for part in (
        "2 epochs (10 steps)", "batches of 12", "falling to 0 (cosine)", "momentum 0.5", "the last 20% of the steps",
        "epsilon 3 at delta 1e-05 for 60 records", "0.500 to 0.750", "17 pilots on 60 public records",
        "learning rate 0.25 to 1", "epochs x 4 -0.125", "Layer freezing (half): -0.020 to +0.010", "no difference seen", "[lf.x]",
    ):  # fmt: skip
        assert part in text, part
    assert max(map(len, str(one).splitlines())) <= 100
    assert "falling" not in str(choice()) and "averaged" not in str(choice())


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.01, 0.02, "worth trying"), (-0.02, 0.0, "not worth its cost"), (-0.1, 0.1, "no difference seen")],
)
def test_the_verdict_of_a_method(low: float, high: float, verdict: str) -> None:
    gain = MethodGain(method="m", setting="s", gain=Range(low, high), learning_rate=1.0, why="w", claim="c")
    assert gain.verdict == verdict
