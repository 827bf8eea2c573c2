"""Mixtures of records: as many as one wants, with the mean and the covariances of the records."""

import functools
import math
from dataclasses import dataclass

from torch import Tensor

_SPREAD = 0.3
"""Share of the difference of two other records that is added to a record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixtures:
    r"""Records x_i + h (x_j - x_k), shrunk about the mean: means and covariances stay. Whole numbers stay x_i.

    They are made where they are asked for, so that many take no memory.

    Attributes:
        records: shape (n, ...).
        indices: i, j and k of each, shape (count, 3).
    """

    records: Tensor
    indices: Tensor

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, which: Tensor | slice) -> Tensor:
        first, second, third = (self.records[index] for index in self.indices[which].T)
        if not self.records.dtype.is_floating_point:
            return first
        mixed: Tensor = self._mean + (first - self._mean + _SPREAD * (second - third)) / math.sqrt(
            1.0 + 2.0 * _SPREAD**2
        )
        return mixed

    @functools.cached_property
    def _mean(self) -> Tensor:
        return self.records.mean(0)

    def part(self, which: slice) -> "Mixtures":
        """Some of them."""
        return Mixtures(records=self.records, indices=self.indices[which])
