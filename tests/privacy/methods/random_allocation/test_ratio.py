"""The two laws of an epoch: what sums of lognormal numbers must be, and exact values for few steps."""

import math

import numpy as np
import pytest
import scipy

from dptheory.privacy.methods.random_allocation._ratio import EpochLaw, epoch_law

REACH = 9.0


def upper(law: EpochLaw, gamma: float) -> float:
    """E (S - gamma)+ of the spread ratio."""
    return float((np.maximum(law.ratios - gamma, 0.0) * law.without).sum())


def lower(law: EpochLaw, gamma: float) -> float:
    """sum (p - gamma q)+ of the labels."""
    return float(np.maximum(law.taking_part - gamma * law.without, 0.0).sum())


def call(shift: float, strike: np.ndarray) -> np.ndarray:
    """E (x - K)+ of x = exp(s z - s^2 / 2), by hand."""
    positive = np.maximum(strike, 1e-300)
    d = -np.log(positive) / shift
    value = scipy.special.ndtr(d + shift / 2) - positive * scipy.special.ndtr(d - shift / 2)
    return np.where(strike > 0.0, value, 1.0 - strike)


def exact(shift: float, steps: int, gamma: float, coarser: int = 1) -> float:
    """E (mean of x_1..x_t - gamma)+: the last by hand, the others on a fine grid."""
    size = {2: 40_000, 3: 800, 4: 120}[steps] // coarser + 1
    z = np.linspace(-9.0, 9.0 + shift, size)
    weights = np.exp(-np.square(z) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    x = np.exp(shift * z - shift * shift / 2)
    total, mass = x, weights
    for _ in range(steps - 2):
        total, mass = np.add.outer(total, x).ravel(), np.multiply.outer(mass, weights).ravel()
    return float(mass @ call(shift, steps * gamma - total)) / steps


@pytest.mark.parametrize("steps", [2, 3, 7, 50, 1000])
@pytest.mark.parametrize("shift", [0.05, 0.3, 1.0, 2.0])
def test_total_mean_and_second_moment(shift: float, steps: int) -> None:
    law = epoch_law(shift, steps, 1, REACH)
    assert law.without.sum() == pytest.approx(1.0, abs=law.rounding + law.left_out)
    assert law.taking_part.sum() == pytest.approx(1.0, abs=law.rounding + law.left_out)
    assert law.ratios @ law.without == pytest.approx(1.0, abs=2 * law.rounding + law.left_out)
    # the ratio's variance is expm1(s^2) / t; spread it is more, on labels less (chi squared)
    truth = math.expm1(shift * shift) / steps
    above = float(np.square(law.ratios - 1.0) @ law.without)
    seen = law.without > 0.0
    below = float((np.square(law.taking_part[seen] - law.without[seen]) / law.without[seen]).sum())
    missing = (
        40 * math.exp(shift * shift) * scipy.special.ndtr(-REACH + shift)
    )  # of the second moment, beyond the reach
    assert below <= truth * (1 + 1e-9) and truth <= above * (1 + 1e-9) + missing
    assert above - below <= 2e-3 * truth


@pytest.mark.parametrize("steps", [2, 3, 4])
@pytest.mark.parametrize("shift", [0.3, 1.0, 2.0])
def test_divergences_enclose_exact_ones(shift: float, steps: int) -> None:
    law = epoch_law(shift, steps, 1, REACH)
    for gamma in (0.3, 0.9, 1.0, 1.5, 4.0):
        truth = exact(shift, steps, gamma)
        error = 1e-12 + abs(truth - exact(shift, steps, gamma, coarser=2))  # of the trapezoid rule
        assert lower(law, gamma) <= truth + error and truth <= upper(law, gamma) + error + law.left_out
        assert upper(law, gamma) - lower(law, gamma) <= 1e-3 * truth + 1e-9


def test_one_step_is_a_gaussian_mechanism() -> None:
    for shift in (0.2, 1.0):
        law = epoch_law(shift, 1, 1, REACH)
        for gamma in (0.5, 1.0, 3.0):
            truth = float(call(shift, np.array(gamma)))
            assert lower(law, gamma) <= truth * (1 + 1e-12) <= upper(law, gamma) * (1 + 2e-12) + law.left_out


def test_two_participations_of_three_steps() -> None:
    """From below, S = (x1 x2 + x1 x3 + x2 x3) / 3: no more than its divergence, and near it."""
    shift = 0.7
    law = epoch_law(shift, 3, 2, REACH)
    z = np.linspace(-9.0, 9.0 + shift, 1201)
    weights = np.exp(-np.square(z) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    x = np.exp(shift * z - shift * shift / 2)
    sums, products = np.add.outer(x, x), np.multiply.outer(x, x)
    for gamma in (0.5, 1.0, 2.0):
        truth = float(
            (np.multiply.outer(weights, weights) * sums / 3 * call(shift, (3 * gamma - products) / sums)).sum()
        )
        found = lower(law, gamma)
        assert 0.9 * truth <= found <= truth + 1e-9


def test_all_participations_are_all_steps() -> None:
    """S is the product of all numbers: the label's law with the record is that of numbers that all are shifted."""
    law = epoch_law(0.5, 2, 2, REACH, 64)
    seen = law.without > 0.0
    mean = float(law.taking_part @ law.ratios)
    assert mean == pytest.approx(math.exp(0.25), rel=1e-4)
    assert (law.taking_part[seen] >= 0.0).all()
