import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeVar

import numpy as np
import scipy

from dptheory import convergence, privacy, sparsification
from dptheory._arrays import Array
from dptheory.claims._draws import size_law
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.rs._runs import spelled

# What division by the batch size tells, by brute force: quadrature, grids, fractions.


_Told = tuple[int, float]


def kl_by_quadrature(size: int, other: int, kept: int) -> float:
    first, second = scipy.stats.norm(0, 1 / size), scipy.stats.norm(0, 1 / other)
    value, _ = scipy.integrate.quad(
        lambda y: first.pdf(y) * (first.logpdf(y) - second.logpdf(y)), -12 / size, 12 / size, epsabs=0, epsrel=1e-11
    )
    return float(kept * value)


def renyi_by_quadrature(order: float, size: int, other: int, kept: int) -> float:
    curvature = order * size**2 - (order - 1) * other**2
    if curvature <= 0:
        return math.inf
    first, second = scipy.stats.norm(0, 1 / size), scipy.stats.norm(0, 1 / other)
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


def sizes_apart(examples: int, rate: Fraction, growth: Fraction = Fraction(1)) -> Fraction:
    """delta at epsilon = log(growth) of the batch size alone, with and without the example, in fractions; worst direction."""
    laws = [[chance for _, chance in size_law(count, rate)] for count in (examples + 1, examples)]
    pairs = list(zip(laws[0], [*laws[1], Fraction(0)], strict=True))
    joined = sum((max(p - growth * q, Fraction(0)) for p, q in pairs), Fraction(0))
    return max(joined, sum((max(q - growth * p, Fraction(0)) for p, q in pairs), Fraction(0)))


def largest_move(size: int, clip: Fraction) -> Fraction:
    """How far an example moves the average, over all batches with gradients -C, 0, C."""
    values = (-clip, Fraction(0), clip)
    sums = [sum(batch, Fraction(0)) for batch in itertools.combinations_with_replacement(values, size)]
    return max(abs((total + g) / (size + 1) - total / size) for total in sums for g in values)


_GRID = np.linspace(-14.0, 14.0, 1401)
_Drawn = TypeVar("_Drawn")


def sampled_delta(
    epsilon: float, rate: float, sigma: float, records: Sequence[_Drawn], released: Callable[[Sequence[_Drawn]], _Told]
) -> float:
    """delta of a Poisson-sampled step with and without the last record, one entry, C = 1; worst direction.

    ``released`` gives what is told of the records drawn without noise, and their sum, which is told with noise.
    """
    laws = []
    for some in (records, records[:-1]):
        law: defaultdict[int, Array] = defaultdict(lambda: np.zeros(_GRID.size))
        for drawn in itertools.product((False, True), repeat=len(some)):
            chosen = list(itertools.compress(some, drawn))
            chance = rate ** len(chosen) * (1 - rate) ** (len(some) - len(chosen))
            told, total = released(chosen)
            law[told] += chance * np.exp(-((_GRID - total / sigma) ** 2) / 2)
        laws.append(law)
    both = [
        sum(float(np.maximum(p[told] - math.exp(epsilon) * q[told], 0.0).sum()) for told in list(p))
        for p, q in (laws, laws[::-1])
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


alg1_divisor = new_row(
    id="rs.alg1.divisor",
    source=Source("rs", "Algorithm 1, lines 3 to 6"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_delta,
    calculators=(
        sparsification.average_sensitivity,
        sparsification.divisor_kl,
        sparsification.divisor_renyi,
        sparsification.divisor_delta,
        sparsification.published_size_delta,
    ),
)


@alg1_divisor.equal(
    lambda: [(b, c) for b in (1, 2, 5, 9) for c in (Fraction(1), Fraction(3, 4))],
    tolerance=1e-15,
    kind=Kind.COUNTEREXAMPLE,
)
def _(size: int, clip: Fraction) -> Sides:
    """how far an example moves the average, in fractions"""
    return (
        sparsification.average_sensitivity(batch_size=size, clip_norm=float(clip)),
        lambda: largest_move(size, clip),
        clip / (size + 1),
    )


_SIZES = ((4, 5, 50), (5, 4, 50), (1, 2, 3), (10, 11, 300), (64, 65, 3000), (65, 64, 3000))


@alg1_divisor.equal(lambda: _SIZES, tolerance=1e-8)
def _(b: int, other: int, k: int) -> Sides:
    """KL divergence of the noise, by quadrature"""
    stated = sparsification.divisor_kl(batch_size=b, other_batch_size=other, keep=k)
    return stated, lambda: kl_by_quadrature(b, other, k), 0.0


@alg1_divisor.equal(lambda: [(a, *sizes) for a in (1.5, 2.0, 4.0, 60.0) for sizes in _SIZES], tolerance=1e-8)
def _(a: float, b: int, other: int, k: int) -> Sides:
    """Renyi divergence of the noise, by quadrature"""
    stated = sparsification.divisor_renyi(order=a, batch_size=b, other_batch_size=other, keep=k)
    return stated, lambda: renyi_by_quadrature(a, b, other, k), 0.0


@alg1_divisor.equal(lambda: [(eps, *sizes) for eps in (0.0, 0.5, 2.0) for sizes in _SIZES], tolerance=1e-6)
def _(eps: float, b: int, other: int, k: int) -> Sides:
    """delta of the noise, by the law of its square"""
    stated = sparsification.divisor_delta(epsilon=eps, batch_size=b, other_batch_size=other, keep=k)
    return stated, lambda: delta_by_grid(eps, b, other, k), 0.0


@alg1_divisor.equal(
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
        sparsification.published_size_delta(epsilon=eps, train_size=n, sampling_rate=q, shift=shift),
        lambda: published_by_grid(eps, n, q, shift),
        printed_delta(eps, q, 1 / shift),
    )


@alg1_divisor.equal(
    lambda: [(n, q) for n in (0, 1, 2, 7, 30) for q in (Fraction(1, 2), Fraction(1, 10), Fraction(9, 10))],
    tolerance=1e-12,
    kind=Kind.COUNTEREXAMPLE,
)
def _(examples: int, rate: Fraction) -> Sides:
    """no noise multiplier hides the batch size, in fractions"""
    return (
        sparsification.published_size_delta(epsilon=0.0, train_size=examples, sampling_rate=float(rate), shift=0.0),
        lambda: sizes_apart(examples, rate),
        printed_delta(0.0, float(rate), math.inf),
    )


@alg1_divisor.equal(
    lambda: itertools.product(
        (0, 1, 2, 10, 30),
        (Fraction(1, 2), Fraction(1, 10), Fraction(9, 10)),
        (Fraction(11, 10), Fraction(3, 2), Fraction(3), Fraction(9)),
    ),
    tolerance=1e-9,
)
def _(n: int, q: Fraction, growth: Fraction) -> Sides:
    """the batch size alone at epsilon > 0, in fractions"""
    stated = partial(sparsification.published_size_delta, epsilon=math.log(growth), sampling_rate=float(q), shift=0.0)
    return stated(train_size=n), lambda: sizes_apart(n, q, growth), lambda: stated(train_size=n + 1)


def _covered(factor: float, epsilon: float, rate: float, sigma: float, gradients: tuple[float, float, float]) -> float:
    allowed = sparsification.published_size_delta(
        epsilon=epsilon, train_size=2, sampling_rate=rate, shift=factor / sigma
    )
    return allowed - sampled_delta(epsilon, rate, sigma, gradients, lambda drawn: (len(drawn), sum(drawn)))


@alg1_divisor.inequality(
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
    """sum and batch size are covered by twice the shift"""
    # of the sum over the grid
    return _covered(2.0, epsilon, rate, sigma, (first, second, third))


@alg1_divisor.equal((0.05, 20_000, 0.01, 0.5), (0.0, 50_000, 0.001, 0.2), tolerance=1e-5)
def _(eps: float, n: int, q: float, shift: float) -> Sides:
    """delta of sum and batch size, users' data sets"""
    return (
        sparsification.published_size_delta(epsilon=eps, train_size=n, sampling_rate=q, shift=shift),
        lambda: published_by_grid(eps, n, q, shift),
        printed_delta(eps, q, 1 / shift),
    )


# Clipped sums of losses that are weighted means over the batch, from the loss on: by enumeration, in fractions, on a grid.


Record = tuple[Fraction, Fraction]
"""Weight, and gradient of the record's own loss, in one dimension."""


def clipped_sum(batch: Sequence[Record], clip: Fraction, factor: int | None = None) -> Fraction:
    """Sum of clip(n w_i g_i / sum w), what the engine releases before noise; or with a constant in place of n."""
    share = Fraction(factor or len(batch)) / sum((weight for weight, _ in batch), Fraction(0))
    return sum((max(-clip, min(clip, share * w * g)) for w, g in batch), Fraction(0))


def own_sum(batch: Sequence[Record], clip: Fraction) -> Fraction:
    """Sum of clip(w_i g_i): weights by hand, divided by a constant."""
    return sum((max(-clip, min(clip, w * g)) for w, g in batch), Fraction(0))


def move_of_losses(
    size: int, ratio: Fraction, clip: Fraction, adjacency: str, summed: Callable[..., Fraction] = clipped_sum
) -> Fraction:
    """How far one record moves the sum, over all batches of a grid: weights 1, R and between, gradients up to 2 C."""
    weights = dict.fromkeys((Fraction(1), (1 + ratio) / 2, ratio))
    gradients = [clip * share for share in (Fraction(-1), Fraction(-1, 2), Fraction(0), Fraction(1, 2), Fraction(1), 2)]
    records = list(itertools.product(weights, gradients))
    largest = Fraction(0)
    for others in itertools.combinations_with_replacement(records, size - 1):
        sums = [summed((*others, record), clip) for record in records]
        without = summed(others, clip) if others else Fraction(0)
        found = max(sums) - min(sums) if adjacency == "replace-one" else max(abs(one - without) for one in sums)
        largest = max(largest, found)
    return largest


def worst_sums(size: int, ratio: Fraction, clip: Fraction, adjacency: str) -> tuple[Fraction, Fraction]:
    """Clipped sums of two batches: m - 1 records of weight 1 at the clip; one of weight R that points the other way joins, or
    takes the place of one like them. Alike records are counted."""
    total = size - 1 + ratio
    after = (size - 1) * min(clip, size * clip / total) - min(clip, size * ratio * clip / total)
    return (size if adjacency == "replace-one" else size - 1) * clip, after


def gaussian_step_delta(first: float, second: float, std: float, epsilon: float) -> float:
    """delta of a step on the whole data: both densities on a grid, by the trapezoidal rule."""
    low, high = sorted((first, second))
    y = np.linspace(low - 10 * std, high + 10 * std, 40_001)
    gap = scipy.stats.norm.pdf(y, first, std) - math.exp(epsilon) * scipy.stats.norm.pdf(y, second, std)
    return float(np.trapezoid(np.maximum(gap, 0.0), y))


def _sum(batch: Sequence[tuple[float, float]]) -> float:
    """The clipped sum, C = 1."""
    total = sum(weight for weight, _ in batch)
    return sum(max(-1.0, min(1.0, len(batch) * w * g / total)) for w, g in batch)


_OWN = {"add-remove": 1, "replace-one": 2}


def _stated(size: int, ratio: float, adjacency: str, clip: float = 1.0) -> float:
    """How far a record moves the sum, by the calculator."""
    return privacy.clipping.weighted_mean_sensitivity(
        batch_size=size, clip_norm=clip, weight_ratio=ratio, adjacency=adjacency
    )


loss_divisor = new_row(
    id="rs.loss_divisor",
    source=Source("rs", "new, on Algorithm 1, lines 3 to 6"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.clipping.weighted_mean_sensitivity,),
)


@loss_divisor.equal(
    lambda: itertools.product(
        (1, 2, 3),
        (Fraction(1), Fraction(3), Fraction(10)),
        (Fraction(1), Fraction(3, 4)),
        ("add-remove", "replace-one"),
    ),
    tolerance=1e-15,
    kind=Kind.COUNTEREXAMPLE,
)
def _(size: int, ratio: Fraction, clip: Fraction, adjacency: str) -> Sides:
    """how far a record moves the sum, over all batches of a grid, in fractions"""
    stated = _stated(size, float(ratio), adjacency, float(clip))
    return stated, lambda: move_of_losses(size, ratio, clip, adjacency), _OWN[adjacency] * clip


@loss_divisor.equal(
    *itertools.product((64, 512, 10_000, 10**9), (2, 50, 1000, 10**6), ("add-remove", "replace-one")), tolerance=1e-14
)
def _(size: int, ratio: int, adjacency: str) -> Sides:
    """attained in batches of users' sizes, in fractions"""
    first, second = worst_sums(size, Fraction(ratio), Fraction(1), adjacency)
    return _stated(size, float(ratio), adjacency), first - second, _OWN[adjacency]


def _slack(bound: float, size: int, ratio: float, replaced: int, point: dict[str, float]) -> float:
    rows = [(ratio ** point[f"w{j}"], point["longer"] * point[f"g{j}"]) for j in range(4)]
    shared, old, new = rows[: size - 1], rows[2:3], rows[3:]
    return bound - abs(_sum((*shared, *(old if replaced else ()))) - _sum((*shared, *new)))


def _one_more_slack(size: int, ratio: float, replaced: int, **point: float) -> float:
    """Wrong statement: m + R below the line."""
    bound = 1.0 + replaced + (size - 1) * (ratio - 1) / (size + ratio)
    return _slack(bound, size, ratio, replaced, point)


@loss_divisor.inequality(
    {
        "size": Range(2, 3, integer=True),
        "ratio": Range(2.0, 30.0, log=True),
        "replaced": Range(0, 1, integer=True),
        **{f"w{j}": Range(0.0, 1.0) for j in range(4)},
        **{f"g{j}": Range(-1.0, 1.0) for j in range(4)},
        "longer": Range(1.0, 3.0),
    },
    wrong=_one_more_slack,
    tolerance=1e-12,
)
def _moved_slack(size: int, ratio: float, replaced: int, **point: float) -> float:
    """no batches of two or three records are further apart"""
    return _slack(_stated(size, ratio, list(_OWN)[replaced]), size, ratio, replaced, point)


@loss_divisor.equal(
    *itertools.product((2, 64, 512), (3, 50), ("add-remove", "replace-one"), (1.0, 5.0), (0.0, 0.1)),
    tolerance=1e-6,  # of the rule at the kink: step^2 / 8 times the slope there, over delta > 0.05
)
def _(size: int, ratio: int, adjacency: str, sigma: float, epsilon: float) -> Sides:
    """delta of one step on the whole data, by quadrature"""
    first, second = worst_sums(size, Fraction(ratio), Fraction(1), adjacency)
    return (
        privacy.gaussian_delta(_stated(size, float(ratio), adjacency) / sigma, epsilon),
        lambda: gaussian_step_delta(float(first), float(second), sigma, epsilon),
        privacy.gaussian_delta(_OWN[adjacency] / sigma, epsilon),
    )


def _losses_covered(
    worth: float, epsilon: float, rate: float, sigma: float, ratio: float, point: dict[str, float]
) -> float:
    batch = [(ratio ** point[f"w{j}"], point[f"g{j}"]) for j in range(3)]
    found = sampled_delta(epsilon, rate, sigma, batch, lambda drawn: (0, _sum(drawn)))
    return printed_delta(epsilon, rate, sigma / worth) - found


@loss_divisor.inequality(
    {
        "epsilon": Range(0.0, 1.0),
        "rate": Range(0.05, 0.95),
        "sigma": Range(0.5, 10.0, log=True),
        "ratio": Range(1.0, 30.0, log=True),
        **{f"w{j}": Range(0.0, 1.0) for j in range(3)},
        **{f"g{j}": Range(-2.0, 2.0) for j in range(3)},
    },
    # wrong: at sigma itself
    wrong=lambda epsilon, rate, sigma, ratio, **point: _losses_covered(1.0, epsilon, rate, sigma, ratio, point),
    tolerance=1e-5,  # of the sum over the grid
)
def _sampled_slack(epsilon: float, rate: float, sigma: float, ratio: float, **point: float) -> float:
    """three records in Poisson batches are covered by the smaller noise multiplier"""
    return _losses_covered(_stated(3, ratio, "add-remove"), epsilon, rate, sigma, ratio, point)


@loss_divisor.equal(
    lambda: itertools.product((1, 2, 3), (Fraction(3), Fraction(10)), ("add-remove", "replace-one")),
    kind=Kind.EXACT,
)
def _(size: int, ratio: Fraction, adjacency: str) -> Sides:
    """weights by hand over a constant, over all batches of the same grid, in fractions"""
    return (
        _OWN[adjacency],
        lambda: move_of_losses(size, ratio, Fraction(1), adjacency, own_sum),
        lambda: move_of_losses(max(size, 2), ratio, Fraction(1), adjacency),
    )


@loss_divisor.equal(lambda: itertools.product((1, 2, 3), (Fraction(1), Fraction(3), Fraction(10))))
def _(size: int, ratio: Fraction) -> Sides:
    """a constant in front of the weighted mean, one record that joins, over the same grid, in fractions"""
    # so many as to bring the gradients of the grid to the clip where the others stand alone
    summed = partial(clipped_sum, factor=max(size - 1, 1))
    return (
        1 + (size - 1) * ratio / (size - 1 + ratio),
        lambda: move_of_losses(size, ratio, Fraction(1), "add-remove", summed),
        lambda: move_of_losses(max(size, 2), ratio + 1, Fraction(1), "add-remove"),
    )


batch_divisors = new_row(
    id="rs.batch_divisors",
    source=Source("rs", "new, on Theorem 3.5 and Algorithm 1"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.drawn_size_factor,),
)


def _factor(examples: int, rate: Fraction) -> Fraction:
    """By its definition."""
    law = [(size, chance) for size, chance in size_law(examples, rate) if size]
    mean = rate * examples
    return sum((chance * (mean / size) ** 2 for size, chance in law), Fraction(0)) / sum(chance for _, chance in law)


@batch_divisors.equal(
    *itertools.product((1, 2, 5, 40), (Fraction(1, 50), Fraction(1, 2), Fraction(9, 10), Fraction(1))), tolerance=1e-12
)
def _(examples: int, rate: Fraction) -> Sides:
    """factor of the drawn size, in fractions"""
    found = convergence.drawn_size_factor(train_size=examples, sampling_rate=float(rate))
    return found, lambda: _factor(examples, rate), 1.01 * found


@batch_divisors.equal(
    (20_000, 0.001), (60_000, 256 / 60_000), (50_000, 0.1), (10**8, 1e-7), (10**8, 4e-5), tolerance=1e-8
)
def _(examples: int, rate: float) -> Sides:
    """factor at users' sizes, by quadrature of the generating function"""
    mean = rate * examples

    def by_integral() -> float:
        # 1 / k^2 is the integral of u^{k-1} log(1/u) over (0, 1); u = 1 - t / mean
        empty = math.exp(examples * math.log1p(-rate))

        def density(t: float) -> float:
            left = math.exp(examples * math.log1p(-rate * t / mean)) - empty
            return -math.log1p(-t / mean) / (1 - t / mean) * left / mean

        parts = [0.0, *(edge for edge in (1.0, 5.0, 20.0, 80.0, 300.0) if edge < mean), mean]
        total = sum(
            scipy.integrate.quad(density, a, b, epsabs=0, epsrel=1e-11, limit=200)[0]
            for a, b in itertools.pairwise(parts)
        )
        return float(mean**2 * total / (1 - empty))

    return convergence.drawn_size_factor(train_size=examples, sampling_rate=rate), by_integral, 1.0


@batch_divisors.equal((4, Fraction(1, 2)), (5, Fraction(1, 5)), (6, Fraction(2, 3)))
def _(examples: int, rate: Fraction) -> Sides:
    """a step divided by the drawn size on a quadratic, over all batches and masks in fractions"""
    # w = (3, 4), two entries, one kept, clip 2, gamma = 1/3, noise +-1 in the kept entry of the sum; the examples' clipped gradients
    # alternate between 2 and 1 in that entry
    gamma, start = Fraction(1, 3), (3, 4)
    clipped = [Fraction(2 if i % 2 == 0 else 1) for i in range(examples)]
    chance_left = 1 - (1 - rate) ** examples
    aligned = decrease = square = Fraction(0)
    for drawn in itertools.product((0, 1), repeat=examples):
        size = sum(drawn)
        if not size:
            continue
        chance = rate**size * (1 - rate) ** (examples - size) / chance_left
        update = sum((u for u, one in zip(clipped, drawn, strict=True) if one), Fraction(0)) / size
        for entry, sign in itertools.product(start, (1, -1)):
            moved = entry - gamma * (update + Fraction(sign, size))
            decrease += chance / 4 * (entry**2 - moved**2) / 2
            aligned += chance / 4 * entry * update
            square += chance / 4 * update**2
    factor = _factor(examples, rate) / (rate * examples) ** 2
    right = decrease / gamma + gamma / 2 * (square + factor)
    return right, aligned, right + gamma / 2 * (1 / (rate * examples) ** 2 - factor)


@dataclass(frozen=True)
class Outlier:
    """N - 1 examples with the clipped gradient (g, s) of norm C = 1 and one that makes the mean (g, 0), w_1 = (g, 0), G = 1."""

    examples: int
    batch_size: int
    g: float
    gamma: float

    @property
    def _clipped(self) -> tuple[tuple[float, float], tuple[float, float]]:
        s = math.sqrt(1 - self.g**2)
        length = math.hypot(self.g, (self.examples - 1) * s)
        return (self.g, s), (self.g / length, -(self.examples - 1) * s / length)

    def after(self) -> float:
        """E|w_2|^2 from the number of usual examples drawn and whether the odd one is."""
        (usual, odd), rate = self._clipped, self.batch_size / self.examples
        count = self.examples - 1
        mean = [(count * usual[j] + odd[j]) / self.examples for j in range(2)]
        excess = (1 - rate) / self.batch_size  # E|u|^2 = 1
        square = sum(e * e for e in mean) + excess
        return self.g**2 - 2 * self.gamma * self.g * mean[0] + self.gamma**2 * square

    def enumerated(self) -> float:
        """The same over all batches."""
        (usual, odd), rate = self._clipped, self.batch_size / self.examples
        total = 0.0
        for drawn in itertools.product((0, 1), repeat=self.examples):
            chance = math.prod(rate if one else 1 - rate for one in drawn)
            plain, strange = sum(drawn[1:]), drawn[0]
            moved = [
                (self.g if j == 0 else 0.0) - self.gamma * (plain * usual[j] + strange * odd[j]) / self.batch_size
                for j in range(2)
            ]
            total += chance * (moved[0] ** 2 + moved[1] ** 2)
        return total

    def least_constant(self, after: float) -> float:
        """The M for which the bound of rs.clipped_steps at T = 2 is the mean of the two squares."""
        run = spelled(gap=self.g**2 / 2, gamma=self.gamma, T=2, G=1.0, C=1.0, B=self.batch_size)
        unit = [convergence.dpsgd_bound(**run, second_moment=moment).value for moment in (0.0, 0.5)]
        # a moment known in the mean may all come at the first step, the only one that counts here: 1/2 is 1 there
        return ((self.g**2 + after) / 2 - unit[0]) / (unit[1] - unit[0])


_SMALL = tuple(Outlier(n, b, 0.2, gamma) for n, b in ((4, 1), (7, 2), (9, 4)) for gamma in (0.05, 0.2))


@batch_divisors.equal(lambda: [(one,) for one in _SMALL], tolerance=1e-12)
def _(one: Outlier) -> Sides:
    """two steps with one odd example, over all batches"""
    return one.after(), one.enumerated, one.after() * 1.01


@batch_divisors.equal((1, 0.05), (2, 0.01), (16, 0.05), tolerance=2e-4, kind=Kind.EXACT)
def _(batch_size: int, gamma: float) -> Sides:
    """the least constant for large N is C^2 (1 + 1/B)"""
    one = Outlier(10**7, batch_size, 0.2, gamma)
    return 1 + 1 / batch_size, lambda: one.least_constant(one.after()), 1.0
