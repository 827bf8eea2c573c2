"""Epsilon from one run: coverage on mechanisms whose laws are known, power, ties, and the order of the canaries."""

import bisect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from dptheory.privacy import Composition, Step, gaussian_epsilon
from dptheory.privacy.auditing import OneRunResult, one_run_epsilon
from tests.refused import refused

DELTA = 1e-5
GAUSSIAN = Composition([Step(noise_multiplier=1.0, sampling_rate=1.0, count=1)])
SAMPLED = Composition([Step(noise_multiplier=1.0, sampling_rate=0.1, count=30)])


def found(scores: Any, coins: Any, delta: float = DELTA, **how: Any) -> OneRunResult:
    return one_run_epsilon(scores=scores, coins=coins, delta=delta, **how)


def gaussian(mu: float, canaries: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    coins = rng.random(canaries) < 0.5
    return rng.normal(size=canaries) + mu * coins, coins


def sampled(canaries: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The log-likelihood ratios of SAMPLED, for canaries whose gradients are orthogonal and as long as the clip."""
    (step,) = SAMPLED.parts
    assert isinstance(step, Step)
    rng = np.random.default_rng(seed)
    coins = rng.random(canaries) < 0.5
    drawn = rng.random((step.count, canaries)) < step.sampling_rate * coins
    seen = drawn + step.noise_multiplier * rng.normal(size=drawn.shape)
    ratio = np.exp((2 * seen - 1) / (2 * step.noise_multiplier**2))
    return np.log1p(step.sampling_rate * (ratio - 1)).sum(axis=0), coins


def with_hits(hits: int, guesses: int, canaries: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and coins of which exactly so many guesses are right."""
    inside = np.arange(guesses) < guesses - guesses // 2
    coins = np.where(np.arange(guesses) < hits, inside, ~inside)
    scores = np.where(inside, 1.0, -1.0) * (1.0 + np.arange(guesses))
    return np.r_[scores, np.zeros(canaries - guesses)], np.r_[coins, np.arange(canaries - guesses) % 2].astype(bool)


def first_refuted(epsilon: float, guesses: int, **how: Any) -> int:
    """The least number of hits that proves more than epsilon, where all coins are guessed."""
    return bisect.bisect_left(
        range(guesses + 1),
        True,
        key=lambda v: found(*with_hits(v, guesses, guesses), guesses=guesses, **how).epsilon_lower > epsilon,
    )


# --- it holds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(("epsilon", "guesses"), [(0.5, 40), (1.0, 101), (3.0, 400)])
def test_randomised_response_is_refuted_as_rarely_as_stated(epsilon: float, guesses: int, confidence: float) -> None:
    """The hits of the worst mechanism are binomial: the chance of a false bound, without simulation, is near the level."""
    p, level = 1 / (1 + math.exp(-epsilon)), 1 - confidence
    first = first_refuted(epsilon, guesses, delta=1e-12, confidence=confidence)
    assert binom.sf(first - 1, guesses, p) <= level
    assert binom.sf(first - 2, guesses, p) > level  # one hit fewer would be refuted too often: nothing is given away


@pytest.mark.parametrize(("mu", "composition"), [(0.0, None), (1.0, None), (1.0, GAUSSIAN), (2.5, GAUSSIAN)])
def test_false_bounds_of_gaussian_releases_are_as_rare_as_stated(mu: float, composition: Composition | None) -> None:
    truth, audits, confidence = gaussian_epsilon(mu, DELTA) if mu else 0.0, 300, 0.8
    false = 0
    worst = {}
    for seed in range(audits):
        scores, coins = gaussian(mu, 200, seed)
        one = found(scores, coins, confidence=confidence)
        if composition is not None and one.hits not in worst:
            worst[one.hits] = found(scores, coins, confidence=confidence, composition=composition).epsilon_lower
        false += (one.epsilon_lower if composition is None else worst[one.hits]) > truth
    assert binomtest(false, audits, 1 - confidence, alternative="greater").pvalue > 1e-3


def test_a_told_coin_is_paid_for_by_delta() -> None:
    """Each coin is told with chance delta, else answered by randomised response: the law of the hits is binomial."""
    epsilon, delta, guesses, level = 1.0, 0.02, 300, 0.05
    p = 1 / (1 + math.exp(-epsilon))
    first = first_refuted(epsilon, guesses, delta=delta)
    assert binom.sf(first - 1, guesses, p + delta * (1 - p)) <= level
    careless = next(v for v in range(guesses + 1) if binom.sf(v - 1, guesses, p) < level)
    assert binom.sf(careless - 1, guesses, p + delta * (1 - p)) > level  # without a price for delta it would not hold


# --- it proves something ------------------------------------------------------------------------------------------------


def test_half_of_epsilon_four_from_a_thousand_canaries() -> None:
    """Of a Gaussian release, on the average of ten runs."""
    mu = 0.9235  # epsilon 4
    assert gaussian_epsilon(mu, DELTA) == pytest.approx(4.0, abs=0.01)
    runs = [gaussian(mu, 1000, seed) for seed in range(10)]
    known = np.mean([found(*run, composition=GAUSSIAN).epsilon_lower for run in runs])
    every = np.mean([found(*run).epsilon_lower for run in runs])
    assert 1.2 < every < known and 2.0 < known < 4.0


def test_the_curve_of_sampled_steps_is_used() -> None:
    """The noise of the run that is handed in has no part: it is scaled."""
    truth = SAMPLED.epsilon(DELTA).lower
    scores, coins = sampled(1000, 0)
    value = found(scores, coins, composition=SAMPLED.scaled(1.7)).epsilon_lower
    assert found(scores, coins).epsilon_lower < value < truth and value > 0.4 * truth


def test_more_hits_prove_more_and_all_hits_are_finite() -> None:
    for composition in (None, GAUSSIAN):
        values = [
            found(*with_hits(v, 40, 100), guesses=40, composition=composition).epsilon_lower for v in (20, 30, 36, 40)
        ]
        assert values == sorted(values) and values[0] == 0.0 < values[1] and math.isfinite(values[-1])
    bound = found(*with_hits(40, 40, 100), delta=1e-12, guesses=40).epsilon_lower
    assert 1 / (1 + math.exp(-bound)) ** 40 == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("composition", [None, GAUSSIAN])
def test_no_hit_and_constant_scores_prove_nothing(composition: Composition | None) -> None:
    coins = np.arange(100) % 2
    for scores in (np.zeros(100), -coins, np.full(100, math.inf)):
        one = found(scores, coins, composition=composition)
        assert one.epsilon_lower == 0.0
    assert one.hits == 0


# --- order, ties, bad input ---------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(10, 80), st.integers(1, 8), st.integers(5, 10))
def test_the_order_of_the_canaries_has_no_part(seed: int, canaries: int, values: int, guesses: int) -> None:
    """And with many ties no way of breaking them has fewer hits."""
    rng = np.random.default_rng(seed)
    scores, coins = rng.integers(0, values, canaries).astype(float), rng.random(canaries) < 0.5
    one = found(scores, coins, guesses=guesses)
    for _ in range(4):
        order = rng.permutation(canaries)
        assert found(scores[order], coins[order], guesses=guesses) == one
        placed = np.argsort(-scores[order], kind="stable")
        top = placed[: guesses - guesses // 2]
        bottom = placed[canaries - guesses // 2 :]
        assert one.hits <= coins[order][top].sum() + (~coins[order][bottom]).sum()


def test_what_is_guessed_by_default() -> None:
    assert [found(*gaussian(1.0, m, 0)).guesses for m in (5, 10, 1000, 5000)] == [5, 10, 126, 282]


@pytest.mark.parametrize("composition", [None, GAUSSIAN])
@pytest.mark.parametrize(("epsilon", "canaries"), [(0.0, 60), (1.0, 60), (4.0, 1000), (6.0, 4000)])
def test_a_claim_falls_where_all_guesses_are_right(
    epsilon: float, canaries: int, composition: Composition | None
) -> None:
    """And without need no more is guessed than where nothing is claimed."""
    scores, coins = with_hits(canaries, canaries, canaries)
    one = found(scores, coins, epsilon=epsilon, composition=composition)
    usual = found(scores, coins, composition=composition)
    assert one.hits == one.guesses >= usual.guesses and one.epsilon_lower > epsilon
    assert one.guesses == usual.guesses or usual.epsilon_lower < 1.1 * max(epsilon, 0.01) + 0.01


@pytest.mark.parametrize("composition", [None, GAUSSIAN])
@pytest.mark.parametrize("epsilon", [4.0, 6.0])
def test_one_guess_fewer_could_not_refute_the_claim(epsilon: float, composition: Composition | None) -> None:
    """With a tenth to spare; the fewest are taken, as a guess that is not needed shows less."""
    scores, coins = with_hits(4000, 4000, 4000)
    guesses = found(scores, coins, epsilon=epsilon, composition=composition).guesses
    usual = found(scores, coins, composition=composition)
    fewer = found(scores, coins, guesses=guesses - 1, composition=composition)
    assert guesses == usual.guesses or fewer.epsilon_lower < 1.1 * epsilon + 0.01


def test_a_claim_out_of_reach_changes_nothing() -> None:
    """No number of guesses refutes 20 by events: the usual number proves most of what can be proved."""
    scores, coins = with_hits(1000, 1000, 1000)
    assert found(scores, coins, epsilon=20.0) == found(scores, coins)


GOOD, COINS = np.linspace(0, 1, 30), np.arange(30) % 2


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"scores": GOOD.reshape(5, 6)}, "scores"),
        ({"scores": []}, "scores"),
        ({"scores": GOOD[:4], "coins": COINS[:4]}, "scores 5"),
        ({"coins": COINS[:29]}, "coins 30"),
        ({"coins": COINS + 1}, "coins"),
        ({"coins": np.full(30, 0.5)}, "coins"),
        ({"guesses": 4}, "guesses 5..30"),
        ({"guesses": 31}, "guesses 5..30"),
        ({"guesses": 7.5}, "guesses"),
        ({"epsilon": 1.0, "guesses": 8}, "epsilon"),
        ({"composition": Step(noise_multiplier=1.0, sampling_rate=1.0, count=1)}, "composition"),
    ],
)
def test_bad_input(change: dict[str, Any], named: str) -> None:
    argument, *shown = named.split()
    with refused(argument, *shown):
        one_run_epsilon(**({"scores": GOOD, "coins": COINS, "delta": DELTA} | change))
