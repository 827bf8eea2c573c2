"""Pooling in the order of memory in which PyTorch's kernels on the CPU are fast."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def pooled_channels_last(model: nn.Module) -> Iterator[None]:
    """Let every max pooling take its input with the channels last in memory, and give its output row by row as before.

    A step of the small network takes about four fifths of the time on a CPU. Scores are the same bit by bit; gradients up to
    the order of their sums. The output must lie as before: Opacus reads the input of the next convolution as if it did. Not for
    functorch's per-sample gradients, whose ``vmap`` knows one order of memory only.

    Args:
        model: has two hooks on each ``MaxPool2d`` meanwhile.

    Returns:
        A context.
    """
    pools = [module for module in model.modules() if isinstance(module, nn.MaxPool2d)]
    hooks = [
        *(pool.register_forward_pre_hook(_channels_last) for pool in pools),
        *(pool.register_forward_hook(_row_by_row) for pool in pools),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _channels_last(_: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    return inputs[0].contiguous(memory_format=torch.channels_last)


def _row_by_row(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return output.contiguous()
