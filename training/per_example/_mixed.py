"""Per-example gradients of a parameter that stands in layers of different kinds, such as an embedding tied to the last layer."""

import torch

from dptheory.training.per_example._representation import Representation, Tensors, as_rows
from dptheory.training.per_example._squares import square_sums


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
        self.computed_in = min((part.computed_in for part in parts), key=lambda one: torch.finfo(one).bits)

    @property
    def device(self) -> torch.device:
        return self.parts[0].device

    def square_norms(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        flat = None if mask is None else mask.flatten()
        found = [square_sums(as_rows(self.formed(part)), flat) for part in self.chunks()]
        return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)

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
