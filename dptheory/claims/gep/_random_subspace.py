"""Random subspaces: draws of what they lose of a vector, and the law of what they keep."""

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]


def lost_energy(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    """Squared relative errors |g - B^T B g|^2 / |g|^2 for one fixed g and orthonormalised Gaussian rows."""
    vector = np.arange(1.0, dim + 1)
    basis = np.linalg.qr(rng.standard_normal((n, dim, subspace_dim)))[0]
    return np.asarray(1 - np.square(vector @ basis).sum(axis=-1) / float(vector @ vector))


def kept_law(dim: int, k: int) -> Any:
    """Share of energy that a random subspace keeps."""
    return scipy.stats.beta(k / 2, (dim - k) / 2)
