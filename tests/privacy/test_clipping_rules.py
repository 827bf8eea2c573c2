"""Sensitivities of other rules of clipping, and the noise of a count beside a sum: by hand, limits, drawn records, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory.privacy import (
    automatic_clip_sensitivity,
    combined_multiplier,
    counted_noise,
    layer_clip_sensitivity,
    weighted_mean_sensitivity,
)
from tests.refused import refused


def test_by_hand() -> None:
    assert layer_clip_sensitivity(layer_clips=[3.0, 4.0]) == 5.0
    assert layer_clip_sensitivity(layer_clips=[3.0, 4.0], adjacency="replace-one") == 10.0
    assert automatic_clip_sensitivity(clip_norm=2.0, gamma=1.0, largest_norm=3.0) == 1.5
    assert automatic_clip_sensitivity(clip_norm=2.0, gamma=1.0, adjacency="replace-one") == 4.0
    found = counted_noise(noise_multiplier=12.0, count_share=0.36)
    assert (found.gradient_multiplier, found.count_std) == (15.0, 10.0)


def test_limits() -> None:
    assert layer_clip_sensitivity(layer_clips=0.5) == 0.5
    assert layer_clip_sensitivity(layer_clips=[1e70] * 4) == pytest.approx(2e70, rel=1e-15)
    assert automatic_clip_sensitivity(clip_norm=1.0, gamma=1.0, largest_norm=0.0) == 0.0
    assert automatic_clip_sensitivity(clip_norm=1.0, gamma=1e-70, largest_norm=1e300) == 1.0
    silent = counted_noise(noise_multiplier=0.0, count_share=0.5)
    assert (silent.gradient_multiplier, silent.count_std) == (0.0, 0.0)


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 0.5))
def test_both_noises_cost_what_was_asked_for(sigma: float, share: float) -> None:
    found = counted_noise(noise_multiplier=sigma, count_share=share)
    joint = combined_multiplier(noise_multipliers=[found.gradient_multiplier, 2 * found.count_std])
    assert joint == pytest.approx(sigma, rel=4e-15)  # a dozen roundings
    assert found.gradient_multiplier > sigma


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.floats(-2, 2), st.floats(1e-3, 10.0))
def test_no_drawn_records_are_further_apart(seed: int, exponent: float, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    one, other = 10.0**exponent * rng.normal(size=(2, 6))
    clips = rng.exponential(size=3)

    def by_layer(g: np.ndarray) -> np.ndarray:
        layers = g.reshape(3, 2)
        norms = np.linalg.norm(layers, axis=1)
        return np.asarray(layers * np.minimum(1.0, clips / norms)[:, None])

    bound = layer_clip_sensitivity(layer_clips=clips)
    assert np.linalg.norm(by_layer(one)) <= bound + 1e-12
    assert np.linalg.norm(by_layer(one) - by_layer(other)) <= 2 * bound + 1e-12
    longest = max(np.linalg.norm(one), np.linalg.norm(other))
    bound = automatic_clip_sensitivity(clip_norm=1.0, gamma=gamma, largest_norm=float(longest), adjacency="replace-one")
    normal = [g / (np.linalg.norm(g) + gamma) for g in (one, other)]
    assert np.linalg.norm(normal[0] - normal[1]) <= bound + 1e-12


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"layer_clips": []}, "layer_clips"),
        ({"layer_clips": [1.0, -1.0]}, "layer_clips"),
        ({"layer_clips": [math.inf]}, "layer_clips"),
        ({"adjacency": "zero-out"}, "adjacency"),
    ],
)
def test_bad_layers(changed: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must"):
        layer_clip_sensitivity(**({"layer_clips": [1.0]} | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"clip_norm": 0.0}, "clip_norm"),
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": math.nan}, "gamma"),
        ({"largest_norm": -1.0}, "largest_norm"),
        ({"adjacency": "zero-out"}, "adjacency"),
    ],
)
def test_bad_normalising(changed: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must"):
        automatic_clip_sensitivity(**({"clip_norm": 1.0, "gamma": 1.0} | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"noise_multiplier": math.inf}, "noise_multiplier"),
        ({"count_share": 0.0}, "count_share"),
        ({"count_share": 0.6}, "count_share"),
    ],
)
def test_bad_counts(changed: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must"):
        counted_noise(**({"noise_multiplier": 1.0, "count_share": 0.1} | changed))


# --- Sensitivity under a loss that is a weighted mean over the batch: by hand, its limits, drawn batches, bad input


def _found(size: int, ratio: float, adjacency: str = "add-remove") -> float:
    return weighted_mean_sensitivity(batch_size=size, clip_norm=1.0, weight_ratio=ratio, adjacency=adjacency)


def test_by_hand_loss_divisor() -> None:
    assert _found(2, 3.0) == 1.5 and _found(2, 3.0, "replace-one") == 2.5
    assert _found(3, 2.0) == 1.5  # (3 - 1)(2 - 1) / (3 - 1 + 2) = 1 / 2
    assert weighted_mean_sensitivity(batch_size=2, clip_norm=4.0, weight_ratio=3.0) == 6.0


def test_equal_weights_and_one_record_give_what_is_counted_on() -> None:
    for size, ratio in ((1, 1.0), (1, 50.0), (1, math.inf), (10**9, 1.0)):
        assert _found(size, ratio) == 1.0 and _found(size, ratio, "replace-one") == 2.0


def test_limits_loss_divisor() -> None:
    assert _found(10, math.inf) == 10.0 and _found(10, math.inf, "replace-one") == 11.0
    assert _found(10**9, 5.0) == pytest.approx(5.0, rel=1e-7)
    assert _found(10, 1e300) == 10.0


def test_ratios_near_one_keep_their_digits() -> None:
    tiny = 2.0**-40
    assert _found(1001, 1.0 + tiny) - 1.0 == pytest.approx(1000 * tiny / 1001, rel=1e-3)


def _clipped_sum(batch: np.ndarray) -> np.ndarray:
    weights, gradients = batch[:, :1], batch[:, 1:]
    scaled = len(batch) / weights.sum() * weights * gradients
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray((scaled / np.maximum(1.0, norms)).sum(0))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30), st.floats(1.0, 100.0))
def test_no_drawn_batches_are_further_apart(seed: int, size: int, ratio: float) -> None:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=3)
    gradients = common + rng.exponential() * rng.normal(size=(size + 1, 3))
    batch = np.column_stack([ratio ** rng.uniform(0, 1, size + 1), gradients])
    whole, joined = _clipped_sum(batch[:-1]), _clipped_sum(batch)
    replaced = _clipped_sum(batch[1:])
    assert np.linalg.norm(joined - whole) <= _found(size + 1, ratio) + 1e-12
    assert np.linalg.norm(replaced - whole) <= _found(size, ratio, "replace-one") + 1e-12


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 10**10}, "batch_size"),
        ({"clip_norm": 0.0}, "clip_norm"),
        ({"weight_ratio": 0.5}, "weight_ratio"),
        ({"adjacency": "zero-out"}, "adjacency"),
    ],
)
def test_bad_input(changed: dict[str, object], name: str) -> None:
    given_ = {"batch_size": 2, "clip_norm": 1.0, "weight_ratio": 2.0, "adjacency": "add-remove"} | changed
    with refused(name):
        weighted_mean_sensitivity(**given_)  # type: ignore[arg-type]
