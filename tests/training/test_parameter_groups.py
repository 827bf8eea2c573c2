"""Groups of parameters with settings of their own leave what a mechanism does as it is."""

import pytest
import torch
from torch import nn

from dptheory.training import mechanisms as m
from dptheory.training.engine import attach

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")

N = 12


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def grouped(model: nn.Module) -> list[dict]:
    """Weights with decay of zero, biases without: in another order than the model's."""
    named = list(model.named_parameters())
    return [
        {"params": [p for name, p in named if "bias" in name]},
        {"params": [p for name, p in named if "weight" in name], "weight_decay": 0.0},
    ]


def trained(model: nn.Module, params, mechanism: m.Mechanism, sigma: float = 0.0) -> list[torch.Tensor]:
    """The released gradients after a step."""
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(params, lr=0.1), mechanism=mechanism, sampling_rate=0.1, expected_batch_size=N,
        noise_multiplier=sigma, max_grad_norm=1.0, noise_generator=torch.Generator().manual_seed(1),
    )  # fmt: skip
    features = torch.randn(N, 5, generator=torch.Generator().manual_seed(2))
    nn.functional.cross_entropy(private(features), torch.arange(N) % 3).backward()
    optimizer.step()
    return [p.grad.clone() for p in model.parameters() if p.requires_grad]


def gep(model: nn.Module, groups: list[list[int]]) -> m.Gep:
    pixels = torch.randn(40, 5, generator=torch.Generator().manual_seed(3))
    anchors = m.AnchorGradients(model, pixels, classes=3, seed=0)
    return m.Gep(anchors, subspace_dim=6, residual_clip=0.5, groups=groups, seed=0)


BUILD = {
    "gep": lambda model: gep(model, [[0, 1, 2, 3]]),
    "gep in groups": lambda model: gep(model, [[0, 1], [2, 3]]),
    "quiet layers": lambda _: m.QuietLayers(quiet=1, from_step=0),
    "random sparsification": lambda _: m.RandomSparsification(m.Constant(0.5), 0),
    "layer freezing": lambda _: m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=0),
}


@pytest.mark.parametrize("sigma", [0.0, 2.0])
@pytest.mark.parametrize("name", BUILD)
def test_groups_change_nothing(name: str, sigma: float) -> None:
    released = []
    for grouping in (nn.Module.parameters, grouped, lambda model: list(model.parameters())[::-1]):
        model = network()
        released.append(trained(model, grouping(model), BUILD[name](model), sigma))
    for other in released[1:]:
        for a, b in zip(released[0], other, strict=True):
            torch.testing.assert_close(a, b)


def test_quiet_layers_are_the_first_ones() -> None:
    model = network()
    loud = trained(model, grouped(model), m.QuietLayers(quiet=1, from_step=0), 1e4)
    assert [bool(g.abs().max() > 10) for g in loud] == [False, False, True, True]
