"""Excess risk: brute force over T, simulation, scaling laws, limits, bad input."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import embedding
from dptheory.errors import ConditionError
from tests.refused import refused

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
SIZE = st.floats(1e-3, 1e3)


@given(st.integers(1, 10**6), st.integers(1, 1000), SIZE, SIZE, SIZE, st.floats(0, 1))
@QUICK
def test_best_steps(dim: int, samples: int, smoothness: float, distance: float, mu: float, clip: float) -> None:
    k = max(1, dim // 10)
    best = embedding.excess_risk(
        dim=dim,
        subspace_dim=k,
        train_size=samples,
        smoothness=smoothness,
        initial_distance=distance,
        mu=mu,
        residual_clip=clip,
    )
    for steps in {max(1, best.steps - 1), best.steps + 1, 2 * best.steps}:
        other = embedding.excess_risk(
            dim=dim,
            subspace_dim=k,
            train_size=samples,
            smoothness=smoothness,
            initial_distance=distance,
            mu=mu,
            residual_clip=clip,
            steps=steps,
        )
        assert best.value <= other.value * (1 + 1e-12)
        assert other.optimal_steps == best.optimal_steps
    scale = math.sqrt(k) + math.sqrt(dim - k) * clip
    real = distance * scale / (mu * samples)
    assert best.value >= real * (1 - 1e-12)
    if best.optimal_steps >= 1:
        assert best.value <= real * 3 / (2 * math.sqrt(2)) * (1 + 1e-12)
    else:
        assert best.steps == 1 and best.value >= smoothness * distance**2 / 2


@given(SIZE, SIZE, SIZE, st.floats(0.01, 1))
@QUICK
def test_scaling(smoothness: float, distance: float, mu: float, clip: float) -> None:
    def bound(**changed: Any) -> embedding.ExcessRisk:
        given_ = {
            "smoothness": smoothness,
            "initial_distance": distance,
            "mu": mu,
            "residual_clip": clip,
            "lipschitz": 1.0,
        }
        return embedding.excess_risk(dim=500, subspace_dim=20, train_size=300, **{**given_, **changed})

    base = bound()
    # a loss twice as large: value twice, with everything else
    doubled = bound(smoothness=2 * smoothness, residual_clip=2 * clip, lipschitz=2.0)
    assert doubled.value == pytest.approx(2 * base.value, rel=1e-12) and doubled.steps == base.steps
    # parameters stretched by two
    stretched = bound(smoothness=smoothness / 4, initial_distance=2 * distance, residual_clip=clip / 2, lipschitz=0.5)
    assert stretched.value == pytest.approx(base.value, rel=1e-12)
    assert bound(mu=2 * mu).value <= base.value
    assert bound(residual_clip=clip / 2).value <= base.value * (1 + 1e-12)


@given(SIZE, SIZE, st.floats(1e-3, 5), st.floats(1e-8, 1e-2), st.floats(0, 1))
@QUICK
def test_published_noise_costs_more(smoothness: float, distance: float, eps: float, delta: float, clip: float) -> None:
    published = embedding.excess_risk_as_published(
        dim=900,
        subspace_dim=30,
        train_size=1000,
        smoothness=smoothness,
        initial_distance=distance,
        epsilon=eps,
        delta=delta,
        residual_clip=clip,
    )
    mu = eps / (2 * math.sqrt(math.log(1 / delta)))  # what the published noise buys
    best = embedding.excess_risk(
        dim=900,
        subspace_dim=30,
        train_size=1000,
        smoothness=smoothness,
        initial_distance=distance,
        mu=mu,
        residual_clip=clip,
    )
    assert best.value <= published.value * (1 + 1e-12)
    wide = embedding.excess_risk_as_published(
        dim=900,
        subspace_dim=30,
        train_size=1000,
        smoothness=smoothness,
        initial_distance=distance,
        epsilon=eps,
        delta=delta,
        residual_clip=clip,
        steps=7,
    )
    assert wide.value >= published.value * (1 - 1e-12) and wide.steps == 7


@given(SIZE, SIZE, st.integers(1, 10**6), st.floats(1e-3, 1e3))
@QUICK
def test_least_risk(smoothness: float, distance: float, steps: int, lipschitz: float) -> None:
    least = embedding.least_risk(smoothness=smoothness, initial_distance=distance, steps=steps)
    upper = embedding.noisy_descent_risk(
        smoothness=smoothness, initial_distance=distance, steps=steps, noise_energy=0.0
    ).value
    assert least == pytest.approx(upper * steps / (steps + 2), rel=1e-12)
    capped = embedding.least_risk(smoothness=smoothness, initial_distance=distance, steps=steps, lipschitz=lipschitz)
    assert 0 <= capped <= min(least, lipschitz * distance) * (1 + 1e-12)


def test_simulation_stays_below_the_bound() -> None:
    rng = np.random.default_rng(0)
    curvatures = np.array([1.0, 0.3, 0.05, 0.01])
    start, steps, std, runs = np.array([0.5, 1.0, 2.0, 3.0]), 20, 0.4, 4000
    theta, total = np.tile(start, (runs, 1)), np.zeros((runs, 4))
    for _ in range(steps):
        theta = theta - curvatures * theta - std * rng.standard_normal((runs, 4))
        total += theta
    excess = (np.square(total / steps) @ curvatures / 2).mean()
    bound = embedding.noisy_descent_risk(
        smoothness=1.0, initial_distance=float(np.linalg.norm(start)), steps=steps, noise_energy=4 * std**2
    ).value
    assert 0.1 * bound < excess < bound


def test_whole_space_needs_no_residual() -> None:
    full = embedding.excess_risk(
        dim=64, subspace_dim=64, train_size=500, smoothness=1.0, initial_distance=1.0, mu=1.0, residual_clip=1.0
    )
    assert full == embedding.excess_risk(
        dim=64, subspace_dim=64, train_size=500, smoothness=1.0, initial_distance=1.0, mu=1.0, residual_clip=0.0
    )
    assert (
        embedding.excess_risk(
            dim=64, subspace_dim=4, train_size=500, smoothness=1.0, initial_distance=0.0, mu=1.0, residual_clip=0.1
        ).steps
        == 1
    )


@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_no_overflow_at_the_ends_of_the_ranges(size: float) -> None:
    for mu in (1e-60, 1e60):
        found = embedding.excess_risk(
            dim=10**15,
            subspace_dim=1,
            train_size=10**15,
            smoothness=size,
            initial_distance=1e60,
            mu=mu,
            residual_clip=0.0,
            lipschitz=size,
        )
        assert math.isfinite(found.value) and found.value >= 0


def test_most_steps() -> None:
    found = embedding.excess_risk(
        dim=10,
        subspace_dim=1,
        train_size=10**15,
        smoothness=1e60,
        initial_distance=1e60,
        mu=1e60,
        residual_clip=0.0,
        lipschitz=1e-60,
    )
    assert found.optimization == pytest.approx(found.noise, rel=1e-9) and found.steps > 10**254
    # beta D^2 / (2 (T + 2)) without underflow of the squared slope
    assert embedding.least_risk(smoothness=1e-60, initial_distance=1e60, steps=10**250) == pytest.approx(
        5e-191, rel=1e-12
    )


GOOD = {
    'dim': 100, 'subspace_dim': 5, 'train_size': 50, 'smoothness': 1.0, 'initial_distance': 1.0, 'mu': 1.0, 'residual_clip': 0.1,
}  # fmt: skip
PUBLISHED = {**{n: v for n, v in GOOD.items() if n != "mu"}, "epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ('dim', 0), ('subspace_dim', 0), ('subspace_dim', 101), ('train_size', 0), ('train_size', 1.5), ('smoothness', 0.0),
         ('initial_distance', -1.0), ('initial_distance', 1e-170), ('initial_distance', math.inf),
        ('mu', 0.0),
        ('residual_clip', -0.1), ('residual_clip', 1.1), ('lipschitz', 0.0), ('steps', 0),
    ],
)  # fmt: skip
def test_bad_input(name: str, value: Any) -> None:
    with refused(name):
        embedding.excess_risk(**{**GOOD, name: value})
    if name != "mu":
        with refused(name):
            embedding.excess_risk_as_published(**{**PUBLISHED, name: value})


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: embedding.excess_risk_as_published(**{**PUBLISHED, "epsilon": 0.0}), "epsilon"),
        (lambda: embedding.excess_risk_as_published(**{**PUBLISHED, "delta": 1.0}), "delta"),
        (
            lambda: embedding.noisy_descent_risk(smoothness=0.0, initial_distance=1.0, steps=1, noise_energy=0.0),
            "smoothness",
        ),
        (lambda: embedding.least_risk(smoothness=1.0, initial_distance=1.0, steps=1, lipschitz=0.0), "lipschitz"),
    ],
)
def test_more_bad_input(call: Callable[[], object], says: str) -> None:
    with refused(says):
        call()


def test_condition_of_the_theorem() -> None:
    limit = 2 * math.log(1e5)
    embedding.excess_risk_as_published(**{**PUBLISHED, "epsilon": 0.999 * limit})
    with refused("epsilon", kind=ConditionError):
        embedding.excess_risk_as_published(**{**PUBLISHED, "epsilon": limit})


def test_worst_case_of_many_steps() -> None:
    """At 1e6 steps the factor at the mean iterate is its sum; at 1e15 it keeps its bound and its limit."""
    steps = 10**6
    k = np.arange(1.0, steps + 1)
    found = embedding.worst_descent_risk(smoothness=2.0, initial_distance=0.0, steps=steps, noise_energy=3.0)
    assert math.isclose(found.mean_iterate_least, float((k**2 / (k * (k - 1) + steps)).sum()) / (2 * steps) * 1.5)
    most = embedding.worst_descent_risk(smoothness=1.0, initial_distance=1.0, steps=10**15, noise_energy=1.0)
    assert 0.5 - math.pi / 4 / math.sqrt(1e15) < most.mean_iterate_least < most.mean_value


def test_without_bias_the_classical_bound() -> None:
    run = {"smoothness": 2.0, "initial_distance": 3.0, "steps": 40, "noise_energy": 0.5}
    found = embedding.biased_descent_risk(bias=0.0, **run)
    assert found.upper == pytest.approx(embedding.noisy_descent_risk(**run).value, rel=1e-14)
    assert found.lower == pytest.approx(embedding.worst_descent_risk(**run).mean_value, rel=1e-14)


def test_equal_residuals_are_not_clipped_and_many_small_ones_are_dropped() -> None:
    run = {"dim": 10_000, "smoothness": 1.0, "initial_distance": 1.0, "mu": 1.0}
    same = embedding.best_residual_clip(
        residual_norms=[[0.2] * 7], subspace_dims=[100], train_size=5_000, lipschitz=0.9, **run
    )
    assert (same.residual_clip, same.bias) == (0.2, 0.0)
    classical = embedding.excess_risk(subspace_dim=100, residual_clip=0.2, train_size=5_000, lipschitz=0.9, **run)
    assert same.value == pytest.approx(classical.value, rel=1e-12) and same.steps == classical.steps
    dropped = embedding.best_residual_clip(residual_norms=[[0.2] * 7], subspace_dims=[100], train_size=20, **run)
    assert (dropped.residual_clip, dropped.bias) == (0.0, pytest.approx(0.2))


def test_extreme_settings_give_numbers() -> None:
    for mu in (1e-60, 1e60):
        for size in (1e-60, 1e60):
            best = embedding.best_residual_clip(
                residual_norms=[[0.0, size]], subspace_dims=[1], dim=10**15, train_size=1, smoothness=1.0,
                initial_distance=size, mu=mu, lipschitz=size,
            )  # fmt: skip
            assert math.isfinite(best.value) and 1 <= best.steps <= 10**15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"residual_norms": [[2.0]]}, "residual_norms 0 1"),
        ({"residual_norms": [0.1]}, "residual_norms"),
        ({"residual_norms": [[0.1], [0.2]]}, "residual_norms"),
        ({"subspace_dims": [11]}, "subspace_dims 1..10"),
    ],
)
def test_bad_residuals(change: dict[str, Any], message: str) -> None:
    good = {
        "residual_norms": [[0.1]], "subspace_dims": [2], 'dim': 10, 'train_size': 9, 'smoothness': 1.0,
        'initial_distance': 1.0, 'mu': 1.0,
    }  # fmt: skip
    with refused(*message.split()):
        embedding.best_residual_clip(**good | change)  # type: ignore[arg-type]
