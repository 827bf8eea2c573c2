"""Compositions in ball arithmetic: against closed forms, and what is refused."""

import math
import sys

import pytest
from scipy.stats import norm

from dptheory.privacy import (
    Composition,
    FreshMask,
    MaskedStep,
    ProbabilityBounds,
    Step,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    privacy_statement,
)
from tests.refused import refused

UNSAMPLED = Composition([Step(noise_multiplier=15.0, sampling_rate=1.0, count=100)])
MU = math.sqrt(100) / 15


@pytest.fixture(autouse=True)
def _needs_flint() -> None:
    pytest.importorskip("flint")


def _encloses(found: ProbabilityBounds, truth: float, width: float) -> bool:
    return (
        found.method == "certified"
        and found.lower <= truth * (1 + 1e-12)
        and truth * (1 - 1e-12) <= found.upper <= found.lower + width
    )


def test_unsampled_steps_enclosed() -> None:
    assert _encloses(UNSAMPLED.delta(1.0, certified=True), gaussian_delta(MU, 1.0), 1e-10)
    assert _encloses(UNSAMPLED.advantage(certified=True), 2 * norm.cdf(MU / 2) - 1, 1e-10)
    assert _encloses(UNSAMPLED.tradeoff(0.05, certified=True), norm.cdf(norm.ppf(0.95) - MU), 1e-7)
    found, truth = UNSAMPLED.epsilon(1e-5, certified=True), gaussian_epsilon(MU, 1e-5)
    assert found.lower <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= found.upper <= found.lower + 1e-9
    assert found.estimate == (found.lower + found.upper) / 2 and found.method == "certified"


def test_sampled_steps_agree_with_the_bounds_in_doubles() -> None:
    for adjacency in ("add-remove", "replace-one"):
        run = Composition(
            [Step(noise_multiplier=s, sampling_rate=0.2, count=50) for s in (2.0, 3.0)],
            adjacency=adjacency,  # type: ignore[arg-type]
        )
        known, found = run.epsilon(1e-5), run.epsilon(1e-5, certified=True)
        assert known.lower <= found.upper and found.lower <= known.upper and found.upper - found.lower <= 1e-9
        assert run.delta(found.upper, certified=True).lower <= 1e-5 <= run.delta(found.lower, certified=True).upper


def test_what_the_attacker_can_do_enclosed() -> None:
    found, known = UNSAMPLED.attack(certified=True), UNSAMPLED.attack()
    missed, advantage = UNSAMPLED.tradeoff(0.01, certified=True), UNSAMPLED.advantage(certified=True)
    assert (found.true_positive_rate_lower, found.true_positive_rate_upper) == (1 - missed.upper, 1 - missed.lower)
    assert (found.advantage_lower, found.advantage_upper) == (advantage.lower, advantage.upper)
    assert (found.false_positive_rate, found.replaced) == (known.false_positive_rate, known.replaced) == (0.01, False)


def test_the_factor_on_the_noise_keeps_the_budget_in_ball_arithmetic_too() -> None:
    factor, least = UNSAMPLED.noise_scale(epsilon=6.0, delta=1e-5, certified=True), MU / gaussian_mu(6.0, 1e-5)
    assert least <= factor <= least * (1 + 1e-6)
    assert UNSAMPLED.scaled(factor).epsilon(1e-5, certified=True).upper <= 6.0
    assert UNSAMPLED.scaled(factor).epsilon(1e-5).upper <= 6.0


def test_a_statement_of_enclosures() -> None:
    found, spent = (
        privacy_statement(composition=UNSAMPLED, delta=1e-5, public=("N",), software=("a 1",), certified=True),
        UNSAMPLED.epsilon(1e-5, certified=True),
    )
    assert (found.epsilon_lower, found.epsilon, found.epsilon_if_secure) == (spent.lower, spent.upper, spent.upper)
    assert found.accountant == "dptheory, certified; bounds of all steps together"
    assert found.attack == UNSAMPLED.attack(certified=True)
    known = privacy_statement(composition=UNSAMPLED, delta=1e-5, public=("N",), software=("a 1",))
    assert found.public == ("N",) and found.software == ("a 1",)
    same = ("mechanism", "unit", "adjacency", "output", "covered", "public", "sampler", "composition", "steps", "delta",
            "randomness", "secure", "tuning", "software")  # fmt: skip
    assert [getattr(found, name) for name in same] == [getattr(known, name) for name in same]


def test_what_has_no_enclosure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = MaskedStep(noise_multiplier=1.0, sampling_rate=0.02, mask=FreshMask(dim=10, keep=3), count=100)
    with refused("certified"):
        Composition([masked]).epsilon(1e-5, certified=True)
    few = Composition([Step(noise_multiplier=1.0, sampling_rate=0.02, count=3)])
    with refused("certified"):
        few.epsilon(1e-5, certified=True)
    monkeypatch.setitem(sys.modules, "flint", None)
    monkeypatch.delitem(sys.modules, "dptheory.privacy.methods.saddle._enclosure", raising=False)
    monkeypatch.delattr("dptheory.privacy.methods.saddle._enclosure", raising=False)
    with refused("certified"):
        few.delta(1.0, certified=True)
