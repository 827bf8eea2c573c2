import math
from fractions import Fraction

from dptheory import embedding
from dptheory.claims._row import Sides, Source, Verdict, new_row

_LAWS = (
    ((8, 1, 1, 0), (1, 2, 4, 3)),
    ((5, 0, 0, 5), (4, 1, 1, 4)),
    ((1, 2, 3, 4), (4, 3, 2, 1)),
)
"""Outputs of a step with a record and without it, as tenths."""


def _sampled_delta(law: int, odds: Fraction, rate: Fraction, removed: bool) -> Fraction:
    """Least delta at e^epsilon = odds where the record is drawn with probability ``rate``, by summing over the outputs.

    ``removed``: the data without the record are the first of the two.
    """
    with_it, without = ([Fraction(tenths, 10) for tenths in one] for one in _LAWS[law])
    drawn = [rate * p + (1 - rate) * q for p, q in zip(with_it, without, strict=True)]
    first, second = (without, drawn) if removed else (drawn, without)
    return sum((max(a - odds * b, Fraction(0)) for a, b in zip(first, second, strict=True)), Fraction(0))


_SAMPLED = tuple(
    (law, odds, rate)
    for law in range(len(_LAWS))
    for odds in (Fraction(1), Fraction(5, 4), Fraction(2), Fraction(7))
    for rate in (Fraction(1, 10), Fraction(1, 2), Fraction(1))
)


def _odds_after_sampling(odds: Fraction, rate: Fraction) -> Fraction:
    """e^epsilon of the sampled step, to the nearest fraction of small denominator."""
    return Fraction(
        math.exp(embedding.sampled_epsilon(epsilon=math.log(odds), sampling_rate=float(rate)))
    ).limit_denominator(1000)


def _full_delta(law: int, odds: Fraction) -> Fraction:
    """Least delta of the step on all records, neighbours in either order."""
    return max(_sampled_delta(law, odds, Fraction(1), removed) for removed in (False, True))


def _kept(law: int, odds: Fraction, sampled_odds: Fraction, rate: Fraction) -> bool:
    return all(
        _sampled_delta(law, sampled_odds, rate, removed) <= rate * _full_delta(law, odds) for removed in (False, True)
    )


def _sampled_loss(epsilon: float, rate: float) -> float:
    """Largest loss when a truth is told e^epsilon times as often as not, and the record drawn with this chance."""
    told = 1 / (1 + math.exp(-epsilon))
    with_it, without = (told, 1 - told), (1 - told, told)
    return max(math.log((rate * p + (1 - rate) * q) / q) for p, q in zip(with_it, without, strict=True))


row = new_row(
    id="gep.sampling",
    source=Source("gep", "section 3.3, after Theorem 3.2"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.sampled_epsilon,),
)


@row.equal(lambda: _SAMPLED)
def _(law: int, odds: Fraction, rate: Fraction) -> Sides:
    """record there against not there: equality, in fractions"""
    return (
        _sampled_delta(law, _odds_after_sampling(odds, rate), rate, False),
        rate * _sampled_delta(law, odds, Fraction(1), False),
        _sampled_delta(law, 1 + rate * (odds - 1) / 2, rate, False),
    )


@row.equal(lambda: _SAMPLED)
def _(law: int, odds: Fraction, rate: Fraction) -> Sides:
    """either order, in fractions"""
    return (
        _kept(law, odds, _odds_after_sampling(odds, rate), rate),
        True,
        _kept(law, odds, 1 + rate**2 * (odds - 1), rate),
    )


@row.equal(lambda: [(epsilon, rate) for epsilon in (0.01, 0.9, 1.1, 8.0) for rate in (0.01, 0.5, 1.0)], tolerance=1e-11)
def _(epsilon: float, rate: float) -> Sides:
    """epsilon after sampling: the largest ratio of a sampled randomised response"""
    return (
        embedding.sampled_epsilon(epsilon=epsilon, sampling_rate=rate),
        lambda: _sampled_loss(epsilon, rate),
        rate * epsilon,
    )
