"""Sensitivity under masks, what the divisor gives away, several releases: brute force, limits, bad input."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dptheory import privacy
from dptheory.claims.rs.alg1_divisor import printed_delta
from dptheory.privacy import gaussian_delta
from tests.refused import refused


def test_sensitivity_by_hand() -> None:
    rows = [[3.0, 4.0], [0.0, 0.5]]
    assert privacy.masked_sensitivity(gradients=rows, clip_norm=1.0) == pytest.approx(1.0)
    assert privacy.masked_sensitivity(gradients=rows, clip_norm=10.0) == pytest.approx(5.0)
    assert privacy.masked_sensitivity(gradients=rows, clip_norm=10.0, mask=[1, 0]) == pytest.approx(3.0)
    assert privacy.masked_sensitivity(gradients=rows, clip_norm=10.0, mask=[0, 0]) == 0.0
    assert privacy.masked_sensitivity(gradients=rows, clip_norm=10.0, adjacency="replace-one") == pytest.approx(
        math.hypot(3.0, 3.5)
    )
    assert (
        privacy.masked_sensitivity(
            gradients=[[1.0, 100.0], [-1.0, 100.0]], clip_norm=1.0, mask=None, adjacency="replace-one"
        )
        < 0.0201
    )
    assert (
        privacy.masked_sensitivity(
            gradients=[[1.0, 100.0], [-1.0, 100.0]], clip_norm=1.0, mask=[1, 0], adjacency="replace-one"
        )
        == 2.0
    )


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 5.0))
def test_sensitivity_bounds(seed: int, clip: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(4, 3)) * rng.exponential(2.0, (4, 1))
    full = privacy.masked_sensitivity(gradients=rows, clip_norm=clip)
    for mask in itertools.product((0, 1), repeat=3):
        masked = privacy.masked_sensitivity(gradients=rows, clip_norm=clip, mask=mask)
        assert masked <= full + 1e-12 <= clip + 2e-12
        assert (
            privacy.masked_sensitivity(gradients=rows, clip_norm=clip, mask=mask, adjacency="replace-one")
            <= 2 * masked + 1e-12
        )


def test_divisor_divergences_agree_in_their_limits() -> None:
    for b, other in ((4, 5), (5, 4), (100, 101), (3, 30)):
        kl = privacy.divisor_kl(batch_size=b, other_batch_size=other, keep=7)
        assert privacy.divisor_renyi(order=1 + 1e-9, batch_size=b, other_batch_size=other, keep=7) == pytest.approx(
            kl, rel=1e-6
        )
        assert privacy.divisor_kl(batch_size=b, other_batch_size=other, keep=70) == pytest.approx(10 * kl, rel=1e-12)
    for b in (10**3, 10**5):
        assert privacy.divisor_kl(batch_size=b, other_batch_size=b + 1, keep=b * b) == pytest.approx(1.0, rel=2 / b)
        assert privacy.divisor_kl(batch_size=b, other_batch_size=b - 1, keep=b * b) == pytest.approx(1.0, rel=2 / b)


def test_divergences_of_large_batches_do_not_cancel() -> None:
    for b in (10**6, 10**8, 10**9 - 1):
        assert privacy.divisor_kl(batch_size=b, other_batch_size=b + 1, keep=1) * b**2 == pytest.approx(1.0, rel=2 / b)
        assert privacy.divisor_renyi(order=3.0, batch_size=b, other_batch_size=b + 1, keep=1) * b**2 == pytest.approx(
            3.0, rel=20 / b
        )
    # Across the ends of the series: x near 1e-2.
    for b in range(190, 215):
        exact = ((b + 1) / b) ** 2 - 1 - 2 * math.log1p(1 / b)
        assert privacy.divisor_kl(batch_size=b, other_batch_size=b + 1, keep=2) == pytest.approx(exact, rel=1e-10)
        rho = ((b + 1) / b) ** 2
        exact = -(math.log(rho) + math.log1p(1 - rho))
        assert privacy.divisor_renyi(order=2.0, batch_size=b, other_batch_size=b + 1, keep=2) == pytest.approx(
            exact, rel=1e-9
        )


def test_renyi_divergence_is_infinite_from_the_stated_order_on() -> None:
    for b in (1, 4, 256):
        order = (b + 1) ** 2 / (2 * b + 1)
        assert math.isinf(privacy.divisor_renyi(order=order * (1 + 1e-9), batch_size=b, other_batch_size=b + 1, keep=1))
        assert math.isfinite(
            privacy.divisor_renyi(order=1 + (order - 1) * (1 - 1e-9), batch_size=b, other_batch_size=b + 1, keep=1)
        )
        assert math.isfinite(privacy.divisor_renyi(order=1e6, batch_size=b + 1, other_batch_size=b, keep=1))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 5000), st.floats(0.0, 20.0))
def test_divisor_delta_is_a_probability_and_moves_the_right_way(b: int, other: int, kept: int, epsilon: float) -> None:
    found = privacy.divisor_delta(epsilon=epsilon, batch_size=b, other_batch_size=other, keep=kept)
    assert 0.0 <= found <= 1.0
    assert (
        privacy.divisor_delta(epsilon=epsilon + 0.5, batch_size=b, other_batch_size=other, keep=kept) <= found + 1e-12
    )
    assert privacy.divisor_delta(epsilon=epsilon, batch_size=b, other_batch_size=other, keep=kept + 100) >= found - 1e-9


def test_no_budget_covers_the_divisor() -> None:
    deltas = [
        privacy.divisor_delta(epsilon=8.0, batch_size=256, other_batch_size=257, keep=kept)
        for kept in (10**4, 10**5, 10**6, 10**7)
    ]
    assert deltas == sorted(deltas)
    assert deltas[0] < 1e-4 and deltas[-1] > 0.999


def test_divisor_delta_agrees_with_an_audit() -> None:
    rng = np.random.default_rng(0)
    b, kept, n = 4, 50, 40_000
    first = rng.chisquare(kept, n) / (b + 1) ** 2
    second = rng.chisquare(kept, n) / b**2
    found = privacy.auditing.audit(scores_with=first, scores_without=second, delta=0.01).epsilon_lower
    worst = max(
        privacy.divisor_delta(epsilon=found, batch_size=size, other_batch_size=other, keep=kept)
        for size, other in ((b, b + 1), (b + 1, b))
    )
    assert worst > 0.01  # the true epsilon at delta = 0.01 is larger


def test_published_size_at_zero_epsilon_is_the_shift_of_a_binomial() -> None:
    for n, q in ((1, 0.3), (50, 0.1), (10_000, 0.02), (10**6, 0.001)):
        sizes = np.arange(max(0, int(n * q) - 2000), min(n, int(n * q) + 2000) + 1)
        peak = binom.pmf(sizes, n, q).max()
        assert privacy.published_size_delta(epsilon=0.0, train_size=n, sampling_rate=q, shift=0.0) == pytest.approx(
            q * peak, rel=1e-7
        )


def test_published_size_costs_a_second_release_of_multiplier_the_spread_of_the_size() -> None:
    for n, q, sigma in ((10_000, 0.02, 1.0), (1000, 0.5, 3.0), (50_000, 0.02, 8.0)):
        both = privacy.combined_multiplier(noise_multipliers=[sigma, math.sqrt(n * q * (1 - q))])
        found = privacy.published_size_delta(epsilon=0.0, train_size=n, sampling_rate=q, shift=1 / sigma)
        assert found == pytest.approx(printed_delta(0.0, q, both), rel=1e-3)
        assert found > printed_delta(0.0, q, sigma)


def test_published_size_in_its_limits() -> None:
    assert privacy.published_size_delta(epsilon=1.0, train_size=10, sampling_rate=0.0, shift=1.0) == 0.0
    assert privacy.published_size_delta(epsilon=1.0, train_size=10, sampling_rate=1.0, shift=1.0) == 1.0
    # a large N hides the size: the sum alone is left
    assert privacy.published_size_delta(epsilon=0.1, train_size=10**7, sampling_rate=0.01, shift=1.0) == pytest.approx(
        printed_delta(0.1, 0.01, 1.0), rel=1e-3
    )
    # no other example: the size is the answer, with chance q
    assert privacy.published_size_delta(epsilon=0.0, train_size=0, sampling_rate=0.25, shift=0.0) == pytest.approx(0.25)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0, 3.0), st.integers(0, 500), st.floats(0.001, 0.99), st.floats(0.0, 5.0))
def test_published_size_moves_the_right_way(epsilon: float, n: int, q: float, shift: float) -> None:
    found = privacy.published_size_delta(epsilon=epsilon, train_size=n, sampling_rate=q, shift=shift)
    assert 0.0 <= found <= 1.0
    assert (
        privacy.published_size_delta(epsilon=epsilon + 0.2, train_size=n, sampling_rate=q, shift=shift) <= found + 1e-12
    )
    assert (
        privacy.published_size_delta(epsilon=epsilon, train_size=n, sampling_rate=q, shift=shift / 2) <= found + 1e-12
    )


def test_sum_alone_against_the_gaussian_mechanism() -> None:
    for epsilon in (0.0, 0.3, 2.0):
        assert printed_delta(epsilon, 1.0, 1.3) == pytest.approx(gaussian_delta(1 / 1.3, epsilon), rel=1e-9)


def test_the_average_moves_by_twice_the_clip() -> None:
    rng = np.random.default_rng(3)
    for b in (1, 4, 30):
        moves = []
        for _ in range(200):
            rows = rng.normal(size=(b + 1, 2))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            moves.append(np.linalg.norm(rows.mean(0) - rows[:-1].mean(0)))
        assert max(moves) <= privacy.average_sensitivity(batch_size=b, clip_norm=1.0)
        rows = np.array([[1.0, 0.0]] * b + [[-1.0, 0.0]])
        worst = np.linalg.norm(rows.mean(0) - rows[:-1].mean(0))
        assert worst == pytest.approx(privacy.average_sensitivity(batch_size=b, clip_norm=1.0))


def test_the_printed_release_exceeds_its_account_in_one_entry() -> None:
    """Averages of gradients C with and without an example of gradient -C, drawn; no entry more is needed."""
    n, q, sigma, trials, delta = 400, 0.5, 4.0, 200_000, 1e-3
    rng = np.random.default_rng(0)
    drawn = rng.random(trials) < q
    common, noise = rng.binomial(n, q, trials), sigma * rng.normal(size=trials)
    joined = (common - drawn + noise) / (common + drawn)
    common, noise = rng.binomial(n, q, trials), sigma * rng.normal(size=trials)
    found = privacy.auditing.audit(scores_with=joined, scores_without=(common + noise) / common, delta=delta)
    assert printed_delta(found.epsilon_lower, q, sigma) < delta  # the account promises less
    assert (
        privacy.published_size_delta(epsilon=found.epsilon_lower, train_size=n, sampling_rate=q, shift=2 / sigma)
        > delta
    )


def test_several_releases() -> None:
    assert privacy.combined_multiplier(noise_multipliers=[2.0, 2.0]) == pytest.approx(math.sqrt(2))
    assert privacy.combined_multiplier(noise_multipliers=[3.0, math.inf]) == 3.0
    assert privacy.combined_multiplier(noise_multipliers=[3.0, 0.0]) == 0.0
    assert privacy.combined_multiplier(noise_multipliers=[math.inf]) == math.inf
    assert privacy.combined_multiplier(noise_multipliers=[1e-300, 1e-300]) == pytest.approx(1e-300 / math.sqrt(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: privacy.masked_sensitivity(gradients=[1.0, 2.0], clip_norm=1.0), "gradients"),
        (lambda: privacy.masked_sensitivity(gradients=np.zeros((0, 2)), clip_norm=1.0), "gradients"),
        (
            lambda: privacy.masked_sensitivity(gradients=[[np.nan]], clip_norm=1.0),
            "gradients 0",
        ),
        (lambda: privacy.masked_sensitivity(gradients=[[1.0]], clip_norm=0.0), "clip_norm"),
        (
            lambda: privacy.masked_sensitivity(gradients=[[1.0, 2.0]], clip_norm=1.0, mask=[1]),
            "mask",
        ),
        (
            lambda: privacy.masked_sensitivity(gradients=[[1.0]], clip_norm=1.0, mask=[0.5]),
            "mask",
        ),
        *(
            (
                partial(privacy.masked_sensitivity, gradients=[[1.0]], clip_norm=1.0, mask=[1], adjacency=word),
                "adjacency 'add-remove' 'replace-one'",
            )
            for word in ("swap", "add_remove", "replace")
        ),
        (
            lambda: privacy.masked_sensitivity(gradients=[[1.0, 2.0]], clip_norm=1.0, mask=["1", "0"]),
            "mask",
        ),
        (
            lambda: privacy.masked_sensitivity(gradients=[[1.0, 2.0]], clip_norm=1.0, mask=[1j, 0]),
            "mask",
        ),
        (
            lambda: privacy.masked_sensitivity(gradients=[[1.0, 2.0]], clip_norm=1.0, mask=[[1], [1, 0]]),
            "mask",
        ),
        (lambda: privacy.masked_sensitivity(gradients=[[1e300]], clip_norm=1.0), "gradients 0"),
        (lambda: privacy.masked_sensitivity(gradients=[[1.0]], clip_norm=1e-300), "clip_norm"),
        (lambda: privacy.average_sensitivity(batch_size=10**400, clip_norm=1.0), "batch_size"),
        (lambda: privacy.divisor_kl(batch_size=1, other_batch_size=10**200, keep=1), "other_batch_size"),
        (lambda: privacy.average_sensitivity(batch_size=0, clip_norm=1.0), "batch_size"),
        (lambda: privacy.average_sensitivity(batch_size=1, clip_norm=0.0), "clip_norm"),
        (lambda: privacy.divisor_kl(batch_size=0, other_batch_size=1, keep=1), "batch_size"),
        (lambda: privacy.divisor_kl(batch_size=1, other_batch_size=0, keep=1), "other_batch_size"),
        (lambda: privacy.divisor_kl(batch_size=1, other_batch_size=1, keep=-1), "keep"),
        (lambda: privacy.divisor_renyi(order=1.0, batch_size=1, other_batch_size=2, keep=1), "order"),
        (lambda: privacy.divisor_delta(epsilon=-0.1, batch_size=1, other_batch_size=2, keep=1), "epsilon"),
        (lambda: privacy.published_size_delta(epsilon=0.1, train_size=-1, sampling_rate=0.1, shift=1.0), "train_size"),
        (
            lambda: privacy.published_size_delta(epsilon=0.1, train_size=1, sampling_rate=1.1, shift=1.0),
            "sampling_rate",
        ),
        (lambda: privacy.published_size_delta(epsilon=0.1, train_size=1, sampling_rate=0.1, shift=-1.0), "shift"),
        (lambda: privacy.combined_multiplier(noise_multipliers=[]), "noise_multipliers"),
        (lambda: privacy.combined_multiplier(noise_multipliers=[1.0, -1.0]), "noise_multipliers"),
    ],
)
def test_bad_input(call, message: str) -> None:
    with refused(*message.split()):
        call()


def test_equal_sizes_and_empty_batches_give_nothing_away() -> None:
    assert privacy.divisor_delta(epsilon=0.0, batch_size=7, other_batch_size=7, keep=3) == 0.0
    assert privacy.divisor_delta(epsilon=0.0, batch_size=7, other_batch_size=8, keep=0) == 0.0
    assert privacy.divisor_delta(epsilon=0.0, batch_size=7, other_batch_size=8, keep=3) > 0.0
    assert (
        privacy.divisor_delta(epsilon=50.0, batch_size=8, other_batch_size=7, keep=3)
        == 0.0
        < privacy.divisor_delta(epsilon=50.0, batch_size=7, other_batch_size=8, keep=3)
    )  # beyond the largest loss
