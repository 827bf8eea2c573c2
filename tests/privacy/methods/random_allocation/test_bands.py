"""Laws of sums on nested lattices."""

import numpy as np
import pytest

from dptheory.privacy.methods.random_allocation._bands import Bands, Grid, convolved, deposited

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
