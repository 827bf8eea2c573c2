import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import sparsification
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rf.noisy_quadratic import solve
from dptheory.sparsification import _costs

# --- Errors of reconstruction attacks by hypergeometric laws and by hand, for the checks


def rate_of(dim: int, keep: int) -> float:
    return 1 - keep / dim


def leading_ones(dim: int, ones: int) -> Array:
    return np.asarray(np.arange(dim) < ones, dtype=np.float64)


def by_hits(dim: int, ones: int, keep: int, field: str) -> float:
    """sigma = 2, prior deviation 3: the number of ones kept is hypergeometric."""
    hits = np.arange(keep + 1)
    law = scipy.stats.hypergeom(dim, ones, keep).pmf(hits)
    some = float(law[1:].sum())
    if field == "bayes":
        return float(law @ (1 / (hits / 4 + 1 / 9)))
    given = 4 * float(law[1:] @ (1 / hits[1:])) / some
    lost = float(law[0])
    return {
        "given": given,
        "lost": lost,
        "value": math.inf if dim - ones >= keep else given,
        "bound": 4 * some / float(law @ hits),  # sigma^2 P(X > 0) / E X
    }[field]


def sparse_field(dim: int, ones: int, keep: int, field: str) -> float:
    k, rate = leading_ones(dim, ones), rate_of(dim, keep)
    if field == "bayes":
        return sparsification.bayes_error(k, drop_rate=rate, noise_std=2.0, prior_std=3.0)
    if field == "bound":
        return sparsification.error_lower_bound(k, drop_rate=rate, noise_std=2.0)
    found = sparsification.expected_error(k, drop_rate=rate, noise_std=2.0)
    return {"given": found.given_recoverable, "lost": found.lost_probability, "value": found.value}[field]


def bordered(unknowns: int, row: str, field: str) -> float | bool:
    """sigma = 2. Without row j of the identity x_j is the last measurement minus the others: |K_m^-1|^2 = 2 n - 1."""
    n = unknowns
    if field == "reason":
        return True
    if row == "ones":
        error = Fraction(4 * (n + n * (2 * n - 1)), n + 1)
        inverse = n - Fraction(n, n + 1)
        return float({"value": error, "given": error, "lost": Fraction(0), "bound": 4 * inverse * (n + 1) / n}[field])
    lost = Fraction(n - 1, n + 1)  # only one of the two equal rows may go
    inverse = n - Fraction(1, 2)
    bound = float(4 * inverse * (n + 1) / n)
    return {"value": math.inf, "given": 4.0 * n, "lost": float(lost), "bound": bound}[field]


def bordered_field(unknowns: int, row: str, field: str) -> float | bool:
    # the identity and a row of ones, or its first row once more
    K = np.vstack([np.eye(unknowns), np.ones(unknowns) if row == "ones" else np.eye(unknowns)[0]])
    rate = rate_of(unknowns + 1, unknowns)
    if field == "bound":
        return float(np.trace(sparsification.matrix_error_lower_bound(K, drop_rate=rate, noise_std=2.0)))
    found = sparsification.matrix_expected_error(K, drop_rate=rate, noise_std=2.0)
    if field == "reason":
        told = f"{unknowns - 1} of {unknowns + 1} masks leave rows of rank below {unknowns}"
        return found.reason == (None if row == "ones" else told)
    return {"value": found.value, "given": found.given_recoverable, "lost": found.lost_probability}[field]


def gaussian_field(keep: int, field: str) -> float | bool:
    found = sparsification.gaussian_matrix_error(keep=keep, unknowns=4, noise_std=2.0)
    if field == "reason":
        few = f"{keep} rows cannot determine 4 unknowns"
        near = f"the smallest singular value has too much mass near 0: {keep} rows, needs 6"
        return found.reason is not None and found.reason == (few if keep < 4 else near)
    return {"given": found.given_recoverable, "lost": found.lost_probability}[field]


Vector = tuple[int, ...]


def printed_error_bound(k: Sequence[float], rate: float, sigma: float) -> float:
    """The right side of equation 17."""
    return sigma**2 / ((1 - rate) * math.fsum(x * x for x in k))


thm5_1_row = new_row(
    id="rs.thm5.1",
    source=Source("rs", "Theorem 5.1", (17, 99, 110, 111, 112)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    printed=printed_error_bound,
    calculators=(sparsification.expected_error, sparsification.error_lower_bound, sparsification.bayes_error),
    figure="reconstruction_error",
)


def kept_energies(k: Sequence[int], keep: int) -> list[int]:
    """X = |m * k|^2 of every mask."""
    return [sum(k[j] ** 2 for j in kept) for kept in itertools.combinations(range(len(k)), keep)]


def _mean_given(k: Vector, keep: int, ratio: Fraction = Fraction(0)) -> Fraction:
    """E[1 / (X + ratio) | X + ratio > 0] by enumeration."""
    energies = [x + ratio for x in kept_energies(k, keep) if x + ratio]
    return sum((1 / x for x in energies), Fraction(0)) / len(energies)


def _found(k: Vector, keep: int) -> sparsification.AttackError:
    """By the calculator."""
    return sparsification.expected_error(k, drop_rate=rate_of(len(k), keep), noise_std=1.0)


@thm5_1_row.equal(
    ((1, 0), 1),
    ((3, 0, 0), 1),
    ((1, 0, 0, 0), 2),
    ((2, -2, 0, 0), 1),
    ((1, 1, 1), 2),
    tolerance=1e-14,
    kind=Kind.COUNTEREXAMPLE,
)
def _(k: Vector, keep: int) -> Sides:
    """equal X: the bound with P(X > 0) is attained"""
    rate = rate_of(len(k), keep)
    stated = sparsification.error_lower_bound(k, drop_rate=rate, noise_std=1.0)
    return stated, lambda: _mean_given(k, keep), printed_error_bound(k, rate, 1.0)


_SMALL_VECTORS: tuple[Vector, ...] = ((1, 0), (3, 1), (1, 2, 0), (5, 1, 1, 3), (2, 0, 0, 1, 7), (1, 1, 1, 0, 0, 4))


_SMALL_CASES = [(k, keep) for k in _SMALL_VECTORS for keep in range(1, len(k) + 1)]


@thm5_1_row.equal(lambda: _SMALL_CASES, tolerance=1e-12)
def _(k: Vector, keep: int) -> Sides:
    """error given m*k != 0, all masks"""
    printed = printed_error_bound(k, rate_of(len(k), keep), 1.0)
    return _found(k, keep).given_recoverable, lambda: _mean_given(k, keep), printed


@thm5_1_row.equal(lambda: _SMALL_CASES, tolerance=1e-13)
def _(k: Vector, keep: int) -> Sides:
    """probability of m*k = 0, all masks"""
    energies = kept_energies(k, keep)
    lost = Fraction(energies.count(0), len(energies))
    return _found(k, keep).lost_probability, lost, Fraction(k.count(0), len(k)) ** keep


@thm5_1_row.equal(lambda: _SMALL_CASES, kind=Kind.COUNTEREXAMPLE)
def _(k: Vector, keep: int) -> Sides:
    """finite for few zeros only"""
    return math.isfinite(_found(k, keep).value), lambda: 0 not in kept_energies(k, keep), True


def _two_levels(dim: int, large: int) -> Array:
    """A vector of ``large`` entries 3 and otherwise 1."""
    return np.where(np.arange(dim) < large, 3.0, 1.0)


def _two_level_mean(dim: int, large: int, keep: int) -> float:
    """E[1/X] for :func:`_two_levels`: the number of large entries kept is hypergeometric."""
    hits = np.arange(max(0, keep - (dim - large)), min(large, keep) + 1)
    return float(scipy.stats.hypergeom(dim, large, keep).pmf(hits) @ (1 / (keep + 8.0 * hits)))


@thm5_1_row.equal((100, 7, 30), (10_000, 9_000, 2), (100_000, 100, 1000), (1_000_000, 200_000, 500_000), tolerance=1e-9)
def _(dim: int, large: int, keep: int) -> Sides:
    """second method in high dimension: two levels"""
    return (
        sparsification.expected_error(_two_levels(dim, large), drop_rate=rate_of(dim, keep), noise_std=1.0).value,
        lambda: _two_level_mean(dim, large, keep),
        printed_error_bound(_two_levels(dim, large).tolist(), rate_of(dim, keep), 1.0),
    )


def _attacked(rng: np.random.Generator, n: int, k: Sequence[float], keep: int, sigma: float, tau: float) -> Array:
    """Squared errors of the attack on x ~ N(0, tau^2): mask, noise, then ridge regression (least squares at tau = inf)."""
    vector, x = np.asarray(k, dtype=np.float64), rng.standard_normal(n) * min(tau, 1.0)
    mask = (rng.random((n, vector.size)).argsort(axis=1) < keep).astype(np.float64)
    seen = mask * (np.outer(x, vector) + sigma * rng.standard_normal(mask.shape))
    estimate = (seen @ vector) / (mask @ vector**2 + (sigma / tau) ** 2)
    return np.asarray((estimate - x) ** 2)


_SPREAD = tuple(0.3 + 0.1 * j for j in range(20))


@thm5_1_row.mean(
    partial(_attacked, k=_SPREAD, keep=5, sigma=0.7, tau=math.inf),
    wrong=lambda: printed_error_bound(_SPREAD, rate_of(20, 5), 0.7),
    row_bytes=1000,
)
def _() -> float:
    """least squares on masked, noisy gradients, d = 20"""
    return sparsification.expected_error(_SPREAD, drop_rate=rate_of(20, 5), noise_std=0.7).value


@thm5_1_row.equal(
    lambda: itertools.product((1.0, 3.0, 10.0), (1.0, 3.0), (0.1, 0.5, 1.0), (0, 1, 2, 5), (0.0, 0.3, 0.6, 1.0))
)
def _(large: float, middle: float, small: float, zeros: int, keep_share: float) -> Sides:
    """bound with P(X > 0) <= error given m*k != 0"""
    k = [large, middle, small] + [0.0] * zeros
    rate = rate_of(len(k), max(1, round(keep_share * len(k))))
    given = sparsification.expected_error(k, drop_rate=rate, noise_std=1.0).given_recoverable
    return (
        given / sparsification.error_lower_bound(k, drop_rate=rate, noise_std=1.0) - 1 >= -1e-12,
        True,
        lambda: given / printed_error_bound(k, rate, 1.0) - 1 >= -1e-12,
    )


@thm5_1_row.equal(
    ((1, 1, 1), 3, True),
    ((3, 1, 2, 5), 2, True),
    ((3, 1, 2, 5), 4, True),
    ((1, 0, 0), 2, False),
    ((1, 0, 0), 3, False),
    ((2, 2, 0, 0), 2, True),
    ((5, 0, 0, 0, 0), 3, False),
    kind=Kind.COUNTEREXAMPLE,
)
def _(k: Vector, keep: int, raises: bool) -> Sides:
    """keeping fewer raises the error given m*k != 0: not with every zero pattern"""
    return raises, lambda: _mean_given(k, keep - 1) > _mean_given(k, keep), True


@thm5_1_row.equal(
    lambda: [(*case, ratio) for case in _SMALL_CASES for ratio in (Fraction(1, 9), Fraction(4))], tolerance=1e-12
)
def _(k: Vector, keep: int, ratio: Fraction) -> Sides:
    """Bayes attacker, all masks"""
    # ratio = sigma^2 / tau^2, sigma = 1
    return (
        sparsification.bayes_error(k, drop_rate=rate_of(len(k), keep), noise_std=1.0, prior_std=1 / math.sqrt(ratio)),
        lambda: _mean_given(k, keep, ratio),
        1 / (Fraction(keep, len(k)) * sum(x * x for x in k) + ratio),
    )


def _bayes_with_one_large(dim: int, keep: int, large: int) -> Fraction:
    """E[1 / (X + 4)], X = K - 1 + large^2 if the large entry is kept and K else."""
    kept = Fraction(keep, dim)
    return kept / (keep - 1 + large**2 + 4) + (1 - kept) / (keep + 4)


@thm5_1_row.equal((10_000, 100, 30), (10_000, 1, 100), (10**6, 1000, 20), tolerance=1e-8)
def _(dim: int, keep: int, large: int) -> Sides:
    """Bayes attacker, one large entry among very many"""
    k = [float(large)] + [1.0] * (dim - 1)
    stated = sparsification.bayes_error(k, drop_rate=rate_of(dim, keep), noise_std=1.0, prior_std=0.5)
    at_the_mean = 1 / (keep / Fraction(dim) * (dim - 1 + large**2) + 4)
    return stated, lambda: _bayes_with_one_large(dim, keep, large), at_the_mean


_SPARSE = (2.0, 1.0, 0.5, *[0.0] * 9)


@thm5_1_row.mean(
    partial(_attacked, k=_SPARSE, keep=6, sigma=0.7, tau=0.8),
    wrong=lambda: sparsification.expected_error(_SPARSE, drop_rate=0.5, noise_std=0.7).given_recoverable,
    row_bytes=1000,
)
def _() -> float:
    """Bayes attacker on a Gaussian input, 9 of 12 entries zero"""
    return sparsification.bayes_error(_SPARSE, drop_rate=0.5, noise_std=0.7, prior_std=0.8)


@thm5_1_row.equal(
    lambda: [
        (*size, field)
        for size in ((30, 6, 8), (20_000, 40, 500), (20_000, 15_000, 300))
        for field in ("given", "lost", "value", "bound", "bayes")
    ],
    tolerance=1e-9,
)
def _(dim: int, ones: int, keep: int, field: str) -> Sides:
    """every field for sparse vectors, small and users' sizes: a hypergeometric law"""
    truth = partial(by_hits, dim, ones, keep, field)
    return sparse_field(dim, ones, keep, field), truth, lambda: 1.01 * truth() + 0.01


@thm5_1_row.equal(
    lambda: [(dim, ones, keep) for dim in (30, 20_000) for ones, keep in ((6, 8), (6, dim - 6), (dim - 3, 8))]
)
def _(dim: int, ones: int, keep: int) -> Sides:
    """why the mean is infinite, counted"""
    return (
        sparsification.expected_error(leading_ones(dim, ones), drop_rate=rate_of(dim, keep), noise_std=2.0).reason
        == (f"{dim - ones} of {dim} entries of vector are zero and a mask keeps {keep}: it can miss the others"),
        dim - ones >= keep,
        False,
    )


Matrix = tuple[Vector, ...]


thm5_1_matrix = new_row(
    id="rs.thm5.1.matrix",
    source=Source("rs", "new, on equation 16 and Theorem 5.1", (16,)),
    verdict=Verdict.HOLDS,
    calculators=(
        sparsification.matrix_expected_error,
        sparsification.matrix_error_lower_bound,
        sparsification.gaussian_matrix_error,
    ),
)


def _trace_of_inverse(rows: Sequence[Vector]) -> Fraction | None:
    """tr (K'K)^-1 for these rows of K; None where K'K is singular."""
    n = len(rows[0])
    gram = [[Fraction(sum(row[i] * row[j] for row in rows)) for j in range(n)] for i in range(n)]
    solved = solve([[*row, *(Fraction(int(i == j)) for j in range(n))] for i, row in enumerate(gram)])
    return None if solved is None else sum((solved[i][i] for i in range(n)), Fraction(0))


def traces(matrix: Matrix, keep: int) -> list[Fraction | None]:
    """Of every mask."""
    return [_trace_of_inverse(rows) for rows in itertools.combinations(matrix, keep)]


def _mean_trace(matrix: Matrix, keep: int) -> Fraction:
    found = [trace for trace in traces(matrix, keep) if trace is not None]
    return sum(found, Fraction(0)) / len(found)


_MATRICES: tuple[Matrix, ...] = (
    ((1,), (0,), (2,)),
    ((1, 0), (0, 1), (1, 1), (1, -1)),
    ((1, 0), (1, 0), (0, 1), (0, 2), (1, 1)),
    ((3, 1, 0), (1, 2, -1), (0, 1, 1), (2, 2, 1), (1, 0, 5), (1, 1, 1)),
)


_MATRIX_CASES = [(K, keep) for K in _MATRICES for keep in range(len(K[0]), len(K) + 1)]


def _bound(K: Matrix, keep: int, sigma: float = 1.0) -> float:
    """On the total error, by the calculator."""
    return float(np.trace(sparsification.matrix_error_lower_bound(K, drop_rate=rate_of(len(K), keep), noise_std=sigma)))


@thm5_1_matrix.equal(lambda: _MATRIX_CASES, tolerance=1e-11)
def _(K: Matrix, keep: int) -> Sides:
    """total error given full rank, all masks"""
    found = sparsification.matrix_expected_error(K, drop_rate=rate_of(len(K), keep), noise_std=1.0)
    return found.given_recoverable, lambda: _mean_trace(K, keep), lambda: _bound(K, keep)


@thm5_1_matrix.equal(lambda: _MATRIX_CASES, tolerance=1e-13)
def _(K: Matrix, keep: int) -> Sides:
    """probability of rank deficiency, all masks"""
    return (
        sparsification.matrix_expected_error(K, drop_rate=rate_of(len(K), keep), noise_std=1.0).lost_probability,
        lambda: Fraction(traces(K, keep).count(None), math.comb(len(K), keep)),
        0.0,
    )


@thm5_1_matrix.equal(lambda: [(K,) for K in _MATRICES], tolerance=1e-12)
def _(K: Matrix) -> Sides:
    """nothing masked: the bound is the error"""
    return _bound(K, len(K)), lambda: _mean_trace(K, len(K)), 1.01 * _bound(K, len(K))


def _least_eigenvalue(entries: dict[str, float], conditional: bool) -> float:
    """The slack with the bound P B for the mean given full rank, or with B as if P were 1; 0 where K has not full rank."""
    keep = int(entries.pop("keep"))
    K = np.array(list(entries.values()), dtype=np.float64).reshape(4, 2)
    if np.linalg.matrix_rank(K) < 2:
        return 0.0
    kept = [K[list(rows)] for rows in itertools.combinations(range(4), keep)]
    inverses = [np.linalg.inv(rows.T @ rows) for rows in kept if np.linalg.matrix_rank(rows) == 2]
    bound = sparsification.matrix_error_lower_bound(K, drop_rate=rate_of(4, keep), noise_std=1.0)
    share = len(inverses) / len(kept) if conditional else 1.0
    root = np.linalg.inv(np.linalg.cholesky(bound))
    return float(np.linalg.eigvalsh(root @ np.mean(inverses, axis=0) @ root.T)[0] - share)


@thm5_1_matrix.inequality(
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


@thm5_1_matrix.mean(
    partial(_attacked_matrix, K=_REGULAR, dim=9, unknowns=3, keep=6, sigma=0.5),
    wrong=lambda: _bound(_REGULAR, 6, 0.5),
    row_bytes=1500,
)
def _() -> float:
    """least squares on the kept rows of a fixed K, 9 x 3"""
    return sparsification.matrix_expected_error(_REGULAR, drop_rate=rate_of(9, 6), noise_std=0.5).value


@thm5_1_matrix.mean(
    partial(_attacked_matrix, K=None, dim=12, unknowns=4, keep=12, sigma=0.5),
    wrong=lambda: 0.25 * 4 / 12,
    row_bytes=2500,
)
def _() -> float:
    """Gaussian K, 12 rows kept, 4 unknowns"""
    return sparsification.gaussian_matrix_error(keep=12, unknowns=4, noise_std=0.5).value


@thm5_1_matrix.equal(
    lambda: itertools.product((3, 100), ("ones", "first"), ("value", "given", "lost", "reason", "bound")),
    tolerance=1e-11,
)
def _(unknowns: int, last: str, field: str) -> Sides:
    """the identity and one more row, one row dropped: inverses by hand"""
    return bordered_field(unknowns, last, field), lambda: bordered(unknowns, last, field), -1.0


def _mean_reciprocal(freedom: int) -> float:
    """E 1/X for X chi-square, by quadrature over its root: the law of a diagonal entry of (K'K)^-1 with rows - unknowns + 1 degrees."""

    def part(r: float) -> float:
        return float(2 * scipy.stats.chi2.pdf(r * r, freedom) / r)

    return float(scipy.integrate.quad(part, 0.0, 12.0, epsabs=0, epsrel=1e-11)[0])


@thm5_1_matrix.equal(
    lambda: [(keep, field) for keep in (3, 4, 5, 6, 10) for field in ("given", "lost", "reason")], tolerance=1e-9
)
def _(keep: int, field: str) -> Sides:
    """Gaussian K: the mean by quadrature, when and why it is infinite"""
    return (
        gaussian_field(keep, field),
        lambda: {
            "given": 16 * _mean_reciprocal(keep - 3) if keep > 5 else math.inf,
            "lost": float(keep < 4),
            "reason": keep < 6,
        }[field],
        4.0 / keep,
    )


communication = new_row(
    id="rs.communication",
    source=Source("rs", "section 5; RF, section 4"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.communication,),
)


def _encoded(dim: int, keep: int, rounds: int, index: str) -> int:
    """Bytes of an actual message: float32 values of every round, and the mask once."""
    kept = np.sort(np.random.default_rng(0).permutation(dim)[:keep])
    values = b"".join(np.zeros(dim, np.float32)[kept].tobytes() for _ in range(rounds))
    mask = np.isin(np.arange(dim), kept)
    width = len(f"{dim - 1:b}") if dim > 1 else 0
    listed = np.flatnonzero(mask if index == "kept" else ~mask)
    bits = (
        mask if index == "bitmap" else np.array([b == "1" for i in listed for b in f"{i:b}".zfill(width)], dtype=bool)
    )
    head = np.random.default_rng(0).bytes(16) if index == "seed" else np.packbits(bits).tobytes()
    return len(values) + len(head)


_INDEX = ("seed", "kept", "dropped", "bitmap")


@communication.equal(
    *itertools.product((2, 17, 1000), (1, 2), (1, 50), _INDEX),
    *itertools.product((1000,), (100, 900), (1, 50), _INDEX),
)
def _(dim: int, keep: int, rounds: int, index: _costs.Index) -> Sides:
    """length of an encoded message"""
    sent = sparsification.communication(dim, keep, rounds=rounds, index=index)
    free = Fraction(4 * keep * rounds)  # wrong: the indices cost nothing
    return Fraction(sent.values + sent.index), lambda: Fraction(_encoded(dim, keep, rounds, index)), free


@communication.equal(lambda: itertools.product((Fraction(1, 2), Fraction(1, 10)), (1, 50)), tolerance=1e-12)
def _(x: Fraction, rounds: int) -> Sides:
    """ratio with kept indices, d = 550,000"""
    # 2^19 < 550,000 < 2^20
    return (
        sparsification.communication(550_000, int(550_000 * x), rounds=rounds, index="kept").ratio,
        x * (1 + Fraction(20, 32 * rounds)),
        x,
    )


def _packed(dim: int, keep: int, rounds: int, index: str, bits: int, part: str) -> int:
    """Bytes of one part of a message, its bits packed into an array."""
    if part != "index":
        return rounds * np.packbits(np.zeros((dim if part == "dense" else keep) * bits, dtype=bool)).nbytes
    listed = {
        "seed": 128,
        "kept": keep * len(f"{dim - 1:b}"),
        "dropped": (dim - keep) * len(f"{dim - 1:b}"),
        "bitmap": dim,
    }
    return np.packbits(np.zeros(listed[index], dtype=bool)).nbytes


@communication.equal(
    lambda: [
        (*size, index, bits, part)
        for size in ((17, 3), (999, 500), (20_000, 1_999))
        for index in _INDEX
        for bits in (32, 16, 5)
        for part in ("dense", "values", "index")
    ]
)
def _(dim: int, keep: int, index: _costs.Index, bits: int, part: str) -> Sides:
    """every part in whole bytes, for any number of bits a value"""
    return (
        Fraction(getattr(sparsification.communication(dim, keep, rounds=3, index=index, value_bits=bits), part)),
        lambda: Fraction(_packed(dim, keep, 3, index, bits, part)),
        Fraction(4 * keep * 3),
    )
