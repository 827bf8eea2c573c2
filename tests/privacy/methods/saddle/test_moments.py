"""The step's loss at complex outputs, against mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods.saddle._moments import Reals, StepLoss, log_cut, log_mixture, losses, real_moments

SETTINGS = [(1.0, 0.02), (0.4, 1e-4), (20.0, 0.9), (3.0, 1.0)]


def step(noise: float, rate: float, direction: Direction = "remove", count: int = 1) -> StepLoss:
    return StepLoss(noise_multiplier=noise, sampling_rate=rate, count=count, direction=direction)


@pytest.mark.parametrize(("noise", "rate"), SETTINGS)
def test_log_mixture_is_accurate_up_to_the_wall(noise: float, rate: float) -> None:
    y = math.pi / 2 * noise
    z = np.array(
        [complex(x, height) for x in (-30.0, -2.0, 0.01, 1.0, 9.0, 40.0) for height in (0.0, 0.3 * y, 0.999 * y)]
    )
    with mp.workdps(40):
        t = 1 / mp.mpf(noise)
        exact = [complex(mp.log(1 - mp.mpf(rate) + mp.mpf(rate) * mp.exp(t * mp.mpc(w) - t * t / 2))) for w in z]
    np.testing.assert_allclose(log_mixture(step(noise, rate), z), exact, rtol=3e-14, atol=1e-16)


def reference(noise: float, rate: float, direction: Direction, s: complex) -> complex:
    """M(s) on the real line, so finely that the branch points at noise_multiplier pi add less than exp(-100)."""
    t = 1 / noise
    edge = 12 + (2 + abs(s)) * 2 * t
    z = np.arange(-round(edge / noise * 200), round(edge / noise * 200) + 1) * (noise / 200)

    def log_ratio(z: Reals) -> Reals:
        return np.asarray(np.logaddexp(math.log1p(-rate), math.log(rate) + t * z - t * t / 2))

    up, down = log_ratio(z), log_ratio(-z)
    loss, log_density = {"remove": (up, up), "add": (-down, 0 * up), "replace": (up - down, up)}[direction]
    return complex(np.exp(s * loss + log_density - z**2 / 2).sum() * (noise / 200) / math.sqrt(2 * math.pi))


@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
def test_real_moments(direction: Direction) -> None:
    found = real_moments(step(0.8, 0.1, direction), 1.7)
    assert found.value == pytest.approx(math.log(reference(0.8, 0.1, direction, 1.7).real), rel=1e-10)
    gap = [real_moments(step(0.8, 0.1, direction), 1.7 + h).value for h in (-1e-4, 0.0, 1e-4)]
    assert found.slope == pytest.approx((gap[2] - gap[0]) / 2e-4, rel=1e-6)
    assert found.curvature == pytest.approx((gap[2] - 2 * gap[1] + gap[0]) / 1e-8, rel=1e-4)


def test_one_direction_mirrors_the_other() -> None:
    """M_add(s) = E[Lambda^-s] = M_remove(-1 - s)."""
    assert real_moments(step(1.0, 0.1, "add"), 3.0).value != pytest.approx(
        real_moments(step(1.0, 0.1), 3.0).value, rel=0.01
    )
    for s in (-0.3, -0.7):
        add, remove = real_moments(step(1.0, 0.1, "add"), s), real_moments(step(1.0, 0.1), -1 - s)
        assert add.value == pytest.approx(remove.value, rel=1e-9)


@pytest.mark.parametrize("direction", ["remove", "replace"])
def test_the_cut_takes_no_more_than_it_says(direction: Direction) -> None:
    whole = step(2.0, 0.3, direction, count=100)
    kept = whole.with_cut(math.log(1e-6))
    assert kept.count * math.exp(kept.log_cut_mass) == pytest.approx(1e-6, rel=1e-9)
    z = np.linspace(-12, 14, 4001)
    _, log_density = losses(whole, z.astype(complex))
    taken = (
        np.exp(log_density.real - z**2 / 2) / math.sqrt(2 * math.pi) * -np.expm1(log_cut(kept, z.astype(complex)).real)
    )
    lost = 100 * float(taken.sum()) * (z[1] - z[0])
    assert 1e-7 < lost < 1e-6  # the bound holds, and is not vacuous


def test_add_is_never_cut() -> None:
    assert step(1.0, 0.1, "add").with_cut(-30.0).cut == math.inf
