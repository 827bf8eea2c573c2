import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache, partial

import numpy as np
import scipy
from scipy.special import gammainc

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rf._quadratic_forms import exact, gamma_max, paired_cases, paired_max, sign_error, spectrum


def _ruben_max(eigenvalues: Sequence[float], n: int) -> float:
    """E max with F from Ruben's series: a mixture of central chi-square laws of scale min l_j, weights >= 0."""
    scale = min(eigenvalues)
    excess = [1.0 - scale / x for x in eigenvalues]
    powers = [sum(e**k for e in excess) for k in range(400)]
    weights = [math.prod(math.sqrt(scale / x) for x in eigenvalues)]
    for k in range(1, 400):
        weights.append(sum(powers[k - i] * weights[i] for i in range(k)) / (2 * k))
    shapes = 0.5 * len(eigenvalues) + np.arange(400)
    # the weights left out belong to shapes too large for any x that counts
    mixture = np.array(weights)

    def missed(x: float) -> float:
        below = float(mixture @ gammainc(shapes, x / (2.0 * scale)))
        return -math.expm1(n * math.log(below)) if 0.0 < below < 1.0 else float(below <= 0.0)

    top = max(eigenvalues) * (len(eigenvalues) + 2 * math.log(n) + 70)
    return float(
        scipy.integrate.quad(missed, 0.0, top, limit=400, epsabs=0.0, epsrel=1e-10, points=[sum(eigenvalues)])[0]
    )


_gauss_rule = cache(np.polynomial.legendre.leggauss)
"""Nodes and weights, which cost more than the sums that take them."""


def _two_level_max(half: int, ratio: float, n: int) -> float:
    """E max for 2 half eigenvalues 1 and as many of ``ratio``: Gamma laws of SciPy, the sum's tail and the integral on a grid."""
    mean, spread = 2 * half * (1 + ratio), 2 * math.sqrt(half * (1 + ratio**2))
    x = np.linspace(max(0.0, mean - 8 * spread), mean + (12 + 0.01 * n**0.25) * spread + 80 * ratio, 600)
    points, weights = _gauss_rule(600)
    y = mean / (1 + ratio) * ratio + spread * 12 * points
    law = scipy.stats.gamma.pdf(y, half, scale=2 * ratio) * 12 * spread * weights
    above = scipy.stats.gamma.sf(x[:, None] - y, half, scale=2.0) @ law
    missed = -np.expm1(n * np.log1p(-np.minimum(above, 1 - 1e-16)))
    return float(x[0] + scipy.integrate.simpson(missed, x=x))


def _flat_max(dim: int, n: int) -> float:
    """E max for ``dim`` eigenvalues 1, by SciPy's chi-square law."""
    return 2 * (dim / 2) * gamma_max(dim / 2, n)


def _large_max(dim: int, n: int, ratio: float) -> float:
    return _flat_max(dim, n) if ratio == 1 else _two_level_max(dim // 4, ratio, n)


def _released_errors(
    rng: np.random.Generator, n: int, eigenvalues: tuple[float, ...], draws: int, sigma: float
) -> Array:
    """|g + noise - 0|^2 of one example's gradient, noise scaled by the largest norm among all draws."""
    gradients = rng.standard_normal((n, draws, len(eigenvalues))) * np.sqrt(eigenvalues)
    norms = np.square(gradients).sum(axis=2)
    noise = rng.standard_normal((n, len(eigenvalues))) * sigma * np.sqrt(norms.max(axis=1))[:, None]
    return np.asarray(np.square(gradients[:, 0] + noise).sum(axis=1))


def _chi_square_case(dim: int, n: int, what: str) -> float:
    """Eigenvalues of 2: E max of n draws of 2 chi^2_d by integrating 1 - F^n; the error of noise sigma = 0.01; its bound."""
    if what == "bound":
        return 2.0 * dim * (1 + dim * 1e-4)
    middle, spread = float(dim), math.sqrt(2.0 * dim)
    low, high = max(0.0, middle - 12 * spread), middle + 60 * spread + 200
    x = np.linspace(low, high, 200_001)
    gap = -np.expm1(n * scipy.stats.chi2.logcdf(np.maximum(x, 1e-9), dim))
    largest = 2.0 * (low + float(scipy.integrate.simpson(gap, x=x)))
    return largest if what == "largest" else 2.0 * dim + dim * 1e-4 * largest


def _equal_case(dim: int, n: int, what: str) -> float:
    if what == "bound":
        return gradients.mse_lower_bound(trace=2.0 * dim, dim=dim, noise_multiplier=0.01)
    if what == "error":
        return gradients.stationary_mse([2.0] * dim, n=n, noise_multiplier=0.01)
    return gradients.expected_max_quadratic_form([2.0] * dim, n)


row = new_row(
    id="rf.thm1",
    source=Source("rf", "Theorem 1", (2, 25)),
    verdict=Verdict.LOOSE,
    printed=lambda trace, dim, noise_multiplier: gradients.mse_lower_bound(
        trace=trace, dim=dim, noise_multiplier=noise_multiplier
    ),
    calculators=(
        gradients.stationary_mse,
        gradients.mse_lower_bound,
        gradients.expected_max_quadratic_form,
    ),
    figure="expected_max",
)


@row.equal(paired_cases, tolerance=1e-9)
def _(half: tuple[int, ...], n: int) -> Sides:
    """eigenvalues in pairs: exponential sums in fractions"""
    return (
        gradients.stationary_mse(2 * half, n=n, noise_multiplier=1.5),
        lambda: 2 * sum(half) + 2 * len(half) * Fraction(9, 4) * paired_max([Fraction(x) for x in half], n),
        gradients.mse_lower_bound(trace=2 * sum(half), dim=2 * len(half), noise_multiplier=1.5),
    )


@row.equal(
    lambda: [(e, n) for e in ((1.0,), (3.0, 2.0, 2.0, 1.5, 1.0), (4.0, 1.0, 1.0)) for n in (2, 10, 10**6)],
    tolerance=1e-6,
)
def _(e: tuple[float, ...], n: int) -> Sides:
    """second method: Ruben's series"""
    return exact(e, n), lambda: _ruben_max(e, n), sum(e)


@row.equal(
    (10, 10**9, 1.0),
    (1000, 10**7, 1.0),
    (10**6, 60_000, 1.0),
    (10**5, 10**8, 1.0),
    (400, 10**7, 3.0),
    (10**4, 10**9, 2.0),
    tolerance=1e-6,
)
def _(dim: int, n: int, ratio: float) -> Sides:
    """E max of up to 1e9 draws and 1e6 eigenvalues, one and two levels, by SciPy's Gamma law"""
    return (
        exact(np.where(np.arange(dim) % 2, ratio, 1.0).tolist(), n),
        lambda: _large_max(dim, n, ratio),
        dim * (1 + ratio) / 2 * (1 + math.sqrt(2 / dim)),
    )


@row.equal(((2, 1, 0),), ((3,),), ((1, 1, 2),))
def _(roots: tuple[int, ...]) -> Sides:
    """one draw: the bound is attained at w = 0"""
    return (
        gradients.stationary_mse([r * r for r in roots], n=1, noise_multiplier=1.5),
        sign_error(roots, Fraction(3, 2)),
        gradients.stationary_mse([r * r for r in roots], n=2, noise_multiplier=1.5),
    )


@row.mean(
    partial(_released_errors, eigenvalues=(4.0, 2.0, 1.0, 1.0, 0.5, 0.25, 0.0, 0.0), draws=10, sigma=0.5),
    wrong=lambda: gradients.mse_lower_bound(trace=8.75, dim=8, noise_multiplier=0.5),
    row_bytes=1500,
)
def _() -> float:
    """Gaussian gradients, d = 8, maximum of 10"""
    return gradients.stationary_mse((4.0, 2.0, 1.0, 1.0, 0.5, 0.25, 0.0, 0.0), n=10, noise_multiplier=0.5)


def _raised_bound_slack(dim: int, decay: float, draws: int, sigma: float) -> float:
    """Wrong statement: the bound raised by 1e-3, which a single draw refutes."""
    return _bound_slack(dim, decay, 1, sigma) - 1e-3


@row.inequality(
    {
        "dim": Range(1, 40, integer=True),
        "decay": Range(0.0, 3.0),
        "draws": Range(1, 1000, integer=True, log=True),
        "sigma": Range(0.01, 10.0, log=True),
    },
    wrong=_raised_bound_slack,
)
def _bound_slack(dim: int, decay: float, draws: int, sigma: float) -> float:
    """exact >= bound"""
    eigenvalues = spectrum(dim, decay)
    bound = gradients.mse_lower_bound(trace=float(eigenvalues.sum()), dim=dim, noise_multiplier=sigma)
    return gradients.stationary_mse(eigenvalues, n=draws, noise_multiplier=sigma) / bound - 1.0


@row.equal(lambda: itertools.product((20_000, 300), (10, 10**7), ("largest", "error", "bound")), tolerance=1e-6)
def _(dim: int, n: int, what: str) -> Sides:
    """equal eigenvalues, users' sizes and numbers of draws: chi-square quadrature"""
    return _equal_case(dim, n, what), lambda: _chi_square_case(dim, n, what), 1.01 * _equal_case(dim, n, what)
