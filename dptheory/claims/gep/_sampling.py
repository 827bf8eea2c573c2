"""GEP: what drawing the records at random does to the guarantee of a step."""

import math
from fractions import Fraction

from dptheory import embedding
from dptheory.checks import ExactCheck
from dptheory.claims._claim import Claim, Source, Verdict

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
    return Fraction(math.exp(embedding.sampled_epsilon(math.log(odds), float(rate)))).limit_denominator(1000)


def _full_delta(law: int, odds: Fraction) -> Fraction:
    """Least delta of the step on all records, neighbours in either order."""
    return max(_sampled_delta(law, odds, Fraction(1), removed) for removed in (False, True))


def _kept(law: int, odds: Fraction, sampled_odds: Fraction, rate: Fraction) -> bool:
    return all(
        _sampled_delta(law, sampled_odds, rate, removed) <= rate * _full_delta(law, odds) for removed in (False, True)
    )


def _sampled_loss(epsilon: float, rate: float) -> float:
    """Largest loss of the answers to a question whose truth is told e^epsilon times as often as not, the record drawn with this chance."""
    told = 1 / (1 + math.exp(-epsilon))
    with_it, without = (told, 1 - told), (1 - told, told)
    return max(math.log((rate * p + (1 - rate) * q) / q) for p, q in zip(with_it, without, strict=True))


SAMPLING = Claim(
    id="gep.sampling",
    title="sampling strengthens the guarantee",
    source=Source("gep", "section 3.3, after Theorem 3.2"),
    statement=r"Where the private gradients of a step are those of randomly drawn records, the guarantee is stronger: an $(\epsilon,\delta)$-DP step becomes "
    r"$(\log(1+q(e^\epsilon-1)),q\delta)$-DP at sampling rate $q$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "records are drawn independently with probability q, and who was drawn is not told",
        "neighbours differ by one record added or removed; sums are divided by a public number, not by the size of the draw",
        "not for fixed batches that take turns",
    ),
    calculators=(embedding.sampled_epsilon,),
    checks=(
        ExactCheck(
            name="record there against not there: equality, in fractions",
            cases=lambda: _SAMPLED,
            truth=lambda law, odds, rate: rate * _sampled_delta(law, odds, Fraction(1), False),
            statement=lambda law, odds, rate: _sampled_delta(law, _odds_after_sampling(odds, rate), rate, False),
            wrong=lambda law, odds, rate: _sampled_delta(law, 1 + rate * (odds - 1) / 2, rate, False),
        ),
        ExactCheck(
            name="either order, in fractions",
            cases=lambda: _SAMPLED,
            truth=lambda law, odds, rate: True,
            statement=lambda law, odds, rate: _kept(law, odds, _odds_after_sampling(odds, rate), rate),
            wrong=lambda law, odds, rate: _kept(law, odds, 1 + rate**2 * (odds - 1), rate),
        ),
        ExactCheck(
            name="epsilon after sampling: the largest ratio of a sampled randomised response",
            cases=lambda: [(epsilon, rate) for epsilon in (0.01, 0.9, 1.1, 8.0) for rate in (0.01, 0.5, 1.0)],
            truth=_sampled_loss,
            statement=lambda epsilon, rate: embedding.sampled_epsilon(epsilon, rate),
            wrong=lambda epsilon, rate: rate * epsilon,
            tolerance=1e-11,
        ),
    ),
    proved=True,
)
