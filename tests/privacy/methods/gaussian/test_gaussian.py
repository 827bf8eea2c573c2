"""The exact Gaussian trade-off against mpmath, its inverses, limits and order."""

import math
import random

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptheory import privacy
from tests.refused import refused

MUS = st.floats(-6, 4).map(lambda u: 10.0**u)
LOG_DELTAS = st.floats(-300, -0.001)


def exact_log_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)

        def phi(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        return mpmath.log(phi(m / 2 - e / m) - mpmath.exp(e) * phi(-m / 2 - e / m))


def points(n: int) -> list[tuple[float, float]]:
    """(mu, epsilon) with delta from 1 - 1e-16 to 1e-300, at every size of mu."""
    rng = random.Random(0)
    found = []
    while len(found) < n:
        mu = 10 ** rng.uniform(-6, 4)
        offset = rng.uniform(-8, 37) if rng.random() < 0.8 else -mu / 2
        epsilon = mu * (offset + mu / 2)
        if offset >= -8 and 0 <= epsilon <= 1e6:
            found.append((mu, epsilon))
    return found


def test_delta_agrees_with_400_digits() -> None:
    for mu, epsilon in points(250):
        exact = exact_log_delta(mu, epsilon)
        assert abs(float(privacy.gaussian_log_delta(mu, epsilon) - exact)) < 1e-9, (mu, epsilon)
        if exact > -690:
            assert privacy.gaussian_delta(mu, epsilon) == pytest.approx(float(mpmath.exp(exact)), rel=1e-9)


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(1.0, 0.0), (1e-6, 0.0), (1e4, 0.0), (12.0, 0.0), (1e-3, 1.0), (1e-6, 1e-5), (0.2, 1e3)]
)
def test_log_delta_where_delta_underflows_or_rounds_to_one(mu: float, epsilon: float) -> None:
    exact = exact_log_delta(mu, epsilon)
    assert privacy.gaussian_log_delta(mu, epsilon) == pytest.approx(float(exact), rel=1e-12, abs=0)


@given(mu=MUS)
def test_no_epsilon_is_total_variation(mu: float) -> None:
    assert privacy.gaussian_delta(mu, 0.0) == pytest.approx(math.erf(mu / math.sqrt(8)), rel=1e-13)


@given(mu=MUS, log10_delta=LOG_DELTAS)
def test_epsilon_and_back(mu: float, log10_delta: float) -> None:
    delta = 10.0**log10_delta
    epsilon = privacy.gaussian_epsilon(mu, delta)
    if epsilon > 0:
        assert privacy.gaussian_log_delta(mu, epsilon) == pytest.approx(math.log(delta), rel=1e-12, abs=1e-10)
    else:
        assert privacy.gaussian_delta(mu, 0.0) <= delta * (1 + 1e-12)
    assert epsilon <= privacy.gaussian_rdp_epsilon(mu, delta)


@given(log10_epsilon=st.floats(-12, 6), log10_delta=LOG_DELTAS)
def test_mu_and_back(log10_epsilon: float, log10_delta: float) -> None:
    epsilon, delta = 10.0**log10_epsilon, 10.0**log10_delta
    mu = privacy.gaussian_mu(epsilon, delta)
    assert privacy.gaussian_log_delta(mu, epsilon) == pytest.approx(math.log(delta), rel=1e-12, abs=1e-10)
    assert mu >= privacy.gaussian_rdp_mu(epsilon, delta)


@given(log10_epsilon=st.floats(-12, 6), log10_delta=LOG_DELTAS)
def test_rdp_and_back(log10_epsilon: float, log10_delta: float) -> None:
    epsilon, delta = 10.0**log10_epsilon, 10.0**log10_delta
    mu = privacy.gaussian_rdp_mu(epsilon, delta)
    assert privacy.gaussian_rdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-12)
    log_inverse = -math.log(delta)
    order = 1 + math.sqrt(2 * log_inverse) / mu
    assert epsilon == pytest.approx(order * mu**2 / 2 + log_inverse / (order - 1), rel=1e-9)


@given(mu=MUS, epsilon=st.floats(0, 1e6), factor=st.floats(1.001, 3))
def test_delta_rises_with_mu_and_falls_with_epsilon(mu: float, epsilon: float, factor: float) -> None:
    here = privacy.gaussian_log_delta(mu, epsilon)
    assert privacy.gaussian_log_delta(mu * factor, epsilon) >= here
    assert privacy.gaussian_log_delta(mu, epsilon * factor) <= here


def test_both_branches_meet() -> None:
    """The difference of the two Mills ratios and its integral take over from each other at mu = 1 + x; the tail at x = -1."""
    for x, mu in ((0.5, 1.5), (3.0, 4.0), (-0.9, 1.9), (-1.0, 3.0), (30.0, 31.0)):
        for step in (1 - 1e-9, 1 + 1e-9):
            epsilon = mu * step * (x + mu * step / 2)
            exact = float(exact_log_delta(mu * step, epsilon))
            assert privacy.gaussian_log_delta(mu * step, epsilon) == pytest.approx(exact, rel=1e-13)


def test_extremes_are_numbers() -> None:
    assert privacy.gaussian_delta(0.0, 0.0) == 0.0 and privacy.gaussian_log_delta(0.0, 1.0) == -math.inf
    assert privacy.gaussian_delta(1e300, 1.0) == 1.0 and privacy.gaussian_delta(1e-300, 1e300) == 0.0
    assert privacy.gaussian_epsilon(0.0, 1e-5) == 0.0 and privacy.gaussian_epsilon(1e-7, 1e-5) == 0.0
    assert privacy.gaussian_epsilon(1e100, 0.5) == pytest.approx(5e199)
    assert privacy.gaussian_mu(0.0, 1e-5) == pytest.approx(1e-5 * math.sqrt(2 * math.pi), rel=1e-9)
    assert privacy.gaussian_mu(1e100, 0.5) == pytest.approx(math.sqrt(2) * 1e50)
    assert privacy.gaussian_rdp_mu(0.0, 1e-5) == 0.0 and privacy.gaussian_rdp_epsilon(0.0, 1e-5) == 0.0
    for delta in (5e-324, 1 - 2**-53):
        for size in (5e-324, 1e-5, 1.0, 1e6):
            assert privacy.gaussian_mu(size, delta) > 0 and privacy.gaussian_epsilon(size, delta) >= 0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: privacy.gaussian_delta(-1.0, 1.0), "mu"),
        (lambda: privacy.gaussian_delta(math.inf, 1.0), "mu"),
        (lambda: privacy.gaussian_delta(1.0, -0.1), "epsilon"),
        (lambda: privacy.gaussian_log_delta(1.0, math.inf), "epsilon"),
        (lambda: privacy.gaussian_epsilon(1.0, 0.0), "delta"),
        (lambda: privacy.gaussian_epsilon(1.0, 1.0), "delta"),
        (lambda: privacy.gaussian_epsilon(1e101, 0.5), "mu"),
        (lambda: privacy.gaussian_mu("1", 0.5), "epsilon"),
        (lambda: privacy.gaussian_rdp_mu(-1.0, 0.5), "epsilon"),
        (lambda: privacy.gaussian_rdp_epsilon(True, 0.5), "mu"),
    ],
)
def test_bad_input(call, says) -> None:  # type: ignore[no-untyped-def]
    with refused(says):
        call()
