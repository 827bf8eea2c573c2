"""Pooling in the order of memory in which PyTorch's kernels on the CPU are fast."""

import torch
from torch import nn


def pool_channels_last(model: nn.Module) -> None:
    """Make every max pooling of the model take its input with the channels last in memory.

    The numbers stay the same up to rounding; a step of the small network takes about three quarters of the time on a CPU.
    Not for functorch's per-sample gradients, whose ``vmap`` knows one order of memory only.

    Args:
        model: changed in place, by a hook before each ``MaxPool2d``.

    >>> import torch
    >>> from training.networks import pool_channels_last, small_tanh_cnn
    >>> model, images = small_tanh_cnn(0), torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    >>> before = model(images)
    >>> pool_channels_last(model)
    >>> bool(torch.allclose(model(images), before, atol=1e-5))
    True
    """
    for module in model.modules():
        if isinstance(module, nn.MaxPool2d):
            module.register_forward_pre_hook(_channels_last)


def _channels_last(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return inputs[0].contiguous(memory_format=torch.channels_last)
