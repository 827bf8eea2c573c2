"""The error of released gradients, and what masks do to them."""

import itertools
import math
import tracemalloc

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import chi2

from dptheory import gradients
from dptheory.gradients import QuadraticForm, _gradient_mse, noise_norm_ratio, posterior_freeze, relaxed_gradient_ratio
from dptheory.gradients._joined import Levels, joined
from tests.calls import by_name

# The largest of n quadratic forms and the error of the released gradient, against closed forms and second methods


Array = NDArray[np.float64]


def _form(weights: list[float], freedoms: list[float], noncentralities: list[float] | None = None) -> QuadraticForm:
    return QuadraticForm(
        weights=np.array(weights),
        freedoms=np.array(freedoms),
        noncentralities=np.array(noncentralities or [0.0] * len(weights)),
    )


def _imhof(weights: Array, freedoms: Array, noncentralities: Array, x: float) -> float:
    """P(Q > x) = 1/2 + (1/pi) int sin(angle) exp(-size) / u du, along the imaginary axis."""

    def integrand(u: float) -> float:
        wu = weights * u
        angle = 0.5 * float(np.sum(freedoms * np.arctan(wu) + noncentralities * wu / (1 + wu**2))) - 0.5 * x * u
        size = float(np.sum(0.25 * freedoms * np.log1p(wu**2) + 0.5 * noncentralities * wu**2 / (1 + wu**2)))
        return math.sin(angle) * math.exp(-size) / u

    return 0.5 + quad(integrand, 0.0, np.inf, limit=2000, epsabs=1e-11)[0] / math.pi


@pytest.mark.parametrize(
    ("weights", "freedoms", "noncentralities"),
    [
        ([3.0, 1.0, 0.2], [2, 3, 4], [0, 0, 0]),
        ([1.0, 0.01], [4, 500], [0, 0]),
        ([2.0, 1.0, 0.5], [1, 4, 6], [2.0, 0.0, 5.0]),
    ],
)
def test_tails_by_imhof(weights: list[float], freedoms: list[float], noncentralities: list[float]) -> None:
    form = _form(weights, freedoms, noncentralities)
    points = form.mean * np.array([0.2, 0.7, 1.0, 1.3, 2.0, 4.0])
    lower, upper = form.tails(points)
    expected = [_imhof(form.weights, form.freedoms, form.noncentralities, x) for x in points]
    np.testing.assert_allclose(upper, expected, atol=1e-9)
    np.testing.assert_allclose(lower + upper, 1.0, atol=1e-15)


def test_tails_of_exponential_sums_keep_their_digits() -> None:
    # 3 E + E', E of mean 2: the tail is 3/2 exp(-x/6) - 1/2 exp(-x/2), the other end x^2 / 24 for small x
    x = np.array([1.0, 50.0, 400.0, 2000.0])
    np.testing.assert_allclose(
        _form([3.0, 1.0], [2, 2]).tails(x)[1], 1.5 * np.exp(-x / 6) - 0.5 * np.exp(-x / 2), rtol=1e-10
    )
    small = np.array([1e-4, 1e-8, 1e-20])
    np.testing.assert_allclose(
        _form([3.0, 1.0], [2, 2]).tails(small)[0], small**2 / 24 * (1 - small * 2 / 9), rtol=1e-7
    )


def test_tails_outside_the_support_and_far_out() -> None:
    lower, upper = _form([1.0], [3]).tails([-1.0, 0.0, 1e5, 1e12])
    assert lower.tolist() == [0.0, 0.0, 1.0, 1.0] and upper.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert _form([1.0], [3]).tails(np.zeros((0, 2)))[0].shape == (0, 2)


@given(st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=12), st.floats(0.05, 5))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_tails_fall_and_chernoff_bounds_them(weights: list[float], where: float) -> None:
    form = _form(weights, [1.0] * len(weights))
    lower, upper = form.tails(form.mean * np.array([where, 1.1 * where]))
    assert upper[1] <= upper[0] and lower[0] <= lower[1]
    point = form.chernoff(-20.0)
    assert float(form.tails(point)[1]) <= math.exp(-20.0) * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 2, 10, 1000, 10**6, 10**9])
def test_two_equal_eigenvalues_give_harmonic_numbers(n: int) -> None:
    harmonic = float(mpmath.harmonic(n))
    for method in ("exact", "welch-satterthwaite"):
        assert gradients.expected_max_quadratic_form([2.0, 2.0], n, method=method) == pytest.approx(
            4 * harmonic, rel=1e-9
        )


@pytest.mark.parametrize("dim", [1, 2, 3, 17, 1000])
@pytest.mark.parametrize("n", [2, 3, 50, 10**6])
def test_equal_eigenvalues_against_high_precision(dim: int, n: int) -> None:
    with mpmath.workdps(25):
        half = mpmath.mpf(dim) / 2

        def missed(u: mpmath.mpf) -> mpmath.mpf:
            above = mpmath.gammainc(half, u * u / 2, mpmath.inf, regularized=True)
            return -mpmath.expm1(n * mpmath.log1p(-above)) * 2 * u if above < 1 else 2 * u

        middle = mpmath.sqrt(dim)
        knots = [0, *(k for k in (middle - 3, middle - 1) if k > 0), middle + 1, middle + 3, middle + 6, middle + 14]
        expected = float(mpmath.quad(missed, knots, maxdegree=5))
    assert gradients.expected_max_quadratic_form(np.ones(dim), n) == pytest.approx(expected, rel=1e-7)


SPECTRA = {
    "power law": np.arange(1.0, 201.0) ** -1.0,
    "spike": np.array([1.0] + [1e-3] * 300),
    "spike on a heavy floor": np.array([1.0] + [1e-2] * 10_000),
    "ten decades": np.logspace(-10, 0, 40),
    "with zeros": np.array([0.0, 2.0, 0.0, 1.0]),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("n", [2, 30, 10**6])
def test_quadrature_is_fine_enough(name: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = gradients.expected_max_quadratic_form(SPECTRA[name], n)
    monkeypatch.setattr(_gradient_mse, "_GAUSS", np.polynomial.legendre.leggauss(90))
    monkeypatch.setattr(_gradient_mse, "_GRID", 41)
    assert found == pytest.approx(gradients.expected_max_quadratic_form(SPECTRA[name], n), rel=1e-7)


@given(st.lists(st.floats(1e-3, 10), min_size=1, max_size=8), st.integers(1, 10**6), st.floats(1e-3, 1e3))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_properties_of_the_maximum(eigenvalues: list[float], n: int, factor: float) -> None:
    found = gradients.expected_max_quadratic_form(eigenvalues, n)
    assert found == pytest.approx(gradients.expected_max_quadratic_form(eigenvalues[::-1], n), rel=1e-12)
    assert found == pytest.approx(
        gradients.expected_max_quadratic_form(np.multiply(factor, eigenvalues), n) / factor, rel=1e-7
    )
    assert (
        sum(eigenvalues) * (1 - 1e-7) <= found <= gradients.expected_max_quadratic_form(eigenvalues, 2 * n) * (1 + 1e-7)
    )
    assert found <= n * sum(eigenvalues) * (1 + 1e-7)


def test_stationary_error_reaches_the_bound_for_one_draw() -> None:
    assert (
        gradients.stationary_mse([3.0, 1.0], n=1, noise_multiplier=2.0)
        == gradients.mse_lower_bound(trace=4.0, dim=2, noise_multiplier=2.0)
        == 36.0
    )
    assert gradients.stationary_mse([3.0, 1.0], n=5, noise_multiplier=0.0) == 4.0


_NAMES = "grad_norm dim deviation clip_norm noise_multiplier batch_size"
SETTINGS = st.tuples(
    st.floats(0, 100),
    st.integers(1, 10**8),
    st.floats(0, 10),
    st.floats(1e-2, 100),
    st.floats(0, 10),
    st.integers(1, 10**6),
)


@given(SETTINGS)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_without_a_mask_both_sides_agree(setting: tuple[float, int, float, float, float, int]) -> None:
    errors = gradients.clipped_gradient_mse(**by_name(_NAMES, setting), drop_rate=0.0)
    assert errors.full == errors.masked
    assert errors.delta_mse == errors.delta_signal == 0.0


@given(SETTINGS, st.floats(0.1, 10))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_error_scales_and_obeys_cauchy_schwarz(
    setting: tuple[float, int, float, float, float, int], factor: float
) -> None:
    norm, dim, deviation, clip, *_ = setting
    run = by_name(_NAMES, setting) | {"dim": 2 * dim, "drop_rate": 0.5}
    errors = gradients.clipped_gradient_mse(**run)
    larger = {"grad_norm": factor * norm, "deviation": factor * deviation, "clip_norm": factor * clip}
    scaled = gradients.clipped_gradient_mse(**run | larger)
    for one, other in ((errors.full, scaled.full), (errors.masked, scaled.masked)):
        assert other.mse == pytest.approx(factor**2 * one.mse, rel=1e-7, abs=1e-9 * factor**2 * norm**2)
        assert 0.0 <= one.descent_ratio <= norm**2 * (1 + 1e-9)
        assert one.mse >= one.noise >= 0.0
        # |w|^2 - 2 E<w, g> + E|g|^2, put together another way
        assert one.mse == pytest.approx(
            norm**2 - 2 * one.alignment + one.second_moment, rel=1e-7, abs=1e-9 * (norm**2 + clip**2)
        )
    assert errors.masked.noise == pytest.approx(errors.full.noise / 2)
    assert errors.masked.clip_probability <= errors.full.clip_probability + 1e-9


def test_error_without_deviation() -> None:
    errors = gradients.clipped_gradient_mse(
        grad_norm=2.0, dim=4, deviation=0.0, clip_norm=1.0, noise_multiplier=0.0, batch_size=3, drop_rate=0.75
    )
    assert errors.full.signal_loss == pytest.approx(1.0) and errors.full.clip_probability == 1.0
    assert errors.masked.signal_loss == pytest.approx(3.0) and errors.masked.alignment == pytest.approx(1.0)
    nothing = gradients.clipped_gradient_mse(
        grad_norm=0.0, dim=4, deviation=0.0, clip_norm=1.0, noise_multiplier=0.0, batch_size=3, drop_rate=0.75
    )
    assert nothing.full.mse == nothing.full.descent_ratio == 0.0


def test_unclipped_error_is_the_textbook_one() -> None:
    errors = gradients.clipped_gradient_mse(
        grad_norm=1.0, dim=100, deviation=0.1, clip_norm=1e3, noise_multiplier=1e-3, batch_size=10, drop_rate=0.9
    )
    assert errors.full.signal_loss == pytest.approx(100 * 0.01 / 10, rel=1e-9)
    assert errors.masked.signal_loss == pytest.approx(0.9 + 10 * 0.01 / 10, rel=1e-9)
    assert errors.masked.descent_ratio == pytest.approx(0.1 * errors.full.descent_ratio, rel=1e-9)


def test_average_over_masks_uses_every_norm() -> None:
    w = np.array([3.0, 4.0])
    run = by_name(_NAMES, (5.0, 2, 0.5, 2.0, 1.0, 4)) | {"drop_rate": 0.5}
    errors = gradients.clipped_gradient_mse(**run, masked_norms=w)
    moments = [gradients.gaussian_clip_moments(grad_norm=float(x), dim=1, deviation=0.5, clip_norm=2.0) for x in w]
    loss = sum(0.5 * (25 - x**2 + (x - m.slope * x) ** 2 + m.variance / 4) for x, m in zip(w, moments, strict=True))
    assert errors.masked.signal_loss == pytest.approx(loss, rel=1e-12)
    flat = gradients.clipped_gradient_mse(**run, masked_norms=[math.sqrt(12.5)])
    assert flat.masked.mse == pytest.approx(gradients.clipped_gradient_mse(**run).masked.mse)


@pytest.mark.parametrize(("dim", "n"), [(1000, 10**7), (10**5, 10**6), (10**5, 10**8), (10**6, 60_000)])
def test_largest_of_many_draws_in_large_dimension(dim: int, n: int) -> None:
    """Equal eigenvalues: the panels have to follow the width of the law, which was 6e-6 off at 1e5 entries."""
    x = np.linspace(dim - 6 * math.sqrt(2 * dim), dim + 12 * math.sqrt(2 * dim) + 80, 100_001)
    missed = -np.expm1(n * np.log1p(-np.minimum(chi2.sf(x, dim), 1 - 1e-16)))
    expected = x[0] + float(np.sum((missed[1:] + missed[:-1]) / 2 * np.diff(x)))
    assert gradients.expected_max_quadratic_form(np.ones(dim), n) == pytest.approx(expected, rel=1e-8)


def test_eigenvalues_far_below_the_largest_are_nothing() -> None:
    assert gradients.expected_max_quadratic_form([1.0, 1e-300, 5e-324], 10) == pytest.approx(
        gradients.expected_max_quadratic_form([1.0], 10), rel=1e-12
    )


def test_a_weight_far_below_the_others_adds_nothing() -> None:
    alone, beside = _form([1.0], [1.0]), _form([1.0, 1e-300], [1.0, 1.0], [0.0, 1e70])
    np.testing.assert_allclose(beside.tails(1.0), alone.tails(1.0), rtol=1e-12)


def test_forms_are_equal_to_themselves_alone() -> None:
    form = _form([1.0, 2.0], [1.0, 1.0])
    assert form in {form} and form != _form([1.0, 2.0], [1.0, 1.0])


def test_many_terms_are_summed_in_parts() -> None:
    """At 1e5 different weights the law is near the normal one; all nodes and terms at once took .3 GB."""
    form = _form(np.linspace(1.0, 2.0, 100_000).tolist(), [1.0] * 100_000)
    tracemalloc.start()
    lower, upper = form.tails(form.mean)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e8 and float(lower) == pytest.approx(0.5, abs=2e-3) and float(lower + upper) == 1.0


# --- Masks before and after clipping, the noise under a mask, and skewness in projections ---


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


# --- Near numbers joined


def test_joined_numbers_bound_convex_symmetric_functions_from_both_sides() -> None:
    rng = np.random.default_rng(5)
    for cells in (1, 3, 20):
        numbers = np.sort(rng.exponential(size=200).round(2) + 0.01)
        levels = Levels(*np.unique(numbers, return_counts=True))
        lower, upper = joined(levels, cells)
        for found in (lower, upper):
            assert found.counts.sum() == 200 and (np.diff(found.levels) > 0).all()
            assert found.levels @ found.counts == pytest.approx(numbers.sum(), rel=1e-13)
        assert lower.levels.size <= cells + 1 and upper.levels.size <= 3 * (cells + 1)
        # majorisation: the sum of the largest k, for every k
        largest = [np.cumsum(np.sort(np.repeat(found.levels, found.counts))[::-1]) for found in (lower, levels, upper)]
        assert (largest[0] <= largest[1] + 1e-11).all() and (largest[1] <= largest[2] + 1e-11).all()


@pytest.mark.parametrize("n", [2, 10**9])
def test_the_maximum_with_joined_eigenvalues_is_that_of_all(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    eigenvalues = np.random.default_rng(6).exponential(size=2500)
    monkeypatch.setattr(_gradient_mse, "_FEWEST_CELLS", 100)
    monkeypatch.setattr(_gradient_mse, "_JOINED", 1e-4)
    few = gradients.expected_max_quadratic_form(eigenvalues, n)
    monkeypatch.setattr(_gradient_mse, "_MOST_DIFFERENT", 10**9)
    every = gradients.expected_max_quadratic_form(eigenvalues, n)
    assert 0 < abs(few / every - 1) <= 1e-4


def test_a_million_different_eigenvalues() -> None:
    eigenvalues = np.random.default_rng(7).random(10**6)
    # nearly normal: E max of two is mean + deviation / sqrt(pi)
    deviation = math.sqrt(2 * float(np.square(eigenvalues).sum()))
    found = gradients.expected_max_quadratic_form(eigenvalues, 2)
    assert found - eigenvalues.sum() == pytest.approx(deviation / math.sqrt(math.pi), rel=1e-4)
