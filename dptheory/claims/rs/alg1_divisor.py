"""rs.alg1.divisor: division by the drawn batch size."""

import math
from fractions import Fraction

from scipy.stats import norm

from dptheory import privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _divisor


def printed_delta(epsilon: float, sampling_rate: float, noise_multiplier: float) -> float:
    """delta by which the algorithm is accounted: that of the Poisson-sampled noisy sum alone, worst direction."""
    q, mu = sampling_rate, 1.0 / noise_multiplier
    if mu == 0.0 or q == 0.0:
        return 0.0
    inner = math.log1p(math.expm1(epsilon) / q)  # 1 - q + q L > e^eps
    above = q * (norm.cdf(mu / 2 - inner / mu) - math.exp(inner) * norm.cdf(-mu / 2 - inner / mu))
    if math.expm1(-epsilon) + q <= 0:
        return float(above)
    level = math.log((math.expm1(-epsilon) + q) / q)  # L below this has 1 - q + q L < e^-eps
    below = math.exp(level) * norm.cdf(level / mu + mu / 2) - norm.cdf(level / mu - mu / 2)
    return float(max(above, q * below * math.exp(epsilon)))


row = new_row(
    id="rs.alg1.divisor",
    source=Source("rs", "Algorithm 1, lines 3 to 6"),
    verdict=Verdict.FALSE,
    kernel="rs/alg1_divisor.v",
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_delta,
    calculators=(
        privacy.average_sensitivity,
        privacy.divisor_kl,
        privacy.divisor_renyi,
        privacy.divisor_delta,
        privacy.published_size_delta,
    ),
    proved=True,
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
        lambda: _divisor.largest_move(size, clip),
        clip / (size + 1),
    )


_SIZES = ((4, 5, 50), (5, 4, 50), (1, 2, 3), (10, 11, 300), (64, 65, 3000), (65, 64, 3000))


@row.equal(lambda: _SIZES, tolerance=1e-8)
def _(b: int, other: int, k: int) -> Sides:
    """KL divergence of the noise, by quadrature"""
    return (
        privacy.divisor_kl(batch_size=b, other_batch_size=other, keep=k),
        lambda: _divisor.kl_by_quadrature(b, other, k),
        0.0,
    )


@row.equal(lambda: [(a, *sizes) for a in (1.5, 2.0, 4.0, 60.0) for sizes in _SIZES], tolerance=1e-8)
def _(a: float, b: int, other: int, k: int) -> Sides:
    """Renyi divergence of the noise, by quadrature"""
    return (
        privacy.divisor_renyi(order=a, batch_size=b, other_batch_size=other, keep=k),
        lambda: _divisor.renyi_by_quadrature(a, b, other, k),
        0.0,
    )


@row.equal(lambda: [(eps, *sizes) for eps in (0.0, 0.5, 2.0) for sizes in _SIZES], tolerance=1e-6)
def _(eps: float, b: int, other: int, k: int) -> Sides:
    """delta of the noise, by the law of its square"""
    return (
        privacy.divisor_delta(epsilon=eps, batch_size=b, other_batch_size=other, keep=k),
        lambda: _divisor.delta_by_grid(eps, b, other, k),
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
        lambda: _divisor.published_by_grid(eps, n, q, shift),
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
        lambda: _divisor.sizes_apart(examples, rate),
        printed_delta(0.0, float(rate), math.inf),
    )


@row.equal(
    lambda: [
        (n, q, growth)
        for n in (0, 1, 2, 10, 30)
        for q in (Fraction(1, 2), Fraction(1, 10), Fraction(9, 10))
        for growth in (Fraction(11, 10), Fraction(3, 2), Fraction(3), Fraction(9))
    ],
    tolerance=1e-9,
)
def _(n: int, q: Fraction, growth: Fraction) -> Sides:
    """the batch size alone at epsilon > 0, in fractions"""
    return (
        privacy.published_size_delta(epsilon=math.log(growth), train_size=n, sampling_rate=float(q), shift=0.0),
        lambda: _divisor.sizes_apart(n, q, growth),
        lambda: privacy.published_size_delta(
            epsilon=math.log(growth), train_size=n + 1, sampling_rate=float(q), shift=0.0
        ),
    )


def _covered(factor: float, epsilon: float, rate: float, sigma: float, gradients: tuple[float, float, float]) -> float:
    allowed = privacy.published_size_delta(epsilon=epsilon, train_size=2, sampling_rate=rate, shift=factor / sigma)
    return allowed - _divisor.two_examples_delta(epsilon, rate, sigma, gradients)


def _single_slack(epsilon: float, rate: float, sigma: float, first: float, second: float, third: float) -> float:
    """Wrong statement: by the shift 1 / sigma of the sum."""
    return _covered(1.0, epsilon, rate, sigma, (first, second, third))


@row.inequality(
    {
        "epsilon": Range(0.0, 1.0),
        "rate": Range(0.05, 0.9),
        "sigma": Range(0.5, 10.0, log=True),
        **{name: Range(-1.0, 1.0) for name in ("first", "second", "third")},
    },
    wrong=_single_slack,
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
        lambda: _divisor.published_by_grid(eps, n, q, shift),
        printed_delta(eps, q, 1 / shift),
    )
