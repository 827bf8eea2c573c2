"""Noisy runs on a quadratic without the formulas of the calculator: second moments in fractions, every kick followed, and draws."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Moments = list[list[Fraction]]


def rates(schedule: str, steps: int) -> list[Fraction]:
    """Learning rates over the first one; of the cosine its doubles."""
    if schedule == "cosine":
        return [(1 + Fraction(math.cos(math.pi * t / steps))) / 2 for t in range(steps)]
    return [1 - Fraction(t, steps) if schedule == "linear" else Fraction(1) for t in range(steps)]


def averaged(average: Fraction, steps: int) -> int:
    """How many of the last weights are averaged."""
    return max(1, round(average * steps))


@dataclass(frozen=True)
class Direction:
    """The directions of one curvature: their energy at the start, how many, the slope, and the noise's variance in each."""

    curvature: Fraction
    energy: Fraction
    count: Fraction
    slope: Fraction
    variance: Fraction


def loss_in_fractions(
    directions: Sequence[Direction], gamma: Fraction, factors: Sequence[Fraction], mu: Fraction, last: int
) -> Fraction:
    """The expected loss of the mean of the ``last`` weights, by the second moments of (w, v, sum of w)."""
    return sum(
        (one.curvature / 2 * _mean_square(one, gamma, factors, mu, last) for one in directions if one.curvature),
        Fraction(0),
    )


def _mean_square(one: Direction, gamma: Fraction, factors: Sequence[Fraction], mu: Fraction, last: int) -> Fraction:
    moments = [[Fraction(0)] * 3 for _ in range(3)]
    moments[0][0] = one.energy / one.curvature**2
    force = one.slope * one.curvature
    for t, factor in enumerate(factors):
        rate, counts = gamma * factor, Fraction(t >= len(factors) - last)
        # w' = w - rate v', v' = mu v + force w + n, sum' = sum + counts w'
        step = [
            [1 - rate * force, -rate * mu, Fraction(0)],
            [force, mu, Fraction(0)],
            [counts * (1 - rate * force), -counts * rate * mu, Fraction(1)],
        ]
        moments = _stepped(moments, step, [-rate, Fraction(1), -counts * rate], one.count * one.variance)
    return moments[2][2] / last**2


def _stepped(moments: Moments, step: Moments, kick: list[Fraction], variance: Fraction) -> Moments:
    half = [[sum((row[k] * moments[k][j] for k in range(3)), Fraction(0)) for j in range(3)] for row in step]
    return [
        [sum((half[i][k] * step[j][k] for k in range(3)), Fraction(0)) + kick[i] * kick[j] * variance for j in range(3)]
        for i in range(3)
    ]


def responses_by_kicks(z: Array, factors: Sequence[float], mu: float, last: int) -> tuple[Array, Array]:
    """The mean of the ``last`` weights from a unit start, and the sum of its squares over one unit kick at each step."""
    noise = np.zeros_like(z)
    for kicked in range(len(factors)):
        noise += _followed(z, factors, mu, last, kicked) ** 2
    return _followed(z, factors, mu, last, None), noise


def _followed(z: Array, factors: Sequence[float], mu: float, last: int, kicked: int | None) -> Array:
    """One path of w'' - w' = s'' [mu (w' - w) / s' - z w' - kick], from w = 1, or from the kick on."""
    begin = kicked or 0
    w = np.ones_like(z) if kicked is None else np.zeros_like(z)
    velocity, total = np.zeros_like(z), np.zeros_like(z)
    for t in range(begin, len(factors)):
        velocity = mu * velocity - z * w - (1.0 if t == kicked else 0.0)
        w = w + factors[t] * velocity
        if t >= len(factors) - last:
            total += w
    return total / last


def average_of_correlated(z: Fraction, last: int) -> float:
    """Variance of the mean of ``last`` weights at rest, no momentum, unit noise: their correlations are (1 - z)^lag."""
    rho = float(1 - z)
    correlated = last + 2 * sum((last - lag) * rho**lag for lag in range(1, last))
    return correlated / last**2 / float(z * (2 - z))


@dataclass(frozen=True)
class DrawnRuns:
    """DP-SGD on sum_i h_i (w_i - x_i)^2 / 2 over records x whose entries are uniform, mean 0: draws of the loss at the end.

    Attributes:
        curvature: h, one for each coordinate.
        start: w_0 in every coordinate.
        spread: records lie in [-spread, spread].
        batch_size: records in a batch, drawn afresh.
        noise_std: of the private noise on the mean gradient.
        gamma, factors, mu, last: the run; the last weights are averaged.
    """

    curvature: tuple[float, ...]
    start: float
    spread: float
    batch_size: int
    noise_std: float
    gamma: float
    factors: tuple[float, ...]
    mu: float
    last: int

    def __call__(self, rng: np.random.Generator, n: int) -> Array:
        h = np.array(self.curvature)
        w = np.full((n, h.size), self.start)
        velocity, total = np.zeros_like(w), np.zeros_like(w)
        for t, factor in enumerate(self.factors):
            records = rng.random((self.batch_size, n, h.size)).mean(axis=0) * (2 * self.spread) - self.spread
            gradient = h * (w - records) + self.noise_std * rng.standard_normal((n, h.size))
            velocity = self.mu * velocity + gradient
            w = w - self.gamma * factor * velocity
            if t >= len(self.factors) - self.last:
                total += w
        loss: Array = (total / self.last) ** 2 @ (h / 2)
        return loss
