"""One clipped gradient: angles, the clip operator, and one clipped normal variable."""

import itertools
import math
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ive
from scipy.stats import ncx2

from dptheory import freezing, gradients
from dptheory.gradients import (
    DistortionAngle,
    _angles,
    angle_range,
    angle_summary,
    angle_variance,
    batch_expected_cos,
    small_snr_slope,
)
from tests.refused import refused

# --- The distortion angle against closed forms, Bessel functions, mpmath and its own laws ---


@pytest.mark.parametrize("snr", [1e-9, 0.3, 1.0, 5.0, 30.0, 1e6, 1e12])
def test_one_and_two_dimensions(snr: float) -> None:
    assert DistortionAngle(1, snr=snr).expected_cos() == pytest.approx(math.erf(snr / math.sqrt(2)), rel=1e-13)
    if snr > 1e3:  # SciPy's Bessel functions give up there
        assert DistortionAngle(2, snr=snr).expected_cos() == pytest.approx(1 - 0.5 / snr**2, rel=1e-12)
        return
    half = snr**2 / 4
    plane = math.sqrt(math.pi / 8) * snr * (ive(0, half) + ive(1, half))
    assert DistortionAngle(2, snr=snr).expected_cos() == pytest.approx(plane, rel=1e-12)


@pytest.mark.parametrize("dim", [3, 50, 10**4, 10**9])
@pytest.mark.parametrize("snr", [1e-6, 1.0, 40.0])
def test_against_the_confluent_function(dim: int, snr: float) -> None:
    with mpmath.workdps(40):
        d, kappa = mpmath.mpf(dim), mpmath.mpf(snr)
        gamma = mpmath.exp(mpmath.loggamma((d + 1) / 2) - mpmath.loggamma(d / 2 + 1))
        # Kummer's transformation keeps the series free of cancellation.
        series = mpmath.hyp1f1((d + 1) / 2, d / 2 + 1, kappa**2 / 2)
        exact = kappa / mpmath.sqrt(2) * gamma * mpmath.exp(-(kappa**2) / 2) * series
    assert DistortionAngle(dim, snr=snr).expected_cos() == pytest.approx(float(exact), rel=1e-11)


@given(st.integers(1, 10**9), st.floats(0, 1e12))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_between_zero_and_one_and_falling_in_dim(dim: int, snr: float) -> None:
    value = DistortionAngle(dim, snr=snr).expected_cos()
    assert 0 <= value <= 1
    if dim < 10**9:
        assert DistortionAngle(dim + 1, snr=snr).expected_cos() <= value * (1 + 1e-12)


def test_limits() -> None:
    assert DistortionAngle(7, snr=0.0).expected_cos() == 0.0
    assert DistortionAngle(7, snr=math.inf).expected_cos() == 1.0
    assert DistortionAngle(10**6, snr=1e-3).expected_cos() == pytest.approx(1e-3 * small_snr_slope(10**6), rel=1e-9)
    assert small_snr_slope(10**9) == pytest.approx(1 / math.sqrt(10**9), rel=1e-8)


def _cartesian_moments(dim: int, snr: float) -> tuple[float, float]:
    """Mean and variance of atan2(R, X) about a reference; exact where (X, R) stays away from the origin.

    Gauss points in double precision: X = snr + x and R = peak + y are kept as their distances x and y from where they
    are likeliest, so that the angle from the reference is one arctangent of a difference that is formed without cancellation.
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    side, peak = math.sqrt(dim - 1), math.sqrt(dim - 2)
    low = max(-10.0, -peak)
    x, y = 11 * nodes, low + (10 - low) * (nodes + 1) / 2
    with mpmath.workdps(40):  # the logarithm and the squares cancel
        start = mpmath.sqrt(dim - 2)
        shapes = [(dim - 2) * mpmath.log1p(mpmath.mpf(v) / start) if dim > 2 else 0 for v in y.tolist()]
        chi = np.array(
            [float(mpmath.exp(t - start * v - mpmath.mpf(v) ** 2 / 2)) for t, v in zip(shapes, y, strict=True)]
        )
    above = (y - 1 / (peak + side))[:, None] * snr - side * x
    gap = np.arctan2(above, (snr + x) * snr + (peak + y)[:, None] * side)
    mass = (weights * chi)[:, None] * weights * np.exp(-(x**2) / 2)
    mass /= mass.sum()
    shift = float((mass * gap).sum())
    return math.atan2(side, snr) + shift, float((mass * gap**2).sum()) - shift**2


@pytest.mark.parametrize("dim", [10**3, 10**6, 10**9])
@pytest.mark.parametrize("snr", [0.0, 1e-8, 1e-3, 1.0, 30.0, 1e3, 31623.0, 1e6, 1e12])
def test_moments_in_high_dimension(dim: int, snr: float) -> None:
    mean, var = _cartesian_moments(dim, snr)
    assert DistortionAngle(dim, snr=snr).mean() == pytest.approx(mean, rel=1e-14, abs=0)
    assert DistortionAngle(dim, snr=snr).var() == pytest.approx(var, rel=1e-11, abs=0)


@pytest.mark.parametrize("dim", [2, 3, 10])
@pytest.mark.parametrize("snr", [1e3, 1e6, 1e12])
def test_moments_of_tiny_angles(dim: int, snr: float) -> None:
    mean, var = _cartesian_moments(dim, snr)
    assert DistortionAngle(dim, snr=snr).mean() == pytest.approx(mean, rel=1e-13, abs=0)
    assert DistortionAngle(dim, snr=snr).var() == pytest.approx(var, rel=1e-12, abs=0)


def _density(dim: int, snr: float, angle: mpmath.mpf) -> mpmath.mpf:
    d, c = mpmath.mpf(dim), snr * mpmath.cos(angle)
    even = mpmath.gamma(d / 2) * mpmath.hyp1f1(d / 2, 0.5, c * c / 2) / mpmath.sqrt(2)
    odd = mpmath.gamma((d + 1) / 2) * c * mpmath.hyp1f1((d + 1) / 2, 1.5, c * c / 2)
    constant = mpmath.sqrt(2) / mpmath.sqrt(mpmath.pi) / mpmath.gamma((d - 1) / 2)
    return constant * mpmath.sin(angle) ** (dim - 2) * mpmath.exp(-(mpmath.mpf(snr) ** 2) / 2) * (even + odd)


def _mass(dim: int, snr: float, low: mpmath.mpf, high: mpmath.mpf) -> mpmath.mpf:
    """Integral of the density, about 1 times a scale because mpmath's tolerance is absolute."""
    middle = (low + high) / 2
    top = max(_density(dim, snr, g) for g in (low, middle, high))
    return top * mpmath.quad(
        lambda g: _density(dim, snr, g) / top, [low, middle, high], method="gauss-legendre", maxdegree=5
    )


@pytest.mark.parametrize("dim", [2, 3, 30])
@pytest.mark.parametrize("snr", [0.0, 1.0, 5.0])
def test_law_in_low_dimension(dim: int, snr: float) -> None:
    angle, x = DistortionAngle(dim, snr=snr), np.array([0.05, 0.5, 1.6, 3.0])
    with mpmath.workdps(60):
        exact = [_density(dim, snr, mpmath.mpf(float(g))) for g in x]
        parts = [mpmath.mpf(0), *map(mpmath.mpf, x.tolist()), +mpmath.pi]
        masses = [_mass(dim, snr, low, high) for low, high in itertools.pairwise(parts)]
        below, above = np.cumsum(masses)[:-1], np.cumsum(masses[::-1])[::-1][1:]
    assert angle.density(x) == pytest.approx(np.array(exact, dtype=float), rel=1e-11, abs=0)
    assert angle.cdf(x) == pytest.approx(np.array(below, dtype=float), rel=1e-11, abs=0)
    assert angle.sf(x) == pytest.approx(np.array(above, dtype=float), rel=1e-11, abs=0)


def _far_tail(dim: int, snr: float, angle: float, sign: int) -> float:
    """P(sign * (snr - R cot(angle)) + N(0, 1) > 0) around the peak of its log-concave integrand."""
    with mpmath.workdps(40):
        snr, cot = mpmath.mpf(snr), mpmath.cot(mpmath.mpf(angle))
        constant = (3 - dim) * mpmath.log(2) / 2 - mpmath.loggamma(mpmath.mpf(dim - 1) / 2)

        def log_integrand(r: mpmath.mpf) -> mpmath.mpf:
            return (dim - 2) * mpmath.log(r) - r * r / 2 + mpmath.log(mpmath.ncdf(sign * (snr - r * cot))) + constant

        low, high = mpmath.sqrt(dim) / 2, 2 * mpmath.sqrt(dim)
        for _ in range(60):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (left, high) if log_integrand(left) < log_integrand(right) else (low, right)
        points, weights = np.polynomial.legendre.leggauss(16)
        panels = [(j + (x + 1) / 2) * 12 / 10 for j in range(-10, 10) for x in points.tolist()]
        top = log_integrand(low)
        found = sum(
            w * mpmath.exp(log_integrand(low + x) - top)
            for x, w in zip(panels, np.tile(weights, 20).tolist(), strict=True)
        )
        return float(mpmath.exp(top) * found * 12 / 20)


@pytest.mark.parametrize(("dim", "snr"), [(1000, 30.0), (10**6, 1.0), (10**9, 31622.0)])
@pytest.mark.parametrize("spreads", [-20.0, 20.0])
def test_far_tails(dim: int, snr: float, spreads: float) -> None:
    angle = DistortionAngle(dim, snr=snr)
    x = angle.mean() + spreads * math.sqrt(angle.var())
    found = float(angle.cdf(x) if spreads < 0 else angle.sf(x))
    assert found == pytest.approx(_far_tail(dim, snr, x, 1 if spreads < 0 else -1), rel=1e-9, abs=0)
    assert 0 < found < 1e-50


def test_lower_tail_is_a_power_of_the_angle() -> None:
    assert DistortionAngle(3, snr=0.0).cdf(1e-9) == pytest.approx(0.25e-18, rel=1e-12, abs=0)
    assert DistortionAngle(3, snr=0.0).sf(math.pi - 1e-6) == pytest.approx(0.25e-12, rel=1e-9, abs=0)
    assert DistortionAngle(3, snr=5e9).cdf(1e-13) == pytest.approx(-math.expm1(-(5e-4**2) / 2), rel=1e-9, abs=0)


@given(st.integers(2, 10**9), st.floats(0, 1e300), st.floats(0, 1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_law_is_a_law(dim: int, snr: float, share: float) -> None:
    angle = DistortionAngle(dim, snr=snr)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean, var = angle.mean(), angle.var()
        x = np.append(np.clip(mean + np.linspace(-9, 9, 30) * math.sqrt(var), 0, math.pi), share * math.pi)
        below, above, density = angle.cdf(x), angle.sf(x), angle.density(x)
    assert 0 <= mean <= math.pi / 2 * (1 + 1e-15) and 0 <= var <= math.pi**2 / 12 + 1e-12
    assert below + above == pytest.approx(np.ones(31), abs=1e-11)
    assert (np.diff(below[:30]) >= -1e-11).all() and (density >= 0).all()
    assert angle.second_moment() == pytest.approx(mean**2 + var, rel=1e-14)
    assert angle.cdf(math.pi) == pytest.approx(1)


def test_no_noise_and_huge_snr() -> None:
    clean = DistortionAngle(5, snr=math.inf)
    assert (clean.mean(), clean.var(), clean.second_moment()) == (0, 0, 0)
    assert (clean.asymptotic_mean(), clean.asymptotic_var()) == (0, 0)
    assert clean.cdf([0.0, 1.0]).tolist() == [1, 1] and clean.sf([0.0, 1.0]).tolist() == [0, 0]
    assert clean.density([0.0, 1.0]).tolist() == [math.inf, 0]
    huge, large = DistortionAngle(5, snr=1e30), DistortionAngle(5, snr=1e15)
    assert huge.mean() == pytest.approx(1e-15 * large.mean(), rel=1e-14, abs=0)
    assert huge.cdf(2e-30) == pytest.approx(float(large.cdf(2e-15)), rel=1e-12, abs=0)
    assert huge.density(2e-30) == pytest.approx(1e15 * float(large.density(2e-15)), rel=1e-12, abs=0)
    assert huge.sf(0.1) == 0 and huge.density(0.1) == 0
    for call in (DistortionAngle(5, snr=1e308).mean, DistortionAngle(5, snr=1e308).asymptotic_mean):
        assert call() == pytest.approx(1.9e-308, rel=0.1, abs=0)
    assert DistortionAngle(5, snr=1e308).var() == DistortionAngle(5, snr=1e308).asymptotic_var() == 0


def test_asymptotic_forms() -> None:
    for dim in (2, 7, 100, 10**5, 10**8):
        for ratio in (0.0, 0.1, 0.5, 1.0, 3.0, 1e3):
            angle = DistortionAngle(dim, snr=ratio * math.sqrt(dim))
            assert -0.09 <= (dim - 1) * (angle.asymptotic_mean() / angle.mean() - 1) <= 0.26
            assert -1.13 <= dim * (angle.asymptotic_var() / angle.var() - 1) <= 0.76


def test_shapes() -> None:
    angle = DistortionAngle(4, snr=1.0)
    for method in (angle.cdf, angle.sf, angle.density):
        assert method(1.0).shape == () and method(np.ones((2, 3))).shape == (2, 3) and method([]).shape == (0,)
    low, high = angle_range(bias_angle=[0.5, 2.5], noise_angle=1.0)
    assert low.tolist() == [0.5, 1.5] and high == pytest.approx(np.array([1.5, 2 * math.pi - 3.5]))
    assert batch_expected_cos(cos_bias=[1.0, 0.0, -1.0], dim=4, snr=1.0) == pytest.approx(
        angle.expected_cos() * np.array([1, 0, -1])
    )


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: DistortionAngle(1, snr=1.0).mean(), "dim"),
        (lambda: DistortionAngle(1, snr=1.0).cdf(1.0), "dim"),
        (lambda: DistortionAngle(1, snr=math.inf).var(), "dim"),
        (lambda: DistortionAngle(1, snr=1.0).asymptotic_mean(), "dim"),
        (lambda: DistortionAngle(2, snr=1.0).cdf(-0.1), "x"),
        (lambda: DistortionAngle(2, snr=1.0).sf([0.1, 3.2]), "x"),
        (lambda: angle_range(bias_angle=-1.0, noise_angle=0.1), "bias_angle"),
        (lambda: angle_range(bias_angle=1.0, noise_angle=4.0), "noise_angle"),
        (lambda: batch_expected_cos(cos_bias=1.1, dim=2, snr=1.0), "cos_bias"),
        (lambda: batch_expected_cos(cos_bias=1.0, dim=0, snr=1.0), "dim"),
        (lambda: batch_expected_cos(cos_bias=1.0, dim=2, snr=-1.0), "snr"),
    ],
)
def test_bad_input_of_the_law(call, name) -> None:  # type: ignore[no-untyped-def]
    with refused(name):
        call()


@pytest.mark.parametrize("dim", [2, 3, 5, 7, 8, 100, 10**6, 10**9])
def test_variance_with_a_bias_angle_has_the_mean_of_the_other_formula(dim: int) -> None:
    """The double integral gives the mean angle too, which freezing.expected_angle has from one integral."""
    for snr in (0.0, 1e-3, 0.5, 3.0, math.sqrt(dim), 30 * math.sqrt(dim), 1e15, 1e40):
        variances = {}
        for bias in (0.0, 1e-10, 0.01, 0.6, 1.5, math.pi / 2):
            mean, variances[bias] = _angles.shift_moments(dim, snr, bias)
            assert mean == pytest.approx(
                freezing.expected_angle(dim, snr=snr, bias_angle=bias) - bias,
                abs=1e-9 * math.sqrt(variances[bias]) + 2e-15,
            )
        assert angle_variance(dim, snr=snr) == variances[0.0]
        assert angle_variance(dim, snr=snr, bias_angle=0.6) == variances[0.6]
        assert variances[0.0] == pytest.approx(DistortionAngle(dim, snr=snr).var(), rel=1e-9)
        assert angle_variance(dim, snr=snr, bias_angle=math.pi - 0.6) == pytest.approx(variances[0.6], rel=1e-9)


def test_variance_of_a_large_signal_with_a_bias_angle_of_the_size_of_the_noise_angle() -> None:
    """snr * gamma tends to the length of d - 1 standard normals, one with the mean snr * bias: a noncentral chi law."""
    snr = 1e9
    for dim in (2, 3, 4, 9):
        n = dim - 1
        for shift in (1e-3, 0.04, 0.7, 3.0, 12.0):
            with mpmath.workdps(30):
                mean = mpmath.sqrt(2) * mpmath.gamma((n + 1) / mpmath.mpf(2)) / mpmath.gamma(n / mpmath.mpf(2))
                mean *= mpmath.hyp1f1(-0.5, n / mpmath.mpf(2), -(mpmath.mpf(shift) ** 2) / 2)
                limit = float(n + mpmath.mpf(shift) ** 2 - mean**2)
            assert angle_variance(dim, snr=snr, bias_angle=shift / snr) * snr**2 == pytest.approx(limit, rel=1e-11)


def test_variance_without_signal_does_not_depend_on_the_bias() -> None:
    for dim in (2, 3, 12, 1000, 10**6, 10**8, 10**9):
        values = [angle_variance(dim, snr=0.0, bias_angle=bias) for bias in (0.0, 0.4, 1.5, math.pi / 2, 3.0)]
        assert values == pytest.approx([DistortionAngle(dim, snr=0.0).var()] * 5, rel=1e-10, abs=0.0)


@pytest.mark.parametrize(
    ("dim", "snr", "bias"), [(10**9, 31623.0, 1.3), (10**9, 1e6, 0.5), (10**8, 1e4, 1.0), (10**6, 1e3, 1.0)]
)
def test_variance_with_a_bias_angle_in_high_dimension(dim: int, snr: float, bias: float) -> None:
    """The trapezoidal rule, in 40 digits, over the parts along u, in the plane of u and s, and the length of the rest."""
    with mpmath.workdps(40):
        along, aside = snr * mpmath.cos(bias), snr * mpmath.sin(bias)
        peak, centre = mpmath.sqrt(mpmath.mpf(dim - 3)), mpmath.atan2(mpmath.hypot(aside, mpmath.sqrt(dim - 2)), along)
        steps = [mpmath.mpf(j) * 7 / 10 for j in range(-12, 13)]
        normal = [(z, mpmath.exp(-z * z / 2)) for z in steps]
        lengths = [(peak + z / mpmath.sqrt(2)) for z in steps]
        rest = [(r, mpmath.exp((dim - 3) * mpmath.log(r / peak) - (r * r - peak * peak) / 2)) for r in lengths]
        across = [(mpmath.hypot(aside + z, r), a * b) for z, a in normal for r, b in rest]
        drawn = [(a * b, mpmath.atan2(t, along + z) - centre) for t, a in across for z, b in normal]
        total, mean, square = (mpmath.fsum(weight * angle**p for weight, angle in drawn) for p in range(3))
        exact = float(square / total - (mean / total) ** 2)
    assert angle_variance(dim, snr=snr, bias_angle=bias) == pytest.approx(exact, rel=1e-10, abs=0.0)
    assert angle_variance(5, snr=math.inf, bias_angle=1.0) == 0.0


@pytest.mark.parametrize(
    ("dim", "snr"), [(2, 0.0), (10, 3.0), (1000, 20.0), (100_000, 30.0), (10**9, 1e6), (1000, 1e30)]
)
def test_quantiles_have_their_probability(dim: int, snr: float) -> None:
    law = DistortionAngle(dim, snr=snr)
    for share in (0.001, 0.05, 0.5, 0.95, 0.999):
        assert float(law.cdf(law.quantile(share))) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 10, 10**6, 10**9])
@pytest.mark.parametrize("snr", [0.0, 1.0, 10.0, 1e3, 1e6])
def test_quantiles_of_the_last_floats_below_one(dim: int, snr: float) -> None:
    """The sum of all masses rounds to less than these, and there was no root; the upper tail has its digits."""
    law = DistortionAngle(dim, snr=snr)
    for ulps in (9, 4, 3, 2, 1):
        angle = law.quantile(1 - ulps * 2.0**-53)
        assert 0.0 < angle <= math.pi
        # In the plane the density is of order 1 at pi, and the angle is found to some 1e-14.
        assert float(law.sf(angle)) == pytest.approx(
            ulps * 2.0**-53, rel=1e-6, abs=3e-15 if dim == 2 and angle > 3 else 0.0
        )


def test_quantiles_of_the_smallest_shares_are_found() -> None:
    """A search in subnormal probabilities took more than 100 iterations at 1e-310."""
    for dim, snr in ((2, 0.0), (3, 1.0), (10, 1e3), (1000, 10.0), (10**6, 0.0), (10**9, 1e6)):
        law = DistortionAngle(dim, snr=snr)
        found = [law.quantile(share) for share in (5e-324, 1e-310, 1e-300, 1e-100)]
        assert found == sorted(found) and found[-1] < law.mean()
        assert float(law.cdf(found[2])) == pytest.approx(1e-300, rel=1e-8, abs=0.0)


def test_quantiles_of_the_sphere_have_a_closed_form() -> None:
    """dim = 3 without a signal: P(angle > x) = cos^2(x / 2)."""
    law = DistortionAngle(3, snr=0.0)
    for rest in (2.0**-53, 2.0**-52, 1e-12, 1e-3):
        with mpmath.workdps(40):
            share = mpmath.mpf(1 - rest)
            exact = float(2 * mpmath.acos(mpmath.sqrt(1 - share)))
        assert law.quantile(1 - rest) == pytest.approx(exact, rel=4e-16)
    for share in (1e-300, 1e-12, 1e-3):
        assert law.quantile(share) == pytest.approx(2 * math.asin(math.sqrt(share)), rel=1e-10, abs=0.0)


def test_without_noise_every_quantile_is_zero() -> None:
    assert [DistortionAngle(10, snr=math.inf).quantile(share) for share in (1e-9, 0.5, 0.999)] == [0.0] * 3
    assert angle_summary(10, snr=math.inf).expected_cos == 1.0


@pytest.mark.parametrize(("dim", "snr"), [(10, 3.0), (100_000, 30.0)])
def test_a_law_in_a_few_numbers(dim: int, snr: float) -> None:
    law, found = DistortionAngle(dim, snr=snr), angle_summary(dim, snr=snr)
    assert (found.expected_cos, found.mean, found.std) == (law.expected_cos(), law.mean(), math.sqrt(law.var()))
    for angle, share in ((found.quantile_05, 0.05), (found.median, 0.5), (found.quantile_95, 0.95)):
        assert float(law.cdf(angle)) == pytest.approx(share, abs=1e-9)


# --- The clip operator, its bound for symmetric deviations and its moments, against brute force and closed forms ---


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


# --- One clipped normal variable against closed forms in so many digits that their cancellation does not count ---


_NAMES = ("slope", "shortfall", "second_moment", "variance", "clip_probability")


def _exact(grad_norm: float, deviation: float, clip_norm: float) -> dict[str, mpmath.mpf]:
    """By partial moments of the normal law beyond either end, in 2,000 digits."""
    with mpmath.workdps(2000):
        w, s, c = map(mpmath.mpf, (grad_norm, deviation, clip_norm))
        ends = (c - w) / s, (c + w) / s
        tails = [mpmath.erfc(x / mpmath.sqrt(2)) / 2 for x in ends]
        densities = [mpmath.npdf(x) for x in ends]
        mean = [f - x * p for x, p, f in zip(ends, tails, densities, strict=True)]
        lost = sum((1 - x * x) * p + x * f for x, p, f in zip(ends, tails, densities, strict=True))
        shortfall = s * (mean[0] - mean[1]) / w if w else 2 * tails[0]
        variance = s * s * (1 - lost - (mean[0] - mean[1]) ** 2)
        values = (1 - shortfall, shortfall, variance + ((1 - shortfall) * w) ** 2, variance, sum(tails))
        return dict(zip(_NAMES, values, strict=True))


@pytest.mark.parametrize(
    ("grad_norm", "deviation", "clip_norm"),
    [
        *((w, 1.0, c) for w in (0.0, 1e-8, 0.3, 1.0, 2.0, 10.0, 36.0, 1e4) for c in (1e-8, 0.01, 1.0, 9.0, 36.5)),
        *((w, s, c) for w in (1.0, 1.0 + 1e-9, 1.1) for s in (1e-9, 1e-5, 0.03) for c in (1.0, 1.0 + 2e-9)),
        (1e10, 1.0, 1e10),
        (1.0, 0.05, 0.5),
        (0.5, 0.05, 1.0),
        (1e-5, 100.0, 0.01),
        (1e70, 1e69, 1e-70),
        (1e-70, 1e-71, 1e70),
    ],
)
def test_every_moment(grad_norm: float, deviation: float, clip_norm: float) -> None:
    found = gradients.gaussian_clip_moments(grad_norm=grad_norm, dim=1, deviation=deviation, clip_norm=clip_norm)
    for name, exact in _exact(grad_norm, deviation, clip_norm).items():
        assert getattr(found, name) == pytest.approx(float(exact), rel=1e-11, abs=1e-300), name
    chance = gradients.clip_probability(grad_norm=grad_norm, dim=1, deviation=deviation, clip_norm=clip_norm)
    assert chance == found.clip_probability


@pytest.mark.parametrize("deviation", [0.0, 5e-324, 1e-300])
@pytest.mark.parametrize("dim", [1, 2])
def test_without_deviation(dim: int, deviation: float) -> None:
    long, short, edge = (
        gradients.gaussian_clip_moments(grad_norm=w, dim=dim, deviation=deviation, clip_norm=1.0)
        for w in (4.0, 0.25, 1.0)
    )
    assert (long.slope, long.shortfall, long.variance, long.clip_probability) == (0.25, 0.75, 0.0, 1.0)
    assert (short.slope, short.shortfall, short.second_moment, short.clip_probability) == (1.0, 0.0, 0.0625, 0.0)
    assert edge.slope == 1.0 and edge.shortfall == pytest.approx(
        deviation / math.sqrt(2 * math.pi), rel=1e-9, abs=1e-320
    )
    assert edge.clip_probability == (0.5 if deviation else 0.0)
