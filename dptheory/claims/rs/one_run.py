import bisect
import itertools
import math

import numpy as np

from dptheory import privacy
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rs._one_run import mean_mass, revealing_chance, tail, worst_chance
from dptheory.privacy.auditing._one_run import _chance

row = new_row(
    id="rs.one_run",
    source=Source("rs", "new, on Theorem 3.1"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.auditing.one_run_epsilon,),
)

_ROUNDING = 1e-9
"""Of a linear programme."""


def _accuracy(epsilon: float) -> float:
    return 1.0 / (1.0 + math.exp(-epsilon))


def bound(hits: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The statement, term by term."""
    p = _accuracy(epsilon)
    return tail(guesses, p, hits) + canaries * delta * (1 - p) * mean_mass(guesses, p)


def found_epsilon(hits: int, guesses: int, canaries: int, delta: float, level: float) -> float:
    """What the calculator makes of so many hits: every canary that is guessed has a score of its own."""
    right = np.arange(guesses) >= guesses - hits
    guessed_in = np.arange(guesses) < guesses - guesses // 2
    scores = np.zeros(canaries)
    coins = np.arange(canaries) % 2
    scores[:guesses] = np.where(guessed_in, 1.0, -1.0) * (1.0 + np.arange(guesses))
    coins[:guesses] = np.where(right, guessed_in, ~guessed_in)
    return privacy.auditing.one_run_epsilon(
        scores=scores, coins=coins, delta=delta, confidence=1 - level, guesses=guesses
    ).epsilon_lower


def largest_by_enumeration(hits: int, guesses: int, canaries: int, delta: float, level: float) -> float:
    """The largest epsilon whose bound is below the level."""
    refuted = [one for one in np.linspace(0.0, 12.0, 241) if bound(hits, guesses, canaries, float(one), delta) < level]
    low, high = (refuted[-1], refuted[-1] + 0.05) if refuted else (0.0, 0.0)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if bound(hits, guesses, canaries, middle, delta) < level else (low, middle)
    return float(low)


@row.equal(
    *itertools.product((1e-8, 1e-3, 0.02), (0.05, 0.3), ((8, 8, 10), (60, 52, 60), (60, 60, 400), (200, 140, 2000))),
    tolerance=1e-6,
)
def _(delta: float, level: float, numbers: tuple[int, int, int]) -> Sides:
    """the largest epsilon that is refuted, by enumeration"""
    guesses, hits, canaries = numbers
    return (
        found_epsilon(hits, guesses, canaries, delta, level),
        lambda: largest_by_enumeration(hits, guesses, canaries, delta, level),
        lambda: largest_by_enumeration(hits, guesses, canaries, 0.0, level) if delta > 1e-4 else None,
    )


_SMALL = [
    (canaries, guesses, hits, epsilon, delta)
    for canaries, guesses in ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3))
    for hits in range(1, guesses + 1)
    for epsilon in (0.0, 0.5, 1.5)
    for delta in (1e-12, 0.02, 0.15)
]


@row.equal(lambda: _SMALL, kind=Kind.EXACT)
def _(canaries: int, guesses: int, hits: int, epsilon: float, delta: float) -> Sides:
    """no private mechanism on up to three coins has more hits, by linear programming over all of them"""
    most = worst_chance(canaries, guesses, hits, ((epsilon, delta),))
    said = _chance(hits, guesses, canaries, epsilon, delta)
    # the binomial tail alone is too small as soon as delta counts
    return most <= said + _ROUNDING, True, lambda: most <= tail(guesses, _accuracy(epsilon), hits) + _ROUNDING


@row.equal(
    lambda: [case for case in _SMALL if case[4] < 1e-9 or case[:2] == (1, 1)],
    tolerance=1e-9,
    kind=Kind.EXACT,
)
def _(canaries: int, guesses: int, hits: int, epsilon: float, delta: float) -> Sides:
    """without delta, and for one coin, the worst mechanism attains it"""
    return (
        _chance(hits, guesses, canaries, epsilon, delta),
        lambda: worst_chance(canaries, guesses, hits, ((epsilon, delta),)),
        1.01 * _chance(hits, guesses, canaries, epsilon, delta),
    )


@row.equal(*itertools.product((0.5, 2.0), (50, 200), (1e-4, 0.02), (1, 2, 8)), kind=Kind.EXACT)
def _(epsilon: float, guesses: int, delta: float, shown: int) -> Sides:
    """who tells some coins with the chance that delta allows is refuted as rarely as stated, by enumeration"""
    p, level = _accuracy(epsilon), 0.05
    chance = min(1.0, guesses * delta / shown)  # each coin is told with chance delta
    hits = bisect.bisect_left(  # the first that is refuted
        range(guesses + 1), True, key=lambda v: found_epsilon(v, guesses, guesses, delta, level) > epsilon
    )
    return (
        revealing_chance(guesses, hits, p, shown, chance) <= level,
        True,
        lambda: revealing_chance(guesses, _first(guesses, p, level), p, shown, chance) <= level,
    )


def _first(guesses: int, p: float, level: float) -> int:
    """The least number of hits that the binomial tail alone refutes."""
    return next(v for v in range(guesses + 2) if tail(guesses, p, v) < level)
