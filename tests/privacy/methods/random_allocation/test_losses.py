"""Losses on a lattice from both sides: never on the wrong one, and near."""

import math

import numpy as np
import pytest

from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods.lattice._rising_loss import sampled_loss
from dptheory.privacy.methods.lattice._sums import LatticeMasses
from dptheory.privacy.methods.random_allocation._losses import StepLoss, contracted, epoch_loss
from dptheory.privacy.methods.random_allocation._ratio import epoch_law

LOGS = np.linspace(-3.0, 3.0, 241)


def divergences(law: LatticeMasses) -> np.ndarray:
    """E_P (1 - gamma e^-L)+ at every gamma."""
    return np.array([law.masses @ np.maximum(-np.expm1(log - law.losses), 0.0) for log in LOGS])


def own(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.array([np.maximum(first - math.exp(log) * second, 0.0).sum() for log in LOGS])


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("shift", "steps"), [(1.0, 50), (2.0, 3), (0.2, 2), (0.2, 1000)])
@pytest.mark.parametrize("spacing", [1e-3, 0.01, 0.2])
def test_an_epoch_from_both_sides(direction: Direction, shift: float, steps: int, spacing: float) -> None:
    law = epoch_law(shift, steps, 1, 9.0)
    loss = epoch_loss(law, direction)
    below, above = divergences(loss.below(spacing)), divergences(loss.above(spacing))
    labels = own(loss.first, loss.second)
    assert (below <= labels + 1e-13).all() and (labels <= above + 1e-9).all()
    assert (above - below <= 0.3 * spacing**2 * (1 + np.exp(LOGS)) / min(0.02, loss.spread[1]) + 1e-4).all()


def test_the_largest_pair_on_a_lattice_that_holds_the_losses_is_the_pair() -> None:
    losses = np.array([-0.4, -0.1, 0.0, 0.3, 0.5])
    second = np.array([0.3, 0.2, 0.2, 0.2, 0.1])
    first = second * np.exp(losses)
    found = contracted(first, second, 0.1)
    np.testing.assert_allclose(divergences(found), own(first, second), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_a_rough_pair_is_never_exceeded(seed: int) -> None:
    """Few losses, far between or next to each other: where a chord is above the divergence it is lowered."""
    rng = np.random.default_rng(seed)
    second = rng.random(rng.integers(2, 40)) ** 4 + 1e-12
    first = second * np.exp(rng.normal(0.0, rng.choice([0.01, 0.3, 3.0]), second.size))
    first, second = first / first.sum(), second / second.sum()
    for spacing in (0.003, 0.1, 1.0):
        assert (divergences(contracted(first, second, spacing)) <= own(first, second) + 1e-12).all()


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_poisson_step_from_both_sides(direction: Direction) -> None:
    loss = StepLoss(sampled_loss(1.0, 0.1, direction).cells(math.log(1e-20)), 1e-20)
    below, above = divergences(loss.below(0.01)), divergences(loss.above(0.01))
    exact = own(loss.cells.by_p, loss.cells.by_q)
    assert (below <= exact + 1e-12).all() and (exact <= above + 1e-12).all()
    assert (above - below <= 1e-3).all()


def test_a_part_of_an_epoch_is_the_mixture_with_taking_no_part() -> None:
    law = epoch_law(1.0, 5, 1, 9.0)
    loss = epoch_loss(law, "remove", 0.5)
    np.testing.assert_allclose(loss.first, 0.5 * law.without + 0.5 * law.taking_part, rtol=1e-15)
    np.testing.assert_allclose(np.exp(loss.losses), 0.5 + 0.5 * law.ratios, rtol=1e-14)
