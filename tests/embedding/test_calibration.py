"""Calibration of GEP's two releases: inverses, scaling, order of the methods, bad input."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptheory import embedding, privacy
from dptheory.errors import ConditionError
from tests.refused import refused

LOG_DELTAS = st.floats(-600, -0.01)
SHARES = st.floats(-9, 0).map(lambda u: 10.0**u)
STEPS = st.integers(1, 10**9)
ADJACENCIES = st.sampled_from(["add-remove", "replace-one"])


@given(log_delta=LOG_DELTAS, share=SHARES, steps=STEPS, adjacency=ADJACENCIES)
def test_exact_noise_just_meets_the_budget(log_delta: float, share: float, steps: int, adjacency: str) -> None:
    epsilon, delta = -2 * share * log_delta, math.exp(log_delta)
    ratio = embedding.release_noise_ratio(epsilon=epsilon, delta=delta, steps=steps, adjacency=adjacency)  # type: ignore[arg-type]
    mu = embedding.joint_mu([ratio, ratio], steps=steps, adjacency=adjacency)  # type: ignore[arg-type]
    assert privacy.gaussian_log_delta(mu, epsilon) == pytest.approx(log_delta, rel=1e-10, abs=1e-9)


@given(log_delta=LOG_DELTAS, share=SHARES)
def test_order_of_the_methods(log_delta: float, share: float) -> None:
    epsilon, delta = -2 * share * log_delta, math.exp(log_delta)
    exact, renyi, stated = (
        embedding.release_noise_ratio(epsilon=epsilon, delta=delta, method=method)  # type: ignore[arg-type]
        for method in ("exact", "renyi", "stated")
    )
    assert exact < renyi < stated
    assert stated / renyi == pytest.approx(math.sqrt(8) / (1 + math.sqrt(1 + 2 * share)), rel=1e-9)


@pytest.mark.parametrize("method", ["exact", "renyi", "stated"])
def test_scaling(method) -> None:  # type: ignore[no-untyped-def]
    one = embedding.release_noise_ratio(epsilon=2.0, delta=1e-5, method=method)
    assert embedding.release_noise_ratio(epsilon=2.0, delta=1e-5, steps=400, method=method) == pytest.approx(20 * one)
    assert embedding.release_noise_ratio(
        epsilon=2.0, delta=1e-5, steps=1, adjacency="replace-one", method=method
    ) == pytest.approx(2 * one)
    assert embedding.release_noise_ratio(epsilon=1.9, delta=1e-5, method=method) > one
    assert embedding.release_noise_ratio(epsilon=2.0, delta=1e-6, method=method) > one


def test_numbers_of_the_ledger() -> None:
    assert embedding.noise_ratio_excess(epsilon=0.1, delta=1e-5) == pytest.approx(2.2069, rel=1e-4)
    assert embedding.noise_ratio_excess(epsilon=2 * math.log(1e5), delta=1e-5) == pytest.approx(1.1297, rel=1e-4)
    assert embedding.noise_ratio_excess(epsilon=1e-9, delta=1e-5, reference="renyi") == pytest.approx(math.sqrt(2))
    assert embedding.noise_ratio_excess(epsilon=1e-12, delta=1e-5) > 1e5
    assert embedding.noise_ratio_excess(epsilon=1.0, delta=1e-5, method="exact") == 1.0


def test_stated_noise_is_mu_gdp() -> None:
    for epsilon, delta in ((0.5, 1e-5), (10.0, 1e-6)):
        ratio = embedding.release_noise_ratio(epsilon=epsilon, delta=delta, method="stated")
        assert embedding.joint_mu([ratio, ratio]) == pytest.approx(epsilon / (2 * math.sqrt(math.log(1 / delta))))


@given(
    clips=st.tuples(*[st.floats(0.01, 100)] * 2),
    sigmas=st.tuples(*[st.floats(0.01, 100)] * 2),
    steps=STEPS,
    adjacency=ADJACENCIES,
)
def test_the_sum_tells_less_than_the_pair(clips, sigmas, steps, adjacency) -> None:  # type: ignore[no-untyped-def]
    pair = embedding.joint_mu([s / c for s, c in zip(sigmas, clips, strict=True)], steps=steps, adjacency=adjacency)
    alone = embedding.joint_mu([sigmas[1] / clips[1]], steps=steps, adjacency=adjacency)
    output = embedding.output_mu(
        embedding_clip=clips[0],
        residual_clip=clips[1],
        embedding_std=sigmas[0],
        residual_std=sigmas[1],
        steps=steps,
        adjacency=adjacency,
    )
    assert alone * (1 - 1e-12) <= output <= pair * (1 + 1e-12)


def test_output_mu_is_a_mahalanobis_norm() -> None:
    covariance = np.diag([4.0 + 9.0, 9.0])  # one direction in the span of the basis, one orthogonal to it
    moved = np.array([3.0, 0.5])
    exact = math.sqrt(moved @ np.linalg.solve(covariance, moved))
    assert embedding.output_mu(
        embedding_clip=3.0, residual_clip=0.5, embedding_std=2.0, residual_std=3.0
    ) == pytest.approx(exact)
    assert embedding.output_mu(
        embedding_clip=3.0, residual_clip=0.0, embedding_std=0.0, residual_std=2.0
    ) == pytest.approx(1.5)


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


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: embedding.release_noise_ratio(epsilon=0.0, delta=1e-5), "epsilon"),
        (lambda: embedding.release_noise_ratio(epsilon=5e-324, delta=1e-5, method="stated"), "epsilon"),
        (lambda: embedding.noise_ratio_excess(epsilon=1e-320, delta=1e-5), "epsilon"),
        (lambda: embedding.release_noise_ratio(epsilon=math.inf, delta=1e-5), "epsilon"),
        (lambda: embedding.release_noise_ratio(epsilon=1.0, delta=1.0), "delta"),
        (lambda: embedding.release_noise_ratio(epsilon=1.0, delta=1e-5, steps=0), "steps"),
        (lambda: embedding.release_noise_ratio(epsilon=1.0, delta=1e-5, steps=1.5), "steps"),
        (
            lambda: embedding.release_noise_ratio(epsilon=1.0, delta=1e-5, steps=1, adjacency="both"),
            "adjacency",
        ),
        (lambda: embedding.release_noise_ratio(epsilon=1.0, delta=1e-5, method="rdp"), "method"),
        (
            lambda: embedding.noise_ratio_excess(epsilon=1.0, delta=1e-5, method="exact", reference="stated"),
            "reference",
        ),
        (lambda: embedding.sampled_epsilon(epsilon=-1.0, sampling_rate=0.5), "epsilon"),
        (lambda: embedding.sampled_epsilon(epsilon=1.0, sampling_rate=0.0), "sampling_rate"),
        (lambda: embedding.joint_mu([]), "noise_multipliers"),
        (lambda: embedding.joint_mu([1.0, 0.0]), "noise_multipliers"),
        (lambda: embedding.joint_mu([1.0, math.nan]), "noise_multipliers"),
        (lambda: embedding.joint_mu([[1.0]]), "noise_multipliers"),
        (
            lambda: embedding.output_mu(embedding_clip=1.0, residual_clip=1.0, embedding_std=1.0, residual_std=0.0),
            "residual_std",
        ),
        (
            lambda: embedding.output_mu(embedding_clip=-1.0, residual_clip=1.0, embedding_std=1.0, residual_std=1.0),
            "embedding_clip",
        ),
        (
            lambda: embedding.output_mu(
                embedding_clip=1.0, residual_clip=math.inf, embedding_std=1.0, residual_std=1.0
            ),
            "residual_clip",
        ),
    ],
)
def test_bad_input(call, says) -> None:  # type: ignore[no-untyped-def]
    with refused(says):
        call()
