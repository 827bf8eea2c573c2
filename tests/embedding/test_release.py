"""GEP: noise, error and bias of its releases, their calibration, and the risk of training."""

import dataclasses
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import embedding, privacy
from dptheory.embedding import ReleaseComparison, compare_releases
from dptheory.errors import ConditionError
from dptheory.privacy import gaussian_mu
from tests.refused import refused

# --- Noise, error and bias of gradient embedding perturbation against brute force, limits and scaling laws ---


DIMS = st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)).map(lambda x: (max(x), min(x)))
CLIPS = st.floats(1e-3, 1e3)
MUS = st.floats(1e-2, 1e2)
SHARES = st.floats(0, 1).filter(lambda x: x == 0 or x > 1e-60)
quick = settings(max_examples=80, deadline=None, derandomize=True)


# --- the two splits ---------------------------------------------------------------------------------------------------


def _mse(dims: tuple[int, int], clip: float, residual: float, mu: float) -> embedding.GepMse:
    dim, subspace = dims
    return embedding.gep_mse(dim=dim, subspace_dim=subspace, clip_norm=clip, residual_clip=residual, mu=mu)


@pytest.mark.parametrize("share", [0.0, 1e-9, 0.3, 1.0])
@pytest.mark.parametrize("dim", [1, 7, 10**12])
def test_no_subspace_and_the_whole_space(dim: int, share: float) -> None:
    """k = 0: the residual is the gradient; k = p: the embedding is."""
    nothing, everything = (
        embedding.joint_clip(dim=dim, subspace_dim=0, clip_norm=2.0, residual_share=share, mu=0.5),
        embedding.joint_clip(dim=dim, subspace_dim=dim, clip_norm=2.0, residual_share=share, mu=0.5),
    )
    assert nothing.embedding_std == 0.0
    assert nothing.residual_std == pytest.approx(4.0 * share, rel=1e-15)
    assert nothing.energy == pytest.approx(dim * (4.0 * share) ** 2, rel=1e-14)
    assert (everything.embedding_std, everything.residual_std) == (pytest.approx(4.0), 0.0)
    assert everything.energy == pytest.approx(16.0 * dim, rel=1e-14)
    first, second = (
        embedding.split_noise(dim=dim, subspace_dim=0, embedding_clip=9.0, residual_clip=2.0, mu=0.5),
        embedding.split_noise(dim=dim, subspace_dim=dim, embedding_clip=2.0, residual_clip=9.0, mu=0.5),
    )
    assert dataclasses.astuple(first) == pytest.approx((0.0, 4.0, 16.0 * dim))
    assert dataclasses.astuple(second) == pytest.approx((4.0, 0.0, 16.0 * dim))


def test_a_part_that_is_not_released_needs_no_noise() -> None:
    found = embedding.split_noise(dim=100, subspace_dim=4, embedding_clip=3.0, residual_clip=0.0, mu=2.0)
    assert (found.embedding_std, found.residual_std, found.energy) == (pytest.approx(1.5), 0.0, pytest.approx(9.0))
    assert embedding.joint_clip(dim=100, subspace_dim=4, clip_norm=3.0, residual_share=0.0, mu=2.0) == found
    assert embedding.split_noise(
        dim=100, subspace_dim=4, embedding_clip=0.0, residual_clip=3.0, mu=2.0
    ).residual_std == pytest.approx(1.5)


def test_joint_clip_is_continuous_where_the_cases_meet() -> None:
    edge = math.sqrt(16 / 25)
    for share in (edge * (1 - 1e-9), edge * (1 + 1e-9)):
        found = embedding.joint_clip(dim=25, subspace_dim=9, clip_norm=1.0, residual_share=share, mu=1.0)
        assert found.embedding_std == pytest.approx(1.0, rel=1e-6) and found.residual_std == pytest.approx(1, rel=1e-6)
        assert found.energy == pytest.approx(25, rel=1e-12)


def test_extreme_sizes_stay_finite() -> None:
    for size in (1e-70, 1e70):
        for mu in (1e-70, 1e70):
            found = embedding.split_noise(
                dim=10**12, subspace_dim=10**6, embedding_clip=size, residual_clip=size, mu=mu
            )
            assert 0 < found.energy < math.inf and found.embedding_std > 0 and found.residual_std > 0
            assert all(
                0 <= x < math.inf
                for x in dataclasses.astuple(
                    embedding.gep_mse(dim=10**12, subspace_dim=10, clip_norm=size, residual_clip=1.0, mu=mu)
                )
            )


# --- errors and thresholds --------------------------------------------------------------------------------------------
@given(DIMS, SHARES)
@quick
def test_order_of_the_ways(dims: tuple[int, int], share: float) -> None:
    found = _mse(dims, 1.0, share, 1.0)
    assert found.embedding_only <= found.joint * (1 + 1e-12) or dims[1] == 0
    assert found.joint <= min(found.plain, found.optimal) * (1 + 1e-12)
    assert found.optimal <= found.published_sum * (1 + 1e-12)
    assert found.published_sum <= found.published * (1 + 1e-12)
    ratios = embedding.largest_residual_ratio(dim=dims[0], subspace_dim=dims[1])
    assert 0 <= ratios.published <= ratios.published_sum <= ratios.optimal <= ratios.joint <= 1


def test_every_way_that_drops_the_residual_loses_it() -> None:
    found = embedding.gep_mse(dim=10, subspace_dim=2, clip_norm=10.0, residual_clip=0.0, mu=10.0, residual_norm=5.0)
    of_two = embedding.clipped_gep_mse(
        [[1.0, 2.0], [1.0, -2.0]],
        residuals=np.full((2, 8), math.sqrt(25 / 32)),
        clip_norm=10.0,
        residual_clip=0.0,
        mu=10.0,
    )
    for one in (found, of_two):
        assert [one.embedding_only, one.optimal, one.joint, one.published, one.published_sum] == pytest.approx(
            [27.0, 27.0, 27.0, 29.0, 29.0], rel=1e-12
        )


def test_a_tiny_residual_clip_loses_no_digits() -> None:
    found = embedding.least_residual_energy(dim=10**6, subspace_dim=10**3, clip_norm=1.0, residual_clip=1e-20, mu=1.0)
    assert found.optimal == pytest.approx(2e-20 * math.sqrt(1e3 * 999_000), rel=1e-12)
    assert found.joint == pytest.approx(found.optimal, rel=1e-12)


# --- clipping bias ----------------------------------------------------------------------------------------------------
ROWS = st.integers(0, 2**32 - 1)


def _rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((6, 3)) * rng.exponential(2, (6, 1)), rng.standard_normal((6, 4)) * 0.7


@given(ROWS, CLIPS, CLIPS)
@quick
def test_bias_row_by_row(seed: int, first: float, second: float) -> None:
    w, r = _rows(seed)
    found = embedding.clipping_bias(w, residuals=r, embedding_clip=first, residual_clip=second)
    expected_w = sum((min(1, first / math.hypot(*row)) - 1) * row for row in w)
    expected_r = sum((min(1, second / math.hypot(*row)) - 1) * row for row in r)
    np.testing.assert_allclose(found.embedding, expected_w, atol=1e-12)
    np.testing.assert_allclose(found.residual, expected_r, atol=1e-12)
    assert found.square == pytest.approx(float(np.sum(expected_w**2) + np.sum(expected_r**2)), rel=1e-12)


@given(ROWS, CLIPS, SHARES)
@quick
def test_joint_bias_row_by_row(seed: int, clip: float, share: float) -> None:
    w, r = _rows(seed)
    found = embedding.joint_clipping_bias(w, residuals=r, clip_norm=clip, residual_share=share)
    shrink = [min(1, clip / math.hypot(*a, *b)) for a, b in zip(w, r, strict=True)]
    expected_w = sum((c - 1) * row for c, row in zip(shrink, w, strict=True))
    expected_r = sum((min(c, share * clip / math.hypot(*row)) - 1) * row for c, row in zip(shrink, r, strict=True))
    np.testing.assert_allclose(found.embedding, expected_w, atol=1e-12)
    np.testing.assert_allclose(found.residual, expected_r, atol=1e-12)


def test_bias_vanishes_without_clipping_and_is_the_residual_without_it() -> None:
    w, r = _rows(1)
    assert embedding.clipping_bias(w, residuals=r, embedding_clip=1e3, residual_clip=1e3).square == 0.0
    assert embedding.joint_clipping_bias(w, residuals=r, clip_norm=1e3, residual_share=1.0).square == 0.0
    np.testing.assert_allclose(
        embedding.clipping_bias(w, residuals=r, embedding_clip=1e3, residual_clip=0.0).residual, -r.sum(axis=0)
    )
    empty = np.zeros((6, 0))
    assert embedding.clipping_bias(empty, residuals=r, embedding_clip=1.0, residual_clip=1e3).embedding.shape == (0,)
    assert embedding.joint_clipping_bias(w, residuals=empty, clip_norm=1e3, residual_share=0.5).square == 0.0


def test_residuals_that_nearly_cancel() -> None:
    found = embedding.clipped_gep_mse(
        [[1.0], [1.0]], residuals=[[1e-80], [1e-90]], clip_norm=1.0, residual_clip=0.5, mu=1.0
    )  # their sum may be of any size
    assert found.embedding_only == 1.0 and found.plain == 2.0


# --- Calibration of GEP's two releases: inverses, scaling, order of the methods, bad input ---


LOG_DELTAS = st.floats(-600, -0.01)
SHARES_OF_CALIBRATION = st.floats(-9, 0).map(lambda u: 10.0**u)
STEPS = st.integers(1, 10**9)
ADJACENCIES = st.sampled_from(["add-remove", "replace-one"])


@given(log_delta=LOG_DELTAS, share=SHARES_OF_CALIBRATION, steps=STEPS, adjacency=ADJACENCIES)
def test_exact_noise_just_meets_the_budget(log_delta: float, share: float, steps: int, adjacency: str) -> None:
    epsilon, delta = -2 * share * log_delta, math.exp(log_delta)
    ratio = embedding.release_noise_ratio(epsilon=epsilon, delta=delta, steps=steps, adjacency=adjacency)  # type: ignore[arg-type]
    mu = embedding.joint_mu([ratio, ratio], steps=steps, adjacency=adjacency)  # type: ignore[arg-type]
    assert privacy.gaussian_log_delta(mu, epsilon) == pytest.approx(log_delta, rel=1e-10, abs=1e-9)


@given(log_delta=LOG_DELTAS, share=SHARES_OF_CALIBRATION)
def test_order_of_the_methods(log_delta: float, share: float) -> None:
    epsilon, delta = -2 * share * log_delta, math.exp(log_delta)
    exact, renyi, stated = (
        embedding.release_noise_ratio(epsilon=epsilon, delta=delta, method=method)  # type: ignore[arg-type]
        for method in ("exact", "renyi", "stated")
    )
    assert exact < renyi < stated
    assert stated / renyi == pytest.approx(math.sqrt(8) / (1 + math.sqrt(1 + 2 * share)), rel=1e-9)


def test_epsilon_at_the_end_of_the_range_is_allowed() -> None:
    for delta in (1e-5, 1e-6, 0.5, 1e-300):
        embedding.release_noise_ratio(epsilon=2 * math.log(1 / delta), delta=delta, method="stated")


def test_condition_names_its_claim() -> None:
    with refused("epsilon", kind=ConditionError) as caught:
        embedding.release_noise_ratio(epsilon=40.0, delta=1e-5, method="stated")
    assert caught.value.claim == "gep.thm3.1"
    assert embedding.release_noise_ratio(epsilon=24.0, delta=1e-5) < embedding.release_noise_ratio(
        epsilon=24.0, delta=1e-5, method="renyi"
    )


@given(epsilon=st.floats(0, 1000), rate=st.floats(1e-12, 1))
def test_sampling_never_hurts(epsilon: float, rate: float) -> None:
    found = embedding.sampled_epsilon(epsilon=epsilon, sampling_rate=rate)
    assert rate * epsilon * (1 - 1e-12) <= found <= epsilon  # log(1 + q (e^x - 1)) is convex in x, slope q at 0
    if epsilon < 30:
        assert found == pytest.approx(math.log1p(rate * math.expm1(epsilon)), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("epsilon", "rate"), [(1.0, 1e-17), (2.0, 1e-20), (30.0, 1e-40), (699.0, 0.5), (701.0, 0.5)])
def test_sampling_at_small_rates_keeps_its_digits(epsilon: float, rate: float) -> None:
    with mpmath.workdps(60):
        exact = mpmath.log1p(mpmath.mpf(rate) * mpmath.expm1(epsilon))
    assert embedding.sampled_epsilon(epsilon=epsilon, sampling_rate=rate) == pytest.approx(float(exact), rel=1e-12)


def test_sampling_everybody_changes_nothing() -> None:
    for epsilon in (0.0, 1e-300, 0.5, 1.0, 50.0, 1e300):
        assert embedding.sampled_epsilon(epsilon=epsilon, sampling_rate=1.0) == pytest.approx(epsilon)


# --- Excess risk: brute force over T, simulation, scaling laws, limits, bad input ---


QUICK = settings(max_examples=60, deadline=None, derandomize=True)
SIZE = st.floats(1e-3, 1e3)


@given(st.integers(1, 10**6), st.integers(1, 1000), SIZE, SIZE, SIZE, st.floats(0, 1))
@QUICK
def test_best_steps(dim: int, samples: int, smoothness: float, distance: float, mu: float, clip: float) -> None:
    k = max(1, dim // 10)
    run = {"dim": dim, "subspace_dim": k, "train_size": samples, "smoothness": smoothness}
    run |= {"initial_distance": distance, "mu": mu, "residual_clip": clip}  # type: ignore[dict-item]
    best = embedding.excess_risk(**run)  # type: ignore[arg-type]
    for steps in {max(1, best.steps - 1), best.steps + 1, 2 * best.steps}:
        other = embedding.excess_risk(**run, steps=steps)  # type: ignore[arg-type]
        assert best.value <= other.value * (1 + 1e-12)
        assert other.optimal_steps == best.optimal_steps
    scale = math.sqrt(k) + math.sqrt(dim - k) * clip
    real = distance * scale / (mu * samples)
    assert best.value >= real * (1 - 1e-12)
    if best.optimal_steps >= 1:
        assert best.value <= real * 3 / (2 * math.sqrt(2)) * (1 + 1e-12)
    else:
        assert best.steps == 1 and best.value >= smoothness * distance**2 / 2


@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_no_overflow_at_the_ends_of_the_ranges(size: float) -> None:
    for mu in (1e-60, 1e60):
        found = embedding.excess_risk(
            dim=10**15,
            subspace_dim=1,
            train_size=10**15,
            smoothness=size,
            initial_distance=1e60,
            mu=mu,
            residual_clip=0.0,
            lipschitz=size,
        )
        assert math.isfinite(found.value) and found.value >= 0


def test_most_steps() -> None:
    found = embedding.excess_risk(
        dim=10,
        subspace_dim=1,
        train_size=10**15,
        smoothness=1e60,
        initial_distance=1e60,
        mu=1e60,
        residual_clip=0.0,
        lipschitz=1e-60,
    )
    assert found.optimization == pytest.approx(found.noise, rel=1e-9) and found.steps > 10**254
    # beta D^2 / (2 (T + 2)) without underflow of the squared slope
    assert embedding.least_risk(smoothness=1e-60, initial_distance=1e60, steps=10**250) == pytest.approx(
        5e-191, rel=1e-12
    )


GOOD = {
    'dim': 100, 'subspace_dim': 5, 'train_size': 50, 'smoothness': 1.0, 'initial_distance': 1.0, 'mu': 1.0, 'residual_clip': 0.1,
}  # fmt: skip

PUBLISHED = {**{n: v for n, v in GOOD.items() if n != "mu"}, "epsilon": 1.0, "delta": 1e-5}


def test_condition_of_the_theorem() -> None:
    limit = 2 * math.log(1e5)
    embedding.excess_risk_as_published(**{**PUBLISHED, "epsilon": 0.999 * limit})
    with refused("epsilon", kind=ConditionError):
        embedding.excess_risk_as_published(**{**PUBLISHED, "epsilon": limit})


def test_worst_case_of_many_steps() -> None:
    """At 1e6 steps the factor at the mean iterate is its sum; at 1e15 it keeps its bound and its limit."""
    steps = 10**6
    k = np.arange(1.0, steps + 1)
    found = embedding.worst_descent_risk(smoothness=2.0, initial_distance=0.0, steps=steps, noise_energy=3.0)
    assert math.isclose(found.mean_iterate_least, float((k**2 / (k * (k - 1) + steps)).sum()) / (2 * steps) * 1.5)
    most = embedding.worst_descent_risk(smoothness=1.0, initial_distance=1.0, steps=10**15, noise_energy=1.0)
    assert 0.5 - math.pi / 4 / math.sqrt(1e15) < most.mean_iterate_least < most.mean_value


def test_equal_residuals_are_not_clipped_and_many_small_ones_are_dropped() -> None:
    run = {"dim": 10_000, "smoothness": 1.0, "initial_distance": 1.0, "mu": 1.0}
    same = embedding.best_residual_clip(
        residual_norms=[[0.2] * 7], subspace_dims=[100], train_size=5_000, lipschitz=0.9, **run
    )
    assert (same.residual_clip, same.bias) == (0.2, 0.0)
    classical = embedding.excess_risk(subspace_dim=100, residual_clip=0.2, train_size=5_000, lipschitz=0.9, **run)
    assert same.value == pytest.approx(classical.value, rel=1e-12) and same.steps == classical.steps
    dropped = embedding.best_residual_clip(residual_norms=[[0.2] * 7], subspace_dims=[100], train_size=20, **run)
    assert (dropped.residual_clip, dropped.bias) == (0.0, pytest.approx(0.2))


def test_extreme_settings_give_numbers() -> None:
    for mu in (1e-60, 1e60):
        for size in (1e-60, 1e60):
            best = embedding.best_residual_clip(
                residual_norms=[[0.0, size]], subspace_dims=[1], dim=10**15, train_size=1, smoothness=1.0,
                initial_distance=size, mu=mu, lipschitz=size,
            )  # fmt: skip
            assert math.isfinite(best.value) and 1 <= best.steps <= 10**15


# --- Ways of releasing side by side: each part against the calculator that the ledger checks ---


_SMALL, _LARGE = {"dim": 100, "subspace_dim": 10}, {"dim": 269_722, "subspace_dim": 1000}


@pytest.mark.parametrize("sizes", [_SMALL, _LARGE])
@pytest.mark.parametrize("privacy", [{"mu": 0.5}, {"epsilon": 2.0, "delta": 1e-5}])
@pytest.mark.parametrize("residual_clip", [2.0, 15.0])
@pytest.mark.parametrize("residual_norm", [0.0, 3.0])
def test_every_field(
    sizes: dict[str, int], privacy: dict[str, float], residual_clip: float, residual_norm: float
) -> None:
    mu = privacy.get("mu") or gaussian_mu(2.0, 1e-5)
    clips = {"clip_norm": 10.0, "residual_clip": residual_clip}
    assert compare_releases(**sizes, **clips, **privacy, residual_norm=residual_norm) == ReleaseComparison(
        mu=mu,
        mse=embedding.gep_mse(**sizes, **clips, mu=mu, residual_norm=residual_norm),
        best_split=embedding.split_noise(**sizes, embedding_clip=10.0, residual_clip=residual_clip, mu=mu),
        joint_clip=embedding.joint_clip(
            **sizes, clip_norm=10.0, residual_share=0.2 if residual_clip == 2.0 else 1.0, mu=mu
        ),
        largest_residual_ratio=embedding.largest_residual_ratio(**sizes),
        least_residual_energy=embedding.least_residual_energy(**sizes, **clips, mu=mu),
    )
