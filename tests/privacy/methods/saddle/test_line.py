"""One line of the integral: the bracket holds the exact value, however coarse the line, and fails without any of its bounds."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import ndtr

from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.saddle import _line as _saddle_line
from dptheory.privacy.methods.saddle._line import Line, line_at
from dptheory.privacy.methods.saddle._measures import law
from dptheory.privacy.methods.saddle._moments import StepLoss
from dptheory.privacy.methods.saddle._points import Losses, cut, saddle_at


def steps(noise: float, rate: float, count: int, direction: Direction) -> Losses:
    return (StepLoss(noise_multiplier=noise, sampling_rate=rate, count=count, direction=direction),)


def line(noise: float, rate: float, count: int, direction: Direction, epsilon: float) -> Line:
    kept = cut(steps(noise, rate, count, direction), -20.0)
    return line_at(law(kept), saddle_at(kept, epsilon))


def two_steps(noise: float, rate: float, epsilon: float) -> float:
    """delta of two steps of "remove": E[delta of one step at epsilon - L] over the first step's loss."""
    t = 1 / noise
    z = np.arange(-24000, 28000) * 5e-4
    loss = np.log1p(rate * np.expm1(t * z - t * t / 2))
    weights = np.exp(loss - z**2 / 2) * (5e-4 / math.sqrt(2 * math.pi))
    rest = epsilon - loss
    last = rest <= math.log1p(-rate)  # below the least loss delta is 1 - exp(epsilon)
    output = (np.log(np.expm1(np.where(last, 0.0, rest)) / rate + 1) + t * t / 2) / t
    delta = (1 - rate) * ndtr(-output) + rate * ndtr(t - output) - np.exp(rest) * ndtr(-output)
    return math.fsum(weights * np.where(last, -np.expm1(rest), delta))


@pytest.mark.parametrize(("direction", "epsilon"), [("remove", 0.5), ("add", 0.1), ("replace", 1.0)])
def test_one_step_is_that_of_the_integral_over_outputs(direction: Direction, epsilon: float) -> None:
    low, high = line(1.0, 0.2, 1, direction, epsilon).delta_bracket(epsilon)
    exact = Loss(direction, 1.0, 0.2).delta(epsilon)
    assert low <= exact * (1 + 1e-12) and exact * (1 - 1e-12) <= high
    assert high - low < 1e-6 * high


def test_two_steps() -> None:
    low, high = line(0.7, 0.2, 2, "remove", 2.0).delta_bracket(2.0)
    exact = two_steps(0.7, 0.2, 2.0)
    assert low <= exact * (1 + 1e-10) and exact * (1 - 1e-10) <= high
    assert high - low < 1e-6 * high


def test_most_of_the_mass_is_told_from_one() -> None:
    """c < 0: 1 - delta is the small number. At epsilon = 0 the two directions agree."""
    found = {d: line(0.6, 0.5, 200, d, 0.0) for d in ("remove", "add")}  # type: ignore[arg-type]
    assert all(one.c < 0 for one in found.values())
    brackets = [one.delta_bracket(0.0) for one in found.values()]
    assert max(low for low, _ in brackets) <= min(high for _, high in brackets)
    assert all(high - low < 1e-12 for low, high in brackets)


EXACT = (1.0, 0.02, 1000, "remove", 2.0)


@pytest.fixture(scope="module")
def exact() -> float:
    low, high = line(*EXACT).delta_bracket(2.0)  # type: ignore[arg-type]
    assert high - low < 1e-10 * high
    return (low + high) / 2


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setattr(_saddle_line, "_LOG_WANTED", math.log(0.02))
    return line(*EXACT)  # type: ignore[arg-type]


def test_a_coarse_line_holds_it_too(coarse: Line, exact: float) -> None:
    low, high = coarse.delta_bracket(2.0)
    assert low < exact < high
    assert 1e-4 * exact < high - low < 0.5 * exact


def test_without_aliases_it_does_not(coarse: Line, exact: float) -> None:
    tight = dataclasses.replace(coarse, aliases=(), log_tail=-800.0)
    sparse = dataclasses.replace(tight, log_errors=0 * tight.log_errors)
    value = sparse.delta_bracket(2.0)
    assert not value[0] <= exact <= value[1]


def test_without_the_tail_it_does_not(exact: float) -> None:
    """Planted: half the nodes, and the tail of all."""
    full = line(*EXACT)  # type: ignore[arg-type]
    half = full.log_terms.size // 6
    short = dataclasses.replace(full, log_terms=full.log_terms[:half], log_errors=full.log_errors[:half])
    low, high = short.delta_bracket(2.0)
    assert not low <= exact <= high


def test_the_other_direction_is_another_number(exact: float) -> None:
    low, high = line(1.0, 0.02, 1000, "add", 2.0).delta_bracket(2.0)
    assert high < 0.9 * exact and high - low < 1e-9 * high


def test_smoothing_is_bracketed(exact: float) -> None:
    """With few nodes the line is smoothed: the bracket is wider, holds the value, and needs its width."""
    kept = cut(steps(1.0, 0.02, 1000, "remove"), -20.0)
    smooth = line_at(law(kept), saddle_at(kept, 2.0), 23)
    assert smooth.smoothing > 0
    low, high = smooth.delta_bracket(2.0)
    assert low < exact < high < 2 * exact
    without = dataclasses.replace(smooth, smoothing=0.0)  # planted: the nodes are smoothed, the bracket does not know
    assert not without.delta_bracket(2.0)[0] <= exact


def test_mixed_steps_are_the_product() -> None:
    parts = steps(1.0, 0.02, 500, "remove") + steps(1.0, 0.02, 500, "remove")
    kept = cut(parts, -20.0)
    low, high = line_at(law(kept), saddle_at(kept, 2.0)).delta_bracket(2.0)
    other = line(*EXACT).delta_bracket(2.0)  # type: ignore[arg-type]
    assert max(low, other[0]) <= min(high, other[1]) and high - low < 1e-9 * high


def test_far_from_its_saddle_a_line_says_nothing_wrong() -> None:
    found = line(*EXACT)  # type: ignore[arg-type]
    assert found.delta_bracket(2000.0)[0] <= 1e-300 or found.delta_bracket(2000.0) == (0.0, 1.0)
    low, high = found.delta_bracket(0.0)
    assert low <= line(1.0, 0.02, 1000, "remove", 0.0).delta_bracket(0.0)[1] <= high * (1 + 1e-6)
