"""GEP: the anchor subspace, its residuals and its costs."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dptheory import embedding
from dptheory.claims.gep._subspace_bounds import printed_residual_bound
from dptheory.embedding import held_out_residual

# --- The anchor subspace, the residual bound and random bases: brute force, limits, monotonicity, bad input ---


QUICK = settings(max_examples=40, deadline=None, derandomize=True)
SIZES = st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10**6))


def _gradients(rows: int, dim: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, dim)) * 0.5 ** np.arange(dim)


@given(SIZES, st.integers(1, 3))
@QUICK
def test_basis_is_orthonormal_and_splits_energy(sizes: tuple[int, int, int], iterations: int) -> None:
    rows, dim, seed = sizes
    gradients = _gradients(rows, dim, seed)
    for k in range(1, min(rows, dim) + 1):
        basis = embedding.anchor_subspace(
            gradients, subspace_dim=k, iterations=iterations, rng=np.random.default_rng(seed)
        )
        assert basis.shape == (k, dim)
        assert np.abs(basis @ basis.T - np.eye(k)).max() < 1e-12
        found = embedding.project(gradients, basis=basis)
        assert np.abs(found.residuals @ basis.T).max() < 1e-12
        energy = np.square(gradients).sum(axis=1).mean()
        kept = np.square(found.embeddings).sum(axis=1).mean()
        assert kept + embedding.residual_energy(gradients, basis=basis) == pytest.approx(energy, rel=1e-12)


def test_many_iterations_give_the_singular_vectors() -> None:
    gradients = _gradients(20, 8, 3)
    leading = np.linalg.svd(gradients)[2][:3]
    basis = embedding.anchor_subspace(gradients, subspace_dim=3, iterations=200, rng=np.random.default_rng(0))
    assert np.allclose(basis.T @ basis, leading.T @ leading, atol=1e-10)


@pytest.mark.parametrize("factor", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_basis_does_not_depend_on_the_scale(factor: float) -> None:
    gradients = _gradients(5, 4, 1)
    one = embedding.anchor_subspace(gradients, subspace_dim=2, iterations=3, rng=np.random.default_rng(0))
    assert np.allclose(
        embedding.anchor_subspace(factor * gradients, subspace_dim=2, iterations=3, rng=np.random.default_rng(0)),
        one,
        atol=1e-12,
    )


def test_rank_below_the_subspace_leaves_an_orthonormal_basis() -> None:
    gradients = np.outer([1.0, 2.0, 3.0], [1.0, 1.0, 0.0, 0.0])
    basis = embedding.anchor_subspace(gradients, subspace_dim=3, iterations=2, rng=np.random.default_rng(0))
    assert np.abs(basis @ basis.T - np.eye(3)).max() < 1e-12
    assert embedding.residual_energy(gradients, basis=basis) < 1e-24


@given(st.integers(1, 30), st.integers(0, 60), st.floats(0, 0.99))
@QUICK
def test_recovery_probability_is_a_binomial_tail(rank: int, anchors: int, zero: float) -> None:
    expected = binom.sf(rank - 1, anchors, 1 - zero)
    assert embedding.recovery_probability(rank=rank, anchors=anchors, zero_probability=zero) == pytest.approx(
        expected, rel=1e-9, abs=1e-300
    )
    assert embedding.recovery_probability(rank=rank, anchors=anchors) == float(anchors >= rank)


@pytest.mark.parametrize("anchors", [2**31, 10**12, 10**15])
def test_recovery_probability_with_many_anchors(anchors: int) -> None:
    assert (
        embedding.recovery_probability(rank=3, anchors=anchors)
        == embedding.recovery_probability(rank=anchors, anchors=anchors)
        == 1.0
    )
    assert embedding.recovery_probability(rank=3, anchors=anchors, zero_probability=0.5) == pytest.approx(
        1.0, rel=1e-12
    )
    assert embedding.recovery_probability(rank=anchors // 2, anchors=anchors, zero_probability=0.5) == pytest.approx(
        0.5, abs=1e-4
    )


def test_largest_gradients_have_finite_energy() -> None:
    energy = embedding.residual_energy(np.full((3, 1000), 1e140), basis=np.eye(1000)[:1])
    assert energy == pytest.approx(999e280, rel=1e-12)


@given(
    st.lists(st.floats(0, 1).map(lambda x: 0.0 if x < 1e-6 else x), min_size=1, max_size=8).filter(any),
    st.integers(1, 10**6),
    st.floats(1, 10),
    st.floats(1e-6, 0.999),
)
@QUICK
def test_residual_bound(spectrum: list[float], anchors: int, excess: float, failure: float) -> None:
    trace = sum(spectrum)
    top = excess * trace
    values = [
        embedding.residual_bound(
            eigenvalues=spectrum, subspace_dim=k, anchors=anchors, squared_norm_bound=top, failure_probability=failure
        ).value
        for k in range(1, len(spectrum) + 1)
    ]
    assert all(b <= a for a, b in itertools.pairwise(values))
    assert values[0] <= trace * (1 + 1e-12) and values[-1] == pytest.approx(0.0, abs=1e-12 * trace)
    more = embedding.residual_bound(
        eigenvalues=spectrum, subspace_dim=1, anchors=2 * anchors, squared_norm_bound=top, failure_probability=failure
    ).value
    assert more <= values[0] * (1 + 1e-12)
    scaled = embedding.residual_bound(
        eigenvalues=[3 * x for x in spectrum],
        subspace_dim=1,
        anchors=anchors,
        squared_norm_bound=3 * top,
        failure_probability=failure,
    ).value
    assert scaled == pytest.approx(3 * values[0], rel=1e-9)
    fourth = top * trace
    for k, value in enumerate(values, 1):
        printed = printed_residual_bound(np.array(spectrum), k, anchors, top, -math.log(failure), fourth, 1.0, [1.0])
        assert value <= printed * (1 + 1e-12)


@pytest.mark.parametrize(
    ("dim", "k"), [(1, 0), (1, 1), (5, 2), (999, 998), (1000, 1), (1001, 500), (10**6, 10), (10**12, 3)]
)
def test_random_basis(dim: int, k: int) -> None:
    exact = mpmath.mpf(1)
    with mpmath.workdps(40):
        left = mpmath.mpf(dim - k)
        if dim == k:
            exact = mpmath.mpf(0)
        else:
            logs = [
                mpmath.loggamma(x) for x in ((left + 1) / 2, mpmath.mpf(dim) / 2, left / 2, (mpmath.mpf(dim) + 1) / 2)
            ]
            exact = mpmath.exp(logs[0] + logs[1] - logs[2] - logs[3])
    mean = embedding.mean_random_basis_error(dim=dim, subspace_dim=k)
    assert mean == pytest.approx(float(exact), rel=1e-12)
    assert mean <= embedding.random_basis_error(dim=dim, subspace_dim=k) * (1 + 1e-12)


def test_almost_the_whole_space_keeps_its_digits() -> None:
    assert embedding.random_basis_error(dim=10**12, subspace_dim=10**12 - 1) == pytest.approx(1e-6, rel=1e-14)


# --- Residuals of held-out anchors: order of the answers, scale, bad input ---


_ROWS = np.random.default_rng(0).standard_normal((60, 8))


def test_it_scales_with_the_gradients() -> None:
    plain, large = (
        held_out_residual(residuals=_ROWS * scale, residual_clip=2.8 * scale, failure_probability=0.1)
        for scale in (1.0, 1e60)
    )
    assert large.energy_bound == pytest.approx(plain.energy_bound * 1e120, rel=1e-9)
    assert large.clip_probability_bound == plain.clip_probability_bound


def test_nothing_left_and_everything_clipped() -> None:
    empty = held_out_residual(residuals=np.zeros((9, 2)), residual_clip=3.0, failure_probability=0.05)
    assert empty.energy == 0 and empty.energy_bound == pytest.approx(9 * (1 - 0.05 ** (1 / 9)), rel=1e-9)
    full = held_out_residual(residuals=np.full((9, 2), 7.0), residual_clip=3.0, failure_probability=0.05)
    assert full.energy == full.energy_bound == 9 and full.clip_probability == full.clip_probability_bound == 1


def test_small_bounds_keep_their_digits() -> None:
    """Nothing left of any of h: both bounds are 1 - delta^(1/h), here 2e-13."""
    failure = 1 - 1e-9
    found = held_out_residual(residuals=np.zeros((5000, 1)), residual_clip=1.0, failure_probability=failure)
    for bound in (found.energy_bound, found.clip_probability_bound):
        assert bound == pytest.approx(-np.expm1(np.log(failure) / 5000), rel=1e-9, abs=0)


@pytest.mark.parametrize("failure", [1e-150, 1e-199])
def test_a_chance_that_is_one_for_all_a_double_can_say(failure: float) -> None:
    found = held_out_residual(residuals=[[2.0]] + [[0.5]] * 4, residual_clip=1.0, failure_probability=failure)
    assert found.clip_probability_bound == 1.0
