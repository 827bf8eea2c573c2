"""Layers that Opacus misreads are read by functorch, and those whose gradients count the batch are refused."""

import copy

import pytest
import torch
from torch import nn

from tests.refused import refused
from tests.training.engine.test_gradient_sums import N, attached, step

pytestmark = [pytest.mark.filterwarnings("ignore:Full backward hook"), pytest.mark.numerics]


def convolution(dim: int, mode: str, **options) -> nn.Module:
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dim - 1]
    return nn.Sequential(kind(2, 3, 3, padding=1, padding_mode=mode, **options), nn.Flatten(), nn.Linear(3 * 4**dim, 3))


def embedding(**options) -> nn.Module:
    return nn.Sequential(nn.Embedding(7, 4, **options), nn.Flatten(), nn.Linear(20, 3))


LAYERS = [
    (lambda mode=mode, dim=dim: convolution(dim, mode), torch.randn(N, 2, *[4] * dim))
    for mode in ("circular", "reflect", "replicate")
    for dim in (1, 2, 3)
] + [
    (lambda: convolution(2, "circular", bias=False), torch.randn(N, 2, 4, 4)),
    (lambda: embedding(padding_idx=0), torch.randint(2, (N, 5))),
]  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("build", "features"), LAYERS)
def test_layers_that_opacus_misreads(build, features, reduction: str) -> None:
    model = build()
    alone = copy.deepcopy(model)
    wanted = [
        torch.autograd.grad(nn.functional.cross_entropy(alone(features[i : i + 1]), torch.tensor([i % 3])), alone.parameters())
        for i in range(N)
    ]  # fmt: skip
    private, optimizer = attached(model, reduction=reduction)
    samples = step(private, optimizer, features, reduction)
    for found, *examples in zip(samples, *wanted, strict=True):
        torch.testing.assert_close(found.detach(), torch.stack(examples))
    step(private, optimizer, features[:0], reduction)
    assert not any(total.any() for total in optimizer.clipped_total)
    model[0].requires_grad_(False)
    step(private, optimizer, features, reduction)
    model[0].requires_grad_(True)
    step(private, optimizer, features, reduction)
    assert optimizer.accountant.steps == 4


def test_counts_over_the_batch_are_refused() -> None:
    with refused("module", "0"):
        attached(embedding(scale_grad_by_freq=True))
