"""Sensitivity under a loss that is a weighted mean over the batch: by hand, its limits, drawn batches, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory.privacy import weighted_mean_sensitivity
from tests.refused import refused


def _found(size: int, ratio: float, adjacency: str = "add-remove") -> float:
    return weighted_mean_sensitivity(batch_size=size, clip_norm=1.0, weight_ratio=ratio, adjacency=adjacency)


def test_by_hand() -> None:
    assert _found(2, 3.0) == 1.5 and _found(2, 3.0, "replace-one") == 2.5
    assert _found(3, 2.0) == 1.5  # (3 - 1)(2 - 1) / (3 - 1 + 2) = 1 / 2
    assert weighted_mean_sensitivity(batch_size=2, clip_norm=4.0, weight_ratio=3.0) == 6.0


def test_equal_weights_and_one_record_give_what_is_counted_on() -> None:
    for size, ratio in ((1, 1.0), (1, 50.0), (1, math.inf), (10**9, 1.0)):
        assert _found(size, ratio) == 1.0 and _found(size, ratio, "replace-one") == 2.0


def test_limits() -> None:
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
