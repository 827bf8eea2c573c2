import math
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
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


row = new_row(
    id="gip.order",
    source=Source("gip", "Proposition 2 and the text below it"),
    verdict=Verdict.CONDITIONAL,
    calculators=(pruning.retained_gain, pruning.perturbed_top_k_mse),
    figure="retained_gain",
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
