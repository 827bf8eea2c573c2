"""The one kind of array that calculators take and give, and what is asked of one."""

import numpy as np
import numpy.typing
from numpy.typing import NDArray
from typing_extensions import TypeAliasType

Array = NDArray[np.float64]
ArrayLike = TypeAliasType("ArrayLike", numpy.typing.ArrayLike)
"""NumPy's own, under its name: ``help`` would spell its union out over five lines."""


def norm(array: Array) -> float:
    """Euclidean norm of at least one entry, without overflow or underflow of the squares."""
    largest = float(np.abs(array).max())
    return largest * float(np.linalg.norm(array / largest)) if largest > 0.0 else 0.0


def run_around(alike: NDArray[np.bool_], best: int) -> tuple[int, int]:
    """Choices that rounding cannot tell from the best: the ends of the run of True around ``best``, whose own entry counts as True."""
    apart = np.flatnonzero(~alike)
    before, after = apart[apart < best], apart[apart > best]
    return int(before[-1]) + 1 if before.size else 0, int(after[0]) - 1 if after.size else len(alike) - 1
