"""GEP: how well one power iteration finds the row space of a badly conditioned matrix."""

import numpy as np

from dptheory import embedding


def missed(condition: float, rank: int, dim: int) -> float:
    """Sine of the largest angle between the row space of a matrix of this rank and what one iteration finds."""
    gradients, row_space = _of_condition(condition, rank, dim)
    basis = embedding.anchor_subspace(gradients, subspace_dim=rank, iterations=1, rng=np.random.default_rng(1))
    return float(np.linalg.norm(row_space - row_space @ basis.T @ basis, 2))


def missed_by_products(condition: float, rank: int, dim: int) -> float:
    """The same for orthonormalised rows of the product (G B^T)^T G, which squares the singular values."""
    gradients, row_space = _of_condition(condition, rank, dim)
    start = np.random.default_rng(1).standard_normal((rank, dim))
    basis = np.linalg.qr(((gradients @ start.T).T @ gradients).T)[0].T
    return float(np.linalg.norm(row_space - row_space @ basis.T @ basis, 2))


def _of_condition(condition: float, rank: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """A matrix with 50 rows and singular values from 1 to 1/condition, and orthonormal rows that span its row space."""
    rng = np.random.default_rng([rank, dim])
    left = np.linalg.qr(rng.standard_normal((50, rank)))[0]
    right = np.linalg.qr(rng.standard_normal((dim, rank)))[0]
    return left * np.geomspace(1, 1 / condition, rank) @ right.T, right.T
