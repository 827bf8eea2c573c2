import math
from fractions import Fraction

import scipy

from dptheory.claims._row import Sides, Source, Verdict, new_row

row = new_row(
    id="gep.private_pca",
    source=Source("gep", "section 3.1, implementation, on private gradients"),
    verdict=Verdict.HOLDS,
)

NEIGHBOURS = (5, 50)
"""Numbers of gradients along either axis."""


def _second_moments(along_first: int, along_second: int) -> tuple[Fraction, Fraction]:
    """Of gradients (1, 0), and of (0, a) with a^2 = 1 + 1 / (2n), n of the second: sums of outer products, which are diagonal."""
    return Fraction(along_first), along_second * (1 + Fraction(1, 2 * along_second))


@row.equal(*((n, more) for n in NEIGHBOURS for more in (0, 1)))
def _(n: int, more: int) -> Sides:
    """first principal axis of n and n gradients, and with one more along the first"""

    def found() -> int:
        first, second = _second_moments(n + more, n)
        return 1 if first > second else 2

    return 2 - more, found, 1 + more


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


@row.equal((2.0,), (26.0,), tolerance=1e-9)
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


@row.equal((26.0, 1e-5, 5.0), (26.0, 1e-5, 4.0), (2.0, 1e-5, 3.0), tolerance=1e-9)
def _(ratio: float, delta: float, threshold: float) -> Sides:
    """epsilon that one step needs, whatever the noise: by two tails"""
    return (
        _least_epsilon(ratio, delta, threshold),
        lambda: math.log((_tail(ratio, threshold) - delta) / _tail(1.0, threshold)),
        _kl(ratio),
    )


@row.equal((0.5,), (2.0,), (20.0,))
def _(noise: float) -> Sides:
    """that event, at several sizes of the noise: does the mean, one record apart, make it less likely?"""
    spread, threshold = noise * math.sqrt(104.0), 10 * noise
    moved = scipy.special.ndtr((-threshold - 1) / spread) + scipy.special.ndtr((-threshold + 1) / spread)
    return False, lambda: bool(moved < 2 * scipy.special.ndtr(-threshold / spread)), True
