"""Masks, kappa, the trade-off and ranked masks."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, hypergeom

from dptheory import gradients, pruning, sparsification
from dptheory.sparsification import (
    EXPONENTS,
    _mask_average,
    kappa,
    least_kappa,
    optimal_rate_flat,
    optimal_rates,
    relative_bound,
)
from dptheory.sparsification._kappa import _log_gammainc, _log_gaussian_gain
from tests.calls import in_order

# --- Masks, kappa and the trade-off against brute force, high precision, and their own laws ---


POSITIVE = st.floats(1e-3, 1e3)
ENTRIES = st.lists(st.floats(-100, 100), min_size=1, max_size=7).filter(lambda w: max(map(abs, w)) > 1e-3)


def _brute(w: Sequence[float], clip: float, keep: int, spread: float, z: float) -> float:
    """kappa of a Gaussian deviation by enumeration of the masks."""
    c = (1 - z) * clip

    def part(kept: Sequence[int]) -> float:
        square = sum(w[j] ** 2 for j in kept)
        below = float(chi2.cdf((z * clip / spread) ** 2, len(kept))) if spread else 1.0
        return below * min(square, c * math.sqrt(square))

    found = [part(kept) for kept in itertools.combinations(range(len(w)), keep)]
    return sum(found) / len(found) / part(range(len(w)))


@given(ENTRIES, POSITIVE, st.sampled_from([0.0, 0.2, 1.0]), st.sampled_from([0.25, 0.5, 0.75]), st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_kappa_is_the_mean_over_all_masks(w: list[float], clip: float, share: float, z: float, data) -> None:  # type: ignore[no-untyped-def]
    keep = data.draw(st.integers(1, len(w)))
    found = kappa(w, clip_norm=clip, drop_rate=1 - keep / len(w), deviation=share * clip, deviation_share=z)
    assert found.value == pytest.approx(_brute(w, clip, keep, share * clip, z), rel=1e-9)
    assert found.standard_error == 0.0
    assert found.lower * (1 - 1e-9) <= found.value <= found.upper * (1 + 1e-9)
    if found.condition:
        assert found.value <= 1 + 1e-9


@given(ENTRIES, POSITIVE, st.floats(1e-3, 1e3), st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_kappa_knows_no_scale_no_sign_and_no_order(w: list[float], clip: float, factor: float, data) -> None:  # type: ignore[no-untyped-def]
    rate = 1 - data.draw(st.integers(1, len(w))) / len(w)
    order = data.draw(st.permutations(range(len(w))))
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=len(w), max_size=len(w)))
    base = kappa(w, clip_norm=clip, drop_rate=rate, deviation=0.3 * clip)
    changed = [factor * signs[i] * w[j] for i, j in enumerate(order)]
    assert kappa(
        changed, clip_norm=factor * clip, drop_rate=rate, deviation=0.3 * factor * clip
    ).value == pytest.approx(base.value, rel=1e-9)


@pytest.mark.parametrize("deviation", [0.0, 0.3, [[0.1] * 4, [-0.1] * 4]])
def test_keeping_everything_gives_one(deviation) -> None:  # type: ignore[no-untyped-def]
    found = kappa([3.0, 1.0, -2.0, 0.5], clip_norm=1.0, drop_rate=0.0, deviation=deviation)
    assert (found.value, found.norm_ratio) == (1.0, 1.0)


@pytest.mark.parametrize("dim", [2, 10, 10**6])
def test_closed_forms(dim: int) -> None:
    for keep in {1, dim // 2, dim - 1}:
        x, rate = keep / dim, 1 - keep / dim
        one, flat = np.eye(1, dim)[0], np.full(dim, 1 / math.sqrt(dim))
        assert kappa(one, clip_norm=0.1, drop_rate=rate).value == pytest.approx(x, rel=1e-9)
        for s in (0.5, 1.5, 1e4):
            assert kappa(flat, clip_norm=4 / s, drop_rate=rate).value == pytest.approx(
                min(x * max(1, s), math.sqrt(x)), rel=1e-9
            )
        assert (
            kappa(np.linspace(0, 1, dim) / math.sqrt(dim), clip_norm=4.0, drop_rate=rate).value == x
        )  # |w| below c: exact at any dim


def test_half_of_the_entries_present() -> None:
    """Ten ones among twenty entries: the number of ones kept is hypergeometric."""
    with mpmath.workdps(30):
        law = [mpmath.binomial(10, h) * mpmath.binomial(10, 8 - h) / mpmath.binomial(20, 8) for h in range(9)]
        expected = sum(p * mpmath.sqrt(h) for h, p in enumerate(law)) / mpmath.sqrt(10)
    found = kappa([1.0] * 10 + [0.0] * 10, clip_norm=4e-3, drop_rate=0.6)
    assert found.value == pytest.approx(float(expected), rel=1e-13)
    assert found.standard_error == 0.0


@pytest.mark.parametrize("spread", [0.2, 0.45])
def test_drawn_masks_agree_with_all_masks(spread: float) -> None:
    """14 choose 7 is 3432: once enumerated, forty times estimated; the errors behave as both error bars say."""
    rng = np.random.default_rng(3)
    w = rng.standard_normal(14) ** 3
    deviation = rng.standard_normal((60, 14)) * spread
    exact = kappa(w, clip_norm=2.0, drop_rate=0.5, deviation=deviation, masks=4000)
    assert (exact.standard_error, exact.error, exact.norm_ratio_error) == (0.0, 0.0, 0.0)
    drawn = [kappa(w, clip_norm=2.0, drop_rate=0.5, deviation=deviation, masks=1000, seed=seed) for seed in range(40)]
    assert all(abs(one.value - exact.value) <= one.error for one in drawn)
    assert all(abs(one.norm_ratio - exact.norm_ratio) <= one.norm_ratio_error < 2e-3 for one in drawn)
    if spread == 0.2:  # every row is below the threshold for every mask
        assert {one.standard_error for one in drawn} == {0.0}
    else:
        errors = np.array([(one.value - exact.value) / one.standard_error for one in drawn])
        assert np.abs(errors).max() < 4.5
        assert 0.7 < np.sqrt(np.mean(errors**2)) < 1.4
    assert (
        kappa(w, clip_norm=2.0, drop_rate=0.5, deviation=deviation, masks=1000, seed=39) == drawn[-1]
    )  # a seed gives one result


@pytest.mark.parametrize("z", [0.2, 0.75])
def test_rows_that_are_almost_sure_are_not_drawn(z: float) -> None:
    """Rows of nearly one norm, half of the masks' energy: below the threshold with a mask, above it without."""
    rng = np.random.default_rng(0)
    w, rows = rng.standard_normal(3000), rng.standard_normal((20, 3000))
    rows[:, 0] = 0.0
    rows *= np.where(np.arange(20) < 15, 0.98, 1.02)[:, None] / np.linalg.norm(rows, axis=1)[:, None] * z
    found = kappa(w / np.linalg.norm(w), clip_norm=1.0, drop_rate=0.5, deviation=rows, deviation_share=z)
    assert (found.standard_error, found.probability) == (0.0, 0.75)
    plain = kappa(w / np.linalg.norm(w), clip_norm=1.0, drop_rate=0.5, deviation_share=z)
    assert found.value == pytest.approx(plain.value * 20 / 15, rel=1e-3)
    assert found.error < 1e-3 * found.value


def _uneven(dim: int, share: float) -> np.ndarray:
    w = np.full(dim, math.sqrt((1 - share) / (dim - 1)))
    w[0] = math.sqrt(share)
    return w


@pytest.mark.parametrize(
    ("dim", "keep", "share", "exact"),
    [(10**4, 1, 0.5, 5.0707106781186547e-3), (10**5, 10, 0.9, 1.0947788032502487e-3), (10**6, 100, 0.5, 5.0702191777190955e-3)],
)  # fmt: skip
def test_one_large_entry(dim: int, keep: int, share: float, exact: float) -> None:
    """|w| = 100 c. Drawn masks that miss the large entry gave -1.2e13, -5.3e13 and 9.7e12 here."""
    found = kappa(_uneven(dim, share), clip_norm=0.04, drop_rate=1 - keep / dim)
    assert found.value == pytest.approx(exact, rel=1e-9)
    assert found.lower <= found.value <= found.upper
    assert found.error < 1e-9 * exact


def test_two_entries_of_a_hundred_thousand() -> None:
    """Was 0.0 with standard error 0, below its own lower end."""
    found = kappa(np.r_[1.0, 0.5, np.zeros(10**5 - 2)], clip_norm=0.04, drop_rate=1 - 1e-5)
    assert found.value == pytest.approx(1.2 / math.sqrt(0.8) * 1e-5, rel=1e-9)


@pytest.mark.parametrize(("keep", "exact"), [(1, 0.00288), (2, 0.00549), (8, 0.0154)])
def test_large_entry_and_a_gaussian_rest(keep: int, exact: float) -> None:
    """Two terms by hand: the large entry kept or not; the rest by drawing 4,000 masks of it."""
    w = np.random.default_rng(0).standard_normal(10**4)
    w[0] = 0.0
    w *= math.sqrt(0.3) / np.linalg.norm(w)
    w[0] = math.sqrt(0.7)
    found = kappa(w, clip_norm=0.04, drop_rate=1 - keep / 10**4)
    assert found.value == pytest.approx(exact, rel=0.02)
    rng, p = np.random.default_rng(1), np.square(w[1:])

    def part(with_large: bool) -> np.ndarray:
        kept = p[rng.integers(0, p.size, (4000, keep - with_large))].sum(axis=1) + 0.7 * with_large
        return np.minimum(100 * kept, np.sqrt(kept))

    parts, x = [part(False), part(True)], keep / 10**4
    drawn = (1 - x) * parts[0].mean() + x * parts[1].mean()
    error = math.hypot((1 - x) * parts[0].std(), x * parts[1].std()) / math.sqrt(4000)
    assert abs(found.value - drawn) < found.error + 4.5 * error


@pytest.mark.parametrize(
    ("dim", "keep", "spread"),
    [(100, 40, 0.2), (10**6, 999_000, 1.1e-3), (10**6, 990_000, 8e-4), (40, 39, 1e4), (10**7, 9_999_000, 1e-3)],
)
def test_gaussian_gain_in_high_precision(dim: int, keep: int, spread: float) -> None:
    """Also where P itself underflows."""
    found = kappa(np.eye(1, dim)[0] * 1e-3, clip_norm=1.0, drop_rate=1 - keep / dim, deviation=spread)
    with mpmath.workdps(40):
        half = (mpmath.mpf(0.75) / mpmath.mpf(spread)) ** 2 / 2

        def log_cdf(freedom: int) -> mpmath.mpf:
            a = mpmath.mpf(freedom) / 2
            return a * mpmath.log(half) - half - mpmath.loggamma(a + 1) + mpmath.log(mpmath.hyp1f1(1, a + 1, half))

        expected = keep / mpmath.mpf(dim) * mpmath.exp(log_cdf(keep) - log_cdf(dim))
    assert found.value == pytest.approx(float(expected), rel=1e-8)


def test_kappa_beyond_the_largest_float_is_inf() -> None:
    found = kappa(np.ones(10**4), clip_norm=1.0, drop_rate=0.5, deviation=1.0)
    assert (found.value, found.probability, found.upper) == (math.inf, 0.0, math.inf)
    assert not found.condition


def test_extreme_sizes_do_not_overflow() -> None:
    for size in (1e-69, 1e69):
        assert kappa([3 * size, 4 * size], clip_norm=4 * size, drop_rate=0.5).value == pytest.approx(0.7, rel=1e-14)
        assert gradients.mask_norm_bounds([3 * size, 4 * size], drop_rate=0.5).lower == pytest.approx(
            2.5 * size, rel=1e-14
        )


def test_rows_on_the_threshold_do_not_count() -> None:
    found = kappa([1.0, 1.0], clip_norm=4.0, drop_rate=0.5, deviation=[[3.0, 0.0], [0.0, 2.9]])
    assert found.probability == 0.5  # |xi| < 3 is strict
    # masked (3, 0): one row of two is below 3; masked (0, 2.9): both. f(1) = 1, f(2) = sqrt 2
    assert found.value == pytest.approx((0.5 + 1) / 2 / (0.5 * math.sqrt(2)))


# --- masks ------------------------------------------------------------------------------------------------------------
@given(ENTRIES, st.data())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_norm_lies_between_its_bounds(w: list[float], data) -> None:  # type: ignore[no-untyped-def]
    keep = data.draw(st.integers(1, len(w)))
    bounds = gradients.mask_norm_bounds(w, drop_rate=1 - keep / len(w))
    norms = [math.hypot(*kept) for kept in itertools.combinations(w, keep)]
    assert bounds.lower * (1 - 1e-12) <= sum(norms) / len(norms) <= bounds.upper * (1 + 1e-12)


def test_zero_vector_has_zero_bounds() -> None:
    assert gradients.mask_norm_bounds([0.0, 0.0], drop_rate=0.5) == gradients.NormBounds(lower=0.0, upper=0.0)


@pytest.mark.parametrize(("dim", "rate", "keep"), [(3, 2 / 3, 1), (10, 0.3, 7), (550_000, 0.9, 55_000), (1, 0.0, 1)])
def test_kept_entries(dim: int, rate: float, keep: int) -> None:
    assert gradients.kept_entries(dim=dim, drop_rate=rate) == keep


def test_random_masks_are_uniform_with_the_right_number_of_ones() -> None:
    drawn = gradients.random_masks(rng=np.random.default_rng(0), count=40_000, dim=5, keep=2)
    assert (drawn.sum(axis=1) == 2).all()
    counts = np.unique(drawn @ 2.0 ** np.arange(5), return_counts=True)[1]
    assert counts.size == 10
    assert float(np.square(counts - 4000).sum() / 4000) < chi2.isf(1e-6, 9)
    assert gradients.random_masks(rng=np.random.default_rng(0), count=3, dim=4, keep=4).all()


# --- trade-off --------------------------------------------------------------------------------------------------------
@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 1), st.floats(0, 0.999))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_no_rate_beats_the_best(delta_c: float, noise: float, exponent: float, other: float) -> None:
    best = sparsification.optimal_rate(delta_c=delta_c, step_noise=noise, exponent=exponent)

    def bound(rate: float) -> float:
        return sparsification.relative_bound(
            drop_rate=rate, delta_c=delta_c, step_noise=noise, kappa=(1 - rate) ** exponent
        )

    reached = bound(min(best, 1 - 1e-12)) if best == 1.0 else bound(best)
    assert reached <= bound(other) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize(
    ("arguments", "rate"),
    [((1.0, 4.0), 0.75), ((1.0, 1.0), 0.0), ((5.0, 1.0), 0.0), ((0.0, 1.0), 1.0), ((0.0, 0.0), 0.0),
     ((1.0, 4.0, 1.0), 0.0), ((0.0, 4.0, 1.0), 0.0), ((1.0, 4.0, 0.0), 1.0), ((1.0, 9.0, 0.75), 2 / 3)],
)  # fmt: skip
def test_optimal_rate_at_its_ends(arguments: tuple[float, ...], rate: float) -> None:
    assert in_order(sparsification.optimal_rate, arguments) == pytest.approx(rate, abs=1e-15)


@given(st.floats(0.01, 50), st.floats(0.01, 50), st.integers(1, 24))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_flat_rate_beats_every_rate_with_the_exact_kappa(ratio: float, scale: float, keep: int) -> None:
    w = np.full(24, scale / math.sqrt(24))  # c = 1
    best = sparsification.optimal_rate_flat(delta_c=ratio, step_noise=1.0, grad_norm=scale, clip_norm=4.0)
    x = 1 - best
    reached = (ratio + x) / min(x * max(1.0, scale), math.sqrt(x))
    other = sparsification.relative_bound(
        drop_rate=1 - keep / 24,
        delta_c=ratio,
        step_noise=1.0,
        kappa=kappa(w, clip_norm=4.0, drop_rate=1 - keep / 24).value,
    )
    assert reached <= other * (1 + 1e-9)


def test_best_rate_of_many_entries() -> None:
    """d = 400: near the continuous optimum of equal entries, and zero for small gradients."""
    found = sparsification.best_rate(np.full(400, 1.0), clip_norm=1.0, delta_c=1.0, step_noise=10.0)
    assert found.drop_rate == pytest.approx(0.9, abs=0.02)
    assert found.bound == pytest.approx(2 * math.sqrt(10), rel=1e-3)
    assert sparsification.best_rate(np.full(400, 1e-3), clip_norm=1.0, delta_c=1.0, step_noise=1e6).drop_rate == 0.0


def _flat_log_bound(keep: int, dim: int, entry: float, spread: float, terms: tuple[float, float]) -> mpmath.mpf:
    """log U(r) of equal entries, C = 1 and z = 3/4, in high precision."""
    with mpmath.workdps(40):
        half = (mpmath.mpf(0.75) / mpmath.mpf(spread)) ** 2 / 2

        def log_part(count: int) -> mpmath.mpf:
            a, square = mpmath.mpf(count) / 2, count * mpmath.mpf(entry) ** 2
            series = mpmath.log(mpmath.hyp1f1(1, a + 1, half))
            log_cdf = a * mpmath.log(half) - half - mpmath.loggamma(a + 1) + series
            return log_cdf + mpmath.log(min(square, mpmath.sqrt(square) / 4))

        return mpmath.log(terms[0] + mpmath.mpf(keep) / dim * terms[1]) - log_part(keep) + log_part(dim)


@pytest.mark.parametrize(
    ("deviation", "bound"), [(0.03, 3.3434e-23), (0.05, 1.66918e-158), (0.08, 5e-324), (0.5, 5e-324)]
)
def test_best_rate_of_a_long_deviation(deviation: float, bound: float) -> None:
    """kappa from 1e21 to beyond the largest float: a bound from above, never 0, and the least U(r) of all rates but 1 %."""
    w, terms = [0.03] * 1000, (0.01, 1.0)
    found = sparsification.best_rate(w, clip_norm=1.0, delta_c=terms[0], step_noise=terms[1], deviation=deviation)
    log_bounds = {keep: _flat_log_bound(keep, 1000, 0.03, deviation, terms) for keep in range(1, 151)}
    exact = log_bounds[round(1000 * (1 - found.drop_rate))]
    assert found.bound == pytest.approx(bound, rel=1e-4) and mpmath.log(found.bound) >= exact - mpmath.mpf(10) ** -9
    assert exact <= min(log_bounds.values()) + 0.01


def test_gain_of_a_deviation_beyond_all_scales() -> None:
    """By hand, d = 2 and one entry kept: P' / P = sqrt(2 / pi) a / (a^2 / 2) for the threshold a = z C / s, next to 0."""
    found = kappa([1.0, 1.0], clip_norm=1e-70, drop_rate=0.5, deviation=1e65, deviation_share=1e-30)
    assert found.value == pytest.approx(math.sqrt(0.5) * math.sqrt(2 / math.pi) * 2e165, rel=1e-12)
    assert sparsification.best_rate([1.0, 1.0], clip_norm=1e-70, delta_c=0.0, step_noise=0.0).bound == 0.0


@given(st.floats(0, 0.99), st.floats(1e-3, 1e3), st.floats(0, 1e3), st.floats(0.01, 2))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_thresholds_are_where_the_bounds_meet(rate: float, delta_c: float, noise: float, factor: float) -> None:
    fixed = sparsification.least_kappa(drop_rate=rate, delta_c=delta_c, step_noise=noise)
    plain = sparsification.relative_bound(drop_rate=0.0, delta_c=delta_c, step_noise=noise, kappa=1.0)
    assert sparsification.relative_bound(
        drop_rate=rate, delta_c=delta_c, step_noise=noise, kappa=factor * fixed
    ) == pytest.approx(plain / factor, rel=1e-12)
    tuned = sparsification.least_kappa_tuned(drop_rate=rate, noise_to_curvature=noise / delta_c)
    assert tuned >= math.sqrt(1 - rate) * (1 - 1e-12)
    both = [
        sparsification.tuned_bound(
            drop_rate=r, kappa=k, objective_gap=3.0, steps=50.0, curvature_term=delta_c, noise_term=noise
        ).bound
        for r, k in ((rate, factor * tuned), (0, 1))
    ]
    assert both[0] == pytest.approx(both[1] / factor, rel=1e-12)


@given(st.floats(0, 0.99), st.floats(0.1, 1), st.floats(-3, 3))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_learning_rate_beats_the_tuned_one(rate: float, value: float, log_factor: float) -> None:
    gap, steps, a, noise = 2.0, 30.0, 0.7, 4.0
    tuned = sparsification.tuned_bound(
        drop_rate=rate, kappa=value, objective_gap=gap, steps=steps, curvature_term=a, noise_term=noise
    )

    def bound(g: float) -> float:
        return (gap / (g * steps) + g * a + (1 - rate) * g * noise) / value

    assert tuned.bound == pytest.approx(bound(tuned.learning_rate), rel=1e-12)
    assert tuned.bound <= bound(tuned.learning_rate * math.exp(log_factor)) * (1 + 1e-12)


# --- bad input --------------------------------------------------------------------------------------------------------
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("half_norm", [1e-40, 1e-3, 0.3])
@pytest.mark.parametrize(("dim", "keep"), [(60, 20), (400, 41), (500, 42), (3000, 60), (10**5, 9000), (10**5, 50_000)])
def test_gain_of_clip_probability_where_it_underflows(dim: int, keep: int, half_norm: float) -> None:
    """P'/P for Gaussian deviations against mpmath, on both sides of every branch: small and large shapes, far and near."""
    half = half_norm * keep / 2  # the threshold, as a share of where half of the masked mass lies
    spread = math.sqrt(0.5 / half)
    with mpmath.workdps(40):
        p = [mpmath.log(mpmath.gammainc(mpmath.mpf(n) / 2, 0, mpmath.mpf(0.5) / spread / spread, regularized=True))
             for n in (keep, dim)]  # fmt: skip
        log_gain = float(p[0] - p[1])
    if log_gain < 700:
        assert _log_gaussian_gain(dim, keep, spread) == pytest.approx(log_gain, rel=1e-12, abs=1e-11)
    else:
        assert [_log_gammainc(n / 2, half) for n in (keep, dim)] == pytest.approx([float(one) for one in p], rel=1e-13)


@pytest.mark.parametrize("dim", [10, 20_000])
@pytest.mark.parametrize("deviation", [0.0, 0.05])
def test_a_flat_gradient_has_kappa_of_its_entries(dim: int, deviation: float) -> None:
    found = sparsification.flat_kappa(grad_norm=2.0, dim=dim, clip_norm=10.0, drop_rate=0.5, deviation=deviation)
    entries = kappa(np.full(dim, 2.0 / math.sqrt(dim)), clip_norm=10.0, drop_rate=0.5, deviation=deviation)
    assert vars(found) == pytest.approx(vars(entries), rel=1e-11, abs=1e-11)


def test_a_flat_gradient_of_a_trillion_entries() -> None:
    """Deviations as long as the threshold for one half of the examples, and shorter for all where half is masked."""
    found = sparsification.flat_kappa(
        grad_norm=2.0, dim=10**12, clip_norm=10.0, drop_rate=0.5, deviation=7.5 / math.sqrt(1e12)
    )
    assert found.probability == pytest.approx(0.5, abs=1e-6) and found.error == 0.0
    assert found.norm_ratio == 0.5 and found.value == pytest.approx(0.5 / found.probability, rel=1e-9)


def test_the_exact_kappa_at_its_limits() -> None:
    """No mask, no deviation, nothing clipped, everything clipped; sizes at the ends of their range."""
    exact = sparsification.isotropic_kappa
    assert exact(grad_norm=2.0, dim=10, clip_norm=1.0, drop_rate=0.0, deviation=0.3) == 1.0
    assert exact(grad_norm=2.0, dim=10, clip_norm=1e-3, drop_rate=0.6) == pytest.approx(0.4**0.5, rel=1e-12)
    assert exact(grad_norm=2.0, dim=10, clip_norm=1e3, drop_rate=0.6, deviation=0.3) == pytest.approx(0.4, rel=1e-12)
    # one entry kept of very many that are as large as twice their deviation: erf sqrt 2 sqrt 5/4
    kept = exact(grad_norm=2e3, dim=10**6, clip_norm=1e-6, drop_rate=1 - 1e-6, deviation=1.0)
    assert kept * 1e3 == pytest.approx(math.erf(2**0.5) * 1.25**0.5, rel=1e-5)
    for size in (1e-70, 1e70):
        for deviation in (0.0, 1e-70, 1e70):
            found = exact(grad_norm=size, dim=10, clip_norm=1.0, drop_rate=0.6, deviation=deviation)
            assert (
                0.4 * (1 - 1e-9) <= found <= sparsification.largest_isotropic_kappa(dim=10, drop_rate=0.6) * (1 + 1e-9)
            )


# --- The bracket of E[f(Y)] and the parts that it is made of, against enumeration ---


Array = np.ndarray
ROUNDING = 1 + 1e-11


def _population(rng: np.random.Generator, kind: int, dim: int) -> Array:
    p = (
        rng.random(dim),
        rng.random(dim) ** 8,
        rng.integers(0, 3, dim) + np.eye(1, dim)[0],
        np.exp(4 * rng.normal(size=dim)),
        np.where(rng.random(dim) < 0.3, rng.random(dim), 0.0) + np.eye(1, dim)[0] * 1e-3,
        np.r_[1.0, np.full(dim - 1, 1e-6)],
    )[kind]
    return np.sort(p / p.sum())


def _every_sum(p: Array, keep: int) -> Array:
    return np.array([sum(c) for c in itertools.combinations(p.tolist(), keep)])


@pytest.mark.parametrize("kind", range(6))
def test_the_exact_mean_lies_in_the_bracket_for_all_levels_and_cells(
    kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, widest = np.random.default_rng(kind), 0.0
    for _ in range(60):
        dim = int(rng.integers(2, 12))
        keep, p = int(rng.integers(1, dim + 1)), _population(rng, kind, dim)
        shares, x = _mask_average.Shares(p), keep / dim
        scale = float(rng.choice([1 + 1e-9, 1.5, 10.0, 1e3, 1e20, 1 / math.sqrt(x), 1 + math.exp(2 * rng.normal())]))
        exact = float(_mask_average.descent(_every_sum(p, keep), scale).mean())
        found = _mask_average.mean_descent(shares, keep, scale)
        assert found.low <= exact * ROUNDING and exact <= found.high * ROUNDING
        assert x <= found.low * ROUNDING and found.high <= min(x * scale, math.sqrt(x)) * ROUNDING
        if not 1 < keep < dim:
            continue
        for spread, width in itertools.product((math.inf, 0.3, 0.006), (0.01, 0.3, 5.0)):
            monkeypatch.setattr(_mask_average, "_SINGLE", int(rng.integers(0, 4)))
            one = _mask_average._by_levels(shares, keep, scale, _mask_average._cuts(shares, keep, scale, spread), width)
            assert one.low <= exact * ROUNDING and exact <= one.high * ROUNDING
            widest = max(widest, one.half_width / exact)
    assert widest > 0.01  # the bounds were at work


def test_lower_bound_of_few_points() -> None:
    """Laws on one to four points, all regions: mean below, at and above the kink, least sum 0, between and attained."""
    rng, closest = np.random.default_rng(7), math.inf
    for _ in range(4000):
        y = np.exp(rng.normal(size=int(rng.integers(1, 5))) * rng.choice([0.1, 1, 4]))
        y[0] *= rng.random() < 0.7
        y /= max(float(y.max()), 1e-9)
        law = rng.dirichlet(np.full(y.size, rng.choice([0.2, 1.0])))
        mean = float(law @ y)
        variance, least = float(law @ (y - mean) ** 2), float(y.min() * rng.choice([0, 0.5, 1]))
        scale = rng.choice([1 + math.exp(2 * rng.normal()), 1 / math.sqrt(min(1, max(mean, 1e-9)))])
        bound = float(_mask_average.lower_bound(*(np.array([v]) for v in (mean, variance, least)), scale)[0])
        exact = float(law @ _mask_average.descent(y, scale))
        assert bound <= exact * ROUNDING
        if variance > 1e-3 * mean**2:
            closest = min(closest, exact / bound - 1)
    assert closest < 1e-3  # some law nearly attains it


@pytest.mark.parametrize(("population", "marked"), [(5, 2), (40, 39), (1000, 3), (10**6, 4000), (10**6, 10**6 - 1)])
def test_hypergeometric_chances(population: int, marked: int) -> None:
    draws = np.unique([1, 2, population // 3, population // 2, population - 1])
    first, law = _mask_average._hypergeometric(population, marked, draws)
    hits = first[:, None] + np.arange(law.shape[1])
    exact = hypergeom.pmf(hits, population, marked, draws[:, None])
    assert np.allclose(law, exact, rtol=1e-6, atol=1e-16)
    assert law.sum(axis=1) == pytest.approx(1.0, rel=1e-12)


_LARGE = {
    "Gaussian": lambda rng: rng.standard_normal(50_000),
    "Student": lambda rng: rng.standard_t(3, 50_000),
    "cubed": lambda rng: rng.standard_normal(50_000) ** 3,
    "Cauchy": lambda rng: rng.standard_cauchy(50_000),
    "log-normal": lambda rng: np.exp(2 * rng.standard_normal(50_000)),
    "Zipf": lambda rng: 1 / np.arange(1.0, 50_001),
    "sparse": lambda rng: rng.standard_normal(50_000) * (rng.random(50_000) < 0.01),
}


@pytest.mark.parametrize("law", _LARGE)
@pytest.mark.parametrize("keep", [2, 300])
def test_narrow_at_large_dimension(law: str, keep: int) -> None:
    """The width that the page says was observed: a thousandth, 0.15 per cent for sparse entries."""
    w = _LARGE[law](np.random.default_rng(0))
    p = np.sort(np.square(w / np.linalg.norm(w)))
    for scale in (1600.0, 100.0, 0.95 * math.sqrt(50_000 / keep)):
        found = _mask_average.mean_descent(_mask_average.Shares(p / p.sum()), keep, scale)
        assert found.half_width <= (1.5e-3 if law == "sparse" else 1e-3) * found.low * (1 + 1e-9)


def test_what_is_dropped_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a threshold at which much is dropped the exact mean still lies in the bracket."""
    p = np.sort(np.random.default_rng(0).random(12))
    p /= p.sum()
    exact = float(_mask_average.descent(_every_sum(p, 6), 3.0).mean())
    shares, cuts = _mask_average.Shares(p), np.array([6])
    kept = _mask_average._by_levels(shares, 6, 3.0, cuts, 0.01)
    monkeypatch.setattr(_mask_average, "_NEGLIGIBLE", 0.3)
    dropped = _mask_average._by_levels(shares, 6, 3.0, cuts, 0.01)
    assert dropped.low <= exact <= dropped.high
    assert dropped.low < 0.6 * kept.low and dropped.half_width > 10 * kept.half_width


# --- The best rates under several assumptions on kappa, against the bound that they minimise ---


@pytest.mark.parametrize(("delta_c", "step_noise"), [(0.1, 1.0), (0.02, 0.5), (1.0, 0.1)])
def test_rates_minimise_the_bound_under_each_exponent(delta_c: float, step_noise: float) -> None:
    found = optimal_rates(delta_c=delta_c, step_noise=step_noise)
    assert tuple(one.exponent for one in found) == EXPONENTS == (0.5, 0.75, 1.0)
    for one in found:
        least = minimize_scalar(
            lambda rate, a=one.exponent: relative_bound(
                drop_rate=rate, delta_c=delta_c, step_noise=step_noise, kappa=(1 - rate) ** a
            ),
            bounds=(0.0, 1 - 1e-9),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert one.drop_rate == pytest.approx(least.x, abs=1e-4)


def test_the_least_kappa_keeps_its_digits() -> None:
    """(1e-12 + x) / (1 + 1e-12) at x = 1e-9: one less a share, plus x times the share, is off by 9e-8."""
    x = Fraction(1.0 - (1.0 - 1e-9))
    exact = (Fraction(1e-12) + x) / (1 + Fraction(1e-12))
    assert least_kappa(drop_rate=1.0 - 1e-9, delta_c=1e-12, step_noise=1.0) == pytest.approx(
        float(exact), rel=1e-15, abs=0
    )


def test_the_flat_rate_is_below_one() -> None:
    assert 1.0 - 1e-15 < optimal_rate_flat(delta_c=0.0, step_noise=1.0, grad_norm=1e9, clip_norm=1.0) < 1.0


# --- Energy captured by ranked masks against closed forms, high precision and simulation ---


RATES = st.floats(1e-6, 1)
SNRS = st.floats(0, 1e3)


def test_two_entries() -> None:
    assert sparsification.captured_energy(2, 1, snr=1.0) == pytest.approx(0.5 + 1 / (2 * math.pi), rel=1e-13)
    assert sparsification.captured_energy(2, 1, snr=math.inf) == pytest.approx(0.5 + 1 / math.pi, rel=1e-13)


def test_without_signal_every_mask_is_random() -> None:
    assert sparsification.captured_energy(100, 30, snr=0.0) == 0.3
    assert sparsification.signed_captured_energy(keep_share=0.3, snr=0.0) == 0.3
    assert sparsification.sparse_captured_energy(keep_share=0.3, snr=0.0, nonzero_share=0.1) == pytest.approx(
        0.3, rel=1e-12
    )


def test_without_noise_it_is_top_k() -> None:
    assert sparsification.captured_energy(50, 7, snr=math.inf) == float(pruning.top_k_energy(50, 7, sigma_g=1.0)) / 50


@given(st.integers(1, 10**6), st.floats(0, 1), SNRS, SNRS)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_between_random_and_top_k(dim: int, share: float, one: float, other: float) -> None:
    keep = min(max(round(dim * share), 1), dim)
    low, high = sorted((one, other))
    values = [sparsification.captured_energy(dim, keep, snr=snr) for snr in (low, high, math.inf)]
    assert keep / dim - 1e-12 <= values[0] <= values[1] + 1e-12 <= values[2] + 2e-12 <= 1 + 3e-12


@given(st.floats(0.001, 0.999), SNRS)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_signed_sort_mirrors_at_one_half(rate: float, snr: float) -> None:
    # y phi(y) is odd in y: what the sort gains at x it loses at 1 - x
    gain = sparsification.signed_captured_energy(keep_share=rate, snr=snr) - rate
    loss = sparsification.signed_captured_energy(keep_share=1 - rate, snr=snr) - (1 - rate)
    assert gain == pytest.approx(-loss, abs=1e-12)
    assert gain * (0.5 - rate) >= -1e-15
    two_sided = sparsification.sparse_captured_energy(keep_share=rate, snr=min(snr, 1e6), nonzero_share=1.0)
    assert sparsification.signed_captured_energy(keep_share=rate, snr=snr) <= two_sided + 1e-12


@pytest.mark.parametrize("rate", [1e-12, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-9])
@pytest.mark.parametrize("snr", [1e-3, 0.3, 10.0, 1e6])
@pytest.mark.parametrize("density", [1e-9, 0.01, 0.5, 1.0])
def test_sparse_signal_has_nine_digits(rate: float, snr: float, density: float) -> None:
    with mpmath.workdps(60):
        q = mpmath.mpf(density)
        spread = mpmath.sqrt(1 + mpmath.mpf(snr) ** 2 / q)
        tail = lambda y: mpmath.erfc(y / mpmath.sqrt(2))  # noqa: E731
        low, high = mpmath.mpf(0), mpmath.mpf(50) * spread
        for _ in range(300):
            y = (low + high) / 2
            low, high = (y, high) if q * tail(y / spread) + (1 - q) * tail(y) > rate else (low, y)
        u = y / spread
        exact = tail(u) + 2 * (1 - spread**-2) * u * mpmath.npdf(u)
    assert (
        abs(sparsification.sparse_captured_energy(keep_share=rate, snr=snr, nonzero_share=density) / exact - 1) < 1e-9
    )


@given(RATES, st.floats(0, 1e3), st.floats(1e-6, 1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_sparse_signal_is_found_at_least_as_well_as_at_random(rate: float, snr: float, density: float) -> None:
    assert (
        rate * (1 - 1e-12)
        <= sparsification.sparse_captured_energy(keep_share=rate, snr=snr, nonzero_share=density)
        <= 1 + 1e-12
    )


def test_one_non_zero_share_is_the_dense_formula() -> None:
    dense = sparsification.captured_energy(10**9, 10**8, snr=0.7)
    assert sparsification.sparse_captured_energy(keep_share=0.1, snr=0.7, nonzero_share=1.0) == pytest.approx(
        dense, rel=1e-7
    )


def test_keeping_everything_keeps_everything() -> None:
    assert sparsification.captured_energy(5, 5, snr=1.0) == pytest.approx(1.0, rel=1e-15)
    assert (
        sparsification.signed_captured_energy(keep_share=1.0, snr=1.0)
        == sparsification.sparse_captured_energy(keep_share=1.0, snr=1.0, nonzero_share=0.1)
        == 1.0
    )


def test_signed_sort_of_finite_vectors_comes_near_the_limit() -> None:
    rng = np.random.default_rng(0)
    signal, noise = rng.standard_normal((2, 400, 2000))
    order = np.argsort(signal + noise, axis=1)[:, -1400:]
    kept = np.square(np.take_along_axis(signal, order, axis=1)).sum(axis=1) / 2000
    error = kept.std(ddof=1) / math.sqrt(kept.size)
    assert abs(kept.mean() - sparsification.signed_captured_energy(keep_share=0.7, snr=1.0)) < 5 * error
    assert abs(kept.mean() - 0.7) > 20 * error
