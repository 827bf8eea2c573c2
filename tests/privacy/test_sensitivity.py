"""Sensitivity: under masks, other rules of clipping, and weighted losses."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dptheory import privacy, sparsification
from dptheory.claims.rs.divisors import printed_delta
from dptheory.privacy import combined_multiplier, gaussian_delta
from dptheory.privacy.clipping import (
    automatic_clip_sensitivity,
    counted_noise,
    layer_clip_sensitivity,
    weighted_mean_sensitivity,
)

# --- Sensitivity under masks, what the divisor gives away, several releases: brute force, limits, bad input ---


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
        kl = sparsification.divisor_kl(batch_size=b, other_batch_size=other, keep=7)
        assert sparsification.divisor_renyi(
            order=1 + 1e-9, batch_size=b, other_batch_size=other, keep=7
        ) == pytest.approx(kl, rel=1e-6)
        assert sparsification.divisor_kl(batch_size=b, other_batch_size=other, keep=70) == pytest.approx(
            10 * kl, rel=1e-12
        )
    for b in (10**3, 10**5):
        assert sparsification.divisor_kl(batch_size=b, other_batch_size=b + 1, keep=b * b) == pytest.approx(
            1.0, rel=2 / b
        )
        assert sparsification.divisor_kl(batch_size=b, other_batch_size=b - 1, keep=b * b) == pytest.approx(
            1.0, rel=2 / b
        )


def test_divergences_of_large_batches_do_not_cancel() -> None:
    for b in (10**6, 10**8, 10**9 - 1):
        assert sparsification.divisor_kl(batch_size=b, other_batch_size=b + 1, keep=1) * b**2 == pytest.approx(
            1.0, rel=2 / b
        )
        assert sparsification.divisor_renyi(
            order=3.0, batch_size=b, other_batch_size=b + 1, keep=1
        ) * b**2 == pytest.approx(3.0, rel=20 / b)
    # Across the ends of the series: x near 1e-2.
    for b in range(190, 215):
        exact = ((b + 1) / b) ** 2 - 1 - 2 * math.log1p(1 / b)
        assert sparsification.divisor_kl(batch_size=b, other_batch_size=b + 1, keep=2) == pytest.approx(
            exact, rel=1e-10
        )
        rho = ((b + 1) / b) ** 2
        exact = -(math.log(rho) + math.log1p(1 - rho))
        assert sparsification.divisor_renyi(order=2.0, batch_size=b, other_batch_size=b + 1, keep=2) == pytest.approx(
            exact, rel=1e-9
        )


def test_renyi_divergence_is_infinite_from_the_stated_order_on() -> None:
    for b in (1, 4, 256):
        order = (b + 1) ** 2 / (2 * b + 1)
        assert math.isinf(
            sparsification.divisor_renyi(order=order * (1 + 1e-9), batch_size=b, other_batch_size=b + 1, keep=1)
        )
        assert math.isfinite(
            sparsification.divisor_renyi(
                order=1 + (order - 1) * (1 - 1e-9), batch_size=b, other_batch_size=b + 1, keep=1
            )
        )
        assert math.isfinite(sparsification.divisor_renyi(order=1e6, batch_size=b + 1, other_batch_size=b, keep=1))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 5000), st.floats(0.0, 20.0))
def test_divisor_delta_is_a_probability_and_moves_the_right_way(b: int, other: int, kept: int, epsilon: float) -> None:
    found = sparsification.divisor_delta(epsilon=epsilon, batch_size=b, other_batch_size=other, keep=kept)
    assert 0.0 <= found <= 1.0
    assert (
        sparsification.divisor_delta(epsilon=epsilon + 0.5, batch_size=b, other_batch_size=other, keep=kept)
        <= found + 1e-12
    )
    assert (
        sparsification.divisor_delta(epsilon=epsilon, batch_size=b, other_batch_size=other, keep=kept + 100)
        >= found - 1e-9
    )


def test_no_budget_covers_the_divisor() -> None:
    deltas = [
        sparsification.divisor_delta(epsilon=8.0, batch_size=256, other_batch_size=257, keep=kept)
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
        sparsification.divisor_delta(epsilon=found, batch_size=size, other_batch_size=other, keep=kept)
        for size, other in ((b, b + 1), (b + 1, b))
    )
    assert worst > 0.01  # the true epsilon at delta = 0.01 is larger


def test_published_size_at_zero_epsilon_is_the_shift_of_a_binomial() -> None:
    for n, q in ((1, 0.3), (50, 0.1), (10_000, 0.02), (10**6, 0.001)):
        sizes = np.arange(max(0, int(n * q) - 2000), min(n, int(n * q) + 2000) + 1)
        peak = binom.pmf(sizes, n, q).max()
        assert sparsification.published_size_delta(
            epsilon=0.0, train_size=n, sampling_rate=q, shift=0.0
        ) == pytest.approx(q * peak, rel=1e-7)


def test_published_size_costs_a_second_release_of_multiplier_the_spread_of_the_size() -> None:
    for n, q, sigma in ((10_000, 0.02, 1.0), (1000, 0.5, 3.0), (50_000, 0.02, 8.0)):
        both = privacy.combined_multiplier(noise_multipliers=[sigma, math.sqrt(n * q * (1 - q))])
        found = sparsification.published_size_delta(epsilon=0.0, train_size=n, sampling_rate=q, shift=1 / sigma)
        assert found == pytest.approx(printed_delta(0.0, q, both), rel=1e-3)
        assert found > printed_delta(0.0, q, sigma)


def test_published_size_in_its_limits() -> None:
    assert sparsification.published_size_delta(epsilon=1.0, train_size=10, sampling_rate=0.0, shift=1.0) == 0.0
    assert sparsification.published_size_delta(epsilon=1.0, train_size=10, sampling_rate=1.0, shift=1.0) == 1.0
    # a large N hides the size: the sum alone is left
    assert sparsification.published_size_delta(
        epsilon=0.1, train_size=10**7, sampling_rate=0.01, shift=1.0
    ) == pytest.approx(printed_delta(0.1, 0.01, 1.0), rel=1e-3)
    # no other example: the size is the answer, with chance q
    assert sparsification.published_size_delta(
        epsilon=0.0, train_size=0, sampling_rate=0.25, shift=0.0
    ) == pytest.approx(0.25)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0, 3.0), st.integers(0, 500), st.floats(0.001, 0.99), st.floats(0.0, 5.0))
def test_published_size_moves_the_right_way(epsilon: float, n: int, q: float, shift: float) -> None:
    found = sparsification.published_size_delta(epsilon=epsilon, train_size=n, sampling_rate=q, shift=shift)
    assert 0.0 <= found <= 1.0
    assert (
        sparsification.published_size_delta(epsilon=epsilon + 0.2, train_size=n, sampling_rate=q, shift=shift)
        <= found + 1e-12
    )
    assert (
        sparsification.published_size_delta(epsilon=epsilon, train_size=n, sampling_rate=q, shift=shift / 2)
        <= found + 1e-12
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
        assert max(moves) <= sparsification.average_sensitivity(batch_size=b, clip_norm=1.0)
        rows = np.array([[1.0, 0.0]] * b + [[-1.0, 0.0]])
        worst = np.linalg.norm(rows.mean(0) - rows[:-1].mean(0))
        assert worst == pytest.approx(sparsification.average_sensitivity(batch_size=b, clip_norm=1.0))


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
        sparsification.published_size_delta(epsilon=found.epsilon_lower, train_size=n, sampling_rate=q, shift=2 / sigma)
        > delta
    )


def test_several_releases() -> None:
    assert privacy.combined_multiplier(noise_multipliers=[2.0, 2.0]) == pytest.approx(math.sqrt(2))
    assert privacy.combined_multiplier(noise_multipliers=[3.0, math.inf]) == 3.0
    assert privacy.combined_multiplier(noise_multipliers=[3.0, 0.0]) == 0.0
    assert privacy.combined_multiplier(noise_multipliers=[math.inf]) == math.inf
    assert privacy.combined_multiplier(noise_multipliers=[1e-300, 1e-300]) == pytest.approx(1e-300 / math.sqrt(2))


def test_equal_sizes_and_empty_batches_give_nothing_away() -> None:
    assert sparsification.divisor_delta(epsilon=0.0, batch_size=7, other_batch_size=7, keep=3) == 0.0
    assert sparsification.divisor_delta(epsilon=0.0, batch_size=7, other_batch_size=8, keep=0) == 0.0
    assert sparsification.divisor_delta(epsilon=0.0, batch_size=7, other_batch_size=8, keep=3) > 0.0
    assert (
        sparsification.divisor_delta(epsilon=50.0, batch_size=8, other_batch_size=7, keep=3)
        == 0.0
        < sparsification.divisor_delta(epsilon=50.0, batch_size=7, other_batch_size=8, keep=3)
    )  # beyond the largest loss


# Sensitivities of other rules of clipping, and the noise of a count beside a sum: by hand, limits, drawn records,
# bad input


def test_by_hand() -> None:
    assert layer_clip_sensitivity(layer_clips=[3.0, 4.0]) == 5.0
    assert layer_clip_sensitivity(layer_clips=[3.0, 4.0], adjacency="replace-one") == 10.0
    assert automatic_clip_sensitivity(clip_norm=2.0, gamma=1.0, largest_norm=3.0) == 1.5
    assert automatic_clip_sensitivity(clip_norm=2.0, gamma=1.0, adjacency="replace-one") == 4.0
    found = counted_noise(noise_multiplier=12.0, count_share=0.36)
    assert (found.gradient_multiplier, found.count_std) == (15.0, 10.0)


def test_limits() -> None:
    assert layer_clip_sensitivity(layer_clips=0.5) == 0.5
    assert layer_clip_sensitivity(layer_clips=[1e70] * 4) == pytest.approx(2e70, rel=1e-15)
    assert automatic_clip_sensitivity(clip_norm=1.0, gamma=1.0, largest_norm=0.0) == 0.0
    assert automatic_clip_sensitivity(clip_norm=1.0, gamma=1e-70, largest_norm=1e300) == 1.0
    silent = counted_noise(noise_multiplier=0.0, count_share=0.5)
    assert (silent.gradient_multiplier, silent.count_std) == (0.0, 0.0)


@settings(max_examples=200, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 0.5))
def test_both_noises_cost_what_was_asked_for(sigma: float, share: float) -> None:
    found = counted_noise(noise_multiplier=sigma, count_share=share)
    joint = combined_multiplier(noise_multipliers=[found.gradient_multiplier, 2 * found.count_std])
    assert joint == pytest.approx(sigma, rel=4e-15)  # a dozen roundings
    assert found.gradient_multiplier > sigma


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.floats(-2, 2), st.floats(1e-3, 10.0))
def test_no_drawn_records_are_further_apart(seed: int, exponent: float, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    one, other = 10.0**exponent * rng.normal(size=(2, 6))
    clips = rng.exponential(size=3)

    def by_layer(g: np.ndarray) -> np.ndarray:
        layers = g.reshape(3, 2)
        norms = np.linalg.norm(layers, axis=1)
        return np.asarray(layers * np.minimum(1.0, clips / norms)[:, None])

    bound = layer_clip_sensitivity(layer_clips=clips)
    assert np.linalg.norm(by_layer(one)) <= bound + 1e-12
    assert np.linalg.norm(by_layer(one) - by_layer(other)) <= 2 * bound + 1e-12
    longest = max(np.linalg.norm(one), np.linalg.norm(other))
    bound = automatic_clip_sensitivity(clip_norm=1.0, gamma=gamma, largest_norm=float(longest), adjacency="replace-one")
    normal = [g / (np.linalg.norm(g) + gamma) for g in (one, other)]
    assert np.linalg.norm(normal[0] - normal[1]) <= bound + 1e-12


# --- Sensitivity under a loss that is a weighted mean over the batch: by hand, its limits, drawn batches, bad input
def _found(size: int, ratio: float, adjacency: str = "add-remove") -> float:
    return weighted_mean_sensitivity(batch_size=size, clip_norm=1.0, weight_ratio=ratio, adjacency=adjacency)


def test_by_hand_loss_divisor() -> None:
    assert _found(2, 3.0) == 1.5 and _found(2, 3.0, "replace-one") == 2.5
    assert _found(3, 2.0) == 1.5  # (3 - 1)(2 - 1) / (3 - 1 + 2) = 1 / 2
    assert weighted_mean_sensitivity(batch_size=2, clip_norm=4.0, weight_ratio=3.0) == 6.0


def test_equal_weights_and_one_record_give_what_is_counted_on() -> None:
    for size, ratio in ((1, 1.0), (1, 50.0), (1, math.inf), (10**9, 1.0)):
        assert _found(size, ratio) == 1.0 and _found(size, ratio, "replace-one") == 2.0


def test_limits_loss_divisor() -> None:
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
