"""The posterior over the points: by hand for one coordinate, and what it is far from every score."""

import numpy as np
import pytest

from dptheory.training.planning._pooling import pooled


def test_far_from_all_scores_it_is_the_prior() -> None:
    places = np.array([[0.0], [1.0], [2.0]])
    scores = np.array([0.1, 0.5, 0.3])
    found = pooled(places, scores, np.array([[100.0]]))
    assert found.mean[0] == pytest.approx(scores.mean(), rel=1e-12)
    assert found.deviation[0] == pytest.approx(scores.std(), rel=1e-12)


def test_it_is_the_conditional_law_of_a_normal_vector() -> None:
    """Worked out by the block formula, with the covariance and its inverse written down."""
    rng = np.random.default_rng(0)
    places, scores, asked = rng.normal(size=(7, 2)), rng.normal(size=7), rng.normal(size=(3, 2))
    found = pooled(places, scores, asked)
    scale = scores.std()

    def alike(some: np.ndarray, others: np.ndarray) -> np.ndarray:
        return scale**2 * np.exp(-((some[:, None] - others[None]) ** 2).sum(2) / 2)

    inverse = np.linalg.inv(alike(places, places) + found.noise**2 * np.eye(7))
    across = alike(asked, places)
    mean = scores.mean() + across @ inverse @ (scores - scores.mean())
    variance = scale**2 - np.einsum("ij,jk,ik->i", across, inverse, across)
    # the jitter of 1e-8 of the variance, over a noise of at least .05**2 of it, is 4e-6
    np.testing.assert_allclose(found.mean, mean, rtol=0, atol=1e-4 * scale)
    np.testing.assert_allclose(found.deviation, np.sqrt(variance), rtol=0, atol=1e-4 * scale)


def test_the_noise_is_found() -> None:
    """Of many scores at few places: the likeliest of six, each twice the last, is within a factor of two."""
    rng = np.random.default_rng(1)
    places = np.repeat(np.linspace(-3, 3, 10), 40)[:, None]
    scores = np.sin(places[:, 0]) + rng.normal(0, 0.2, size=400)
    found = pooled(places, scores, places)
    assert 0.1 < found.noise < 0.4


def test_scores_that_are_all_the_same_are_known() -> None:
    found = pooled(np.zeros((3, 1)), np.full(3, 0.5), np.ones((2, 1)))
    assert found.mean.tolist() == [0.5, 0.5] and found.deviation.tolist() == [0.0, 0.0] and found.noise == 0.0
