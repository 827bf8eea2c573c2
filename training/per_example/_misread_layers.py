"""Layers as they are set that Opacus's own formulas get wrong, without an error."""

from torch import nn
from torch.nn.modules.conv import _ConvNd


def misread(layer: nn.Module) -> bool:
    """Whether Opacus's formula for the kind is not that of the layer as it is set.

    Opacus 1.6 pads every convolution with zeros, whatever its ``padding_mode``, and gives the row of an embedding's
    ``padding_idx`` a gradient.
    """
    if isinstance(layer, _ConvNd):
        return layer.padding_mode != "zeros"
    return isinstance(layer, nn.Embedding) and layer.padding_idx is not None
