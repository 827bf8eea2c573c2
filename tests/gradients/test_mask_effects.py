"""Masks before and after clipping, the noise under a mask, and skewness in projections."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import gradients
from dptheory.gradients import noise_norm_ratio, posterior_freeze, relaxed_gradient_ratio
from tests.named import in_order
from tests.refused import refused

ENTRIES = st.floats(-100, 100)


@pytest.mark.parametrize(
    ("dim", "keep"), [(2, 1), (10, 3), (550_000, 55_000), (10**9, 1), (10**9, 10**9 - 1), (10**9, 5 * 10**8)]
)
def test_noise_ratio_has_twelve_digits(dim: int, keep: int) -> None:
    with mpmath.workdps(50):
        log = [mpmath.loggamma(mpmath.mpf(n) / 2) for n in (keep + 1, dim, keep, dim + 1)]
        exact = mpmath.exp(log[0] + log[1] - log[2] - log[3])
    assert abs(noise_norm_ratio(dim, keep) / exact - 1) < 1e-12


@given(st.integers(1, 10**9), st.floats(0, 1))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_noise_ratio_is_just_below_the_root(dim: int, share: float) -> None:
    keep = min(max(round(dim * share), 1), dim)
    ratio, root = noise_norm_ratio(dim, keep), math.sqrt(keep / dim)
    assert root * math.sqrt(1 - 1 / (2 * keep)) * (1 - 1e-13) <= ratio <= root * (1 + 1e-13)
    assert noise_norm_ratio(dim, dim) == 1.0


@given(st.lists(ENTRIES, min_size=3, max_size=3), st.floats(0.01, 100))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_relaxed_ratio_is_that_of_the_clipped_vectors(gradient: list[float], clip: float) -> None:
    g = np.array(gradient)
    masked = g * [1, 1, 0]
    norm, kept = (float(np.linalg.norm(v)) for v in (g, masked))
    ratio = float(relaxed_gradient_ratio(grad_norm=norm, masked_norm=min(kept, norm), clip_norm=clip))
    assert ratio >= 1
    if kept > 1e-100:
        before = np.linalg.norm(masked * min(1, clip / kept))
        after = np.linalg.norm(masked * min(1, clip / norm))
        assert ratio == pytest.approx(before / after, rel=1e-12)
        assert ratio <= norm / kept * (1 + 1e-12)


@given(
    st.lists(st.lists(ENTRIES, min_size=4, max_size=4), min_size=1, max_size=3), st.integers(1, 4), st.floats(0.01, 100)
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_posterior_freeze_by_brute_force(batch: list[list[float]], keep: int, clip: float) -> None:
    gradients = np.array(batch)
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    mean = (gradients * np.minimum(1, np.divide(clip, norms, out=np.ones_like(norms), where=norms > 0))).mean(axis=0)
    masks = np.array([[j in kept for j in range(4)] for kept in itertools.combinations(range(4), keep)])
    found = posterior_freeze(batch, clip_norm=clip, keep=keep)
    np.testing.assert_allclose(found.mean, (masks * mean).mean(axis=0), rtol=1e-10, atol=1e-12 * clip)
    assert found.mean_square == pytest.approx(
        np.square(masks * mean).sum(axis=1).mean(), rel=1e-10, abs=1e-12 * clip**2
    )


def test_huge_gradients_are_clipped_without_overflow() -> None:
    found = posterior_freeze([[3e200, 4e200], [0.0, 0.0]], clip_norm=1.0, keep=2)
    np.testing.assert_allclose(found.mean, [0.3, 0.4], rtol=1e-15)
    assert found.mean_square == pytest.approx(0.25, rel=1e-14)


def test_keeping_everything_is_plain_clipping() -> None:
    assert posterior_freeze([[3.0, 4.0]], clip_norm=10.0, keep=2).mean.tolist() == [3.0, 4.0]
    assert relaxed_gradient_ratio(grad_norm=[1.0, 7.0], masked_norm=[1.0, 7.0], clip_norm=2.0).tolist() == [1.0, 1.0]
    assert float(relaxed_gradient_ratio(grad_norm=5.0, masked_norm=0.0, clip_norm=2.0)) == 2.5


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_projected_skewness_on_small_spheres(dim: int) -> None:
    # E (sum u_j^3)^2: 1 on two points; cos^6 + sin^6 averaged over the circle is 5/8; 3 E u^6 = 3/7 on the sphere
    assert gradients.projected_skewness(dim=dim, skewness=2.0) ** 2 == pytest.approx(
        4 * {1: 1, 2: 5 / 8, 3: 3 / 7}[dim], rel=1e-14
    )


def test_projected_skewness_falls_like_one_over_dim() -> None:
    assert gradients.projected_skewness(dim=10, skewness=-1.0) == gradients.projected_skewness(dim=10, skewness=1.0)
    assert gradients.projected_skewness(dim=10**9, skewness=1.0) * 10**9 == pytest.approx(math.sqrt(15), rel=1e-8)


BAD = [
    (noise_norm_ratio, (0, 1), "dim"),
    (noise_norm_ratio, (10, 0), "keep"),
    (noise_norm_ratio, (10, 11), "keep"),
    (relaxed_gradient_ratio, (-1.0, 0.0, 1.0), "grad_norm"),
    (relaxed_gradient_ratio, (1.0, 2.0, 1.0), "masked_norm"),
    (relaxed_gradient_ratio, (1.0, 1.0, 0.0), "clip_norm"),
    (posterior_freeze, ([[math.inf]], 1.0, 1), "gradients"),
    (posterior_freeze, ([1.0, 2.0], 1.0, 1), "gradients"),
    (posterior_freeze, (np.zeros((0, 3)), 1.0, 1), "gradients"),
    (posterior_freeze, ([[1.0, 2.0]], -1.0, 1), "clip_norm"),
    (posterior_freeze, ([[1.0, 2.0]], 1.0, 3), "keep"),
    (gradients.projected_skewness, (0, 1.0), "dim"),
]


@pytest.mark.parametrize(("function", "arguments", "name"), BAD, ids=lambda x: getattr(x, "__name__", str(x)))
def test_bad_input_names_the_argument(function, arguments, name) -> None:  # type: ignore[no-untyped-def]
    with refused(name):
        in_order(function, arguments)


def test_it_clips_as_clip_does() -> None:
    rows = np.random.default_rng(0).standard_normal((5, 7)) * 10.0 ** np.arange(-2, 3)[:, None]
    assert (
        posterior_freeze(rows, clip_norm=1.5, keep=7).mean == gradients.clip(rows, clip_norm=1.5).mean(axis=0)
    ).all()
