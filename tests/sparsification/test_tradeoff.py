"""The best rates under several assumptions on kappa, against the bound that they minimise."""

import pytest
from scipy.optimize import minimize_scalar

from dptheory.sparsification import EXPONENTS, optimal_rates, relative_bound


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
