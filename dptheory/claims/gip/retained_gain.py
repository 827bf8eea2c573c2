import math
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gip.eq21 import swap_count


def leading_gain(dim: int, keep: int, theta: float) -> float:
    """2 theta k (1 - k) d / (d - 1)."""
    return 2 * theta * keep * (dim - keep) / (dim * (dim - 1))


def gain(dim: int, keep: int, weight: Fraction) -> float:
    """rho by enumeration over the swaps, in fractions to the last step."""
    law = [swap_count(dim, keep, i) * weight ** (2 * i) for i in range(min(keep, dim - keep) + 1)]
    mean = sum(i * p for i, p in enumerate(law)) / sum(law)
    return float(1 - mean / Fraction(keep * (dim - keep), dim))


def _naive_gain(dim: int, keep: int, weight: Fraction) -> float:
    """rho as one minus a quotient of means: loses all digits for small theta."""
    swaps = pruning.SubsetMallows(dim, keep, theta=_theta(weight)).mean_swaps()
    return float(1 - swaps / (keep * (dim - keep) / dim))


def _theta(weight: Fraction) -> float:
    return -math.log1p(float(weight - 1))


row = new_row(
    id="gip.retained_gain",
    source=Source("gip", "new, on F(theta) of Proposition 2"),
    verdict=Verdict.HOLDS,
    calculators=(pruning.retained_gain, pruning.SubsetMallows.retained_gain),
    figure="retained_gain",
)


@row.equal(
    lambda: [
        (*size, 1 - Fraction(1, 10**n))
        for size in ((2, 1), (8, 3), (30, 3), (256, 26), (256, 128))
        for n in (15, 11, 6, 2, 1)
    ],
    tolerance=1e-12,
)
def _(dim: int, keep: int, weight: Fraction) -> Sides:
    """against fractions, down to theta = 1e-15"""
    return (
        pruning.retained_gain(dim, keep, theta=_theta(weight)),
        lambda: gain(dim, keep, weight),
        _naive_gain(dim, keep, weight),
    )


@row.equal((256, 26, 1e-9), (1000, 500, 1e-9), (2, 1, 1e-9), (10**6, 10**5, 1e-12), tolerance=1e-6)
def _(dim: int, keep: int, theta: float) -> Sides:
    """leading term"""
    return (
        pruning.retained_gain(dim, keep, theta=theta),
        lambda: leading_gain(dim, keep, theta),
        2 * theta * keep * (dim - keep) / dim**2,
    )
