"""Factors of dense layers, convolutions and embeddings: their per-example gradients follow from input and output gradient alone."""

from collections.abc import Callable
from typing import Any

import torch
from opacus.layers.dp_rnn import RNNLinear
from torch import nn

from dptheory.training.per_example._convolution import Convolution, Geometry
from dptheory.training.per_example._dense import Dense
from dptheory.training.per_example._formed import Formed
from dptheory.training.per_example._mixed import Mixed
from dptheory.training.per_example._representation import Representation, as_rows, behind, over_views
from dptheory.training.per_example._table import Table

_DENSE = (nn.Linear, RNNLinear)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def has_factors(layer: nn.Module) -> bool:
    """Whether the rules of this module are those of a layer.

    Subclasses may do something else with their parameters, and reparametrised weights are no parameters.
    """
    if not isinstance(layer._parameters.get("weight"), nn.Parameter):
        return False
    if type(layer) in _CONVOLUTIONS:
        return layer.padding_mode == "zeros"
    if type(layer) is nn.Embedding:
        return not (layer.scale_grad_by_freq or layer.sparse or layer.max_norm is not None)
    return type(layer) in _DENSE


def factors_of(
    layer: Any, inputs: torch.Tensor, gradient: torch.Tensor, *, rows: int, views: int = 1
) -> dict[torch.Tensor, Representation]:
    """The per-example gradients of a layer's trained parameters, for one call of it.

    Args:
        layer: one that :func:`has_factors`.
        inputs: what it took in.
        gradient: of the loss, for what it gave out.
        rows: examples of the batch; those behind the last row of the inputs took no part, as in packed sequences.
        views: rows of an example, which lie together; its gradient is their sum.
    """
    found: dict[torch.Tensor, Representation] = {}
    if layer.weight.requires_grad:
        found[layer.weight] = _rule(layer)(layer, inputs, gradient, views).with_rows(rows)
    bias = getattr(layer, "bias", None)
    if bias is not None and bias.requires_grad:
        found[bias] = Formed(over_views(_summed(layer, gradient), views)).with_rows(rows)
    return found


def added(one: Representation, other: Representation) -> Representation:
    """The gradients of a parameter that two calls used."""
    rows = max(len(one), len(other))
    one, other = one.with_rows(rows), other.with_rows(rows)
    if (isinstance(one, Dense) and isinstance(other, Dense)) or (isinstance(one, Table) and isinstance(other, Table)):
        return one.joined(other)  # type: ignore[arg-type]
    if isinstance(one, Formed) and isinstance(other, Formed):
        return Formed(one.formed() + other.formed())
    return Mixed([*_parts(one), *_parts(other)])


def _parts(one: Representation) -> list[Representation]:
    return one.parts if isinstance(one, Mixed) else [one]


def _rule(layer: nn.Module) -> Callable[[Any, torch.Tensor, torch.Tensor, int], Representation]:
    if isinstance(layer, nn.Embedding):
        return _table
    return _convolution if isinstance(layer, _CONVOLUTIONS) else _dense


def _dense(_: Any, inputs: torch.Tensor, gradient: torch.Tensor, views: int) -> Representation:
    if inputs.dim() < 2:
        raise ValueError("its input has no dimension for the examples")
    return Dense(behind(_sequence(gradient), views), behind(_sequence(inputs), views))


def _convolution(layer: Any, inputs: torch.Tensor, gradient: torch.Tensor, views: int) -> Representation:
    if inputs.dim() < len(layer.kernel_size) + 2:
        raise ValueError("its input has no dimension for the examples")
    return Convolution(gradient, inputs, Geometry.of(layer), views=views)


def _table(layer: Any, indices: torch.Tensor, gradient: torch.Tensor, views: int) -> Representation:
    rows = as_rows(indices)
    b = behind(gradient.reshape(*rows.shape, gradient.shape[-1]), views)
    tokens = behind(rows, views)
    return Table(tokens, b, rows=layer.num_embeddings, padding=layer.padding_idx)


def _summed(layer: Any, gradient: torch.Tensor) -> torch.Tensor:
    """Of a bias: output gradients, added up over sequence or space."""
    if isinstance(layer, _CONVOLUTIONS):
        return gradient.flatten(2).sum(2)
    # a copy, so that what is written to it does not change the factor of the weight
    return gradient.flatten(1, -2).sum(1) if gradient.dim() > 2 else gradient.clone()


def _sequence(tensor: torch.Tensor) -> torch.Tensor:
    """Shape (n, T, entries) of (n, entries) or (n, ..., entries)."""
    return tensor[:, None] if tensor.dim() < 3 else tensor.flatten(1, -2)
