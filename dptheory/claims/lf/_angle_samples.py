"""Distortion angles drawn from Gaussian vectors, and their density where it is elementary."""

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory._arrays import Array


def angles_drawn(rng: np.random.Generator, n: int, dim: int, snr: float) -> Array:
    """Angles between s and s + z, |s| = snr, z ~ N(0, I)."""
    noise = rng.standard_normal((n, dim))
    return np.asarray(np.arctan2(np.linalg.norm(noise[:, 1:], axis=1), snr + noise[:, 0]))


def angle_bins(rng: np.random.Generator, n: int, dim: int, snr: float, edges: tuple[float, ...]) -> NDArray[np.intp]:
    """In which bin the angle lies."""
    return np.searchsorted(edges, angles_drawn(rng, n, dim, snr))


def half_squares(rng: np.random.Generator, n: int, dim: int, snr: float) -> Array:
    """Half the squared difference of two independent angles: its mean is the variance."""
    return (angles_drawn(rng, n, dim, snr) - angles_drawn(rng, n, dim, snr)) ** 2 / 2


def squares(rng: np.random.Generator, n: int, dim: int, snr: float) -> Array:
    """Squared angles."""
    return angles_drawn(rng, n, dim, snr) ** 2


def opposed_half_squares(rng: np.random.Generator, n: int, dim: int, snr: float) -> Array:
    """Half squared differences where the clipped signal points along or against the true gradient, with equal chances."""

    def drawn() -> Array:
        angle = angles_drawn(rng, n, dim, snr)
        return np.where(rng.random(n) < 0.5, angle, math.pi - angle)

    return (drawn() - drawn()) ** 2 / 2


def private_cosines(rng: np.random.Generator, n: int, dim: int, snr: float, cos_bias: float) -> Array:
    """Cosines between a first axis and s + z, |s| = snr, where s has the given cosine with that axis."""
    private = rng.standard_normal((n, dim))
    private[:, 0] += snr * cos_bias
    private[:, 1] += snr * math.sqrt(1 - cos_bias**2)
    return np.asarray(private[:, 0] / np.linalg.norm(private, axis=1))


def density_in_two_or_three(dim: int, snr: float, angle: float) -> float:
    """Density of the angle in the plane and in space, with the normal distribution function."""
    c = snr * math.cos(angle)
    tail = math.sqrt(2 * math.pi) * math.exp(c**2 / 2) * float(scipy.special.ndtr(c))
    radial = 1 + c * tail if dim == 2 else c + (1 + c**2) * tail
    constant = 1 / math.pi if dim == 2 else math.sin(angle) / math.sqrt(2 * math.pi)
    return constant * math.exp(-(snr**2) / 2) * radial
