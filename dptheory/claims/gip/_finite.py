"""Small cases in exact arithmetic, draws and integrals under Assumption 1, and divergences of sampled releases by quadrature."""

import itertools
import math
from collections.abc import Mapping, Sequence
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


_STEP = (
    0.04  # in a strip of width pi / mu the integrand is analytic: the trapezoid rule errs by e^(-2 pi^2 / (mu step))
)
NO_INDEX = {1.0: 1.0}
"""Ratios of a release without an index part."""


def ratios(dim: int, keep: int, weight: Fraction, pairs: int | None = None) -> dict[float, float]:
    """Law of r = P_B(I) / P_A(I) under P_A for two references ``pairs`` swaps apart (None: the most), weight = e^-theta."""
    moved = min(keep, dim - keep) if pairs is None else pairs
    first = tuple(j < keep for j in range(dim))
    second = tuple(moved <= j < keep + moved for j in range(dim))
    law, other = mallows(first, weight), mallows(second, weight)
    found: dict[float, float] = {}
    for out, p in law.items():
        ratio = float(other[out] / p)
        found[ratio] = found.get(ratio, 0.0) + float(p)
    return found


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


@cache
def counted_swaps(dim: int, keep: int, weight: Fraction) -> dict[int, Fraction]:
    """P(i swapped pairs), by counting."""
    weights = {
        i: math.comb(keep, i) * math.comb(dim - keep, i) * weight ** (2 * i) for i in range(min(keep, dim - keep) + 1)
    }
    return normalised(weights)


def counted_mean_swaps(dim: int, keep: int, theta: float) -> float:
    """E[i], by counting the index sets i swaps away."""
    weights = swap_weights(dim, keep, theta)
    return float(weights @ np.arange(weights.size) / weights.sum())


@cache
def apart(dim: int, keep: int) -> int:
    """Places in which the first ``keep`` entries and the last ``keep`` differ: two index sets as far apart as they can be."""
    first, last = np.zeros(dim, dtype=np.bool_), np.zeros(dim, dtype=np.bool_)
    first[:keep], last[dim - keep :] = True, True
    return int(np.count_nonzero(first ^ last))
