"""The descent bounds and the exact recursions: limits, scaling laws, brute force, simulation, bad input."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import claims, convergence, freezing
from dptheory.claims.rs.thm3_2 import printed_noisy_sgd
from dptheory.convergence import _noisy_quadratic
from dptheory.convergence._terms import power_sums
from tests.refused import refused

POSITIVE = st.floats(1e-3, 1e3)
RATES = st.floats(0, 0.99)
STEPS = st.integers(1, 10**6)
QUICK = settings(max_examples=50, deadline=None, derandomize=True)
GOOD_NOISY: dict[str, Any] = {"objective_gap": 1.0, "learning_rate": 0.1, "steps": 10, "smoothness": 1.0}
MASKED: dict[str, Any] = {"objective_gap": 1.0, "smoothness": 1.0, "drop_rate": 0.4, "dim": 5}
PLAIN = GOOD_NOISY | {"clip_norm": 1.0}


@given(POSITIVE, POSITIVE, STEPS, POSITIVE, POSITIVE, st.just(0.0) | st.floats(1e-6, 20), RATES)
@QUICK
def test_terms_of_the_dpsgd_bound(
    gap: float, gamma: float, steps: int, smoothness: float, clip: float, sigma: float, rate: float
) -> None:
    run: dict[str, Any] = {"objective_gap": gap, "learning_rate": gamma, "steps": steps, "smoothness": smoothness}
    run |= {"clip_norm": clip, "noise_multiplier": sigma, "dim": 1000, "batch_size": 64, "drop_rate": rate, "bias": 0.5}
    bound = convergence.dpsgd_bound(**run, kappa=1 - rate)
    assert bound.optimization * (1 - rate) == pytest.approx(gap / (gamma * steps), rel=1e-12)
    assert bound.clipping * (1 - rate) == pytest.approx(gamma * smoothness * clip**2 * (1 + 1 / 64) / 2, rel=1e-12)
    # kappa = 1 - rate cancels the mask's gain: the noise is that of the full vector
    assert bound.noise == pytest.approx(gamma * smoothness * (clip * sigma / 64) ** 2 * 1000 / 2, rel=1e-12)
    assert bound.value == pytest.approx(bound.optimization + bound.clipping + bound.noise - 0.5 / (1 - rate), rel=1e-12)
    assert convergence.dpsgd_bound(**run) == bound


@given(POSITIVE, POSITIVE, STEPS, POSITIVE, POSITIVE, RATES, st.floats(0.1, 10))
@QUICK
def test_units(
    gap: float, gamma: float, steps: int, smoothness: float, clip: float, rate: float, factor: float
) -> None:
    """Another unit for the loss or for the weights scales the bound, a product of two gradients, and nothing else."""
    noise = {"noise_multiplier": 1.5, "dim": 100, "batch_size": 8, "drop_rate": rate}
    first = convergence.dpsgd_bound(
        objective_gap=gap, learning_rate=gamma, steps=steps, smoothness=smoothness, clip_norm=clip, **noise
    )  # type: ignore[arg-type]
    loss = convergence.dpsgd_bound(
        objective_gap=factor * gap,
        learning_rate=gamma / factor,
        steps=steps,
        smoothness=factor * smoothness,
        clip_norm=factor * clip,
        **noise,  # type: ignore[arg-type]
    )
    weights = convergence.dpsgd_bound(
        objective_gap=gap,
        learning_rate=gamma / factor**2,
        steps=steps,
        smoothness=factor**2 * smoothness,
        clip_norm=factor * clip,
        **noise,  # type: ignore[arg-type]
    )
    assert loss.value == pytest.approx(factor**2 * first.value, rel=1e-9)
    assert weights.value == pytest.approx(factor**2 * first.value, rel=1e-9)


@given(st.floats(0.01, 0.98), st.floats(1.0, 1.5))
@QUICK
def test_the_bound_falls_in_kappa(rate: float, growth: float) -> None:
    low, high = (
        convergence.dpsgd_bound(
            **PLAIN, noise_multiplier=1.0, dim=100, batch_size=10, drop_rate=rate, kappa=kappa
        ).value
        for kappa in (1 - rate, growth * (1 - rate))
    )
    assert high == pytest.approx(low / growth, rel=1e-12)


def test_no_noise_needs_no_dimension() -> None:
    for how in ({"batch_size": 7}, {"sampling": "fixed"}):
        with_dimension = {"noise_multiplier": 0.0, "dim": 10**9, "batch_size": 7}
        assert convergence.dpsgd_bound(**PLAIN | how) == convergence.dpsgd_bound(**PLAIN | with_dimension | how)


def test_the_sampling_decides_the_second_moment() -> None:
    """The default holds for every sampling; a known rate and fixed batches lower it."""
    values = [
        convergence.dpsgd_bound(
            objective_gap=0.5,
            learning_rate=1.95,
            steps=3000,
            smoothness=1.0,
            clip_norm=1.0,
            **named,
        ).value  # type: ignore[arg-type]
        for named in (
            {"second_moment": 2.0},
            {},
            {"sampling_rate": 0.001},
            {"sampling_rate": 0.5},
            {"sampling_rate": 1.0},
            {"sampling": "fixed"},
        )
    ]
    assert values[0] == values[1] and values == sorted(values, reverse=True) and values[4] == values[5]
    assert values[5] == pytest.approx(0.9750854700854701, rel=1e-12)
    # the mean of E<grad, update> over this run with Poisson batches of mean size 1, simulated: 1.0107
    assert values[2] == pytest.approx(0.5 / (1.95 * 3000) + 0.975 * 1.999, rel=1e-12) and values[2] > 1.0107


def test_fixed_batches_have_no_rate() -> None:
    private = {"objective_gap": 1.0, "smoothness": 1.0, "clip_norm": 1.0, "noise_per_root_step": 0.1}
    noise = {"clip_norm": 1.0, "noise_multiplier": 1.0, "batch_size": 8}
    step = {"learning_rate": 0.1, "steps": 4, "smoothness": 1.0} | noise
    calls: list[Callable[..., Any]] = [
        partial(convergence.batch_second_moment, mean_norm=1.0, second_moment=1.0, batch_size=4),
        partial(convergence.dpsgd_bound, **PLAIN),
        partial(convergence.noisy_sgd_bound, **GOOD_NOISY),
        partial(convergence.private_bound, steps=50, **private),
        partial(convergence.optimal_steps, **private),
        partial(convergence.layer_freezing_bound, decrease=1.0, dim=7, **step),  # type: ignore[arg-type]
        partial(freezing.freezing_bounds, [3, 4], frozen_layers=1, objective_gap=1.0, **step),  # type: ignore[arg-type]
    ]
    for call in calls:
        with refused("sampling_rate", "'fixed'", "0.5"):
            call(sampling="fixed", sampling_rate=0.5)
        for rate in (-0.1, 1.1, math.nan, "x"):
            with refused("sampling_rate"):
                call(sampling_rate=rate)
        with refused("sampling", "'poisson'", "'fixed'", "'shuffle'"):
            call(sampling="shuffle")
        assert call() == call(sampling="poisson", sampling_rate=0.0) != call(sampling="fixed")


@given(st.floats(1e-3, 10), st.floats(0, 10), st.integers(1, 10**9))
@QUICK
def test_second_moment_of_a_batch(mean_norm: float, spread: float, batch_size: int) -> None:
    square = mean_norm**2 + spread
    moment = convergence.batch_second_moment(
        mean_norm=mean_norm, second_moment=square, batch_size=batch_size, sampling="fixed"
    )
    assert mean_norm**2 * (1 - 1e-12) <= moment <= square * (1 + 1e-12)
    assert moment <= convergence.batch_second_moment(mean_norm=mean_norm, second_moment=square, batch_size=batch_size)
    assert convergence.batch_second_moment(
        mean_norm=mean_norm, second_moment=square, batch_size=1, sampling="fixed"
    ) == pytest.approx(square, rel=1e-12)
    for sampling in ("fixed", "poisson"):
        many = convergence.batch_second_moment(
            mean_norm=mean_norm, second_moment=square, batch_size=10**12, sampling=sampling
        )
        assert many == pytest.approx(mean_norm**2, rel=1e-9, abs=1e-9)
    whole = convergence.batch_second_moment(
        mean_norm=mean_norm, second_moment=square, batch_size=batch_size, sampling_rate=1.0
    )
    assert whole == mean_norm**2


def test_a_batch_without_replacement_stays_below() -> None:
    """All batches of 3 out of 5 vectors: the exact moment, and the bound for independent examples above it."""
    vectors = np.random.default_rng(0).standard_normal((5, 2))
    exact = np.mean([np.square(vectors[list(b)].mean(axis=0)).sum() for b in itertools.combinations(range(5), 3)])
    mean, square = np.linalg.norm(vectors.mean(axis=0)), np.square(vectors).sum(axis=1).mean()
    assert exact < convergence.batch_second_moment(
        mean_norm=float(mean), second_moment=float(square), batch_size=3, sampling="fixed"
    )
    independent = np.mean(
        [np.square(vectors[list(b)].mean(axis=0)).sum() for b in itertools.product(range(5), repeat=3)]
    )
    stated = convergence.batch_second_moment(
        mean_norm=float(mean), second_moment=float(square), batch_size=3, sampling="fixed"
    )
    assert independent == pytest.approx(stated, rel=1e-12)


@given(POSITIVE, STEPS, POSITIVE, st.floats(1e-3, 10), st.floats(1e-3, 10), RATES)
@QUICK
def test_printed_bound_is_above_the_sharp_one(
    gap: float, steps: int, smoothness: float, deviation: float, sum_noise_std: float, rate: float
) -> None:
    """By 2 - 1/sqrt T at least; that is the ratio for many steps."""
    gamma = 1 / (smoothness * math.sqrt(steps))
    bound = convergence.noisy_sgd_bound(
        objective_gap=gap,
        learning_rate=gamma,
        steps=steps,
        smoothness=smoothness,
        deviation_norm=deviation,
        sum_noise_std=sum_noise_std,
        dim=100,
        batch_size=16,
        drop_rate=rate,
        sampling="fixed",
    ).value
    printed = printed_noisy_sgd(gap, steps, smoothness, deviation, sum_noise_std, 100, 16, rate)
    assert bound * (2 - 1 / math.sqrt(steps)) <= printed * (1 + 1e-12)


def test_printed_bound_tends_to_twice_the_sharp_one() -> None:
    steps = 10**12
    run = GOOD_NOISY | {"learning_rate": 1e-6, "steps": steps, "deviation_norm": 2.0, "sum_noise_std": 3.0}
    bound = convergence.noisy_sgd_bound(**run, dim=100, batch_size=16, drop_rate=0.5, sampling="fixed").value
    assert printed_noisy_sgd(1.0, steps, 1.0, 2.0, 3.0, 100, 16, 0.5) / bound == pytest.approx(2.0, rel=1e-5)


@given(st.floats(1e-3, 1.0), st.integers(1, 400))
@QUICK
def test_power_sums_by_addition(gap: float, count: int) -> None:
    powers = [(1 - gap) ** t for t in range(count)]
    sums = list(itertools.accumulate(powers))
    first, second = power_sums(gap, count)
    assert first == pytest.approx(sums[-1], rel=1e-12)
    assert second == pytest.approx(sum(sums[:-1]), rel=1e-12)
    assert power_sums(0.0, count) == (count, count * (count - 1) / 2)


@given(st.floats(0.01, 1.3), st.integers(1, 40), st.integers(1, 50), st.floats(0, 1))
@QUICK
def test_poisson_batches_raise_the_bound_of_noisy_sgd(gamma: float, steps: int, batch: int, rate: float) -> None:
    def value(**how: Any) -> float:
        gentle = gamma / 2  # below 1 / G, so that every batch size is allowed
        run = GOOD_NOISY | {"learning_rate": gentle, "steps": steps, "sum_noise_std": 1.0} | how
        return convergence.noisy_sgd_bound(**run, dim=10, batch_size=batch, drop_rate=0.5).value

    assert value() >= value(sampling_rate=rate) * (1 - 1e-12) >= value(sampling="fixed") * (1 - 1e-11)


@given(
    st.integers(1, 300),
    st.floats(0.01, 1.9),
    RATES,
    st.just(0.0) | st.floats(1e-6, 3),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
@QUICK
def test_bound_lies_above_the_recursion(
    steps: int, gamma: float, rate: float, variance: float, slopes: list[float]
) -> None:
    curvature, start = np.array([1.0, *slopes]), np.ones(len(slopes) + 1)
    moments = convergence.fresh_mask_moments(
        curvature, start=start, steps=steps, learning_rate=gamma, drop_rate=rate, variance=variance
    )
    measure = float((moments[:-1] @ curvature**2).mean())
    gap = float(curvature.sum() / 2)
    bound = convergence.noisy_sgd_bound(
        objective_gap=gap,
        learning_rate=gamma,
        steps=steps,
        smoothness=1.0,
        deviation_norm=0.0,
        sum_noise_std=math.sqrt(variance),
        dim=curvature.size,
        batch_size=1,
        drop_rate=rate,
        sampling="fixed",
    )
    assert measure <= bound.value * (1 + 1e-12)


@pytest.mark.parametrize("steps", [1, 2, 7, 10**5])
def test_bound_is_attained(steps: int) -> None:
    moments = convergence.fresh_mask_moments(
        1.0, start=[1.0, 2.0], steps=steps, learning_rate=steps**-0.5, drop_rate=0.5, variance=0.3
    ).sum(axis=1)
    run = GOOD_NOISY | {"objective_gap": 2.5, "learning_rate": steps**-0.5, "steps": steps, "drop_rate": 0.5}
    bound = convergence.noisy_sgd_bound(
        **run, sum_noise_std=math.sqrt(0.3), dim=2, batch_size=1, sampling="fixed"
    ).value
    assert moments[:-1].mean() == pytest.approx(bound, rel=1e-9)


@given(st.floats(0.01, 10), POSITIVE, POSITIVE, st.floats(1e-4, 1e2), st.floats(0, 0.9))
@QUICK
def test_optimal_steps_by_brute_force(gap: float, smoothness: float, clip: float, noise: float, rate: float) -> None:
    best = convergence.optimal_steps(
        objective_gap=gap, smoothness=smoothness, clip_norm=clip, noise_per_root_step=noise
    )

    def value(steps: int) -> float:
        return convergence.private_bound(
            objective_gap=gap,
            steps=steps,
            smoothness=smoothness,
            clip_norm=clip,
            noise_per_root_step=noise,
            drop_rate=rate,
        ).value

    lower = math.floor(best)
    least = min(value(lower), value(lower + 1))
    others = {1, *range(max(1, lower - 50), lower + 50), 2 * lower, max(1, lower // 2)}
    assert all(value(steps) >= least * (1 - 1e-12) for steps in others)
    if best > 1:
        floor = 2 * math.sqrt((smoothness * gap + clip**2) * noise) / (1 - rate)  # Poisson batches of mean size 1
        assert floor * (1 - 1e-12) <= least


def test_the_least_delta_has_a_finite_term() -> None:
    run = {"epsilon": 1.0, "clip_norm": 1.0, "dim": 2, "train_size": 10, "constant": 1.0}
    assert convergence.privacy_term(delta=1e-320, **run) == pytest.approx(0.01 * 320 * math.log(10), rel=1e-4)  # type: ignore[arg-type]


def test_without_noise_more_steps_are_better() -> None:
    assert (
        convergence.privacy_term(epsilon=math.inf, delta=1e-5, clip_norm=1.0, dim=100, train_size=1000, constant=1.0)
        == 0
    )
    assert (
        convergence.optimal_steps(objective_gap=1.0, smoothness=1.0, clip_norm=1.0, noise_per_root_step=0.0) == math.inf
    )
    assert convergence.optimal_steps(objective_gap=1.0, smoothness=1.0, clip_norm=1.0, noise_per_root_step=1e9) == 1.0


@pytest.mark.parametrize("gamma", [0.3, 1.0, 1.7])
def test_a_mask_held_for_one_step_is_fresh(gamma: float) -> None:
    run = MASKED | {"learning_rate": gamma, "sum_noise_std": 2.0, "batch_size": 3}
    held = convergence.held_mask_bound(epochs=7, steps_per_epoch=1, **run)  # type: ignore[arg-type]
    assert held.value == pytest.approx(convergence.noisy_sgd_bound(steps=7, sampling="fixed", **run).value, rel=1e-12)  # type: ignore[arg-type]


def test_a_clipped_run_exceeds_the_bound_of_held_masks() -> None:
    """The numbers of rs.held_masks: |w|^2 / 2 in the plane, C = 1; one of two entries is kept for five steps of 1/2."""
    epochs, n, gamma, start = 20, 5, 0.5, 100.0
    moved = n * gamma  # an epoch moves the entry that it keeps by that: all gradients are longer than C
    assert start - epochs * moved > 1.0
    chances = [[math.comb(e, j) / 2**e for j in range(e + 1)] for e in range(epochs)]
    squares = [2 * sum(p * (start - j * moved) ** 2 for j, p in enumerate(row)) for row in chances]
    bound = convergence.held_mask_bound(
        objective_gap=start**2, learning_rate=gamma, epochs=epochs, steps_per_epoch=n, smoothness=1.0, drop_rate=0.5
    )
    assert (round(sum(squares) / epochs), round(bound.value)) == (15_666, 2_002)
    assert all(number in claims.get("rs.held_masks").conditions[1] for number in ("15,666", "2,002"))


@pytest.mark.parametrize("n", [1, 4])
def test_the_plain_mean_is_the_weighted_one_for_one_mask(n: int) -> None:
    run = MASKED | {"learning_rate": 0.3, "sum_noise_std": 2.0, "batch_size": 1}
    plain = convergence.plain_mean_bound(epochs=7, steps_per_epoch=n, **run)  # type: ignore[arg-type]
    weighted = convergence.held_mask_bound(epochs=7, steps_per_epoch=n, **run)  # type: ignore[arg-type]
    assert (plain.optimization, plain.noise) == pytest.approx((weighted.optimization, weighted.noise), rel=1e-12)


def test_momentum_none_and_fresh_masks_is_sgd_without_an_end() -> None:
    run = MASKED | {"learning_rate": 0.3, "sum_noise_std": 0.2, "batch_size": 1}
    stated = convergence.momentum_mask_bound(momentum=0.0, epochs=10**7, steps_per_epoch=1, **run)  # type: ignore[arg-type]
    assert stated == pytest.approx(convergence.noisy_sgd_bound(steps=10**7, sampling="fixed", **run).value, rel=1e-5)  # type: ignore[arg-type]
    # deviations pass a fresh mask as noise does, and a held one in full
    run |= {"sum_noise_std": 0.0, "deviation_norm": 0.2 * math.sqrt(5)}
    assert convergence.momentum_mask_bound(momentum=0.0, epochs=10**7, steps_per_epoch=1, **run) == pytest.approx(
        stated
    )  # type: ignore[arg-type]


def test_a_short_run_with_momentum_is_not_above_what_holds_at_every_step() -> None:
    run = {"objective_gap": 2.0, "learning_rate": 1e-6, "smoothness": 3.0, "epochs": 2, "steps_per_epoch": 1}
    assert convergence.momentum_mask_bound(momentum=0.0, **run) == pytest.approx(12.0, rel=1e-12)  # type: ignore[arg-type]
    assert convergence.momentum_mask_bound(momentum=0.9, **run) == pytest.approx(12.0, rel=0.05)  # type: ignore[arg-type]


@pytest.mark.parametrize("largest", [True, False])
def test_momentum_bound_at_the_ends_of_its_ranges(largest: bool) -> None:
    smoothness = 1e35 if largest else 1e-35
    found = [
        convergence.momentum_mask_bound(
            objective_gap=1e140 if largest else 0.0,
            learning_rate=1e-70 if gamma is None else gamma,
            momentum=mu,
            epochs=10**7,
            steps_per_epoch=10**12,
            smoothness=smoothness,
            deviation_norm=1e35 if largest else 1e-35,
            sum_noise_std=1e35 if largest else 0.0,
            dim=10**18,
            batch_size=1,
            drop_rate=0.5,
        )
        for mu in (0.0, 0.9, 1 - 1e-6)
        for gamma in (None, 2 * (1 - 1e-8) * (1 - mu) ** 2 / ((1 + mu) * smoothness))
    ]
    assert all(0 < value < math.inf for value in found)


def test_the_whole_data_set_has_one_size() -> None:
    factors = [convergence.drawn_size_factor(train_size=10**9, sampling_rate=q) for q in (1e-9, 1e-4, 1.0)]
    assert factors[2] == 1 and factors[1] == pytest.approx(1 + 3e-5, rel=1e-8)
    assert factors[0] == pytest.approx(
        sum(1 / (k * k * math.factorial(k)) for k in range(1, 40)) / (math.e - 1), rel=1e-8
    )


@given(st.floats(1e-3, 1.9), RATES, st.integers(1, 10**12), st.just(0.0) | st.floats(1e-4, 30))
@QUICK
def test_the_least_gradient_is_at_most_the_mean(gamma: float, rate: float, steps: int, noise: float) -> None:
    run: dict[str, Any] = {
        "objective_gap": 1.0,
        "learning_rate": gamma,
        "smoothness": 1.0,
        "drop_rate": rate,
        "steps": steps,
    }
    run |= {"sum_noise_std": noise, "dim": 1, "batch_size": 1, "sampling": "fixed"}
    assert convergence.least_gradient_bound(**run) <= convergence.noisy_sgd_bound(**run).value * (1 + 1e-9)


def _enumerated(
    curvature: list[Fraction], gamma: Fraction, epochs: int, per_epoch: int, keep: int
) -> list[list[Fraction]]:
    """E w_{t,j}^2 from w = (1, 2, ..) over every sequence of masks, no noise."""
    dim = len(curvature)
    masks = [tuple(j in kept for j in range(dim)) for kept in itertools.combinations(range(dim), keep)]
    sequences = list(itertools.product(masks, repeat=epochs))
    totals = [[Fraction(0)] * dim for _ in range(epochs * per_epoch + 1)]
    for sequence in sequences:
        w = [Fraction(j + 1) for j in range(dim)]
        for t in range(epochs * per_epoch + 1):
            totals[t] = [total + x**2 for total, x in zip(totals[t], w, strict=True)]
            if t < epochs * per_epoch:
                mask = sequence[t // per_epoch]
                w = [x * (1 - gamma * c) if m else x for x, c, m in zip(w, curvature, mask, strict=True)]
    return [[x / len(sequences) for x in row] for row in totals]


@pytest.mark.parametrize(("epochs", "per_epoch", "keep"), [(3, 1, 1), (2, 3, 1), (2, 2, 2), (3, 2, 2)])
def test_recursions_by_enumeration(epochs: int, per_epoch: int, keep: int) -> None:
    curvature = [Fraction(1), Fraction(1, 2), Fraction(3)]
    exact = np.array(_enumerated(curvature, Fraction(1, 4), epochs, per_epoch, keep), dtype=np.float64)
    found = convergence.epoch_mask_moments(
        np.array(curvature, dtype=np.float64),
        start=[1.0, 2.0, 3.0],
        epochs=epochs,
        steps_per_epoch=per_epoch,
        learning_rate=0.25,
        drop_rate=1 - keep / 3,
    )
    np.testing.assert_allclose(found, exact, rtol=1e-13)


def test_recursion_by_simulation() -> None:
    rng = np.random.default_rng(1)
    gamma, epochs, per_epoch, variance, runs = 0.3, 4, 5, 0.7, 40_000
    w = np.tile([1.0, -2.0], (runs, 1))
    for _ in range(epochs):
        mask = np.eye(2)[rng.integers(0, 2, runs)]
        for _ in range(per_epoch):
            w = w - gamma * mask * (w * [1.0, 2.0] + math.sqrt(variance) * rng.standard_normal((runs, 2)))
    expected = convergence.epoch_mask_moments(
        [1.0, 2.0],
        start=[1.0, -2.0],
        epochs=epochs,
        steps_per_epoch=per_epoch,
        learning_rate=gamma,
        drop_rate=0.5,
        variance=variance,
    )[-1]
    error = np.square(w).std(axis=0) / math.sqrt(runs)
    assert (np.abs(np.square(w).mean(axis=0) - expected) < 5 * error).all()


def test_limits_of_the_recursion() -> None:
    start = np.array([1.0, 3.0])
    frozen = convergence.fresh_mask_moments(2.0, start=start, steps=7, learning_rate=0.3, drop_rate=1.0, variance=5.0)
    np.testing.assert_array_equal(frozen, np.tile(start**2, (8, 1)))
    plain = convergence.fresh_mask_moments(2.0, start=start, steps=7, learning_rate=0.3, drop_rate=0.0)
    np.testing.assert_allclose(plain, start**2 * (1 - 0.6) ** (2 * np.arange(8))[:, None], rtol=1e-12)
    late = convergence.fresh_mask_moments(2.0, start=start, steps=2000, learning_rate=0.3, drop_rate=0.5, variance=5.0)[
        -1
    ]
    np.testing.assert_allclose(
        late, 0.3**2 * 5.0 / (1 - 0.4**2), rtol=1e-12
    )  # the mask does not change the stationary law
    assert convergence.fresh_mask_moments(1.0, start=start, steps=0, learning_rate=0.3, drop_rate=0.5).shape == (1, 2)


def test_a_held_mask_freezes_its_share() -> None:
    moments = convergence.epoch_mask_moments(
        1.0, start=np.ones(4), epochs=1, steps_per_epoch=500, learning_rate=0.1, drop_rate=0.25
    )
    assert moments[-1].sum() == pytest.approx(1.0, rel=1e-12)


EPOCHS = {"objective_gap": 1.0, "learning_rate": 0.01, "epochs": 5, "steps_per_epoch": 2, "smoothness": 1.0}
NOISY: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (convergence.dpsgd_bound, PLAIN | {"noise_multiplier": 1.0}),
    (
        convergence.tuned_learning_rate,
        {k: v for k, v in PLAIN.items() if k != "learning_rate"} | {"noise_multiplier": 1.0},
    ),
    (convergence.noisy_sgd_bound, GOOD_NOISY | {"sum_noise_std": 1.0}),
    (convergence.least_gradient_bound, GOOD_NOISY | {"sum_noise_std": 1.0}),
    (convergence.held_mask_bound, EPOCHS | {"sum_noise_std": 1.0}),
    (convergence.plain_mean_bound, EPOCHS | {"sum_noise_std": 1.0}),
    (convergence.momentum_mask_bound, EPOCHS | {"momentum": 0.5, "sum_noise_std": 1.0}),
]


@pytest.mark.parametrize(("function", "run"), NOISY, ids=lambda x: getattr(x, "__name__", None))
def test_noise_needs_its_dimension_and_batch_size(function: Callable[..., Any], run: dict[str, Any]) -> None:
    noise = next(name for name in run if "noise" in name)
    for forgotten, given_ in (("dim", "batch_size"), ("batch_size", "dim")):
        with refused(forgotten, noise, "0"):
            function(**run, **{given_: 10})
    still = run | {noise: 0.0}
    assert function(**still) == function(**still, dim=10**9, batch_size=1)
    function(**run, dim=10, batch_size=10)


@pytest.mark.parametrize(("function", "run"), [NOISY[0], *NOISY[2:]], ids=lambda x: getattr(x, "__name__", None))
def test_the_bound_of_a_batch_of_one_holds_for_every_batch(function: Callable[..., Any], run: dict[str, Any]) -> None:
    """What None takes for the batch size: larger batches lower the bound at the same noise on their sum."""
    found = [function(**run, dim=10, batch_size=size) for size in (1, 2, 10, 10**6)]
    values = [one if isinstance(one, float) else one.value for one in found]
    assert values == sorted(values, reverse=True)


def test_no_learning_rate_beats_the_tuned_one() -> None:
    """Runs from one step to 1e12, gaps that are used up at once to gaps that cannot be: a search over eight orders."""
    beaten = []
    counts, gaps = (1, 2, 50, 10**9, 10**12), (1e-14, 1e-3, 0.5, 1e4)
    for steps, gap, sigma, rate in itertools.product(counts, gaps, (0.0, 30.0), (0.0, 0.7)):
        run: dict[str, Any] = dict(
            objective_gap=gap,
            steps=steps,
            smoothness=2.0,
            clip_norm=1.0,
            noise_multiplier=sigma,
            dim=100,
            batch_size=1,
            drop_rate=rate,
        )
        tuned = convergence.tuned_learning_rate(**run)
        best = convergence.dpsgd_bound(**run, learning_rate=tuned).value
        others = tuned * np.concatenate([np.geomspace(1e-4, 1e4, 41), 1 + np.linspace(-0.02, 0.02, 9)])
        least = min(convergence.dpsgd_bound(**run, learning_rate=float(other)).value for other in others)
        if least < best * (1 - 1e-12):
            beaten.append((run, tuned, least / best))
    assert not beaten


def test_the_tuned_learning_rate_at_the_ends_of_its_range() -> None:
    small: dict[str, Any] = dict(
        objective_gap=1e-70, smoothness=1e-35, clip_norm=1e35, noise_multiplier=1e35, dim=10**18, batch_size=1
    )
    large: dict[str, Any] = dict(objective_gap=1e140, smoothness=1e35, clip_norm=1e-35)
    for run in (small, large):
        for steps in (1, 10**12):
            found = convergence.tuned_learning_rate(**run, steps=steps, drop_rate=1 - 1e-15)
            assert 0 < found < math.inf


def test_steps_at_the_end_of_their_range_as_a_row_and_as_a_number() -> None:
    run: dict[str, Any] = {"objective_gap": 1.0, "steps": 3, "smoothness": 0.1, "batch_size": 3, "deviation_norm": 2.0}
    rate = 14.999999999999998  # where the descent of a step rounds to 0
    row = convergence.noisy_sgd_bound(**run, learning_rate=[rate] * 3)
    assert row.value == pytest.approx(convergence.noisy_sgd_bound(**run, learning_rate=rate).value, rel=1e-12)


def test_what_is_refused_in_a_row_is_not_printed_as_allowed() -> None:
    run: dict[str, Any] = {"objective_gap": 1.0, "smoothness": 1.0, "learning_rate": 0.1}
    epochs = {"epochs": 10, "steps_per_epoch": 100}
    momentum = epochs | {"momentum": 0.5}
    for function, changed, told in (
        (convergence.noisy_sgd_bound, {"steps": 2, "learning_rate": [1.0, 1.0]}, ("learning_rate", "[1e-70, 1)", 2)),
        (convergence.noisy_sgd_bound, {"steps": 2, "drop_rate": [1.0, 1.0]}, ("drop_rate", "[0, 1)", 2)),
        (convergence.held_mask_bound, epochs | {"learning_rate": [0.1] * 1000}, ("learning_rate", 10)),
        (convergence.momentum_mask_bound, momentum | {"drop_rate": [0.1] * 9}, ("drop_rate", 10)),
    ):
        with refused(*told):
            function(**run | changed)  # type: ignore[operator]


def test_a_mask_that_keeps_nothing_moves_nothing() -> None:
    run: dict[str, Any] = {"start": [1.0, 2.0], "learning_rate": 1.0, "drop_rate": 1.0}
    found = convergence.epoch_mask_moments(100.0, epochs=1, steps_per_epoch=1000, **run)
    assert (found == [1.0, 4.0]).all() and found.shape == (1001, 2)


def test_no_step_from_a_long_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than half as many entries as there may be."""
    monkeypatch.setattr(_noisy_quadratic, "_MAX_ENTRIES", 10)
    found = convergence.fresh_mask_moments(1.0, start=np.zeros(6), steps=0, learning_rate=1.0, drop_rate=0.5)
    assert found.shape == (1, 6)
