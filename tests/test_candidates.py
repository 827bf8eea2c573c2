"""Candidates: the grid by hand, noise against closed form and accountant, and what is refused."""

import math
from typing import Any

import pytest

from dptheory.planning import Candidate, candidates
from dptheory.privacy import NOISE, epsilon_bounds, gaussian_mu

GIVEN: dict[str, Any] = {"num_examples": 2000, "epsilon": 3.0, "delta": 1e-5, "max_epochs": 4.0}


@pytest.fixture(scope="module")
def grid() -> tuple[Candidate, ...]:
    return candidates(**GIVEN)


def test_the_grid_by_hand(grid: tuple[Candidate, ...]) -> None:
    batches = (2000, 1000, 500, 250, 125, 62, 31, 16)  # 2000 / 2^k, in whole records, and 16 where that is less
    expected = [
        (b, e, round(e * 2000 / b)) for b in batches for e in (4.0, 2.0, 1.0, 0.5) if e * 2000 >= b
    ]  # whole batches
    assert [(one.batch_size, one.epochs, one.steps) for one in grid] == expected
    assert [one.sampling_rate for one in grid] == [b / 2000 for b, _, _ in expected]


def test_each_noise_is_the_least_that_keeps_the_budget(grid: tuple[Candidate, ...]) -> None:
    """``least_noise_multiplier`` promises 1e-6 relative: 2e-6 less does not keep epsilon."""
    for one in grid:
        run: dict[str, Any] = {"sampling_rate": one.sampling_rate, "steps": one.steps, "delta": 1e-5}
        assert epsilon_bounds(noise_multiplier=one.noise_multiplier, **run).upper <= 3.0
        assert epsilon_bounds(noise_multiplier=one.noise_multiplier * (1 - 2e-6), **run).upper > 3.0


def test_without_sampling_noise_is_the_closed_form() -> None:
    """Of T steps on all records: sqrt(T) / mu; the noise found is the least to 1e-6."""
    whole: dict[str, Any] = {"num_examples": 50, "epsilon": 1.0, "delta": 1e-6, "max_epochs": 8.0, "batch_size": 50}
    for found, steps in ((candidates(**whole), (8, 4, 2, 1)), (candidates(**whole, epochs=2.0), (2,))):
        assert [(one.steps, one.epochs, one.batch_size, one.sampling_rate) for one in found] == [
            (count, float(count), 50, 1.0) for count in steps
        ]
        for one in found:
            assert one.noise_multiplier == pytest.approx(math.sqrt(one.steps) / gaussian_mu(1.0, 1e-6), rel=1e-5)
            assert one.noise_per_step == one.noise_multiplier / 50


def test_what_is_fixed_takes_the_place_of_the_grid() -> None:
    fixed = candidates(**GIVEN, batch_size=100)
    assert {(one.batch_size, one.sampling_rate) for one in fixed} == {(100, 0.05)} and len(fixed) == 4
    fixed = candidates(**GIVEN, epochs=3)
    assert {one.epochs for one in fixed} == {3.0} and [one.batch_size for one in fixed] == [
        2000, 1000, 500, 250, 125, 62, 31, 16,
    ]  # fmt: skip
    (one,) = candidates(**GIVEN, batch_size=7, epochs=0.5)
    assert (one.batch_size, one.epochs, one.steps) == (7, 0.5, 143)  # 1000 / 7 = 142.9


def test_few_records_leave_batches_of_16() -> None:
    assert {one.batch_size for one in candidates(**(GIVEN | {"num_examples": 50}))} == {50, 25, 16}


def test_passes_without_a_whole_batch_and_runs_that_are_too_long_are_left_out() -> None:
    few = candidates(**(GIVEN | {"max_epochs": 2.0}), batch_size=1000)
    assert [(one.epochs, one.steps) for one in few] == [(2.0, 4), (1.0, 2), (0.5, 1)]
    long = candidates(num_examples=800_000, epsilon=3.0, delta=1e-5, max_epochs=80, batch_size=800)
    assert [one.steps for one in long] == [40_000, 20_000, 10_000]  # and not 80,000


def test_noise_out_of_range_is_left_out() -> None:
    """All records in each of T steps ask for sqrt(T) / mu, mu the Gaussian one of the budget: here 580 sqrt(T)."""
    least = 1 / gaussian_mu(0.001, 3e-4)
    found = candidates(num_examples=50, epsilon=0.001, delta=3e-4, max_epochs=8, batch_size=50)
    assert [one.steps for one in found] == [steps for steps in (8, 4, 2, 1) if math.sqrt(steps) * least <= NOISE[1]]
    assert 0 < len(found) < 4
