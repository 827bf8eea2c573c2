"""The mean of the last weights, kept while a network trains: what goes in, what a state brings back, and what stays."""

import pytest
import torch
from torch import nn

from dptheory.training._last_weights import LastWeights, first_averaged
from tests.refused import refused


@pytest.mark.parametrize(
    ("steps", "average", "first"), [(10, 0.2, 8), (10, 1.0, 0), (10, 1e-9, 9), (13, 0.5, 7), (1, 0.5, 0)]
)
def test_the_first_step_of_the_average(steps: int, average: float, first: int) -> None:
    assert first_averaged(steps, average) == first


def network() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    return model


def moved(model: nn.Module, mean: LastWeights, values: list[float]) -> None:
    for value in values:
        nn.init.constant_(model[1].weight, value)  # type: ignore[index]
        mean.take()


def test_the_mean_stands_in_for_the_weights_meanwhile() -> None:
    model = network()
    mean = LastWeights(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with mean.inside():
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items()), "no mean yet"
    moved(model, mean, [1.0, 2.0, 6.0])
    with pytest.raises(KeyError), mean.inside():
        assert model[1].weight.tolist() == [[3.0, 3.0]]  # type: ignore[index]
        raise KeyError
    assert model[1].weight.tolist() == [[6.0, 6.0]]  # type: ignore[index]
    copy = mean.of(model)
    assert copy[1].weight.tolist() == [[3.0, 3.0]]  # type: ignore[index]
    assert torch.equal(copy[0].weight, before["0.weight"]), "what is frozen is not averaged"  # type: ignore[index]


def test_a_state_goes_on_bit_for_bit() -> None:
    model, values = network(), [0.1, 0.7, -0.3, 0.9]
    whole = LastWeights(model)
    moved(model, whole, values)
    first = LastWeights(model)
    moved(model, first, values[:2])
    state = {"count": first.count, "weights": {k: v.clone() for k, v in first.state_dict()["weights"].items()}}
    second = LastWeights(model)
    second.load_state_dict(state)
    moved(model, second, values[2:])
    assert second.count == whole.count == 4
    assert torch.equal(second.of(model)[1].weight, whole.of(model)[1].weight)  # type: ignore[index]


def test_a_state_of_another_network_is_refused() -> None:
    model, other = network(), nn.Linear(3, 1)
    mean = LastWeights(other)
    mean.take()
    with refused("state"):
        LastWeights(model).load_state_dict(mean.state_dict())
    LastWeights(model).load_state_dict(LastWeights(other).state_dict())  # none yet: of any
