"""What an audit found: one statement, measured and claimed, and the tests of laws behind it.

Every test is designed to refuse a true statement with probability :data:`FALSE_ALARM` at most.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]

FALSE_ALARM = 1e-6
"""Probability, at most, with which one finding refuses a statement that is true (approximate laws: to a few percent of it)."""


@dataclass(frozen=True)
class Finding:
    """One statement held against what really happened.

    Attributes:
        name: what was looked at, as "DP-SGD: noise of the tensor 2".
        statement: what must be true.
        measured: what was found.
        claimed: what the statement says of it.
        passed: the measurement does not refute the statement.
        chance: probability of a measurement as far off where the statement is true; None where chance has no part in it.

    Example: epsilon 0.9 where at most 1 is claimed; no chance is involved.
        >>> from dptheory.training.audits import Finding
        >>> Finding("spent", "epsilon is at most the budget", 0.9, 1.0, passed=True).chance is None
        True
    """

    name: str
    statement: str
    measured: float
    claimed: float
    passed: bool
    chance: float | None = None


def named(subject: str, findings: Sequence[Finding]) -> list[Finding]:
    """The same, of this subject."""
    return [replace(one, name=f"{subject}: {one.name}") for one in findings]


def equal(name: str, statement: str, measured: float, claimed: float, slack: float = 0.0) -> Finding:
    """Holds where the two differ by ``slack`` at most: what rounding explains."""
    return Finding(name, statement, measured, claimed, abs(measured - claimed) <= slack)


def at_most(name: str, statement: str, measured: float, claimed: float, slack: float = 0.0) -> Finding:
    """Holds where ``measured`` is at most ``claimed``, to what rounding explains."""
    return Finding(name, statement, measured, claimed, measured <= claimed + slack)


def at_least(name: str, statement: str, measured: float, claimed: float, slack: float = 0.0) -> Finding:
    """Holds where ``measured`` is at least ``claimed``, to what rounding explains."""
    return Finding(name, statement, measured, claimed, measured >= claimed - slack)


def standardised(name: str, statement: str, measured: float, claimed: float, score: float) -> Finding:
    """Holds where a score that is about N(0, 1) under the statement is not in the outer :data:`FALSE_ALARM` of it."""
    return _by_chance(name, statement, measured, claimed, float(2 * stats.norm.sf(abs(score))))


def binomial(name: str, statement: str, hits: int, trials: int, claimed: float) -> Finding:
    """Holds where so many hits in independent trials of probability ``claimed`` are not too rare; exact."""
    chance = _two_sided(stats.binom.cdf(hits, trials, claimed), stats.binom.sf(hits - 1, trials, claimed))
    return _by_chance(name, statement, hits / trials, claimed, chance)


def binomial_of_each(name: str, statement: str, hits: NDArray[np.int64], trials: int, claimed: float) -> Finding:
    """Holds where each of these counts of hits may be binomial, by a union over them; measured is the worst one's rate.

    The rarest of many counts of one law is the least or the largest.
    """
    ends = [binomial(name, statement, int(end), trials, claimed) for end in (hits.min(), hits.max())]
    worst = min(ends, key=_chance)
    return _by_chance(name, statement, worst.measured, claimed, min(1.0, hits.size * _chance(worst)))


def law_of_sizes(name: str, statement: str, sizes: NDArray[np.int64], examples: int, rate: float) -> Finding:
    """Holds where independent sizes may be Binomial(examples, rate), and not only have its mean.

    How many of them are at most k is binomial for every k; a union over the k where either is possible. Measured and claimed are
    the shares at the worst k. Exact.
    """
    below = stats.binom.cdf(np.arange(examples), examples, rate)
    open_ends = np.flatnonzero((below > 0.0) & (below < 1.0))
    found = [
        binomial(name, statement, int(np.sum(sizes <= k)), sizes.size, float(below[k])) for k in map(int, open_ends)
    ]
    worst = min(found, key=_chance)
    return _by_chance(name, statement, worst.measured, worst.claimed, min(1.0, len(found) * _chance(worst)))


def spread(name: str, statement: str, scores: Array) -> Finding:
    """Holds where the scores may have variance 1: their squares add up to a chi-square variable, for N(0, 1) scores; exact."""
    return _by_chance(name, statement, float(np.sqrt(np.mean(scores**2))), 1.0, _spread_chance(scores))


def spread_of_each(name: str, statement: str, groups: Sequence[Array]) -> Finding:
    """Holds where the scores of every group may have variance 1, by a union over them; measured is the worst group's."""
    chances = [_spread_chance(scores) for scores in groups]
    worst = groups[int(np.argmin(chances))]
    return _by_chance(name, statement, float(np.sqrt(np.mean(worst**2))), 1.0, min(1.0, len(groups) * min(chances)))


def normal(name: str, statement: str, scores: Array) -> Finding:
    """Holds where the scores may be N(0, 1), by the Kolmogorov-Smirnov distance; exact for few scores, close for many."""
    found = stats.kstest(scores, "norm")
    return _by_chance(name, statement, float(found.statistic), 0.0, float(found.pvalue))


def uncorrelated(name: str, statement: str, pairs: Sequence[tuple[Array, Array]]) -> Finding:
    """Holds where in none of the pairs the two arrays of N(0, 1) scores go together; they are of one length in each pair."""
    products = np.array([np.sum(one * other) / math.sqrt(one.size) for one, other in pairs])
    largest = int(np.argmax(np.abs(products)))
    size = pairs[largest][0].size
    chance = min(1.0, len(pairs) * float(2 * stats.norm.sf(abs(products[largest]))))  # a union over the pairs
    return _by_chance(name, statement, float(products[largest]) / math.sqrt(size), 0.0, chance)


def _by_chance(name: str, statement: str, measured: float, claimed: float, chance: float) -> Finding:
    return Finding(name, statement, measured, claimed, chance >= FALSE_ALARM, chance)


def _chance(found: Finding) -> float:
    assert found.chance is not None
    return found.chance


def _spread_chance(scores: Array) -> float:
    total = float(np.sum(scores**2))
    return _two_sided(stats.chi2.cdf(total, scores.size), stats.chi2.sf(total, scores.size))


def _two_sided(below: float, above: float) -> float:
    return min(1.0, 2 * min(float(below), float(above)))
