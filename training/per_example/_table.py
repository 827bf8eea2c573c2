"""Per-example gradients of an embedding's weight: the rows of the tokens of each example, and no others."""

import torch

from dptheory.training.per_example._representation import Representation, widened
from dptheory.training.per_example._squares import square_sums


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
        return scaled.new_zeros(self.shape[1:]).index_add_(0, self._indices, scaled)

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
