"""The noise of a training beside what the same records spent: in closed form, and against the composition itself."""

import math

import pytest

from dptheory.privacy import (
    Composition,
    Step,
    gaussian_epsilon,
    gaussian_mu,
    least_noise_beside,
    least_noise_multiplier,
)
from tests.refused import refused


def made(noise: float, rate: float, count: int, **more: str) -> Composition:
    return Composition((Step(noise_multiplier=noise, sampling_rate=rate, count=count),), **more)  # type: ignore[arg-type]


def test_unsampled_by_the_closed_form() -> None:
    """mu^2 adds up: what is left of the budget's is that of the training."""
    for epsilon, delta, spent, steps in ((1.0, 1e-5, 20.0, 3), (3.0, 1e-6, 2.3, 1), (8.0, 1e-3, 100.0, 50)):
        left = gaussian_mu(epsilon, delta) ** 2 - 2 / spent**2
        found = least_noise_beside(
            spent=made(spent, 1.0, 2), epsilon=epsilon, delta=delta, sampling_rate=1.0, steps=steps
        )
        least = math.sqrt(steps / left)
        assert least * (1 - 1e-9) <= found <= least * (1 + 2e-6)
    replaced = least_noise_beside(
        spent=made(200.0, 1.0, 2, adjacency="replace-one"), epsilon=8.0, delta=1e-3, sampling_rate=1.0, steps=50
    )
    assert replaced == pytest.approx(2 * found, rel=3e-6)


def test_the_budget_is_kept_and_with_less_noise_it_is_not() -> None:
    spent, run = made(10.0, 1.0, 2), {"sampling_rate": 0.05, "steps": 200}
    found = least_noise_beside(spent=spent, epsilon=2.0, delta=1e-5, sampling_rate=0.05, steps=200)

    def epsilon(sigma: float) -> float:
        more = Step(noise_multiplier=sigma, sampling_rate=0.05, count=200)
        return Composition((*spent.parts, more)).epsilon(1e-5).upper

    assert epsilon(found) <= 2.0 < epsilon(found * (1 - 2e-6))
    assert found > 1.01 * least_noise_multiplier(epsilon=2.0, delta=1e-5, **run)  # type: ignore[arg-type]


def test_what_nothing_was_spent_of_costs_nothing() -> None:
    found = least_noise_beside(spent=made(1e9, 1.0, 1), epsilon=2.0, delta=1e-5, sampling_rate=1.0, steps=4)
    assert found == pytest.approx(least_noise_multiplier(epsilon=2.0, delta=1e-5, sampling_rate=1.0, steps=4), rel=2e-6)


def test_what_delta_covers_asks_for_the_least_noise() -> None:
    spent = made(1.0, 1e-6, 3)
    assert least_noise_beside(spent=spent, epsilon=1.0, delta=1e-5, sampling_rate=1e-6, steps=1) == 0.05


def test_a_budget_that_is_spent_is_refused() -> None:
    spent = made(4.0, 1.0, 2)
    whole = gaussian_epsilon(math.sqrt(2) / 4, 1e-5)
    with refused("epsilon"):
        least_noise_beside(spent=spent, epsilon=1.3, delta=1e-5, sampling_rate=0.1, steps=10)
    with refused("epsilon", "1000"):
        least_noise_beside(spent=spent, epsilon=whole + 1e-7, delta=1e-5, sampling_rate=1.0, steps=10)
