"""The attack on a real linear layer: exact without noise, as predicted with it, and able to fail."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from dptheory import sparsification
from dptheory.checks import Kind
from dptheory.sparsification import _reconstruction
from training.data import load
from training.validate import attack, linear_attack, linear_gradient


def test_measured_error_is_the_predicted_one() -> None:
    found = linear_attack(rate=0.8, index=3, budget=600.0)
    assert [evidence.detail for evidence in found if not evidence.passed] == []
    assert {evidence.kind for evidence in found} == {Kind.REAL_DATA}
    assert len({evidence.check for evidence in found}) == 3


def test_a_wrong_prediction_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sparsification.expected_error

    def wrong(*a: object, **k: object) -> sparsification.AttackError:
        found = right(*a, **k)  # type: ignore[arg-type]
        return dataclasses.replace(found, given_recoverable=1.02 * found.given_recoverable)

    monkeypatch.setattr(_reconstruction, "expected_error", wrong)
    _, error, hidden = linear_attack(rate=0.8, budget=600.0)
    assert not error.passed
    assert hidden.passed


def test_without_noise_every_seen_pixel_is_read_exactly() -> None:
    gradient = linear_gradient(load("excerpt", train=True), 7, seed=1)
    assert math.isclose(gradient.outputs.sum(), 0.0, abs_tol=1e-12)  # softmax minus one-hot
    mask = np.random.default_rng(0).random(gradient.weights.shape) < 0.2
    found = attack(np.where(mask, gradient.weights, np.nan), mask, gradient.outputs)
    seen = mask.any(axis=0)
    assert 0 < seen.sum() < seen.size
    np.testing.assert_allclose(found[seen], gradient.pixels[seen], atol=1e-12)
    assert np.isnan(found[~seen]).all()


def test_gradient_depends_on_the_seed_alone() -> None:
    images = load("excerpt", train=True)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = (linear_gradient(images, 0, seed).weights for seed in (1, 1, 2))
    assert (torch.random.get_rng_state() == before).all()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"rate": 0.5}, "rate"),
        ({"rate": 1.0}, "rate"),
        ({"rate": 0.71234567}, "rate"),
        ({"rate": math.nan}, "rate"),
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": math.inf}, "sigma"),
        ({"index": -1}, "index"),
        ({"index": 2000}, "index"),
        ({"index": 1.5}, "index"),
    ],
)
def test_bad_input_names_the_argument(arguments: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must .*got"):
        linear_attack(**arguments)  # type: ignore[arg-type]
