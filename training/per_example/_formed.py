"""Per-example gradients that are there as a tensor: of small parameters, and of layers that have no factors."""

import torch

from dptheory.training.per_example._representation import Representation, as_rows, filled, widened
from dptheory.training.per_example._squares import square_sums


class Formed(Representation):
    r"""The tensor itself.

    Args:
        gradients: shape (n, \*parameter.shape).

    Example: two examples of a parameter with two entries.
        >>> import torch
        >>> from dptheory.training.per_example import Formed
        >>> Formed(torch.tensor([[3.0, 4.0], [0.0, 2.0]])).square_norms()
        tensor([25.,  4.], dtype=torch.float64)
    """

    def __init__(self, gradients: torch.Tensor) -> None:
        self._gradients, self.computed_in = widened(gradients), gradients.dtype
        self.shape, self.dtype = self._gradients.shape, self._gradients.dtype

    @property
    def _rows(self) -> torch.Tensor:
        return as_rows(self._gradients)

    @property
    def device(self) -> torch.device:
        return self._gradients.device

    def square_norms(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        return square_sums(self._rows, None if mask is None else mask.flatten())

    def weighted_sum(self, weights: torch.Tensor) -> torch.Tensor:
        return torch.einsum("n,n...->...", weights.to(self.dtype), self._gradients)

    def weighted_sums(self, weights: torch.Tensor) -> torch.Tensor:
        return (weights.to(self.dtype).T @ self._rows).view(-1, *self.shape[1:])

    def formed(self, examples: slice = slice(None)) -> torch.Tensor:
        return self._gradients[examples]

    def cleared(self, left_out: torch.Tensor) -> "Formed":
        return Formed(self._gradients.masked_fill(left_out.view(-1, *[1] * (self._gradients.dim() - 1)), 0.0))

    def with_rows(self, rows: int) -> "Formed":
        return Formed(filled(self._gradients, rows))

    def project(self, directions: torch.Tensor) -> torch.Tensor:
        return self._rows @ as_rows(directions.to(self.dtype)).T
