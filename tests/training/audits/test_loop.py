"""Audits of any loop: true claims stand, false ones fall, and what is wrong is named."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from opacus import GradSampleModule
from opacus.data_loader import DPDataLoader
from opacus.optimizers import DPOptimizer
from torch import nn

from dptheory.privacy import gaussian_epsilon
from dptheory.privacy.auditing import _one_run
from dptheory.training import audit
from dptheory.training.audits import Stated, Steps, _released
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
    assert "is false" in str(without) and without.epsilon_most == without.epsilon_lower


def test_an_audit_that_could_not_refute_the_claim_says_so() -> None:
    weak = audited(1.0, 20.0, 0)
    assert weak.stands and weak.epsilon_lower < weak.epsilon_most < 20.0
    strong = replace(weak, epsilon=weak.epsilon_most - 0.01)
    assert strong.stands and len(str(strong).splitlines()) < len(str(weak).splitlines())


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


def test_an_audit_that_was_killed_goes_on_with_its_coins(tmp_path: Path) -> None:
    """The loop gets the same data again, and the file goes when the audit ends; another audit is not taken for this one."""
    data = [(torch.full((4,), float(i)), i % 3) for i in range(60)]
    file, seen = tmp_path / "seed.json", []

    def train(given: Any) -> nn.Module:
        seen.append([(x.tolist(), int(y)) for x, y in (given[i] for i in range(len(given)))])
        if len(seen) == 1:
            raise KeyboardInterrupt
        return nn.Linear(4, 3)

    def again(**change: Any) -> Any:
        return audit(train, data, **({"canaries": 40, "epsilon": 1.0, "delta": DELTA, "checkpoint": file} | change))

    with pytest.raises(KeyboardInterrupt):
        again()
    for change in ({"canaries": 41}, {"seed": 1}):
        with refused("checkpoint"):
            again(**change)
    assert again().proof.canaries == 40 and seen[0] == seen[1] and not file.exists()
    again()
    assert seen[2] != seen[1]  # new coins: two in 2^40 audits have the same
    file.write_text("{}")
    with refused("checkpoint"):
        again()


# --- what is wrong ------------------------------------------------------------------------------------------------------

STATED = Stated(noise_multiplier=1.0, max_grad_norm=2.0, sampling_rate=0.1, batch_size=40.0)
_STEPS, _RECORDS, _CANARIES, _PASS = 60, 200, 400, 10


class Sum(nn.Module):
    """Of two dense layers; less half the mean of the batch, or less a constant."""

    def __init__(self, inputs: int, outputs: int, mixes: bool) -> None:
        super().__init__()
        self.one, self.other, self.mixes = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs), mixes

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.one(rows) + self.other(rows)
        return hidden - 0.5 * (hidden.mean(0) if self.mixes else 1.0)


class Planted(DPOptimizer):
    """Opacus's optimizer, with one of the usual mistakes."""

    bug = ""

    def clip_and_accumulate(self) -> None:
        parts = {"batch clipped": 1, "part of a batch clipped": 4}.get(self.bug)
        size = len(self.params[0].grad_sample)
        if parts and size >= parts:  # what is clipped is a mean over records
            for rows in torch.arange(size).tensor_split(parts):
                means = [p.grad_sample[rows].mean(0) for p in self.params]
                factor = (self.max_grad_norm / torch.linalg.vector_norm(torch.cat([g.flatten() for g in means]))).clamp(
                    max=1.0
                )
                for p, mean in zip(self.params, means, strict=True):
                    whole = factor * mean * self.expected_batch_size / parts
                    p.summed_grad = whole if p.summed_grad is None else p.summed_grad + whole
            return
        super().clip_and_accumulate()
        if self.bug == "tensor not clipped":
            self.params[0].summed_grad = self.params[0].grad_sample.sum(0)

    def add_noise(self) -> None:
        step = len(self.steps)  # type: ignore[has-type]
        seed = {"noise reused": 1, "seed set again": step % _PASS}.get(self.bug)
        source = self.generator if seed is None else torch.Generator().manual_seed(seed)
        factor = {
            "noise left out": 0.0,
            "noise over another batch size": 0.5,
            "noise without the clip": 1 / self.max_grad_norm,
        }
        for place, p in enumerate(self.params):
            if self.bug == "one noise for all tensors":
                source = torch.Generator().manual_seed(step)
            of_tensor = 0.0 if self.bug == "noise on one tensor" and place != 2 else 1.0
            noise = torch.randn(p.numel(), generator=source).view_as(p)
            std = self.noise_multiplier * self.max_grad_norm
            p.grad = p.summed_grad.view_as(p) + factor.get(self.bug, of_tensor) * std * noise

    def scale_grad(self) -> None:
        super().scale_grad()
        if self.bug == "divisor of the drawn batch":
            for p in self.params:
                p.grad *= self.expected_batch_size / max(1, len(p.grad_sample))


def opacus_loop(bug: str, seed: int = 0) -> Callable[[Any], Steps]:
    """A plain loop with Opacus, in which one thing may be wrong."""

    def train(data: Any) -> Steps:
        torch.manual_seed(seed)
        draws = torch.Generator().manual_seed(seed + 1)
        model = GradSampleModule(nn.Sequential(Sum(ENTRIES, 8, bug == "mixed records"), nn.ReLU(), nn.Linear(8, 4)))
        clip = STATED.max_grad_norm * (3 if bug == "clip too large" else 1)
        optimizer = Planted(
            torch.optim.SGD(model.parameters(), lr=0.005),
            noise_multiplier=STATED.noise_multiplier * STATED.max_grad_norm / clip,
            max_grad_norm=clip,
            expected_batch_size=int(STATED.batch_size),
            generator=draws,
        )
        steps = optimizer.steps = Steps(model)
        optimizer.bug = bug
        rate = STATED.sampling_rate * (3 if bug == "drawn too often" else 1)
        shuffled = bug == "shuffled"
        loader: Any = DPDataLoader(data, sample_rate=rate, generator=draws)
        if bug in ("shuffled", "in order"):
            loader = torch.utils.data.DataLoader(
                data, len(data) // _PASS, shuffle=shuffled, drop_last=True, generator=draws
            )
        while True:
            for features, labels in loader:
                if bug == "views apart":
                    features, labels = features.repeat(3, 1), labels.repeat(3)
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(features), labels).backward()
                optimizer.step()
                steps.add()
                if len(steps) == _STEPS:
                    return steps

    return train


def audited_loop(bug: str, seed: int = 3) -> Any:
    data = [(torch.randn(ENTRIES, generator=torch.Generator().manual_seed(i)) / 16, i % 4) for i in range(_RECORDS)]
    told = _STEPS // 2 if bug == "half of the steps told" else _STEPS
    return audit(
        opacus_loop(bug, seed),
        data,
        canaries=_CANARIES,
        access="gradients",
        stated=STATED,
        epsilon=STATED.composition(told).epsilon(DELTA).upper,
        delta=DELTA,
        seed=seed,
    )


NAMED = {
    "batch clipped": "weight of a canary",
    "part of a batch clipped": "weight of a canary",
    "clip too large": "weight of a canary",
    "tensor not clipped": "clip of 0.one.weight",
    "noise over another batch size": "noise",
    "noise without the clip": "noise",
    "noise left out": "noise",
    "noise on one tensor": "noise of 0.one.weight",
    "noise reused": "noise of one step and another",
    "seed set again": "noise of one step and another",
    "one noise for all tensors": "noise of one tensor and another",
    "divisor of the drawn batch": "noise of every step",
    "shuffled": "batches",
    "in order": "batches",
    "drawn too often": "sampling rate of canaries",
    "views apart": "rows of a record",
    "mixed records": "records of a batch",
    "half of the steps told": "account",
}


@pytest.mark.parametrize("bug", NAMED)
@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_a_planted_bug_is_named_first(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_one_run, "_LINES", 4)  # a looser proof, for which nothing is named
    result = audited_loop(bug)
    assert not result.stands
    assert (result.findings[0].name, result.findings[0].passed) == (NAMED[bug], False)


@pytest.mark.parametrize("seed", [3, 4, 5])
@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_a_right_loop_is_not_accused(seed: int) -> None:
    result = audited_loop("", seed)
    assert result.stands and {one.name for one in result.findings} >= set(NAMED.values())


@pytest.mark.parametrize("opacus", [False, True])
@pytest.mark.parametrize("mixes", [False, True])
def test_records_that_are_not_apart_are_named(mixes: bool, opacus: bool) -> None:
    """Of a plain model and of one that Opacus has put its hooks on."""
    model: nn.Module = GradSampleModule(Sum(4, 3, mixes)) if opacus else Sum(4, 3, mixes)
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
    seen = _released.Seen(along=sharp, size=np.ones((2, 2)), sharp=sharp, variance=np.full((2, 2), 4.0), parts={})
    found = _released.likelihood(seen, 0.25)
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
