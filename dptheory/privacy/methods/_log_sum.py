"""Sums of numbers that are given by their logarithms."""

import math

import numpy as np
from numpy.typing import NDArray


def log_sum(logs: NDArray[np.float64]) -> float:
    """log of the sum of e^logs; many times faster than SciPy's on short arrays."""
    largest = float(logs.max())
    return largest + math.log(float(np.exp(logs - largest).sum())) if math.isfinite(largest) else largest


def log_sums(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """:func:`log_sum` of every row, each with a finite entry."""
    largest = logs.max(axis=1)
    return np.asarray(largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1)))
