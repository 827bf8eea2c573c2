"""The convergence bound of layer freezing: limits, scaling, brute force, the exact runs it is held against, bad input."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from dptheory import convergence, freezing, privacy
from dptheory.claims.lf import _privacy, _testbed
from dptheory.claims.lf.lem3_1 import printed_bound
from tests.refused import refused

POSITIVE = st.floats(1e-3, 1e3)
QUICK = settings(max_examples=40, deadline=None, derandomize=True)
PLAIN: dict[str, Any] = {
    "decrease": 2.0,
    "learning_rate": 0.1,
    "steps": 4,
    "smoothness": 3.0,
    "clip_norm": 0.5,
    "noise_multiplier": 1.5,
    "dim": 7,
    "batch_size": 8,
}


def test_against_the_sums_written_out() -> None:
    rates, dims = np.array([0.1, 0.2, 0.4]), np.array([5, 5, 2])
    moments, bias = np.array([0.28, 0.2, 0.25]), np.array([-0.1, 0.4, -2.0])
    tau = 1.5 * 0.5 / 8
    total = rates.sum()
    found = convergence.layer_freezing_bound(
        decrease=-0.7,
        learning_rate=rates,
        steps=3,
        smoothness=3.0,
        clip_norm=0.5,
        noise_multiplier=1.5,
        dim=dims,
        batch_size=8,
        second_moment=moments,
        bias=bias,
    )
    assert found.optimization == pytest.approx(-0.7 / total, rel=1e-14)
    assert found.clipping == pytest.approx(1.5 * (rates**2 * moments).sum() / total, rel=1e-14)
    assert found.noise == pytest.approx(1.5 * (rates**2 * dims).sum() * tau**2 / total, rel=1e-14)
    assert found.bias == pytest.approx(-(rates * bias).sum() / total, rel=1e-14)


@given(POSITIVE, POSITIVE, POSITIVE, POSITIVE, st.integers(1, 10**9), st.integers(1, 10**6), st.integers(1, 50))
@QUICK
def test_numbers_and_equal_entries_agree(
    gap: float, eta: float, smoothness: float, clip: float, dim: int, batch: int, steps: int
) -> None:
    run: dict[str, Any] = {
        "decrease": gap,
        "steps": steps,
        "smoothness": smoothness,
        "clip_norm": clip,
        "noise_multiplier": 1.0,
        "batch_size": batch,
    }
    one = convergence.layer_freezing_bound(learning_rate=eta, dim=dim, bias=0.3, **run)
    each = convergence.layer_freezing_bound(
        learning_rate=[eta] * steps,
        dim=[dim] * steps,
        second_moment=[clip**2 * (1 + 1 / batch)] * steps,
        bias=[0.3] * steps,
        **run,
    )
    for field in ("optimization", "clipping", "noise", "bias"):
        assert getattr(one, field) == pytest.approx(getattr(each, field), rel=1e-12)


def test_constant_steps_without_bias_are_the_bound_of_dpsgd_on_the_alignment() -> None:
    found = convergence.layer_freezing_bound(**PLAIN)
    noise = convergence.noise_term(smoothness=3.0, clip_norm=0.5, noise_multiplier=1.5, dim=7, batch_size=8)
    other = convergence.alignment_bound(
        decrease=2.0 / 4, learning_rate=0.1, smoothness=3.0, second_moment=0.25 * (1 + 1 / 8), noise_term=noise
    )
    assert found.value == pytest.approx(other.value, rel=1e-14)


def test_no_limit_on_steps_and_no_negative_zero() -> None:
    found = convergence.layer_freezing_bound(**(PLAIN | {"steps": 10**9}))
    assert math.isfinite(found.value) and math.copysign(1.0, found.bias) == 1.0


@given(
    st.integers(0, 50), st.floats(0.01, 1.5), st.floats(0.05, 5), st.just(0.0) | st.floats(1e-6, 2), st.integers(0, 1)
)
@QUICK
def test_above_the_exact_runs(seed: int, eta: float, clip: float, sigma: float, frozen: int) -> None:
    run = _testbed.random_run(seed, eta, 1.5, clip, sigma, 2.0, frozen)
    assert _testbed.corrected(run) >= _testbed.mean_trained(run) - 1e-12
    assert _testbed.expectations(run).moment.max() <= clip**2 * (1 + 1e-12)


def test_the_test_bed_against_a_walk_by_hand() -> None:
    """One coordinate, examples 1 and -3, theta_1 = 2, C = 1/2, B = 2, one step: every outcome written out."""
    run = _testbed.Run("square", ((1.0,), (-3.0,)), (2.0,), (0.2,), (0,), 0.5, 2.0, 2)
    found = _testbed.expectations(run)
    ends = [2 - 0.2 * (0.5 + sign * 0.5) for sign in (1, -1)]  # both gradients, 1 and 5, are clipped to 1/2
    assert found.trained[0] == pytest.approx(9.0) and found.alignment[0] == pytest.approx(1.5)
    assert found.objective[-1] == pytest.approx(
        np.mean([((e - x) ** 2) / 2 for e, x in itertools.product(ends, (1.0, -3.0))])
    )
    assert found.bias[0] == pytest.approx(-7.5)


def test_the_printed_bound_falls_short_of_zero() -> None:
    assert printed_bound(0.095, (0.1,), (1.0,), 1.0, 1.0, 0.0, 1) == pytest.approx(-0.05)


def test_freezing_lowers_noise_and_dimension_only() -> None:
    found = freezing.freezing_bounds(
        [100, 200, 300],
        frozen_layers=2,
        objective_gap=1.0,
        learning_rate=0.1,
        steps=50,
        smoothness=2.0,
        clip_norm=1.5,
        noise_multiplier=1.0,
        batch_size=16,
    )
    assert (found.dim, found.trainable_dim) == (600, 300)
    assert found.frozen.noise == pytest.approx(found.full.noise / 2, rel=1e-14)
    assert found.frozen.clipping == found.full.clipping == pytest.approx(0.1 * 2.0 * 1.5**2 * (1 + 1 / 16) / 2)
    assert found.largest_frozen_gradient == pytest.approx(0.1 * 2.0 / 2 * 300 * (1.5 / 16) ** 2, rel=1e-9)
    same = freezing.freezing_bounds(
        [100, 200],
        frozen_layers=0,
        objective_gap=1.0,
        learning_rate=0.1,
        steps=50,
        smoothness=2.0,
        clip_norm=1.5,
        noise_multiplier=1.0,
        batch_size=16,
    )
    assert same.full == same.frozen and same.largest_frozen_gradient == 0


def test_private_second_moment_grows_with_the_dimension() -> None:
    assert freezing.private_second_moment(
        second_moment=0.25, clip_norm=1.0, noise_multiplier=2.0, dim=100, batch_size=4
    ) == pytest.approx(0.25 + 100 * 0.25)
    assert (
        freezing.private_second_moment(second_moment=0.25, clip_norm=1.0, noise_multiplier=0.0, dim=100, batch_size=4)
        == 0.25
    )


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": [0.1, 0.1]}, "learning_rate"),
        ({"learning_rate": [0.1, 0.1, 0.1, -0.1]}, "learning_rate"),
        ({"steps": 0}, "steps"),
        ({"smoothness": 0.0}, "smoothness"),
        ({"clip_norm": -1.0}, "clip_norm"),
        ({"noise_multiplier": math.inf}, "noise_multiplier"),
        ({"dim": 0}, "dim"),
        ({"dim": 2.5}, "dim"),
        ({"dim": True}, "dim"),
        ({"batch_size": 0}, "batch_size"),
        ({"second_moment": -0.1}, "second_moment"),
        ({"second_moment": 0.5}, "second_moment"),
        ({"second_moment": 0.26, "sampling": "fixed"}, "second_moment"),
        ({"clip_norm": 5e-324}, "clip_norm"),
        ({"bias": [math.inf] * 4}, "bias"),
        ({"bias": [[0.0] * 4]}, "bias"),
        ({"bias": 1e141}, "bias"),
        ({"decrease": -1e308}, "decrease"),
        ({"clip_norm": 1e200, "second_moment": None}, "clip_norm"),
        ({"noise_multiplier": 1e200}, "noise_multiplier"),
        ({"smoothness": 1e308}, "smoothness"),
        ({"dim": 1e308}, "dim"),
        ({"batch_size": 10**400}, "batch_size"),
        ({"steps": 10**400}, "steps"),
    ],
)
def test_bad_input(changed: dict[str, Any], says: str) -> None:
    with refused(says):
        convergence.layer_freezing_bound(**(PLAIN | changed))


@pytest.mark.parametrize(
    ("sizes", "frozen", "gap", "says"),
    [
        ([], 0, 1.0, "layer_sizes"),
        ([1, 0], 0, 1.0, "layer_sizes"),
        ([1, 2], 2, 1.0, "frozen_layers"),
        ([1, 2], -1, 1.0, "frozen_layers"),
        ([7], -1, 1.0, "frozen_layers"),
        ([7], 1, 1.0, "layer_sizes 0"),
        ([1, 2], 1, -1.0, "objective_gap"),
        ([1, 2], 1, 1e308, "objective_gap"),
        (3, 0, 1.0, "layer_sizes"),
        ([10**18, 1], 1, 1.0, "layer_sizes"),
    ],
)
def test_bad_layers(sizes: Any, frozen: int, gap: float, says: str) -> None:
    with refused(*says.split()):
        freezing.freezing_bounds(
            sizes,
            frozen_layers=frozen,
            objective_gap=gap,
            learning_rate=0.1,
            steps=5,
            smoothness=1.0,
            clip_norm=1.0,
            noise_multiplier=1.0,
            batch_size=8,
        )
    with refused("second_moment"):
        freezing.private_second_moment(second_moment=math.nan, clip_norm=1.0, noise_multiplier=1.0, dim=1, batch_size=1)
    with refused("clip_norm"):
        freezing.private_second_moment(second_moment=1.0, clip_norm=1e200, noise_multiplier=1.0, dim=1, batch_size=1)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"frozen_bias": [0.0] * 3}, "frozen_bias"),
        ({"second_moment": 3.0}, "second_moment"),
        ({"frozen_second_moment": 3.0}, "frozen_second_moment"),
    ],
)
def test_the_argument_that_was_written_is_named(changed: dict[str, Any], says: str) -> None:
    with refused(says):
        freezing.freezing_bounds(
            [3, 4],
            frozen_layers=1,
            objective_gap=1.0,
            learning_rate=0.1,
            steps=4,
            smoothness=1.0,
            clip_norm=1.0,
            noise_multiplier=1.0,
            batch_size=8,
            **changed,
        )


def test_the_ends_of_the_ranges_stay_finite() -> None:
    found = freezing.freezing_bounds(
        [10**17] * 2,
        frozen_layers=1,
        objective_gap=1e140,
        learning_rate=1e70,
        steps=2,
        smoothness=1e35,
        clip_norm=1e35,
        noise_multiplier=1e35,
        batch_size=1,
        bias=1e140,
    )
    assert all(map(math.isfinite, (found.full.value, found.frozen.value, found.largest_frozen_gradient)))
    least = convergence.layer_freezing_bound(
        decrease=-1e140,
        learning_rate=1e-70,
        steps=10**12,
        smoothness=1e-35,
        clip_norm=1e-35,
        noise_multiplier=0.0,
        dim=10**18,
        batch_size=1,
        bias=-1e140,
    )
    assert math.isfinite(least.value)
    assert math.isfinite(
        freezing.private_second_moment(
            second_moment=1e140, clip_norm=1e35, noise_multiplier=1e35, dim=10**18, batch_size=1
        )
    )


@pytest.mark.parametrize(("order", "rate", "sigma"), [(2, 0.01, 1.0), (8, 0.034, 1.923), (5, 0.3, 2.0)])
def test_the_accountant_of_the_freezing_times(order: int, rate: float, sigma: float) -> None:
    def integrand(x: float) -> float:
        ratio = 1 - rate + rate * math.exp((2 * x - 1) / (2 * sigma**2))
        return ratio**order * math.exp(-(x**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

    moment = quad(integrand, -40, 80, limit=400, points=[0, order])[0]
    found = privacy.subsampled_gaussian_rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma)[0]
    assert found == pytest.approx(math.log(moment) / (order - 1), rel=1e-6)


def test_budget_is_spent_at_the_last_affordable_step() -> None:
    orders = list(range(2, 65))
    for one in _privacy.SETTINGS.values():
        epsilon, sigma = one.number("epsilon"), one.number("noise_multiplier")
        batch, examples = one.whole("batch_size"), one.whole("train_size")
        steps = _privacy.affordable_steps(epsilon, sigma, batch, examples)
        rate = batch / examples

        def spent(count: int, rate: float = rate, sigma: float = sigma) -> float:
            return min(
                count * r + math.log1p(-1 / a) - (math.log(_privacy.DELTA) + math.log(a)) / (a - 1)
                for a, r in zip(
                    orders,
                    privacy.subsampled_gaussian_rdp(orders=orders, sampling_rate=rate, noise_multiplier=sigma),
                    strict=True,
                )
            )

        assert spent(steps) <= epsilon < spent(steps + 1)
