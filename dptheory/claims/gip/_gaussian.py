"""Draws under Assumption 1, and integrals over their law."""

import itertools
import math
from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory._arrays import Array


def gaussian_energy(rng: np.random.Generator, n: int, dim: int) -> Array:
    """|g|^2 for Gaussian g."""
    return np.asarray(np.square(rng.standard_normal((n, dim))).sum(axis=1))


def swap_weights(dim: int, keep: int, theta: float) -> Array:
    """C(K, i) C(d - K, i) index sets lie i swaps away, each of weight e^(-2 theta i): relative to the largest, finite theta."""
    i = np.arange(min(keep, dim - keep) + 1.0)
    logs = -2.0 * theta * i
    for size in (keep, dim - keep):
        logs -= scipy.special.gammaln(i + 1) + scipy.special.gammaln(size - i + 1)
    return np.asarray(np.exp(logs - logs.max()))


def kept_entries(rng: np.random.Generator, gradient: Array, keep: int, theta: float) -> NDArray[np.bool_]:
    """The perturbed top-k sets of the last axis: as many pairs as are drawn, each a random member for a random other entry."""
    dim = gradient.shape[-1]
    kept = np.zeros(gradient.shape, dtype=np.bool_)
    np.put_along_axis(kept, np.argpartition(np.abs(gradient), dim - keep, axis=-1)[..., dim - keep :], True, axis=-1)
    if math.isinf(theta):
        return kept
    weights = swap_weights(dim, keep, theta)
    swaps = rng.choice(weights.size, size=(*gradient.shape[:-1], 1), p=weights / weights.sum())
    order = rng.random(gradient.shape)
    for side in (kept.copy(), ~kept):
        place = np.where(side, order, np.inf).argsort(axis=-1).argsort(axis=-1)
        kept ^= side & (place < swaps)
    return kept


def pruned_gaussian(rng: np.random.Generator, n: int, dim: int, keep: int, theta: float) -> Array:
    """|g - g*I|^2 for Gaussian g and the perturbed top-k set; theta = 0 is random-k, inf is top-k."""
    gradient = rng.standard_normal((n, dim))
    return np.asarray(np.square(gradient * ~kept_entries(rng, gradient, keep, theta)).sum(axis=1))


def zeta(keep_share: float) -> float:
    """The paper's zeta = k + 2 a phi(a), a = Phi^-1(1 - k/2)."""
    a = float(scipy.stats.norm.isf(keep_share / 2))
    return keep_share + 2 * a * float(scipy.stats.norm.pdf(a))


def ranked_loss(dim: int, keep: int, member: float = 0.0, other: float = 1.0) -> float:
    """d E[x^2; not kept]: a second method for the MSE, entry by entry.

    An entry of size x is not among the largest if at least keep of the other d - 1 are larger. ``member`` and ``other`` are the
    chances to be left out of one that is among them and of one that is not.
    """

    def integrand(x: float) -> float:
        behind = float(scipy.special.betainc(keep, dim - keep, scipy.special.erfc(x / math.sqrt(2))))
        return 2 * x * x * float(scipy.stats.norm.pdf(x)) * (other * behind + member * (1 - behind))

    middle = float(scipy.stats.norm.isf(keep / dim / 2))
    parts = (0.0, 0.5 * middle, middle, 1.5 * middle, 2 * middle + 2, 12.0)
    pieces = (
        scipy.integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-11, limit=200)[0]
        for a, b in itertools.pairwise(parts)
    )
    return float(dim * sum(pieces))


def energy_by_quadrature(dim: int, k: float, kept: bool) -> float:
    """d E[x^2; |x| above (or below) the threshold that a share k exceeds]."""
    low, high = (float(scipy.stats.norm.isf(k / 2)), 40.0) if kept else (0.0, float(scipy.stats.norm.isf(k / 2)))
    return (
        2
        * dim
        * float(
            scipy.integrate.quad(
                lambda x: x * x * scipy.stats.norm.pdf(x), low, high, epsabs=0, epsrel=1e-12, limit=200
            )[0]
        )
    )


# Randomised response on every bit of an index vector, by enumeration.


CHANCES = (Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(3, 5), Fraction(9, 10))
"""Probabilities to keep a bit."""


def response(reference: tuple[bool, ...], chance: Fraction) -> dict[tuple[bool, ...], Fraction]:
    """The law of the output."""
    outputs = itertools.product((False, True), repeat=len(reference))
    return {
        out: math.prod(
            (chance if a == b else 1 - chance for a, b in zip(out, reference, strict=True)), start=Fraction(1)
        )
        for out in outputs
    }
