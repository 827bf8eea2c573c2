import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dptheory import pruning
from dptheory._arrays import Array
from dptheory.claims._row import Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite

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


def _error_cases() -> Iterator[tuple[tuple[int, ...], int, int]]:
    yield from itertools.product(_GRADIENTS, (1, 2, 3), (1, 7))


def _total_gaussian_errors(rng: np.random.Generator, n: int) -> Array:
    """|(g + Z)*I - g|^2 for five Gaussian entries of g and Z and the top-2 set of g."""
    gradient, noise = rng.standard_normal((2, n, 5))
    released = (gradient + noise) * pruning.top_k_mask(gradient, keep=2)
    return np.asarray(np.square(released - gradient).sum(axis=1))


row = new_row(
    id="gip.eq5",
    source=Source("gip", "equation 5", (5,)),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_total_error,
)


@row.equal(_error_cases)
def _(gradient: tuple[int, ...], keep: int, size: int) -> Sides:
    """two-point noise, by enumeration"""
    return (
        _finite.lost_energy(gradient, _finite.top_subset(gradient, keep)) + keep * size * size,
        lambda: _total_error(gradient, keep, size),
        printed_total_error(gradient, size),
    )


@row.mean(
    _total_gaussian_errors,
    wrong=lambda: 2.0 * 5,  # E|g + Z|^2
    row_bytes=250,
)
def _() -> float:
    """Gaussian gradient and noise, 2 of 5 kept"""
    return float(pruning.top_k_mse(5, 2, sigma_g=1.0) + pruning.noise_mse(keep=2, clip_norm=1.0, noise_multiplier=1.0))
