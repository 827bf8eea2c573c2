"""Images reach the formulas of convolutions in the order of memory that Opacus takes for granted."""

import torch
from torch import nn


def laid_down_anew(layer: nn.Module, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """What a two-dimensional convolution was called with, as contiguous tensors; of other layers as it is.

    Opacus 1.6 unfolds the input of such a layer as if each of its channels lay row by row in memory. Of another one, of images
    with the channels last for instance, per-sample gradients are wrong without an error; where the examples lie innermost, the
    gradient of one is even made of pixels of others, and what is clipped is no longer what one example contributes.

    Args:
        layer: to which the formula is applied.
        tensors: its input.
    """
    return [one.contiguous() for one in tensors] if isinstance(layer, nn.Conv2d) else tensors
