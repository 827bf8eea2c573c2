"""The attack on a real linear layer: exact without noise, as predicted with it, and able to fail."""

import dataclasses
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dptheory import sparsification
from dptheory.checks import Kind
from dptheory.claims.rs.thm5_1 import printed_error_bound
from dptheory.training.data import load
from dptheory.training.measure import _linear_attack as linear_attack_of
from dptheory.training.measure import attack, linear_attack, linear_gradient
from tests.refused import refused


def test_measured_error_is_the_predicted_one() -> None:
    found = linear_attack(drop_rate=0.8, index=3, budget=600.0)
    assert [evidence.detail for evidence in found if not evidence.passed] == []
    assert {evidence.kind for evidence in found} == {Kind.REAL_DATA}
    assert len({evidence.check for evidence in found}) == 3


def test_a_wrong_prediction_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sparsification.expected_error

    def wrong(*a: object, **k: object) -> sparsification.AttackError:
        found = right(*a, **k)  # type: ignore[arg-type]
        return dataclasses.replace(found, given_recoverable=1.02 * found.given_recoverable)

    monkeypatch.setattr(sparsification, "expected_error", wrong)
    _, error, hidden = linear_attack(drop_rate=0.8, budget=600.0)
    assert not error.passed
    assert hidden.passed


def test_without_noise_every_seen_pixel_is_read_exactly() -> None:
    gradient = linear_gradient(load(name="excerpt", train=True), index=7, seed=1)
    assert math.isclose(gradient.outputs.sum(), 0.0, abs_tol=1e-12)  # softmax minus one-hot
    mask = np.random.default_rng(0).random(gradient.weights.shape) < 0.2
    found = attack(np.where(mask, gradient.weights, np.nan), mask, gradient.outputs)
    seen = mask.any(axis=0)
    assert 0 < seen.sum() < seen.size
    np.testing.assert_allclose(found[seen], gradient.pixels[seen], atol=1e-12)
    assert np.isnan(found[~seen]).all()


def test_gradient_depends_on_the_seed_alone() -> None:
    images = load(name="excerpt", train=True)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = (linear_gradient(images, index=0, seed=seed).weights for seed in (1, 1, 2))
    assert (torch.random.get_rng_state() == before).all()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"drop_rate": 0.5}, "drop_rate"),
        ({"drop_rate": 1.0}, "drop_rate"),
        ({"drop_rate": 0.71234567}, "drop_rate"),
        ({"drop_rate": math.nan}, "drop_rate"),
        ({"noise_std": 0.0}, "noise_std"),
        ({"noise_std": math.inf}, "noise_std"),
        ({"index": -1}, "index"),
        ({"index": 2000}, "index"),
        ({"index": 1.5}, "index"),
    ],
)
def test_bad_input_names_the_argument(arguments: dict[str, float], name: str) -> None:
    with refused(name):
        linear_attack(**arguments)  # type: ignore[arg-type]


# --- the parts, on small gradients --------------------------------------------------------------------------------------


def made_up() -> linear_attack_of.LinearGradient:
    rng = np.random.default_rng(2)
    outputs, pixels = rng.standard_normal(3) / 10, rng.standard_normal(4)  # small: their squares are below 1
    return linear_attack_of.LinearGradient(np.outer(outputs, pixels), outputs, pixels)


def test_a_linear_gradient_is_that_of_the_cross_entropy() -> None:
    """Softmax less the label, times the image; the starting weights are those of torch's layer under the seed."""
    images = load(name="excerpt", train=True)
    last = len(images) - 1
    for index, seed in ((5, 3), (last, 0), (0, 2**64 - 1)):
        found = linear_gradient(images, index=index, seed=seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layer = torch.nn.Linear(784, 10, dtype=torch.float64)
        pixels = images.pixels[index].flatten().double().numpy()
        scores = layer.weight.detach().numpy() @ pixels + layer.bias.detach().numpy()
        slopes = np.exp(scores) / np.exp(scores).sum() - np.eye(10)[int(images.labels[index])]
        np.testing.assert_allclose(found.outputs, slopes, atol=1e-12)
        np.testing.assert_allclose(found.weights, np.outer(slopes, pixels), atol=1e-12)
        np.testing.assert_array_equal(found.pixels, pixels)
    for index in (-1, len(images)):
        with refused("index"):
            linear_gradient(images, index=index, seed=0)


def by_hand(gradient: linear_attack_of.LinearGradient, keep: int, sigma: float, seed: int, n: int) -> np.ndarray:
    """Squared errors of n attacks, NaN where nothing is seen."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        mask = np.zeros(12)
        mask[rng.permutation(12)[:keep]] = 1.0
        mask = mask.reshape(3, 4)
        noisy = gradient.weights + sigma * rng.standard_normal((3, 4))
        seen = gradient.outputs**2 @ mask
        estimate = gradient.outputs @ (mask * noisy) / np.where(seen > 0, seen, np.nan)
        found.append((estimate - gradient.pixels) ** 2)
    return np.array(found)


def test_attacks_by_hand() -> None:
    gradient = made_up()
    gradient = dataclasses.replace(gradient, weights=1.1 * gradient.weights)  # not quite the outer product
    errors = by_hand(gradient, 4, 0.3, 8, 6)
    assert np.isnan(errors).any() and not np.isnan(errors).all()
    measured = linear_attack_of._attacked(np.random.default_rng(8), 6, gradient, 4, 0.3)
    np.testing.assert_allclose(measured, np.where(np.isnan(errors), 0.0, errors).mean(1), rtol=1e-12)
    hidden = linear_attack_of._hidden(np.random.default_rng(8), 6, gradient, 4)
    np.testing.assert_allclose(hidden, np.isnan(errors).mean(1))


def test_an_output_without_a_derivative_hides_its_pixels() -> None:
    outputs = np.array([0.0, 0.5])
    mask = np.array([[True, True], [False, True]])
    found = attack(np.array([[7.0, 7.0], [7.0, 1.0]]), mask, outputs)
    assert np.isnan(found[0]) and found[1] == 2.0
    with np.errstate(under="ignore"):
        assert np.isnan(attack(np.ones((1, 1)), np.array([[True]]), np.array([1e-200]))).all()  # its square is 0


def test_what_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments and defaults of the two measurements, and the prediction that each is held against."""
    asked: list[dict] = []

    class Recorded:
        def __init__(self, **given: object) -> None:
            self.given = given

        def run(self, budget: float, seed: int) -> object:
            asked.append(self.given | {"budget": budget, "seed": seed})
            return linear_attack_of._rank_one(made_up(), 0)

    monkeypatch.setattr(linear_attack_of, "MeanCheck", Recorded)
    first, *_ = linear_attack()
    gradient = linear_gradient(load(name="excerpt", train=True), index=0, seed=0)
    assert first.passed and first.samples == 7840 and first.seed == 0 and first.kind is Kind.REAL_DATA
    predicted = sparsification.expected_error(np.r_[gradient.outputs, np.zeros(7830)], drop_rate=0.8, noise_std=0.05)
    error, hidden = asked
    for one in asked:
        assert (one["budget"], one["seed"], one["row_bytes"]) == (30.0, 0, 7840 * 8)
        assert one["sampler"].keywords["keep"] == 1568
        np.testing.assert_array_equal(one["sampler"].keywords["gradient"].weights, gradient.weights)
    seen = 1 - predicted.lost_probability
    assert error["sampler"].keywords["noise_std"] == 0.05 and error["sampler"].func is linear_attack_of._attacked
    assert error["claimed"]() == pytest.approx(seen * predicted.given_recoverable)
    printed = printed_error_bound([*gradient.outputs, *np.zeros(7830)], 0.8, 0.05)
    assert error["wrong"]() == pytest.approx(seen * printed)
    assert hidden["claimed"]() == predicted.lost_probability and hidden["resolution"] == 0.02
    linear_attack(drop_rate=0.7, noise_std=1e-300, index=1999, seed=4, budget=1.5)
    assert [(one["budget"], one["seed"]) for one in asked[2:]] == [(1.5, 4), (1.5, 4)]
    assert asked[2]["sampler"].keywords["noise_std"] == 1e-300 and asked[2]["sampler"].keywords["keep"] == 2352
    linear_attack(noise_std=0.5)
    for bad in (0.6999999, 1.0):
        with refused("drop_rate"):
            linear_attack(drop_rate=bad)


def test_rows_that_are_no_multiples_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    times = itertools.count(100.0, 42.0)
    monkeypatch.setattr(linear_attack_of, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    gradient = made_up()
    right = linear_attack_of._rank_one(gradient, 3)
    assert right.passed and right.observed <= 1e-15 and right.seed == 3 and right.samples == 12
    assert (right.claimed, right.standard_error, right.detectable) == (0.0, None, 1e-12)
    assert right.seconds == 42.0
    largest = np.abs(gradient.weights).max()
    outputs = np.array([1.0, 4.0, 2.0, 3.0])
    four = linear_attack_of._rank_one(linear_attack_of.LinearGradient(np.outer(outputs, [1.0]), outputs, np.ones(1)), 3)
    assert four.detail == "outputs in another order are off by 0.75"  # 4 and 1 of 4
    two = linear_attack_of.LinearGradient(np.outer(outputs[[0, 2, 1, 3]], [1.0]), outputs[[0, 2, 1, 3]], np.ones(1))
    assert linear_attack_of._rank_one(two, 3).detail == "outputs in another order are off by 0.5"
    weights = gradient.weights.copy()
    place = np.unravel_index(np.abs(weights).argmin(), weights.shape)
    weights[place] += 1.5e-12 * largest
    found = linear_attack_of._rank_one(dataclasses.replace(gradient, weights=weights), 0)
    assert not found.passed and found.observed == pytest.approx(1.5e-12, rel=1e-3)
    weights[place] -= 0.45e-12 * largest  # 1.05e-12
    assert not linear_attack_of._rank_one(dataclasses.replace(gradient, weights=weights), 0).passed
    alike = dataclasses.replace(gradient, outputs=np.ones(3), weights=np.outer(np.ones(3), gradient.pixels))
    assert not linear_attack_of._rank_one(alike, 0).passed  # another order must show
