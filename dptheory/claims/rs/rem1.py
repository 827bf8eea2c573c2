"""rs.rem1: masking noisy SGD."""

import itertools
import math
from fractions import Fraction

from dptheory.claims._row import Claim, Kind, Range, Row, Sides, Source, Verdict

row = Row(
    Claim(
        id="rs.rem1",
        title="masking noisy SGD",
        source=Source("rs", "Remark 1"),
        statement=r"""Theorem 3.2 suggests that in applying RS to noisy SGD or vanilla SGD the network may converge more slowly, as
$\lVert\nabla w_t\rVert^2$ has a larger upper bound for $0<r<1$; section 3.1 has it that for vanilla SGD "RS cannot provide any benefits". With $x = 1-r$ and $V = \sigma_g^2/B+d\sigma^2/B^2$
the bound is

$$\frac1T\sum_t\lVert\nabla w_t\rVert^2\le\frac{2G}{x\sqrt T}\Delta_{\mathcal L}+\frac V{\sqrt T}\qquad\text{at }\gamma = \frac1{G\sqrt T} .$$""",
        verdict=Verdict.CONDITIONAL,
        summary=(
            r"with a fresh mask and $\Delta_{\mathcal L}>0$ the upper bound of noisy SGD is larger for every "
            "$r>0$, also at the tuned learning rate; but it compares bounds, and a run can be ahead with the "
            "mask."
        ),
        conditions=(
            "Unstated: a mask drawn afresh at every step and no momentum. With the per-epoch mask of the algorithm "
            "Theorem 3.2 fails.",
            r"Unstated: $\Delta_{\mathcal L}>0$. For $\Delta_{\mathcal L} = 0$ the bounds are equal for all $r$.",
            "The remark compares upper bounds, not runs.",
        ),
        correction=r"""Under these conditions the bound is larger for $r>0$, at every fixed learning rate and also at the tuned one. The run
itself can be ahead with the mask: on $L = w^2/2$ exactly if it starts below the noise floor $\gamma V/(2-\gamma)$,
$V$ the variance of noise and batch together, $0<\gamma<2$. It may come from the batches alone, as in vanilla SGD.""",
        proved=True,
    )
)


def _noisy_bound(x: float, gap: float, variance: float) -> float:
    """min over g in (0, 1] of (gap / (x g) + g variance / 2) / (1 - g / 2): Theorem 3.2 before its choice of g, G = T = 1."""
    p, q = gap / x, variance / 2
    g = 2 * p / (p + math.sqrt(p * p + 4 * p * q))  # root of q g^2 + p g = p
    return (p / g + q * g) / (1 - g / 2)


def _strong_remark_slack(x: float, gap: float, variance: float) -> float:
    """Wrong statement: the tuned bound is larger by 1 / x."""
    return x * _noisy_bound(x, gap, variance) / _noisy_bound(1.0, gap, variance) - 1


@row.inequality(
    {
        "x": Range(1e-4, 1, log=True),
        "gap": Range(1e-6, 1e6, log=True),
        "variance": Range(1e-6, 1e6, log=True),
    },
    wrong=_strong_remark_slack,
)
def _tuned_remark_slack(x: float, gap: float, variance: float) -> float:
    """the bound is larger at the tuned rate too"""
    return _noisy_bound(x, gap, variance) / _noisy_bound(1.0, gap, variance) - 1


def _mean_squares(start: Fraction, gamma: Fraction, steps: int, keep: Fraction) -> Fraction:
    """Sum over t < steps of E w_t^2 for L = w^2 / 2, noise +-1 and a coordinate kept with chance ``keep``, outcome by outcome."""
    outcomes = ((keep / 2, True, 1), (keep / 2, True, -1), (1 - keep, False, 0))
    total = Fraction(0)
    for path in itertools.product(outcomes, repeat=steps - 1):
        chance, w, along = Fraction(1), start, start**2
        for probability, kept, noise in path:
            chance *= probability
            w = w - gamma * (w + noise) if kept else w
            along += w**2
        total += chance * along
    return total


def _masked_run_is_ahead(start: Fraction, gamma: Fraction) -> bool:
    """Five steps in fractions: mean square gradient with x = 1/2 below that without a mask."""
    return _mean_squares(start, gamma, 5, Fraction(1, 2)) < _mean_squares(start, gamma, 5, Fraction(1))


@row.equal(
    lambda: [(Fraction(s, 10), Fraction(g, 4)) for s in (0, 1, 4, 6, 20) for g in (1, 2, 4)], kind=Kind.COUNTEREXAMPLE
)
def _(start: Fraction, gamma: Fraction) -> Sides:
    """runs on w^2 / 2, five steps, all outcomes"""
    return start**2 < gamma / (2 - gamma), lambda: _masked_run_is_ahead(start, gamma), False
