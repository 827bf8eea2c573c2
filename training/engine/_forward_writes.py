"""A forward pass in training must not write to the model: what it writes is private data that leaves without noise."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.utils.parametrizations import _SpectralNorm

from dptheory.errors import ArgumentError
from dptheory.training.engine._hooked_layers import every_layer


def refuse_writes(private: nn.Module) -> None:
    """Have every forward pass in training mode raise a ValueError where it writes to a parameter or buffer, or replaces one.

    Running statistics, observers of quantisation and embeddings that renormalise the rows of a batch do so. The error comes
    before the step: nothing of the batch is released by the optimizer.
    """
    writes = _Writes()
    private.register_forward_pre_hook(writes.note)
    private.register_forward_hook(writes.check)


class _Held(NamedTuple):
    """What stands under a name in a layer: a parameter or buffer, with the number of writes to it so far, or a layer."""

    names: dict[str, Any]
    name: str
    value: Any
    writes: int

    def stays(self) -> bool:
        return self.names.get(self.name) is self.value and self.writes == _writes(self.value)


class _Writes:
    """Between the beginning and the end of a forward pass."""

    def __init__(self) -> None:
        self._before: list[_Held] = []

    def __reduce__(self) -> tuple[type["_Writes"], tuple[()]]:
        return _Writes, ()

    def note(self, module: nn.Module, _: object) -> None:
        self._before = list(_held(module)) if module.training else []

    def check(self, module: nn.Module, _: object, __: object) -> None:
        for one in self._before:
            if not one.stays() and not _holds_nothing(one.value):
                raise ArgumentError(
                    "module",
                    "leave its parameters and buffers as they are in a forward pass of training",
                    module,
                    got=f"one that writes to {_label(module, one)}: what it holds of the batch has no noise; put "
                    "that layer into eval(), or keep the value outside the model",
                )


def _held(module: nn.Module) -> Iterator[_Held]:
    for layer in every_layer(module):
        if isinstance(layer, _SpectralNorm):
            continue  # its vectors follow from the weight alone
        for names in (layer._modules, layer._parameters, layer._buffers):
            for name, value in names.items():
                if value is not None:
                    yield _Held(names, name, value, _writes(value))


def _writes(value: Any) -> int:
    return 0 if isinstance(value, nn.Module) or value.is_inference() else value._version


def _holds_nothing(value: torch.Tensor | nn.Module) -> bool:
    """A layer without parameters and buffers, which may be replaced."""
    return isinstance(value, nn.Module) and not any(True for _ in (*value.parameters(), *value.buffers()))


def _label(module: nn.Module, held: _Held) -> str:
    """The name of what was written to, from the model on."""
    for path, layer in module.named_modules():
        if any(held.names is names for names in (layer._modules, layer._parameters, layer._buffers)):
            return f"{path}.{held.name}".removeprefix("_module.").removeprefix(".")
    return held.name
