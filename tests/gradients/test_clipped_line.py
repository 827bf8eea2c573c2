"""One clipped normal variable against closed forms in so many digits that their cancellation does not count."""

import math

import mpmath
import pytest

from dptheory import gradients

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
    ("grad_norm", "deviation", "clip_norm", "variance"),
    [(10.0, 1.0, 1.0, 2.629e-21), (8.0, 1.0, 1.0, 4.758e-14), (1.0, 0.05, 0.5, 3.63e-28)],
)
def test_variance_where_nearly_all_are_clipped(
    grad_norm: float, deviation: float, clip_norm: float, variance: float
) -> None:
    """The values are from quadrature with 40 digits; the difference E clip^2 - (a w)^2 gave 0, 4.696e-14 and 0."""
    found = gradients.gaussian_clip_moments(grad_norm=grad_norm, dim=1, deviation=deviation, clip_norm=clip_norm)
    assert found.variance == pytest.approx(variance, rel=1e-3, abs=0.0)


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
