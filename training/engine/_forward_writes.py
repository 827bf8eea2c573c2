"""A forward pass in training must not write to the model: what it writes is private data that leaves without noise."""

from itertools import chain

import torch
from torch import nn

_Held = dict[str, tuple[torch.Tensor, int]]
"""Parameters and buffers by name, each with the number of writes to it so far."""


def refuse_writes(private: nn.Module) -> None:
    """Have every forward pass in training mode raise a ValueError where it writes to a parameter or buffer, or replaces one.

    Running statistics, observers of quantisation and embeddings that renormalise the rows of a batch do so. The error comes
    before the step: nothing of the batch is released by the optimizer.
    """
    writes = _Writes()
    private.register_forward_pre_hook(writes.note)
    private.register_forward_hook(writes.check)


class _Writes:
    """Between the beginning and the end of a forward pass."""

    def __init__(self) -> None:
        self._before: _Held = {}

    def __reduce__(self) -> tuple[type["_Writes"], tuple[()]]:
        return _Writes, ()

    def note(self, module: nn.Module, _: object) -> None:
        self._before = _held(module) if module.training else {}

    def check(self, module: nn.Module, _: object, __: object) -> None:
        after = _held(module) if self._before else {}
        for name, (tensor, writes) in self._before.items():
            now, writes_now = after.get(name, (None, 0))
            if now is not tensor or writes_now != writes:
                raise ValueError(
                    f"module must leave its parameters and buffers as they are in a forward pass of training, got one that "
                    f"writes to {name.removeprefix('_module.')}: what it holds of the batch has no noise; put that layer "
                    "into eval(), or keep the value outside the model"
                )


def _held(module: nn.Module) -> _Held:
    named = chain(module.named_parameters(), module.named_buffers())
    return {name: (tensor, 0 if tensor.is_inference() else tensor._version) for name, tensor in named}
