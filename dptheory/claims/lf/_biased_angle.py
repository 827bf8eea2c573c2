"""Mean and variance of the angle gamma between u and s + z, z ~ N(0, I), by densities and quadrature: the second methods.

snr = |s|; bias is the angle between u and s.
"""

import functools
import itertools
import math

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import chi2, ncx2

from dptheory.claims.lf._angle_samples import density_in_two_or_three


def _projected_normal(angle: float, snr: float) -> float:
    """Density of the angle between s and s + z in the plane."""
    c = snr * math.cos(angle)
    tail = float(ndtr(c)) * math.exp(0.5 * (c * c - snr * snr)) * math.sqrt(2 * math.pi)
    return (math.exp(-0.5 * snr * snr) + c * tail) / (2 * math.pi)


def _plane_mean(snr: float, bias: float) -> float:
    """E gamma in the plane, by its density."""

    def part(angle: float) -> float:
        turned = abs(bias + angle)
        return min(turned, 2 * math.pi - turned) * _projected_normal(angle, snr)

    breaks = sorted({-math.pi, -bias, math.pi - bias, math.pi, -0.1, 0.0, 0.1})
    return float(sum(quad(part, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in itertools.pairwise(breaks)))


def _space_mean(snr: float, bias: float) -> float:
    """E gamma in three dimensions for a signal along or against u: P(cos < x) from the noise along u and its plane."""
    sign = 1.0 if bias == 0.0 else -1.0

    def tail(angle: float) -> float:
        """P(gamma > angle) = P(k + z < |rest| cot angle), |rest| of density r exp(-r^2/2)."""
        cot = 1 / math.tan(angle)
        return float(quad(lambda r: r * math.exp(-r * r / 2) * ndtr(r * cot - sign * snr), 0, 12, epsabs=1e-12)[0])

    return float(quad(tail, 1e-12, math.pi - 1e-12, epsabs=1e-10)[0])


def mean_by_density(dim: int, snr: float, bias: float) -> float:
    """E gamma up to three dimensions; in one and three the signal points along u or against it."""
    if dim == 1:
        return math.pi * float(ndtr(-snr if bias == 0.0 else snr))
    return _plane_mean(snr, bias) if dim == 2 else _space_mean(snr, bias)


def _plane_variance(snr: float, bias: float) -> float:
    """Var gamma in the plane, by its density."""
    mean = _plane_mean(snr, bias)

    def part(angle: float) -> float:
        turned = abs(bias + angle)
        return (min(turned, 2 * math.pi - turned) - mean) ** 2 * _projected_normal(angle, snr)

    breaks = sorted({-math.pi, -bias, math.pi - bias, math.pi, -0.1, 0.0, 0.1})
    return float(sum(quad(part, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in itertools.pairwise(breaks)))


_gauss_rule = functools.cache(np.polynomial.legendre.leggauss)
"""Nodes and weights, which cost more than the sums that take them."""


def _variance_by_tails(dim: int, snr: float, bias: float) -> float:
    """Var gamma from P(gamma <= x) = E Phi(k cos bias - R cot x), R noncentral chi of dim - 1 and k sin bias."""
    freedom, centre = dim - 1, (snr * math.sin(bias)) ** 2
    nodes, weights = _gauss_rule(200)
    top = math.sqrt(freedom + centre) + 12
    radius = 0.5 * top * (nodes + 1)
    law = (ncx2.pdf(radius**2, freedom, centre) if centre else chi2.pdf(radius**2, freedom)) * 2 * radius
    chances = 0.5 * top * weights * law
    at = 0.5 * math.pi * (nodes + 1)
    above = np.array([chances @ ndtr(radius / math.tan(x) - snr * math.cos(bias)) for x in at])
    mean, square = (float(0.5 * math.pi * weights @ (factor * above)) for factor in (1.0, 2 * at))
    return square - mean**2


def variance_by_density(dim: int, snr: float, bias: float) -> float:
    """Var gamma by the density in the plane, by tail probabilities beyond it."""
    return _plane_variance(snr, bias) if dim == 2 else _variance_by_tails(dim, snr, bias)


def mean_over_noise(dim: int, snr: float, bias: float, cosine: bool = False) -> float:
    """E gamma, or E cos gamma, over the noise along the signal's plane and the length of the rest, chi of dim - 2 >= 3.

    The angle of (snr cos(bias) + y, snr sin(bias) + z, rest) with the first axis, by products of Gauss rules.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    freedom = dim - 2
    middle = math.sqrt(freedom)
    low, high = max(0.0, middle - 9), middle + 9
    points, widths = _gauss_rule(120)
    rest = low + (high - low) / 2 * (points + 1)
    log_density = (freedom - 1) * np.log(rest / middle) - (rest**2 - middle**2) / 2
    chances = widths * np.exp(log_density)
    chances /= chances.sum()
    along = snr * math.cos(bias) + nodes[:, None, None]
    across = np.hypot(snr * math.sin(bias) + nodes[:, None], rest)
    gamma = np.arctan2(across, along)
    return float(weights @ ((np.cos(gamma) if cosine else gamma) @ chances) @ weights)


def mean_in_space(dim: int, snr: float, bias: float, cosine: bool) -> float:
    """E gamma, or E cos gamma, without bias in three dimensions, by the density that is elementary there."""

    def part(angle: float) -> float:
        return (math.cos(angle) if cosine else angle) * density_in_two_or_three(dim, snr, angle)

    return float(quad(part, 0, math.pi, epsabs=0, epsrel=1e-12, limit=200)[0])
