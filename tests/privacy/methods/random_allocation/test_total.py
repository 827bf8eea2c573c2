"""Sums of losses from both sides, against sums that are formed without a transform and without tilts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods.lattice._epsilon import highest, least, positive_part
from dptheory.privacy.methods.lattice._sums import LatticeMasses, TiltedSum, power, tilt_for, tilted_sum
from dptheory.privacy.methods.random_allocation._losses import epoch_loss
from dptheory.privacy.methods.random_allocation._ratio import epoch_law
from dptheory.privacy.methods.random_allocation._total import Total


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("delta", [1e-3, 1e-12])
def test_three_epochs_by_plain_convolution(direction: Direction, delta: float) -> None:
    """Of masses >= 0 it keeps relative precision: delta of the same lattice laws, to what rounding and wrapping may do."""
    loss = epoch_loss(epoch_law(1.0, 5, 1, 9.5), direction)
    total = Total(((loss, 3),), delta)
    for law, bound, solved in (
        (loss.above(total._spacing), total.upper_delta, total.upper_epsilon),
        (loss.below(total._spacing), total.lower_delta, total.lower_epsilon),
    ):
        summed = power(law, 3)
        epsilon = solved(delta)
        exact = float(summed.masses @ np.maximum(-np.expm1(epsilon - summed.losses), 0.0))
        assert bound(epsilon) == pytest.approx(exact, rel=1e-6)
        assert exact == pytest.approx(delta, rel=1e-6)
    assert 0.0 < total.lower_epsilon(delta) < total.upper_epsilon(delta) < total.lower_epsilon(delta) * 1.001


def test_one_epoch_needs_no_lattice_of_losses() -> None:
    loss = epoch_loss(epoch_law(1.0, 5, 1, 9.5), "remove")
    total = Total(((loss, 1),), 1e-6)
    epsilon = total.upper_epsilon(1e-6)
    assert loss.deltas(epsilon)[1] == pytest.approx(1e-6, rel=1e-5)
    assert total.upper_delta(epsilon) <= 1e-6 < total.upper_delta(epsilon * (1 - 1e-9))
    assert total.lower_delta(total.lower_epsilon(1e-6)) >= 1e-6 * (1 - 1e-8)


def test_what_is_left_out_is_added_to_delta_and_never_below_it() -> None:
    loss = epoch_loss(epoch_law(1.0, 5, 1, 4.0), "remove")  # so much left out that it shows
    assert loss.left_out > 1e-5
    total = Total(((loss, 2),), 1e-3)
    assert total.upper_delta(50.0) >= 2 * loss.left_out
    assert math.isinf(total.upper_epsilon(1.9 * loss.left_out))
    wide = Total(((epoch_loss(epoch_law(1.0, 5, 1, 9.5), "remove"), 2),), 1e-3)
    assert total.lower_epsilon(1e-3) <= wide.upper_epsilon(1e-3)
    assert wide.lower_epsilon(1e-3) <= total.upper_epsilon(1e-3)


def test_ends_of_an_epsilon_are_on_their_sides_of_the_root() -> None:
    """Whatever a search for the root stops at."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        masses = rng.random(200)
        law, count = LatticeMasses(0.01, -100, masses / masses.sum()), int(rng.integers(2, 50))
        delta = 10.0 ** -int(rng.integers(2, 9))
        total = tilted_sum(law, count, tilt_for(law, count, math.log(delta)))
        assert sum(total.expectation(positive_part, 0.0, least(total, delta, positive_part, 0.0))) <= delta * (
            1 + 1e-14
        )
        value, wrong = total.expectation(positive_part, 0.0, highest(total, delta))
        assert value - wrong >= delta * (1 - 1e-14)


@pytest.mark.parametrize("tilt", [1e-6, 1e-3, 1.0, 1e3])
def test_mass_outside_the_window_counts_at_the_kernels_highest(tilt: float) -> None:
    """(1 - e^-x) e^-tx is highest at log(1 + 1 / t), where it is 1 / (1 + t) / (1 + 1 / t)^t."""
    total = TiltedSum(spacing=0.1, count=0, tilt=tilt, log_moment=0.0, low=0, tilted=np.zeros(8), wrapped=1.0)
    assert total.expectation(positive_part, 0.0, 0.0)[1] >= math.exp(-tilt * math.log1p(1 / tilt)) / (1 + tilt)


def test_more_rounding_than_there_is_probability_leaves_nothing_below() -> None:
    """(1 + r)^n - 1 is not r n where that is large."""
    loss = epoch_loss(epoch_law(1.0, 5, 1, 9.5), "remove")
    rough = Total(((replace(loss, rounding=0.5), 3),), 1e-3)
    assert rough.lower_epsilon(1e-3) == rough.lower_delta(0.1) == rough.lower_delta(1e3) == 0.0
    exact = Total(((loss, 3),), 1e-3).lower_delta(3.0)
    assert rough.upper_delta(3.0) >= min(1.0, exact * 1.5**3)
