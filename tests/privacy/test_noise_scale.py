"""The factor on the noise of a schedule that keeps a budget, in closed form and by the bounds themselves."""

import math

import pytest

from dptheory.privacy import (
    ORDERS,
    Composition,
    FreshMask,
    IndexSteps,
    JointStep,
    MaskedStep,
    Step,
    epsilon_from_rdp,
    gaussian_mu,
    subsampled_gaussian_rdp,
)
from dptheory.pruning import SubsetMallows
from tests.refused import refused

MASK = FreshMask(dim=10, keep=3)
FAINT, LOUD = SubsetMallows(12, 4, theta=1e-9), SubsetMallows(12, 4, theta=5.0)


def step(noise: float, rate: float, count: int) -> Step:
    return Step(noise_multiplier=noise, sampling_rate=rate, count=count)


def test_unsampled_schedules_by_the_closed_form() -> None:
    """Releases of noise sigma_i are one of mu = sqrt(sum 1 / sigma_i^2); a record that is replaced changes twice as much."""
    mixed, mu = [step(2.0, 1.0, 3), step(1.0, 1.0, 1)], math.sqrt(3 / 4 + 1)
    for epsilon, delta in ((1.0, 1e-5), (0.01, 1e-10), (20.0, 0.3)):
        factor = Composition(mixed).noise_scale(epsilon=epsilon, delta=delta)
        least = mu / gaussian_mu(epsilon, delta)
        assert least <= factor <= least * (1 + 1e-6)
    replaced = Composition(mixed, adjacency="replace-one").noise_scale(epsilon=20.0, delta=0.3)
    assert replaced == pytest.approx(2 * factor, rel=2e-6)


@pytest.mark.parametrize(
    "run",
    [
        Composition([step(2.0, 0.04, 50), step(1.0, 0.02, 50)]),
        Composition([step(2.0, 0.04, 50), step(1.0, 0.02, 50)], adjacency="replace-one"),
        Composition([JointStep(noise_multiplier=1.0, sampling_rate=0.2, mechanism=FAINT, count=20)]),
    ],
    ids=["values", "replaced", "index sets"],
)
def test_the_budget_is_kept_and_with_less_noise_it_is_not(run: Composition) -> None:
    factor = run.noise_scale(epsilon=1.0, delta=1e-5)
    assert run.scaled(factor).epsilon(1e-5).upper <= 1.0
    assert run.scaled(factor * (1 - 1e-6)).epsilon(1e-5).upper > 1.0


def test_masks_ask_for_the_noise_of_their_renyi_curve() -> None:
    mask = FreshMask(dim=10, keep=1)
    masked = MaskedStep(noise_multiplier=1.0, sampling_rate=0.02, mask=mask, count=100)
    factor = Composition([masked, step(1.0, 0.02, 5)]).noise_scale(epsilon=1.0, delta=1e-5)

    def spent(sigma: float) -> float:
        run = {"orders": ORDERS, "sampling_rate": 0.02, "noise_multiplier": sigma}
        curve = mask.rdp(**run, steps=100) + 5 * subsampled_gaussian_rdp(**run)  # type: ignore[arg-type]
        return epsilon_from_rdp(orders=ORDERS, rdp=curve, delta=1e-5)

    assert spent(factor) <= 1.0 < spent(factor * (1 - 1e-6))


def test_more_kinds_of_steps_than_the_integral_takes() -> None:
    """They are binned: the budget is kept, by a little more noise than needed."""
    kinds = [step(1 + 1e-5 * k, 0.02, 5) for k in range(20)]
    factor = Composition(kinds).noise_scale(epsilon=1.0, delta=1e-5)
    alike = Composition([step(1.0, 0.02, 100)]).noise_scale(epsilon=1.0, delta=1e-5)
    assert Composition(kinds).scaled(factor).epsilon(1e-5).upper <= 1.0
    assert alike * (1 - 3e-4) <= factor <= alike * (1 + 1e-5)


def test_where_delta_covers_the_chance_to_take_part_any_noise_will_do() -> None:
    run = Composition([step(0.5, 1e-3, 5), step(2.0, 1e-3, 1)])
    assert run.noise_scale(epsilon=1e-3, delta=0.01) == pytest.approx(2e-15)
    assert run.scaled(2e-15).epsilon(0.01).upper == 0.0


def test_every_field_of_a_scaled_run() -> None:
    law = SubsetMallows(9, 5, theta=0.5)
    run = Composition(
        [
            step(2.0, 0.5, 3), MaskedStep(noise_multiplier=3.0, sampling_rate=0.25, mask=MASK, count=4),
            JointStep(noise_multiplier=5.0, sampling_rate=0.125, mechanism=FAINT, groups=2, count=6),
            IndexSteps(steps=7, mechanism=law, groups=8),
        ]
    )  # fmt: skip
    assert run.scaled(0.5) == Composition(
        [
            step(1.0, 0.5, 3), MaskedStep(noise_multiplier=1.5, sampling_rate=0.25, mask=MASK, count=4),
            JointStep(noise_multiplier=2.5, sampling_rate=0.125, mechanism=FAINT, groups=2, count=6),
            IndexSteps(steps=7, mechanism=law, groups=8),
        ]
    )  # fmt: skip
    assert Composition([step(2.0, 0.5, 3)], adjacency="replace-one").scaled(2.0).adjacency == "replace-one"


def test_budgets_that_no_noise_keeps() -> None:
    index = IndexSteps(steps=3, mechanism=LOUD)
    with refused("parts"):
        Composition([index]).noise_scale(epsilon=1.0, delta=1e-5)
    with refused("epsilon", 1.0):
        Composition([index, step(1.0, 1.0, 1)]).noise_scale(epsilon=1.0, delta=1e-5)
