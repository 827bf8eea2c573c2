import itertools
import math
from fractions import Fraction

from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

row = new_row(
    id="rs.rem1",
    source=Source("rs", "Remark 1"),
    verdict=Verdict.CONDITIONAL,
)


def _noisy_bound(x: float, gap: float, variance: float) -> float:
    """min over g in (0, 1] of (gap / (x g) + g variance / 2) / (1 - g / 2): Theorem 3.2 before its choice of g, G = T = 1."""
    p, q = gap / x, variance / 2
    g = 2 * p / (p + math.sqrt(p * p + 4 * p * q))  # root of q g^2 + p g = p
    return (p / g + q * g) / (1 - g / 2)


@row.inequality(
    {
        "x": Range(1e-4, 1, log=True),
        "gap": Range(1e-6, 1e6, log=True),
        "variance": Range(1e-6, 1e6, log=True),
    },
    # wrong: the tuned bound is larger by 1 / x
    wrong=lambda x, gap, variance: x * _noisy_bound(x, gap, variance) / _noisy_bound(1.0, gap, variance) - 1,
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
