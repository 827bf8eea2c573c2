"""Draws under Assumption 1, and integrals over their law."""

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import betainc, erfc
from scipy.stats import norm

from dptheory import mallows, pruning


def gaussian_energy(rng: np.random.Generator, n: int, dim: int) -> NDArray[np.float64]:
    """|g|^2 for Gaussian g."""
    return np.asarray(np.square(rng.standard_normal((n, dim))).sum(axis=1))


def pruned_gaussian(rng: np.random.Generator, n: int, dim: int, keep: int, theta: float) -> NDArray[np.float64]:
    """|g - g*I|^2 for Gaussian g and the perturbed top-k set; theta = 0 is random-k, inf is top-k."""
    gradient = rng.standard_normal((n, dim))
    kept = mallows.SubsetMallows(dim, keep, theta).sample(pruning.top_k_mask(gradient, keep), rng)
    return np.asarray(np.square(gradient * ~kept).sum(axis=1))


def zeta(keep_ratio: float) -> float:
    """The paper's zeta = k + 2 a phi(a), a = Phi^-1(1 - k/2)."""
    a = float(norm.isf(keep_ratio / 2))
    return keep_ratio + 2 * a * float(norm.pdf(a))


def ranked_loss(dim: int, keep: int) -> float:
    """d E[x^2; at least keep of the other d - 1 entries are larger]: a second method for the top-k MSE."""

    def integrand(x: float) -> float:
        return 2 * x * x * float(norm.pdf(x) * betainc(keep, dim - keep, erfc(x / math.sqrt(2))))

    middle = float(norm.isf(keep / dim / 2))
    parts = (0.0, 0.5 * middle, middle, 1.5 * middle, 2 * middle + 2, 12.0)
    pieces = (quad(integrand, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(parts))
    return float(dim * sum(pieces))
