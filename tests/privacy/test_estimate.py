"""The quick estimate of the noise: near what the accountant asks for, and monotone as it has to be."""

import math
from typing import Any

import pytest

from dptheory.privacy import estimated_noise_multiplier, gaussian_mu, least_noise_multiplier


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize(("sampling_rate", "steps"), [(0.5, 10), (0.01, 4000), (0.1, 50)])
def test_it_is_near_the_least(epsilon: float, sampling_rate: float, steps: int) -> None:
    run: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5, "sampling_rate": sampling_rate, "steps": steps}
    assert estimated_noise_multiplier(**run) == pytest.approx(least_noise_multiplier(**run), rel=2e-3)


def test_where_a_record_is_hardly_drawn_it_is_far_off_as_said() -> None:
    run: dict[str, Any] = {"epsilon": 0.27, "delta": 3e-5, "sampling_rate": 0.00086, "steps": 1168}
    assert 1.2 < estimated_noise_multiplier(**run) / least_noise_multiplier(**run) < 1.37


@pytest.mark.parametrize(("epsilon", "steps"), [(1.0, 1), (1.0, 1000), (8.0, 100), (100.0, 1)])
def test_without_sampling_it_is_the_gaussian(epsilon: float, steps: int) -> None:
    found = estimated_noise_multiplier(epsilon=epsilon, delta=1e-5, sampling_rate=1.0, steps=steps)
    assert found == pytest.approx(math.sqrt(steps) / gaussian_mu(epsilon, 1e-5), rel=2e-3)


def test_more_budget_less_noise_more_steps_more() -> None:
    def noise(epsilon: float, steps: int) -> float:
        return estimated_noise_multiplier(epsilon=epsilon, delta=1e-5, sampling_rate=0.1, steps=steps)

    by_budget = [noise(epsilon, 100) for epsilon in (0.1, 1.0, 10.0)]
    by_steps = [noise(1.0, steps) for steps in (1, 30, 1000)]
    assert by_budget == sorted(by_budget, reverse=True) and by_steps == sorted(by_steps)
    assert noise(1e4, 1) == 0.05 and noise(1e-4, 10**6) == 1000.0
