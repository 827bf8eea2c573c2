"""``plan`` on small problems: what is fixed, whom it serves, who runs the pilots, and what is refused."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from opacus.layers import DPMultiheadAttention
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import TensorDataset

import dptheory.training
from dptheory.privacy import epsilon_bounds
from dptheory.training.planning import _workers, plan
from tests.training.planning.small import BUDGET, Here, labelled, linear, planned, public


def chosen(choice: Any) -> object:
    return choice.point, choice.expected, choice.as_good, choice.costs


def test_what_is_fixed_is_kept_and_the_budget_too() -> None:
    fixed = {
        "learning_rate": 0.25,
        "momentum": 0.5,
        "clip_norm": 0.7,
        "schedule": "linear",
        "average": 0.2,
        "epochs": 1.5,
    }
    choice = planned(**fixed)
    for name, value in (fixed | {"batch_size": 100, "num_examples": 400, "delta": 1e-5}).items():
        assert getattr(choice, name) == value, name
    assert choice.steps == 6
    spent = epsilon_bounds(noise_multiplier=choice.noise_multiplier, sampling_rate=0.25, steps=6, delta=1e-5).upper
    assert spent <= 3.0


def test_a_sweep_finds_a_rate_and_clips_are_shares_of_the_median_norm() -> None:
    choice = planned(learning_rate=None, clip_norm=None, epochs=1.0)
    assert choice.learning_rate > 0 and choice.clip_norm > 0
    assert choice.expected.high > 0.5, "better than guessing"
    low, high = choice.as_good["learning rate"].low, choice.as_good["learning rate"].high
    assert low <= choice.learning_rate <= high


def test_pilots_side_by_side_choose_what_they_choose_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = planned(executor=Here())
    with ThreadPoolExecutor(2) as pool:
        assert chosen(planned(executor=pool)) == chosen(wanted)
    monkeypatch.setattr(_workers, "cores", lambda: 2)
    assert chosen(planned(executor=None)) == chosen(wanted), "in processes"
    monkeypatch.setattr(_workers, "cores", lambda: 1)
    assert chosen(planned(executor=None)) == chosen(wanted), "in this one"


def test_the_model_and_torchs_random_state_stay() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    planned(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None and not hasattr(p, "grad_sample") for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


class Attending(nn.Module):
    """Words, and an attention over them."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.attention, self.last = (
            nn.Embedding(7, 6),
            DPMultiheadAttention(6, 2, batch_first=True),
            nn.Linear(6, 2),
        )

    def forward(self, words: Tensor) -> Tensor:
        seen = self.words(words)
        found: Tensor = self.last(self.attention(seen, seen, seen)[0].mean(1))
        return found


def test_whole_numbers_as_features_an_embedding_and_attention() -> None:
    words = torch.randint(7, (60, 3), generator=torch.Generator().manual_seed(0))
    choice = planned(Attending(), TensorDataset(words, (words[:, 0] > 3).long()))
    assert choice.metric == "accuracy"


def test_a_loss_and_a_metric_of_ones_own() -> None:
    features, _ = labelled()
    data = TensorDataset(features, features[:, :1])
    plain = planned(linear(classes=1), data, loss=mse_loss)
    assert plain.metric == "metric" and plain.expected.low < 0, "minus the loss"
    judged = planned(linear(classes=1), data, loss=mse_loss, metric=lambda outputs, labels: 7.0)
    assert (judged.expected.low, judged.expected.high) == (7.0, 7.0)


def test_pilots_that_diverge_are_results() -> None:
    choice = planned(learning_rate=1e6, loss=mse_loss, data=TensorDataset(*_numbers()), model=linear(classes=1))
    assert choice.learning_rate == 1e6
    str(choice)


def _numbers() -> tuple[Tensor, Tensor]:
    features, _ = labelled()
    return features, features[:, :1]


class BatchMean(nn.Module):
    """Mixes the records of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(x - x.mean(0))
        return found


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


class TorchAttention(nn.Module):
    """Hides its layers from the hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.last = nn.MultiheadAttention(5, 1, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        seen = x[:, None]
        found: Tensor = self.last(self.attention(seen, seen, seen)[0][:, 0])
        return found


def with_labels(low: int, high: int) -> TensorDataset:
    features, _ = labelled()
    return TensorDataset(features, low + torch.arange(60) % (high + 1 - low))


def refused(start: str, model: nn.Module | None = None, data: Any = None, **more: Any) -> None:
    executor = Here()
    with pytest.raises(ValueError, match=f"^{start} ") as error:
        planned(model, data, executor=executor, **more)
    assert executor.done == 0 and "\n" not in str(error.value)


def test_networks_that_cannot_be_trained_are_refused() -> None:
    refused("records", BatchMean())
    refused("model", batch_norm())
    refused("model", TorchAttention())
    refused("model", linear().requires_grad_(False))
    refused("model", "resnet")  # type: ignore[arg-type]
    refused("model", nn.Sequential(nn.Linear(5, 2), nn.Unflatten(1, (2, 1))))


def test_losses_that_are_no_mean_are_refused() -> None:
    refused("loss", loss=lambda outputs, labels: cross_entropy(outputs, labels, reduction="sum"))
    weights = torch.tensor([1.0, 10.0])
    refused("loss", loss=lambda outputs, labels: cross_entropy(outputs, labels, weight=weights))


def test_records_that_do_not_fit_are_refused() -> None:
    refused("public", data=with_labels(0, 2))
    refused("public", data=with_labels(-1, 1))
    refused("public", data=TensorDataset(*_numbers()))
    refused("public", data=public(49))
    refused("public", data=public(dim=4))
    refused("public", private=public())


@pytest.mark.parametrize(
    ("start", "value"),
    [
        ("epsilon", 1e-9), ("epsilon", 0.0), ("epsilon", float("nan")), ("delta", 1.0), ("num_examples", 49), ("batch_size", 401),
        ("epochs", 3.0), ("max_epochs", 0.0), ("clip_norm", 0.0), ("learning_rate", -1.0), ("momentum", 1.0),
        ("schedule", "falling"), ("average", 0.3), ("seconds", 0.0), ("seed", -1),
    ],
)  # fmt: skip
def test_arguments_out_of_range_are_refused(start: str, value: Any) -> None:
    refused(start, **{start: value})


def test_it_is_the_packages_own() -> None:
    assert dptheory.training.plan is plan and BUDGET["epsilon"] == 3.0
