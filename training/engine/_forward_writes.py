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
    before: _Held = {}

    def note(module: nn.Module, _: object) -> None:
        before.clear()
        if module.training:
            before.update(_held(module))

    def check(module: nn.Module, _: object, __: object) -> None:
        after = _held(module) if before else {}
        for name, (tensor, writes) in before.items():
            now, writes_now = after.get(name, (None, 0))
            if now is not tensor or writes_now != writes:
                raise ValueError(
                    f"module must leave its parameters and buffers as they are in a forward pass of training, got one that "
                    f"writes to {name.removeprefix('_module.')}: what it holds of the batch has no noise; put that layer "
                    "into eval(), or keep the value outside the model"
                )

    private.register_forward_pre_hook(note)
    private.register_forward_hook(check)


def _held(module: nn.Module) -> _Held:
    named = chain(module.named_parameters(), module.named_buffers())
    return {name: (tensor, 0 if tensor.is_inference() else tensor._version) for name, tensor in named}
