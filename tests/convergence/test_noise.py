"""Noise in training: momentum, and the noisy quadratic model."""

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import convergence
from dptheory.convergence import _noisy_quadratic, noisy_quadratic_loss
from tests.refused import refused

# --- Noise under momentum against simulation in fractions, high precision and its own laws ---


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


@pytest.mark.parametrize("steps", [np.float32("inf"), np.array(np.inf)])
def test_infinity_of_any_kind(steps: float) -> None:
    run = {"noise_std": 1.0, "momentum": 0.5}
    assert convergence.velocity_variance(**run, steps=steps) == convergence.velocity_variance(**run, steps=math.inf)
    with refused("steps", "0..1000000000000", "2.5"):
        convergence.velocity_variance(**run, steps=2.5)


# --- The noisy quadratic model by hand, against torch's optimizer, and runs one by one; what diverges is infinite ---


EPS = 2**-52
ONE: dict[str, Any] = {"gradient_energy": 1.0, "learning_rate": 0.1, "steps": 10}


def test_two_steps_by_hand() -> None:
    """w: 1, 1 - z, (1 - z)^2 - mu z; the first kick: -1, then -(1 - z) - mu; the second: -s."""
    z, mu, s = Fraction(1, 4), Fraction(1, 2), Fraction(1, 2)
    mean = 1 - z - s * (mu * z + z * (1 - z))
    first = 1 + s * (mu - z)
    expected = mean**2 / 2 + (first**2 + s**2) * Fraction(1, 16) / 2
    found = noisy_quadratic_loss(
        [1.0], gradient_energy=1.0, learning_rate=0.25, steps=2, momentum=0.5, noise_std=1.0, schedule="linear"
    )
    assert float(found) == pytest.approx(float(expected), rel=8 * EPS)


def _run_by_run(curvature: list[float], runs: dict[str, Any], common: dict[str, Any]) -> list[float]:
    names = list(runs)
    return [
        float(noisy_quadratic_loss(curvature, **dict(zip(names, one, strict=True)), **common))
        for one in zip(*runs.values(), strict=True)
    ]


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("average", [0.0, 0.4])
def test_many_runs_are_those_runs_one_by_one(schedule: str, average: float) -> None:
    """Also those that share a response: equal rates, other noise."""
    runs = {
        "learning_rate": [0.1, 0.1, 0.3, 0.1, 0.3],
        "steps": [7, 7, 7, 20, 20],
        "momentum": [0.5, 0.5, 0.5, 0.9, 0.0],
        "noise_std": [0.1, 0.4, 0.1, 0.1, 0.1],
    }
    common = {"gradient_energy": [1.0, 2.0], "variance": [0.1, 0.2], "schedule": schedule, "average": average}
    found = noisy_quadratic_loss([0.5, 2.0], **runs, **common)  # type: ignore[arg-type]
    assert found.tolist() == _run_by_run([0.5, 2.0], runs, common)


def test_slope_and_variance_of_each_run() -> None:
    slope, variance = np.array([[1.0], [0.5], [0.2]]), np.array([[0.1, 0.2], [0.0, 0.1], [1.0, 1.0]])
    found = noisy_quadratic_loss(
        [0.5, 2.0], **{**ONE, "learning_rate": [0.1, 0.2, 0.1]}, slope=slope, variance=variance
    )
    for i, rate in enumerate((0.1, 0.2, 0.1)):
        one = noisy_quadratic_loss([0.5, 2.0], **{**ONE, "learning_rate": rate}, slope=slope[i], variance=variance[i])
        assert found[i] == one


def test_more_pairs_than_are_followed_at_once() -> None:
    rates = np.linspace(0.01, 1.0, _noisy_quadratic._BLOCK + 3)
    found = noisy_quadratic_loss([1.0], gradient_energy=1.0, learning_rate=rates, steps=3, schedule="linear")
    some = [0, 1, _noisy_quadratic._BLOCK - 1, _noisy_quadratic._BLOCK, rates.size - 1]
    expected = [
        float(
            noisy_quadratic_loss([1.0], gradient_energy=1.0, learning_rate=float(rates[i]), steps=3, schedule="linear")
        )
        for i in some
    ]
    assert found[some].tolist() == expected


@pytest.mark.parametrize(("steps", "averaged"), [(1, 1), (2, 1), (7, 3), (7, 7), (300, 1), (300, 50)])
def test_doubling_agrees_with_all_steps(steps: int, averaged: int) -> None:
    """A stretch of T steps is a product of at most 2 log2(T) matrices: their rounding grows with T and the size of the powers."""
    z, mu = np.array([0.0, 0.01, 0.5, 1.5, 2.5]), np.array([0.3, 0.9, 0.0, 0.5, 0.9])
    doubled = _noisy_quadratic._at_constant_rate(z, mu, steps, averaged)
    followed = _noisy_quadratic._step_by_step(z, mu, np.ones(steps), averaged)
    largest = 1 / (1 - mu)  # of a power's entries, up to a factor of a few
    assert (np.abs(doubled[0] - followed[0]) <= 100 * EPS * steps * largest).all()
    assert (np.abs(doubled[1] - followed[1]) <= 100 * EPS * steps * largest * followed[1]).all()


def test_equal_curvatures_may_be_joined() -> None:
    apart = noisy_quadratic_loss([2.0, 2.0, 2.0], **{**ONE, "gradient_energy": [1.0, 0.5, 0.0]}, noise_std=0.3)
    joined = noisy_quadratic_loss([2.0], **{**ONE, "gradient_energy": 1.5}, noise_std=0.3, multiplicities=3)
    assert float(apart) == pytest.approx(float(joined), rel=4 * EPS)


def test_no_curvature_adds_nothing() -> None:
    flat = noisy_quadratic_loss([0.0], **{**ONE, "gradient_energy": 0.0}, noise_std=1e70, multiplicities=1e18)
    assert flat == 0.0
    beside = noisy_quadratic_loss([0.0, 2.0], **{**ONE, "gradient_energy": [0.0, 1.0]}, noise_std=0.3)
    assert beside == noisy_quadratic_loss([2.0], **ONE, noise_std=0.3)


def test_nothing_moves_where_clipping_leaves_no_slope() -> None:
    """A random walk of 10 steps from the start: 1/4 + 2/2 * 10 * .01 * .09."""
    found = noisy_quadratic_loss([2.0], **ONE, slope=0.0, noise_std=0.3)
    assert float(found) == pytest.approx(0.25 + 10 * 0.01 * 0.09, rel=20 * EPS)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("average", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_what_diverges_is_infinite_and_never_nan(schedule: Any, average: float, momentum: float) -> None:
    rates = np.array([1e-35, 1e-3, 1.0, 1.99, 3.9, 1e3, 1e17, 1e35])
    run = {"steps": 2000, "momentum": momentum, "schedule": schedule, "average": average}
    for energy, noise in itertools.product((0.0, 1.0), (0.0, 1.0)):
        found = noisy_quadratic_loss([1e-3, 1.0], gradient_energy=energy, learning_rate=rates, noise_std=noise, **run)
        assert not np.isnan(found).any() and (found >= 0).all()
        assert (found[-2:] == (math.inf if energy or noise else 0.0)).all()
        assert np.isfinite(found[:3]).all()


def test_largest_arguments_overflow_to_infinity_without_a_warning() -> None:
    found = noisy_quadratic_loss(
        [1e70], gradient_energy=1e140, learning_rate=1e35, steps=10, noise_std=1e70, multiplicities=1e18, slope=1e70
    )
    assert found == math.inf


def test_at_rest_it_is_the_stationary_excess() -> None:
    rest = {"learning_rate": 0.05, "noise_std": 0.7, "momentum": 0.9}
    found = noisy_quadratic_loss([2.0], gradient_energy=1.0, steps=10**5, **rest)  # type: ignore[arg-type]
    expected = convergence.stationary_excess(curvature=2.0, **rest)
    assert float(found) == pytest.approx(expected, rel=1e5 * EPS)  # an ulp a step


@pytest.mark.parametrize(("schedule", "momentum"), [("constant", 0.0), ("linear", 0.9), ("cosine", 0.5)])
def test_without_noise_it_is_what_torch_does(schedule: str, momentum: float) -> None:
    torch = pytest.importorskip("torch")
    h = torch.tensor([0.3, 2.0], dtype=torch.float64)
    w = torch.tensor([1.0, -0.5], dtype=torch.float64, requires_grad=True)
    energy = (h * w.detach()) ** 2
    optimizer = torch.optim.SGD([w], lr=0.2, momentum=momentum)
    follow = {
        "constant": lambda: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0),
        "linear": lambda: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 - t / 30),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30),
    }[schedule]()
    kept = []
    for _ in range(30):
        optimizer.zero_grad()
        ((h * w**2).sum() / 2).backward()
        optimizer.step()
        follow.step()
        kept.append(w.detach().clone())
    mean = torch.stack(kept[-6:]).mean(0)
    found = noisy_quadratic_loss(
        h.numpy(), gradient_energy=energy.numpy(), learning_rate=0.2, steps=30, momentum=momentum,
        schedule=schedule, average=0.2,  # type: ignore[arg-type]
    )  # fmt: skip
    assert float(found) == pytest.approx(float((h * mean**2).sum() / 2), rel=1e4 * EPS)
