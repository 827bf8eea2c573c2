"""Vectors of blocks of equal entries, whose sums and norms are known exactly at any size."""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Block = tuple[int, ...]
"""One whole number per block."""

LENGTHS = (1, 6400)
"""Length of a block of equal entries: a square, so that norms stay rational."""


def in_blocks(values: Iterable[float | Fraction], length: int) -> NDArray[np.float64]:
    """A vector of blocks of equal entries."""
    return np.repeat(np.array([float(value) for value in values]), length)
