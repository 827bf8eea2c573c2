import itertools
import math
from fractions import Fraction
from functools import partial
from typing import Literal

from dptheory import embedding, privacy
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gep._mechanism import (
    hockey_stick_of_output,
    least_noise_ratio,
    printed_noise_ratio,
    replaced_noise,
)

_RUN_SIGMAS = (1.0, 1.5)


def _run_mu(steps: int) -> float:
    first, second = _RUN_SIGMAS
    return embedding.output_mu(
        embedding_clip=1.0, residual_clip=1.0, embedding_std=first, residual_std=second, steps=steps
    )


thm3_2 = new_row(
    id="gep.thm3.2",
    source=Source("gep", "Theorem 3.2"),
    verdict=Verdict.LOOSE,
    printed=printed_noise_ratio,
    calculators=(
        embedding.release_noise_ratio,
        embedding.noise_ratio_excess,
        embedding.joint_mu,
        embedding.output_mu,
    ),
)


@thm3_2.equal(lambda: [(epsilon, 1e-5, steps) for epsilon in (0.5, 2.0) for steps in (1, 100, 10_000)], tolerance=1e-7)
def _(epsilon: float, delta: float, steps: int) -> Sides:
    """least noise of T steps, by root finding on quadratures"""
    budget = epsilon, delta, steps
    return (
        embedding.release_noise_ratio(epsilon=epsilon, delta=delta, steps=steps),
        lambda: least_noise_ratio(*budget),
        printed_noise_ratio(*budget),
    )


@thm3_2.equal(lambda: [(epsilon, steps) for epsilon in (0.3, 1.0, 8.0) for steps in (1, 7, 10**6)], tolerance=1e-7)
def _(epsilon: float, steps: int) -> Sides:
    """same excess for every T, by root finding on quadratures"""
    return (
        embedding.noise_ratio_excess(epsilon=epsilon, delta=1e-5),
        printed_noise_ratio(epsilon, 1e-5, steps) / least_noise_ratio(epsilon, 1e-5, steps),
        embedding.noise_ratio_excess(epsilon=epsilon, delta=1e-5) * math.sqrt(steps),
    )


@thm3_2.equal(
    lambda: itertools.product(("exact", "renyi", "stated"), (0.3, 8.0), (1, 7, 10**6)),
    tolerance=1e-7,
)
def _(method: Literal["exact", "renyi", "stated"], epsilon: float, steps: int) -> Sides:
    """T steps where a record is replaced: twice the noise, for each method"""
    return (
        embedding.release_noise_ratio(epsilon=epsilon, delta=1e-5, steps=steps, adjacency="replace-one", method=method),
        lambda: replaced_noise(method, epsilon, steps),
        replaced_noise(method, epsilon, steps) / 2,
    )


@thm3_2.mean(
    partial(hockey_stick_of_output, clips=(1.0, 1.0), sigmas=_RUN_SIGMAS, epsilon=1.0, steps=3),
    wrong=lambda: privacy.gaussian_delta(
        _run_mu(steps=1),
        1.0,
    ),
    row_bytes=600,
)
def _() -> float:
    """last iterate alone, linear loss, T = 3"""
    return privacy.gaussian_delta(
        _run_mu(steps=3),
        1.0,
    )


@thm3_2.equal(
    lambda: [(first, second, steps) for first in (1, 2) for second in (2, 5) for steps in (1, 3, 12)], tolerance=1e-12
)
def _(first: int, second: int, steps: int) -> Sides:
    """mu of T steps in squares"""
    return (
        embedding.joint_mu([first, second], steps=steps) ** 2,
        float(sum(Fraction(1, first**2) + Fraction(1, second**2) for _ in range(steps))),
        (steps * (1 / first + 1 / second)) ** 2,
    )


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


def _sampled_loss(epsilon: float, rate: float) -> float:
    """Largest loss when a truth is told e^epsilon times as often as not, and the record drawn with this chance."""
    told = 1 / (1 + math.exp(-epsilon))
    with_it, without = (told, 1 - told), (1 - told, told)
    return max(math.log((rate * p + (1 - rate) * q) / q) for p, q in zip(with_it, without, strict=True))


sampling = new_row(
    id="gep.sampling",
    source=Source("gep", "section 3.3, after Theorem 3.2"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.sampled_epsilon,),
)


@sampling.equal(lambda: _SAMPLED)
def _(law: int, odds: Fraction, rate: Fraction) -> Sides:
    """record there against not there: equality, in fractions"""
    return (
        _sampled_delta(law, _odds_after_sampling(odds, rate), rate, False),
        rate * _sampled_delta(law, odds, Fraction(1), False),
        _sampled_delta(law, 1 + rate * (odds - 1) / 2, rate, False),
    )


@sampling.equal(lambda: _SAMPLED)
def _(law: int, odds: Fraction, rate: Fraction) -> Sides:
    """either order, in fractions"""
    orders = (False, True)
    most = rate * max(_sampled_delta(law, odds, Fraction(1), removed) for removed in orders)
    kept, wrong = (
        all(_sampled_delta(law, sampled, rate, removed) <= most for removed in orders)
        for sampled in (_odds_after_sampling(odds, rate), 1 + rate**2 * (odds - 1))
    )
    return kept, True, wrong


@sampling.equal(
    lambda: [(epsilon, rate) for epsilon in (0.01, 0.9, 1.1, 8.0) for rate in (0.01, 0.5, 1.0)], tolerance=1e-11
)
def _(epsilon: float, rate: float) -> Sides:
    """epsilon after sampling: the largest ratio of a sampled randomised response"""
    return (
        embedding.sampled_epsilon(epsilon=epsilon, sampling_rate=rate),
        lambda: _sampled_loss(epsilon, rate),
        rate * epsilon,
    )
