"""Factors of dense layers, convolutions and embeddings: their per-example gradients follow from input and output gradient alone."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from opacus.layers.dp_rnn import RNNLinear
from torch import nn

from dptheory.training.per_example._convolution import Convolution, Geometry
from dptheory.training.per_example._dense import Dense
from dptheory.training.per_example._formed import AT_ONCE, Formed, formed_squares, square_sums
from dptheory.training.per_example._representation import Representation, Tensors, as_rows, behind, over_views, widened

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
        rows: examples of the batch; those behind the last row of the inputs took no part, as in packed sequences.
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
        return Formed(one.formed() + other.formed(), computed_in=lowest((one, other)))
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


def lowest(parts: Sequence[Representation]) -> torch.dtype:
    """The precision with the largest rounding among them."""
    return min((part.computed_in for part in parts), key=lambda one: torch.finfo(one).bits)


def _summed(layer: Any, gradient: torch.Tensor) -> torch.Tensor:
    """Of a bias: output gradients, added up over sequence or space."""
    if isinstance(layer, _CONVOLUTIONS):
        return gradient.flatten(2).sum(2)
    # a copy, so that what is written to it does not change the factor of the weight
    return gradient.flatten(1, -2).sum(1) if gradient.dim() > 2 else gradient.clone()


def _sequence(tensor: torch.Tensor) -> torch.Tensor:
    """Shape (n, T, entries) of (n, entries) or (n, ..., entries)."""
    return tensor[:, None] if tensor.dim() < 3 else tensor.flatten(1, -2)


# --- Per-example gradients of a parameter that stands in layers of different kinds, such as an embedding tied to the last layer


class Mixed(Representation):
    """The sum of several representations of one parameter: sums and projections add up, norms need the gradients formed.

    Args:
        parts: at least one, all of the same shape.

    Example: the two ends of a tied weight.
        >>> import torch
        >>> from dptheory.training.per_example import Dense, Formed, Mixed
        >>> one = torch.ones(1, 1, 2)
        >>> Mixed([Dense(one, one), Formed(torch.eye(2)[None])]).formed()
        tensor([[[2., 1.],
                 [1., 2.]]])
    """

    def __init__(self, parts: list[Representation]) -> None:
        self.parts = parts
        self.shape, self.dtype = parts[0].shape, parts[0].dtype
        self.computed_in = lowest(parts)

    @property
    def device(self) -> torch.device:
        return self.parts[0].device

    def square_norms(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        return formed_squares(self, mask)

    def weighted_sum(self, weights: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.weighted_sum(weights).to(self.dtype) for part in self.parts]).sum(0)

    def formed(self, examples: slice = slice(None)) -> torch.Tensor:
        return torch.stack([part.formed(examples).to(self.dtype) for part in self.parts]).sum(0)

    def cleared(self, left_out: torch.Tensor) -> "Mixed":
        return Mixed([part.cleared(left_out) for part in self.parts])

    def with_rows(self, rows: int) -> "Mixed":
        return Mixed([part.with_rows(rows) for part in self.parts])

    def in_float64(self) -> "Mixed":
        return Mixed([part.in_float64() for part in self.parts])

    def rests_on(self) -> Tensors:
        return [one for part in self.parts for one in part.rests_on()]

    def project(self, directions: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.project(directions).to(self.dtype) for part in self.parts]).sum(0)


# --- Per-example gradients of an embedding's weight: the rows of the tokens of each example, and no others


class Table(Representation):
    r"""Rows of an embedding's weight, shape (V, e): the gradient of example i has :math:`\sum_{t: k_{it} = k} b_{it}` in row k.

    Args:
        indices: k, whole numbers in 0..V - 1, shape (n, T).
        output_gradients: b, shape (n, T, e).
        rows: V.
        padding: a row that is not trained, as ``padding_idx`` of an embedding; None where there is none.

    Example: a token that stands twice in an example has one row, the sum.
        >>> import torch
        >>> from dptheory.training.per_example import Table
        >>> Table(torch.tensor([[2, 2]]), torch.tensor([[[1.0], [2.0]]]), rows=4).formed()
        tensor([[[0.],
                 [0.],
                 [3.],
                 [0.]]])
    """

    def __init__(
        self, indices: torch.Tensor, output_gradients: torch.Tensor, *, rows: int, padding: int | None = None
    ) -> None:
        gradients = widened(output_gradients)
        n = len(indices)
        if padding is not None:
            gradients = gradients.masked_fill((indices == padding)[..., None], 0.0)
        of_example = torch.arange(n, device=indices.device)[:, None].expand_as(indices)
        keys, places = torch.unique(of_example * rows + indices, return_inverse=True)
        values = gradients.new_zeros(len(keys), gradients.shape[-1])
        values.index_add_(0, places.flatten(), gradients.flatten(0, -2))
        self._set(keys, values, n, rows)
        self.computed_in = output_gradients.dtype

    def _set(self, keys: torch.Tensor, values: torch.Tensor, n: int, rows: int) -> None:
        """Keys: example times V plus row, ascending, each once; values: what stands there."""
        self._keys, self._values = keys, values
        self.shape, self.dtype = torch.Size((n, rows, values.shape[1])), values.dtype
        self.computed_in = values.dtype

    @property
    def _examples(self) -> torch.Tensor:
        return self._keys // self.shape[1]

    @property
    def _indices(self) -> torch.Tensor:
        return self._keys % self.shape[1]

    def joined(self, other: "Table") -> "Table":
        """Both uses of a table that is used twice."""
        keys, places = torch.unique(torch.cat([self._keys, other._keys]), return_inverse=True)
        values = self._values.new_zeros(len(keys), self.shape[2])
        values.index_add_(0, places, torch.cat([self._values, other._values]).to(values.dtype))
        return self._like(keys, values)

    def _like(self, keys: torch.Tensor, values: torch.Tensor) -> "Table":
        found = object.__new__(Table)
        found._set(keys, values, self.shape[0], self.shape[1])
        found.computed_in = self.computed_in
        return found

    def _per_example(self, numbers: torch.Tensor) -> torch.Tensor:
        """Sums over the rows of each example, from numbers of shape (rows there are, ...)."""
        return numbers.new_zeros(self.shape[0], *numbers.shape[1:]).index_add_(0, self._examples, numbers)

    @property
    def device(self) -> torch.device:
        return self._values.device

    def square_norms(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        kept = self._values if mask is None else self._values * mask[self._indices]
        return self._per_example(square_sums(kept))

    def weighted_sum(self, weights: torch.Tensor) -> torch.Tensor:
        scaled = self._values * weights.to(self.dtype)[self._examples, None]
        if len(self) > AT_ONCE:  # one after the other: see in_blocks
            scaled = scaled.double()
        return scaled.new_zeros(self.shape[1:]).index_add_(0, self._indices, scaled).to(self.dtype)

    def formed(self, examples: slice = slice(None)) -> torch.Tensor:
        start, stop, _ = examples.indices(self.shape[0])
        here = (self._examples >= start) & (self._examples < stop)
        found = self._values.new_zeros((max(0, stop - start), *self.shape[1:]))
        found[self._examples[here] - start, self._indices[here]] = self._values[here]
        return found

    def cleared(self, left_out: torch.Tensor) -> "Table":
        return self._like(self._keys, self._values.masked_fill(left_out[self._examples, None], 0.0))

    def in_float64(self) -> "Table":
        return self._like(self._keys, self._values.double())

    def with_rows(self, rows: int) -> "Table":
        found = self._like(self._keys, self._values)
        found.shape = torch.Size((max(rows, self.shape[0]), *self.shape[1:]))
        return found

    def project(self, directions: torch.Tensor) -> torch.Tensor:
        vectors = directions.to(self.dtype)
        products = [(self._values * v[self._indices]).sum(1) for v in vectors]
        return self._per_example(torch.stack(products, dim=1)) if products else self._values.new_zeros(self.shape[0], 0)
