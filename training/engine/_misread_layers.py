"""Layers as they are set that Opacus's own formulas get wrong, without an error."""

import torch
from opacus import GradSampleModule
from opacus.grad_sample.functorch import ft_compute_per_sample_gradient, prepare_layer
from torch import nn
from torch.nn.modules.conv import _ConvNd


def misread_kinds(module: nn.Module) -> set[type[nn.Module]]:
    """Kinds of layers of which the module has one that is misread.

    Opacus 1.6 pads every convolution with zeros, whatever its ``padding_mode``, and gives the row of an embedding's
    ``padding_idx`` a gradient.
    """
    return {type(layer) for layer in module.modules() if _misread(layer)}


def read_by_functorch(private: GradSampleModule) -> None:
    """Have functorch work out the per-sample gradients of layers of these kinds; to be called while there are no hooks."""
    kinds = misread_kinds(private._module)
    for layer in private._module.modules():
        if type(layer) in kinds:
            prepare_layer(layer, batch_first=private.batch_first)
    private.GRAD_SAMPLERS = private.GRAD_SAMPLERS | dict.fromkeys(kinds, _by_functorch)


def _misread(layer: nn.Module) -> bool:
    if isinstance(layer, _ConvNd):
        return layer.padding_mode != "zeros"
    return isinstance(layer, nn.Embedding) and layer.padding_idx is not None


def _by_functorch(
    layer: nn.Module, activations: list[torch.Tensor], backprops: torch.Tensor
) -> dict[nn.Parameter, torch.Tensor]:
    if not len(backprops):  # functorch maps over no rows at all
        return {p: p.new_zeros(0, *p.shape) for p in layer.parameters()}
    found: dict[nn.Parameter, torch.Tensor] = ft_compute_per_sample_gradient(layer, activations, backprops)
    return found
