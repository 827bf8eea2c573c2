"""How far floating-point results may be apart: derived, so that no tolerance rests on one processor."""

import torch


def rounding(terms: float, size: float, dtype: torch.dtype = torch.float32) -> float:
    """The most by which two ways to add up the same numbers differ, whatever the order, the kernel and the threads.

    Each addition and each product rounds by half a unit in the last place, u, so that a sum of so many terms is off by
    terms u / (1 - terms u) of the sum of their magnitudes, and two such sums differ by twice that.

    Args:
        terms: numbers that are added up; add one for every further operation on the way.
        size: sum of their magnitudes.
        dtype: of the arithmetic.
    """
    unit = terms * torch.finfo(dtype).eps / 2
    assert unit < 0.1, "so many terms leave no digits: compare in a wider type"
    return 2 * size * unit / (1 - unit)
