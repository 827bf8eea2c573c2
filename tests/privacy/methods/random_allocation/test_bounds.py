"""Random allocation: bounds against published and exact numbers, simulation, ball arithmetic, and each other."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy

from dptheory.privacy import (
    Composition,
    FixedSizeStep,
    IndexSteps,
    RandomAllocation,
    Step,
    delta_bounds,
    epsilon_bounds,
    gaussian_epsilon,
    least_noise_multiplier,
    max_steps,
    privacy_statement,
    read_composition,
)
from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods.lattice._epsilon import highest, least, positive_part
from dptheory.privacy.methods.lattice._rising_loss import sampled_loss
from dptheory.privacy.methods.lattice._sums import LatticeMasses, TiltedSum, power, tilt_for, tilted_sum
from dptheory.privacy.methods.random_allocation._bands import Bands, Grid, convolved, deposited
from dptheory.privacy.methods.random_allocation._losses import StepLoss, contracted, epoch_loss
from dptheory.privacy.methods.random_allocation._ratio import EpochLaw, epoch_law
from dptheory.privacy.methods.random_allocation._total import Total
from dptheory.pruning import SubsetMallows
from tests.refused import refused

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


GRID = Grid(unit=0.5, per_octave=8)


def _some(seed: int, low: float, high: float) -> Bands:
    rng = np.random.default_rng(seed)
    places, masses = rng.uniform(low, high, 40), rng.random(40)
    return deposited(GRID, places, masses / masses.sum())


def test_points_hold_the_ends_between_them_and_rise() -> None:
    level, index, places = GRID.points(-3.3, 7.7)
    assert places[0] <= -3.3 < places[1] and places[-2] < 7.7 <= places[-1]
    assert (np.diff(places) > 0).all()
    np.testing.assert_array_equal(places, index * 2.0**level * 0.5 / 8)


def test_masses_that_are_put_on_points_keep_total_and_mean() -> None:
    places, masses = np.array([-3.21, 0.017, 5.5]), np.array([0.25, 0.5, 0.25])
    found = deposited(GRID, places, masses)
    assert found.masses.sum() == pytest.approx(1.0, rel=4e-16)
    assert (found.masses * found.places).sum() == pytest.approx(masses @ places, rel=1e-15)


@pytest.mark.parametrize("same", [False, True])
def test_a_sum_keeps_total_and_mean_and_spreads_no_less(same: bool) -> None:
    one = _some(0, -4.0, 9.0)
    other = one if same else _some(1, 0.1, 30.0)
    found = convolved(one, other)
    assert found.masses.sum() == pytest.approx(1.0, rel=1e-14)
    means = [law.moments()[0] for law in (one, other, found)]
    assert means[0] + means[1] == pytest.approx(means[2], rel=1e-13)
    squares = [law.moments()[1] ** 2 for law in (one, other, found)]
    spacing = GRID.spacing(found.levels - 1)
    assert 0.0 <= squares[2] - squares[0] - squares[1] <= 2 * spacing**2  # a point is put on neighbours at most twice


def test_two_ways_to_the_same_square_agree() -> None:
    one = _some(2, -4.0, 9.0)
    copy = Bands(one.grid, one.masses.copy())
    np.testing.assert_allclose(convolved(one, one).masses, convolved(one, copy).masses, rtol=1e-12, atol=0.0)


def test_a_sum_is_the_sum_over_all_pairs_where_the_lattice_holds_them() -> None:
    """Multiples of the coarsest spacing: no point moves."""
    places, masses = np.array([-2.0, 0.0, 1.0, 3.0]), np.array([0.1, 0.2, 0.3, 0.4])
    one = deposited(GRID, places, masses)
    found = convolved(one, one)
    exact: dict[float, float] = {}
    for a, p in zip(places, masses, strict=True):
        for b, q in zip(places, masses, strict=True):
            exact[a + b] = exact.get(a + b, 0.0) + p * q
    held: dict[float, float] = {}
    for place, mass in zip(found.places.ravel(), found.masses.ravel(), strict=True):
        if mass > 0.0:
            held[float(place)] = held.get(float(place), 0.0) + float(mass)
    assert set(held) == set(exact)
    assert all(held[place] == pytest.approx(exact[place], rel=1e-15) for place in exact)


def test_a_coarser_grid_keeps_total_and_mean() -> None:
    one = _some(3, -4.0, 9.0)
    found = one.coarser()
    assert found.grid.unit == 1.0
    assert found.masses.sum() == pytest.approx(1.0, rel=1e-15)
    assert found.moments()[0] == pytest.approx(one.moments()[0], rel=1e-14)


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


SETTING: dict[str, Any] = {"sampling": "random allocation", "delta": 1e-5}
FIFTY: dict[str, Any] = {**SETTING, "noise_multiplier": 1.0, "steps_per_epoch": 50}


@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "direction", "value"),
    [
        (1.0, 50, 20, "remove", 3.640907),
        (1.0, 50, 20, "add", 3.341314),
        (2.0, 8, 40, "remove", 5.334600),
        (2.0, 8, 40, "add", 5.277537),
    ],
)
def test_what_a_plain_transform_gives(noise: float, steps: int, epochs: int, direction: str, value: float) -> None:
    """Numbers of the review, by others' code and to six digits."""
    found = epsilon_bounds(
        **SETTING, noise_multiplier=noise, steps_per_epoch=steps, steps=steps * epochs, direction=direction
    )
    assert found.lower - 1e-6 <= value <= found.upper + 1e-6
    assert found.upper - found.lower <= 2e-4 * value
    assert found.method == "random allocation"


@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "delta"),
    [
        (1.0, 2, 1, 1e-3),
        (2.0, 8, 40, 1e-5),
        (0.7, 3, 3, 1e-3),
        pytest.param(0.7, 3, 3, 1e-8, marks=pytest.mark.slow),
        (5.0, 4, 100, 1e-12),
    ],
)
def test_enclosures_lie_in_the_brackets(noise: float, steps: int, epochs: int, delta: float) -> None:
    """In ball arithmetic, without a lattice: to twelve digits, within the bracket in doubles."""
    pytest.importorskip("flint")
    run = Composition([RandomAllocation(noise_multiplier=noise, steps_per_epoch=steps, count=epochs)])
    for direction in ("remove", "add"):
        found, around = run.epsilon(delta, direction=direction, certified=True), run.epsilon(delta, direction=direction)
        assert found.method == "certified" and 0.0 <= found.upper - found.lower <= 1e-12 * found.upper
        assert around.lower <= found.upper and found.lower <= around.upper
        at = run.delta(found.upper, direction=direction, certified=True)
        assert at.lower <= delta * (1 + 1e-15) and at.upper <= delta and at.upper >= delta * (1 - 1e-9)


def test_an_enclosure_of_one_step_an_epoch_is_that_of_a_gaussian_mechanism() -> None:
    module = pytest.importorskip("dptheory.privacy.methods.random_allocation._enclosure", exc_type=ModuleNotFoundError)
    part = RandomAllocation(noise_multiplier=1.0, steps_per_epoch=1, count=3)
    exact = gaussian_epsilon(mu=math.sqrt(3), delta=1e-5)
    for direction in ("remove", "add"):
        found = module.worst_epsilon(part, delta=1e-5, among=(direction,))
        assert found[0] * (1 - 1e-9) <= exact <= found[1] * (1 + 1e-9)


@pytest.mark.parametrize("noise", [1.1, 1.3, 7.7])
def test_moments_are_those_of_the_noise_and_not_of_a_double_beside_it(noise: float) -> None:
    """Of one step an epoch E S^p = exp(p (p - 1) / (2 noise^2)); 1 / noise is no double."""
    flint = pytest.importorskip("flint")
    module = pytest.importorskip("dptheory.privacy.methods.random_allocation._enclosure", exc_type=ModuleNotFoundError)
    line = module._line_for(RandomAllocation(noise_multiplier=noise, steps_per_epoch=1, count=3), 1.0, 1e-5)
    with flint.ctx.workprec(300):
        for k, value in enumerate(line.values[:8]):
            p = flint.acb(0.5, -line.spacing * k)
            assert value.overlaps((3 * p * (p - 1) / (2 * flint.arb(noise) ** 2)).exp())
            assert value.real.rad() < 1e-18


def test_an_enclosure_of_two_steps_against_a_double_integral() -> None:
    """One epoch: E (S - gamma)+ of two lognormals, one in closed form, the other by a fine rule."""
    pytest.importorskip("flint")
    run = Composition([RandomAllocation(noise_multiplier=1.0, steps_per_epoch=2, count=1)])
    epsilon = 1.25
    z = np.arange(-12.0, 14.0, 1 / 512)
    rest = 2 * math.exp(epsilon) - np.exp(z - 0.5)  # E (x - rest)+, of a call where rest > 0
    depth = -np.log(np.maximum(rest, 1e-300))
    call = scipy.special.ndtr(depth + 0.5) - rest * scipy.special.ndtr(depth - 0.5)
    exact = float(np.where(rest > 0, call, 1 - rest) @ np.exp(-(z**2) / 2)) / (2 * 512 * math.sqrt(2 * math.pi))
    found = run.delta(epsilon, direction="remove", certified=True)
    assert found.lower == pytest.approx(exact, rel=1e-6) and found.upper - found.lower <= 1e-12 * found.upper


def test_what_has_no_enclosure() -> None:
    pytest.importorskip("flint")
    narrow = RandomAllocation(noise_multiplier=20.0, steps_per_epoch=10_000, count=1)
    several = RandomAllocation(noise_multiplier=1.0, steps_per_epoch=10, participations=2, count=1)
    one = RandomAllocation(noise_multiplier=1.0, steps_per_epoch=10, count=1)
    for run in (Composition([narrow]), Composition([several]), Composition([one], adjacency="replace-one")):
        with refused("certified"):
            run.epsilon(1e-5, certified=True)


@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "delta"),
    [
        (0.5, 2, 1, 1e-5),
        (0.5, 100, 1000, 1e-5),
        (0.5, 10_000, 30, 1e-5),
        (1.0, 10_000, 1000, 1e-5),
        (1.0, 50, 20, 1e-15),
        (1.0, 50, 20, 0.1),
        (5.0, 2, 1000, 1e-8),
        (0.7468, 3974, 34, 1.2e-10),  # from one tilt to the next the tail takes over
        (1.174, 3898, 29, 1.8e-12),
        (20.0, 10_000, 1000, 1e-5),
        (20.0, 3, 1, 1e-5),
    ],
)
def test_brackets_are_narrow_over_the_range(noise: float, steps: int, epochs: int, delta: float) -> None:
    for direction in ("remove", "add"):
        found = epsilon_bounds(
            sampling="random allocation",
            noise_multiplier=noise,
            steps_per_epoch=steps,
            steps=steps * epochs,
            delta=delta,
            direction=direction,
        )
        assert 0.0 < found.upper - found.lower <= max(1e-3 * found.lower, 1e-6)


def test_delta_is_that_of_epsilon() -> None:
    found = epsilon_bounds(**FIFTY, steps=1000)
    asked = {name: value for name, value in FIFTY.items() if name != "delta"}
    below = delta_bounds(**asked, steps=1000, epsilon=found.upper)
    assert below.upper <= 1e-5 * (1 + 1e-6)
    assert delta_bounds(**asked, steps=1000, epsilon=found.lower).lower >= 1e-5 * (1 - 1e-6)


def test_epochs_that_are_cut_short() -> None:
    """More than what came before, less than a whole epoch; cut short after its only step, or whole: nothing special."""
    values = [epsilon_bounds(**FIFTY, steps=steps) for steps in (1000, 1010, 1040, 1050)]
    for less, more in itertools.pairwise(values):
        assert less.lower < more.upper and less.upper < more.upper
    one = RandomAllocation(noise_multiplier=1.0, steps_per_epoch=50, count=1)
    last = Composition([RandomAllocation(noise_multiplier=1.0, steps_per_epoch=50, count=1, stopped_after=1)])
    sampled = Composition(
        [Step(noise_multiplier=1.0, sampling_rate=1 / 50, count=1)]
    )  # one step: a sample at rate 1 / 50
    for direction in ("remove", "add"):
        exact = sampled.epsilon(1e-5, direction=direction)
        found = last.epsilon(1e-5, direction=direction)
        assert found.lower <= exact.upper and exact.lower <= found.upper
    whole = Composition([RandomAllocation(noise_multiplier=1.0, steps_per_epoch=50, count=1, stopped_after=50)])
    assert whole.epsilon(1e-5).upper == Composition([one]).epsilon(1e-5).upper
    two = RandomAllocation(noise_multiplier=1.0, steps_per_epoch=50, count=1, participations=2, stopped_after=20)
    assert Composition([two]).epsilon(1e-5).upper <= epsilon_bounds(**FIFTY, steps=50, participations=2).upper


@pytest.mark.parametrize("participations", [2, 3, 9])
def test_several_participations(participations: int) -> None:
    """Both ends hold, near each other; more participations cost more; all of them are Gaussian steps."""
    setting: dict[str, Any] = {**SETTING, "noise_multiplier": 2.0, "steps_per_epoch": 50, "steps": 500}
    found = epsilon_bounds(**setting, participations=participations)
    fewer = epsilon_bounds(**setting, participations=participations - 1)
    assert found.lower <= found.upper <= 1.1 * found.lower
    assert fewer.upper < found.upper and fewer.lower < found.lower
    assert found.method.endswith("blocks")


def test_two_participations_of_three_steps_enclose_the_exact_divergence() -> None:
    """delta = E (S - gamma)+ with S = (x1 x2 + x1 x3 + x2 x3) / 3: two numbers on a grid, the third by hand."""
    shift, z = 0.7, np.linspace(-9.0, 10.0, 1201)
    weights = np.exp(-np.square(z) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    x = np.exp(shift * z - shift * shift / 2)
    sums, products = np.add.outer(x, x), np.multiply.outer(x, x)
    run = Composition([RandomAllocation(noise_multiplier=1 / shift, steps_per_epoch=3, participations=2, count=1)])
    for epsilon in (0.1, 1.0, 2.0):
        strike = (3 * math.exp(epsilon) - products) / sums
        positive = np.maximum(strike, 1e-300)
        d = -np.log(positive) / shift
        value = scipy.special.ndtr(d + shift / 2) - positive * scipy.special.ndtr(d - shift / 2)
        value = np.where(strike > 0.0, value, 1.0 - strike)
        truth = float((np.multiply.outer(weights, weights) * sums / 3 * value).sum())
        found = run.delta(epsilon, direction="remove")
        assert found.lower <= truth <= found.upper


def test_one_replaced_record_of_two_steps_encloses_the_exact_divergence() -> None:
    """Opposite vectors: E_0 (mean of e^{s z_i} - gamma mean of e^{-s z_i})+ e^{-s^2 / 2}, on a grid of both outputs."""
    shift, z = 0.8, np.linspace(-9.0, 9.0, 4001)
    weights = np.exp(-np.square(z) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    run = Composition(
        [RandomAllocation(noise_multiplier=1 / shift, steps_per_epoch=2, count=1)], adjacency="replace-one"
    )
    up, down = np.exp(shift * z - shift**2 / 2), np.exp(-shift * z - shift**2 / 2)
    for epsilon in (0.0, 1.0, 3.0):
        one = (up - math.exp(epsilon) * down) / 2
        truth = float(weights @ np.maximum(np.add.outer(one, one), 0.0) @ weights)
        found = run.delta(epsilon)
        assert found.lower <= truth + 1e-6 and truth <= found.upper + 1e-6  # the kink: z[1]^2 of its mass


def test_adaptive_vectors_gain_nothing_under_replacement() -> None:
    """Step 2 of the page: of two steps, vectors of the second that depend on the first output never beat opposite ones."""
    rng = np.random.default_rng(0)
    shift, z = 1.0, np.linspace(-8.0, 8.0, 641)
    weights = np.exp(-np.square(z) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])

    def ratio(vector: Any) -> Any:
        return np.exp(vector * z - np.square(vector) / 2)

    for _ in range(40):
        gamma = math.exp(rng.uniform(-1.5, 1.5))
        best = np.add.outer(ratio(shift) - gamma * ratio(-shift), ratio(shift) - gamma * ratio(-shift)) / 2
        most = float(weights @ np.maximum(best, 0.0) @ weights)
        first = rng.uniform(-shift, shift, 2)
        second = np.where(z[:, None] > rng.normal(), rng.uniform(-shift, shift, 2), rng.uniform(-shift, shift, 2))
        p = (ratio(first[0])[:, None] + np.exp(np.outer(second[:, 0], z) - np.square(second[:, :1]) / 2)) / 2
        q = (ratio(first[1])[:, None] + np.exp(np.outer(second[:, 1], z) - np.square(second[:, 1:]) / 2)) / 2
        assert float(weights @ np.maximum(p - gamma * q, 0.0) @ weights) <= most + 1e-6


def test_a_simulation_of_ten_epochs() -> None:
    """delta as the mean of (1 - e^(epsilon - L))+ over outputs drawn with a larger vector, weighted; 5 deviations."""
    shift, steps, epochs, samples = 1.0, 8, 10, 200_000
    run = Composition([RandomAllocation(noise_multiplier=1.0, steps_per_epoch=steps, count=epochs)])
    epsilon = run.epsilon(1e-2, direction="remove").upper
    rng, drawn = np.random.default_rng(1), shift * 1.15
    loss, log_weight = np.zeros(samples), np.zeros(samples)
    for _ in range(epochs):
        y = rng.standard_normal((samples, steps))
        y[:, 0] += drawn  # the steps are alike: the record takes part in the first
        with_, as_drawn = (np.exp(m * y - m * m / 2).mean(axis=1) for m in (shift, drawn))
        loss += np.log(with_)
        log_weight += np.log(with_ / as_drawn)
    terms = np.exp(log_weight) * np.maximum(-np.expm1(epsilon - loss), 0.0)
    error = float(terms.std()) / math.sqrt(samples)
    assert 5 * error < 0.1 * terms.mean()
    found = run.delta(epsilon, direction="remove")
    assert found.lower - 5 * error <= terms.mean() <= found.upper + 5 * error


def test_ball_arithmetic_of_one_epoch() -> None:
    """t = 2: an integral over one number of the other's call, enclosed by python-flint."""
    flint = pytest.importorskip("flint")
    acb, arb = flint.acb, flint.arb
    flint.ctx.prec = 100
    shift, epsilon = 1.0, 2.5
    gamma = arb(epsilon).exp()

    def normal(x: Any) -> Any:
        return (-(-x / acb(2).sqrt()).erf() + 1) / 2

    def integrand(z: Any, _: Any) -> Any:
        strike = 2 * gamma - (shift * z - shift * shift / 2).exp()
        d = -strike.log() / shift
        value = normal(d + shift / 2) - strike * normal(d - shift / 2)
        return value * (-z * z / 2).exp() / acb(2 * arb.pi()).sqrt()

    kink = ((2 * gamma).log() + shift * shift / 2) / shift
    cut = 1e-9
    end = kink - cut
    body = acb.integral(integrand, acb(-14), acb(end)).real
    upper_tail = normal(acb(shift - kink)).real + (1 - 2 * gamma) * normal(acb(-kink)).real  # x + 1 - 2 gamma beyond
    total = (body + upper_tail) / 2
    slack = cut + 1e-40  # the sliver, where a call is at most 1 and a density below 1 / 2; outputs below -14
    low, high = float(total.lower()), float(total.upper()) + slack
    run = Composition([RandomAllocation(noise_multiplier=1.0, steps_per_epoch=2, count=1)])
    found = run.delta(epsilon, direction="remove")
    assert found.lower <= high and low <= found.upper
    assert found.upper - found.lower <= 1e-4 * low


def test_one_step_an_epoch_is_a_gaussian_release() -> None:
    found = epsilon_bounds(**SETTING, noise_multiplier=4.0, steps_per_epoch=1, steps=10)
    assert found.method == "Gaussian"
    assert found.lower <= gaussian_epsilon(math.sqrt(10) / 4, 1e-5) <= found.upper


def test_many_steps_an_epoch_come_near_poisson_samples() -> None:
    """A record takes part once, not once on average: a little less is spent, the less so the more steps an epoch has."""
    gaps = []
    for steps in (20, 200, 2000):
        epochs = epsilon_bounds(**SETTING, noise_multiplier=1.0, steps_per_epoch=steps, steps=30 * steps)
        poisson = epsilon_bounds(noise_multiplier=1.0, sampling_rate=1 / steps, steps=30 * steps, delta=1e-5)
        gaps.append(poisson.lower / epochs.upper - 1)
    assert gaps[0] > gaps[1] > gaps[2] > 0.0 and gaps[2] < 0.02


def test_one_record_replaced() -> None:
    """At least what removing costs, at most removing and adding; neither end is that of the other."""
    found = epsilon_bounds(**FIFTY, steps=1000, adjacency="replace-one")
    removed = epsilon_bounds(**FIFTY, steps=1000)
    assert removed.lower <= found.lower <= found.upper <= 2.5 * removed.upper
    assert found.method == "Gaussian, remove, then add"
    exact = Composition(
        [RandomAllocation(noise_multiplier=8.0, steps_per_epoch=4, participations=4, count=5)], adjacency="replace-one"
    ).epsilon(1e-5)
    assert exact.lower <= gaussian_epsilon(2 * math.sqrt(20) / 8, 1e-5) <= exact.upper


def test_beside_other_steps() -> None:
    """An epoch and Gaussian releases of other records' noise: more than either, less than both added up."""
    epochs = RandomAllocation(noise_multiplier=1.0, steps_per_epoch=20, count=5)
    beside = Step(noise_multiplier=4.0, sampling_rate=1.0, count=2)
    both, one, other = (Composition(parts).epsilon(1e-5) for parts in ([epochs, beside], [epochs], [beside]))
    assert max(one.upper, other.upper) < both.lower <= both.upper < one.lower + other.lower
    assert both.upper - both.lower <= 1e-3 * both.lower
    tiny = Composition([epochs, Step(noise_multiplier=1000.0, sampling_rate=1.0, count=1)]).epsilon(1e-5)
    assert one.lower <= tiny.upper and tiny.lower <= one.upper * (1 + 1e-3)


@pytest.mark.parametrize("noise", [1e-3, 0.1, 2e3])
def test_outside_the_range_of_the_lattice_closed_forms_hold(noise: float) -> None:
    found = Composition([RandomAllocation(noise_multiplier=noise, steps_per_epoch=10, count=2)]).epsilon(1e-5)
    assert found.method == "Gaussian" and 0.0 < found.lower <= found.upper < math.inf
    assert found.upper == pytest.approx(gaussian_epsilon(math.sqrt(2) / noise, 1e-5), rel=1e-6)


def test_budgets() -> None:
    sigma = least_noise_multiplier(epsilon=3.0, **SETTING, steps_per_epoch=10, steps=50)
    run: dict[str, Any] = {**SETTING, "steps_per_epoch": 10}
    assert epsilon_bounds(**run, noise_multiplier=sigma, steps=50).upper <= 3.0
    assert epsilon_bounds(**run, noise_multiplier=0.998 * sigma, steps=50).upper > 3.0
    steps = max_steps(epsilon=3.0, noise_multiplier=2.0, **run)
    assert epsilon_bounds(**run, noise_multiplier=2.0, steps=steps).upper <= 3.0
    assert epsilon_bounds(**run, noise_multiplier=2.0, steps=steps + 1).upper > 3.0
    # a record takes part for sure: no delta covers that it does not
    assert (
        least_noise_multiplier(epsilon=1.0, sampling="random allocation", delta=0.9, steps_per_epoch=10, steps=10)
        > 0.05
    )


def test_attack_statement_and_file(tmp_path: Any) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[[random_allocation]]\nnoise_multiplier = 2.0\nsteps_per_epoch = 8\ncount = 4\n", encoding="utf-8")
    run = read_composition(file)
    assert run == Composition([RandomAllocation(noise_multiplier=2.0, steps_per_epoch=8, count=4)])
    found = run.tradeoff(0.05)
    assert found.upper - found.lower < 1e-3
    statement = privacy_statement(composition=run, delta=1e-5, sampler="random allocation")
    assert statement.steps == 32 and statement.epsilon == run.epsilon(1e-5).upper


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"sampling_rate": 0.1}, "sampling_rate"),
        ({"steps_per_epoch": None}, "steps_per_epoch"),
        ({"participations": 51}, "participations"),
        ({"participations": 0}, "participations"),
        ({"sampling": "poisson"}, "steps_per_epoch"),
        ({"sampling": "poisson", "steps_per_epoch": None}, "sampling_rate"),
        ({"sampling": "poisson", "steps_per_epoch": None, "sampling_rate": 0.1, "participations": 1}, "participations"),
        ({"certified": True, "participations": 2}, "certified"),
    ],
)
def test_what_does_not_go_together(change: dict[str, Any], argument: str) -> None:
    with refused(argument):
        epsilon_bounds(**{**FIFTY, "steps": 100, **change})


def test_other_parts_stand_apart() -> None:
    epochs = RandomAllocation(noise_multiplier=1.0, steps_per_epoch=20, count=5)
    for other in (
        FixedSizeStep(noise_multiplier=1.0, sampling_rate=0.1, count=1),
        IndexSteps(steps=1, mechanism=SubsetMallows(8, 2, theta=0.1)),
    ):
        with refused("parts"):
            Composition([epochs, other])


def test_an_epoch_at_an_epsilon_without_an_exponential() -> None:
    found = Composition([RandomAllocation(noise_multiplier=0.3, steps_per_epoch=10, count=1)]).delta(800.0)
    assert 0.0 <= found.lower <= found.upper <= 1e-200
