"""The best rates under several assumptions on kappa, against the bound that they minimise."""

from fractions import Fraction

import pytest
from scipy.optimize import minimize_scalar

from dptheory.sparsification import EXPONENTS, least_kappa, optimal_rate_flat, optimal_rates, relative_bound


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
