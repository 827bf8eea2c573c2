"""Moments of a clipped Gaussian gradient as sums over a Poisson number: the noncentral chi-square law as a mixture of central ones.

The side of rs.phase's checks that does not use :func:`dptheory.gradients.gaussian_clip_moments`.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, gammaln

_REACH = 7.5  # standard deviations of the Poisson number on both sides of its mean, and as many numbers more

Array = NDArray[np.float64]


def _mixture(noncentrality: float) -> tuple[Array, Array]:
    """Values j and chances of a Poisson number of mean ``noncentrality`` / 2."""
    mean = noncentrality / 2
    reach = _REACH * math.sqrt(mean) + 5 * _REACH
    j = np.arange(max(0.0, math.floor(mean - reach)), math.ceil(mean + reach) + 1)
    chances = np.exp(j * math.log(mean) - mean - gammaln(j + 1)) if mean > 0 else (j == 0).astype(np.float64)
    return j, chances / chances.sum()


def clip_slope(size: float, entries: int, deviation: float, clip: float) -> float:
    """E min(1, C / (s chi_n)), n = ``entries`` + 2: the a in E clip(g) = a w for g ~ N(w, s^2 I), |w| = ``size``."""
    j, chances = _mixture((size / deviation) ** 2)
    half, cut = entries / 2 + 1 + j, (clip / deviation) ** 2 / 2
    # E chi_n^-1 over chi_n > C / s: a gamma function with one degree of freedom less
    beyond = np.exp(gammaln(half - 0.5) - gammaln(half)) * gammaincc(half - 0.5, cut)
    return float(chances @ (gammainc(half, cut) + math.sqrt(cut) * beyond))


def clip_square(size: float, entries: int, deviation: float, clip: float) -> float:
    """E min(|g|, C)^2 for g ~ N(w, s^2 I), |w| = ``size``."""
    j, chances = _mixture((size / deviation) ** 2)
    half, cut = entries / 2 + j, (clip / deviation) ** 2 / 2
    inside = 2 * half * gammainc(half + 1, cut)
    return float(deviation**2 * (chances @ (inside + 2 * cut * gammaincc(half, cut))))


def isotropic_kappa(size: float, dim: int, keep: int, deviation: float, clip: float) -> float:
    """Descent of the masked, clipped gradient over that without a mask, entries of one size."""
    share = keep / dim
    masked = clip_slope(math.sqrt(share) * size, keep, deviation, clip)
    return share * masked / clip_slope(size, dim, deviation, clip)
