import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dptheory import convergence
from dptheory._arrays import Array
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.rf.momentum import excess_by_lyapunov
from dptheory.convergence._noisy_quadratic import Schedule

# Noisy runs on a quadratic without the formulas of the calculator: second moments in fractions, every kick followed, and draws.


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


row = new_row(
    id="rf.noisy_quadratic",
    source=Source("rf", "new, on section 3.4"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.noisy_quadratic_loss,),
)

_F = Fraction
_SCHEDULES: tuple[Schedule, ...] = ("constant", "linear", "cosine")
_SMALL = (
    Direction(_F(0), _F(0), _F(5), _F(1), _F(1, 5)),
    Direction(_F(1, 2), _F(1), _F(1), _F(1, 2), _F(1, 7)),
    Direction(_F(2), _F(3), _F(3), _F(3, 4), _F(1, 3)),
)
_GAMMA, _NOISE = _F(3, 10), _F(1, 2)


def _small_cases() -> Iterator[tuple[Schedule, int, Fraction, Fraction]]:
    """(schedule, steps, mu, average)"""
    yield from itertools.product(
        _SCHEDULES, (1, 2, 3, 10), (_F(0), _F(1, 3), _F(9, 10)), (_F(0), _F(1, 5), _F(1, 2), _F(1))
    )


def _small_truth(schedule: str, steps: int, mu: Fraction, average: Fraction) -> Fraction:
    noisy = [Direction(one.curvature, one.energy, one.count, one.slope, one.variance + _NOISE**2) for one in _SMALL]
    factors = rates(schedule, steps)
    return loss_in_fractions(noisy, _GAMMA, factors, mu, averaged(average, steps))


@row.equal(_small_cases, tolerance=1e-13)
def _(schedule: Schedule, steps: int, mu: Fraction, average: Fraction) -> Sides:
    """three curvatures, one of them 0: second moments step by step in fractions"""
    return (
        convergence.noisy_quadratic_loss(
            [float(one.curvature) for one in _SMALL],
            gradient_energy=[float(one.energy) for one in _SMALL],
            learning_rate=float(_GAMMA),
            steps=steps,
            momentum=float(mu),
            variance=[float(one.variance) for one in _SMALL],
            noise_std=float(_NOISE),
            slope=[float(one.slope) for one in _SMALL],
            multiplicities=[float(one.count) for one in _SMALL],
            schedule=schedule,
            average=float(average),
        ),
        lambda: _small_truth(schedule, steps, mu, average),
        lambda: _small_truth(schedule, steps, _F(0), average),
    )


_MANY = np.concatenate([[0.0], np.logspace(-4, 1, 9_999)])


@row.equal(lambda: itertools.product(_SCHEDULES, (0.0, 0.9), (0.0, 0.3)), tolerance=1e-11)
def _(schedule: Schedule, mu: float, average: float) -> Sides:
    """10,000 curvatures and 40 steps: the kick of every step followed to the end"""
    steps, gamma = 40, 0.15
    energy, alike, spread = _MANY / (1 + _MANY), 1 + np.sqrt(_MANY), 1e-3 / (1 + _MANY)
    slope = 1 / (1 + _MANY / 5)
    factors = [float(one) for one in rates(schedule, steps)]

    def followed(last: int) -> float:
        mean, noise = responses_by_kicks(gamma * slope * _MANY, factors, mu, last)
        started = energy[1:] / (2 * _MANY[1:]) * mean[1:] ** 2
        return float(started.sum() + (_MANY / 2 * alike * gamma**2 * (spread + 0.01**2) * noise).sum())

    return (
        convergence.noisy_quadratic_loss(
            _MANY,
            gradient_energy=energy,
            learning_rate=gamma,
            steps=steps,
            momentum=mu,
            variance=spread,
            noise_std=0.01,
            slope=slope,
            multiplicities=alike,
            schedule=schedule,
            average=average,
        ),
        lambda: followed(averaged(_F(average), steps)),
        lambda: followed(2),
    )


@row.equal(lambda: itertools.product((0.01, 0.5, 1.5), (1, 1000, 100_000)), tolerance=1e-9)
def _(z: float, steps: int) -> Sides:
    """without momentum, a constant rate, short and long runs: closed form"""
    curvature, gamma = 2.0, z / 2.0
    left = (1 - z) ** (2 * steps)
    return (
        convergence.noisy_quadratic_loss(
            [curvature], gradient_energy=3.0, learning_rate=gamma, steps=steps, noise_std=0.7
        ),
        left * 3.0 / (2 * curvature) + curvature / 2 * gamma**2 * 0.7**2 * (1 - left) / (z * (2 - z)),
        lambda: curvature / 2 * gamma**2 * 0.7**2 / (z * (2 - z)),  # as if at rest from the start
    )


def _at_rest() -> Iterator[tuple[Fraction, Fraction, Fraction, Fraction]]:
    """(learning rate, mu, curvature, slope)"""
    yield from itertools.product(
        (_F(1, 10), _F(1)), (_F(0), _F(1, 2), _F(9, 10)), (_F(1, 20), _F(3, 2)), (_F(1), _F(1, 4))
    )


@row.equal(_at_rest, tolerance=1e-10)
def _(gamma: Fraction, mu: Fraction, curvature: Fraction, slope: Fraction) -> Sides:
    """at rest: the second moments that a step leaves as they are, in fractions"""
    return (
        convergence.noisy_quadratic_loss(
            [float(curvature)],
            gradient_energy=1.0,
            learning_rate=float(gamma),
            steps=100_000,
            momentum=float(mu),
            noise_std=0.5,
            slope=float(slope),
        ),
        lambda: excess_by_lyapunov(gamma, mu, slope * curvature, _F(1, 2)) / slope,
        lambda: excess_by_lyapunov(gamma / (1 - mu), _F(0), slope * curvature, _F(1, 2)) / slope,
    )


@row.equal(lambda: itertools.product((_F(1, 10), _F(1, 2), _F(3, 2)), (2, 10, 1000)), tolerance=1e-10)
def _(z: Fraction, last: int) -> Sides:
    """at rest without momentum: the mean of K correlated weights"""
    steps = 10_000
    return (
        convergence.noisy_quadratic_loss(
            [1.0], gradient_energy=1.0, learning_rate=float(z), steps=steps, noise_std=1.0, average=last / steps
        ),
        lambda: float(z) ** 2 / 2 * average_of_correlated(z, last),
        float(z) / (2 * float(2 - z)) / last,  # as if they were independent
    )


@row.equal(lambda: itertools.product((0.05, 0.5, 1.5), (0.0, 0.9), (1.0, 0.5)), tolerance=1e-3)
def _(gamma: float, mu: float, slope: float) -> Sides:
    """the mean of many weights: neither learning rate nor momentum count"""
    steps = 200_000
    return (
        convergence.noisy_quadratic_loss(
            [0.8],
            gradient_energy=1.0,
            learning_rate=gamma,
            steps=steps,
            momentum=mu,
            noise_std=1.0,
            slope=slope,
            average=0.5,
        ),
        1 / (2 * slope**2 * 0.8 * steps / 2),
        1 / (2 * slope**2 * 0.8 * steps / 2) / (1 - mu) ** 2,
    )


@row.equal(lambda: itertools.product((0.0, 0.5, 0.9), (0.999, 1.001)))
def _(mu: float, share: float) -> Sides:
    """a constant rate: bounded below z = 2 (1 + mu), without limit above"""
    z = 2 * (1 + mu) * share
    found = convergence.noisy_quadratic_loss(
        [1.0], gradient_energy=1.0, learning_rate=z, steps=10**7, momentum=mu, noise_std=1.0
    )
    return math.isinf(float(found)), share > 1, z > 2


_DRAWN_CURVATURES = np.logspace(-1.5, 0.3, 12)
_ALIKE, _BATCH, _SPREAD, _START, _STEPS = 25, 2, 0.8, 0.3, 20
_DRAWN = DrawnRuns(
    curvature=tuple(np.repeat(_DRAWN_CURVATURES, _ALIKE)),
    start=_START,
    spread=_SPREAD,
    batch_size=_BATCH,
    noise_std=0.4,
    gamma=0.2,
    factors=tuple(float(one) for one in rates("cosine", _STEPS)),
    mu=0.8,
    last=4,
)


def _drawn_loss(batch_size: float) -> float:
    h = _DRAWN_CURVATURES
    return float(
        convergence.noisy_quadratic_loss(
            h,
            gradient_energy=_ALIKE * (h * _START) ** 2,
            learning_rate=_DRAWN.gamma,
            steps=_STEPS,
            momentum=_DRAWN.mu,
            variance=h**2 * _SPREAD**2 / 3 / batch_size,
            noise_std=_DRAWN.noise_std,
            multiplicities=_ALIKE,
            schedule="cosine",
            average=0.2,
        )
    )


def _as_if_one_record() -> float:
    return _drawn_loss(1.0)


@row.mean(_DRAWN, wrong=_as_if_one_record, row_bytes=6 * 8 * 300)
def _() -> float:
    """DP-SGD on 300 parameters with batches of drawn records, cosine rate, momentum and averaged weights"""
    return _drawn_loss(_BATCH)
