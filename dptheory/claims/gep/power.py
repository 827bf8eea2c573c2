from fractions import Fraction

import numpy as np

from dptheory import embedding
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

# GEP: how well one power iteration finds the row space of a badly conditioned matrix.


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


def _tangent(gap: float, iterations: int) -> float:
    """tan of the angle between the leading axis and the line found, from the start that the generator draws."""
    gradients = np.diag([1.0, gap])
    (x, y) = embedding.anchor_subspace(gradients, subspace_dim=1, iterations=iterations, rng=np.random.default_rng(5))[
        0
    ]
    return abs(float(y / x))


def _start_tangent() -> float:
    x, y = np.random.default_rng(5).standard_normal((1, 2))[0]
    return abs(float(y / x))


def _least_norm(seed: int) -> float:
    rng = np.random.default_rng(seed)
    return float(
        np.linalg.norm(
            embedding.anchor_subspace(rng.standard_normal((8, 6)), subspace_dim=3, iterations=2, rng=rng), axis=1
        ).min()
    )


row = new_row(
    id="gep.power",
    source=Source("gep", "Algorithm 1, lines 3 to 7, and section 3.1"),
    verdict=Verdict.CONDITIONAL,
    calculators=(embedding.anchor_subspace,),
)


@row.equal(lambda: [(gap, t) for gap in (0.3, 0.9, 0.99) for t in (1, 2, 5)], tolerance=1e-10)
def _(gap: float, t: int) -> Sides:
    """tan of the angle in the plane"""
    return _tangent(gap, t), gap ** (2 * t) * _start_tangent(), gap**t * _start_tangent()


@row.equal((Fraction(99, 100),), kind=Kind.COUNTEREXAMPLE)
def _(gap: Fraction) -> Sides:
    """s_2 = .99 s_1: does one iteration halve the angle's tangent?"""
    return _tangent(float(gap), 1) < _start_tangent() / 2, gap**2 < Fraction(1, 2), True


@row.equal(lambda: [(condition, rank, dim) for condition in (1.0, 1e4, 1e8) for rank, dim in ((5, 60), (20, 20_000))])
def _(condition: float, rank: int, dim: int) -> Sides:
    """rank k: row space after one iteration, to 1e-5"""
    return (
        missed(condition, rank, dim) < 1e-5,
        True,
        missed_by_products(condition, rank, dim) < 1e-5,
    )


@row.equal(lambda: [(seed,) for seed in range(5)], tolerance=1e-12)
def _(seed: int) -> Sides:
    """basis stays orthonormal"""
    return _least_norm(seed), 1.0, 1.02
