"""From the words of a configuration to models and optimizers."""

from collections.abc import Callable
from typing import cast

import torch
from torch import nn

from dptheory import _validate
from dptheory.training import networks
from dptheory.training.networks import small_tanh_cnn
from dptheory.training.runs._config import OptimizerConfig

_COLOUR = 3 * 32 * 32
_MODELS: dict[str, Callable[[int], nn.Module]] = {
    "tempered-cnn": networks.small_tempered_cnn,
    "mlp": networks.mlp,
    "dp-cnn": networks.dp_cnn,
    "resnet20": networks.resnet20,
    "wrn-16-4": networks.wrn_16_4,
    "scattering-cnn": networks.scattering_cnn,
    "scattering-linear": networks.scattering_linear,
}
_SECOND_MOMENT = 0.999
"""Of Adam, as torch has it."""


def build_model(name: str, *, features: int, seed: int) -> nn.Module:
    """The network called ``name``, at its starting weights.

    Args:
        name: "small-cnn", "tempered-cnn", "mlp", "dp-cnn", "resnet20", "wrn-16-4", "scattering-cnn", "scattering-linear" or
            "linear-probe".
        features: entries of one input, for the linear probe, 1..1e9; with 3,072 the small CNN is that for 3 x 32 x 32 images.
        seed: of the starting weights, 0 to 2^64 - 1.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: another name; a seed, or for the linear probe a number of features, outside its range.

    Example: a linear layer of 784 inputs and ten outputs.
        >>> from dptheory.training.runs import build_model
        >>> sum(p.numel() for p in build_model("linear-probe", features=784, seed=0).parameters())
        7850
    """
    match _validate.choice("name", name, ("small-cnn", *_MODELS, "linear-probe")):
        case "small-cnn":
            return networks.small_colour_cnn(seed) if features == _COLOUR else small_tanh_cnn(seed)
        case "linear-probe":
            return networks.linear_probe(seed, features=features)
        case _:
            return _MODELS[name](seed)


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The torch optimizer over all parameters that require gradients.

    Args:
        model: whose parameters are trained.
        config: its name and hyperparameters.

    Returns:
        ``torch.optim.SGD`` or ``torch.optim.Adam``.

    Example: what the table [optimizer] of a configuration names.
        >>> import torch
        >>> from dptheory.training.runs import OptimizerConfig, build_optimizer
        >>> type(build_optimizer(torch.nn.Linear(3, 2), OptimizerConfig(name="adam", learning_rate=1e-3))).__name__
        'Adam'
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    momentum = cast(float, config.momentum)  # where none was given the configuration has put the optimizer's own
    if config.name == "adam":
        return torch.optim.Adam(
            trained,
            lr=config.learning_rate,
            betas=(momentum, _SECOND_MOMENT),
            weight_decay=config.weight_decay,
        )
    return torch.optim.SGD(trained, lr=config.learning_rate, momentum=momentum, weight_decay=config.weight_decay)
