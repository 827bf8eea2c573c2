import itertools
import math
from collections.abc import Callable

import numpy as np
import scipy

from dptheory import privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs._one_run import gaussian_lines, worst_chance
from dptheory.privacy.auditing._one_run import _inverse_curve, _least_mass

row = new_row(
    id="rs.one_run_curve",
    source=Source("rs", "new, on Theorem 3.1"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.auditing.one_run_epsilon,),
)

_EPSILONS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.5)
_ROUNDING = 1e-9


def most_chance(inverse_curve: Callable[[float], float], hits: int, guesses: int, canaries: int) -> float:
    """The probability of so many hits at which all outcomes together have the probability 1."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if _least_mass(inverse_curve, hits, guesses, canaries, middle) <= 1 else (low, middle)
        )
    return high


def curve_of(lines: tuple[tuple[float, float], ...]) -> Callable[[float], float]:
    """The least false positive rate at a true positive rate: the larger of the lines of every (epsilon, delta), both ways."""
    return lambda right: max(
        0.0,
        *(1 - delta - math.exp(e) * (1 - right) for e, delta in lines),
        *(math.exp(-e) * (right - delta) for e, delta in lines),
    )


def _gaussian(mu: float) -> Callable[[float], float]:
    """The same of a Gaussian release, in closed form."""
    return lambda right: float(scipy.special.ndtr(scipy.special.ndtri(min(right, 1.0)) - mu))


_SMALL = [
    (canaries, guesses, hits, mu)
    for canaries, guesses in ((1, 1), (2, 1), (2, 2), (3, 2), (3, 3))
    for hits in range(1, guesses + 1)
    for mu in (0.3, 1.0, 2.0)
]


@row.equal(lambda: _SMALL)
def _(canaries: int, guesses: int, hits: int, mu: float) -> Sides:
    """no mechanism on up to three coins that is private along a Gaussian curve has more hits, by linear programming"""
    lines = gaussian_lines(mu, _EPSILONS)
    most = worst_chance(canaries, guesses, hits, lines)
    weaker = gaussian_lines(mu / 4, _EPSILONS)
    return (
        most <= most_chance(curve_of(lines), hits, guesses, canaries) + _ROUNDING,
        True,
        lambda: most <= most_chance(curve_of(weaker), hits, guesses, canaries) + _ROUNDING,
    )


@row.equal(*((mu,) for mu in (0.3, 1.0, 2.0)), tolerance=1e-8)
def _(mu: float) -> Sides:
    """one coin: the worst mechanism attains it"""
    lines = gaussian_lines(mu, _EPSILONS)
    found = most_chance(curve_of(lines), 1, 1, 1)
    return found, lambda: worst_chance(1, 1, 1, lines), 1.01 * found


# off by d^2 / 2 times the density of the loss over its tail under Q, relative to it: lines are at most 0.5 apart, so d <= 0.25, and
# that quotient is at most 2.7 in these cases (5.3 at z = 5.1, over mu = 2)
@row.equal(*itertools.product((0.5, 1.0, 2.0), (0.001, 0.05, 0.3, 0.9)), tolerance=0.085)
def _(mu: float, right: float) -> Sides:
    """the lines of a Gaussian release lie below its curve, and near it"""
    run = privacy.Composition((privacy.Step(noise_multiplier=1 / mu, sampling_rate=1.0, count=1),))
    normal = scipy.stats.norm
    truth = float(normal.cdf(normal.ppf(right) - mu))
    found = _inverse_curve(run, 0.001)(right)
    return found if found <= truth else math.inf, truth, right


def _slack(more: float, hits: int, level: float, mu: float, share: float, spread: float) -> float:
    """How much the least mass grows where some of the hits are beyond the least number, step by step as on the page."""
    guesses, canaries = 12, 20
    inverse = _gaussian(mu)
    # probabilities of hits and of hits + 1, then at each step what is asked for or more
    beyond = share * level if hits < guesses else 0.0
    right = (level * hits + beyond) / canaries
    wrong = (level * (guesses - hits) - beyond) / canaries
    mass = level
    for count in range(hits, 0, -1):
        needed = max(0.0, inverse(right) - wrong) * canaries / (guesses - count + 1)
        added = needed + spread * more / guesses
        mass += added
        right += added * (count - 1) / canaries
        wrong += added * (guesses - count + 1) / canaries
    return mass - _least_mass(inverse, hits, guesses, canaries, level)


def _from_one_more(more: float, hits: int, level: float, mu: float, share: float, spread: float) -> float:
    """Wrong statement: the least mass is that of one hit more."""
    low = _slack(more, hits, level, mu, share, spread)
    inverse = _gaussian(mu)
    return low + _least_mass(inverse, hits, 12, 20, level) - _least_mass(inverse, min(hits + 1, 12), 12, 20, level)


@row.inequality(
    {
        "more": Range(0.0, 1.0),
        "hits": Range(1, 11, integer=True),
        "level": Range(0.01, 0.9),
        "mu": Range(0.05, 4.0, log=True),
        "share": Range(0.0, 1.0),
        "spread": Range(0.0, 1.0),
    },
    wrong=_from_one_more,
    tolerance=1e-12,
)
def _grown_slack(more: float, hits: int, level: float, mu: float, share: float, spread: float) -> float:
    """all mass at the least number of hits, and no more than is asked for below it, is the least of all"""
    return _slack(more, hits, level, mu, share, spread)


@row.equal(*itertools.product((0.4, 1.2), ((126, 90), (126, 120), (40, 36))), tolerance=0.01, kind=Kind.EXACT)
def _(scale: float, numbers: tuple[int, int]) -> Sides:
    """what is proved for a Gaussian release, whatever its noise was said to be, by its closed form"""
    guesses, hits = numbers
    canaries, level, delta = 1000, 0.05, 1e-5
    run = privacy.Composition((privacy.Step(noise_multiplier=scale, sampling_rate=1.0, count=1),))
    right = np.arange(guesses) >= guesses - hits
    inside = np.arange(guesses) < guesses // 2
    scores, coins = np.zeros(canaries), np.zeros(canaries)
    scores[:guesses] = np.where(inside, 1.0, -1.0) * (1.0 + np.arange(guesses))
    coins[:guesses] = np.where(right, inside, ~inside)
    found = privacy.auditing.one_run_epsilon(
        scores=scores, coins=coins, delta=delta, confidence=1 - level, guesses=guesses, composition=run
    ).epsilon_lower

    def truth() -> float:
        low, high = 1e-6, 30.0
        for _ in range(60):
            mu = (low + high) / 2
            refuted = _least_mass(_gaussian(mu), hits, guesses, canaries, level) > 1
            low, high = (mu, high) if refuted else (low, mu)
        return privacy.gaussian_epsilon(low, delta)

    return found, truth, 1.05 * found
