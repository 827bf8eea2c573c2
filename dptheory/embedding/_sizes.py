"""Checked arguments that the embedding calculators share: dimensions, clips, pairs of matrices."""

import math

import numpy as np
from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.errors import ArgumentError

_MAX_DIM = 10**12
_LARGEST = 1e70


def dimensions(dim: int, subspace_dim: int) -> tuple[int, int]:
    """``dim`` and ``subspace_dim`` if 1 <= dim <= 1e12 and 0 <= subspace_dim <= dim."""
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    return dim, _validate.integer("subspace_dim", subspace_dim, 0, dim)


def embedding_share(embedding_clip: float, residual_clip: float) -> float:
    """a = S1^2 / (S1^2 + S2^2); 0 where nothing is released of the embedding."""
    return (embedding_clip / math.hypot(embedding_clip, residual_clip)) ** 2 if embedding_clip else 0.0


def pairs(embeddings: ArrayLike, residuals: ArrayLike) -> tuple[Array, Array]:
    """Both as arrays of n rows whose squares do not overflow."""
    found = []
    for name, value in (("embeddings", embeddings), ("residuals", residuals)):
        array = _validate.finite(name, value)
        if array.ndim != 2 or np.abs(array).max(initial=0.0) > _LARGEST:
            allowed = f"shape (n, ...) and entries of at most {_LARGEST:g}"
            raise ArgumentError(name, f"have {allowed}", value)
        found.append(array)
    w, r = found
    if len(w) != len(r):
        raise ArgumentError(
            "residuals", "have as many rows as embeddings", residuals, got=f"shapes {r.shape} and {w.shape}"
        )
    if w.shape[1] + r.shape[1] == 0:
        raise ArgumentError("embeddings", "have a column where residuals have none", embeddings, got=f"shape {w.shape}")
    return w, r
