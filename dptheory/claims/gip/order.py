"""gip.order: order of the pruning MSEs."""

import math
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Claim, Kind, Range, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite


def _gain_ratio(dim: int, keep: int, weight: Fraction) -> float:
    """(MSE_r - MSE_t) / (MSE_r - MSE_t0) of a fixed gradient, by enumeration."""
    gradient = _finite.VECTORS[dim]
    random = _finite.perturbed_loss(gradient, keep, Fraction(1))
    top = _finite.lost_energy(gradient, _finite.top_subset(gradient, keep))
    return float((random - _finite.perturbed_loss(gradient, keep, weight)) / (random - top))


def _order_holds(gradient: tuple[int, ...], keep: int, weight: Fraction) -> bool:
    """MSE_t0 < MSE_t <= MSE_r by enumeration."""
    top = _finite.lost_energy(gradient, _finite.top_subset(gradient, keep))
    perturbed = _finite.perturbed_loss(gradient, keep, weight)
    return top < perturbed <= _finite.perturbed_loss(gradient, keep, Fraction(1))


def _linear_slack(dim: float, keep_share: float, theta: float, growth: float) -> float:
    """Wrong statement: rho stays below its leading term 2 theta k (1 - k)."""
    size, keep = _finite.sizes(dim, keep_share)
    return 2 * theta * keep * (size - keep) / size**2 - pruning.retained_gain(size, keep, theta=theta)


row = Row(
    Claim(
        id="gip.order",
        title="order of the pruning MSEs",
        source=Source("gip", "Proposition 2 and the text below it"),
        statement=r"""$\mathrm{MSE}_{t0}<\mathrm{MSE}_t\le\mathrm{MSE}_r$, where $t0$ is exact top-k, $t$ is top-k perturbed by the Mallows
model with dispersion $\theta$, and $r$ is random-k.""",
        verdict=Verdict.CONDITIONAL,
        summary=(
            r"true for finite $\theta\ge0$, $1\le K<d$ and a gradient whose entries are not all of equal size (almost sure "
            "under Assumption 1); without these one of the two inequalities fails."
        ),
        key_points=(
            "Claimed: exact top-k loses less than perturbed top-k, and that loses no more than random-k.",
            (
                r"True for finite $\theta\ge0$, $1\le K<d$ and entries that are not all of equal size, for every "
                "fixed gradient."
            ),
            (
                r"Remember: perturbed top-k keeps exactly the share $\rho(\theta)$ of the gain of top-k over "
                "random-k, whatever the gradient."
            ),
            "Use `retained_gain`.",
        ),
        conditions=(
            r"Stated (section 3): $\theta\ge0$, as the probability rises towards the reference.",
            (
                r"Unstated, for the strict part: $\theta$ finite, $k<1$, and not all $|g_j|$ equal. Ties across the threshold do "
                "no harm as long as two entries differ."
            ),
            (
                r"Assumption 1 is not needed. For a random $g$ with $E\lVert g\rVert^2<\infty$ the same holds for the expected "
                r"errors if $P(\text{all }|g_j|\text{ equal})<1$; under Assumption 1 with $\sigma_g>0$ and $d\ge2$ this "
                "probability is 0."
            ),
        ),
        correction=r"""For any fixed $g\in\mathbb R^d$ and $1\le K<d$, with $E_\theta[i]$ the mean number of swapped pairs and
$\rho(\theta) = 1-E_\theta[i]/E_0[i]$:

- (a) $\mathrm{MSE}_ r\ge\mathrm{MSE}_{t0}$, with equality if and only if all $|g_j|$ are equal;
- (b) $\mathrm{MSE}_ r-\mathrm{MSE}_ t = \rho(\theta)(\mathrm{MSE}_ r-\mathrm{MSE}_{t0})$;
- (c) $\rho$ is strictly increasing in $\theta$, $\rho(0) = 0$, $\rho(\theta)<1$ for finite $\theta$ and $\rho(\infty) = 1$.

So if not all $|g_j|$ are equal: $\mathrm{MSE}_ t\le\mathrm{MSE}_ r$ if and only if $\theta\ge0$, and
$\mathrm{MSE}_{t0}<\mathrm{MSE}_t$ if and only if $\theta<\infty$.""",
        calculators=(pruning.retained_gain, pruning.perturbed_top_k_mse),
        proved=True,
        figure="retained_gain",
    )
)


@row.equal(lambda: [(*size, w) for size in _finite.SIZES for w in (Fraction(1, 3), Fraction(9, 10))], tolerance=1e-12)
def _(dim: int, keep: int, weight: Fraction) -> Sides:
    """share of the gain, any fixed gradient"""
    return (
        pruning.retained_gain(dim, keep, theta=-math.log(weight)),
        lambda: _gain_ratio(dim, keep, weight),
        pruning.retained_gain(dim, keep, theta=-math.log(weight)) ** 2,
    )


@row.equal(
    ((2, 1), 1, Fraction(2), False),  # theta = -log 2
    ((1, 1), 1, Fraction(1, 2), False),  # all entries equal
    ((2, 1, 1), 2, Fraction(1, 2), True),  # a tie across the threshold does no harm
    ((2, 1), 1, Fraction(0), False),  # theta = inf
    ((2, 1), 1, Fraction(1, 2), True),
    kind=Kind.COUNTEREXAMPLE,
)
def _(gradient: tuple[int, ...], keep: int, weight: Fraction, conditions: bool) -> Sides:
    """conditions are needed"""
    return conditions, lambda: _order_holds(gradient, keep, weight), True


@row.inequality(
    {
        "dim": Range(2, 500, log=True),
        "keep_share": Range(0, 1),
        "theta": Range(1e-12, 50, log=True),
        "growth": Range(1.001, 10),
    },
    wrong=_linear_slack,
)
def _rise_slack(dim: float, keep_share: float, theta: float, growth: float) -> float:
    """rho in [0, 1] and rising in theta"""
    size, keep = _finite.sizes(dim, keep_share)
    below, above = (pruning.retained_gain(size, keep, theta=t) for t in (theta, theta * growth))
    return min(below, above / below - 1, 1 - above)
