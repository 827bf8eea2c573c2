"""RS: the error of reconstructing an input from a masked, noisy gradient."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import chi2, hypergeom

from dptheory import sparsification
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs import _attack_laws

Vector = tuple[int, ...]
Matrix = tuple[Vector, ...]


def kept_energies(k: Sequence[int], keep: int) -> list[int]:
    """X = |m * k|^2 of every mask."""
    return [sum(k[j] ** 2 for j in kept) for kept in itertools.combinations(range(len(k)), keep)]


# --- rs.thm5.1 --------------------------------------------------------------------------------------------------------


def printed_error_bound(k: Sequence[float], rate: float, sigma: float) -> float:
    """The right side of equation 17."""
    return sigma**2 / ((1 - rate) * math.fsum(x * x for x in k))


def _mean_given(k: Vector, keep: int) -> Fraction:
    """E[1/X | X > 0] by enumeration."""
    energies = [x for x in kept_energies(k, keep) if x]
    return sum((Fraction(1, x) for x in energies), Fraction(0)) / len(energies)


def _lost_share(k: Vector, keep: int) -> Fraction:
    energies = kept_energies(k, keep)
    return Fraction(energies.count(0), len(energies))


def _bayes_with_one_large(dim: int, keep: int, large: int) -> Fraction:
    """E[1 / (X + 4)], X = K - 1 + large^2 if the large entry is kept and K else."""
    kept = Fraction(keep, dim)
    return kept / (keep - 1 + large**2 + 4) + (1 - kept) / (keep + 4)


def _bayes_by_enumeration(k: Vector, keep: int, ratio: Fraction) -> Fraction:
    """E[1 / (X + ratio)], ratio = sigma^2 / tau^2, sigma = 1."""
    energies = kept_energies(k, keep)
    return sum((1 / (x + ratio) for x in energies), Fraction(0)) / len(energies)


def _two_levels(dim: int, large: int) -> NDArray[np.float64]:
    """A vector of ``large`` entries 3 and otherwise 1."""
    return np.where(np.arange(dim) < large, 3.0, 1.0)


def _two_level_mean(dim: int, large: int, keep: int) -> float:
    """E[1/X] for :func:`_two_levels`: the number of large entries kept is hypergeometric."""
    hits = np.arange(max(0, keep - (dim - large)), min(large, keep) + 1)
    return float(hypergeom(dim, large, keep).pmf(hits) @ (1 / (keep + 8.0 * hits)))


def _masks(rng: np.random.Generator, n: int, dim: int, keep: int) -> NDArray[np.float64]:
    """n masks, shape (n, dim)."""
    return (rng.random((n, dim)).argsort(axis=1) < keep).astype(np.float64)


def _attacked(
    rng: np.random.Generator, n: int, k: Sequence[float], keep: int, sigma: float, tau: float
) -> NDArray[np.float64]:
    """Squared errors of the attack on x ~ N(0, tau^2): mask, noise, then ridge regression (least squares at tau = inf)."""
    vector, x = np.asarray(k, dtype=np.float64), rng.standard_normal(n) * min(tau, 1.0)
    mask = _masks(rng, n, vector.size, keep)
    seen = mask * (np.outer(x, vector) + sigma * rng.standard_normal(mask.shape))
    estimate = (seen @ vector) / (mask @ vector**2 + (sigma / tau) ** 2)
    return np.asarray((estimate - x) ** 2)


_SPREAD = tuple(0.3 + 0.1 * j for j in range(20))
_SPARSE = (2.0, 1.0, 0.5, *[0.0] * 9)
_SMALL_VECTORS: tuple[Vector, ...] = ((1, 0), (3, 1), (1, 2, 0), (5, 1, 1, 3), (2, 0, 0, 1, 7), (1, 1, 1, 0, 0, 4))
_SMALL_CASES = [(k, keep) for k in _SMALL_VECTORS for keep in range(1, len(k) + 1)]


def _bound_slack(large: float, middle: float, small: float, zeros: int, keep_share: float) -> float:
    k, rate = _searched(large, middle, small, zeros, keep_share)
    given = sparsification.expected_error(k, rate, 1.0).given_recoverable
    return given / sparsification.error_lower_bound(k, rate, 1.0) - 1


def _printed_slack(large: float, middle: float, small: float, zeros: int, keep_share: float) -> float:
    k, rate = _searched(large, middle, small, zeros, keep_share)
    return sparsification.expected_error(k, rate, 1.0).given_recoverable / printed_error_bound(k, rate, 1.0) - 1


def _searched(large: float, middle: float, small: float, zeros: int, keep_share: float) -> tuple[list[float], float]:
    k = [large, middle, small] + [0.0] * zeros
    return k, _attack_laws.rate_of(len(k), max(1, round(keep_share * len(k))))


def _rises(k: Vector, keep: int) -> bool:
    """Keeping one entry fewer raises the error given m*k != 0."""
    return _mean_given(k, keep - 1) > _mean_given(k, keep)


_THM51 = Claim(
    id="rs.thm5.1",
    title="reconstruction error",
    source=Source("rs", "Theorem 5.1", (17, 99, 110, 111, 112)),
    statement=r"$E\lVert x-\hat x\rVert^2\ge\sigma^2/((1-r)\lVert k\rVert^2)$ for the least-squares attack, with $m\odot k\ne0$ assumed in the proof.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "the mask keeps exactly (1-r)d entries, uniformly drawn, independent of the noise; the attacker knows k and the mask",
        "#{k_j = 0} < (1-r)d; otherwise the mean is infinite, and the mean given m*k != 0 can be below the printed bound",
    ),
    correction=r"$E\lVert x-\hat x\rVert^2 = \sigma^2E[1/X]$, $X=\lVert m\odot k\rVert^2$, infinite unless $\#\{k_j=0\}<(1-r)d$. Given $X>0$: "
    r"$\sigma^2E[1/X\mid X>0]\ge\sigma^2P(X>0)/((1-r)\lVert k\rVert^2)$. With prior variance $\tau^2$ the Bayes attacker has "
    r"$E[1/(X/\sigma^2+1/\tau^2)]$, finite for every $k$.",
    printed=printed_error_bound,
    calculators=(sparsification.expected_error, sparsification.error_lower_bound, sparsification.bayes_error),
    checks=(
        ExactCheck(
            name="equal X: the bound with P(X > 0) is attained",
            cases=lambda: [((1, 0), 1), ((3, 0, 0), 1), ((1, 0, 0, 0), 2), ((2, -2, 0, 0), 1), ((1, 1, 1), 2)],
            truth=_mean_given,
            statement=lambda k, keep: sparsification.error_lower_bound(k, _attack_laws.rate_of(len(k), keep), 1.0),
            wrong=lambda k, keep: printed_error_bound(k, _attack_laws.rate_of(len(k), keep), 1.0),
            tolerance=1e-14,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="error given m*k != 0, all masks",
            cases=lambda: _SMALL_CASES,
            truth=_mean_given,
            statement=lambda k, keep: (
                sparsification.expected_error(k, _attack_laws.rate_of(len(k), keep), 1.0).given_recoverable
            ),
            wrong=lambda k, keep: printed_error_bound(k, _attack_laws.rate_of(len(k), keep), 1.0),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="probability of m*k = 0, all masks",
            cases=lambda: _SMALL_CASES,
            truth=_lost_share,
            statement=lambda k, keep: (
                sparsification.expected_error(k, _attack_laws.rate_of(len(k), keep), 1.0).lost_probability
            ),
            wrong=lambda k, keep: Fraction(k.count(0), len(k)) ** keep,
            tolerance=1e-13,
        ),
        ExactCheck(
            name="finite for few zeros only",
            cases=lambda: _SMALL_CASES,
            truth=lambda k, keep: 0 not in kept_energies(k, keep),
            statement=lambda k, keep: math.isfinite(
                sparsification.expected_error(k, _attack_laws.rate_of(len(k), keep), 1.0).value
            ),
            wrong=lambda k, keep: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="second method in high dimension: two levels",
            cases=lambda: [(100, 7, 30), (10_000, 9_000, 2), (100_000, 100, 1000), (1_000_000, 200_000, 500_000)],
            truth=_two_level_mean,
            statement=lambda dim, large, keep: (
                sparsification.expected_error(_two_levels(dim, large), _attack_laws.rate_of(dim, keep), 1.0).value
            ),
            wrong=lambda dim, large, keep: printed_error_bound(
                _two_levels(dim, large).tolist(), _attack_laws.rate_of(dim, keep), 1.0
            ),
            tolerance=1e-9,
        ),
        MeanCheck(
            name="least squares on masked, noisy gradients, d = 20",
            sampler=partial(_attacked, k=_SPREAD, keep=5, sigma=0.7, tau=math.inf),
            claimed=lambda: sparsification.expected_error(_SPREAD, _attack_laws.rate_of(20, 5), 0.7).value,
            wrong=lambda: printed_error_bound(_SPREAD, _attack_laws.rate_of(20, 5), 0.7),
            row_bytes=1000,
        ),
        ExactCheck(
            name="bound with P(X > 0) <= error given m*k != 0",
            cases=lambda: itertools.product(
                (1.0, 3.0, 10.0), (1.0, 3.0), (0.1, 0.5, 1.0), (0, 1, 2, 5), (0.0, 0.3, 0.6, 1.0)
            ),
            truth=lambda *case: True,
            statement=lambda *case: _bound_slack(*case) >= -1e-12,
            wrong=lambda *case: _printed_slack(*case) >= -1e-12,
        ),
        ExactCheck(
            name="keeping fewer raises the error given m*k != 0: not with every zero pattern",
            cases=lambda: [
                ((1, 1, 1), 3, True),
                ((3, 1, 2, 5), 2, True),
                ((3, 1, 2, 5), 4, True),
                ((1, 0, 0), 2, False),
                ((1, 0, 0), 3, False),
                ((2, 2, 0, 0), 2, True),
                ((5, 0, 0, 0, 0), 3, False),
            ],
            truth=lambda k, keep, raises: _rises(k, keep),
            statement=lambda k, keep, raises: raises,
            wrong=lambda k, keep, raises: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="Bayes attacker, all masks",
            cases=lambda: [(*case, ratio) for case in _SMALL_CASES for ratio in (Fraction(1, 9), Fraction(4))],
            truth=_bayes_by_enumeration,
            statement=lambda k, keep, ratio: sparsification.bayes_error(
                k, _attack_laws.rate_of(len(k), keep), 1.0, 1 / math.sqrt(ratio)
            ),
            wrong=lambda k, keep, ratio: 1 / (Fraction(keep, len(k)) * sum(x * x for x in k) + ratio),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="Bayes attacker, one large entry among very many",
            cases=lambda: [(10_000, 100, 30), (10_000, 1, 100), (10**6, 1000, 20)],
            truth=_bayes_with_one_large,
            statement=lambda dim, keep, large: sparsification.bayes_error(
                [float(large)] + [1.0] * (dim - 1), _attack_laws.rate_of(dim, keep), 1.0, 0.5
            ),
            wrong=lambda dim, keep, large: 1 / (keep / Fraction(dim) * (dim - 1 + large**2) + 4),
            tolerance=1e-8,
        ),
        MeanCheck(
            name="Bayes attacker on a Gaussian input, 9 of 12 entries zero",
            sampler=partial(_attacked, k=_SPARSE, keep=6, sigma=0.7, tau=0.8),
            claimed=lambda: sparsification.bayes_error(_SPARSE, 0.5, 0.7, 0.8),
            wrong=lambda: sparsification.expected_error(_SPARSE, 0.5, 0.7).given_recoverable,
            row_bytes=1000,
        ),
        ExactCheck(
            name="every field for sparse vectors, small and users' sizes: a hypergeometric law",
            cases=lambda: [
                (*size, field)
                for size in ((30, 6, 8), (20_000, 40, 500), (20_000, 15_000, 300))
                for field in ("given", "lost", "value", "bound", "bayes")
            ],
            truth=_attack_laws.by_hits,
            statement=_attack_laws.sparse_field,
            wrong=lambda *case: 1.01 * _attack_laws.by_hits(*case) + 0.01,
            tolerance=1e-9,
        ),
        ExactCheck(
            name="why the mean is infinite, counted",
            cases=lambda: [
                (dim, ones, keep) for dim in (30, 20_000) for ones, keep in ((6, 8), (6, dim - 6), (dim - 3, 8))
            ],
            truth=lambda dim, ones, keep: dim - ones >= keep,
            statement=lambda dim, ones, keep: (
                sparsification.expected_error(
                    _attack_laws.leading_ones(dim, ones), _attack_laws.rate_of(dim, keep), 2.0
                ).reason
                == (f"{dim - ones} of {dim} entries of k are zero and a mask keeps {keep}: it can miss the others")
            ),
            wrong=lambda dim, ones, keep: False,
        ),
    ),
    proved=True,
    figure="reconstruction_error",
)


# --- rs.thm5.1.matrix -------------------------------------------------------------------------------------------------


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


def _singular_share(matrix: Matrix, keep: int) -> Fraction:
    inverses = kept_inverses(matrix, keep)
    return Fraction(inverses.count(None), len(inverses))


_MATRICES: tuple[Matrix, ...] = (
    ((1,), (0,), (2,)),
    ((1, 0), (0, 1), (1, 1), (1, -1)),
    ((1, 0), (1, 0), (0, 1), (0, 2), (1, 1)),
    ((3, 1, 0), (1, 2, -1), (0, 1, 1), (2, 2, 1), (1, 0, 5), (1, 1, 1)),
)
_MATRIX_CASES = [(K, keep) for K in _MATRICES for keep in range(len(K[0]), len(K) + 1)]


def _loewner_slack(**entries: float) -> float:
    """Least eigenvalue of B^-1/2 E[(K_m'K_m)^-1; full rank] B^-1/2 - P, B = bound: >= 0 if P B bounds in Loewner order."""
    return _least_eigenvalue(entries, conditional=True)


def _unconditional_loewner_slack(**entries: float) -> float:
    return _least_eigenvalue(entries, conditional=False)


def _least_eigenvalue(entries: dict[str, float], conditional: bool) -> float:
    """The slack with the bound P B for the mean given full rank, or with B as if P were 1; 0 where K has not full rank."""
    keep = int(entries.pop("keep"))
    K = np.array(list(entries.values()), dtype=np.float64).reshape(4, 2)
    if np.linalg.matrix_rank(K) < 2:
        return 0.0
    kept = [K[list(rows)] for rows in itertools.combinations(range(4), keep)]
    inverses = [np.linalg.inv(rows.T @ rows) for rows in kept if np.linalg.matrix_rank(rows) == 2]
    bound = sparsification.matrix_error_lower_bound(K, _attack_laws.rate_of(4, keep), 1.0)
    share = len(inverses) / len(kept) if conditional else 1.0
    root = np.linalg.inv(np.linalg.cholesky(bound))
    return float(np.linalg.eigvalsh(root @ np.mean(inverses, axis=0) @ root.T)[0] - share)


def _attacked_matrix(
    rng: np.random.Generator, n: int, K: Matrix | None, dim: int, unknowns: int, keep: int, sigma: float
) -> NDArray[np.float64]:
    """|x - xhat|^2 of least squares on the kept rows; K = None draws a Gaussian matrix each time."""
    x = rng.standard_normal((n, unknowns, 1))
    order = rng.random((n, dim)).argsort(axis=1)[:, :keep]
    rows = rng.standard_normal((n, keep, unknowns)) if K is None else np.asarray(K, dtype=np.float64)[order]
    seen = rows @ x + sigma * rng.standard_normal((n, keep, 1))
    transposed = rows.transpose(0, 2, 1)
    return np.asarray(np.square(np.linalg.solve(transposed @ rows, transposed @ seen) - x).sum(axis=(1, 2)))


_REGULAR: Matrix = tuple((1, t, t * t) for t in range(-4, 5))


def _mean_reciprocal(freedom: int) -> float:
    """E 1/X for X chi-square, by quadrature over its root: the law of a diagonal entry of (K'K)^-1 with rows - unknowns + 1 degrees."""
    return float(quad(lambda r: 2 * chi2.pdf(r * r, freedom) / r, 0.0, 12.0, epsabs=0, epsrel=1e-11)[0])


_MATRIX = Claim(
    id="rs.thm5.1.matrix",
    title="reconstruction error, several unknowns",
    source=Source("rs", "new, on equation 16 and Theorem 5.1", (16,)),
    statement=r"For $K\in R^{d\times n}$ of full column rank: $E[(K_m^\top K_m)^{-1}]\succeq(K^\top K)^{-1}/(1-r)$, a singular $K_m^\top K_m$ counting as "
    r"infinite; given full rank the right side gets the factor $P(\text{full rank})$. For $N(0,1)$ entries and $k$ rows kept "
    r"$E\lVert x-\hat x\rVert^2 = \sigma^2n/(k-n-1)$, $k\ge n+2$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "the mask keeps exactly (1-r)d rows, uniformly drawn, independent of the noise (and of K where K is random)",
        "K has full column rank, (1-r)d >= n",
    ),
    calculators=(
        sparsification.matrix_expected_error,
        sparsification.matrix_error_lower_bound,
        sparsification.gaussian_matrix_error,
    ),
    checks=(
        ExactCheck(
            name="total error given full rank, all masks",
            cases=lambda: _MATRIX_CASES,
            truth=_mean_trace,
            statement=lambda K, keep: (
                sparsification.matrix_expected_error(K, _attack_laws.rate_of(len(K), keep), 1.0).given_recoverable
            ),
            wrong=lambda K, keep: float(
                np.trace(sparsification.matrix_error_lower_bound(K, _attack_laws.rate_of(len(K), keep), 1.0))
            ),
            tolerance=1e-11,
        ),
        ExactCheck(
            name="probability of rank deficiency, all masks",
            cases=lambda: _MATRIX_CASES,
            truth=_singular_share,
            statement=lambda K, keep: (
                sparsification.matrix_expected_error(K, _attack_laws.rate_of(len(K), keep), 1.0).lost_probability
            ),
            wrong=lambda K, keep: 0.0,
            tolerance=1e-13,
        ),
        ExactCheck(
            name="nothing masked: the bound is the error",
            cases=lambda: [(K,) for K in _MATRICES],
            truth=lambda K: _mean_trace(K, len(K)),
            statement=lambda K: float(np.trace(sparsification.matrix_error_lower_bound(K, 0.0, 1.0))),
            wrong=lambda K: 1.01 * float(np.trace(sparsification.matrix_error_lower_bound(K, 0.0, 1.0))),
            tolerance=1e-12,
        ),
        SearchCheck(
            name="Loewner order given full rank, K of 4 x 2 whole numbers",
            box={
                **{f"k{i}{j}": Range(-2, 2, integer=True) for i in range(4) for j in range(2)},
                "keep": Range(2, 4, integer=True),
            },
            slack=_loewner_slack,
            wrong=_unconditional_loewner_slack,
            tolerance=1e-10,
        ),
        MeanCheck(
            name="least squares on the kept rows of a fixed K, 9 x 3",
            sampler=partial(_attacked_matrix, K=_REGULAR, dim=9, unknowns=3, keep=6, sigma=0.5),
            claimed=lambda: sparsification.matrix_expected_error(_REGULAR, _attack_laws.rate_of(9, 6), 0.5).value,
            wrong=lambda: float(
                np.trace(sparsification.matrix_error_lower_bound(_REGULAR, _attack_laws.rate_of(9, 6), 0.5))
            ),
            row_bytes=1500,
        ),
        MeanCheck(
            name="Gaussian K, 12 rows kept, 4 unknowns",
            sampler=partial(_attacked_matrix, K=None, dim=12, unknowns=4, keep=12, sigma=0.5),
            claimed=lambda: sparsification.gaussian_matrix_error(12, 4, 0.5).value,
            wrong=lambda: 0.25 * 4 / 12,
            row_bytes=2500,
        ),
        ExactCheck(
            name="the identity and one more row, one row dropped: inverses by hand",
            cases=lambda: itertools.product((3, 100), ("ones", "first"), ("value", "given", "lost", "reason", "bound")),
            truth=_attack_laws.bordered,
            statement=_attack_laws.bordered_field,
            wrong=lambda unknowns, row, field: -1.0,
            tolerance=1e-11,
        ),
        ExactCheck(
            name="Gaussian K: the mean by quadrature, when and why it is infinite",
            cases=lambda: [(keep, field) for keep in (3, 4, 5, 6, 10) for field in ("given", "lost", "reason")],
            truth=lambda keep, field: {
                "given": 16 * _mean_reciprocal(keep - 3) if keep > 5 else math.inf,
                "lost": float(keep < 4),
                "reason": keep < 6,
            }[field],
            statement=_attack_laws.gaussian_field,
            wrong=lambda keep, field: 4.0 / keep,
            tolerance=1e-9,
        ),
    ),
    proved=True,
)

CLAIMS = (_THM51, _MATRIX)
