"""Small cases in exact arithmetic, laws of the index mechanism by counting, draws and integrals, divergences by quadrature."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import scipy
from numpy.typing import NDArray

import dptheory
from dptheory._arrays import Array
from dptheory.pruning import SubsetMallows

Subset = tuple[bool, ...]

SIZES = tuple((dim, keep) for dim in range(2, 9) for keep in range(1, dim))
"""Every (dim, keep) with dim <= 8 for which there is something to choose."""

VECTORS = {dim: tuple((-1) ** j * (j * j + 1) for j in range(dim)) for dim in range(2, 9)}
"""A fixed gradient without ties for each dim."""


def sizes(dim: float, keep_share: float) -> tuple[int, int]:
    """(dim, keep) with 1 <= keep < dim for a point of a search box."""
    size = round(dim)
    return size, min(max(round(keep_share * size), 1), size - 1)


def subsets(dim: int, keep: int) -> list[Subset]:
    """All subsets of ``dim`` entries with ``keep`` members."""
    return [tuple(j in chosen for j in range(dim)) for chosen in itertools.combinations(range(dim), keep)]


def hamming(first: Sequence[bool], second: Sequence[bool]) -> int:
    """Number of places in which two subsets differ, the L1 distance of the paper."""
    return sum(a != b for a, b in zip(first, second, strict=True))


def diameter(dim: int, keep: int) -> int:
    """The largest distance of two subsets."""
    first = subsets(dim, keep)[0]  # any other subset is a relabelling of this one
    return max(hamming(first, other) for other in subsets(dim, keep))


def mallows(reference: Subset, weight: Fraction) -> dict[Subset, Fraction]:
    """The Mallows law around ``reference`` over the subsets of its size, weight = e^-theta."""
    weights = {s: weight ** hamming(s, reference) for s in subsets(len(reference), sum(reference))}
    total = sum(weights.values())
    return {s: w / total for s, w in weights.items()}


def top_subset(gradient: Sequence[Fraction | int], keep: int) -> Subset:
    """The ``keep`` entries of largest absolute value, ties to the lower index."""
    order = sorted(range(len(gradient)), key=lambda j: (-abs(gradient[j]), j))
    return tuple(j in order[:keep] for j in range(len(gradient)))


def lost_energy(gradient: Sequence[Fraction | int], kept: Subset) -> Fraction:
    """|g - g*I|^2."""
    return sum((Fraction(x) ** 2 for x, stays in zip(gradient, kept, strict=True) if not stays), Fraction(0))


def perturbed_loss(gradient: Sequence[Fraction | int], keep: int, weight: Fraction) -> Fraction:
    """E|g - g*I|^2 for the Mallows-perturbed top-k subset of a fixed gradient; weight 1 is random-k."""
    law = mallows(top_subset(gradient, keep), weight)
    return sum((p * lost_energy(gradient, kept) for kept, p in law.items()), Fraction(0))


def swap_law(dim: int, keep: int, weight: Fraction) -> list[Fraction]:
    """P(i swapped pairs), i = 0..min(keep, dim - keep), by summing the Mallows law over the subsets."""
    reference = tuple(j < keep for j in range(dim))
    law = [Fraction(0)] * (min(keep, dim - keep) + 1)
    for subset, probability in mallows(reference, weight).items():
        law[hamming(subset, reference) // 2] += probability
    return law


def two_point_noise(dim: int, size: int) -> list[tuple[int, ...]]:
    """Every outcome of entries that are +-size with equal chances."""
    return list(itertools.product((-size, size), repeat=dim))


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


def top_k_gain(keep_share: float) -> float:
    """2 a phi(a), a = Phi^-1(1 - k/2): what top-k keeps beyond random-k in large groups, a share of |g|^2."""
    a = -float(scipy.special.ndtri(keep_share / 2))
    return 2 * a * math.exp(-a * a / 2) / math.sqrt(2 * math.pi)


def zeta(keep_share: float) -> float:
    """The paper's zeta = k + 2 a phi(a)."""
    return keep_share + top_k_gain(keep_share)


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


_STEP = (
    0.04  # in a strip of width pi / mu the integrand is analytic: the trapezoid rule errs by e^(-2 pi^2 / (mu step))
)
NO_INDEX = {1.0: 1.0}
"""Ratios of a release without an index part."""


def ratios(loss: Mapping[int, Fraction], weight: Fraction) -> dict[float, float]:
    """Law of r = P_B(I) / P_A(I) under P_A from that of the loss, weight = e^-theta."""
    return {float(weight ** (2 * j)): float(p) for j, p in loss.items()}


def divergence(
    order: float, rate: float, sigma: float, shift: float = 1.0, index: Mapping[float, float] = NO_INDEX, sign: int = 1
) -> float:
    """D_order(mixture, base) for sign = 1, D_order(base, mixture) for sign = -1.

    base: index ratio 1 and N(0, sigma^2); with probability ``rate`` the ratio is drawn and the mean is ``shift``.
    """
    mu = shift / sigma
    top = (order if sign > 0 else 1.0) * mu
    y, step = np.arange(-14.0 - (mu * order if sign < 0 else 0.0), 14.0 + top, _STEP), _STEP
    logs = []
    for ratio, p in index.items():
        log_mixed = np.logaddexp(
            math.log1p(-rate) if rate < 1 else -math.inf, math.log(rate) + math.log(ratio) + mu * y - mu * mu / 2
        )
        power = order if sign > 0 else 1.0 - order
        logs.append(math.log(p) + power * log_mixed - y * y / 2 - 0.5 * math.log(2 * math.pi))
    return (float(np.logaddexp.reduce(np.array(logs).ravel())) + math.log(step)) / (order - 1.0)


def masked_divergence(
    order: float, rate: float, sigma: float, example: Sequence[float], keep: int, sign: int = 1
) -> float:
    """The same for g + Z seen through a uniform mask with ``keep`` ones, which is released too."""
    masks = subsets(len(example), keep)
    terms = []
    for mask in masks:
        shift = math.sqrt(sum(x * x for x, stays in zip(example, mask, strict=True) if stays))
        terms.append(math.exp((order - 1.0) * divergence(order, rate, sigma, shift, sign=sign)))
    return math.log(math.fsum(terms) / len(terms)) / (order - 1.0)


# The privacy of the values alone: the curve of one step, points to try it at, and the exact delta without sampling.


RATES = ((2, 0.01, 1.0), (2, 1.0, 3.0), (5, 0.3, 2.0), (16, 0.1, 4.0), (3, 0.5, 0.7))
"""Order, sampling rate and noise multiplier."""
STEPS = ((2, 0.01, 1.0), (5, 0.3, 2.0), (16, 0.1, 4.0))
"""The same where a case is dear."""


def values_curve(order: float, rate: float, sigma: float) -> float:
    """Renyi curve of one step of DP-SGD at one order."""
    # loaded when it is asked for: `dptheory claim` shows claims about masks without the accountant
    return float(
        dptheory.privacy.subsampled_gaussian_rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma)[0]
    )


def gaussian_delta(mu: Array | float, epsilon: float) -> Array:
    """delta(epsilon) of N(0, 1) against N(mu, 1)."""
    far = math.exp(epsilon) * scipy.special.ndtr(-mu / 2 - epsilon / mu)
    return np.asarray(scipy.special.ndtr(mu / 2 - epsilon / mu) - far)


def half_line(scale: float, against: float, still: float) -> float:
    """Integral of (phi(x - s) - a phi(x + s) - c phi(x))_+, a > 0, c >= 0: where it is positive is a half-line."""
    log_still = math.log(still) if still > 0 else -math.inf

    def excess(x: float) -> float:
        """log of the first density less that of what it must exceed, over N(0, 1); it rises in x."""
        return scale * x - scale**2 / 2 - float(np.logaddexp(math.log(against) - scale * x - scale**2 / 2, log_still))

    edge = scipy.optimize.brentq(excess, -1e5, 1e5)
    lost = against * scipy.special.ndtr(-scale - edge) + still * scipy.special.ndtr(-edge)
    return float(scipy.special.ndtr(scale - edge) - lost)


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """log of the exact delta of the Gaussian mechanism with sensitivity / noise = mu."""
    near, far = scipy.special.log_ndtr(mu / 2 - epsilon / mu), epsilon + scipy.special.log_ndtr(-mu / 2 - epsilon / mu)
    return float(near + math.log(-math.expm1(far - near)))


# The law of the index mechanism at users' sizes, by counting the index sets.


WEIGHT = Fraction(4, 5)
LARGE_SIZES = ((20_000, 5), (20_000, 19_996), (10**6, 2))
"""Groups with few entries in or out of the index set, so that the index sets can be counted."""
DISTANCES = ((7, 3), (8, 6), *LARGE_SIZES, (20_000, 10_000), (2_700_032, 270_003))
"""Groups of users' sizes for what needs no counting."""


def model_of(dim: int, keep: int, weight: Fraction) -> SubsetMallows:
    """The mechanism with e^-theta = weight."""
    return SubsetMallows(dim, keep, theta=-math.log(weight))


def log_of(value: Fraction) -> float:
    """log of a fraction of any size, precise next to 1."""
    if 2 * value > 1 and value < 2:
        return math.log1p(float(value - 1))
    return math.log(value.numerator) - math.log(value.denominator)


def normalised(law: dict[int, Fraction]) -> dict[int, Fraction]:
    total = sum(law.values())
    return {j: p / total for j, p in law.items()}


def log_comb(n: int, k: Array) -> Array:
    """log C(n, k), from the gamma function."""
    return np.asarray(scipy.special.gammaln(n + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(n - k + 1))


@cache
def counted_swaps(dim: int, keep: int, weight: Fraction) -> dict[int, Fraction]:
    """P(i swapped pairs), by counting."""
    weights = {
        i: math.comb(keep, i) * math.comb(dim - keep, i) * weight ** (2 * i) for i in range(min(keep, dim - keep) + 1)
    }
    return normalised(weights)


def gain(dim: int, keep: int, weight: Fraction) -> float:
    """rho by counting, in fractions to the last step."""
    mean = sum(i * p for i, p in counted_swaps(dim, keep, weight).items())
    return float(1 - mean / Fraction(keep * (dim - keep), dim))


def counted_mean_swaps(dim: int, keep: int, theta: float) -> float:
    """E[i], by counting the index sets i swaps away."""
    weights = swap_weights(dim, keep, theta)
    return float(weights @ np.arange(weights.size) / weights.sum())


def counted_gain(dim: int, keep: int, theta: float) -> float:
    """1 - E[i] / (its mean under random-k), by the same counting."""
    return 1 - counted_mean_swaps(dim, keep, theta) / counted_mean_swaps(dim, keep, 0.0)


Loss = dict[int, Fraction]
"""P(loss = 2 theta j) by j."""


def references(dim: int, keep: int, pairs: int) -> tuple[Subset, Subset]:
    """Two references ``pairs`` swaps apart."""
    return tuple(j < keep for j in range(dim)), tuple(pairs <= j < keep + pairs for j in range(dim))


@cache
def enumerated_loss(dim: int, keep: int, weight: Fraction, pairs: int) -> Loss:
    """The loss of two references ``pairs`` swaps apart, by summing over all index sets."""
    first, second = references(dim, keep, pairs)
    law: Loss = {}
    for out, p in mallows(first, weight).items():
        j = (hamming(out, second) - hamming(out, first)) // 2
        law[j] = law.get(j, Fraction(0)) + p
    return law


@cache
def counted_loss(dim: int, keep: int, weight: Fraction, pairs: int) -> Loss:
    """The same by counting the index sets.

    x members only of A, y only of B, a of both, b of neither: at distance 2 (y + b) from A.
    """
    law: Loss = {}
    both, neither = keep - pairs, dim - keep - pairs
    for x, y in itertools.product(range(pairs + 1), repeat=2):
        left = keep - x - y
        for a in range(max(0, left - neither), min(both, left) + 1):
            ways = math.comb(pairs, x) * math.comb(pairs, y) * math.comb(both, a) * math.comb(neither, left - a)
            law[x - y] = law.get(x - y, Fraction(0)) + ways * weight ** (2 * (y + left - a))
    return normalised(law)


def together(laws: Iterable[Loss]) -> Loss:
    """The loss of independent releases."""
    total, whole = {0: 1}, 1
    for law in laws:
        share, step = math.lcm(*(r.denominator for r in law.values())), dict[int, int]()
        parts = {j: int(r * share) for j, r in law.items()}
        for (s, p), (j, r) in itertools.product(total.items(), parts.items()):
            step[s + j] = step.get(s + j, 0) + p * r
        total, whole = step, whole * share
    return {s: Fraction(p, whole) for s, p in total.items()}


def counted_delta(dim: int, keep: int, theta: float, releases: int, epsilon: float) -> float:
    """delta(epsilon) of so many releases with the farthest pair of references: the counted law, composed by Fourier transform."""
    most = min(keep, dim - keep)
    one = counted_loss(dim, keep, Fraction(math.exp(-theta)), most)
    size = 2 * most * releases + 1
    law = np.fft.irfft(np.fft.rfft([float(one[j]) for j in range(-most, most + 1)], size) ** releases, size)
    loss = 2 * theta * np.arange(-most * releases, most * releases + 1)
    return float(law @ -np.expm1(np.minimum(0.0, epsilon - loss)))


def odds_of_one(dim: int, epsilon: float, delta: float) -> float:
    """e^(2 theta) with which one index of ``dim`` spends the budget: P(loss = 2 theta) = w / (w + d - 1)."""
    return (math.exp(epsilon) + delta * (dim - 1)) / (1 - delta)


def best_on_grid(rho: float, delta: float) -> float:
    """Least epsilon with delta = e^((a-1)(rho a - epsilon)) max_u u^(a-1) (1 - u), reached at u = (a-1)/a, over a grid of orders."""
    excess = np.exp(np.arange(-4000, 4000) / 500)
    largest = excess * np.log(excess / (1 + excess)) - np.log1p(excess)
    return float(np.min(rho * (1 + excess) + (largest - math.log(delta)) / excess))


@cache
def apart(dim: int, keep: int) -> int:
    """Places in which the first ``keep`` entries and the last ``keep`` differ: two index sets as far apart as they can be."""
    first, last = np.zeros(dim, dtype=np.bool_), np.zeros(dim, dtype=np.bool_)
    first[:keep], last[dim - keep :] = True, True
    return int(np.count_nonzero(first ^ last))
