"""Images reach convolutions in the order of memory that Opacus takes for granted."""

import torch
from torch import nn


def lay_down_anew(module: nn.Module) -> None:
    """Make every two-dimensional convolution take its input as a contiguous tensor.

    Opacus 1.6 unfolds the input of such a layer as if each of its channels lay row by row in memory. Of another one, of images
    with the channels last for instance, per-sample gradients are wrong without an error; where the examples lie innermost, the
    gradient of one is even made of pixels of others, and what is clipped is no longer what one example contributes.

    Args:
        module: its convolutions get a hook, which copies an input that is not contiguous.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_pre_hook(_contiguous)


def _contiguous(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(one.contiguous() for one in inputs)
