"""dptheory.freezing against brute force, its limits and its errors."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr

from dptheory import freezing, gradients
from dptheory.claims.lf import _batches
from dptheory.freezing import bias_angle, bias_turn, biased_signal, expected_angle, freezing_effect, norm_growth
from tests.refused import refused

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


# --- errors -----------------------------------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: norm_growth(trainable_norms=-1.0, frozen_norms=1.0, clip_norm=1.0), "trainable_norms"),
        (lambda: norm_growth(trainable_norms=1.0, frozen_norms=1e80, clip_norm=1.0), "frozen_norms"),
        (
            lambda: norm_growth(trainable_norms=[1.0, 2.0], frozen_norms=[1.0, 2.0, 3.0], clip_norm=1.0),
            "frozen_norms",
        ),
        (lambda: norm_growth(trainable_norms=1.0, frozen_norms=1.0, clip_norm=0.0), "clip_norm"),
        (lambda: biased_signal([[NAN, 1.0]], frozen_norms=0.0, clip_norm=1.0), "trainable_gradients"),
        (lambda: biased_signal([[1e90, 1.0]], frozen_norms=0.0, clip_norm=1.0), "trainable_gradients"),
        (lambda: biased_signal([1.0, 2.0], frozen_norms=0.0, clip_norm=1.0), "trainable_gradients"),
        (lambda: biased_signal(np.zeros((0, 3)), frozen_norms=0.0, clip_norm=1.0), "trainable_gradients"),
        (
            lambda: biased_signal([[1.0], [2.0]], frozen_norms=[1.0], clip_norm=1.0),
            "frozen_norms 2",
        ),
        (lambda: biased_signal([[1.0], [2.0]], frozen_norms=[1.0, -1.0], clip_norm=1.0), "frozen_norms"),
        (lambda: biased_signal([[1.0]], frozen_norms=0.0, clip_norm=-1.0), "clip_norm"),
        (lambda: biased_signal([[1.0]], frozen_norms=0.0, clip_norm=math.inf), "clip_norm"),
        (lambda: freezing.signal_growth([["a"]], frozen_norms=0.0, clip_norm=1.0), "trainable_gradients"),
        (lambda: freezing.signal_growth([[1.0]], frozen_norms=[[0.0]], clip_norm=1.0), "frozen_norms"),
        (lambda: bias_angle(direction=[0.0, 0.0], signal=[1.0, 0.0]), "direction"),
        (lambda: bias_angle(direction=[1.0, 0.0], signal=[0.0, 0.0]), "signal"),
        (lambda: bias_angle(direction=[1.0, 0.0], signal=[1.0]), "signal"),
        (lambda: bias_turn(direction=[1.0], signal=[1.0], added=[0.0]), "added"),
        (lambda: bias_turn(direction=[1.0], signal=[1.0], added=[1.0, 2.0]), "added"),
        (lambda: expected_angle(0, snr=1.0), "dim"),
        (lambda: expected_angle(2.5, snr=1.0), "dim"),  # type: ignore[arg-type]
        (lambda: expected_angle(2, snr=-1.0), "snr"),
        (lambda: expected_angle(2, snr=1.0, bias_angle=4.0), "bias_angle"),
        (lambda: expected_angle(1, snr=1.0, bias_angle=0.5), "bias_angle 0"),
        (
            lambda: freezing_effect(
                SIZES, layer_norms=NORMS, frozen_layers=3, clip_norm=1.0, noise_multiplier=1.0, batch_size=8
            ),
            "frozen_layers 0..2",
        ),
        (
            lambda: freezing_effect(
                [10], layer_norms=[1.0], frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=8
            ),
            "layer_sizes 0",
        ),
        (
            lambda: freezing_effect(
                SIZES, layer_norms=NORMS, frozen_layers=-1, clip_norm=1.0, noise_multiplier=1.0, batch_size=8
            ),
            "frozen_layers",
        ),
        (
            lambda: freezing_effect(
                SIZES, layer_norms=[1.0, 2.0], frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=8
            ),
            "layer_norms 3",
        ),
        (
            lambda: freezing_effect(
                SIZES, layer_norms=[1.0, 2.0, -1.0], frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=8
            ),
            "layer_norms",
        ),
        (
            lambda: freezing_effect(
                SIZES, layer_norms=[1.0, 2.0, NAN], frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=8
            ),
            "layer_norms",
        ),
        (
            lambda: freezing_effect(
                [10, 0, 5], layer_norms=NORMS, frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=8
            ),
            "layer_sizes",
        ),
        (
            lambda: freezing_effect(
                [10.5, 1, 5], layer_norms=NORMS, frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=8
            ),
            "layer_sizes",
        ),
        (
            lambda: freezing_effect(
                [], layer_norms=[], frozen_layers=0, clip_norm=1.0, noise_multiplier=1.0, batch_size=8
            ),
            "layer_sizes",
        ),
        (
            lambda: freezing_effect(
                [10**9, 1, 1], layer_norms=NORMS, frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=8
            ),
            "layer_sizes",
        ),
        (
            lambda: freezing_effect(
                SIZES, layer_norms=NORMS, frozen_layers=1, clip_norm=0.0, noise_multiplier=1.0, batch_size=8
            ),
            "clip_norm",
        ),
        (
            lambda: freezing_effect(
                SIZES, layer_norms=NORMS, frozen_layers=1, clip_norm=1.0, noise_multiplier=0.0, batch_size=8
            ),
            "noise_multiplier",
        ),
        (
            lambda: freezing_effect(
                SIZES, layer_norms=NORMS, frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=0
            ),
            "batch_size",
        ),
        (
            lambda: freezing_effect(
                SIZES,
                layer_norms=NORMS,
                frozen_layers=1,
                clip_norm=1.0,
                noise_multiplier=1.0,
                batch_size=8,
                alignment=0.0,
            ),
            "alignment",
        ),
        (
            lambda: freezing_effect(
                SIZES,
                layer_norms=NORMS,
                frozen_layers=1,
                clip_norm=1.0,
                noise_multiplier=1.0,
                batch_size=8,
                alignment=1.1,
            ),
            "alignment",
        ),
    ],
)
def test_bad_input_is_named(call, says: str) -> None:  # type: ignore[no-untyped-def]
    with refused(*says.split()):
        call()


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


def test_a_refused_zero_is_not_printed_as_allowed() -> None:
    with refused("clip_norm", "1e-70", "1e+70", "1e-80"):
        norm_growth(trainable_norms=1.0, frozen_norms=1.0, clip_norm=1e-80)
