"""Wrong calculators of lf angles."""

import math
from typing import Any

from dptheory import angles
from mutants.mutators import Calculator, Mutant, scaled, wrong_where


def _wider(function: Calculator) -> Calculator:
    def mutant(*a: Any, **k: Any) -> Any:
        low, high = function(*a, **k)
        return low, 1.02 * high

    return mutant


def _raised_low(function: Calculator) -> Calculator:
    def mutant(*a: Any, **k: Any) -> Any:
        low, high = function(*a, **k)
        return 1.02 * low, high

    return mutant


def _unfolded(function: Calculator) -> Calculator:
    """The printed sum as the upper end."""

    def mutant(bias_angle: Any, noise_angle: Any) -> Any:
        return function(bias_angle, noise_angle)[0], bias_angle + noise_angle

    return mutant


MUTANTS: list[Mutant] = [
    *((angles.DistortionAngle, name, scaled) for name in (
        "cdf", "sf", "density", "mean", "second_moment", "var", "asymptotic_mean", "asymptotic_var",
    )),
    (angles.DistortionAngle, "cdf", wrong_where(lambda angle, x: angle.dim > 50)),
    (angles.DistortionAngle, "var", wrong_where(lambda angle: angle.dim > 10_000 and angle.snr < math.sqrt(angle.dim))),
    (angles.DistortionAngle, "asymptotic_mean", wrong_where(lambda angle: angle.snr > 10 * math.sqrt(angle.dim))),
    (angles, "angle_variance", scaled),
    *((angles, "angle_variance", wrong_where(condition)) for condition in (
        lambda dim, snr, bias=0.0: dim == 1,
        lambda dim, snr, bias=0.0: dim == 2,
        lambda dim, snr, bias=0.0: 2 < dim < 8,
        lambda dim, snr, bias=0.0: 8 <= dim < 1000,
        lambda dim, snr, bias=0.0: dim >= 10**5,
        lambda dim, snr, bias=0.0: bias > math.pi / 2,
        lambda dim, snr, bias=0.0: bias == 0,
    )),
    (angles, "angle_range", _wider),
    (angles, "angle_range", _raised_low),
    (angles, "angle_range", _unfolded),
    (angles, "batch_expected_cos", scaled),
    (angles, "batch_expected_cos", wrong_where(lambda cos_bias, dim, snr: cos_bias == 1)),
    (angles, "batch_expected_cos", wrong_where(lambda cos_bias, dim, snr: cos_bias < 1)),
]  # fmt: skip
