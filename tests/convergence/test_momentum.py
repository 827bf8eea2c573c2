"""Noise under momentum against simulation in fractions, high precision and its own laws."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import convergence
from tests.named import in_order
from tests.refused import refused

INF, NAN = math.inf, math.nan
MOMENTA = st.floats(0, 0.9999)
POSITIVE = st.floats(1e-3, 1e3)


def _closed_sums(mu: float, steps: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Sum and sum of squares of (1 - mu^j) / (1 - mu), j = 1..steps, in closed form with 80 digits."""
    with mpmath.workdps(80):
        m, one = mpmath.mpf(mu), mpmath.mpf(1)
        first = steps - m * (one - m**steps) / (one - m)
        second = steps - 2 * m * (one - m**steps) / (one - m) + m**2 * (one - m ** (2 * steps)) / (one - m**2)
        return first / (one - m), second / (one - m) ** 2


@pytest.mark.parametrize("mu", [0.0, 1e-12, 0.5, 0.9, 0.999, 1 - 1e-9, 1 - 2**-53])
@pytest.mark.parametrize("steps", [1, 2, 3, 1000, 999_999, 10**9, 10**12])
def test_displacement_has_twelve_digits(mu: float, steps: int) -> None:
    mean, square = _closed_sums(mu, steps)
    assert abs(convergence.displacement_mean(learning_rate=1.0, force=1.0, momentum=mu, steps=steps) / mean - 1) < 1e-12
    assert (
        abs(convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=mu, steps=steps) / square - 1)
        < 1e-12
    )


@pytest.mark.parametrize("mu", [1e-12, 0.5, 0.9, 1 - 1e-9, 1 - 2**-53])
@pytest.mark.parametrize("steps", [1, 2, 50, 10**12])
def test_velocity_has_twelve_digits(mu: float, steps: int) -> None:
    with mpmath.workdps(60):
        m = mpmath.mpf(mu)
        variance = (1 - m ** (2 * steps)) / (1 - m**2)
        corrected = (1 - m) ** 2 * variance / (1 - m**steps) ** 2
    assert abs(convergence.velocity_variance(noise_std=1.0, momentum=mu, steps=steps) / variance - 1) < 1e-12
    assert (
        abs(convergence.adam_velocity_variance(noise_std=1.0, momentum=mu, steps=steps) / ((1 - m) ** 2 * variance) - 1)
        < 1e-12
    )
    assert abs(convergence.adam_corrected_variance(noise_std=1.0, momentum=mu, steps=steps) / corrected - 1) < 1e-12


def test_without_momentum_every_step_counts_once() -> None:
    assert convergence.velocity_variance(noise_std=3.0, momentum=0.0, steps=7) == 9.0
    assert convergence.displacement_variance(learning_rate=2.0, noise_std=3.0, momentum=0.0, steps=7) == 4 * 9 * 7
    assert convergence.displacement_mean(learning_rate=2.0, force=-3.0, momentum=0.0, steps=7) == -42.0
    assert (
        convergence.adam_velocity_variance(noise_std=3.0, momentum=0.0)
        == convergence.adam_corrected_variance(noise_std=3.0, momentum=0.0)
        == 9.0
    )
    assert convergence.coasting_distance(learning_rate=1.0, velocity=5.0, momentum=0.0, steps=7) == 0.0
    assert convergence.stationary_excess(
        learning_rate=0.5, noise_std=2.0, momentum=0.0, curvature=1.0
    ) == pytest.approx(0.5 * 4 / (2 * 1.5), rel=1e-15)


def test_no_step_moves_nothing() -> None:
    assert convergence.velocity_variance(noise_std=1.0, momentum=0.9, steps=0) == 0.0
    assert (
        convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=0.9, steps=0)
        == convergence.displacement_mean(learning_rate=1.0, force=1.0, momentum=0.9, steps=0)
        == 0.0
    )
    assert convergence.coasting_distance(learning_rate=1.0, velocity=1.0, momentum=0.9, steps=0) == 0.0


@given(MOMENTA, st.integers(1, 10**6))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_limits_and_order(mu: float, steps: int) -> None:
    velocity = convergence.velocity_variance(noise_std=1.0, momentum=mu, steps=steps)
    assert 1 - 1e-12 <= velocity <= convergence.velocity_variance(noise_std=1.0, momentum=mu) * (1 + 1e-12)
    assert velocity <= 1 / (1 - mu) ** 2 * (1 + 1e-12)  # the printed value is never smaller
    moved = convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=mu, steps=steps)
    assert steps * (1 - 1e-12) <= moved <= steps / (1 - mu) ** 2 * (1 + 1e-12)
    mean = convergence.displacement_mean(learning_rate=1.0, force=1.0, momentum=mu, steps=steps)
    assert mean**2 / steps <= moved * (1 + 1e-12)  # Cauchy-Schwarz
    assert convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=mu, steps=steps + 1) > moved


@given(MOMENTA, st.integers(1, 1000), POSITIVE, POSITIVE)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_scaling_laws(mu: float, steps: int, rate: float, noise: float) -> None:
    unit = convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=mu, steps=steps)
    assert convergence.displacement_variance(
        learning_rate=rate, noise_std=noise, momentum=mu, steps=steps
    ) == pytest.approx((rate * noise) ** 2 * unit, rel=1e-12)
    assert convergence.velocity_variance(noise_std=noise, momentum=mu, steps=steps) == pytest.approx(
        noise**2 * convergence.velocity_variance(noise_std=1.0, momentum=mu, steps=steps), rel=1e-12
    )
    curvature = 1 / rate
    assert convergence.stationary_excess(
        learning_rate=rate, noise_std=noise, momentum=mu, curvature=curvature
    ) == pytest.approx(
        rate * noise**2 * convergence.stationary_excess(learning_rate=1.0, noise_std=1.0, momentum=mu, curvature=1.0),
        rel=1e-12,
    )


@given(MOMENTA, st.integers(1, 500), st.integers(1, 500))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_coasting_adds_up(mu: float, first: int, second: int) -> None:
    whole = convergence.coasting_distance(learning_rate=0.5, velocity=-2.0, momentum=mu, steps=first + second)
    left = convergence.coasting_distance(learning_rate=0.5, velocity=-2.0 * mu**first, momentum=mu, steps=second)
    assert whole == pytest.approx(
        convergence.coasting_distance(learning_rate=0.5, velocity=-2.0, momentum=mu, steps=first) + left,
        rel=1e-9,
        abs=1e-300,
    )
    assert convergence.coasting_distance(learning_rate=0.5, velocity=-2.0, momentum=mu, steps=INF) == pytest.approx(
        -mu / (1 - mu), rel=1e-12
    )


@pytest.mark.parametrize(("mu", "rate", "curvature"), [(0.0, 1.9, 1.0), (0.5, 0.3, 2.0), (0.9, 3.7, 1.0)])
def test_stationary_excess_is_where_the_recursion_ends(mu: float, rate: float, curvature: float) -> None:
    position = cross = velocity = 0.0  # second moments of (w, v)
    for _ in range(20_000):
        fresh = mu**2 * velocity + 2 * mu * curvature * cross + curvature**2 * position + 1.0
        with_position = mu * cross + curvature * position
        position = position - 2 * rate * with_position + rate**2 * fresh
        cross, velocity = with_position - rate * fresh, fresh
    assert convergence.stationary_excess(
        learning_rate=rate, noise_std=1.0, momentum=mu, curvature=curvature
    ) == pytest.approx(curvature * position / 2, rel=1e-9)


def test_unstable_iterations_have_no_stationary_loss() -> None:
    assert convergence.stationary_excess(learning_rate=2.0, noise_std=1.0, momentum=0.0, curvature=1.0) == INF
    assert convergence.stationary_excess(learning_rate=4.0, noise_std=1.0, momentum=0.9, curvature=1.0) == INF
    assert convergence.stationary_excess(learning_rate=3.79, noise_std=1.0, momentum=0.9, curvature=1.0) < INF
    assert convergence.stationary_excess(learning_rate=4.0, noise_std=0.0, momentum=0.9, curvature=1.0) == 0.0


def test_ratio_at_nine_tenths_is_nineteen() -> None:
    assert Fraction(1, 1) / (1 - Fraction(9, 10)) ** 2 / (1 / (1 - Fraction(81, 100))) == 19
    assert 100 / convergence.velocity_variance(noise_std=1.0, momentum=0.9) == pytest.approx(19, rel=1e-12)
    assert 1 / convergence.adam_velocity_variance(noise_std=1.0, momentum=0.9) == pytest.approx(19, rel=1e-12)


BAD = [
    *(
        (function, arguments, name)
        for function in (convergence.velocity_variance, convergence.adam_velocity_variance, convergence.adam_corrected_variance)
        for arguments, name in (
            ((-1.0, 0.5, 1), "noise_std"), ((NAN, 0.5, 1), "noise_std"), ((INF, 0.5, 1), "noise_std"),
            ((1.0, 1.0, 1), "momentum"), ((1.0, -0.1, 1), "momentum"), ((1.0, NAN, 1), "momentum"),
            ((1.0, 0.5, -1), "steps"), ((1.0, 0.5, 1.5), "steps"), ((1.0, 0.5, NAN), "steps"),
        )
    ),
    (convergence.adam_corrected_variance, (1.0, 0.5, 0), "steps"),
    (convergence.displacement_mean, (0.0, 1.0, 0.5, 1), "learning_rate"),
    (convergence.displacement_mean, (1.0, INF, 0.5, 1), "force"),
    (convergence.displacement_mean, (1.0, 1.0, 0.5, INF), "steps"),
    (convergence.displacement_variance, (1.0, -1.0, 0.5, 1), "noise_std"),
    (convergence.displacement_variance, (1.0, 1.0, 1.0, 1), "momentum"),
    (convergence.displacement_variance, (1.0, 1.0, 0.5, 10**13), "steps"),
    (convergence.coasting_distance, (-1.0, 1.0, 0.5, 1), "learning_rate"),
    (convergence.stationary_excess, (1.0, 1.0, 0.5, 0.0), "curvature"),
    (convergence.stationary_excess, (1.0, 1.0, 0.5, INF), "curvature"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "name"), BAD, ids=lambda x: getattr(x, "__name__", str(x)))
def test_bad_input_names_the_argument(function, arguments, name) -> None:  # type: ignore[no-untyped-def]
    with refused(name):
        in_order(function, arguments)


@pytest.mark.parametrize("steps", [np.float32("inf"), np.array(np.inf)])
def test_infinity_of_any_kind(steps: float) -> None:
    run = {"noise_std": 1.0, "momentum": 0.5}
    assert convergence.velocity_variance(**run, steps=steps) == convergence.velocity_variance(**run, steps=math.inf)
    with refused("steps", "0..1000000000000", "2.5"):
        convergence.velocity_variance(**run, steps=2.5)
