"""One vector of a caller: as an array, and its norm."""

import numpy as np
from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.errors import ArgumentError


def as_vector(name: str, value: ArrayLike) -> Array:
    """``value`` as an array of one axis with at least one entry and sizes of at most 1e70."""
    array = _validate.bounded(name, value)
    if array.ndim != 1 or array.size == 0:
        raise ArgumentError(name, "be a vector with at least one entry", value, got=f"shape {array.shape}")
    return array


def norm(array: Array) -> float:
    """Euclidean norm of at least one entry, without overflow or underflow of the squares."""
    largest = float(np.abs(array).max())
    return largest * float(np.linalg.norm(array / largest)) if largest > 0.0 else 0.0
