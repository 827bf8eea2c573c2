"""A module called with other values of its parameters."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.func import functional_call


def places_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Every place that holds a parameter, once, also where several layers hold one: name and parameter.

    A layer that stands in a model under several names has the first of them alone: ``torch.func.functional_call`` puts values into it
    once for each name, and takes out what it has put in itself.
    """
    return {
        f"{path}.{name}" if path else name: p
        for path, layer in module.named_modules()
        for name, p in layer._parameters.items()
        if p is not None
    }


def called_with(
    module: nn.Module, values: Mapping[torch.Tensor, torch.Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """What a module gives with other values in place of some of its parameters, wherever it holds them.

    Args:
        module: it has its parameters again afterwards.
        values: by parameter.
        args, kwargs: what it is called with.
    """
    taken = {name: values[p] for name, p in places_of(module).items() if p in values}
    return functional_call(module, taken, args, dict(kwargs), tie_weights=False)
