"""The index mechanism at users' sizes: its law, distances and what a budget buys, by counting index sets in integers."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.special import gammaln, logsumexp

from dptheory import pruning
from dptheory.checks import ExactCheck
from dptheory.claims.gip._gaussian import swap_weights
from dptheory.pruning import SubsetMallows

WEIGHT = Fraction(4, 5)
SIZES = ((20_000, 5), (20_000, 19_996), (10**6, 2))
"""Groups with few entries in or out of the index set, so that the index sets can be counted."""


def model_of(dim: int, keep: int, weight: Fraction) -> SubsetMallows:
    """The mechanism with e^-theta = weight."""
    return SubsetMallows(dim, keep, -math.log(weight))


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


# --- the law of the swaps ---------------------------------------------------------------------------------------------
_HALF = (20_000, 10_000, 0.002)  # d, K, theta


def _half_law(swaps: int) -> float:
    """log P(i) for d = 2K, from the gamma function."""
    _, keep, theta = _HALF
    i = np.arange(keep + 1.0)
    logs = 2 * (gammaln(keep + 1) - gammaln(i + 1) - gammaln(keep - i + 1)) - 2 * theta * i
    return float(logs[swaps] - logsumexp(logs))


def _swap_entries(sizes: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, int, int, int]]:
    for what, (dim, keep) in itertools.product(("swap_pmf", "swap_log_pmf"), sizes):
        for swaps in range(min(keep, dim - keep) + 1):
            yield what, dim, keep, swaps


def _swap_entry(what: str, dim: int, keep: int, swaps: int) -> float:
    p = counted_swaps(dim, keep, WEIGHT)[swaps]
    return float(p) if what == "swap_pmf" else log_of(p)


def _members(dim: int, keep: int, theta: float) -> int:
    """Members of three draws."""
    reference = np.zeros((3, dim), dtype=np.bool_)
    reference[:, :keep] = True
    return int(SubsetMallows(dim, keep, theta).sample(reference, np.random.default_rng(0)).sum())


def _moved_members(dim: int, keep: int) -> int:
    """Places in which the draw of almost no dispersion, or of none, differs from its reference."""
    reference = np.zeros(dim, dtype=np.bool_)
    reference[:keep] = True
    drawn = SubsetMallows(dim, keep, 400.0).sample(reference, np.random.default_rng(0))
    return int(np.count_nonzero(drawn ^ reference))


SWAPS = (
    ExactCheck(
        name="law of the swaps at users' sizes, in integers",
        cases=lambda: _swap_entries(((7, 3), (30, 4), *SIZES)),
        truth=_swap_entry,
        statement=lambda what, dim, keep, swaps: float(getattr(model_of(dim, keep, WEIGHT), what)()[swaps]),
        wrong=lambda what, dim, keep, swaps: float(getattr(model_of(dim, keep, WEIGHT**2), what)()[swaps]),
        tolerance=1e-11,
    ),
    ExactCheck(
        name="law of ten thousand swaps, by the gamma function",
        cases=lambda: [(swaps,) for swaps in (0, 4900, 4995, 5100, 10_000)],
        truth=_half_law,
        statement=lambda swaps: float(SubsetMallows(*_HALF).swap_log_pmf()[swaps]),
        wrong=lambda swaps: float(SubsetMallows(*_HALF[:2], 0.0).swap_log_pmf()[swaps]),
        tolerance=1e-8,
    ),
    ExactCheck(
        name="a draw has K members, and without dispersion those of its reference",
        cases=lambda: [(5, 2, 0.7), (40, 33, 0.0), (20_000, 2000, 0.01), (20_000, 19_000, 0.5)],
        truth=lambda dim, keep, theta: 3 * keep,
        statement=lambda dim, keep, theta: _members(dim, keep, theta) + _moved_members(dim, keep),
        wrong=lambda dim, keep, theta: 3 * (dim - keep),
    ),
)

# --- distances and pure budgets ---------------------------------------------------------------------------------------
DISTANCES = ((7, 3), (8, 6), *SIZES, (20_000, 10_000), (2_700_032, 270_003))

SENSITIVITY = (
    ExactCheck(
        name="distance of two index sets at users' sizes, place by place",
        cases=lambda: DISTANCES,
        truth=apart,
        statement=lambda dim, keep: pruning.index_sensitivity(dim, keep),
        wrong=lambda dim, keep: 2 * keep,
    ),
    ExactCheck(
        name="most swaps: half the distance",
        cases=lambda: DISTANCES,
        truth=lambda dim, keep: apart(dim, keep) // 2,
        statement=lambda dim, keep: SubsetMallows(dim, keep, 1.0).max_swaps,
        wrong=lambda dim, keep: keep,
    ),
)

PURE = (
    ExactCheck(
        name="loss of a far pair at users' sizes",
        cases=lambda: DISTANCES,
        # P(A | A) / P(A | B) = weight^-distance: both laws have one normalisation
        truth=lambda dim, keep: -log_of(WEIGHT ** apart(dim, keep)),
        statement=lambda dim, keep: model_of(dim, keep, WEIGHT).epsilon(apart(dim, keep)),
        wrong=lambda dim, keep: model_of(dim, keep, WEIGHT).epsilon(apart(dim, keep) - 2),
        tolerance=1e-12,
    ),
    ExactCheck(
        name="theta for a budget at users' sizes spends all of it",
        cases=lambda: [(*size, *run) for size in DISTANCES for run in ((1, 1), (875, 1), (1, 10_547), (2500, 10_547))],
        truth=lambda dim, keep, steps, groups: 0.3,
        statement=lambda dim, keep, steps, groups: (
            steps * groups * pruning.theta_for_budget(0.3, dim, keep, steps, groups) * apart(dim, keep)
        ),
        wrong=lambda dim, keep, steps, groups: steps * pruning.theta_for_budget(0.3, dim, keep) * apart(dim, keep),
        tolerance=1e-12,
    ),
)


def _budget_field(field: str, epsilon: float, dim: int, keep: int, steps: int, groups: int) -> float:
    """theta, gain and the bound on the total variation, from the law of the swaps itself."""
    theta = Fraction(epsilon) / (steps * groups * apart(dim, keep))
    if field == "theta":
        return float(theta)
    weight = _exp_minus(theta)
    law, uniform = counted_swaps(dim, keep, weight), counted_swaps(dim, keep, Fraction(1))
    if field == "retained_gain":
        return float(1 - sum(i * p for i, p in law.items()) / sum(i * p for i, p in uniform.items()))
    # KL both ways: log(p / u) is -2 theta i and a constant, whose part cancels
    both_ways = -2 * theta * sum(i * (p - uniform[i]) for i, p in law.items())
    pinsker = math.sqrt(float(steps * groups * both_ways) / 2 / 2)
    half = math.exp(epsilon / 2)
    return min((half - 1) / (half + 1), pinsker)


def _exp_minus(theta: Fraction) -> Fraction:
    """e^-theta by its series, to 60 digits."""
    term, total = Fraction(1), Fraction(0)
    for n in range(1, 60):
        total += term
        term = Fraction(round(-term * theta / n * 10**80), 10**80)
    return total


_BUDGETS = tuple(
    (epsilon, *size, *run)
    for epsilon in (0.01, 3.0)
    for size in ((8, 3), (8, 6), *SIZES)
    for run in ((1, 1), (50, 1), (1, 40), (875, 10_547))
)

BUDGETS = (
    ExactCheck(
        name="what a budget buys, field by field, from the law of the swaps",
        cases=lambda: [(field, *b) for field in ("theta", "retained_gain", "total_variation") for b in _BUDGETS],
        truth=_budget_field,
        statement=lambda field, *budget: float(getattr(pruning.index_budget(*budget), field)),
        wrong=lambda field, *budget: 1.005 * _budget_field(field, *budget),
        tolerance=1e-9,
    ),
    ExactCheck(
        name="groups of a gradient, counted",
        cases=lambda: [(12, 3), (40, 40), (2_700_032, 256), (20_000_000, 5000)],
        truth=lambda dim, group: len(range(0, dim, group)),
        statement=lambda dim, group: pruning.groups_of(dim, group),
        wrong=lambda dim, group: pruning.groups_of(dim, group) + 1,
    ),
)
