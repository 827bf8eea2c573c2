"""GIP: norm, the split of the error, noise and random-k MSE."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from dptheory import pruning
from dptheory.checks import ExactCheck, Kind, MeanCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims._draws import drawn_masks
from dptheory.claims.gip import _finite
from dptheory.claims.gip._gaussian import pruned_gaussian

Array = NDArray[np.float64]

# --- gip.norm ---------------------------------------------------------------------------------------------------------


def printed_norm(dim: int, sigma_g: float) -> float:
    """E|g| as the text before equation 5 has it."""
    return dim * sigma_g


def _norms(rng: np.random.Generator, n: int, dim: int) -> Array:
    return np.asarray(np.linalg.norm(rng.standard_normal((n, dim)), axis=1))


def _norm_by_quantiles(dim: int, sigma_g: float) -> float:
    square = 2.0 * gammaincinv(dim / 2, (np.arange(4000) + 0.5) / 4000)
    return sigma_g * float(np.sqrt(square).mean())


_NORM = Claim(
    id="gip.norm",
    title="norm of the gradient",
    source=Source("gip", "section 5, text before equation 5"),
    statement=r"Under Assumption 1, $E\|g\|_2 = d\sigma_g$.",
    verdict=Verdict.FALSE,
    conditions=("Assumption 1: iid N(0, sigma_g^2) entries",),
    correction=r"$E\|g\|_2 = \sigma_g\sqrt2\,\Gamma(\frac{d+1}2)/\Gamma(\frac d2) \approx \sigma_g\sqrt d$.",
    printed=printed_norm,
    calculators=(pruning.expected_norm,),
    checks=(
        ExactCheck(
            name="dimensions 1, 2, 3 in closed form",
            cases=lambda: itertools.product((1, 2, 3), (1.0, 0.1)),
            truth=lambda dim, sigma_g: sigma_g * math.sqrt({1: 2 / math.pi, 2: math.pi / 2, 3: 8 / math.pi}[dim]),
            statement=lambda dim, sigma_g: float(pruning.expected_norm(dim, sigma_g)),
            wrong=printed_norm,
            tolerance=1e-14,
            kind=Kind.COUNTEREXAMPLE,
        ),
        MeanCheck(
            name="mean norm, d = 50",
            sampler=partial(_norms, dim=50),
            claimed=lambda: float(pruning.expected_norm(50, 1.0)),
            wrong=lambda: printed_norm(50, 1.0),
            row_bytes=800,
            resolution=0.002,
        ),
        ExactCheck(
            name="users' sizes: the root of equally likely chi-square values",
            cases=lambda: itertools.product((20_000, 10**6), (1.0, 0.1)),
            truth=_norm_by_quantiles,
            statement=lambda dim, sigma_g: float(pruning.expected_norm(dim, sigma_g)),
            wrong=lambda dim, sigma_g: 1.001 * sigma_g * math.sqrt(dim),
            tolerance=1e-6,
        ),
    ),
    proved=True,
)

# --- gip.eq5, gip.eq6 -------------------------------------------------------------------------------------------------

_GRADIENTS = ((3, -2, 1), (0, 5, -5), (1, 1, 4))


def _two_point_noise(dim: int, size: int) -> list[tuple[int, ...]]:
    return list(itertools.product((-size, size), repeat=dim))


def _total_error(gradient: tuple[int, ...], keep: int, size: int) -> Fraction:
    """E|(g + Z)*I - g|^2, I the top-k set of g, Z entries +-size with equal chances."""
    kept = _finite.top_subset(gradient, keep)
    noises = _two_point_noise(len(gradient), size)
    total = sum(
        ((x + z if stays else 0) - x) ** 2
        for noise in noises
        for x, z, stays in zip(gradient, noise, kept, strict=True)
    )
    return Fraction(total, len(noises))


def printed_total_error(gradient: tuple[int, ...], size: int) -> Fraction:
    """Left side of equation 5 as printed: E|g + Z|^2."""
    noises = _two_point_noise(len(gradient), size)
    total = sum(sum((x + z) ** 2 for x, z in zip(gradient, noise, strict=True)) for noise in noises)
    return Fraction(total, len(noises))


def _error_cases() -> Iterator[tuple[tuple[int, ...], int, int]]:
    yield from itertools.product(_GRADIENTS, (1, 2, 3), (1, 7))


def _total_gaussian_errors(rng: np.random.Generator, n: int) -> Array:
    """|(g + Z)*I - g|^2 for five Gaussian entries of g and Z and the top-2 set of g."""
    gradient, noise = rng.standard_normal((2, n, 5))
    released = (gradient + noise) * pruning.top_k_mask(gradient, 2)
    return np.asarray(np.square(released - gradient).sum(axis=1))


_EQ5 = Claim(
    id="gip.eq5",
    title="split of the error",
    source=Source("gip", "equation 5", (5,)),
    statement=r"$\mathrm{MSE} = E\|g + Z\|^2 = E\|g \odot I - g\|^2 + E\|Z \odot I\|^2$.",
    verdict=Verdict.FALSE,
    conditions=("none on the laws of g, Z and I: the split holds for every outcome",),
    correction=r"$\|(g+Z)\odot I - g\|^2 = \|g\odot I - g\|^2 + \|Z\odot I\|^2$ for every outcome, as the two parts live on "
    r"different entries; so in expectation too. The printed left side is another quantity.",
    printed=printed_total_error,
    checks=(
        ExactCheck(
            name="two-point noise, by enumeration",
            cases=_error_cases,
            truth=_total_error,
            statement=lambda gradient, keep, size: (
                _finite.lost_energy(gradient, _finite.top_subset(gradient, keep)) + keep * size * size
            ),
            wrong=lambda gradient, keep, size: printed_total_error(gradient, size),
        ),
        MeanCheck(
            name="Gaussian gradient and noise, 2 of 5 kept",
            sampler=_total_gaussian_errors,
            claimed=lambda: float(pruning.top_k_mse(5, 2, 1.0) + pruning.noise_mse(2, 1.0, 1.0)),
            wrong=lambda: 2.0 * 5,  # E|g + Z|^2
            row_bytes=250,
        ),
    ),
    proved=True,
)


def _masked_noise(rng: np.random.Generator, n: int, dim: int, keep: int, scale: float) -> Array:
    mask = drawn_masks(rng, n, dim, keep)
    return np.asarray(np.square(scale * rng.standard_normal((n, dim)) * mask).sum(axis=1))


_EQ6 = Claim(
    id="gip.eq6",
    title="noise MSE",
    source=Source("gip", "equation 6", (6,)),
    statement=r"$E\|Z \odot I\|^2 = \sigma^2C^2kd$ for every index set with $kd$ ones.",
    verdict=Verdict.HOLDS,
    conditions=("Z independent of I, entries of variance sigma^2 C^2",),
    calculators=(pruning.noise_mse,),
    checks=(
        ExactCheck(
            name="two-point noise under a fixed mask",
            cases=lambda: [(*size, scale) for size in _finite.SIZES for scale in (1, 3)],
            truth=lambda dim, keep, scale: Fraction(
                sum(sum(z * z for z in noise[:keep]) for noise in _two_point_noise(dim, scale)), 2**dim
            ),
            statement=lambda dim, keep, scale: float(pruning.noise_mse(keep, 1.0, scale)),
            wrong=lambda dim, keep, scale: float(pruning.noise_mse(dim, 1.0, scale)),
        ),
        MeanCheck(
            name="Gaussian noise under a random mask",
            sampler=partial(_masked_noise, dim=100, keep=30, scale=3.0),
            claimed=lambda: float(pruning.noise_mse(30, 1.5, 2.0)),
            row_bytes=2500,
        ),
    ),
    proved=True,
)

# --- gip.mse_r --------------------------------------------------------------------------------------------------------

_MSE_R = Claim(
    id="gip.mse_r",
    title="random-k pruning MSE",
    source=Source("gip", "Proposition 2", (7, 12, 13)),
    statement=r"$\mathrm{MSE}_r = (d - kd)\sigma_g^2$.",
    verdict=Verdict.HOLDS,
    conditions=("true for any fixed g with |g|^2 = d sigma_g^2, Gaussian or not",),
    calculators=(pruning.random_k_mse,),
    checks=(
        ExactCheck(
            name="any fixed gradient, all subsets",
            cases=lambda: _finite.SIZES,
            truth=lambda dim, keep: float(_finite.perturbed_loss(_finite.VECTORS[dim], keep, Fraction(1))),
            statement=lambda dim, keep: float(
                pruning.random_k_mse(dim, keep, math.sqrt(sum(x * x for x in _finite.VECTORS[dim]) / dim))
            ),
            wrong=lambda dim, keep: float(
                pruning.random_k_mse(dim, dim - keep, math.sqrt(sum(x * x for x in _finite.VECTORS[dim]) / dim))
            ),
            tolerance=1e-12,
        ),
        MeanCheck(
            name="Gaussian gradient, d = 200",
            sampler=partial(pruned_gaussian, dim=200, keep=40, theta=0.0),
            claimed=lambda: float(pruning.random_k_mse(200, 40, 1.0)),
            row_bytes=8000,
        ),
        ExactCheck(
            name="users' sizes: one variance for each entry dropped",
            cases=lambda: [(20_000, 2_000), (2_700_000, 270_000)],
            truth=lambda dim, keep: Fraction(1, 100) * sum(1 for _ in range(dim - keep)),
            statement=lambda dim, keep: float(pruning.random_k_mse(dim, keep, 0.1)),
            wrong=lambda dim, keep: Fraction(dim, 100),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)

# --- gip.eq18 ---------------------------------------------------------------------------------------------------------

_EQ18 = Claim(
    id="gip.eq18",
    title="sizes of the index classes",
    source=Source("gip", "Appendix A.3", (18,)),
    statement=r"$|C_0(I)| = kd$ and $|C_1(I)| = (1-k)d$, $C_0$ the zeros and $C_1$ the ones of $I$.",
    verdict=Verdict.FALSE,
    correction=r"Swapped: $|C_0(I)| = (1-k)d$, $|C_1(I)| = kd$; they agree for $k = 1/2$ only.",
    printed=lambda dim, keep: keep,
    checks=(
        ExactCheck(
            name="number of zeros",
            cases=lambda: _finite.SIZES,
            truth=lambda dim, keep: max(sum(not x for x in s) for s in _finite.subsets(dim, keep)),
            statement=lambda dim, keep: dim - keep,
            wrong=lambda dim, keep: keep,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

CLAIMS = (_NORM, _EQ5, _EQ6, _MSE_R, _EQ18)
