"""Layer freezing: effects, bound, and when to freeze."""

import itertools
import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr

from dptheory import convergence, freezing, gradients, privacy
from dptheory.claims.lf import _batches, _testbed, reported
from dptheory.claims.lf.lem3_1 import printed_bound
from dptheory.freezing import (
    FreezingComparison,
    bias_angle,
    bias_turn,
    biased_signal,
    compare_freezing,
    expected_angle,
    freezing_bounds,
    freezing_effect,
    norm_growth,
)
from tests.refused import refused

# --- dptheory.freezing against brute force, its limits and its errors ---


ENTRY = st.floats(-100, 100, allow_subnormal=False).map(lambda x: round(x, 6))
SIZE = st.floats(1e-3, 1e3)
ANGLE = st.floats(0, math.pi, allow_subnormal=False)
PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)


@st.composite
def batches(draw: Any, least: float = -100.0) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    samples, dim = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    entry = ENTRY.filter(lambda x: x >= least)
    rows = draw(st.lists(st.lists(entry, min_size=dim, max_size=dim), min_size=samples, max_size=samples))
    frozen = draw(st.lists(st.floats(0, 100).map(lambda x: round(x, 6)), min_size=samples, max_size=samples))
    return np.array(rows), np.array(frozen), draw(SIZE)


# --- norms ------------------------------------------------------------------------------------------------------------
@given(batches())
@PROPERTY
def test_biased_signal_is_the_mean_of_clipped_whole_gradients(batch) -> None:  # type: ignore[no-untyped-def]
    rows, frozen, clip = batch
    whole = gradients.clip(np.column_stack([rows, frozen]), clip_norm=clip)[:, :-1]
    assert biased_signal(rows, frozen_norms=frozen, clip_norm=clip) == pytest.approx(
        whole.mean(axis=0), rel=1e-12, abs=1e-12
    )
    after = gradients.clip(rows, clip_norm=clip).mean(axis=0)
    assert biased_signal(rows, frozen_norms=0.0, clip_norm=clip) == pytest.approx(after, rel=1e-12, abs=1e-12)


@given(batches())
@PROPERTY
def test_every_sample_grows(batch) -> None:  # type: ignore[no-untyped-def]
    rows, frozen, clip = batch
    norms = np.linalg.norm(rows, axis=1)
    growth = norm_growth(trainable_norms=norms, frozen_norms=frozen, clip_norm=clip)
    assert (growth >= 1).all()
    assert (growth[np.hypot(norms, frozen) <= clip] == 1).all()
    for row, f, r in zip(rows, frozen, growth, strict=True):
        before, after = (np.linalg.norm(biased_signal([row], frozen_norms=x, clip_norm=clip)) for x in (f, 0.0))
        assert after == pytest.approx(r * before, rel=1e-12)


def _growth_of(batch: tuple[Any, Any, float]) -> freezing.SignalGrowth:
    rows, frozen, clip = batch
    return freezing.signal_growth(rows, frozen_norms=frozen, clip_norm=clip)


@given(batches(least=0.0))
@PROPERTY
def test_acute_batches_stay_in_their_range(batch) -> None:  # type: ignore[no-untyped-def]
    rows, frozen, clip = batch
    growth = norm_growth(trainable_norms=np.linalg.norm(rows, axis=1), frozen_norms=frozen, clip_norm=clip)
    found = _growth_of(batch)
    assert (found.lower, found.upper) == (growth.min(), growth.max())
    assert found.lower * found.before <= found.after * (1 + 1e-12)
    assert found.after <= found.upper * found.before * (1 + 1e-12)


@given(batches())
@PROPERTY
def test_guarantees_hold(batch) -> None:  # type: ignore[no-untyped-def]
    found = _growth_of(batch)
    assert found.lower * found.before <= found.after * (1 + 1e-12)
    assert found.lower in (0.0, 1.0) or found.upper < math.inf


@given(batches(), SIZE, st.randoms(use_true_random=False))
@PROPERTY
def test_invariances(batch, factor: float, random) -> None:  # type: ignore[no-untyped-def]
    rows, frozen, clip = batch
    base = biased_signal(rows, frozen_norms=frozen, clip_norm=clip)
    assert biased_signal(factor * rows, frozen_norms=factor * frozen, clip_norm=factor * clip) == pytest.approx(
        factor * base, rel=1e-9, abs=1e-9
    )
    order = list(range(len(rows)))
    random.shuffle(order)
    assert biased_signal(rows[order], frozen_norms=frozen[order], clip_norm=clip) == pytest.approx(
        base, rel=1e-9, abs=1e-9
    )
    assert biased_signal(-rows, frozen_norms=frozen, clip_norm=clip) == pytest.approx(-base, rel=1e-12, abs=1e-12)
    assert biased_signal(
        np.repeat(rows, 3, axis=0), frozen_norms=np.repeat(frozen, 3), clip_norm=clip
    ) == pytest.approx(base, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("size", [1e-200, 1e-100, 1e70])
def test_extreme_sizes(size: float) -> None:
    found = freezing.signal_growth([[size, size], [size, 0.0]], frozen_norms=1e60, clip_norm=1.0)
    assert 0 <= found.before <= found.after < math.inf and found.lower <= found.upper


def test_signals_can_cancel() -> None:
    found = freezing.signal_growth([[1.0], [-3.0]], frozen_norms=[0.0, 4.0], clip_norm=1.0)
    assert (found.lower, found.upper) == (0.0, math.inf)
    assert found.after == pytest.approx(0.0, abs=1e-15)
    assert found.before == pytest.approx(0.2)
    # an obtuse pair, but nothing that grows opposes the signal
    found = freezing.signal_growth([[1.0, 0.0], [-0.1, 3.0]], frozen_norms=[0.0, 4.0], clip_norm=1.0)
    assert found.lower == 1.0 and found.upper == math.inf and found.after > found.before


# --- bias angle -------------------------------------------------------------------------------------------------------
@given(ANGLE, SIZE, SIZE)
@PROPERTY
def test_bias_angle_in_the_plane(angle: float, first: float, second: float) -> None:
    turned = second * np.array([math.cos(angle), math.sin(angle)])
    assert bias_angle(direction=[first, 0.0], signal=turned) == pytest.approx(angle, abs=4e-16, rel=1e-14)
    assert bias_angle(direction=turned, signal=[first, 0.0]) == pytest.approx(angle, abs=4e-16, rel=1e-14)


def test_bias_angle_near_its_ends() -> None:
    assert bias_angle(direction=[1.0, 0.0], signal=[1.0, 1e-12]) == pytest.approx(1e-12, rel=1e-12)
    assert bias_angle(direction=[1e-60, 0.0], signal=[-1e60, 0.0]) == math.pi


@pytest.mark.parametrize("seed", range(20))
def test_turn_against_a_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    u, x, w = rng.standard_normal((3, 4))
    found = bias_turn(direction=u, signal=x, added=w)
    grid = np.linspace(0, min(found.limit, 5.0), 50)
    angles = [bias_angle(direction=u, signal=x + t * w) for t in grid]
    assert (np.diff(angles) <= 1e-12).all()
    if found.limit < 5:
        assert bias_angle(direction=u, signal=x + (found.limit + 1e-3) * w) > angles[-1]
    assert bias_turn(direction=3 * u, signal=2 * x, added=5 * w).limit == pytest.approx(found.limit * 2 / 5)
    assert bias_turn(direction=3 * u, signal=2 * x, added=5 * w).margin == pytest.approx(found.margin)


def test_turn_limits() -> None:
    assert bias_turn(direction=[1.0, 0.0], signal=[0.0, 1.0], added=[1.0, 0.0]).limit == math.inf  # towards u itself
    assert bias_turn(direction=[1.0, 0.0], signal=[1.0, 1.0], added=[0.0, 1.0]).limit == 0.0
    assert bias_turn(direction=[1.0, 1.0], signal=[1.0, 0.0], added=[0.0, 2.0]).limit == pytest.approx(0.5)
    assert bias_turn(direction=[1.0, 1.0], signal=[2.0, 0.0], added=[3.0, 0.0]).limit == math.inf  # nothing turns
    assert (
        bias_turn(direction=[1.0, 1.0], signal=[2.0, 0.0], added=[-4.0, 0.0]).limit == 0.5
    )  # through 0: 45 degrees become 135
    assert bias_turn(direction=[-1.0, 1.0], signal=[2.0, 0.0], added=[-4.0, 0.0]).limit == math.inf
    assert bias_turn(direction=[1.0, 0.0], signal=[1.0, 0.0], added=[-1.0, 1e-9]).limit == 0.0  # nearly through 0
    assert (
        bias_turn(direction=[1.0, 0.0], signal=[-1.0, 0.0], added=[0.0, 1.0]).limit == math.inf
    )  # away from the opposite of u
    for x in ([-1.0, -1.0], [-1.0, -2.0, 2.0]):  # the same where rounding leaves a margin of either sign
        u, w = -2 * np.array(x), np.array([1.0, *[-3.0] * (len(x) - 1)])
        assert bias_turn(direction=u, signal=x, added=w) == bias_turn(direction=u, signal=x, added=-w)
        assert (
            bias_turn(direction=u, signal=x, added=w).limit == math.inf
            and bias_turn(direction=-u, signal=x, added=w).limit == 0.0
        )


def test_counterexample_of_the_ledger_turns_from_3_to_33_degrees() -> None:
    batch = _batches.TURNING
    u = batch.rows.mean(axis=0)
    signals = [biased_signal(batch.rows, frozen_norms=frozen, clip_norm=1.0) for frozen in (batch.frozen_norms, 0.0)]
    degrees = [math.degrees(bias_angle(direction=u, signal=s)) for s in signals]
    assert degrees == [pytest.approx(2.552, abs=1e-3), pytest.approx(33.035, abs=1e-3)]
    assert bias_turn(direction=u, signal=signals[0], added=signals[1] - signals[0]).limit == 0.0


# --- mean distortion angle --------------------------------------------------------------------------------------------
def _panels(low: float, high: float, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points and weights of 20 Gauss points on each of so many equal parts."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = (high - low) / count / 2
    return np.add.outer(low + half * np.arange(1, 2 * count, 2), half * nodes).ravel(), np.tile(half * weights, count)


def _reference(dim: int, snr: float, bias: float) -> float:
    """The double integral over t and rho = sin(s), whose integrand is smooth and positive."""
    t, t_weights = _panels(bias, math.pi / 2, 3)
    s, s_weights = _panels(0.0, math.pi / 2, 12)
    inner = ndtr(-snr * np.outer(np.sin(s), np.sin(t))) @ t_weights
    return bias + 2 * (dim - 2) * float((s_weights * np.sin(s) * np.cos(s) ** (dim - 3)) @ inner)


@pytest.mark.parametrize(("dim", "snr", "bias"), [(4, 2.0, 0.3), (7, 0.01, 1.2), (30, 8.0, 0.0)])
def test_mean_angle_in_high_precision(dim: int, snr: float, bias: float) -> None:
    assert expected_angle(dim, snr=snr, bias_angle=bias) == pytest.approx(_reference(dim, snr, bias), rel=1e-13)


@pytest.mark.parametrize("dim", [2, 3, 40, 10**4, 10**9])
def test_mean_angle_limits(dim: int) -> None:
    assert expected_angle(dim, snr=0.0, bias_angle=0.4) == pytest.approx(math.pi / 2, rel=1e-14)
    assert expected_angle(dim, snr=5.0, bias_angle=math.pi / 2) == pytest.approx(math.pi / 2, rel=1e-14)
    assert expected_angle(dim, snr=math.inf, bias_angle=0.4) == 0.4
    assert expected_angle(dim, snr=1e300, bias_angle=2.0) == pytest.approx(2.0, rel=1e-15)
    assert expected_angle(dim, snr=3.0, bias_angle=math.pi - 0.4) == pytest.approx(
        math.pi - expected_angle(dim, snr=3.0, bias_angle=0.4)
    )
    # little noise: the angle is |z without its part along s| / |s|
    chi = (
        math.sqrt(2) * math.exp(math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2))
        if dim < 1000
        else math.sqrt(dim - 1.5)
    )
    assert expected_angle(dim, snr=1e9 * chi) == pytest.approx(1e-9, rel=1e-6)


def test_mean_angle_in_many_dimensions() -> None:
    for snr in (1e3, 3e4, 1e6):
        assert expected_angle(10**9, snr=snr) == pytest.approx(math.atan2(math.sqrt(10**9 - 1), snr), rel=1e-8)


@given(st.integers(2, 10**6), st.floats(0, 1e3), st.floats(1, 10), st.floats(0, math.pi / 2), st.floats(0, 1))
@PROPERTY
def test_mean_angle_is_monotone(dim: int, snr: float, gain: float, bias: float, turn: float) -> None:
    base = expected_angle(dim, snr=snr, bias_angle=bias)
    assert bias - 1e-13 <= base <= math.pi / 2 + 1e-13
    assert expected_angle(dim, snr=gain * snr, bias_angle=bias) <= base + 1e-12
    assert expected_angle(dim, snr=snr, bias_angle=turn * bias) <= base + 1e-12
    assert (
        expected_angle(dim, snr=gain * snr, bias_angle=math.pi - bias)
        >= expected_angle(dim, snr=snr, bias_angle=math.pi - bias) - 1e-12
    )


# --- forecast ---------------------------------------------------------------------------------------------------------
SIZES, NORMS = [100, 50, 10], [[3.0, 4.0, 12.0], [0.1, 0.2, 0.2]]


def test_forecast_agrees_with_the_signal_of_equal_samples() -> None:
    rows = [[4.0, 12.0]] * 5
    found = freezing_effect(
        SIZES, layer_norms=[3.0, 4.0, 12.0], frozen_layers=1, clip_norm=2.0, noise_multiplier=1.5, batch_size=5
    )
    measured = freezing.signal_growth(rows, frozen_norms=3.0, clip_norm=2.0)
    assert found.before.clipped_norm == pytest.approx(measured.before)
    assert found.after.clipped_norm == pytest.approx(measured.after)
    assert found.growth == pytest.approx(13 / math.sqrt(160))
    assert found.after.snr == pytest.approx(measured.after / (1.5 * 2 / 5))
    assert (found.before.dim, found.after.dim) == (60, 60)
    assert found.before.update_noise / found.after.update_noise == pytest.approx(160 / 60)


def test_forecast_of_one_sample_is_the_forecast_of_its_copies() -> None:
    one, many = (
        freezing_effect(SIZES, layer_norms=norms, frozen_layers=2, clip_norm=1.0, noise_multiplier=1.0, batch_size=64)
        for norms in (NORMS[0], [NORMS[0]] * 3)
    )
    assert one.growth == pytest.approx(many.growth) and one.after.snr == pytest.approx(many.after.snr)


def test_freezing_nothing_changes_nothing() -> None:
    found = freezing_effect(
        SIZES, layer_norms=NORMS, frozen_layers=0, clip_norm=1.0, noise_multiplier=1.0, batch_size=64
    )
    assert found.before == found.after and found.growth == 1.0


@given(st.lists(st.floats(0, 100).map(lambda x: round(x, 6)), min_size=3, max_size=3), st.integers(0, 2), SIZE, SIZE)
@PROPERTY
def test_forecast_never_loses_the_trainable_part(norms: list[float], frozen: int, clip: float, sigma: float) -> None:
    found = freezing_effect(
        SIZES,
        layer_norms=norms,
        frozen_layers=frozen,
        clip_norm=clip,
        noise_multiplier=sigma,
        batch_size=16,
        alignment=0.5,
    )
    assert found.growth >= 1 and found.after.clipped_norm <= clip * (1 + 1e-12)
    assert found.after.snr >= found.before.snr and found.after.noise_cos >= found.before.noise_cos - 1e-12
    assert found.after.noise_angle <= found.before.noise_angle + 1e-12
    assert found.after.update_noise <= found.before.update_noise


def test_nothing_to_train() -> None:
    found = freezing_effect(
        [5, 5], layer_norms=[1.0, 0.0], frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=4
    )
    assert found.growth == 1.0 and found.after.snr == found.after.noise_cos == 0.0
    assert found.after.noise_angle == pytest.approx(math.pi / 2)


@pytest.mark.parametrize("dim", [2, 3, 10, 1000, 10**6, 10**9])
@pytest.mark.parametrize("snr", [0.0, 0.3, 1.0, 40.0, 1e3])
def test_without_bias_the_expected_angle_is_the_mean_of_the_law(dim: int, snr: float) -> None:
    assert freezing.expected_angle(dim, snr=snr) == pytest.approx(
        gradients.DistortionAngle(dim, snr=snr).mean(), rel=1e-11
    )


def test_in_one_dimension_the_angle_is_said_as_it_was_given() -> None:
    assert expected_angle(1, snr=1.0, bias_angle=math.pi) == pytest.approx(math.pi * float(ndtr(1.0)), rel=1e-14)
    with refused("bias_angle", "0", "3.0"):
        expected_angle(1, snr=1.0, bias_angle=3.0)


# The convergence bound of layer freezing: limits, scaling, brute force, the exact runs it is held against, bad input


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
    run = {"objective_gap": 1.0, "learning_rate": 0.1, "steps": 50, "smoothness": 2.0}
    run |= {"clip_norm": 1.5, "noise_multiplier": 1.0, "batch_size": 16}
    found = freezing.freezing_bounds([100, 200, 300], frozen_layers=2, **run)  # type: ignore[arg-type]
    assert (found.dim, found.trainable_dim) == (600, 300)
    assert found.frozen.noise == pytest.approx(found.full.noise / 2, rel=1e-14)
    assert found.frozen.clipping == found.full.clipping == pytest.approx(0.1 * 2.0 * 1.5**2 * (1 + 1 / 16) / 2)
    assert found.largest_frozen_gradient == pytest.approx(0.1 * 2.0 / 2 * 300 * (1.5 / 16) ** 2, rel=1e-9)
    same = freezing.freezing_bounds([100, 200], frozen_layers=0, **run)  # type: ignore[arg-type]
    assert same.full == same.frozen and same.largest_frozen_gradient == 0


def test_private_second_moment_grows_with_the_dimension() -> None:
    assert freezing.private_second_moment(
        second_moment=0.25, clip_norm=1.0, noise_multiplier=2.0, dim=100, batch_size=4
    ) == pytest.approx(0.25 + 100 * 0.25)
    assert (
        freezing.private_second_moment(second_moment=0.25, clip_norm=1.0, noise_multiplier=0.0, dim=100, batch_size=4)
        == 0.25
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
    for one in reported.SETTINGS.values():
        epsilon, sigma = one.number("epsilon"), one.number("noise_multiplier")
        batch, examples = one.whole("batch_size"), one.whole("train_size")
        steps = reported.affordable_steps(epsilon, sigma, batch, examples)
        rate = batch / examples

        def spent(count: int, rate: float = rate, sigma: float = sigma) -> float:
            return min(
                count * r + math.log1p(-1 / a) - (math.log(reported.DELTA) + math.log(a)) / (a - 1)
                for a, r in zip(
                    orders,
                    privacy.subsampled_gaussian_rdp(orders=orders, sampling_rate=rate, noise_multiplier=sigma),
                    strict=True,
                )
            )

        assert spent(steps) <= epsilon < spent(steps + 1)


# --- When to freeze: limits, ties, what a schedule and parts mean, bad input ---


RUN: dict[str, Any] = {
    "curvature": [1.0, 0.5],
    "learning_rate": 0.1,
    "steps": 50,
    "clip_norm": 1.0,
    "noise_multiplier": 1.0,
    "batch_size": 16,
}


def test_without_noise_or_without_gradient() -> None:
    calm = freezing.best_layer_steps([9, 9], gradient_norms=[1.0, 0.0], **RUN | {"noise_multiplier": 0.0})
    assert calm.frozen_after_step == (50, 50)
    assert calm.value == calm.all_trained and calm.value[1] == 0
    arrived = freezing.best_layer_steps([9, 9], gradient_norms=[0.0, 0.0], **RUN)
    assert arrived.frozen_after_step == (0, 0) and arrived.value == (0.0, 0.0)
    nothing = freezing.best_freezing([9, 9], gradient_norms=[1.0, 0.0], **RUN | {"noise_multiplier": 0.0})
    assert (nothing.frozen_layers, nothing.frozen_after_step, nothing.gain) == (0, 50, 0.0)


def test_a_settled_layer_is_not_frozen() -> None:
    """Its loss falls to the floor within rounding, after which every step is as good as any."""
    found = freezing.best_layer_steps([9, 9], gradient_norms=[9.0, 9.0], **RUN | {"learning_rate": 0.9, "steps": 999})
    assert found.frozen_after_step == (999, 999)
    assert freezing.best_freezing([9], gradient_norms=[9.0], **RUN | {"curvature": [1.0]}).frozen_layers == 0


def test_a_schedule_of_equal_steps_and_parts_of_equal_curvature() -> None:
    plain = freezing.best_freezing([300, 40], gradient_norms=[0.5, 2.0], deviation_norm=[3.0, 4.0], **RUN)
    whole = RUN | {"learning_rate": np.full(50, 0.1), "curvature": [[1.0, 1.0], [0.5, 0.5]], "clip_norm": [1.0, 1.0]}
    split = freezing.best_freezing(
        [[100, 200], [39, 1]],
        gradient_norms=[[0.3, 0.4], [2.0, 0.0]],
        deviation_norm=[[3.0, 0.0], [0.0, 4.0]],
        layer_norms=[0.1, 0.1],
        **whole,
    )
    assert (plain.frozen_layers, plain.frozen_after_step) == (split.frozen_layers, split.frozen_after_step)
    assert split.value == pytest.approx(plain.value, rel=1e-12)


def test_what_fills_up_rows_counts_nothing() -> None:
    run = RUN | {"deviation_norm": 5.0, "curvature": [1.0, 0.5], "layer_sizes": [40, 9], "gradient_norms": [0.7, 0.1]}
    filled = run | {
        "curvature": [[1.0, 1e30], [0.5, 0.05]],
        "layer_sizes": [[40, 0], [9, 0]],
        "gradient_norms": [[0.7, 0.0], [0.1, 0.0]],
    }
    assert freezing.best_layer_steps(**filled) == freezing.best_layer_steps(**run)
    assert freezing.best_freezing(**filled) == freezing.best_freezing(**run)
    for name, value in (("gradient_norms", [[0.7, 0.1], [0.1, 0.0]]), ("deviation_norm", np.full((2, 2), 5.0))):
        with refused(name, "0"):
            freezing.best_freezing(**filled | {name: value})
    with refused("layer_sizes", "0"):
        freezing.best_layer_steps(**run | {"layer_sizes": [0, 0]})


def test_clipped_examples_and_a_smaller_step() -> None:
    """Examples of norm 5 clipped to 1 are a step of a fifth on noise that is five times as large."""
    run = RUN | {"gradient_norms": [1.0, 2.0], "steps": 20}
    clipped = freezing.best_freezing([30, 40], layer_norms=[3.0, 4.0], **run)
    larger = run | {"learning_rate": 0.02, "noise_multiplier": 5.0}
    assert clipped.all_trained == pytest.approx(freezing.best_freezing([30, 40], **larger).all_trained, rel=1e-12)


def _losses_in_eighty_digits(
    frozen_layer: int, *, steps: int, square: str, curvature: list[str], clip: list[str]
) -> list[Decimal]:
    """The loss at the end by the step of freezing the first layers, as the module's head writes the recursion; nothing is clipped."""
    with localcontext() as context:
        context.prec = 80
        rate, sigma, batch = Decimal("0.1"), Decimal("1.5"), Decimal(1024)
        sizes = [Decimal(200_000), Decimal(150_000), Decimal(50_000)]
        curves, clips = [Decimal(one) for one in curvature], [Decimal(one) for one in clip]

        def after(found: Decimal, layer: int, clip_norm: Decimal) -> Decimal:
            moved = rate * curves[layer]
            return (1 - moved) ** 2 * found + moved**2 * sizes[layer] * (sigma * clip_norm / batch) ** 2

        losses, now = [], [Decimal(square)] * 3
        for step in range(steps + 1):
            end = list(now)
            for _ in range(steps - step):
                end = [after(q, i, clips[frozen_layer]) if i >= frozen_layer else q for i, q in enumerate(end)]
            losses.append(sum(q / (2 * curve) for q, curve in zip(end, curves, strict=True)))
            now = [after(q, i, clips[0]) for i, q in enumerate(now)]
        return losses


def test_where_the_least_is_flat_the_run_of_steps_that_rounding_cannot_tell_apart_holds_the_true_one() -> None:
    """The page's example: doubles put the least at one step, eighty digits at another one of the same run."""
    found = freezing.best_freezing(
        [200_000, 150_000, 50_000],
        gradient_norms=[0.5, 0.5, 0.5],
        curvature=[2.0, 1.0, 0.5],
        learning_rate=0.1,
        steps=500,
        clip_norm=[1.0, 0.8, 0.5],
        noise_multiplier=1.5,
        batch_size=1024,
    )
    losses = _losses_in_eighty_digits(
        found.frozen_layers, steps=500, square="0.25", curvature=["2", "1", "0.5"], clip=["1", "0.8", "0.5"]
    )
    true = losses.index(min(losses))
    assert found.first_step <= found.frozen_after_step <= found.last_step
    assert found.first_step <= true == 103 <= found.last_step < 500
    spread = max(losses[found.first_step : found.last_step + 1]) / min(losses) - 1
    assert 0 < spread < Decimal("1e-11")


def test_where_the_least_is_sharp_the_run_is_one_step() -> None:
    one = freezing.best_layer_steps(
        [[100, 900]],
        gradient_norms=[[3.0, 0.0]],
        curvature=[[1.0, 0.05]],
        learning_rate=0.2,
        steps=100,
        clip_norm=1.0,
        noise_multiplier=1.0,
        batch_size=20,
    )
    assert one.first_step == one.frozen_after_step == one.last_step == (16,)
    flat = freezing.best_layer_steps([9, 9], gradient_norms=[9.0, 9.0], **RUN | {"learning_rate": 0.9, "steps": 999})
    assert max(flat.first_step) < 500 and flat.last_step == (999, 999)


# --- Freezing forecast in one call: both parts against the calculators that the ledger checks ---


_STEP = {"frozen_layers": 1, "clip_norm": 1.0, "noise_multiplier": 1.5, "batch_size": 256}
_DESCENT = {"objective_gap": 2.0, "learning_rate": 0.1, "steps": 100, "smoothness": 3.0}


@pytest.mark.parametrize("sizes", [[100, 200, 300], [100_000, 200_000, 300_000]])
@pytest.mark.parametrize("alignment", [1.0, 0.25])
@pytest.mark.parametrize(("sampling", "sampling_rate"), [("poisson", None), ("poisson", 0.01), ("fixed", None)])
def test_every_field(sizes: list[int], alignment: float, sampling: str, sampling_rate: float | None) -> None:
    norms = [1.0, 2.0, 3.0]
    batches = {"sampling": sampling, "sampling_rate": sampling_rate}
    found = compare_freezing(sizes, layer_norms=norms, **_STEP, **_DESCENT, alignment=alignment, **batches)  # type: ignore[arg-type]
    assert found == FreezingComparison(
        effect=freezing_effect(sizes, layer_norms=norms, **_STEP, alignment=alignment),  # type: ignore[arg-type]
        bounds=freezing_bounds(sizes, **_STEP, **_DESCENT, **batches),  # type: ignore[arg-type]
    )


def test_defaults_are_gradients_of_one_direction_and_poisson_batches() -> None:
    sizes, norms = [5, 10], [1.0, 2.0]
    assert compare_freezing(sizes, layer_norms=norms, **_STEP, **_DESCENT) == compare_freezing(  # type: ignore[arg-type]
        sizes, layer_norms=norms, **_STEP, **_DESCENT, alignment=1.0, sampling="poisson", sampling_rate=None  # type: ignore[arg-type]
    )  # fmt: skip
