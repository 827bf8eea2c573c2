"""Weight standardisation of convolution layers."""

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization

from dptheory import _validate
from dptheory.errors import ArgumentError

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_EPSILON = 1e-4


class StandardisedWeight(nn.Module):
    r"""The weight of each output channel less its mean, over its norm: :math:`\hat w = (w-\bar w)/\sqrt{|w-\bar w|^2+10^{-4}}`.

    Source: De, Berrada, Hayes, Smith and Balle (2022), whose setting LF takes over (lf.table1); Qiao et al. (2019).

    Example: two channels of two weights each.
        >>> import torch
        >>> from dptheory.training.networks._weight_standardisation import StandardisedWeight
        >>> StandardisedWeight()(torch.tensor([[3.0, 1.0], [-5.0, 5.0]])).round(decimals=3)
        tensor([[ 0.7070, -0.7070],
                [-0.7070,  0.7070]])
    """

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """The standardised weight, in the shape of the raw one."""
        rows = weight.flatten(1)
        rows = rows - rows.mean(1, keepdim=True)
        rows = rows * torch.rsqrt(rows.square().sum(1, keepdim=True) + _EPSILON)
        return rows.view_as(weight)


def standardise_weights(model: nn.Module) -> nn.Module:
    """Let every convolution layer work with its standardised weight; what is trained is the raw one, which stays as it is.

    It costs no privacy: the standardised weight is made of the raw one alone, which is released after every step. The gradient of an
    example is that with respect to the raw weight, through the standardisation, and no example enters that of another one.

    Args:
        model: plain, before ``make_private``; it is changed.

    Returns:
        The model itself. Its state names the raw weight ``parametrizations.weight.original``;
        ``torch.nn.utils.parametrize.remove_parametrizations`` puts the standardised one in its place for good.

    Raises:
        ValueError: no convolution layer, or one whose weight is parametrized.

    Source: De et al. (2022), whose setting LF takes over (lf.table1).

    Example: every filter of the layer has mean 0 and a norm next to 1.
        >>> import torch
        >>> from dptheory.training.networks import standardise_weights
        >>> model = standardise_weights(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten()))
        >>> rows = model[0].weight.flatten(1)
        >>> bool((rows.mean(1).abs() < 1e-6).all()), bool((rows.norm(dim=1) > 0.99).all())
        (True, True)
    """
    _validate.instance("model", model, nn.Module)
    found = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _CONVOLUTIONS)]
    if not found:
        raise ArgumentError("model", "have a convolution layer", model, got="one without")
    for name, layer in found:
        if is_parametrized(layer):
            raise ArgumentError(
                "model", "have plain convolution layers", model, got=f"{name or 'one'} with a parametrized weight"
            )
    for _, layer in found:
        register_parametrization(layer, "weight", StandardisedWeight())
    return model
