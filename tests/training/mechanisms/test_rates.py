"""Schedules, step by step."""

import math

import pytest

from dptheory.training import mechanisms
from tests.refused import refused

STEPS = range(7)


def test_schedules_step_by_step() -> None:
    assert [mechanisms.Constant(0.3)(step) for step in STEPS] == [0.3] * 7
    linear = mechanisms.Linear(start=0.9, end=0.1, steps=5)
    assert [linear(step) for step in STEPS] == pytest.approx([0.9, 0.7, 0.5, 0.3, 0.1, 0.1, 0.1])
    exponential = mechanisms.Exponential(start=0.8, end=0.05, steps=5)
    assert [exponential(step) for step in STEPS] == pytest.approx([0.8, 0.4, 0.2, 0.1, 0.05, 0.05, 0.05])
    cooling = mechanisms.GradualCooling(final_drop_rate=0.6, cooling_epochs=3, steps_per_epoch=2)
    assert [cooling(step) for step in STEPS] == pytest.approx([0.0, 0.0, 0.3, 0.3, 0.6, 0.6, 0.6])


def test_epochs_need_not_be_of_whole_steps() -> None:
    """Epoch e begins at step round(e n): as floor division where n is whole, and the last step has the final rate."""
    for whole in (1, 2, 7):
        by_int, by_float = (
            mechanisms.GradualCooling(final_drop_rate=0.5, cooling_epochs=30, steps_per_epoch=n)
            for n in (whole, float(whole))
        )
        rates = [min(1, step // whole / 29) * 0.5 for step in range(40 * whole)]
        assert [by_int(step) for step in range(len(rates))] == rates == [by_float(step) for step in range(len(rates))]
    for n, epochs in ((20 / 13, 10), (60_000 / 4096, 50), (1.0, 3), (1.01, 200), (math.pi, 40)):
        cooling = mechanisms.GradualCooling(final_drop_rate=0.8, cooling_epochs=epochs, steps_per_epoch=n)
        begins = [round(e * n) for e in range(epochs + 1)]
        wanted = [0.8 * e / (epochs - 1) for e in range(epochs) for _ in range(begins[e], begins[e + 1])]
        assert [cooling(step) for step in range(begins[-1])] == pytest.approx(wanted, rel=1e-12)
        assert cooling(begins[-1] - 1) == 0.8
    for wrong in (0.99, math.nan, math.inf, True):
        with refused("steps_per_epoch", kind=(TypeError, ValueError)):
            mechanisms.GradualCooling(final_drop_rate=0.5, cooling_epochs=3, steps_per_epoch=wrong)


def test_every_value_of_a_schedule_is_checked() -> None:
    given = {0: 0.5, 1: 0.0, 2: 1.0, 3: 1.5, 4: -0.5}
    found = mechanisms.Checked("rate", given.__getitem__)
    assert [found(step) for step in range(3)] == [0.5, 0.0, 1.0]
    for step in (3, 4):
        with refused(f"rate at step {step}"):
            found(step)
    with refused("rate at step 0", "0"):
        mechanisms.Checked("rate", lambda step: 2.0 if step == 0 else 0.5)
    mechanisms.Checked("rate", lambda step: 0.5 if step == 0 else 2.0)
    half_open = mechanisms.Checked("rate", given.__getitem__, ends="[)")
    assert half_open(1) == 0.0
    with refused("rate at step 2", "2"):
        half_open(2)
    with pytest.raises(TypeError):
        mechanisms.Checked("rate", given.__getitem__, "[)")
    with refused("rate", kind=TypeError):
        mechanisms.Checked("rate", 0.5)
