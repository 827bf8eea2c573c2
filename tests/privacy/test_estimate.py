"""The quick estimate of the noise: near what the accountant asks for, and monotone as it has to be."""

import math

import pytest

from dptheory import privacy
from dptheory.privacy import estimated_noise_multiplier, gaussian_mu


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize(("sampling_rate", "steps"), [(0.5, 10), (1.0, 1), (0.1, 50)])
def test_it_is_near_the_least(epsilon: float, sampling_rate: float, steps: int) -> None:
    run = {"epsilon": epsilon, "delta": 1e-5, "sampling_rate": sampling_rate, "steps": steps}
    least = privacy.least_noise_multiplier(**run, tolerance=0.01)  # type: ignore[arg-type]
    assert 0.99 <= estimated_noise_multiplier(**run) / least <= 1.025  # type: ignore[arg-type]


@pytest.mark.parametrize(("epsilon", "steps"), [(1.0, 1), (1.0, 1000), (8.0, 100)])
def test_it_is_the_saddle_point_of_the_budget(epsilon: float, steps: int) -> None:
    """Without sampling the composition is one Gaussian; what the saddle point is off by grows slowly, and is known."""
    found = estimated_noise_multiplier(epsilon=epsilon, delta=1e-5, sampling_rate=1.0, steps=steps)
    mu = math.sqrt(steps) / found
    log_delta = _saddle_log_delta(mu, epsilon)
    assert log_delta == pytest.approx(math.log(1e-5), abs=0.02)
    assert found == pytest.approx(math.sqrt(steps) / gaussian_mu(epsilon, 1e-5), rel=0.02)


def _saddle_log_delta(mu: float, epsilon: float) -> float:
    """K(t) = mu^2 t (t + 1) / 2 of a Gaussian loss at its saddle point, by the textbook formula."""
    tilt = epsilon / mu**2 - 0.5
    size = max(1.0, tilt * (tilt + 1) * math.sqrt(2 * math.pi) * mu)
    return mu**2 * tilt * (tilt + 1) / 2 - tilt * epsilon - math.log(size)


def test_more_budget_less_noise_more_steps_more() -> None:
    def noise(epsilon: float, steps: int) -> float:
        return estimated_noise_multiplier(epsilon=epsilon, delta=1e-5, sampling_rate=0.1, steps=steps)

    by_budget = [noise(epsilon, 100) for epsilon in (0.1, 1.0, 10.0)]
    by_steps = [noise(1.0, steps) for steps in (1, 30, 1000)]
    assert by_budget == sorted(by_budget, reverse=True) and by_steps == sorted(by_steps)
    assert noise(1e4, 1) == 0.1 and noise(1e-4, 10**6) == 1000.0
