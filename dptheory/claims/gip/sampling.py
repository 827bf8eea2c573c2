"""GIP: the sampler of the Mallows law, what a budget buys, and the retained gain."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptheory import pruning
from dptheory.checks import ExactCheck, LawCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gip import _finite, _index_at_scale

_WEIGHTS = (Fraction(1, 2), Fraction(9, 10), Fraction(1))

# --- gip.alg_a2 -------------------------------------------------------------------------------------------------------

_LAW_SIZE, _LAW_WEIGHT = (5, 2), Fraction(1, 2)


def _sampled_subset(rng: np.random.Generator, n: int) -> NDArray[np.intp]:
    """Index, in the order of :func:`_finite.subsets`, of n draws around the first subset."""
    dim, keep = _LAW_SIZE
    reference = np.zeros((n, dim), dtype=np.bool_)
    reference[:, :keep] = True
    drawn = pruning.SubsetMallows(dim, keep, -math.log(_LAW_WEIGHT)).sample(reference, rng)
    codes = 1 << np.arange(dim)
    table = np.zeros(2**dim, dtype=np.intp)
    for place, subset in enumerate(_finite.subsets(dim, keep)):
        table[int(codes @ np.asarray(subset))] = place
    return np.asarray(table[drawn @ codes])


def _subset_law() -> NDArray[np.float64]:
    law = _finite.mallows(_finite.subsets(*_LAW_SIZE)[0], _LAW_WEIGHT)
    return np.array([float(p) for p in law.values()])


def _literal_law() -> NDArray[np.float64]:
    """The appendix taken at its word: i is the distance itself, P ~ e^{-theta i}, and i pairs are swapped."""
    reference = _finite.subsets(*_LAW_SIZE)[0]
    weights = [float(_LAW_WEIGHT) ** (_finite.hamming(s, reference) / 2) for s in _finite.subsets(*_LAW_SIZE)]
    return np.asarray(np.array(weights) / sum(weights))


def _swap_probability(dim: int, keep: int, weight: Fraction, swaps: int) -> float:
    return float(_finite.swap_law(dim, keep, weight)[swaps])


def _swap_cases() -> Iterator[tuple[int, int, Fraction, int]]:
    for dim, keep in _finite.SIZES:
        for weight in _WEIGHTS:
            for swaps in range(min(keep, dim - keep) + 1):
                yield dim, keep, weight, swaps


def swap_count(dim: int, keep: int, swaps: int) -> int:
    """Equation 21: number of k-subsets at Hamming distance 2 * swaps from a given one."""
    return math.comb(keep, swaps) * math.comb(dim - keep, swaps)


_ALG_A2 = Claim(
    id="gip.alg_a2",
    title="sampler of the Mallows law",
    source=Source("gip", "Appendix A.2", (11,)),
    statement=r"Drawing the number $i$ of swapped pairs from $P(i) \propto \binom{K}{i}\binom{d-K}{i} e^{-2\theta i}$ and "
    r"then $i$ ones and $i$ zeros uniformly gives the Mallows law.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "the drawn 'distance' i is half the L1 distance, as equation 11 has it; the text below it says the distance",
    ),
    correction=r"$i$ is the number of swapped pairs: Fisher's noncentral hypergeometric law with odds $e^{-2\theta}$.",
    calculators=(
        pruning.SubsetMallows.swap_pmf,
        pruning.SubsetMallows.swap_log_pmf,
        pruning.SubsetMallows.sample,
    ),
    checks=(
        ExactCheck(
            name="law of the number of swaps",
            cases=_swap_cases,
            truth=_swap_probability,
            statement=lambda dim, keep, weight, swaps: float(
                pruning.SubsetMallows(dim, keep, -math.log(weight)).swap_pmf()[swaps]
            ),
            wrong=lambda dim, keep, weight, swaps: float(
                pruning.SubsetMallows(dim, keep, -math.log(weight) / 2).swap_pmf()[swaps]
            ),
            tolerance=1e-12,
        ),
        LawCheck(
            name="sampler against the enumerated law",
            sampler=_sampled_subset,
            law=_subset_law,
            wrong=_literal_law,
            row_bytes=200,
        ),
        *_index_at_scale.SWAPS,
    ),
    proved=True,
)

_EQ21 = Claim(
    id="gip.eq21",
    title="number of index sets at a distance",
    source=Source("gip", "Appendix A.3", (20, 21)),
    statement=r"There are $\binom{K}{i}\binom{d-K}{i}$ index sets with $K$ ones at L1 distance $2i$ from a given one, and none "
    r"at an odd distance.",
    verdict=Verdict.HOLDS,
    conditions=("i runs to min(K, d - K); the printed upper end K adds zero terms only",),
    checks=(
        ExactCheck(
            name="count by enumeration",
            cases=lambda: [(*size, i) for size in _finite.SIZES for i in range(size[0] + 1)],
            truth=lambda dim, keep, i: sum(
                _finite.hamming(_finite.subsets(dim, keep)[0], s) == 2 * i for s in _finite.subsets(dim, keep)
            ),
            statement=swap_count,
            wrong=lambda dim, keep, i: math.comb(keep, i) * math.comb(dim, i),
        ),
    ),
    proved=True,
)

# --- gip.budget -------------------------------------------------------------------------------------------------------

PAPER_GROUP, PAPER_KEEP, PAPER_STEPS = 256, 26, (875, 2500)
PAPER_GROUPS = pruning.groups_of(2_700_032, PAPER_GROUP)
"""WRN-16-4: 2.7 M parameters (padded) in groups of 256, k = 0.1 (25.6 rounded), and two numbers of steps."""


def _product(law: list[Fraction], swaps: tuple[int, ...]) -> Fraction:
    return math.prod((law[i] for i in swaps), start=Fraction(1))


def _leading_gain(dim: int, keep: int, theta: float) -> float:
    """2 theta k (1 - k) d / (d - 1)."""
    return 2 * theta * keep * (dim - keep) / (dim * (dim - 1))


def _total_variation(dim: int, keep: int, weight: Fraction, releases: int) -> Fraction:
    """Exact TV between ``releases`` independent Mallows draws and as many uniform ones, by the law of the swaps."""
    mallows_law = _finite.swap_law(dim, keep, weight)
    uniform = _finite.swap_law(dim, keep, Fraction(1))
    total = Fraction(0)
    for swaps in itertools.product(range(len(uniform)), repeat=releases):
        total += abs(_product(mallows_law, swaps) - _product(uniform, swaps))
    return total / 2


def _budget_slack(dim: float, keep_share: float, epsilon: float, releases: float) -> float:
    size, keep = _finite.sizes(dim, keep_share)
    bound = pruning.index_budget(epsilon, size, keep, steps=round(releases))
    weight = Fraction(math.exp(-bound.theta))
    return 1.0 - float(_total_variation(size, keep, weight, round(releases))) / bound.total_variation


def _halved_budget_slack(**point: float) -> float:
    return _budget_slack(**point) - 0.5  # the bound halved would still have to be >= the exact value


_BUDGET = Claim(
    id="gip.budget",
    title="the paper's index budget buys nothing",
    source=Source("gip", "new, on section 6.1 (budget share 0.01)"),
    ours=True,
    statement=r"With $\epsilon_2$ shared over $T$ steps and $G$ groups by basic composition, $\theta = \epsilon_2/(TGs)$; the "
    r"total-variation distance of the whole run's indices from random-$k$ is at most "
    r"$\min(\tanh(\epsilon_2/4), \frac12\sqrt{2TG\theta\rho\mu})$, $\mu = K(d-K)/d$. In the paper's setting it is below "
    r"$10^{-7}$, and $\rho$ a few times $10^{-12}$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "basic composition in equal shares over steps and groups, as in the paper; theta >= 0",
        "the two runs share data, keep schedule and noise",
        "the paper's setting is taken with K = 26 of 256 throughout; its linear schedule of k gives the same to a factor of 2",
    ),
    calculators=(pruning.index_budget, pruning.theta_for_budget, pruning.groups_of),
    checks=(
        ExactCheck(
            name="the paper's setting: theta",
            cases=lambda: [(steps,) for steps in PAPER_STEPS],
            truth=lambda steps: float(Fraction(1, 100) / (steps * PAPER_GROUPS * 2 * PAPER_KEEP)),
            statement=lambda steps: pruning.index_budget(0.01, PAPER_GROUP, PAPER_KEEP, steps, PAPER_GROUPS).theta,
            wrong=lambda steps: pruning.theta_for_budget(0.01, PAPER_GROUP, PAPER_KEEP, steps),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="the paper's setting: statistically random-k",
            cases=lambda: [(steps,) for steps in PAPER_STEPS],
            truth=lambda steps: True,
            statement=lambda steps: (
                pruning.index_budget(0.01, PAPER_GROUP, PAPER_KEEP, steps, PAPER_GROUPS).total_variation < 1e-7
            ),
            wrong=lambda steps: pruning.index_budget(0.01, PAPER_GROUP, PAPER_KEEP).total_variation < 1e-7,
        ),
        ExactCheck(
            name="the paper's setting: retained gain",
            cases=lambda: [(steps,) for steps in PAPER_STEPS],
            truth=lambda steps: _leading_gain(PAPER_GROUP, PAPER_KEEP, 0.01 / (steps * PAPER_GROUPS * 2 * PAPER_KEEP)),
            statement=lambda steps: (
                pruning.index_budget(0.01, PAPER_GROUP, PAPER_KEEP, steps, PAPER_GROUPS).retained_gain
            ),
            wrong=lambda steps: pruning.index_budget(0.01, PAPER_GROUP, PAPER_KEEP, steps).retained_gain,
            tolerance=1e-9,
        ),
        SearchCheck(
            name="bound on the total variation",
            box={
                "dim": Range(2, 6, integer=True),
                "keep_share": Range(0, 1),
                "epsilon": Range(0.01, 20, log=True),
                "releases": Range(1, 2, integer=True),
            },
            slack=_budget_slack,
            wrong=_halved_budget_slack,
        ),
        *_index_at_scale.BUDGETS,
    ),
    proved=True,
    figure="retained_gain",
)


def gain(dim: int, keep: int, weight: Fraction) -> float:
    """rho by enumeration over the swaps, in fractions to the last step."""
    law = [swap_count(dim, keep, i) * weight ** (2 * i) for i in range(min(keep, dim - keep) + 1)]
    mean = sum(i * p for i, p in enumerate(law)) / sum(law)
    return float(1 - mean / Fraction(keep * (dim - keep), dim))


def _naive_gain(dim: int, keep: int, weight: Fraction) -> float:
    """rho as one minus a quotient of means: loses all digits for small theta."""
    swaps = pruning.SubsetMallows(dim, keep, _theta(weight)).mean_swaps()
    return float(1 - swaps / (keep * (dim - keep) / dim))


def _theta(weight: Fraction) -> float:
    return -math.log1p(float(weight - 1))


_GAIN = Claim(
    id="gip.retained_gain",
    title="retained gain for small theta",
    source=Source("gip", "new, on F(theta) of Proposition 2"),
    ours=True,
    statement=r"$\rho = 1 - E[i]/E_0[i] = 2\theta k(1-k)\frac{d}{d-1} + O(\theta^2)$; "
    r"$\rho = E_\theta[x(e^{2\theta x}-1)]/\mu$ with $x = i - \mu$ is a sum of nonnegative terms.",
    verdict=Verdict.HOLDS,
    conditions=("theta >= 0",),
    calculators=(pruning.retained_gain, pruning.SubsetMallows.retained_gain),
    checks=(
        ExactCheck(
            name="against fractions, down to theta = 1e-15",
            cases=lambda: [
                (*size, 1 - Fraction(1, 10**n))
                for size in ((2, 1), (8, 3), (30, 3), (256, 26), (256, 128))
                for n in (15, 11, 6, 2, 1)
            ],
            truth=gain,
            statement=lambda dim, keep, weight: pruning.retained_gain(dim, keep, _theta(weight)),
            wrong=_naive_gain,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="leading term",
            cases=lambda: [(256, 26, 1e-9), (1000, 500, 1e-9), (2, 1, 1e-9), (10**6, 10**5, 1e-12)],
            truth=_leading_gain,
            statement=lambda dim, keep, theta: pruning.retained_gain(dim, keep, theta),
            wrong=lambda dim, keep, theta: 2 * theta * keep * (dim - keep) / dim**2,
            tolerance=1e-6,
        ),
    ),
    proved=True,
    figure="retained_gain",
)

CLAIMS = (_ALG_A2, _EQ21, _BUDGET, _GAIN)
