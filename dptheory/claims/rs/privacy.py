"""RS: privacy under a mask, of the divisor, and of ranked sparsification."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy.stats import norm

from dptheory import privacy
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rf import _ranked_release as ranked
from dptheory.claims.rs import _divisor
from dptheory.privacy import gaussian_delta

# --- rs.thm3.1 --------------------------------------------------------------------------------------------------------

Rows = tuple[tuple[int, ...], ...]

# Norms of these, masked or not, are whole: sensitivities have exact squares.
_UNIVERSES: tuple[Rows, ...] = (((3, 4), (-6, 8)), ((0, 2), (5, 12), (-8, 15)), ((1, 2, 2), (2, -3, 6), (4, 4, -7)))


def _mask_cases() -> Iterator[tuple[Rows, Fraction, tuple[int, ...]]]:
    for rows in _UNIVERSES:
        for mask in itertools.product((0, 1), repeat=len(rows[0])):
            for clip in (Fraction(1), Fraction(5), Fraction(9), Fraction(40)):
                yield rows, clip, mask


def _largest_square(rows: Rows, clip: Fraction, mask: tuple[int, ...]) -> Fraction:
    """The largest squared norm of a masked, clipped gradient."""
    return max(min(Fraction(sum(m * x * x for m, x in zip(mask, row, strict=True))), clip * clip) for row in rows)


def _squared(rows: Rows, clip: Fraction, mask: tuple[int, ...] | None) -> float:
    return privacy.masked_sensitivity(rows, float(clip), mask) ** 2


def _replace_squared(side: int, height: int, mask: tuple[int, int] | None) -> float:
    """Two examples with gradients (+-side, height), clip 1."""
    rows = ((side, height), (-side, height))
    return privacy.masked_sensitivity(rows, 1.0, mask, "replace-one") ** 2


def _growth(adjacency: str, first: float, second: float, third: float, fourth: float) -> float:
    rows = ((first, second), (third, fourth))
    whole = privacy.masked_sensitivity(rows, 1.0, None, adjacency)
    return whole - privacy.masked_sensitivity(rows, 1.0, (1, 0), adjacency)


def _add_remove_slack(**point: float) -> float:
    """Under add/remove a mask does not raise the sensitivity."""
    return _growth("add-remove", **point)


def _replace_slack(**point: float) -> float:
    """Wrong statement: nor does it under replace-one."""
    return _growth("replace-one", **point)


def _within(bound: float, first: float, second: float, third: float, keep: int) -> float:
    rows = ((first, second, third), (-second, third, first))
    mask = tuple(int(j < keep) for j in range(3))
    return bound - privacy.masked_sensitivity(rows, 1.0, mask, "replace-one")


def _replace_bound_slack(**point: float) -> float:
    """Under replace-one the sensitivity is at most 2C under any mask."""
    return _within(2.0, **point)  # type: ignore[arg-type]


def _replace_half_slack(**point: float) -> float:
    """Wrong statement: it is at most C, as under add/remove."""
    return _within(1.0, **point)  # type: ignore[arg-type]


def _public_mask_delta(sigma: float, epsilon: float, second: float, third: float, keep: int) -> float:
    """delta of masked sum and mask together: the mean over the masks, of a canary (1, second, third) with C = 1."""
    masks = [tuple(int(j in kept) for j in range(3)) for kept in itertools.combinations(range(3), keep)]
    norms = [privacy.masked_sensitivity([(1.0, second, third)], 1.0, mask) for mask in masks]
    return sum(gaussian_delta(norm / sigma, epsilon) for norm in norms) / len(masks)


def _mask_slack(sigma: float, epsilon: float, second: float, third: float, keep: int) -> float:
    """The mask, published, costs nothing on top of the account without a mask."""
    return 1.0 - _public_mask_delta(sigma, epsilon, second, third, keep) / gaussian_delta(1 / sigma, epsilon)


def _amplified_slack(sigma: float, epsilon: float, second: float, third: float, keep: int) -> float:
    """Wrong statement: it lowers delta by the share of entries kept."""
    allowed = keep / 3 * gaussian_delta(1 / sigma, epsilon)
    return 1.0 - _public_mask_delta(sigma, epsilon, second, third, keep) / allowed


def _long_sensitivity(adjacency: str, masked: bool) -> float:
    """Gradients (3, 4, 0, ..., 0) and (0, ..., 0, 1/2), clipped to norm 1, the first entry masked or not."""
    rows = np.zeros((2, 20_000))
    rows[0, :2], rows[1, -1] = (3.0, 4.0), 0.5
    mask = np.ones(20_000)
    mask[0] = 0.0
    return privacy.masked_sensitivity(rows, 1.0, mask if masked else None, adjacency)


_THM31 = Claim(
    id="rs.thm3.1",
    title="masking before clipping keeps DP",
    source=Source("rs", "Theorem 3.1"),
    statement=r"If $\sum_x \mathrm{clip}(g(x)) + N(0, C^2\sigma^2 I)$ is $(\epsilon,\delta)$-DP, so is "
    r"$\sum_x \mathrm{clip}(m\odot g(x)) + m\odot N(0, C^2\sigma^2 I)$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "add/remove adjacency, as the paper's definition of neighbours has it",
        "the mask does not depend on the data of the step, as the paper's uniformly drawn one",
        "for a whole run: for every mask, each step accounted for given the releases before it",
    ),
    correction=r"Under add/remove $\max_g\|\mathrm{clip}(m\odot g)\| \le \max_g\|\mathrm{clip}(g)\| \le C$ for every mask: the privacy "
    r"of each instance is kept. Under replace-one only the worst case $2C$ is: with gradients $(\pm1, 100)$, $C = 1$, the mask "
    r"$(1, 0)$ raises the sensitivity from $0.02$ to $2$.",
    calculators=(privacy.masked_sensitivity,),
    checks=(
        ExactCheck(
            name="squared sensitivity in whole numbers, all masks",
            cases=_mask_cases,
            truth=_largest_square,
            statement=_squared,
            wrong=lambda rows, clip, mask: _squared(rows, clip, None),
            tolerance=1e-13,
        ),
        ExactCheck(
            name="replace-one: gradients (+-a, b) under the mask (1, 0)",
            cases=lambda: [(1, 100), (2, 3), (7, 1)],
            truth=lambda side, height: Fraction(4),
            statement=lambda side, height: _replace_squared(side, height, (1, 0)),
            wrong=lambda side, height: _replace_squared(side, height, None),
            tolerance=1e-13,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="replace-one: gradients (+-a, b) without a mask",
            cases=lambda: [(1, 100), (2, 3), (7, 1)],
            truth=lambda side, height: Fraction(4 * side**2, side**2 + height**2),
            statement=lambda side, height: _replace_squared(side, height, None),
            wrong=lambda side, height: _replace_squared(side, height, (1, 0)),
            tolerance=1e-13,
        ),
        SearchCheck(
            name="add/remove: no mask raises the sensitivity",
            box={name: Range(-3.0, 3.0) for name in ("first", "second", "third", "fourth")},
            slack=_add_remove_slack,
            wrong=_replace_slack,
        ),
        SearchCheck(
            name="replace-one: at most 2C under any mask",
            box={
                **{name: Range(-3.0, 3.0) for name in ("first", "second", "third")},
                "keep": Range(1, 3, integer=True),
            },
            slack=_replace_bound_slack,
            wrong=_replace_half_slack,
        ),
        SearchCheck(
            name="delta with a published random mask",
            box={
                "sigma": Range(0.5, 4.0),
                "epsilon": Range(0.0, 2.0),
                "second": Range(0.0, 2.0),
                "third": Range(0.0, 2.0),
                "keep": Range(1, 2, integer=True),
            },
            slack=_mask_slack,
            wrong=_amplified_slack,
        ),
        ExactCheck(
            name="long gradients by hand, 20,000 entries",
            cases=lambda: [
                (adjacency, masked) for adjacency in ("add-remove", "replace-one") for masked in (False, True)
            ],
            truth=lambda adjacency, masked: 1.0 if adjacency == "add-remove" else math.sqrt(1.25),
            statement=_long_sensitivity,
            wrong=lambda adjacency, masked: 1.01 * _long_sensitivity(adjacency, masked),
            tolerance=1e-12,
        ),
    ),
    proved=True,
    figure="audit_claims",
)

# --- rs.alg1.divisor --------------------------------------------------------------------------------------------------


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


def _covered(factor: float, epsilon: float, rate: float, sigma: float, gradients: tuple[float, float, float]) -> float:
    allowed = privacy.published_size_delta(epsilon, 2, rate, factor / sigma)
    return allowed - _divisor.two_examples_delta(epsilon, rate, sigma, gradients)


def _published_slack(epsilon: float, rate: float, sigma: float, first: float, second: float, third: float) -> float:
    """Batch size and sum are covered by the shift 2 / sigma."""
    return _covered(2.0, epsilon, rate, sigma, (first, second, third))


def _single_slack(epsilon: float, rate: float, sigma: float, first: float, second: float, third: float) -> float:
    """Wrong statement: by the shift 1 / sigma of the sum."""
    return _covered(1.0, epsilon, rate, sigma, (first, second, third))


_SIZES = ((4, 5, 50), (5, 4, 50), (1, 2, 3), (10, 11, 300), (64, 65, 3000), (65, 64, 3000))

_DIVISOR = Claim(
    id="rs.alg1.divisor",
    title="division by the drawn batch size",
    source=Source("rs", "Algorithm 1, lines 3 to 6"),
    statement=r"With a Poisson-sampled batch $\mathcal{B}$, releasing "
    r"$\frac{1}{|\mathcal{B}|}\big(\sum_{i\in\mathcal{B}}\mathrm{clip}(m\odot g_i) + m\odot N(0, C^2\sigma^2 I)\big)$ is accounted for as the Poisson-sampled "
    r"Gaussian mechanism of noise multiplier $\sigma$.",
    verdict=Verdict.FALSE,
    conditions=(
        "add/remove adjacency, 0 < q < 1, one other example at least",
        "an empty batch, of probability (1-q)^N, has no average: the printed step is undefined there",
    ),
    correction=r"One example moves the average of $b + 1$ gradients by up to $2C/(b+1)$, not $C/(b+1)$, and the noise $N(0, (C\sigma/b)^2)$ tells "
    r"$b$: between sizes $b$ and $b'$ its KL divergence in $k$ entries is $\frac k2(\rho - 1 - \log\rho)$, $\rho = (b'/b)^2$, about $k/b^2$ for $b' = b \pm 1$, whatever $\sigma$ is. "
    r"The release is as private as noisy sum and $|\mathcal{B}|$ published together, and comes to that as $k$ grows: for large $N$ a "
    r"noise multiplier of $\sigma/2$. Divide by $qN$.",
    printed=printed_delta,
    calculators=(
        privacy.average_sensitivity,
        privacy.divisor_kl,
        privacy.divisor_renyi,
        privacy.divisor_delta,
        privacy.published_size_delta,
    ),
    checks=(
        ExactCheck(
            name="how far an example moves the average, in fractions",
            cases=lambda: [(b, c) for b in (1, 2, 5, 9) for c in (Fraction(1), Fraction(3, 4))],
            truth=_divisor.largest_move,
            statement=lambda b, c: privacy.average_sensitivity(b, float(c)),
            wrong=lambda b, c: c / (b + 1),
            tolerance=1e-15,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="KL divergence of the noise, by quadrature",
            cases=lambda: _SIZES,
            truth=_divisor.kl_by_quadrature,
            statement=lambda b, other, k: privacy.divisor_kl(b, other, k),
            wrong=lambda b, other, k: 0.0,
            tolerance=1e-8,
        ),
        ExactCheck(
            name="Renyi divergence of the noise, by quadrature",
            cases=lambda: [(a, *sizes) for a in (1.5, 2.0, 4.0, 60.0) for sizes in _SIZES],
            truth=_divisor.renyi_by_quadrature,
            statement=lambda a, b, other, k: privacy.divisor_renyi(a, b, other, k),
            wrong=lambda a, b, other, k: 0.0,
            tolerance=1e-8,
        ),
        ExactCheck(
            name="delta of the noise, by the law of its square",
            cases=lambda: [(eps, *sizes) for eps in (0.0, 0.5, 2.0) for sizes in _SIZES],
            truth=_divisor.delta_by_grid,
            statement=lambda eps, b, other, k: privacy.divisor_delta(eps, b, other, k),
            wrong=lambda eps, b, other, k: 0.0,
            tolerance=1e-6,
        ),
        ExactCheck(
            name="delta of sum and batch size, by summation",
            cases=lambda: [
                (0.0, 5, 0.3, 1.0),
                (0.3, 5, 0.3, 1.0),
                (0.02, 5, 0.3, 0.25),
                (1.0, 20, 0.1, 1.5),
                (0.05, 3, 0.9, 0.5),
                (0.1, 40, 0.02, 0.2),
                (0.2, 0, 0.5, 1.0),
            ],
            truth=_divisor.published_by_grid,
            statement=lambda eps, n, q, shift: privacy.published_size_delta(eps, n, q, shift),
            wrong=lambda eps, n, q, shift: printed_delta(eps, q, 1 / shift),
            tolerance=1e-6,
        ),
        ExactCheck(
            name="no noise multiplier hides the batch size, in fractions",
            cases=lambda: [
                (n, q) for n in (0, 1, 2, 7, 30) for q in (Fraction(1, 2), Fraction(1, 10), Fraction(9, 10))
            ],
            truth=_divisor.sizes_apart,
            statement=lambda n, q: privacy.published_size_delta(0.0, n, float(q), 0.0),
            wrong=lambda n, q: printed_delta(0.0, float(q), math.inf),
            tolerance=1e-12,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="the batch size alone at epsilon > 0, in fractions",
            cases=lambda: [
                (n, q, growth)
                for n in (0, 1, 2, 10, 30)
                for q in (Fraction(1, 2), Fraction(1, 10), Fraction(9, 10))
                for growth in (Fraction(11, 10), Fraction(3, 2), Fraction(3), Fraction(9))
            ],
            truth=_divisor.sizes_apart,
            statement=lambda n, q, growth: privacy.published_size_delta(math.log(growth), n, float(q), 0.0),
            wrong=lambda n, q, growth: privacy.published_size_delta(math.log(growth), n + 1, float(q), 0.0),
            tolerance=1e-9,
        ),
        SearchCheck(
            name="sum and batch size are covered by twice the shift",
            box={
                "epsilon": Range(0.0, 1.0),
                "rate": Range(0.05, 0.9),
                "sigma": Range(0.5, 10.0, log=True),
                **{name: Range(-1.0, 1.0) for name in ("first", "second", "third")},
            },
            slack=_published_slack,
            wrong=_single_slack,
            tolerance=1e-5,  # of the sum over the grid
        ),
        ExactCheck(
            name="delta of sum and batch size, users' data sets",
            cases=lambda: [(0.05, 20_000, 0.01, 0.5), (0.0, 50_000, 0.001, 0.2)],
            truth=_divisor.published_by_grid,
            statement=lambda eps, n, q, shift: privacy.published_size_delta(eps, n, q, shift),
            wrong=lambda eps, n, q, shift: printed_delta(eps, q, 1 / shift),
            tolerance=1e-5,
        ),
    ),
    proved=True,
)

# --- rs.alg4 ----------------------------------------------------------------------------------------------------------

_ALG4 = Claim(
    id="rs.alg4",
    title="ranked sparsification is post-processing",
    source=Source("rs", "Algorithm 4"),
    statement=r"DP-SGD whose mask keeps the entries that were largest in the sum of last epoch's noisy gradients costs as much "
    r"as DP-SGD.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "the velocity takes the noisy gradient of line 8; as printed, line 9 takes the un-noised one, and nothing is private",
        "the noise of masked entries in line 10 does not depend on the data",
    ),
    correction=r"With $v_{t+1} = \mu v_t + \tilde g_t$, masks and weights are functions of the releases $\tilde g_1, \tilde g_2, \ldots$ and of noise "
    r"that is independent of the data: the cost is that of $T$ Gaussian mechanisms of multiplier $\sigma$. As printed no noise enters "
    r"the weights: $\delta(\epsilon) = 1$ for every $\epsilon$ once the example was in a batch, $1-(1-q)^T$ after $T$ Poisson-sampled steps.",
    calculators=(privacy.combined_multiplier,),
    checks=(
        ranked.mask_adds_nothing("RS: mask and release tell what the release tells, by enumeration"),
        ranked.printed_velocity("RS: one step of line 9 as printed"),
    ),
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_THM31, _DIVISOR, _ALG4)
