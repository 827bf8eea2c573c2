import itertools
import math
from fractions import Fraction
from functools import partial

from dptheory import papers, pruning
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._at_scale import SIZES, apart, counted_swaps
from dptheory.claims.gip.prop2 import leading_gain

PAPER_GROUP = papers.setting("gip.wrn-16-4.eps1").whole("group_size")
PAPER_KEEP, PAPER_STEPS = 26, (papers.setting("gip.timing").whole("steps"), 2500)
PAPER_GROUPS = pruning.groups_of(dim=2_700_032, group_size=PAPER_GROUP)
"""WRN-16-4: 2.7 M parameters (padded) in groups of 256, k = 0.1 (25.6 rounded), and two numbers of steps."""


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


def _halved_budget_slack(**point: float) -> float:
    return _budget_slack(**point) - 0.5  # the bound halved would still have to be >= the exact value


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


row = new_row(
    id="gip.budget",
    source=Source("gip", "new, on section 6.1 (budget share 0.01)"),
    verdict=Verdict.HOLDS,
    calculators=(pruning.index_budget, pruning.theta_for_budget, pruning.groups_of),
    figure="retained_gain",
)


@row.equal(lambda: [(steps,) for steps in PAPER_STEPS], tolerance=1e-12)
def _(steps: int) -> Sides:
    """the paper's setting: theta"""
    return (
        pruning.index_budget(epsilon=0.01, dim=PAPER_GROUP, keep=PAPER_KEEP, steps=steps, groups=PAPER_GROUPS).theta,
        Fraction(1, 100) / (steps * PAPER_GROUPS * 2 * PAPER_KEEP),
        pruning.theta_for_budget(epsilon=0.01, dim=PAPER_GROUP, keep=PAPER_KEEP, steps=steps),
    )


@row.equal(lambda: [(steps,) for steps in PAPER_STEPS])
def _(steps: int) -> Sides:
    """the paper's setting: statistically random-k"""
    return (
        pruning.index_budget(
            epsilon=0.01, dim=PAPER_GROUP, keep=PAPER_KEEP, steps=steps, groups=PAPER_GROUPS
        ).total_variation
        < 1e-7,
        True,
        pruning.index_budget(epsilon=0.01, dim=PAPER_GROUP, keep=PAPER_KEEP).total_variation < 1e-7,
    )


@row.equal(lambda: [(steps,) for steps in PAPER_STEPS], tolerance=1e-9)
def _(steps: int) -> Sides:
    """the paper's setting: retained gain"""
    return (
        pruning.index_budget(
            epsilon=0.01, dim=PAPER_GROUP, keep=PAPER_KEEP, steps=steps, groups=PAPER_GROUPS
        ).retained_gain,
        lambda: leading_gain(PAPER_GROUP, PAPER_KEEP, 0.01 / (steps * PAPER_GROUPS * 2 * PAPER_KEEP)),
        pruning.index_budget(epsilon=0.01, dim=PAPER_GROUP, keep=PAPER_KEEP, steps=steps).retained_gain,
    )


@row.inequality(
    {
        "dim": Range(2, 6, integer=True),
        "keep_share": Range(0, 1),
        "epsilon": Range(0.01, 20, log=True),
        "releases": Range(1, 2, integer=True),
    },
    wrong=_halved_budget_slack,
)
def _budget_slack(dim: float, keep_share: float, epsilon: float, releases: float) -> float:
    """bound on the total variation"""
    size, keep = _finite.sizes(dim, keep_share)
    bound = pruning.index_budget(epsilon=epsilon, dim=size, keep=keep, steps=round(releases))
    weight = Fraction(math.exp(-bound.theta))
    return 1.0 - float(_total_variation(size, keep, weight, round(releases))) / bound.total_variation


@row.equal(
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


@row.equal((12, 3), (40, 40), (2_700_032, 256), (20_000_000, 5000))
def _(dim: int, group: int) -> Sides:
    """groups of a gradient, counted"""
    return (
        pruning.groups_of(dim=dim, group_size=group),
        lambda: len(range(0, dim, group)),
        pruning.groups_of(dim=dim, group_size=group) + 1,
    )
