import math
from fractions import Fraction

from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

row = new_row(
    id="rs.eq63",
    source=Source("rs", "Appendix B.3", (63,)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
)


def _condition_at_minimum(spread: Fraction, clip: Fraction, rate: Fraction) -> bool:
    """L(w) = E (w - x)^2 / 2 for x = +-spread: deviations at its minimum against equation 63, by enumeration."""
    minimum = Fraction(0)
    gradients = [minimum - x for x in (spread, -spread)]
    mean = sum(gradients, Fraction(0)) / 2
    below = Fraction(sum(abs(g - mean) < Fraction(3, 4) * clip for g in gradients), 2)
    return below**2 >= 1 - rate


@row.equal(
    lambda: [(Fraction(a, 4), Fraction(1), Fraction(r, 10)) for a in (1, 2, 3, 4, 40) for r in (1, 5, 9)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(spread: Fraction, clip: Fraction, rate: Fraction) -> Sides:
    """the minimum of E (w - x)^2 / 2, x = +-a"""
    return spread < Fraction(3, 4) * clip, lambda: _condition_at_minimum(spread, clip, rate), True


def _bias(weight: Fraction, proxy: Fraction, spread: Fraction) -> Fraction:
    """b = E <w, clip(w + xi)> of xi = +-spread less that of the proxy law +-proxy, one dimension, C = 1."""

    def mean(size: Fraction) -> Fraction:
        clipped = [max(Fraction(-1), min(Fraction(1), weight + xi)) for xi in (size, -size)]
        return weight * sum(clipped, Fraction(0)) / 2

    return mean(spread) - mean(proxy)


@row.equal(
    lambda: [(Fraction(w, 16), Fraction(a, 8), Fraction(1)) for w in (-4, -1, 2, 4) for a in (0, 3, 5)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(weight: Fraction, proxy: Fraction, spread: Fraction) -> Sides:
    """the bias where all deviations have norm C, proxy law +-a: half of what is bounded"""
    # wrong: no bias
    return -abs(weight) * min(abs(weight), Fraction(1, 4)) / 2, lambda: _bias(weight, proxy, spread), Fraction(0)


def _twice_markov_slack(share: float, size: float, keep_share: float) -> float:
    """Wrong statement: twice that second moment is enough."""
    return _markov_slack(2 * share, size, keep_share)


@row.inequality(
    {"share": Range(0, 1), "size": Range(0.75, 10, log=True), "keep_share": Range(0.01, 0.99)},
    wrong=_twice_markov_slack,
)
def _markov_slack(share: float, size: float, keep_share: float) -> float:
    """second moment that is enough

    Two-point deviations 0 and size (C = 1) with E|xi|^2 at the stated limit: P against sqrt x.
    """
    root = math.sqrt(keep_share)
    limit = 9 / 16 * (1 - root)
    probability = min(1.0, share * limit / size**2)
    below = 1.0 if size < 0.75 else 1.0 - probability
    return below / root - 1
