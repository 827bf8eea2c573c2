"""Schedules: steps of more kinds than the saddle line tells apart."""

import pytest

from dptheory.privacy import Composition, Step
from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods._many_kinds import ManyKinds
from dptheory.privacy.methods.saddle._brackets import MOST_KINDS, SaddleLine

SCHEDULE = tuple(
    Step(noise_multiplier=2.0 * 0.98**epoch, sampling_rate=0.01, count=100) for epoch in range(60)
)  # Opacus's ExponentialNoise


def test_a_schedule_is_as_narrow_as_others_have_it() -> None:
    """dp-accounting's PLD gives 6.91498 at 2e-4, an upper bound; binned into 16 kinds it was 7.903."""
    found = Composition(SCHEDULE).epsilon(1e-5)
    assert found.method == "lattice"
    assert found.lower <= 6.91498 * (1 + 1e-4) and found.upper >= 6.91498 * (1 - 1e-4)
    assert 0.0 < found.upper - found.lower <= 3e-4 * found.upper


@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
def test_kinds_that_are_nearly_alike_cost_what_alike_ones_do(direction: Direction) -> None:
    """Steps of noise 1 to 1 + 1e-9 in 20 kinds, against the saddle line of one kind."""
    kinds = tuple(Step(noise_multiplier=1.0 + 1e-10 * i, sampling_rate=0.02, count=10) for i in range(20))
    assert len(kinds) > MOST_KINDS
    alike = (Step(noise_multiplier=1.0, sampling_rate=0.02, count=200),)
    exact = SaddleLine().epsilon(alike, direction, 1e-6)
    found = ManyKinds().epsilon(kinds, direction, 1e-6)
    assert found.settled and found.lower <= exact.upper * (1 + 1e-8) and exact.lower * (1 - 1e-8) <= found.upper
    assert found.upper - found.lower <= 1e-3 * found.upper
    at = exact.upper
    bracket = ManyKinds().delta(kinds, direction, at)
    assert bracket.lower <= 1e-6 * (1 + 1e-6) and bracket.upper >= 1e-6 * (1 - 1e-6)
