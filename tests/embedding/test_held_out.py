"""Residuals of held-out anchors: order of the answers, scale, bad input."""

import numpy as np
import pytest

from dptheory.embedding import held_out_residual, project
from tests.refused import refused

_ROWS = np.random.default_rng(0).standard_normal((60, 8))


def test_bounds_lie_above_the_means_and_fall_with_more_anchors() -> None:
    for clip in (1e-3, 1.0, 2.8, 50.0):
        few, many = (
            held_out_residual(residuals=np.tile(_ROWS, (times, 1)), residual_clip=clip, failure_probability=0.05)
            for times in (1, 20)
        )
        assert few.energy == pytest.approx(many.energy, rel=1e-12)
        for found in (few, many):
            assert found.energy * (1 - 1e-12) <= found.energy_bound <= clip**2
            assert found.clip_probability <= found.clip_probability_bound <= 1
        assert many.energy_bound <= few.energy_bound and many.clip_probability_bound <= few.clip_probability_bound


def test_it_scales_with_the_gradients() -> None:
    plain, large = (
        held_out_residual(residuals=_ROWS * scale, residual_clip=2.8 * scale, failure_probability=0.1)
        for scale in (1.0, 1e60)
    )
    assert large.energy_bound == pytest.approx(plain.energy_bound * 1e120, rel=1e-9)
    assert large.clip_probability_bound == plain.clip_probability_bound


def test_nothing_left_and_everything_clipped() -> None:
    empty = held_out_residual(residuals=np.zeros((9, 2)), residual_clip=3.0, failure_probability=0.05)
    assert empty.energy == 0 and empty.energy_bound == pytest.approx(9 * (1 - 0.05 ** (1 / 9)), rel=1e-9)
    full = held_out_residual(residuals=np.full((9, 2), 7.0), residual_clip=3.0, failure_probability=0.05)
    assert full.energy == full.energy_bound == 9 and full.clip_probability == full.clip_probability_bound == 1


def test_residuals_of_a_projection_go_in() -> None:
    left = project(_ROWS, basis=np.eye(8)[:7]).residuals
    found = held_out_residual(residuals=left, residual_clip=10.0, failure_probability=0.05)
    assert found.energy == pytest.approx(np.square(_ROWS[:, 7]).mean(), rel=1e-12)


def test_residuals_must_be_a_matrix() -> None:
    for bad in ([1.0, 2.0], np.zeros((0, 3)), [[1e141]], 3.0):
        with refused("residuals"):
            held_out_residual(residuals=bad, residual_clip=1.0, failure_probability=0.05)


def test_small_bounds_keep_their_digits() -> None:
    """Nothing left of any of h: both bounds are 1 - delta^(1/h), here 2e-13."""
    failure = 1 - 1e-9
    found = held_out_residual(residuals=np.zeros((5000, 1)), residual_clip=1.0, failure_probability=failure)
    for bound in (found.energy_bound, found.clip_probability_bound):
        assert bound == pytest.approx(-np.expm1(np.log(failure) / 5000), rel=1e-9, abs=0)


def test_failure_probability_stays_where_the_quantile_is_exact() -> None:
    """At 1e-300 SciPy's inverse Beta function, and with it the bound, is 3 % too small (10 clipped of 100,000)."""
    with refused("failure_probability"):
        held_out_residual(residuals=_ROWS, residual_clip=1.0, failure_probability=1e-300)


@pytest.mark.parametrize("failure", [1e-150, 1e-199])
def test_a_chance_that_is_one_for_all_a_double_can_say(failure: float) -> None:
    found = held_out_residual(residuals=[[2.0]] + [[0.5]] * 4, residual_clip=1.0, failure_probability=failure)
    assert found.clip_probability_bound == 1.0
