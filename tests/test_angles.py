"""The distortion angle against closed forms, Bessel functions and its own laws."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ive

from dptheory.angles import DistortionAngle, small_snr_slope


@pytest.mark.parametrize("snr", [1e-9, 0.3, 1.0, 5.0, 30.0, 1e6, 1e12])
def test_one_and_two_dimensions(snr: float) -> None:
    assert DistortionAngle(1, snr).expected_cos() == pytest.approx(math.erf(snr / math.sqrt(2)), rel=1e-13)
    if snr > 1e3:  # SciPy's Bessel functions give up there
        assert DistortionAngle(2, snr).expected_cos() == pytest.approx(1 - 0.5 / snr**2, rel=1e-12)
        return
    half = snr**2 / 4
    plane = math.sqrt(math.pi / 8) * snr * (ive(0, half) + ive(1, half))
    assert DistortionAngle(2, snr).expected_cos() == pytest.approx(plane, rel=1e-12)


@pytest.mark.parametrize("dim", [3, 50, 10**4, 10**9])
@pytest.mark.parametrize("snr", [1e-6, 1.0, 40.0])
def test_against_the_confluent_function(dim: int, snr: float) -> None:
    with mpmath.workdps(40):
        d, kappa = mpmath.mpf(dim), mpmath.mpf(snr)
        gamma = mpmath.exp(mpmath.loggamma((d + 1) / 2) - mpmath.loggamma(d / 2 + 1))
        # Kummer's transformation keeps the series free of cancellation.
        series = mpmath.hyp1f1((d + 1) / 2, d / 2 + 1, kappa**2 / 2)
        exact = kappa / mpmath.sqrt(2) * gamma * mpmath.exp(-(kappa**2) / 2) * series
    assert DistortionAngle(dim, snr).expected_cos() == pytest.approx(float(exact), rel=1e-11)


@given(st.integers(1, 10**9), st.floats(0, 1e12))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_between_zero_and_one_and_falling_in_dim(dim: int, snr: float) -> None:
    value = DistortionAngle(dim, snr).expected_cos()
    assert 0 <= value <= 1
    if dim < 10**9:
        assert DistortionAngle(dim + 1, snr).expected_cos() <= value * (1 + 1e-12)


def test_limits() -> None:
    assert DistortionAngle(7, 0.0).expected_cos() == 0.0
    assert DistortionAngle(7, math.inf).expected_cos() == 1.0
    assert DistortionAngle(10**6, 1e-3).expected_cos() == pytest.approx(1e-3 * small_snr_slope(10**6), rel=1e-9)
    assert small_snr_slope(10**9) == pytest.approx(1 / math.sqrt(10**9), rel=1e-8)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((0, 1.0), "dim"), ((10**9 + 1, 1.0), "dim"), ((2, -1.0), "snr"), ((2, math.nan), "snr"), ((2.0, 1.0), "dim")],
)
def test_bad_input(arguments, name) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=rf"^{name} must .*got"):
        DistortionAngle(*arguments)
    if name == "dim":
        with pytest.raises(ValueError, match=r"^dim must"):
            small_snr_slope(arguments[0])
