import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import pruning
from dptheory._arrays import Array
from dptheory.claims._draws import drawn_masks
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._finite import (
    counted_mean_swaps,
    energy_by_quadrature,
    gain,
    pruned_gaussian,
    ranked_loss,
    zeta,
)

mse_r = new_row(
    id="gip.mse_r",
    source=Source("gip", "Proposition 2", (7, 12, 13)),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
    calculators=(pruning.random_k_mse,),
)


@mse_r.equal(lambda: _finite.SIZES, tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """any fixed gradient, all subsets"""
    return (
        pruning.random_k_mse(dim, keep, sigma_g=math.sqrt(sum(x * x for x in _finite.VECTORS[dim]) / dim)),
        lambda: _finite.perturbed_loss(_finite.VECTORS[dim], keep, Fraction(1)),
        pruning.random_k_mse(dim, dim - keep, sigma_g=math.sqrt(sum(x * x for x in _finite.VECTORS[dim]) / dim)),
    )


@mse_r.mean(partial(pruned_gaussian, dim=200, keep=40, theta=0.0), row_bytes=8000)
def _() -> float:
    """Gaussian gradient, d = 200"""
    return float(pruning.random_k_mse(200, 40, sigma_g=1.0))


@mse_r.equal((20_000, 2_000), (2_700_000, 270_000), tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """users' sizes: one variance for each entry dropped"""
    return (
        pruning.random_k_mse(dim, keep, sigma_g=0.1),
        lambda: Fraction(1, 100) * sum(1 for _ in range(dim - keep)),
        Fraction(dim, 100),
    )


def printed_top_k_mse(dim: int, keep: int, sigma_g: float = 1.0) -> float:
    """MSE_t0 as printed in equations 7 and 16: the factor 1 - k stands there twice."""
    return (dim - keep) * sigma_g**2 * (1 - zeta(keep / dim))


mse_t0 = new_row(
    id="gip.mse_t0",
    source=Source("gip", "Proposition 2", (7, 14, 15, 16)),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    printed=printed_top_k_mse,
    calculators=(pruning.top_k_mse, pruning.top_k_energy),
    figure="top_k_mse",
)


@mse_t0.equal((2, 1), tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> tuple[float, float]:
    """two entries: 1 - 2/pi"""
    return float(pruning.top_k_mse(dim, keep, sigma_g=1.0)), 1 - 2 / math.pi


@mse_t0.equal((3, 1), (3, 2), (10, 1), (10, 9), (100, 10), (1000, 5), (10_000, 3000), tolerance=1e-9)
def _(dim: int, keep: int) -> Sides:
    """second method: rank of each entry"""
    asymptotic = pruning.top_k_mse(dim, keep, sigma_g=1.0, method="asymptotic")
    return pruning.top_k_mse(dim, keep, sigma_g=1.0), lambda: ranked_loss(dim, keep), asymptotic


@mse_t0.equal((2, 1), (100, 10), (10**6, 3), (10**9, 10**8), tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """kept and lost energy add up"""
    lost, kept = pruning.top_k_mse(dim, keep, sigma_g=1.0), pruning.top_k_energy(dim, keep, sigma_g=1.0)
    return lost + kept, dim, printed_top_k_mse(dim, keep) + kept


@mse_t0.mean(
    partial(pruned_gaussian, dim=500, keep=50, theta=math.inf),
    wrong=lambda: printed_top_k_mse(500, 50),
    row_bytes=20_000,
)
def _() -> float:
    """Gaussian gradient, d = 500"""
    return float(pruning.top_k_mse(500, 50, sigma_g=1.0))


@mse_t0.mean(
    partial(pruned_gaussian, dim=20, keep=2, theta=math.inf),
    wrong=lambda: pruning.top_k_mse(20, 2, sigma_g=1.0, method="asymptotic"),
    row_bytes=800,
)
def _() -> float:
    """finite dimension counts, d = 20"""
    return float(pruning.top_k_mse(20, 2, sigma_g=1.0))


@mse_t0.equal((10**6, 10**5), (10**6, 5 * 10**5), (10**6, 9 * 10**5), tolerance=1e-4)
def _(dim: int, keep: int) -> Sides:
    """limit of the gap"""
    a = scipy.stats.norm.isf(keep / dim / 2)
    limit = keep / dim * (1 - keep / dim) * a / (2 * scipy.stats.norm.pdf(a))
    gap = pruning.top_k_mse(dim, keep, sigma_g=1.0) - pruning.top_k_mse(dim, keep, sigma_g=1.0, method="asymptotic")
    return limit, gap, 2 * limit


@mse_t0.inequality(
    {"dim": Range(2, 1e9, log=True), "keep_share": Range(0, 1)},
    wrong=1e-3,
)
def jensen_slack(dim: float, keep_share: float) -> float:
    """asymptotic <= exact"""
    size, keep = _finite.sizes(dim, keep_share)
    return 1 - float(
        pruning.top_k_mse(size, keep, sigma_g=1.0, method="asymptotic") / pruning.top_k_mse(size, keep, sigma_g=1.0)
    )


@mse_t0.equal(
    lambda: [(dim, k, kept) for dim in (100, 20_000, 10**6) for k in (0.1, 0.5) for kept in (False, True)],
    tolerance=1e-9,
)
def _(dim: int, k: float, kept: bool) -> Sides:
    """asymptotic forms: energy beyond and below the threshold, by quadrature"""
    keep = round(k * dim)
    stated = pruning.top_k_energy if kept else pruning.top_k_mse
    return (
        stated(dim, keep, sigma_g=1.0, method="asymptotic"),
        energy_by_quadrature(dim, k, kept),
        printed_top_k_mse(dim, keep),
    )


def printed_perturbed_mse(dim: int, keep: int, theta: float, sigma_g: float) -> float:
    """MSE_t as printed in equations 7 and 24."""
    k = keep / dim
    swaps = pruning.SubsetMallows(dim, keep, theta=theta).mean_swaps()
    return printed_top_k_mse(dim, keep, sigma_g) + sigma_g**2 * zeta(k) / k * swaps


_DIM, _KEEP, _THETA = 60, 15, 0.5


def _loss_by_rank(dim: int, keep: int, theta: float) -> float:
    """MSE_t by the chance of each entry to be left out: the E[i] swapped ones are uniform on both sides of the threshold."""
    swaps = counted_mean_swaps(dim, keep, theta)
    return ranked_loss(dim, keep, swaps / keep, 1 - swaps / (dim - keep))


def _asymptotic_rise(dim: int, keep: int, theta: float) -> float:
    """MSE_t - MSE_t0 with every entry on its side of the limiting threshold, by quadrature."""
    swaps, k = counted_mean_swaps(dim, keep, theta), keep / dim
    return swaps * (energy_by_quadrature(dim, k, True) / keep - energy_by_quadrature(dim, k, False) / (dim - keep))


mse_t = new_row(
    id="gip.mse_t",
    source=Source("gip", "Proposition 2", (7, 17, 19, 20, 22, 23, 24)),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    printed=printed_perturbed_mse,
    calculators=(pruning.perturbed_top_k_mse, pruning.SubsetMallows.mean_swaps),
    figure="retained_gain",
)


@mse_t.mean(
    partial(pruned_gaussian, dim=_DIM, keep=_KEEP, theta=_THETA),
    wrong=lambda: printed_perturbed_mse(_DIM, _KEEP, _THETA, 1.0),
    row_bytes=2400,
)
def _() -> float:
    """Gaussian gradient, d = 60"""
    return float(pruning.perturbed_top_k_mse(_DIM, _KEEP, theta=_THETA, sigma_g=1.0))


@mse_t.equal(
    lambda: [(*size, theta) for size in ((10, 3), (8, 6), (20_000, 3000), (10**6, 50)) for theta in (0.0, 0.3, 3.0)],
    tolerance=1e-8,
)
def _(dim: int, keep: int, theta: float) -> Sides:
    """expected number of swaps, by counting index sets"""
    return (
        pruning.SubsetMallows(dim, keep, theta=theta).mean_swaps(),
        lambda: counted_mean_swaps(dim, keep, theta),
        keep * (dim - keep) / dim,  # random-k's
    )


@mse_t.equal(
    lambda: [
        (*size, theta) for size in ((10, 3), (100, 10), (1000, 500), (20_000, 3000)) for theta in (1e-9, 0.3, 3.0)
    ],
    tolerance=1e-9,
)
def _(dim: int, keep: int, theta: float) -> Sides:
    """coefficient of the expected swaps: chance of each entry to be left out, by its rank"""
    return (
        pruning.perturbed_top_k_mse(dim, keep, theta=theta, sigma_g=1.0),
        lambda: _loss_by_rank(dim, keep, theta),
        printed_perturbed_mse(dim, keep, theta, 1.0),
    )


@mse_t.equal((1000, 100, 0.3), (1000, 500, 1.0), (20_000, 2000, 0.01), (10**6, 10**5, 1.0), tolerance=1e-8)
def _(dim: int, keep: int, theta: float) -> Sides:
    """asymptotic coefficient: energy on both sides of the threshold, by quadrature"""
    return (
        pruning.perturbed_top_k_mse(dim, keep, theta=theta, sigma_g=1.0, method="asymptotic")
        - pruning.top_k_mse(dim, keep, sigma_g=1.0, method="asymptotic"),
        lambda: _asymptotic_rise(dim, keep, theta),
        counted_mean_swaps(dim, keep, theta) * zeta(keep / dim) / (keep / dim),
    )


@mse_t.equal((1000, 100), (1000, 500), (10**6, 1000), tolerance=1e-8)
def _(dim: int, keep: int) -> Sides:
    """asymptotic coefficient in closed form"""
    return (
        (zeta(keep / dim) - keep / dim) / (keep / dim * (1 - keep / dim)),
        lambda: (
            energy_by_quadrature(dim, keep / dim, True) / keep
            - energy_by_quadrature(dim, keep / dim, False) / (dim - keep)
        ),
        zeta(keep / dim) / (keep / dim),
    )


def _gain_ratio(dim: int, keep: int, weight: Fraction) -> float:
    """(MSE_r - MSE_t) / (MSE_r - MSE_t0) of a fixed gradient, by enumeration."""
    gradient = _finite.VECTORS[dim]
    random = _finite.perturbed_loss(gradient, keep, Fraction(1))
    top = _finite.lost_energy(gradient, _finite.top_subset(gradient, keep))
    return float((random - _finite.perturbed_loss(gradient, keep, weight)) / (random - top))


def _order_holds(gradient: tuple[int, ...], keep: int, weight: Fraction) -> bool:
    """MSE_t0 < MSE_t <= MSE_r by enumeration."""
    top = _finite.lost_energy(gradient, _finite.top_subset(gradient, keep))
    perturbed = _finite.perturbed_loss(gradient, keep, weight)
    return top < perturbed <= _finite.perturbed_loss(gradient, keep, Fraction(1))


def _linear_slack(dim: float, keep_share: float, theta: float, growth: float) -> float:
    """Wrong statement: rho stays below its leading term 2 theta k (1 - k)."""
    size, keep = _finite.sizes(dim, keep_share)
    return 2 * theta * keep * (size - keep) / size**2 - pruning.retained_gain(size, keep, theta=theta)


order = new_row(
    id="gip.order",
    source=Source("gip", "Proposition 2 and the text below it"),
    verdict=Verdict.CONDITIONAL,
    calculators=(pruning.retained_gain, pruning.perturbed_top_k_mse),
    figure="retained_gain",
)


@order.equal(lambda: [(*size, w) for size in _finite.SIZES for w in (Fraction(1, 3), Fraction(9, 10))], tolerance=1e-12)
def _(dim: int, keep: int, weight: Fraction) -> Sides:
    """share of the gain, any fixed gradient"""
    return (
        pruning.retained_gain(dim, keep, theta=-math.log(weight)),
        lambda: _gain_ratio(dim, keep, weight),
        pruning.retained_gain(dim, keep, theta=-math.log(weight)) ** 2,
    )


@order.equal(
    ((2, 1), 1, Fraction(2), False),  # theta = -log 2
    ((1, 1), 1, Fraction(1, 2), False),  # all entries equal
    ((2, 1, 1), 2, Fraction(1, 2), True),  # a tie across the threshold does no harm
    ((2, 1), 1, Fraction(0), False),  # theta = inf
    ((2, 1), 1, Fraction(1, 2), True),
    kind=Kind.COUNTEREXAMPLE,
)
def _(gradient: tuple[int, ...], keep: int, weight: Fraction, conditions: bool) -> Sides:
    """conditions are needed"""
    return conditions, lambda: _order_holds(gradient, keep, weight), True


@order.inequality(
    {
        "dim": Range(2, 500, log=True),
        "keep_share": Range(0, 1),
        "theta": Range(1e-12, 50, log=True),
        "growth": Range(1.001, 10),
    },
    wrong=_linear_slack,
)
def _rise_slack(dim: float, keep_share: float, theta: float, growth: float) -> float:
    """rho in [0, 1] and rising in theta"""
    size, keep = _finite.sizes(dim, keep_share)
    below, above = (pruning.retained_gain(size, keep, theta=t) for t in (theta, theta * growth))
    return min(below, above / below - 1, 1 - above)


eq18 = new_row(
    id="gip.eq18",
    source=Source("gip", "Appendix A.3", (18,)),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=lambda dim, keep: keep,
)


@eq18.equal(lambda: _finite.SIZES, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> Sides:
    """number of zeros"""
    return dim - keep, lambda: max(sum(not x for x in s) for s in _finite.subsets(dim, keep)), keep


def swap_count(dim: int, keep: int, swaps: int) -> int:
    """Equation 21: number of k-subsets at Hamming distance 2 * swaps from a given one."""
    return math.comb(keep, swaps) * math.comb(dim - keep, swaps)


eq21 = new_row(
    id="gip.eq21",
    source=Source("gip", "Appendix A.3", (20, 21)),
    verdict=Verdict.HOLDS,
)


@eq21.equal(lambda: [(*size, i) for size in _finite.SIZES for i in range(size[0] + 1)])
def _(dim: int, keep: int, i: int) -> Sides:
    """count by enumeration"""
    return (
        swap_count(dim, keep, i),
        lambda: sum(_finite.hamming(_finite.subsets(dim, keep)[0], s) == 2 * i for s in _finite.subsets(dim, keep)),
        math.comb(keep, i) * math.comb(dim, i),
    )


def leading_gain(dim: int, keep: int, theta: float) -> float:
    """2 theta k (1 - k) d / (d - 1)."""
    return 2 * theta * keep * (dim - keep) / (dim * (dim - 1))


def _naive_gain(dim: int, keep: int, weight: Fraction) -> float:
    """rho as one minus a quotient of means: loses all digits for small theta."""
    swaps = pruning.SubsetMallows(dim, keep, theta=_theta(weight)).mean_swaps()
    return float(1 - swaps / (keep * (dim - keep) / dim))


def _theta(weight: Fraction) -> float:
    return -math.log1p(float(weight - 1))


retained_gain = new_row(
    id="gip.retained_gain",
    source=Source("gip", "new, on F(theta) of Proposition 2"),
    verdict=Verdict.HOLDS,
    calculators=(pruning.retained_gain, pruning.SubsetMallows.retained_gain),
    figure="retained_gain",
)


@retained_gain.equal(
    lambda: [
        (*size, 1 - Fraction(1, 10**n))
        for size in ((2, 1), (8, 3), (30, 3), (256, 26), (256, 128))
        for n in (15, 11, 6, 2, 1)
    ],
    tolerance=1e-12,
)
def _(dim: int, keep: int, weight: Fraction) -> Sides:
    """against fractions, down to theta = 1e-15"""
    return (
        pruning.retained_gain(dim, keep, theta=_theta(weight)),
        lambda: gain(dim, keep, weight),
        _naive_gain(dim, keep, weight),
    )


@retained_gain.equal((256, 26, 1e-9), (1000, 500, 1e-9), (2, 1, 1e-9), (10**6, 10**5, 1e-12), tolerance=1e-6)
def _(dim: int, keep: int, theta: float) -> Sides:
    """leading term"""
    return (
        pruning.retained_gain(dim, keep, theta=theta),
        lambda: leading_gain(dim, keep, theta),
        2 * theta * keep * (dim - keep) / dim**2,
    )


_GRADIENTS = ((3, -2, 1), (0, 5, -5), (1, 1, 4))


def _total_error(gradient: tuple[int, ...], keep: int, size: int) -> Fraction:
    """E|(g + Z)*I - g|^2, I the top-k set of g, Z entries +-size with equal chances."""
    kept = _finite.top_subset(gradient, keep)
    noises = _finite.two_point_noise(len(gradient), size)
    total = sum(
        ((x + z if stays else 0) - x) ** 2
        for noise in noises
        for x, z, stays in zip(gradient, noise, kept, strict=True)
    )
    return Fraction(total, len(noises))


def printed_total_error(gradient: tuple[int, ...], size: int) -> Fraction:
    """Left side of equation 5 as printed: E|g + Z|^2."""
    noises = _finite.two_point_noise(len(gradient), size)
    total = sum(sum((x + z) ** 2 for x, z in zip(gradient, noise, strict=True)) for noise in noises)
    return Fraction(total, len(noises))


def _total_gaussian_errors(rng: np.random.Generator, n: int) -> Array:
    """|(g + Z)*I - g|^2 for five Gaussian entries of g and Z and the top-2 set of g."""
    gradient, noise = rng.standard_normal((2, n, 5))
    released = (gradient + noise) * pruning.top_k_mask(gradient, keep=2)
    return np.asarray(np.square(released - gradient).sum(axis=1))


eq5 = new_row(
    id="gip.eq5",
    source=Source("gip", "equation 5", (5,)),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_total_error,
)


@eq5.equal(lambda: itertools.product(_GRADIENTS, (1, 2, 3), (1, 7)))
def _(gradient: tuple[int, ...], keep: int, size: int) -> Sides:
    """two-point noise, by enumeration"""
    return (
        _finite.lost_energy(gradient, _finite.top_subset(gradient, keep)) + keep * size * size,
        lambda: _total_error(gradient, keep, size),
        printed_total_error(gradient, size),
    )


@eq5.mean(
    _total_gaussian_errors,
    wrong=lambda: 2.0 * 5,  # E|g + Z|^2
    row_bytes=250,
)
def _() -> float:
    """Gaussian gradient and noise, 2 of 5 kept"""
    return float(pruning.top_k_mse(5, 2, sigma_g=1.0) + pruning.noise_mse(keep=2, clip_norm=1.0, noise_multiplier=1.0))


def _masked_noise(rng: np.random.Generator, n: int, dim: int, keep: int, scale: float) -> Array:
    mask = drawn_masks(rng, n, dim, keep)
    return np.asarray(np.square(scale * rng.standard_normal((n, dim)) * mask).sum(axis=1))


eq6 = new_row(
    id="gip.eq6",
    source=Source("gip", "equation 6", (6,)),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
    calculators=(pruning.noise_mse,),
)


@eq6.equal(lambda: [(*size, scale) for size in _finite.SIZES for scale in (1, 3)])
def _(dim: int, keep: int, scale: int) -> Sides:
    """two-point noise under a fixed mask"""
    return (
        pruning.noise_mse(keep=keep, clip_norm=1.0, noise_multiplier=scale),
        lambda: Fraction(
            sum(sum(z * z for z in noise[:keep]) for noise in _finite.two_point_noise(dim, scale)), 2**dim
        ),
        pruning.noise_mse(keep=dim, clip_norm=1.0, noise_multiplier=scale),
    )


@eq6.mean(partial(_masked_noise, dim=100, keep=30, scale=3.0), row_bytes=2500)
def _() -> float:
    """Gaussian noise under a random mask"""
    return float(pruning.noise_mse(keep=30, clip_norm=1.5, noise_multiplier=2.0))
