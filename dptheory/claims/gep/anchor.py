import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import embedding
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _subspace_bounds
from dptheory.claims.gep._mechanism import kept_law, lost_energy
from dptheory.papers import RESNET20_GROUPS

_GROUPS = (((2000, 9000), (1, 2)), ((2, 5), (1, 2)), ((3, 3, 3), (1, 1, 1)), ((4, 1, 7), (2, 1, 3)), ((6, 2), (1, 2)))


def _counted(sizes: tuple[int, ...], basis: tuple[int, ...], examples: int = 2) -> int:
    """Multiplications of A = G B^T and of A^T G, one by one, for a basis a group."""
    count = 0
    for p, k in zip(sizes, basis, strict=True):
        for _ in range(examples * k * p):  # an entry of A is a sum of p products
            count += 1
        for _ in range(k * p * examples):  # an entry of A^T G is a sum of m products
            count += 1
    return count


def _least_tail(sizes: tuple[int, ...], k: int) -> float:
    """min of sum p_g / k_g over k_g > 0 of sum k, numerically (softmax coordinates)."""
    p = np.asarray(sizes, dtype=np.float64)

    def tail(x: np.ndarray) -> float:
        weights = np.exp(x - x.max())
        return float((p * weights.sum() / (k * weights)).sum())

    return float(scipy.optimize.minimize(tail, np.zeros(p.size), method="BFGS", options={"gtol": 1e-9}).fun)


def _square_root_ratio(first: float, second: float, third: float) -> float:
    sizes = [first, second, third]
    return embedding.grouping_cost_ratio(sizes, subspace_dims=embedding.square_root_allocation(sizes, subspace_dim=1))


groups = new_row(
    id="gep.groups",
    source=Source("gep", "Section 3.1"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.grouping_cost_ratio, embedding.square_root_allocation),
)


@groups.equal(lambda: _GROUPS, tolerance=1e-15)
def _(sizes: tuple[int, ...], basis: tuple[int, ...]) -> Sides:
    """multiplications counted"""
    return (
        embedding.grouping_cost_ratio(sizes, subspace_dims=basis),
        lambda: Fraction(_counted(sizes, basis), _counted((sum(sizes),), (sum(basis),))),
        1 / len(sizes),
    )


@groups.equal(((464, 14_016, 51_072, 203_520, 650), 1000), ((100, 400), 30), ((50, 50, 7), 20), tolerance=1e-9)
def _(sizes: tuple[int, ...], k: int) -> Sides:
    """what the square root is best for, by minimisation"""
    return (
        float((np.asarray(sizes) / embedding.square_root_allocation(sizes, subspace_dim=k)).sum()),
        lambda: _least_tail(sizes, k),
        len(sizes) * sum(sizes) / k,  # in proportion to p_g
    )


@groups.inequality(
    {name: Range(1, 1e6, log=True) for name in ("first", "second", "third")},
    # wrong: the even split's 1/g is the most
    wrong=lambda first, second, third: 1 - 3 * _square_root_ratio(first, second, third),
)
def square_root_slack(first: float, second: float, third: float) -> float:
    """square-root shares cost at least 1/g"""
    return 3 * _square_root_ratio(first, second, third) - 1


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


power = new_row(
    id="gep.power",
    source=Source("gep", "Algorithm 1, lines 3 to 7, and section 3.1"),
    verdict=Verdict.CONDITIONAL,
    calculators=(embedding.anchor_subspace,),
)


@power.equal(lambda: [(gap, t) for gap in (0.3, 0.9, 0.99) for t in (1, 2, 5)], tolerance=1e-10)
def _(gap: float, t: int) -> Sides:
    """tan of the angle in the plane"""
    return _tangent(gap, t), gap ** (2 * t) * _start_tangent(), gap**t * _start_tangent()


@power.equal((Fraction(99, 100),), kind=Kind.COUNTEREXAMPLE)
def _(gap: Fraction) -> Sides:
    """s_2 = .99 s_1: does one iteration halve the angle's tangent?"""
    return _tangent(float(gap), 1) < _start_tangent() / 2, gap**2 < Fraction(1, 2), True


@power.equal(lambda: [(condition, rank, dim) for condition in (1.0, 1e4, 1e8) for rank, dim in ((5, 60), (20, 20_000))])
def _(condition: float, rank: int, dim: int) -> Sides:
    """rank k: row space after one iteration, to 1e-5"""
    return (
        missed(condition, rank, dim) < 1e-5,
        True,
        missed_by_products(condition, rank, dim) < 1e-5,
    )


@power.equal(lambda: [(seed,) for seed in range(5)], tolerance=1e-12)
def _(seed: int) -> Sides:
    """basis stays orthonormal"""
    return _least_norm(seed), 1.0, 1.02


private_pca = new_row(
    id="gep.private_pca",
    source=Source("gep", "section 3.1, implementation, on private gradients"),
    verdict=Verdict.HOLDS,
)

NEIGHBOURS = (5, 50)
"""Numbers of gradients along either axis."""


@private_pca.equal(*((n, more) for n in NEIGHBOURS for more in (0, 1)))
def _(n: int, more: int) -> Sides:
    """first principal axis of n and n gradients, and with one more along the first

    Gradients (1, 0), and (0, a) with a^2 = 1 + 1 / (2n), n of them: the sum of outer products is diagonal.
    """
    first, second = Fraction(n + more), n * (1 + Fraction(1, 2 * n))
    return 2 - more, 1 if first > second else 2, 1 + more


def _kl(ratio: float) -> float:
    """KL divergence of N(0, diag(ratio, 1)) from N(0, diag(1, ratio))."""
    return (ratio - 1) ** 2 / (2 * ratio)


def _kl_by_quadrature(ratio: float) -> float:
    """Two coordinates apart: mean log-ratio of the densities."""

    def divergence(own: float, other: float) -> float:
        def integrand(z: float) -> float:
            x2 = own * z * z
            log_ratio = 0.5 * (math.log(other / own) + x2 / other - x2 / own)
            return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * log_ratio

        return float(scipy.integrate.quad(integrand, -12, 12, epsabs=0, epsrel=1e-12, points=(0,))[0])

    return divergence(ratio, 1.0) + divergence(1.0, ratio)


@private_pca.equal((2.0,), (26.0,), tolerance=1e-9)
def _(ratio: float) -> Sides:
    """divergence of the two noises, the embedding's along either axis"""
    return _kl(ratio), lambda: _kl_by_quadrature(ratio), (ratio - 1) / (2 * ratio)


def _least_epsilon(ratio: float, delta: float, threshold: float) -> float:
    """What two zero-mean normal coordinates of variances ratio and 1 need: the event |x| > threshold."""
    likely, unlikely = 2 * scipy.special.ndtr(-threshold / math.sqrt(ratio)), 2 * scipy.special.ndtr(-threshold)
    return math.log((likely - delta) / unlikely)


def _tail(variance: float, threshold: float) -> float:
    """P(|x| > threshold), by quadrature."""
    scale = math.sqrt(variance)
    inside = scipy.integrate.quad(lambda z: math.exp(-z * z / 2), threshold / scale, math.inf, epsabs=0)[0]
    return 2 * float(inside) / math.sqrt(2 * math.pi)


@private_pca.equal((26.0, 1e-5, 5.0), (26.0, 1e-5, 4.0), (2.0, 1e-5, 3.0), tolerance=1e-9)
def _(ratio: float, delta: float, threshold: float) -> Sides:
    """epsilon that one step needs, whatever the noise: by two tails"""
    return (
        _least_epsilon(ratio, delta, threshold),
        lambda: math.log((_tail(ratio, threshold) - delta) / _tail(1.0, threshold)),
        _kl(ratio),
    )


@private_pca.equal((0.5,), (2.0,), (20.0,))
def _(noise: float) -> Sides:
    """that event, at several sizes of the noise: does the mean, one record apart, make it less likely?"""
    spread, threshold = noise * math.sqrt(104.0), 10 * noise
    moved = scipy.special.ndtr((-threshold - 1) / spread) + scipy.special.ndtr((-threshold + 1) / spread)
    return False, lambda: bool(moved < 2 * scipy.special.ndtr(-threshold / spread)), True


def _gradients(features: Sequence[_subspace_bounds.Row], errors: Sequence[Fraction]) -> list[_subspace_bounds.Row]:
    """Gradients (<x, theta> - y) x of half the squared error, from the features and the errors <x, theta> - y."""
    return [tuple(error * entry for entry in x) for x, error in zip(features, errors, strict=True)]


def _same_span(first: Sequence[_subspace_bounds.Row], second: Sequence[_subspace_bounds.Row]) -> bool:
    """Whether two sets of rows span one space, by exact ranks."""
    together = _subspace_bounds.rank([*first, *second])
    return _subspace_bounds.rank(first) == together == _subspace_bounds.rank(second)


_FEATURES: tuple[_subspace_bounds.Row, ...] = tuple(
    tuple(map(Fraction, row)) for row in ((1, 0, 0, 2, 1), (0, 1, 0, 1, -1), (0, 0, 1, 0, 3), (1, 1, 1, 3, 3))
)


def _spans_agree(true: Sequence[int], random: Sequence[int]) -> bool:
    """Whether the gradients under both labellings span one space."""
    fractions = [[Fraction(e) for e in errors] for errors in (true, random)]
    return _same_span(_gradients(_FEATURES, fractions[0]), _gradients(_FEATURES, fractions[1]))


def _kept_features_span(true: Sequence[int], random: Sequence[int]) -> bool:
    """The condition: the features whose errors are not 0 span one space."""
    kept = [[x for x, error in zip(_FEATURES, errors, strict=True) if error] for errors in (true, random)]
    return _same_span(kept[0], kept[1])


def _top_line_residual(true: tuple[int, int], random: tuple[int, int]) -> Fraction:
    """Share of energy of true gradients along e_1, e_2 that the leading line of the random-label gradients misses."""
    energies, anchors = [e * e for e in true], [e * e for e in random]
    return Fraction(energies[1 - anchors.index(max(anchors))], sum(energies))


def _energies(seed: int, spread: float, dim: int) -> tuple[float, float]:
    """Residual energy under random labels over that under true ones, and the largest ratio of squared errors."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((12, dim)) * 0.6 ** np.arange(dim)
    errors = np.exp(spread * rng.standard_normal((2, 12)))
    true, random = (error[:, None] * features for error in errors)
    basis = embedding.anchor_subspace(random, subspace_dim=2, iterations=30, rng=rng)
    ratio = float(np.square(errors[0] / errors[1]).max())
    return embedding.residual_energy(random, basis=basis) / embedding.residual_energy(true, basis=basis), ratio


def _share(true: tuple[int, int], random: tuple[int, int]) -> float:
    """:func:`_top_line_residual` by the calculators."""
    basis = embedding.anchor_subspace(np.diag(random), subspace_dim=1, iterations=60, rng=np.random.default_rng(3))
    return embedding.residual_energy(np.diag(true), basis=basis) / (sum(e * e for e in true) / 2)


random_labels = new_row(
    id="gep.random_labels",
    source=Source("gep", "section 3.1, and Fig. 4 in section 3.2"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(embedding.residual_energy, embedding.project, embedding.anchor_subspace),
)


@random_labels.equal(
    ((1, -2, 3, 1), (5, 1, -1, 2)),
    ((1, -2, 3, 1), (5, 0, -1, 2)),
    ((1, -2, 3, 1), (5, 0, 0, 2)),
    ((1, 0, 3, 1), (5, 0, 0, 2)),
    ((1, -2, 3, 1), (0, 0, 0, 1)),
)
def _(true: tuple[int, ...], random: tuple[int, ...]) -> Sides:
    """spans under two labellings, exact ranks

    The errors under true and under random labels of four features of rank 3 in five dimensions.
    """
    return _kept_features_span(true, random), lambda: _spans_agree(true, random), True


@random_labels.equal(((1, 10), (10, 1)), kind=Kind.COUNTEREXAMPLE)
def _(true: tuple[int, int], random: tuple[int, int]) -> Sides:
    """features e_1 and e_2, errors (1, 10) and (10, 1): the leading line misses 100/101"""
    return Fraction(100, 101), lambda: _top_line_residual(true, random), Fraction(1, 101)


@random_labels.equal(((1, 10), (10, 1)), ((3, 1), (2, 1)), ((1, 4), (5, 1)), tolerance=1e-9)
def _(true: tuple[int, int], random: tuple[int, int]) -> Sides:
    """the same by the calculators"""
    return _share(true, random), _top_line_residual(true, random), min(e * e for e in true) / sum(e * e for e in true)


@random_labels.inequality(
    {"seed": Range(0, 10**6, integer=True), "spread": Range(0.0, 2.0), "dim": Range(3, 8, integer=True)},
    # wrong: the residual under true labels is no larger than that of the random-label gradients
    wrong=lambda **point: _energies(**point)[0] - 1,
    tolerance=1e-9,
)
def energy_slack(seed: int, spread: float, dim: int) -> float:
    """residual energy against the largest ratio of squared errors"""
    share, ratio = _energies(seed, spread, dim)
    return ratio * share - 1


def _error(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    return np.asarray(np.sqrt(np.clip(lost_energy(rng, n, dim, subspace_dim), 0.0, 1.0)))


def _binned(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> NDArray[np.intp]:
    return np.minimum((10 * lost_energy(rng, n, dim, subspace_dim)).astype(np.intp), 9)


def _bins(dim: int, subspace_dim: int) -> Array:
    law = scipy.stats.beta((dim - subspace_dim) / 2, subspace_dim / 2)
    return np.asarray(np.diff(law.cdf(np.linspace(0, 1, 11))))


def _grouped(k: int) -> list[tuple[int, float]]:
    """p_g and k_g of the paper's ResNet20, k_g in proportion to the root of p_g."""
    return list(
        zip(RESNET20_GROUPS, embedding.square_root_allocation(RESNET20_GROUPS, subspace_dim=k).tolist(), strict=True)
    )


def _all_above(k: int) -> bool:
    """(p_g - k_g) / p_g > .95^2 in every group, k_g by hand."""
    roots = sum(math.sqrt(p) for p in RESNET20_GROUPS)
    return all(400 * (p - k * math.sqrt(p) / roots) > 361 * p for p in RESNET20_GROUPS)


def _error_by_law(what: str, dim: int, k: int) -> float:
    law = kept_law(dim, k)
    if what == "root":
        return math.sqrt(law.expect(lambda x: 1 - x, epsabs=1e-13, epsrel=1e-10))
    return float(law.expect(lambda x: math.sqrt(1 - x), epsabs=1e-13, epsrel=1e-10))


appC = new_row(
    id="gep.appC",
    source=Source("gep", "Appendix C and Fig. 7"),
    verdict=Verdict.CONDITIONAL,
    calculators=(embedding.random_basis_error, embedding.mean_random_basis_error),
)


@appC.equal(
    lambda: [(what, dim, k) for what in ("root", "mean") for dim, k in ((12, 5), (27_000, 2000), (270_000, 100_000))],
    tolerance=1e-8,
)
def _(what: str, dim: int, k: int) -> Sides:
    """root mean square and mean error at users' sizes, by the Beta law"""
    return (
        embedding.random_basis_error(dim=dim, subspace_dim=k)
        if what == "root"
        else embedding.mean_random_basis_error(dim=dim, subspace_dim=k),
        lambda: _error_by_law(what, dim, k),
        1 - k / dim,
    )


@appC.mean(partial(lost_energy, dim=12, subspace_dim=5), wrong=lambda: 1 - math.sqrt(5 / 12), row_bytes=3000)
def _() -> float:
    """gep.appC squared error, p = 12, k = 5"""
    return embedding.random_basis_error(dim=12, subspace_dim=5) ** 2


@appC.mean(partial(_error, dim=4, subspace_dim=2), wrong=lambda: math.sqrt(1 / 2), row_bytes=500)
def _() -> float:
    """gep.appC mean error, p = 4, k = 2"""
    return embedding.mean_random_basis_error(dim=4, subspace_dim=2)


@appC.law(partial(_binned, dim=4, subspace_dim=2), wrong=lambda: _bins(5, 2), row_bytes=500)
def _() -> Array:
    """gep.appC law of the squared error, p = 4, k = 2"""
    return _bins(4, 2)


@appC.equal((500,), (1000,), (1500,), (2000,), kind=Kind.COUNTEREXAMPLE)
def _(k: int) -> Sides:
    """five groups of ResNet20, k = 2000: is the error above 95 % whatever the gradient?"""
    return (
        all(embedding.random_basis_error(dim=p, subspace_dim=round(kg)) > 0.95 for p, kg in _grouped(k)),
        lambda: _all_above(k),
        True,
    )


@appC.equal(lambda: [(p, k) for p in (2_700, 41_000, 270_000) for k in (1, 250, 263, 264, 500, 2000)])
def _(p: int, k: int) -> Sides:
    """above 95 %, in integers"""
    return embedding.random_basis_error(dim=p, subspace_dim=k) > 0.95, 400 * (p - k) > 361 * p, 1 - k / p > 0.95


def _squared_length_error(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    kept = 1 - lost_energy(rng, n, dim, subspace_dim)
    return np.asarray(np.square(dim / subspace_dim * kept - 1))


jl = new_row(
    id="gep.jl",
    source=Source("gep", "section 3.1, last paragraph, and Appendix C"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.random_embedding_distortion, embedding.random_basis_error),
)


@jl.equal(
    lambda: [(what, dim, k) for what in ("length", "error") for dim, k in ((12, 5), (27_000, 2000), (270_000, 1000))],
    tolerance=1e-12,
)
def _(what: str, dim: int, k: int) -> Sides:
    """distortion and error at users' sizes, by the Beta law"""
    return (
        embedding.random_embedding_distortion(dim=dim, subspace_dim=k)
        if what == "length"
        else embedding.random_basis_error(dim=dim, subspace_dim=k),
        dim / k * kept_law(dim, k).std() if what == "length" else math.sqrt(1 - kept_law(dim, k).mean()),
        math.sqrt(2 / k),
    )


@jl.mean(partial(_squared_length_error, dim=8, subspace_dim=3), wrong=lambda: 2 / 3, row_bytes=1500)
def _() -> float:
    """gep.jl variance of the squared length, p = 8, k = 3"""
    return embedding.random_embedding_distortion(dim=8, subspace_dim=3) ** 2


@jl.mean(partial(lost_energy, dim=8, subspace_dim=3), row_bytes=1500)
def _() -> float:
    """gep.jl share of energy lost, p = 8, k = 3"""
    return embedding.random_basis_error(dim=8, subspace_dim=3) ** 2
