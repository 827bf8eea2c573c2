"""The noise of runs of which the best is published: it keeps the budget by the bound of random stopping, and hardly more."""

import pytest

from dptheory.privacy.samplers import selection_epsilon_upper_bound
from dptheory.training.planning._private_tuning import noise_of_tuned_runs

RUN = {"sampling_rate": 0.1, "steps": 100, "delta": 1e-5}


def test_the_best_of_such_runs_keeps_the_budget_and_less_noise_would_not() -> None:
    found = noise_of_tuned_runs(epsilon=3.0, noise_multiplier=1.0, mean_runs=5, **RUN)  # type: ignore[arg-type]
    assert found is not None and found > 1.0

    def spent(noise_multiplier: float) -> float:
        return selection_epsilon_upper_bound(noise_multiplier=noise_multiplier, mean_runs=5, **RUN)  # type: ignore[arg-type]

    assert spent(found) <= 3.0 < spent(0.99 * found)


def test_a_budget_that_no_noise_keeps() -> None:
    assert noise_of_tuned_runs(epsilon=1e-6, noise_multiplier=500.0, **RUN) is None  # type: ignore[arg-type]


def test_noise_that_already_suffices_stays() -> None:
    assert noise_of_tuned_runs(epsilon=3.0, noise_multiplier=50.0, **RUN) == pytest.approx(50.0)  # type: ignore[arg-type]
