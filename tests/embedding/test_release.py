"""Noise, error and bias of gradient embedding perturbation against brute force, limits and scaling laws."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dptheory import embedding, papers
from tests.named import in_order
from tests.refused import refused

DIMS = st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)).map(lambda x: (max(x), min(x)))
CLIPS = st.floats(1e-3, 1e3)
MUS = st.floats(1e-2, 1e2)
SHARES = st.floats(0, 1).filter(lambda x: x == 0 or x > 1e-60)

quick = settings(max_examples=80, deadline=None, derandomize=True)


def _mu(noise: embedding.SplitNoise, first: float, second: float) -> float:
    parts = ((first, noise.embedding_std), (second, noise.residual_std))
    return math.hypot(*(shift / std for shift, std in parts if shift and std))


# --- the two splits ---------------------------------------------------------------------------------------------------


@given(DIMS, CLIPS, CLIPS, MUS, st.floats(-5, 5))
@quick
def test_split_has_its_privacy_and_no_other_split_has_less_energy(
    dims: tuple[int, int], first: float, second: float, mu: float, log_factor: float
) -> None:
    dim, k = dims
    found = embedding.split_noise(dim=dim, subspace_dim=k, embedding_clip=first, residual_clip=second, mu=mu)
    assume(0 < k < dim)
    q = dim - k
    assert _mu(found, first, second) == pytest.approx(mu, rel=1e-12)
    assert k * found.embedding_std**2 + q * found.residual_std**2 == pytest.approx(found.energy, rel=1e-12)
    other = (found.embedding_std, math.exp(log_factor) * found.residual_std)
    worst = (first / other[0]) ** 2 + (second / other[1]) ** 2
    assert (k * other[0] ** 2 + q * other[1] ** 2) * worst / mu**2 >= found.energy * (1 - 1e-12)
    assert (
        found.energy
        <= embedding.gep_mse(dim=dim, subspace_dim=k, clip_norm=first, residual_clip=second, mu=mu).published
    )


@given(DIMS, CLIPS, SHARES, MUS, SHARES, SHARES)
@quick
def test_joint_clip_protects_every_pair_and_never_loses(
    dims: tuple[int, int], clip: float, share: float, mu: float, radius: float, height: float
) -> None:
    dim, k = dims
    found = embedding.joint_clip(dim=dim, subspace_dim=k, clip_norm=clip, residual_share=share, mu=mu)
    plain = dim * (clip / mu) ** 2
    assert found.energy <= plain * (1 + 1e-12)
    assert found.energy <= embedding.split_noise(
        dim=dim, subspace_dim=k, embedding_clip=clip, residual_clip=share * clip, mu=mu
    ).energy * (1 + 1e-12)
    assert k * found.embedding_std**2 + (dim - k) * found.residual_std**2 == pytest.approx(found.energy, rel=1e-12)
    if k < dim and k > 0:
        b = height * min(share, radius) * clip
        a = math.sqrt(max(0.0, (radius * clip) ** 2 - b**2))
        assert _mu(found, a, b) <= mu * (1 + 1e-9)
        if share**2 < (1 - k / dim) * (1 - 1e-9):
            assert found.energy < plain
            assert _mu(found, math.sqrt(1 - share**2) * clip, share * clip) == pytest.approx(mu, rel=1e-9)
        elif share**2 > 1 - k / dim:
            assert found.energy == pytest.approx(plain, rel=1e-12)


def _mse(dims: tuple[int, int], clip: float, residual: float, mu: float) -> embedding.GepMse:
    dim, subspace = dims
    return embedding.gep_mse(dim=dim, subspace_dim=subspace, clip_norm=clip, residual_clip=residual, mu=mu)


@given(DIMS, CLIPS, CLIPS, MUS, st.floats(0.1, 10))
@quick
def test_energies_scale_with_the_square_of_the_clips_and_fall_with_mu(
    dims: tuple[int, int], clip: float, second: float, mu: float, factor: float
) -> None:
    base = _mse(dims, clip, second, mu)
    scaled = _mse(dims, factor * clip, factor * second, mu)
    looser = _mse(dims, clip, second, factor * mu)
    for field in dataclasses.fields(base):
        value = getattr(base, field.name)
        assert getattr(scaled, field.name) == pytest.approx(factor**2 * value, rel=1e-9)
        assert getattr(looser, field.name) == pytest.approx(value / factor**2, rel=1e-9)


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


@given(DIMS, st.floats(0.01, 1.5))
@quick
def test_ratios_say_who_wins(dims: tuple[int, int], share: float) -> None:
    found, ratios = (
        _mse(dims, 1.0, share, 1.0),
        embedding.largest_residual_ratio(dim=dims[0], subspace_dim=dims[1]),
    )
    for way in ("published", "published_sum", "optimal", "joint"):
        ratio = getattr(ratios, way)
        assume(abs(share - ratio) > 1e-3)
        assume(dims[0] > dims[1] > 0)
        saved = 1 - getattr(found, way) / found.plain
        if way == "joint" and share > ratio:
            assert abs(saved) < 1e-12
        elif abs(saved) > 1e-12:
            assert (saved > 0) == (share < ratio)


@given(DIMS, CLIPS, SHARES.map(lambda x: 2 * x), MUS)
@quick
def test_residual_threshold_is_the_gap_to_the_embedding_alone(
    dims: tuple[int, int], clip: float, share: float, mu: float
) -> None:
    assume(dims[1] > 0 and share > 0)
    found = _mse(dims, clip, share * clip, mu)
    least = embedding.least_residual_energy(
        dim=dims[0], subspace_dim=dims[1], clip_norm=clip, residual_clip=share * clip, mu=mu
    )
    for way in ("plain", "published", "published_sum", "optimal", "joint"):
        gap = getattr(found, way) - found.embedding_only
        assert getattr(least, way) == pytest.approx(gap, rel=1e-9, abs=1e-11 * getattr(found, way))


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


def test_clipped_error_is_noise_plus_bias() -> None:
    w, r = _rows(2)
    found = embedding.clipped_gep_mse(w, residuals=r, clip_norm=1e3, residual_clip=1e2, mu=2.0)
    assert found == embedding.gep_mse(
        dim=7,
        subspace_dim=3,
        clip_norm=1e3,
        residual_clip=1e2,
        mu=2.0,
        residual_norm=float(np.linalg.norm(r.sum(axis=0))),
    )
    found, noise = (
        embedding.clipped_gep_mse(w, residuals=r, clip_norm=1.0, residual_clip=0.3, mu=2.0, embedding_clip=0.5),
        embedding.gep_mse(
            dim=7, subspace_dim=3, clip_norm=1.0, residual_clip=0.3, mu=2.0, residual_norm=0, embedding_clip=0.5
        ),
    )
    assert found.published - noise.published == pytest.approx(found.optimal - noise.optimal)
    assert found.optimal - noise.optimal == pytest.approx(
        embedding.clipping_bias(w, residuals=r, embedding_clip=0.5, residual_clip=0.3).square
    )
    assert found.joint - noise.joint == pytest.approx(
        embedding.joint_clipping_bias(w, residuals=r, clip_norm=1.0, residual_share=0.3).square
    )


# --- groups and presets -----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6))
@quick
def test_square_root_shares(sizes: list[int]) -> None:
    shares = embedding.square_root_allocation(sizes, subspace_dim=1)
    assert shares.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(shares**2 / sizes, shares[0] ** 2 / sizes[0])
    ratio = embedding.grouping_cost_ratio(sizes, subspace_dims=shares)
    assert 1 / len(sizes) - 1e-12 <= ratio <= 1 + 1e-12
    if len(sizes) > 1:
        assert ratio < 1


def test_resnet20() -> None:
    assert sum(papers.RESNET20_GROUPS) == papers.RESNET20_DIM
    for k in (500, 1000, 1500, 2000):
        shares = embedding.square_root_allocation(papers.RESNET20_GROUPS, subspace_dim=k)
        assert embedding.grouping_cost_ratio(papers.RESNET20_GROUPS, subspace_dims=shares) == pytest.approx(
            0.4622, abs=1e-4
        )


def test_presets_are_those_of_section_4_and_of_the_example() -> None:
    found = papers.embedding_presets()
    assert len({one.name for one in found}) == len(found) == 9
    assert {(one.clip_norm, one.residual_clip) for one in found} == {(10.0, 2.0), (5.0, 2.0)}
    one = next(one for one in found if one.name == "gep.cifar10.k1000")
    assert one.noise().plain == 100 * papers.RESNET20_DIM
    assert one.noise(mu=2.0).published == pytest.approx(2 * (1000 * 100 + papers.RESNET20_DIM * 4) / 4)


# --- bad input --------------------------------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf
W, R = [[1.0, 2.0]], [[0.5]]
BAD: list[tuple[Any, tuple[Any, ...], str]] = [
    *(
        (function, arguments, name)
        for function in (
            embedding.split_noise,
            embedding.joint_clip,
            embedding.gep_mse,
            embedding.least_residual_energy,
        )
        for arguments, name in (
            ((0, 0, 1.0, 0.5, 1.0), "dim"),
            ((10**12 + 1, 0, 1.0, 0.5, 1.0), "dim"),
            ((2.5, 0, 1.0, 0.5, 1.0), "dim"),
            ((4, 5, 1.0, 0.5, 1.0), "subspace_dim"),
            ((4, -1, 1.0, 0.5, 1.0), "subspace_dim"),
            ((4, True, 1.0, 0.5, 1.0), "subspace_dim"),
            ((4, 2, 1.0, 0.5, 0.0), "mu"),
            ((4, 2, 1.0, 0.5, NAN), "mu"),
            ((4, 2, 1.0, 0.5, 1e71), "mu"),
        )
    ),
    *(
        (function, arguments, name)
        for function in (embedding.joint_clip, embedding.gep_mse, embedding.least_residual_energy)
        for arguments, name in (((4, 2, 0.0, 0.5, 1.0), "clip_norm"), ((4, 2, INF, 0.5, 1.0), "clip_norm"))
    ),
    (embedding.least_residual_energy, (4, 2, 1.0, 0.0, 1.0), "residual_clip"),
    (embedding.split_noise, (4, 2, -1.0, 0.5, 1.0), "embedding_clip"),
    (embedding.split_noise, (4, 2, [1.0], 0.5, 1.0), "embedding_clip"),
    (embedding.split_noise, (4, 2, 1.0, INF, 1.0), "residual_clip"),
    (embedding.joint_clip, (4, 2, 1.0, 1.01, 1.0), "residual_share"),
    (embedding.gep_mse, (4, 2, 1.0, -0.5, 1.0), "residual_clip"),
    (embedding.gep_mse, (4, 2, 1.0, 0.5, 1.0, 0.0, -1.0), "embedding_clip"),
    (embedding.largest_residual_ratio, (4, 5), "subspace_dim"),
    (embedding.clipped_gep_mse, (W, [[1.0], [2.0]], 1.0, 0.5, 1.0), "residuals"),
    (embedding.clipped_gep_mse, (W, R, 0.0, 0.5, 1.0), "clip_norm"),
    (embedding.clipped_gep_mse, (W, R, 1.0, -0.5, 1.0), "residual_clip"),
    (embedding.clipping_bias, ([1.0], R, 1.0, 0.5), "embeddings"),
    (embedding.clipping_bias, (W, [[NAN]], 1.0, 0.5), "residuals"),
    (embedding.clipping_bias, ([[1e71, 0.0]], R, 1.0, 0.5), "embeddings"),
    (embedding.clipping_bias, (W, R, -1.0, 0.5), "embedding_clip"),
    (embedding.joint_clipping_bias, (W, R, 0.0, 0.5), "clip_norm"),
    (embedding.joint_clipping_bias, (W, R, 1.0, 1.5), "residual_share"),
    (embedding.grouping_cost_ratio, ([], []), "group_sizes"),
    (embedding.grouping_cost_ratio, ([2.0, 0.0], [1.0, 1.0]), "group_sizes"),
    (embedding.grouping_cost_ratio, ([2.0, 3.0], [1.0]), "subspace_dims"),
    (embedding.grouping_cost_ratio, ([2.0, 3.0], [1.0, 4.0]), "subspace_dims"),
    (embedding.square_root_allocation, ([2.0, 3.0], 0), "subspace_dim"),
    (embedding.square_root_allocation, ([1.0, 100.0], 50), "subspace_dim"),
]


@pytest.mark.parametrize(("function", "arguments", "name"), BAD, ids=lambda x: getattr(x, "__name__", str(x)))
def test_bad_input_names_the_argument(function: Any, arguments: tuple[Any, ...], name: str) -> None:
    with refused(name):
        in_order(function, arguments)


def test_no_column_at_all_is_said_as_that() -> None:
    with refused("embeddings"):
        embedding.clipping_bias(np.zeros((2, 0)), residuals=np.zeros((2, 0)), embedding_clip=1.0, residual_clip=1.0)
