"""A module called with other values has its own parameters afterwards, also where layers share them."""

import torch
from torch import nn

from dptheory.training.per_example._other_values import called_with, places_of


class Shared(nn.Module):
    """One layer under two names, and a weight that another layer has, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = self.again = nn.Linear(3, 3)
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(self.again(self.first(x)))


def test_values_are_everywhere_and_gone_afterwards() -> None:
    model, x = Shared(), torch.randn(2, 3)
    weight, bias = model.first.weight, model.first.bias
    doubled = called_with(model, {weight: 2 * weight.detach(), bias: 0 * bias.detach()}, (x,), {})
    torch.testing.assert_close(doubled, 8 * (x @ weight.T @ weight.T @ weight.T))
    assert set(places_of(model)) == {"first.weight", "first.bias", "tied.weight"}
    assert model.first.weight is weight and model.again.weight is weight and model.tied.weight is weight
