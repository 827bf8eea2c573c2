"""gip.budget: the paper's index budget buys nothing."""

import itertools
import math
from fractions import Fraction
from functools import partial

from dptheory import papers, pruning
from dptheory.claims._row import Claim, Range, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite
from dptheory.claims.gip._index_at_scale import SIZES, apart, counted_swaps
from dptheory.claims.gip.retained_gain import leading_gain

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


row = Row(
    Claim(
        id="gip.budget",
        title="the paper's index budget buys nothing",
        source=Source("gip", "new, on section 6.1 (budget share 0.01)"),
        ours=True,
        for_users=(
            "In the paper's setting indices drawn at random, which cost nothing, give practically the same run."
        ),
        statement=r"""Section 6.1 takes $\epsilon_2 = 0.01\epsilon$, the caption of Fig. 4 $\epsilon_2 = T\sum_i \epsilon_2^{(i)}$ (section 4.2
writes $\epsilon_2$ for the sum of one step; $\epsilon_1 = 0.99\epsilon$ fits the caption), and Theorem 1 turns it into $\theta$. $T$ steps with $G$ groups make $N = TG$ index releases, each with $K$ of $d$ ones ($d$ is the group size) and
$s = 2\min(K, d-K)$. With equal shares, $\theta = \epsilon_2/(Ns)$.

Two runs on the same data:

- *Run P*: release $n$ draws $I_n$ from the Mallows law with dispersion $\theta$ around the reference $R_n$, the top-k set
of its group.
- *Run U*: release $n$ draws $I_n$ uniformly from all index sets with $K$ ones (random-k).

Everything else that is drawn (initial weights, batches, Gaussian noise) follows the same rule in both runs. Let $\rho$ and
$\mu = K(d-K)/d$ be those of [gip.retained_gain](retained_gain.md). The total-variation distance of the two runs, transcripts
with all indices, gradients, noises and weights, satisfies

$$\mathrm{TV}(P, U) \le \min\left(\tanh\frac{\epsilon_2}4, \ \frac12\sqrt{2N\theta\rho\mu}\right).$$

In the paper's setting ($\epsilon_2 = 0.01$, $d = 256$, $G = 10547$) this is below $10^{-7}$ for a fixed $k = 0.1$ ($K = 26$)
and for the paper's linear schedule of $k$ from 1 to 0.1, and $\rho$ is a few times $10^{-12}$.""",
        verdict=Verdict.HOLDS,
        summary=(
            r"with $\epsilon_2 = 0.01$ shared over all steps and groups by basic composition, the whole run is "
            "within $10^{-7}$ in total variation of the same run with random-k, whatever the gradients."
        ),
        key_points=(
            (
                r"The question: what does the paper's index budget, 1 % of $\epsilon$ over all steps and groups, buy "
                "over choosing the indices at random?"
            ),
            (
                "Next to nothing: in the paper's setting at $\\epsilon = 1$ the two training runs differ by less than $10^{-7}$ in "
                "total variation, whatever the gradients. Their mean test accuracies differ by less than $10^{-5}$ "
                "points."
            ),
            (
                "Why: $N = TG$ releases share the budget. The bound on the distance is to first order "
                r"$\frac12\epsilon_2/\sqrt{N(d-1)}$: many small shares do less than one large one."
            ),
            (
                r"Remember: the retained gain $\rho$ is a few times $10^{-12}$ of what exact top-k gains over "
                "random-k."
            ),
            "Use `index_budget` before any budget is spent on indices.",
        ),
        conditions=(
            (
                "Pure basic composition over steps and groups, as in the paper; in equal shares, of which the paper says nothing. (In unequal shares "
                r"$\tanh\frac{\epsilon_2}4$ still holds, and $N\theta\rho\mu$ becomes a sum as in step 7 of the proof; the "
                "number $10^{-7}$ is for equal shares.) Amplification by sampling or another composition theorem would allow a "
                r"larger $\theta$."
            ),
            r"$0 \le \theta < \infty$ and exactly $K$ ones, $1 \le K \le d-1$, in every index set.",
            (
                "$R_n$ is a function of the data and of everything drawn before $I_n$. In particular it may depend on all "
                "earlier index sets (adaptive)."
            ),
            "Given everything drawn before, the law of every other draw is the same in both runs.",
            (
                "The two runs use the same schedule of $K$ and the same noise. (The paper gives GIP and random-k different "
                "schedules, and GIP slightly more noise; the difference that these make is not bounded here.)"
            ),
            (
                "The setting: WRN-16-4 has 2.7 million parameters, which make 10547 groups of 256; $k = 0.1$ gives $K = 26$ "
                r"after rounding, taken throughout (the linear schedule of $k$ gives the same to a factor of 2); $\epsilon = 1$; "
                r"875 is the number of steps of Table 2, which is for SVHN (none is printed for CIFAR-10), 2500 a longer run. $\theta$, $\rho$ and the bound are proportional to "
                r"$\epsilon_2$ to first order: for $\epsilon = 4$ four times as large."
            ),
        ),
        calculators=(pruning.index_budget, pruning.theta_for_budget, pruning.groups_of),
        proved=True,
        figure="retained_gain",
    )
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
