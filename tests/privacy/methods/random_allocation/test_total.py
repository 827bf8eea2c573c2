"""Sums of losses from both sides, against sums that are formed without a transform and without tilts."""

import math

import numpy as np
import pytest

from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods.lattice._sums import power
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
