import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import sparsification
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import thm5_1

Vector = tuple[int, ...]
Matrix = tuple[Vector, ...]


row = new_row(
    id="rs.thm5.1.matrix",
    source=Source("rs", "new, on equation 16 and Theorem 5.1", (16,)),
    verdict=Verdict.HOLDS,
    calculators=(
        sparsification.matrix_expected_error,
        sparsification.matrix_error_lower_bound,
        sparsification.gaussian_matrix_error,
    ),
)


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]] | None:
    """Gauss-Jordan; None where the matrix is singular."""
    n = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(n))] for i, row in enumerate(matrix)]
    for column in range(n):
        pivot = next((i for i in range(column, n) if rows[i][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [x / rows[column][column] for x in rows[column]]
        for i in set(range(n)) - {column}:
            rows[i] = [x - rows[i][column] * y for x, y in zip(rows[i], rows[column], strict=True)]
    return [row[n:] for row in rows]


def _gram(rows: Sequence[Vector]) -> list[list[Fraction]]:
    n = len(rows[0])
    return [[Fraction(sum(row[i] * row[j] for row in rows)) for j in range(n)] for i in range(n)]


def kept_inverses(matrix: Matrix, keep: int) -> list[list[list[Fraction]] | None]:
    """(K_m' K_m)^-1 of every mask; None where it is singular."""
    return [_inverse(_gram(rows)) for rows in itertools.combinations(matrix, keep)]


def _trace(matrix: list[list[Fraction]]) -> Fraction:
    return sum((matrix[i][i] for i in range(len(matrix))), Fraction(0))


def _mean_trace(matrix: Matrix, keep: int) -> Fraction:
    found = [_trace(inverse) for inverse in kept_inverses(matrix, keep) if inverse is not None]
    return sum(found, Fraction(0)) / len(found)


_MATRICES: tuple[Matrix, ...] = (
    ((1,), (0,), (2,)),
    ((1, 0), (0, 1), (1, 1), (1, -1)),
    ((1, 0), (1, 0), (0, 1), (0, 2), (1, 1)),
    ((3, 1, 0), (1, 2, -1), (0, 1, 1), (2, 2, 1), (1, 0, 5), (1, 1, 1)),
)


_MATRIX_CASES = [(K, keep) for K in _MATRICES for keep in range(len(K[0]), len(K) + 1)]


@row.equal(lambda: _MATRIX_CASES, tolerance=1e-11)
def _(K: Matrix, keep: int) -> Sides:
    """total error given full rank, all masks"""
    return (
        sparsification.matrix_expected_error(
            K, drop_rate=thm5_1.rate_of(len(K), keep), noise_std=1.0
        ).given_recoverable,
        lambda: _mean_trace(K, keep),
        lambda: float(
            np.trace(sparsification.matrix_error_lower_bound(K, drop_rate=thm5_1.rate_of(len(K), keep), noise_std=1.0))
        ),
    )


def _singular_share(matrix: Matrix, keep: int) -> Fraction:
    inverses = kept_inverses(matrix, keep)
    return Fraction(inverses.count(None), len(inverses))


@row.equal(lambda: _MATRIX_CASES, tolerance=1e-13)
def _(K: Matrix, keep: int) -> Sides:
    """probability of rank deficiency, all masks"""
    return (
        sparsification.matrix_expected_error(K, drop_rate=thm5_1.rate_of(len(K), keep), noise_std=1.0).lost_probability,
        lambda: _singular_share(K, keep),
        0.0,
    )


@row.equal(lambda: [(K,) for K in _MATRICES], tolerance=1e-12)
def _(K: Matrix) -> Sides:
    """nothing masked: the bound is the error"""
    return (
        float(np.trace(sparsification.matrix_error_lower_bound(K, drop_rate=0.0, noise_std=1.0))),
        lambda: _mean_trace(K, len(K)),
        lambda: 1.01 * float(np.trace(sparsification.matrix_error_lower_bound(K, drop_rate=0.0, noise_std=1.0))),
    )


def _least_eigenvalue(entries: dict[str, float], conditional: bool) -> float:
    """The slack with the bound P B for the mean given full rank, or with B as if P were 1; 0 where K has not full rank."""
    keep = int(entries.pop("keep"))
    K = np.array(list(entries.values()), dtype=np.float64).reshape(4, 2)
    if np.linalg.matrix_rank(K) < 2:
        return 0.0
    kept = [K[list(rows)] for rows in itertools.combinations(range(4), keep)]
    inverses = [np.linalg.inv(rows.T @ rows) for rows in kept if np.linalg.matrix_rank(rows) == 2]
    bound = sparsification.matrix_error_lower_bound(K, drop_rate=thm5_1.rate_of(4, keep), noise_std=1.0)
    share = len(inverses) / len(kept) if conditional else 1.0
    root = np.linalg.inv(np.linalg.cholesky(bound))
    return float(np.linalg.eigvalsh(root @ np.mean(inverses, axis=0) @ root.T)[0] - share)


@row.inequality(
    {
        **{f"k{i}{j}": Range(-2, 2, integer=True) for i in range(4) for j in range(2)},
        "keep": Range(2, 4, integer=True),
    },
    wrong=lambda **entries: _least_eigenvalue(entries, conditional=False),
    tolerance=1e-10,
)
def _loewner_slack(**entries: float) -> float:
    """Loewner order given full rank, K of 4 x 2 whole numbers

    Least eigenvalue of B^-1/2 E[(K_m'K_m)^-1; full rank] B^-1/2 - P, B = bound: >= 0 if P B bounds in Loewner order.
    """
    return _least_eigenvalue(entries, conditional=True)


def _attacked_matrix(
    rng: np.random.Generator, n: int, K: Matrix | None, dim: int, unknowns: int, keep: int, sigma: float
) -> Array:
    """|x - xhat|^2 of least squares on the kept rows; K = None draws a Gaussian matrix each time."""
    x = rng.standard_normal((n, unknowns, 1))
    order = rng.random((n, dim)).argsort(axis=1)[:, :keep]
    rows = rng.standard_normal((n, keep, unknowns)) if K is None else np.asarray(K, dtype=np.float64)[order]
    seen = rows @ x + sigma * rng.standard_normal((n, keep, 1))
    transposed = rows.transpose(0, 2, 1)
    return np.asarray(np.square(np.linalg.solve(transposed @ rows, transposed @ seen) - x).sum(axis=(1, 2)))


_REGULAR: Matrix = tuple((1, t, t * t) for t in range(-4, 5))


@row.mean(
    partial(_attacked_matrix, K=_REGULAR, dim=9, unknowns=3, keep=6, sigma=0.5),
    wrong=lambda: float(
        np.trace(sparsification.matrix_error_lower_bound(_REGULAR, drop_rate=thm5_1.rate_of(9, 6), noise_std=0.5))
    ),
    row_bytes=1500,
)
def _() -> float:
    """least squares on the kept rows of a fixed K, 9 x 3"""
    return sparsification.matrix_expected_error(_REGULAR, drop_rate=thm5_1.rate_of(9, 6), noise_std=0.5).value


@row.mean(
    partial(_attacked_matrix, K=None, dim=12, unknowns=4, keep=12, sigma=0.5),
    wrong=lambda: 0.25 * 4 / 12,
    row_bytes=2500,
)
def _() -> float:
    """Gaussian K, 12 rows kept, 4 unknowns"""
    return sparsification.gaussian_matrix_error(keep=12, unknowns=4, noise_std=0.5).value


@row.equal(
    lambda: itertools.product((3, 100), ("ones", "first"), ("value", "given", "lost", "reason", "bound")),
    tolerance=1e-11,
)
def _(unknowns: int, last: str, field: str) -> Sides:
    """the identity and one more row, one row dropped: inverses by hand"""
    return (
        thm5_1.bordered_field(unknowns, last, field),
        lambda: thm5_1.bordered(unknowns, last, field),
        -1.0,
    )


def _mean_reciprocal(freedom: int) -> float:
    """E 1/X for X chi-square, by quadrature over its root: the law of a diagonal entry of (K'K)^-1 with rows - unknowns + 1 degrees."""
    return float(
        scipy.integrate.quad(lambda r: 2 * scipy.stats.chi2.pdf(r * r, freedom) / r, 0.0, 12.0, epsabs=0, epsrel=1e-11)[
            0
        ]
    )


@row.equal(
    lambda: [(keep, field) for keep in (3, 4, 5, 6, 10) for field in ("given", "lost", "reason")], tolerance=1e-9
)
def _(keep: int, field: str) -> Sides:
    """Gaussian K: the mean by quadrature, when and why it is infinite"""
    return (
        thm5_1.gaussian_field(keep, field),
        lambda: {
            "given": 16 * _mean_reciprocal(keep - 3) if keep > 5 else math.inf,
            "lost": float(keep < 4),
            "reason": keep < 6,
        }[field],
        4.0 / keep,
    )
