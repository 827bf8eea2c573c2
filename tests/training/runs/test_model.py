"""Networks and optimizers by their names."""

from collections.abc import Callable

import torch
from torch import nn

from dptheory.training import networks, runs
from dptheory.training.networks import small_tanh_cnn
from dptheory.training.runs import OptimizerConfig


def test_networks() -> None:
    kinds: dict[str, Callable[[int], nn.Module]] = {
        "small-cnn": small_tanh_cnn, "mlp": networks.mlp, "dp-cnn": networks.dp_cnn, "resnet20": networks.resnet20,
        "wrn-16-4": networks.wrn_16_4,
        "scattering-cnn": networks.scattering_cnn,
        "scattering-linear": networks.scattering_linear,
    }  # fmt: skip
    for name, kind in kinds.items():
        found, wanted = runs.build_model(name, features=3, seed=7).state_dict(), kind(7).state_dict()
        assert all(torch.equal(value, wanted[key]) for key, value in found.items())
    assert torch.equal(
        runs.build_model("linear-probe", features=3, seed=7)[1].weight, networks.linear_probe(7, features=3)[1].weight
    )


def test_optimizers() -> None:
    layer = nn.Linear(2, 1)
    sgd = runs.build_optimizer(layer, OptimizerConfig(name="sgd", learning_rate=0.5, momentum=0.25, weight_decay=0.125))
    assert isinstance(sgd, torch.optim.SGD)
    assert [sgd.param_groups[0][key] for key in ("lr", "momentum", "weight_decay")] == [0.5, 0.25, 0.125]
    adam = runs.build_optimizer(
        layer, OptimizerConfig(name="adam", learning_rate=0.5, momentum=0.25, weight_decay=0.125)
    )
    assert isinstance(adam, torch.optim.Adam)
    assert [adam.param_groups[0][key] for key in ("lr", "betas", "weight_decay")] == [0.5, (0.25, 0.999), 0.125]
    unsaid = runs.build_optimizer(layer, OptimizerConfig(name="adam", learning_rate=0.5))
    assert unsaid.param_groups[0]["betas"] == torch.optim.Adam(layer.parameters()).param_groups[0]["betas"]
    assert runs.build_optimizer(layer, OptimizerConfig()).param_groups[0]["momentum"] == 0.0
