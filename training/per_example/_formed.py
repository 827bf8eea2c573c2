"""Per-example gradients that are there as a tensor: of small parameters, and of layers that have no factors."""

import functools
from collections.abc import Callable, Iterator

import torch

from dptheory.training.per_example._representation import Representation, as_rows, at_once, filled, widened

SMALL, LARGE = 1e-25, 1e30
"""Sums between them lost nothing: a square that float32 takes for 0 is below 1e-45, and more than 1e13 of them are not 1e-25 / 1e6."""
_PRODUCTS = 1 << 18
"""Products held at once: what stays in a CPU's cache."""


def square_sums(rows: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Sum over the entries of each row of (mask * row)^2, in float64; NaN or infinite where the row is not finite.

    torch adds up a row in pairs, so that the rounding grows with the logarithm of its length, not with the length.

    Args:
        rows: shape (n, p).
        mask: shape (p,), numbers 0 and 1.

    Returns:
        Shape (n,).
    """
    rows = widened(rows)
    mask = None if mask is None else mask.to(rows.dtype)
    found = rows.new_zeros(len(rows))
    for block, squares in blocks_of_squares(rows, mask):
        torch.sum(squares, 1, out=found[block])
    found = found.double()
    if rows.dtype == torch.float32:
        doubtful = ~((found >= SMALL) & (found <= LARGE))  # NaN too
        if doubtful.any():
            found[doubtful] = _kept(rows[doubtful], mask).double().square().sum(1)
    return found


def blocks_of_squares(rows: torch.Tensor, mask: torch.Tensor | None = None) -> Iterator[tuple[slice, torch.Tensor]]:
    """Runs of rows, shape (n, p), with the squares of their entries (times the mask, if there is one), which the next run overwrites.

    New memory for each run would cost more than the squares: the operating system clears every page of it.
    """
    size = at_once(rows.device, _PRODUCTS)
    count = min(max(1, size // max(rows.shape[1], 1)), len(rows))
    held = rows.new_empty(count, rows.shape[1])
    for start in range(0, len(rows), max(count, 1)):
        one = rows[start : start + count]
        squares = held[: len(one)]
        if mask is None:
            torch.mul(one, one, out=squares)
        else:
            torch.mul(one, mask, out=squares)
            squares *= squares
        yield slice(start, start + len(one)), squares


AT_ONCE = 256
"""Examples whose sum is formed in float32."""


def in_blocks(sum_of: Callable[[slice], torch.Tensor], examples: int) -> torch.Tensor:
    """A sum over examples from those of runs of at most 256, added up in float64 and rounded once.

    A product may add one row after the other. In a sum of many, one record more or less then moves the rounding of every addition
    behind it: the sums of neighbouring data sets differed by 65 C for 65,536 records, and the noise is for C.
    """
    found = sum_of(slice(0, AT_ONCE))
    if examples <= AT_ONCE:
        return found
    total = found.double()
    for start in range(AT_ONCE, examples, AT_ONCE):
        total += sum_of(slice(start, start + AT_ONCE))
    return total.to(found.dtype)


def _kept(rows: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return rows if mask is None else rows * mask


class Formed(Representation):
    r"""The tensor itself.

    Args:
        gradients: shape (n, \*parameter.shape).
        computed_in: the precision that they were worked out in, where autocast gave them in another one; theirs if omitted.

    Example: two examples of a parameter with two entries.
        >>> import torch
        >>> from dptheory.training.per_example import Formed
        >>> Formed(torch.tensor([[3.0, 4.0], [0.0, 2.0]])).square_norms()
        tensor([25.,  4.], dtype=torch.float64)
    """

    def __init__(self, gradients: torch.Tensor, *, computed_in: torch.dtype | None = None) -> None:
        self._gradients, self.computed_in = widened(gradients), computed_in or gradients.dtype
        self.shape, self.dtype = self._gradients.shape, self._gradients.dtype

    @functools.cached_property
    def _order(self) -> list[int]:
        """Dimensions behind the first as they lie in memory: norms and sums do not ask for another order, which would be a copy."""
        strides = self._gradients.stride()
        return sorted(range(1, self._gradients.dim()), key=lambda axis: -strides[axis])

    def _laid_out(self, tensors: torch.Tensor) -> torch.Tensor:
        """Shape (k, entries) of (k, *parameter.shape), in the order of the gradients in memory."""
        return as_rows(tensors.permute(0, *self._order))

    def _put_back(self, rows: torch.Tensor) -> torch.Tensor:
        """Undo :meth:`_laid_out`."""
        order = [0, *self._order]
        back = sorted(range(len(order)), key=lambda axis: order[axis])
        return rows.view(-1, *(self.shape[axis] for axis in self._order)).permute(back)

    @property
    def _rows(self) -> torch.Tensor:
        return self._laid_out(self._gradients)

    @property
    def device(self) -> torch.device:
        return self._gradients.device

    def square_norms(self, mask: torch.Tensor | None = None) -> torch.Tensor:
        return square_sums(self._rows, None if mask is None else self._laid_out(mask[None])[0])

    def weighted_sum(self, weights: torch.Tensor) -> torch.Tensor:
        return self.weighted_sums(weights[:, None])[0]

    def weighted_sums(self, weights: torch.Tensor) -> torch.Tensor:
        rows, columns = self._rows, weights.to(self.dtype)
        return self._put_back(in_blocks(lambda block: columns[block].T @ rows[block], len(rows)))

    def formed(self, examples: slice = slice(None)) -> torch.Tensor:
        return self._gradients[examples]

    def cleared(self, left_out: torch.Tensor) -> "Formed":
        rows = left_out.view(-1, *[1] * (self._gradients.dim() - 1))
        return Formed(self._gradients.masked_fill(rows, 0.0), computed_in=self.computed_in)

    def with_rows(self, rows: int) -> "Formed":
        return Formed(filled(self._gradients, rows), computed_in=self.computed_in)

    def inner_products(self, other: Representation) -> torch.Tensor | None:
        if not isinstance(other, Formed):
            return None
        return self._rows.double() @ self._laid_out(other._gradients).double().T

    def in_float64(self) -> "Formed":
        return Formed(self._gradients.double(), computed_in=self.computed_in)

    def project(self, directions: torch.Tensor) -> torch.Tensor:
        return self._rows @ self._laid_out(directions.to(self.dtype)).T


def formed_squares(gradients: Representation, mask: torch.Tensor | None) -> torch.Tensor:
    """Square norms, masked where there is a mask, of gradients that are formed in chunks of examples."""
    flat = None if mask is None else mask.flatten()
    parts = [square_sums(as_rows(gradients.formed(part)), flat) for part in gradients.chunks()]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64, device=gradients.device)


def formed_sums(gradients: Representation, weights: torch.Tensor) -> torch.Tensor:
    """Sums for several columns of weights, shape (n, k), where forming costs less than a sum for each: in chunks of examples."""
    found = None
    for part in gradients.chunks(weights.shape[1]):
        sums = Formed(gradients.formed(part)).weighted_sums(weights[part])
        found = sums.double() if found is None else found.add_(sums)
    if found is None:
        return torch.zeros(weights.shape[1], *gradients.shape[1:], dtype=gradients.dtype, device=gradients.device)
    return found.to(gradients.dtype)


def formed_projections(gradients: Representation, directions: torch.Tensor) -> torch.Tensor:
    """Projections on directions, shape (k, *parameter.shape), where forming costs less than a product for each: likewise."""
    vectors = directions.to(gradients.dtype)
    parts = [Formed(gradients.formed(part)).project(vectors) for part in gradients.chunks(len(vectors))]
    return torch.cat(parts) if parts else vectors.new_zeros(0, len(vectors))
