import itertools
import math
from fractions import Fraction

import numpy as np
import scipy

from dptheory import privacy
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row

# What division by the batch size tells, by brute force: quadrature, grids, fractions.


def _spread(size: int) -> float:
    return 1.0 / size


def kl_by_quadrature(size: int, other: int, kept: int) -> float:
    first, second = scipy.stats.norm(0, _spread(size)), scipy.stats.norm(0, _spread(other))
    value, _ = scipy.integrate.quad(
        lambda y: first.pdf(y) * (first.logpdf(y) - second.logpdf(y)), -12 / size, 12 / size, epsabs=0, epsrel=1e-11
    )
    return float(kept * value)


def renyi_by_quadrature(order: float, size: int, other: int, kept: int) -> float:
    curvature = order * size**2 - (order - 1) * other**2
    if curvature <= 0:
        return math.inf
    first, second = scipy.stats.norm(0, _spread(size)), scipy.stats.norm(0, _spread(other))
    reach = 12 / math.sqrt(curvature)
    moment, _ = scipy.integrate.quad(
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
    gap = scipy.stats.chi2.pdf(x, kept) - math.exp(epsilon) * ratio * scipy.stats.chi2.pdf(ratio * x, kept)
    return float(np.trapezoid(np.maximum(gap, 0.0), x))


def published_by_grid(epsilon: float, examples: int, rate: float, shift: float) -> float:
    """The same of batch size and noisy sum, by a sum over sizes and the trapezoidal rule."""
    y = np.linspace(-10.0, 10.0 + shift, 20_001)
    low, high = scipy.stats.norm.pdf(y), scipy.stats.norm.pdf(y - shift)
    both = [0.0, 0.0]
    middle, reach = examples * rate, 20 * math.sqrt(examples * rate * (1 - rate)) + 40  # beyond it there is nothing
    for b in range(max(0, int(middle - reach)), min(examples + 2, int(middle + reach))):
        without = scipy.stats.binom.pmf(b, examples, rate) * low
        joined = (1 - rate) * without + rate * scipy.stats.binom.pmf(b - 1, examples, rate) * high
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
    laws: list[dict[int, Array]] = []
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


def printed_delta(epsilon: float, sampling_rate: float, noise_multiplier: float) -> float:
    """delta by which the algorithm is accounted: that of the Poisson-sampled noisy sum alone, worst direction."""
    q, mu = sampling_rate, 1.0 / noise_multiplier
    if mu == 0.0 or q == 0.0:
        return 0.0
    inner = math.log1p(math.expm1(epsilon) / q)  # 1 - q + q L > e^eps
    above = q * (
        scipy.stats.norm.cdf(mu / 2 - inner / mu) - math.exp(inner) * scipy.stats.norm.cdf(-mu / 2 - inner / mu)
    )
    if math.expm1(-epsilon) + q <= 0:
        return float(above)
    level = math.log((math.expm1(-epsilon) + q) / q)  # L below this has 1 - q + q L < e^-eps
    below = math.exp(level) * scipy.stats.norm.cdf(level / mu + mu / 2) - scipy.stats.norm.cdf(level / mu - mu / 2)
    return float(max(above, q * below * math.exp(epsilon)))


row = new_row(
    id="rs.alg1.divisor",
    source=Source("rs", "Algorithm 1, lines 3 to 6"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_delta,
    calculators=(
        privacy.average_sensitivity,
        privacy.divisor_kl,
        privacy.divisor_renyi,
        privacy.divisor_delta,
        privacy.published_size_delta,
    ),
)


@row.equal(
    lambda: [(b, c) for b in (1, 2, 5, 9) for c in (Fraction(1), Fraction(3, 4))],
    tolerance=1e-15,
    kind=Kind.COUNTEREXAMPLE,
)
def _(size: int, clip: Fraction) -> Sides:
    """how far an example moves the average, in fractions"""
    return (
        privacy.average_sensitivity(batch_size=size, clip_norm=float(clip)),
        lambda: largest_move(size, clip),
        clip / (size + 1),
    )


_SIZES = ((4, 5, 50), (5, 4, 50), (1, 2, 3), (10, 11, 300), (64, 65, 3000), (65, 64, 3000))


@row.equal(lambda: _SIZES, tolerance=1e-8)
def _(b: int, other: int, k: int) -> Sides:
    """KL divergence of the noise, by quadrature"""
    return (
        privacy.divisor_kl(batch_size=b, other_batch_size=other, keep=k),
        lambda: kl_by_quadrature(b, other, k),
        0.0,
    )


@row.equal(lambda: [(a, *sizes) for a in (1.5, 2.0, 4.0, 60.0) for sizes in _SIZES], tolerance=1e-8)
def _(a: float, b: int, other: int, k: int) -> Sides:
    """Renyi divergence of the noise, by quadrature"""
    return (
        privacy.divisor_renyi(order=a, batch_size=b, other_batch_size=other, keep=k),
        lambda: renyi_by_quadrature(a, b, other, k),
        0.0,
    )


@row.equal(lambda: [(eps, *sizes) for eps in (0.0, 0.5, 2.0) for sizes in _SIZES], tolerance=1e-6)
def _(eps: float, b: int, other: int, k: int) -> Sides:
    """delta of the noise, by the law of its square"""
    return (
        privacy.divisor_delta(epsilon=eps, batch_size=b, other_batch_size=other, keep=k),
        lambda: delta_by_grid(eps, b, other, k),
        0.0,
    )


@row.equal(
    (0.0, 5, 0.3, 1.0),
    (0.3, 5, 0.3, 1.0),
    (0.02, 5, 0.3, 0.25),
    (1.0, 20, 0.1, 1.5),
    (0.05, 3, 0.9, 0.5),
    (0.1, 40, 0.02, 0.2),
    (0.2, 0, 0.5, 1.0),
    tolerance=1e-6,
)
def _(eps: float, n: int, q: float, shift: float) -> Sides:
    """delta of sum and batch size, by summation"""
    return (
        privacy.published_size_delta(epsilon=eps, train_size=n, sampling_rate=q, shift=shift),
        lambda: published_by_grid(eps, n, q, shift),
        printed_delta(eps, q, 1 / shift),
    )


@row.equal(
    lambda: [(n, q) for n in (0, 1, 2, 7, 30) for q in (Fraction(1, 2), Fraction(1, 10), Fraction(9, 10))],
    tolerance=1e-12,
    kind=Kind.COUNTEREXAMPLE,
)
def _(examples: int, rate: Fraction) -> Sides:
    """no noise multiplier hides the batch size, in fractions"""
    return (
        privacy.published_size_delta(epsilon=0.0, train_size=examples, sampling_rate=float(rate), shift=0.0),
        lambda: sizes_apart(examples, rate),
        printed_delta(0.0, float(rate), math.inf),
    )


@row.equal(
    lambda: itertools.product(
        (0, 1, 2, 10, 30),
        (Fraction(1, 2), Fraction(1, 10), Fraction(9, 10)),
        (Fraction(11, 10), Fraction(3, 2), Fraction(3), Fraction(9)),
    ),
    tolerance=1e-9,
)
def _(n: int, q: Fraction, growth: Fraction) -> Sides:
    """the batch size alone at epsilon > 0, in fractions"""
    return (
        privacy.published_size_delta(epsilon=math.log(growth), train_size=n, sampling_rate=float(q), shift=0.0),
        lambda: sizes_apart(n, q, growth),
        lambda: privacy.published_size_delta(
            epsilon=math.log(growth), train_size=n + 1, sampling_rate=float(q), shift=0.0
        ),
    )


def _covered(factor: float, epsilon: float, rate: float, sigma: float, gradients: tuple[float, float, float]) -> float:
    allowed = privacy.published_size_delta(epsilon=epsilon, train_size=2, sampling_rate=rate, shift=factor / sigma)
    return allowed - two_examples_delta(epsilon, rate, sigma, gradients)


@row.inequality(
    {
        "epsilon": Range(0.0, 1.0),
        "rate": Range(0.05, 0.9),
        "sigma": Range(0.5, 10.0, log=True),
        **{name: Range(-1.0, 1.0) for name in ("first", "second", "third")},
    },
    # wrong: by the shift 1 / sigma of the sum
    wrong=lambda epsilon, rate, sigma, first, second, third: _covered(
        1.0, epsilon, rate, sigma, (first, second, third)
    ),
    tolerance=1e-5,
)
def _published_slack(epsilon: float, rate: float, sigma: float, first: float, second: float, third: float) -> float:
    """sum and batch size are covered by twice the shift

    Batch size and sum are covered by the shift 2 / sigma.
    """
    # of the sum over the grid
    return _covered(2.0, epsilon, rate, sigma, (first, second, third))


@row.equal((0.05, 20_000, 0.01, 0.5), (0.0, 50_000, 0.001, 0.2), tolerance=1e-5)
def _(eps: float, n: int, q: float, shift: float) -> Sides:
    """delta of sum and batch size, users' data sets"""
    return (
        privacy.published_size_delta(epsilon=eps, train_size=n, sampling_rate=q, shift=shift),
        lambda: published_by_grid(eps, n, q, shift),
        printed_delta(eps, q, 1 / shift),
    )
