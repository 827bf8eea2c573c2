"""The clip operator, its bound for symmetric deviations and its moments, against brute force and closed forms."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import ncx2

from dptheory import gradients
from tests.named import by_name, in_order
from tests.refused import refused

NORMS = st.floats(1e-3, 1e3)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.floats(1e-3, 1e6))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_clip_scales_to_the_bound_and_leaves_short_rows_alone(entries: list[float], bound: float) -> None:
    norm = float(np.linalg.norm(entries))
    clipped = gradients.clip(entries, clip_norm=bound)
    if norm <= bound:
        assert clipped.tolist() == entries
    else:
        assert np.linalg.norm(clipped) == pytest.approx(bound, rel=1e-12)
        assert clipped == pytest.approx(np.array(entries) * bound / norm, rel=1e-12)
    assert gradients.clip(-np.array(entries), clip_norm=bound).tolist() == (-clipped).tolist()


def test_clip_of_extreme_rows() -> None:
    assert gradients.clip([[3e200, 4e200], [0.0, 0.0], [3e-200, 4e-200]], clip_norm=1.0).tolist() == [
        pytest.approx([0.6, 0.8], rel=1e-14),
        [0.0, 0.0],
        [3e-200, 4e-200],
    ]
    assert gradients.clip(np.zeros((2, 0)), clip_norm=1.0).shape == (2, 0)


@given(st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_clip_is_the_nearest_point_and_monotone(dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, dim)) * rng.exponential(2.0)
    p, q = gradients.clip(np.array([a, b]), clip_norm=1.0)
    inside = gradients.clip(rng.standard_normal((50, dim)), clip_norm=1.0)
    assert (np.linalg.norm(inside - a, axis=1) >= np.linalg.norm(p - a) - 1e-12).all()
    assert (a - b) @ (p - q) >= np.square(p - q).sum() - 1e-12


@given(NORMS, NORMS, st.lists(NORMS, min_size=1, max_size=8), st.floats(0.01, 0.99), st.floats(0.1, 10))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_bounds_of_symmetric_deviations(
    grad_norm: float, bound: float, norms: list[float], split: float, factor: float
) -> None:
    bounds = gradients.symmetric_clip_lower_bound(
        grad_norm=grad_norm, clip_norm=bound, deviation_norms=norms, deviation_share=split
    )
    assert 0.0 <= bounds.split <= bounds.integral * (1 + 1e-12) <= min(grad_norm, bound) * grad_norm * (1 + 2e-12)
    scaled = gradients.symmetric_clip_lower_bound(
        grad_norm=factor * grad_norm,
        clip_norm=factor * bound,
        deviation_norms=np.multiply(factor, norms),
        deviation_share=split,
    )
    assert scaled.integral == pytest.approx(
        factor**2 * bounds.integral, rel=1e-9, abs=1e-9 * grad_norm * bound * factor**2
    )
    assert gradients.symmetric_clip_lower_bound(
        grad_norm=grad_norm, clip_norm=bound, deviation_norms=norms[::-1], deviation_share=split
    ).integral == pytest.approx(bounds.integral)


def test_bound_without_deviation_is_exact() -> None:
    for grad_norm in (0.0, 0.5, 1.0, 7.0):
        bounds = gradients.symmetric_clip_lower_bound(grad_norm=grad_norm, clip_norm=1.0, deviation_norms=[0.0])
        assert bounds.integral == grad_norm * min(grad_norm, 1.0)
    assert gradients.symmetric_clip_lower_bound(
        grad_norm=0.5, clip_norm=1.0, deviation_norms=[2.0, 3.0]
    ) == gradients.SymmetricClipBound(split=0.0, integral=0.0)


@pytest.mark.parametrize(
    ("center", "deviation", "bound"),
    [(0.0, 1.0, 1.0), (0.5, 1.0, 0.8), (2.0, 0.3, 1.0), (1.0, 0.01, 1.0), (1.0, 5.0, 1e-3)],
)
def test_moments_in_one_dimension(center: float, deviation: float, bound: float) -> None:
    low, high = (-bound - center) / deviation, (bound - center) / deviation
    phi = [math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) for x in (low, high)]
    inside = float(ndtr(high) - ndtr(low))
    mean = bound * float(ndtr(-high) - ndtr(low)) + center * inside + deviation * (phi[0] - phi[1])
    square = bound**2 * float(ndtr(-high) + ndtr(low)) + (center**2 + deviation**2) * inside
    square += deviation * (2 * center * (phi[0] - phi[1]) + deviation * (low * phi[0] - high * phi[1]))
    moments = gradients.gaussian_clip_moments(grad_norm=center, dim=1, deviation=deviation, clip_norm=bound)
    assert moments.slope * center == pytest.approx(mean, rel=1e-9, abs=1e-15)
    assert moments.second_moment == pytest.approx(square, rel=1e-9)
    assert moments.clip_probability == pytest.approx(1 - inside, abs=1e-12)
    assert moments.variance == pytest.approx(square - mean**2, rel=1e-6, abs=1e-9 * square)


@pytest.mark.parametrize(
    ("freedom", "square"), [(10**8, 0.9999), (10**8, 1.0002), (10**6, 1.004), (10**4, 0.95), (3, 40.0)]
)
def test_central_tails_against_forty_digits(freedom: int, square: float) -> None:
    """SciPy's incomplete Gamma function is off by a quarter at 1e8 in the lower tail; the continued series is not."""
    x = square * freedom
    with mpmath.workdps(40):
        a, z = mpmath.mpf(freedom) / 2, mpmath.mpf(x) / 2
        term = mpmath.exp(a * mpmath.log(z) - z - mpmath.loggamma(a + 1))
        total, j = mpmath.mpf(0), 0
        while term > total * mpmath.mpf(10) ** -18:
            total += term
            j += 1
            term *= z / (a + j)
        upper = float(1 - total)
    assert gradients.clip_probability(
        grad_norm=0.0, dim=freedom, deviation=1.0, clip_norm=math.sqrt(x)
    ) == pytest.approx(upper, rel=2e-8)


@pytest.mark.parametrize("grad_norm", [1e-3, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("dim", [1, 7, 1000])
def test_clip_probability_against_scipy(grad_norm: float, dim: int) -> None:
    mean, spread = dim + grad_norm**2, math.sqrt(2 * dim + 4 * grad_norm**2)
    for square in (mean, mean + spread, mean + 5 * spread):
        found = gradients.clip_probability(grad_norm=grad_norm, dim=dim, deviation=1.0, clip_norm=math.sqrt(square))
        assert found == pytest.approx(float(ncx2.sf(square, dim, grad_norm**2)), rel=1e-7)


@given(NORMS, st.integers(1, 10**8), st.floats(1e-5, 10), st.floats(1e-2, 100), st.floats(0.01, 100))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_moments_scale_and_stay_in_range(
    grad_norm: float, dim: int, deviation: float, bound: float, factor: float
) -> None:
    moments = gradients.gaussian_clip_moments(grad_norm=grad_norm, dim=dim, deviation=deviation, clip_norm=bound)
    assert 0.0 <= moments.slope <= 1.0 and 0.0 <= moments.clip_probability <= 1.0
    assert moments.slope + moments.shortfall == pytest.approx(1.0, abs=1e-12)
    mean_square = grad_norm**2 + dim * deviation**2
    assert (moments.slope * grad_norm) ** 2 <= moments.second_moment * (1 + 1e-9)
    assert moments.second_moment <= min(mean_square, bound**2) * (1 + 1e-9)
    scaled = gradients.gaussian_clip_moments(
        grad_norm=factor * grad_norm, dim=dim, deviation=factor * deviation, clip_norm=factor * bound
    )
    assert scaled.slope == pytest.approx(moments.slope, rel=1e-8)
    assert scaled.second_moment == pytest.approx(factor**2 * moments.second_moment, rel=1e-8)


def test_large_dimension_follows_the_law_of_large_numbers() -> None:
    # |g|^2 concentrates at |w|^2 + d s^2 = 2: clip(g) is about C g / sqrt 2
    for dim, tolerance in ((10**6, 1e-5), (10**8, 1e-7)):
        moments = gradients.gaussian_clip_moments(grad_norm=1.0, dim=dim, deviation=dim**-0.5, clip_norm=0.5)
        assert moments.slope == pytest.approx(0.5 / math.sqrt(2), rel=tolerance)
        assert moments.second_moment == pytest.approx(0.25, rel=1e-12)
        assert moments.variance == pytest.approx(0.125, rel=tolerance)


@pytest.mark.parametrize("deviation", [0.0, 1e-300, 1e-14, 1e-12, 1e-9])
def test_small_deviations_join_the_limit(deviation: float) -> None:
    short, long = (
        gradients.gaussian_clip_moments(grad_norm=w, dim=5, deviation=deviation, clip_norm=1.0) for w in (0.5, 4.0)
    )
    assert short.slope == pytest.approx(1.0, rel=1e-9) and short.clip_probability == 0.0
    assert long.slope == pytest.approx(0.25, rel=1e-9) and long.clip_probability == 1.0
    assert long.second_moment == pytest.approx(1.0, rel=1e-9)
    at_the_bound = gradients.clip_probability(grad_norm=1.0, dim=5, deviation=deviation, clip_norm=1.0)
    assert at_the_bound == (0.0 if deviation == 0.0 else pytest.approx(0.5, abs=1e-6))
    assert gradients.gaussian_clip_moments(
        grad_norm=0.0, dim=5, deviation=deviation, clip_norm=1.0
    ).slope == pytest.approx(1.0)


def test_a_short_gradient_under_a_tiny_deviation_is_not_clipped() -> None:
    assert gradients.clip_probability(grad_norm=1e-30, dim=10**9, deviation=3e-15, clip_norm=1.0) == 0.0
    assert gradients.gaussian_clip_moments(
        grad_norm=1e-30, dim=10**9, deviation=3e-15, clip_norm=1.0
    ).second_moment == pytest.approx(9e-21)


NAN, INF = math.nan, math.inf
BAD = [
    (gradients.clip, ([1.0, NAN], 1.0), "gradient"),
    (gradients.clip, (1.0, 1.0), "gradient"),
    (gradients.clip, ([1.0], 0.0), "clip_norm"),
    (gradients.clip, ([1.0], INF), "clip_norm"),
    (gradients.symmetric_clip_lower_bound, (-1.0, 1.0, [1.0]), "grad_norm"),
    (gradients.symmetric_clip_lower_bound, (1.0, 0.0, [1.0]), "clip_norm"),
    (gradients.symmetric_clip_lower_bound, (1.0, 1.0, []), "deviation_norms"),
    (gradients.symmetric_clip_lower_bound, (1.0, 1.0, 1.0), "deviation_norms"),
    (gradients.symmetric_clip_lower_bound, (1.0, 1.0, [-1.0]), "deviation_norms"),
    (gradients.symmetric_clip_lower_bound, (1.0, 1.0, [1.0], 0.0), "deviation_share"),
    (gradients.symmetric_clip_lower_bound, (1.0, 1.0, [1.0], 1.0), "deviation_share"),
    *(
        (function, arguments, name)
        for function in (gradients.clip_probability, gradients.gaussian_clip_moments)
        for arguments, name in (
            ((-1.0, 1, 1.0, 1.0), "grad_norm"),
            ((INF, 1, 1.0, 1.0), "grad_norm"),
            ((1.0, 0, 1.0, 1.0), "dim"),
            ((1.0, 10**9 + 1, 1.0, 1.0), "dim"),
            ((1.0, 2.5, 1.0, 1.0), "dim"),
            ((1.0, 1, -1.0, 1.0), "deviation"),
            ((1.0, 1, NAN, 1.0), "deviation"),
            ((1.0, 1, 1.0, 0.0), "clip_norm"),
            ((1.0, 1, 1.0, INF), "clip_norm"),
        )
    ),
]


@pytest.mark.parametrize(("function", "arguments", "name"), BAD, ids=lambda x: getattr(x, "__name__", str(x)))
def test_bad_input_names_the_argument(function, arguments, name) -> None:  # type: ignore[no-untyped-def]
    with refused(name):
        in_order(function, arguments)


def test_variance_far_below_the_squared_bound() -> None:
    """Every gradient is clipped, nine digits; the difference C^2 - |a w|^2 gave 0 or 4.4e-16."""
    found = gradients.gaussian_clip_moments(grad_norm=562.015, dim=100, deviation=1e-6, clip_norm=1.0)
    assert found.variance == pytest.approx(99 * (1e-6 / 562.015) ** 2, rel=1e-9)
    for deviation in (1e-6, 1.0000001e-6, 1e-5, 1e-4, 1e-3):
        found = gradients.gaussian_clip_moments(grad_norm=10.0, dim=50, deviation=deviation, clip_norm=1.0)
        assert found.variance == pytest.approx(49 * (deviation / 10) ** 2, rel=30 * (deviation / 10) ** 2 * 50 + 1e-9)


@pytest.mark.parametrize("dim", [1, 2, 300])
def test_variance_is_smooth_in_the_deviation_at_the_edge_of_the_ball(dim: int) -> None:
    """|w| = C: the variance over s^2 tends to dim - 1 + the variance of min(z, 0), through all branches."""
    limit = dim - 1 + 0.5 - 1 / (2 * np.pi)
    for deviation in 10.0 ** np.arange(-13.0, -4.0):
        found = (
            gradients.gaussian_clip_moments(grad_norm=1.0, dim=dim, deviation=float(deviation), clip_norm=1.0).variance
            / float(deviation) ** 2
        )
        assert found == pytest.approx(limit, rel=3e-4 + 3 * dim * float(deviation))


@pytest.mark.parametrize("bound", [5e-324, 1.0, 1e308])
def test_clip_at_both_ends_of_the_floats(bound: float) -> None:
    clipped = gradients.clip([[1e308] * 4, [5e-324, 0.0, 0.0, 0.0]], clip_norm=bound)
    assert clipped[0] == pytest.approx([min(bound / 2, 1e308)] * 4, rel=1e-12)
    assert clipped[1].tolist() == [5e-324, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((1.0, 100, 1e155, 1.0), "deviation"), ((1e200, 3, 1.0, 1.0), "grad_norm"), ((1.0, 3, 1.0, 5e-324), "clip_norm")],
)
def test_sizes_beyond_the_limits(arguments: tuple[float, int, float, float], name: str) -> None:
    with refused(name):
        gradients.gaussian_clip_moments(**by_name("grad_norm dim deviation clip_norm", arguments))


def _beyond(grad_norm: float, dim: int, deviation: float, bound: float) -> tuple[float, float]:
    """P(|g| > C) and 1 - a in 40 digits: Gauss-Legendre rules over the normal part z along w and the length r of the rest."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    with mpmath.workdps(40):
        w, s, c, freedom = *map(mpmath.mpf, (grad_norm, deviation, bound)), mpmath.mpf(dim - 1)
        peak = mpmath.sqrt(max(freedom - 1, 0))
        low, high = max(mpmath.mpf(0), peak - 9), peak + 9
        chance = shortfall = mpmath.mpf(0)
        for node, weight in zip(nodes, weights, strict=True):
            r = low + (high - low) * (1 + mpmath.mpf(node)) / 2
            mass = (
                (freedom - 1) * mpmath.log(r)
                - r * r / 2
                - (freedom / 2 - 1) * mpmath.log(2)
                - mpmath.loggamma(freedom / 2)
            )
            share = weight * (high - low) / 2 * mpmath.exp(mass)
            start = (mpmath.sqrt(c * c - (s * r) ** 2) - w) / s
            length = 11 - min(start, 0)
            for inner, part in zip(nodes, weights, strict=True):
                z = start + length * (1 + mpmath.mpf(inner)) / 2
                density = share * part * length / 2 * mpmath.npdf(z)
                norm = mpmath.hypot(w + s * z, s * r)
                chance += density
                shortfall += density * (norm - c) * (w + s * z) / norm / w
        return float(chance), float(shortfall)


@pytest.mark.parametrize(
    ("dim", "deviation", "cut"),
    [(2, 1e-11, 0), (5, 1e-9, 2), (5, 1e-9, 8), (5, 1e-9, -2), (2, 1e-7, 5), (10**4, 3e-10, 0), (10**6, 1e-9, 5)],
)
def test_shortfall_under_a_small_deviation(dim: int, deviation: float, cut: float) -> None:
    """|w| = 1, C = 1 + cut s: squares of |w| / s and C / s had lost the digits of their difference."""
    bound = 1.0 + cut * deviation
    found = gradients.gaussian_clip_moments(grad_norm=1.0, dim=dim, deviation=deviation, clip_norm=bound)
    chance, shortfall = _beyond(1.0, dim, deviation, bound)
    assert found.clip_probability == pytest.approx(chance, rel=4e-9, abs=1e-40)
    assert found.shortfall == pytest.approx(shortfall, rel=4e-9, abs=1e-40)


def test_deviations_far_beyond_the_bound() -> None:
    assert gradients.clip_probability(grad_norm=0.0, dim=2, deviation=1e70, clip_norm=1e-70) == 1.0
    found = gradients.gaussian_clip_moments(grad_norm=0.0, dim=2, deviation=1e70, clip_norm=1e-70)
    assert found.second_moment == pytest.approx(1e-140, rel=1e-9, abs=0)
