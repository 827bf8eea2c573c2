"""Per-example gradients of one call of a layer; whole loops are in ``tests/training/test_errors_with_cause.py``."""

import pytest
import torch
from torch import nn

from dptheory.training.per_example._layer_gradients import call_of, of_a_call, trained


class Masked(nn.Module):
    """A tensor of the batch, a mask that is none, a number; one that looks at values, which vmap cannot."""

    def __init__(self, looks: bool = False) -> None:
        super().__init__()
        self.weight, self.looks = nn.Parameter(torch.arange(1.0, 5.0)), looks

    def forward(self, x: torch.Tensor, mask: torch.Tensor, power: int = 1) -> torch.Tensor:
        assert x.dim() == 2
        if self.looks:
            assert float(x.sum()) < 100.0
        return (x * self.weight) ** power @ mask


def samples(layer: nn.Module, *args, by_forward: bool = False, **kwargs) -> dict[nn.Parameter, torch.Tensor]:
    """Of the sum of squares of the output's rows."""
    output = layer(*args, **kwargs)
    call = call_of(layer, args, kwargs, output)
    return of_a_call(layer, call, 0, 2.0 * output.detach(), by_forward=by_forward)


@pytest.mark.parametrize("looks", [False, True])
def test_a_mask_without_examples_is_as_it_was(looks: bool) -> None:
    """Of another size than the batch; by vmap, and one at a time where the layer looks at values."""
    layer, mask = Masked(looks), torch.eye(4).roll(1, 0)
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, -3.0, -4.0], [0.5, 0.0, 0.0, -1.0]])
    (found,) = samples(layer, x, mask=mask, power=2).values()
    wanted = [torch.autograd.grad(layer(row[None], mask, 2).square().sum(), layer.weight)[0] for row in x]
    assert torch.equal(found, torch.stack(wanted))


def test_formula_and_forward_agree() -> None:
    torch.manual_seed(0)
    layer, x = nn.Conv2d(2, 3, 2).double(), torch.randn(4, 2, 5, 5, dtype=torch.float64)
    formula, forward = samples(layer, x), samples(layer, x, by_forward=True)
    for p in layer.parameters():
        torch.testing.assert_close(formula[p], forward[p])


def test_no_rows_are_no_rows() -> None:
    for layer, x in ((nn.Conv1d(2, 3, 1), torch.zeros(0, 2, 4)), (nn.PReLU(), torch.zeros(0, 3))):
        assert all(len(rows) == 0 for rows in samples(layer, x, by_forward=True).values())
    assert samples(nn.EmbeddingBag(5, 2), torch.zeros(0, 3, dtype=torch.long)).popitem()[1].shape == (0, 5, 2)


def test_a_token_that_is_twice_in_a_bag_counts_twice() -> None:
    layer = nn.EmbeddingBag(3, 1, mode="sum")
    nn.init.ones_(layer.weight)
    (found,) = samples(layer, torch.tensor([[0, 0], [1, 2]])).values()
    assert found.squeeze(2).tolist() == [[8.0, 0.0, 0.0], [0.0, 4.0, 4.0]]  # 2 * 2 for each time


def test_what_is_trained_of_a_layer() -> None:
    """Of one that Opacus does not know also what is inside."""
    cell, linear = nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2)
    linear.bias.requires_grad_(False)
    assert trained(linear) == [linear.weight] and len(trained(cell)) == 2


def test_no_argument_with_examples() -> None:
    layer = Masked()
    output = torch.zeros(3, 4)
    with pytest.raises(ValueError, match="row for each of the 3 rows"):
        of_a_call(layer, call_of(layer, (torch.zeros(1, 4), torch.eye(4)), {}, output), 0, output, by_forward=False)
