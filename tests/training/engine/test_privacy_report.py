"""The privacy statement of an optimizer: what the report says, with the composition that was recorded."""

import math

import pytest
import torch

from dptheory.privacy import Composition, Step
from dptheory.training.engine import MechanismOptimizer, attach
from dptheory.training.mechanisms import DpSgd, Mechanism, NoisySgd


def trained(mechanism: Mechanism, steps: int, **options: object) -> MechanismOptimizer:
    model = torch.nn.Linear(3, 2)
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=mechanism, sampling_rate=0.5,
        expected_batch_size=10, noise_multiplier=2.0, max_grad_norm=1.0, **options,  # type: ignore[arg-type]
    )  # fmt: skip
    for step in range(steps):
        optimizer.noise_multiplier = 2.0 + step % 2  # a schedule
        optimizer.begin_batch(5)
        optimizer.zero_grad()
        private(torch.rand(5, 3)).sum().backward()
        optimizer.step()
    return optimizer


def test_a_schedule_of_noise_is_recorded_and_accounted_for_in_one_call() -> None:
    optimizer = trained(DpSgd(), 4)
    run = Composition([Step(noise_multiplier=sigma, sampling_rate=0.5, count=2) for sigma in (2.0, 3.0)])
    assert optimizer.accountant.composition() == run
    assert optimizer.epsilon(1e-5) == run.epsilon(1e-5).upper
    found, report = optimizer.statement(1e-5, seeds=("seed 3",)), optimizer.privacy(1e-5)
    assert (found.epsilon, found.delta, found.steps) == (report.epsilon, report.delta, 4)
    assert (found.adjacency, found.public, found.secure) == (report.adjacency, report.public, False)
    assert (found.mechanism, found.epsilon_if_secure) == ("DP-SGD", report.epsilon_if_secure)
    assert found.attack == run.attack()
    assert found.randomness == "simulation: seeded; seed 3"
    assert found.sampler.startswith("Poisson, drawn by the caller") and "0.5" in found.sampler
    assert any(one.startswith("torch ") for one in found.software)


@pytest.mark.parametrize(("mechanism", "steps", "epsilon"), [(DpSgd(), 0, 0.0), (NoisySgd(), 1, math.inf)])
def test_before_the_first_step_and_without_protection(mechanism: Mechanism, steps: int, epsilon: float) -> None:
    found = trained(mechanism, steps).statement(1e-5)
    assert (found.epsilon, found.steps, found.attack) == (epsilon, steps, None)
    assert ("no privacy guarantee" in found.markdown()) == math.isinf(epsilon)
