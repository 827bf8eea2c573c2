import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import papers, pruning
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._finite import LARGE_SIZES, WEIGHT, apart, counted_swaps, gain, log_comb, log_of, model_of
from dptheory.claims.gip.prop2 import leading_gain
from dptheory.pruning import SubsetMallows

_WEIGHTS = (Fraction(1, 2), Fraction(9, 10), Fraction(1))
_LAW_SIZE, _LAW_WEIGHT = (5, 2), Fraction(1, 2)


def _sampled_subset(rng: np.random.Generator, n: int) -> NDArray[np.intp]:
    """Index, in the order of :func:`_finite.subsets`, of n draws around the first subset."""
    dim, keep = _LAW_SIZE
    reference = np.zeros((n, dim), dtype=np.bool_)
    reference[:, :keep] = True
    drawn = pruning.SubsetMallows(dim, keep, theta=-math.log(_LAW_WEIGHT)).sample(reference, rng)
    codes = 1 << np.arange(dim)
    table = np.zeros(2**dim, dtype=np.intp)
    for place, subset in enumerate(_finite.subsets(dim, keep)):
        table[int(codes @ np.asarray(subset))] = place
    return np.asarray(table[drawn @ codes])


def _subset_law() -> Array:
    law = _finite.mallows(_finite.subsets(*_LAW_SIZE)[0], _LAW_WEIGHT)
    return np.array([float(p) for p in law.values()])


def _literal_law() -> Array:
    """The appendix taken at its word: i is the distance itself, P ~ e^{-theta i}, and i pairs are swapped."""
    reference = _finite.subsets(*_LAW_SIZE)[0]
    weights = [float(_LAW_WEIGHT) ** (_finite.hamming(s, reference) / 2) for s in _finite.subsets(*_LAW_SIZE)]
    return np.asarray(np.array(weights) / sum(weights))


def _swap_cases() -> Iterator[tuple[int, int, Fraction, int]]:
    for dim, keep in _finite.SIZES:
        for weight in _WEIGHTS:
            for swaps in range(min(keep, dim - keep) + 1):
                yield dim, keep, weight, swaps


_HALF = SubsetMallows(20_000, 10_000, theta=0.002)


def _half_law(swaps: int) -> float:
    """log P(i) for d = 2K, from the gamma function."""
    keep, theta = _HALF.keep, _HALF.theta
    i = np.arange(keep + 1.0)
    logs = 2 * log_comb(keep, i) - 2 * theta * i
    return float(logs[swaps] - scipy.special.logsumexp(logs))


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
    return int(SubsetMallows(dim, keep, theta=theta).sample(reference, np.random.default_rng(0)).sum())


def _moved_members(dim: int, keep: int) -> int:
    """Places in which the draw of almost no dispersion, or of none, differs from its reference."""
    reference = np.zeros(dim, dtype=np.bool_)
    reference[:keep] = True
    drawn = SubsetMallows(dim, keep, theta=400.0).sample(reference, np.random.default_rng(0))
    return int(np.count_nonzero(drawn ^ reference))


alg_a2 = new_row(
    id="gip.alg_a2",
    source=Source("gip", "Appendix A.2", (11,)),
    verdict=Verdict.CONDITIONAL,
    calculators=(
        pruning.SubsetMallows.swap_pmf,
        pruning.SubsetMallows.swap_log_pmf,
        pruning.SubsetMallows.sample,
    ),
)


@alg_a2.equal(_swap_cases, tolerance=1e-12)
def _(dim: int, keep: int, weight: Fraction, swaps: int) -> Sides:
    """law of the number of swaps"""
    return (
        pruning.SubsetMallows(dim, keep, theta=-math.log(weight)).swap_pmf()[swaps],
        lambda: _finite.swap_law(dim, keep, weight)[swaps],
        pruning.SubsetMallows(dim, keep, theta=-math.log(weight) / 2).swap_pmf()[swaps],
    )


@alg_a2.law(_sampled_subset, wrong=_literal_law, row_bytes=200)
def _() -> Array:
    """sampler against the enumerated law"""
    return _subset_law()


@alg_a2.equal(lambda: _swap_entries(((7, 3), (30, 4), *LARGE_SIZES)), tolerance=1e-11)
def _(what: str, dim: int, keep: int, swaps: int) -> Sides:
    """law of the swaps at users' sizes, in integers"""
    return (
        getattr(model_of(dim, keep, WEIGHT), what)()[swaps],
        lambda: _swap_entry(what, dim, keep, swaps),
        getattr(model_of(dim, keep, WEIGHT**2), what)()[swaps],
    )


@alg_a2.equal(lambda: [(swaps,) for swaps in (0, 4900, 4995, 5100, 10_000)], tolerance=1e-8)
def _(swaps: int) -> Sides:
    """law of ten thousand swaps, by the gamma function"""
    return (
        _HALF.swap_log_pmf()[swaps],
        lambda: _half_law(swaps),
        SubsetMallows(20_000, 10_000, theta=0.0).swap_log_pmf()[swaps],
    )


@alg_a2.equal((5, 2, 0.7), (40, 33, 0.0), (20_000, 2000, 0.01), (20_000, 19_000, 0.5))
def _(dim: int, keep: int, theta: float) -> Sides:
    """a draw has K members, and without dispersion those of its reference"""
    return _members(dim, keep, theta) + _moved_members(dim, keep), 3 * keep, 3 * (dim - keep)


PAPER_GROUP = papers.setting("gip.wrn-16-4.eps1").whole("group_size")
PAPER_KEEP, PAPER_STEPS = 26, (papers.setting("gip.timing").whole("steps"), 2500)
PAPER_GROUPS = pruning.groups_of(dim=2_700_032, group_size=PAPER_GROUP)
"""WRN-16-4: 2.7 M parameters (padded) in groups of 256, k = 0.1 (25.6 rounded), and two numbers of steps."""


def _paper_budget(**releases: int) -> pruning.IndexBudget:
    """What 1 % of epsilon = 1 buys for so many steps and groups."""
    return pruning.index_budget(epsilon=0.01, dim=PAPER_GROUP, keep=PAPER_KEEP, **releases)


def _product(law: list[Fraction], swaps: tuple[int, ...]) -> Fraction:
    return math.prod((law[i] for i in swaps), start=Fraction(1))


def _total_variation(dim: int, keep: int, weight: Fraction, releases: int) -> Fraction:
    """Exact TV between ``releases`` independent Mallows draws and as many uniform ones, by the law of the swaps."""
    mallows_law = _finite.swap_law(dim, keep, weight)
    uniform = _finite.swap_law(dim, keep, Fraction(1))
    total = Fraction(0)
    for swaps in itertools.product(range(len(uniform)), repeat=releases):
        total += abs(_product(mallows_law, swaps) - _product(uniform, swaps))
    return total / 2


def _budget_field(field: str, epsilon: float, dim: int, keep: int, steps: int, groups: int) -> float:
    """theta, gain and the bound on the total variation, from the law of the swaps itself."""
    theta = Fraction(epsilon) / (steps * groups * apart(dim, keep))
    if field == "theta":
        return float(theta)
    weight = _exp_minus(theta)
    if field == "retained_gain":
        return gain(dim, keep, weight)
    law, uniform = counted_swaps(dim, keep, weight), counted_swaps(dim, keep, Fraction(1))
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
    for size in ((8, 3), (8, 6), *LARGE_SIZES)
    for run in ((1, 1), (50, 1), (1, 40), (875, 10_547))
)


budget = new_row(
    id="gip.budget",
    source=Source("gip", "new, on section 6.1 (budget share 0.01)"),
    verdict=Verdict.HOLDS,
    calculators=(pruning.index_budget, pruning.theta_for_budget, pruning.groups_of),
    figure="retained_gain",
)


@budget.equal(lambda: [(steps,) for steps in PAPER_STEPS], tolerance=1e-12)
def _(steps: int) -> Sides:
    """the paper's setting: theta"""
    return (
        _paper_budget(steps=steps, groups=PAPER_GROUPS).theta,
        Fraction(1, 100) / (steps * PAPER_GROUPS * 2 * PAPER_KEEP),
        pruning.theta_for_budget(epsilon=0.01, dim=PAPER_GROUP, keep=PAPER_KEEP, steps=steps),
    )


@budget.equal(lambda: [(steps,) for steps in PAPER_STEPS])
def _(steps: int) -> Sides:
    """the paper's setting: statistically random-k"""
    found = _paper_budget(steps=steps, groups=PAPER_GROUPS)
    return found.total_variation < 1e-7, True, _paper_budget().total_variation < 1e-7


@budget.equal(lambda: [(steps,) for steps in PAPER_STEPS], tolerance=1e-9)
def _(steps: int) -> Sides:
    """the paper's setting: retained gain"""
    return (
        _paper_budget(steps=steps, groups=PAPER_GROUPS).retained_gain,
        lambda: leading_gain(PAPER_GROUP, PAPER_KEEP, 0.01 / (steps * PAPER_GROUPS * 2 * PAPER_KEEP)),
        _paper_budget(steps=steps).retained_gain,
    )


@budget.inequality(
    {
        "dim": Range(2, 6, integer=True),
        "keep_share": Range(0, 1),
        "epsilon": Range(0.01, 20, log=True),
        "releases": Range(1, 2, integer=True),
    },
    wrong=0.5,  # half the bound is still one
)
def _budget_slack(dim: float, keep_share: float, epsilon: float, releases: float) -> float:
    """bound on the total variation"""
    size, keep = _finite.sizes(dim, keep_share)
    bound = pruning.index_budget(epsilon=epsilon, dim=size, keep=keep, steps=round(releases))
    weight = Fraction(math.exp(-bound.theta))
    return 1.0 - float(_total_variation(size, keep, weight, round(releases))) / bound.total_variation


@budget.equal(
    lambda: [(field, *b) for field in ("theta", "retained_gain", "total_variation") for b in _BUDGETS], tolerance=1e-9
)
def _(field: str, epsilon: float, dim: int, keep: int, steps: int, groups: int) -> Sides:
    """what a budget buys, field by field, from the law of the swaps"""
    counted = partial(_budget_field, field, epsilon, dim, keep, steps, groups)
    return (
        getattr(pruning.index_budget(epsilon=epsilon, dim=dim, keep=keep, steps=steps, groups=groups), field),
        counted,
        1.005 * counted(),
    )


@budget.equal((12, 3), (40, 40), (2_700_032, 256), (20_000_000, 5000))
def _(dim: int, group: int) -> Sides:
    """groups of a gradient, counted"""
    return (
        pruning.groups_of(dim=dim, group_size=group),
        lambda: len(range(0, dim, group)),
        pruning.groups_of(dim=dim, group_size=group) + 1,
    )
