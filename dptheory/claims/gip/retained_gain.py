"""gip.retained_gain: retained gain for small theta."""

import math
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Claim, Row, Sides, Source, Verdict
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


row = Row(
    Claim(
        id="gip.retained_gain",
        title="retained gain for small theta",
        source=Source("gip", "new, on F(theta) of Proposition 2"),
        ours=True,
        for_users=(
            r"What is left of the gain of top-k at a given $\theta$ can be computed however small it is, before "
            "budget is spent."
        ),
        statement=r"""$F(\theta) = E_\theta[i]$, where $i$ is the number of swapped pairs of the Mallows law with $K = kd$ of $d$ ones:
$p_\theta(i) \propto \binom Ki\binom{d-K}i e^{-2\theta i}$ ([gip.alg_a2](alg_a2.md)); $\mu = E_0[i]$; $m = \min(K, d-K)$.
Define the retained gain

$$\rho = 1 - \frac{E_\theta[i]}{E_0[i]} .$$

For $\theta \ge 0$:

1. $\mu = K(d-K)/d$ and $\mathrm{Var}_0(i) = K^2(d-K)^2/(d^2(d-1))$.
2. $\rho$ rises strictly from 0 at $\theta = 0$ to 1 as $\theta \to \infty$.
3. $\left|\rho - 2\theta k(1-k)\frac d{d-1}\right| \le \theta^2m^2$.
4. $\rho = E_\theta[x(e^{2\theta x} - 1)]/\mu$ with $x = i - \mu$, and $x(e^{2\theta x} - 1) \ge 0$ for every $i$.
5. $\rho = P(j \in I) - P(l \in I)$ for any one $j$ and any zero $l$ of the reference: how much likelier a top entry is kept
than another one.

The name comes from [gip.order](order.md): $\rho$ is the share of the gain of top-k over random-k that survives.""",
        verdict=Verdict.HOLDS,
        summary=(
            r"$\rho = 2\theta k(1-k)\frac{d}{d-1} + O(\theta^2)$, and $\rho\mu$ is a sum of nonnegative terms, so it can be "
            r"computed without cancellation for every $\theta \ge 0$."
        ),
        key_points=(
            (
                r"The retained gain $\rho$ is the share of the gain of top-k over random-k that the Mallows mechanism "
                "leaves."
            ),
            r"It rises strictly from 0 at $\theta = 0$ to 1 as $\theta\to\infty$.",
            r"Remember: for small $\theta$ it is $2\theta k(1-k)\frac d{d-1}$, up to $\theta^2m^2$.",
            r"Use `retained_gain`, a sum of nonnegative terms, so that nothing cancels at small $\theta$.",
        ),
        conditions=(
            r"$1 \le K \le d - 1$ (otherwise there is one index set only and nothing to gain).",
            r"$\theta \ge 0$ for the signs in 2 and 4. The identity in 4 and the bound in 3 hold for negative $\theta$ too.",
            r"The $O(\theta^2)$ is for fixed $d$ and $K$; item 3 says how large it can be.",
        ),
        calculators=(pruning.retained_gain, pruning.SubsetMallows.retained_gain),
        proved=True,
        figure="retained_gain",
    )
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
