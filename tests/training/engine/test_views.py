"""Views: an example in several rows has one gradient, the mean over them, which is clipped once."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from opacus.layers import DPGRU
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from dptheory.training.data import CropsAndFlips
from dptheory.training.engine import (
    GRAD_SAMPLE_MODES,
    attach,
    check_rows_apart,
    make_private,
    make_private_with_epsilon,
)
from dptheory.training.mechanisms import (
    Constant,
    DpSgd,
    Gep,
    LayerFreezing,
    RandomSparsification,
)
from dptheory.training.per_example import _layer_gradients, as_gradients

N, VIEWS, CLASSES = 4, 3, 5
UNIT = 2.0**-53

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")


class Sequences(nn.Module):
    """Tokens with positions, whose one row stands for all; a recurrence; a table that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 6), nn.Embedding(7, 6)
        self.cells, self.out = DPGRU(6, 6, batch_first=True), nn.Linear(6, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        h = self.words(tokens) + self.places(torch.arange(7)[None])
        return self.out((self.cells(h)[0] + self.words(tokens.flip(1))).mean(1))


class Windows(nn.Module):
    """Windows of each row pass a layer side by side, and a weight is used without a layer: no hook reaches either."""

    def __init__(self) -> None:
        super().__init__()
        self.window, self.scale, self.out = nn.Linear(2, 2), nn.Parameter(torch.rand(8)), nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.window(x.reshape(-1, 2)).tanh().reshape(len(x), 8) * self.scale)


class Group(nn.Module):
    """What every row of an example becomes depends on its other rows, and on no other example."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(8, 6), nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inner(x).view(-1, VIEWS, 6)
        return self.out((h.tanh() + h.mean(1, keepdim=True)).flatten(0, 1))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(),
        nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.ReLU(inplace=True),
        nn.Conv2d(6, 4, 2, padding="same"), nn.Flatten(), nn.LayerNorm(36), nn.Linear(36, CLASSES),
    )  # fmt: skip


def deep() -> nn.Module:
    """Weights that are large beside a sequence of views, so that their gradients are never formed."""
    return nn.Sequential(nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, CLASSES, bias=False))


def pictures(rows: int) -> torch.Tensor:
    return torch.randn(rows, 1, 8, 8, dtype=torch.float64)


def numbers(rows: int) -> torch.Tensor:
    return torch.randn(rows, 8, dtype=torch.float64)


def tokens(rows: int) -> torch.Tensor:
    return torch.randint(11, (rows, 7))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], torch.Tensor]]] = {
    "images": (images, pictures),
    "deep": (deep, numbers),
    "sequences": (Sequences, tokens),
    "windows": (Windows, numbers),
    "rows of an example together": (Group, numbers),
}


def made(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    build, draw = NETWORKS[name]
    return build().double(), draw(N * VIEWS), torch.randint(CLASSES, (N * VIEWS,))


def alone(model: nn.Module, x: torch.Tensor, y: torch.Tensor, views: int = VIEWS) -> list[list[torch.Tensor]]:
    """The gradients of each example by itself: of the mean over its rows."""
    found = []
    for rows in torch.arange(len(x)).split(views):
        loss = F.cross_entropy(model(x[rows]), y[rows])
        found.append(list(torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)))
    return found


def private(model: nn.Module, *, views: int = VIEWS, **options: Any) -> Any:
    given = {"mechanism": DpSgd(), "noise_multiplier": 0.0, "max_grad_norm": 1e-3, "expected_batch_size": N}
    return attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), sampling_rate=0.5, views=views, **given | options,
    )  # fmt: skip


def close(one: torch.Tensor, other: torch.Tensor, scale: float) -> bool:
    # sums of at most 1,000 products, through at most 16 operations
    return one.shape == other.shape and float((one - other).abs().max()) <= 1000 * 16 * UNIT * scale


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_an_example_has_the_mean_gradient_of_its_rows(name: str, mode: str, reduction: str) -> None:
    model, x, y = made(name)
    wanted = alone(model, x, y)
    network, optimizer = private(model, grad_sample_mode=mode, loss_reduction=reduction)
    optimizer.begin_batch(N)
    optimizer.zero_grad()
    F.cross_entropy(network(x), y, reduction=reduction).backward()
    found = optimizer.grad_samples
    assert found.examples == N
    scale = max(float(p.abs().max()) for one in wanted for p in one)
    squares = torch.stack([torch.stack([p.square().sum() for p in one]).sum() for one in wanted])
    assert close(found.square_norms(), squares, float(squares.max()))
    weights = torch.rand(N, dtype=torch.float64)
    sums = [sum(w * p for w, p in zip(weights, parts, strict=True)) for parts in zip(*wanted, strict=True)]
    assert all(close(a, b, N * scale) for a, b in zip(found.weighted_sum(weights), sums, strict=True))
    formed = found.formed()
    assert all(close(formed[j][i], p, scale) for i, one in enumerate(wanted) for j, p in enumerate(one))
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step()
    clipped = [
        sum(p * (1e-3 / torch.sqrt(s)).clamp(max=1.0) for p, s in zip(parts, squares, strict=True))
        for parts in zip(*wanted, strict=True)
    ]
    divisor = N if reduction == "mean" else 1
    assert all(
        close(old - new.detach(), total / divisor, 1.0)  # weights are of the order of 1, and so is their rounding
        for old, new, total in zip(before, model.parameters(), clipped, strict=True)
    )
