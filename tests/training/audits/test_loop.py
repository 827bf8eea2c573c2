"""Audits of any loop: true claims stand, false ones fall, and what is wrong is named."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from opacus import GradSampleModule
from torch import nn

from dptheory.privacy import gaussian_epsilon
from dptheory.training import audit
from dptheory.training.audits import Finding, Stated, Steps, _canaries, _diagnosis, _loop, _released
from tests.refused import refused

DELTA, ENTRIES = 1e-5, 256


class Directions(torch.utils.data.Dataset[Any]):
    """Rows that are gradients, one after the other along other axes."""

    def __init__(self, count: int, first: int = 0) -> None:
        self.count, self.first = count, first

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        row = torch.zeros(ENTRIES)
        row[(self.first + i) % ENTRIES] = 1.0
        return row, 0


def one_step(sigma: float, seed: int) -> Callable[[Any], nn.Module]:
    """One clipped and noisy sum of all rows as weights: a Gaussian release, which takes milliseconds."""

    def train(data: Any) -> nn.Module:
        total = torch.stack([data[i][0] for i in range(len(data))]).sum(0)
        model = nn.Linear(ENTRIES, 1, bias=False)
        noise = torch.randn(ENTRIES, generator=torch.Generator().manual_seed(seed))
        model.weight.data = (total + sigma * noise)[None]
        return model

    return train


def along(model: nn.Module, record: Any) -> float:
    return float(model(record[0]).detach())


def audited(sigma: float, epsilon: float, seed: int) -> Any:
    return audit(
        one_step(sigma, seed),
        Directions(4, 200),
        canaries=Directions(200),
        score=along,
        epsilon=epsilon,
        delta=DELTA,
        seed=seed,
    )


def test_a_true_claim_is_refused_at_most_as_often_as_stated() -> None:
    """200 repetitions at 95 %: more than 18 refusals have a chance of 1 % where each has one of 5 %."""
    truth = gaussian_epsilon(1.0, DELTA)
    assert sum(not audited(1.0, truth, seed).stands for seed in range(200)) <= 18


def test_false_claims_fall() -> None:
    """A tenth of what is spent; and the noise left out."""
    spent = gaussian_epsilon(1.0 / 0.4, DELTA)
    assert not audited(0.4, spent / 10, 0).stands and audited(0.4, spent, 0).stands
    without = audited(0.0, 3.0, 1)
    assert not without.stands and without.proof.hits == without.proof.guesses
    assert "is false" in str(without)


@pytest.mark.parametrize(("epsilon", "canaries"), [(1.0, 60), (4.0, 1000), (5.0, 2000)])
def test_a_claim_falls_where_all_guesses_are_right(epsilon: float, canaries: int) -> None:
    """Perfect guesses refute the claim, with room for some that are wrong."""
    guesses = _loop._guesses(canaries, epsilon, 0.95)
    p = 1 / (1 + math.exp(-epsilon))
    assert guesses <= canaries and p**guesses < 0.05**1.5


def test_a_loop_that_ignores_its_data_is_never_accused() -> None:
    """Never at all where it gives the same for all; else as rarely as stated: no claim of .5 falls in 20 runs."""
    data = [(torch.full((4,), float(i)), i % 3) for i in range(60)]
    for seed in range(20):
        model = nn.Linear(4, 3)
        result = audit(lambda data, model=model: model, data, canaries=60, epsilon=0.5, delta=DELTA, seed=seed)  # type: ignore[misc]
        assert result.stands
    constant = audit(
        lambda data: [nn.Identity()], data, canaries=60, score=lambda model, record: 1.0, epsilon=0.0, delta=DELTA
    )
    assert constant.stands and constant.epsilon_lower == 0.0


def test_models_are_scored_together_and_canaries_are_mislabelled() -> None:
    data = [(torch.eye(6)[i % 6], torch.tensor(i % 3)) for i in range(48)]
    seen: list[Any] = []

    def train(given: Any) -> list[nn.Module]:
        seen.extend(given[i] for i in range(len(given)))
        return [nn.Linear(6, 3), nn.Linear(6, 3)]

    result = audit(train, data, canaries=40, epsilon=1.0, delta=DELTA, seed=0)
    assert result.proof.canaries == 40 and 5 < len(seen) - 48 < 35
    known = {tuple(x.tolist()): int(y) for x, y in data}
    assert all(int(y) != known[tuple(x.tolist())] for x, y in seen[48:])
    assert all(isinstance(y, torch.Tensor) for _, y in seen)


# --- what is wrong ------------------------------------------------------------------------------------------------------

STATED = Stated(noise_multiplier=1.0, max_grad_norm=1.0, sampling_rate=0.1, batch_size=20.0)
_STEPS, _RECORDS, _CANARIES = 30, 200, 128


def dp_sgd(data: Any, bug: str, seed: int = 0) -> Steps:
    """DP-SGD on two dense layers in plain torch, with one of the usual mistakes."""
    draws = torch.Generator().manual_seed(seed)
    pairs = [data[i] for i in range(len(data))]
    features, labels = torch.stack([x for x, _ in pairs]), torch.tensor([int(y) for _, y in pairs])
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(ENTRIES, 8), nn.ReLU(), nn.Linear(8, 4))
    of_each = _released._gradients_of(model)
    steps, rate = Steps(model), STATED.sampling_rate * (3 if bug == "rate" else 1)
    for step in range(_STEPS):
        drawn = torch.rand(len(features), generator=draws) < rate
        weights = {name: one.detach() for name, one in model.named_parameters()}
        own = of_each(weights, features[drawn], labels[drawn])
        sizes = torch.sqrt(sum((g.flatten(1) ** 2).sum(1) for g in own.values()))  # type: ignore[arg-type]
        factors = (STATED.max_grad_norm * (3 if bug == "clip" else 1) / sizes).clamp(max=1.0)
        divisor = max(int(drawn.sum()), 1) if bug == "divisor" else STATED.batch_size
        with torch.no_grad():
            for name, weight in model.named_parameters():
                again = {"seed set again": 1, "one noise for all tensors": step}.get(bug)
                source = draws if again is None else torch.Generator().manual_seed(again)
                noise = torch.randn(weight.numel(), generator=source).reshape(weight.shape)
                factor = {"none": 0.0, "two thirds": 2 / 3, "one tensor without": float(name != "2.weight")}.get(
                    bug, 1.0
                )
                weight.grad = (torch.einsum("n,n...->...", factors, own[name]) + factor * noise) / divisor
                weight -= 0.1 * weight.grad
        steps.add()
    return steps


def findings(bug: str) -> dict[str, Finding]:
    rng = np.random.default_rng(3)
    data = [(torch.randn(ENTRIES, generator=torch.Generator().manual_seed(i)) / 16, i % 4) for i in range(_RECORDS)]
    canaries = _canaries.made(data, _CANARIES, "gradients", rng)
    coins = rng.random(_CANARIES) < 0.5
    steps = dp_sgd(_canaries.with_drawn(data, canaries, coins), bug)
    seen = _released.seen(
        steps, canaries, unit=STATED.max_grad_norm / STATED.batch_size, noise=1.0, share=0.05, done=lambda done: None
    )
    return {one.name: one for one in _diagnosis.diagnosis(steps, STATED, seen.along, coins)}


NAMED = {
    "none": "noise of 0.weight",
    "two thirds": "noise of 0.weight",
    "one tensor without": "noise of 2.weight",
    "seed set again": "noise of one step and another",
    "one noise for all tensors": "noise of one tensor and another",
    "divisor": "noise of every step",
    "rate": "sampling rate of canaries",
    "clip": "weight of a canary",
}


@pytest.mark.parametrize("bug", NAMED)
def test_a_planted_bug_is_named(bug: str) -> None:
    found = findings(bug)
    assert not found[NAMED[bug]].passed


def test_a_right_loop_has_nothing_wrong() -> None:
    assert [name for name, one in findings("").items() if not one.passed] == []


class Centred(nn.Module):
    """Less the mean of the batch, or less a constant."""

    def __init__(self, mixes: bool) -> None:
        super().__init__()
        self.layer, self.mixes = nn.Linear(4, 3), mixes

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(rows)
        return hidden - (hidden.mean(0) if self.mixes else 1.0)


@pytest.mark.parametrize("opacus", [False, True])
@pytest.mark.parametrize("mixes", [False, True])
def test_records_that_are_not_apart_are_named(mixes: bool, opacus: bool) -> None:
    """Of a plain model and of one that Opacus has put its hooks on."""
    model: nn.Module = GradSampleModule(Centred(mixes)) if opacus else Centred(mixes)
    data = [(torch.randn(4), i % 3) for i in range(60)]
    result = audit(lambda data: model, data, canaries=60, epsilon=8.0, delta=DELTA, seed=0)
    assert [(one.name, one.passed) for one in result.findings] == [("records of a batch", not mixes)]
    assert ("wrong: records of a batch" in str(result)) is mixes


def test_steps_hold_the_weights_before_each_step() -> None:
    model = nn.Linear(2, 1, bias=False)
    first = model.weight.detach().clone()
    steps = Steps(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    optimizer.register_step_post_hook(lambda *_: steps.add())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.tensor([[1.0, 3.0]])).sum().backward()
        optimizer.step()
    assert torch.equal(steps.weights[0]["weight"], first)
    assert torch.equal(steps.weights[1]["weight"], first - 0.5 * torch.tensor([[1.0, 3.0]]))
    assert torch.equal(steps.gradients[1]["weight"], torch.tensor([[1.0, 3.0]]))


def test_likelihood_ratios_are_those_of_a_sampled_gaussian_step() -> None:
    sharp = np.array([[0.3, -1.0], [2.0, 0.0]])
    found = _released.likelihood(_released.Seen(sharp, sharp, np.full((2, 2), 4.0)), 0.25)
    ratio = np.exp(-((sharp - 1) ** 2) / 8 + sharp**2 / 8)
    assert found == pytest.approx(np.log(0.75 + 0.25 * ratio).sum(0), rel=1e-12)


GOOD = {
    "train": lambda data: nn.Linear(4, 3),
    "data": [(torch.zeros(4), i % 3) for i in range(9)],
    "epsilon": 1.0,
    "delta": DELTA,
}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"train": 3}, "train"),
        ({"train": lambda data: 3}, "train"),
        ({"train": lambda data: []}, "train"),
        ({"train": lambda data: nn.Linear(4, 3), "access": "gradients", "canaries": 8}, "train"),
        ({"data": []}, "data"),
        ({"data": [(torch.zeros(4), 0)] * 9}, "data"),
        ({"data": [(1, 2)] * 9}, "canaries"),
        ({"data": [(torch.zeros(4), 0.5)] * 9}, "canaries"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"confidence": 1.0}, "confidence"),
        ({"canaries": 4}, "canaries"),
        ({"canaries": 10}, "canaries"),
        ({"canaries": 9, "access": "gradients"}, "canaries"),
        ({"canaries": [(torch.zeros(4), 0)] * 4}, "canaries"),
        ({"score": 3}, "score"),
        ({"access": "weights"}, "access"),
        ({"stated": STATED}, "stated"),
        ({"stated": SimpleNamespace(), "access": "gradients"}, "stated"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input(change: dict[str, Any], named: str) -> None:
    with refused(named):
        audit(**({**GOOD, "canaries": 9} | change))


@pytest.mark.parametrize(
    ("name", "value"),
    [("noise_multiplier", 0.0), ("max_grad_norm", math.nan), ("sampling_rate", 1.5), ("batch_size", 0)],
)
def test_stated_refuses(name: str, value: float) -> None:
    good = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "sampling_rate": 0.1, "batch_size": 5.0}
    with refused(name):
        Stated(**(good | {name: value}))
