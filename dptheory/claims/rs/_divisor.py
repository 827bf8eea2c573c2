"""What division by the batch size tells, by brute force: quadrature, grids, fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import binom, chi2, norm


def _spread(size: int) -> float:
    return 1.0 / size


def kl_by_quadrature(size: int, other: int, kept: int) -> float:
    first, second = norm(0, _spread(size)), norm(0, _spread(other))
    value, _ = quad(
        lambda y: first.pdf(y) * (first.logpdf(y) - second.logpdf(y)), -12 / size, 12 / size, epsabs=0, epsrel=1e-11
    )
    return float(kept * value)


def renyi_by_quadrature(order: float, size: int, other: int, kept: int) -> float:
    curvature = order * size**2 - (order - 1) * other**2
    if curvature <= 0:
        return math.inf
    first, second = norm(0, _spread(size)), norm(0, _spread(other))
    reach = 12 / math.sqrt(curvature)
    moment, _ = quad(
        lambda y: math.exp(order * first.logpdf(y) - (order - 1) * second.logpdf(y)),
        -reach,
        reach,
        epsabs=0,
        epsrel=1e-11,
    )
    return float(kept * math.log(moment) / (order - 1))


def delta_by_grid(epsilon: float, size: int, other: int, kept: int) -> float:
    """Hockey-stick divergence of the laws of b^2 |o|^2 by the trapezoidal rule."""
    ratio = (other / size) ** 2
    x = np.linspace(0.0, (kept + 12 * math.sqrt(2 * kept) + 60) * max(1.0, 1 / ratio), 200_001)
    gap = chi2.pdf(x, kept) - math.exp(epsilon) * ratio * chi2.pdf(ratio * x, kept)
    return float(np.trapezoid(np.maximum(gap, 0.0), x))


def published_by_grid(epsilon: float, examples: int, rate: float, shift: float) -> float:
    """The same of batch size and noisy sum, by a sum over sizes and the trapezoidal rule."""
    y = np.linspace(-10.0, 10.0 + shift, 20_001)
    low, high = norm.pdf(y), norm.pdf(y - shift)
    both = [0.0, 0.0]
    middle, reach = examples * rate, 20 * math.sqrt(examples * rate * (1 - rate)) + 40  # beyond it there is nothing
    for b in range(max(0, int(middle - reach)), min(examples + 2, int(middle + reach))):
        without = binom.pmf(b, examples, rate) * low
        joined = (1 - rate) * without + rate * binom.pmf(b - 1, examples, rate) * high
        for i, (p, q) in enumerate(((joined, without), (without, joined))):
            both[i] += float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), y))
    return max(both)


def _binomial_law(count: int, rate: Fraction) -> list[Fraction]:
    return [math.comb(count, b) * rate**b * (1 - rate) ** (count - b) for b in range(count + 1)]


def sizes_apart(examples: int, rate: Fraction, growth: Fraction = Fraction(1)) -> Fraction:
    """delta at epsilon = log(growth) of the batch size alone, with and without the example, in fractions; worst direction."""
    joined, without = _binomial_law(examples + 1, rate), [*_binomial_law(examples, rate), Fraction(0)]
    both = (joined, without), (without, joined)
    return max(
        sum((max(p - growth * q, Fraction(0)) for p, q in zip(*laws, strict=True)), Fraction(0)) for laws in both
    )


def largest_move(size: int, clip: Fraction) -> Fraction:
    """How far an example moves the average, over all batches with gradients -C, 0, C."""
    values = (-clip, Fraction(0), clip)
    sums = [sum(batch, Fraction(0)) for batch in itertools.combinations_with_replacement(values, size)]
    return max(abs((total + g) / (size + 1) - total / size) for total in sums for g in values)


_GRID = np.linspace(-12.0, 12.0, 1201)


def two_examples_delta(epsilon: float, rate: float, sigma: float, gradients: tuple[float, float, float]) -> float:
    """delta of batch size and noisy sum for two common examples and a third, one entry, C = 1; worst direction."""
    laws: list[dict[int, NDArray[np.float64]]] = []
    for n in (3, 2):
        law = {b: np.zeros(_GRID.size) for b in range(4)}
        for drawn in itertools.product((0, 1), repeat=n):
            b = sum(drawn)
            total = sum(d * g for d, g in zip(drawn, gradients, strict=False))
            law[b] += rate**b * (1 - rate) ** (n - b) * np.exp(-((_GRID - total / sigma) ** 2) / 2)
        laws.append(law)
    weight = math.exp(epsilon)
    both = [
        sum(float(np.maximum(p[b] - weight * q[b], 0.0).sum()) for b in range(4)) for p, q in (laws, reversed(laws))
    ]
    return max(both) * float(_GRID[1] - _GRID[0]) / math.sqrt(2 * math.pi)
