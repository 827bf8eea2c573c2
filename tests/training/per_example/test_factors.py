"""Which layers have factors, and that their weights are out of the graph only where nothing looks at them."""

import pytest
import torch
from torch import nn

from dptheory.training import mechanisms as m
from dptheory.training.engine import attach
from dptheory.training.per_example import Formed, Representation
from dptheory.training.per_example._factors import added, factors_of, has_factors

ROWS = 5


def attached(model: nn.Module):
    return attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=m.DpSgd(), sampling_rate=0.1,
        expected_batch_size=ROWS, noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip


def step(private: nn.Module, optimizer, x: torch.Tensor) -> list[torch.Tensor | None]:
    """What a backward pass leaves in p.grad."""
    optimizer.begin_batch(len(x))
    optimizer.zero_grad(set_to_none=True)
    private(x).square().sum(1).mean().backward()
    left = [None if p.grad is None else p.grad.clone() for p in optimizer.params]
    optimizer.step()
    return left


def test_weights_are_out_of_the_graph_once_their_gradients_were_compared() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))
    private, optimizer = attached(model)
    x = torch.randn(ROWS, 3)
    assert all(gradient is not None for gradient in step(private, optimizer, x))
    for _ in range(2):
        first, bias, last = step(private, optimizer, x)
        assert first is None and last is None and bias is not None
        assert all(p.requires_grad for p in model.parameters())
    assert optimizer.accountant.steps == 3


def test_a_forward_pass_that_fails_leaves_the_weights_trained() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    private, optimizer = attached(model)
    step(private, optimizer, torch.randn(ROWS, 3))
    with pytest.raises(RuntimeError):
        private(torch.randn(ROWS, 7))
    assert all(p.requires_grad for p in model.parameters())
    step(private, optimizer, torch.randn(ROWS, 3))
    assert optimizer.accountant.steps == 2


def test_a_weight_used_outside_of_its_layer_is_still_refused() -> None:
    """Once the engine has looked for such weights: it tries two and three examples."""

    class Outside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight = self.inner.weight if len(x) == ROWS else self.inner.weight.detach()
            return nn.functional.linear(self.inner(x), weight)

    private, optimizer = attached(Outside())
    with pytest.raises(ValueError, match=r"inner\.weight"):
        step(private, optimizer, torch.randn(ROWS, 3))
    assert optimizer.accountant.steps == 0


@pytest.mark.parametrize(
    ("layer", "has"),
    [
        (nn.Linear(2, 3), True), (nn.Conv2d(1, 2, 3), True), (nn.Embedding(4, 2), True),
        (nn.Conv2d(1, 2, 3, padding_mode="circular"), False), (nn.Embedding(4, 2, sparse=True), False), (nn.LayerNorm(3), False),
        (nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)), False), (type("Own", (nn.Linear,), {})(2, 3), False),
    ],
)  # fmt: skip
def test_layers_with_factors(layer: nn.Module, has: bool) -> None:
    assert has_factors(layer) is has


def test_an_input_without_examples_is_refused() -> None:
    for layer, x in ((nn.Linear(2, 3), torch.randn(2)), (nn.Conv1d(1, 2, 1), torch.randn(1, 4))):
        with pytest.raises(ValueError, match="no dimension for the examples"):
            factors_of(layer, x, layer(x).detach(), rows=1)


def test_calls_add_up_and_rows_that_took_no_part_are_zero() -> None:
    layer = nn.Linear(2, 3)
    x, b = torch.randn(ROWS, 2), torch.randn(ROWS, 3)
    whole = factors_of(layer, x, b, rows=ROWS)
    part = factors_of(layer, x[:2], b[:2], rows=ROWS)
    for p in (layer.weight, layer.bias):
        found: Representation = added(whole[p], part[p])
        wanted = whole[p].detach().clone()
        wanted[:2] += part[p].detach()[:2]
        assert len(part[p]) == ROWS and not part[p][2:].any()
        torch.testing.assert_close(found.detach(), wanted)
        torch.testing.assert_close(added(found, Formed(wanted)).detach(), 2 * wanted)
