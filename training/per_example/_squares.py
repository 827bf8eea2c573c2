"""Sums of squares in which no small number is lost: clipping divides by their roots, and a norm that is too small breaks privacy.

Sums of many squares are made in parts whose rounding is known, and added in float64. Squares of numbers below 1e-19 are no
numbers of float32, and those above 1e19 are infinite: sums near either end are made again in float64.
"""

from collections.abc import Iterator

import torch

from dptheory.training.per_example._representation import at_once, widened

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


def _kept(rows: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return rows if mask is None else rows * mask
