"""Where the line of the integral runs: the saddle point of M(s) exp(-s epsilon) / (s (s + 1)) on the real axis.

Nothing here is a bound: a poor point costs width, not validity.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import Steps
from dptheory.privacy.methods.saddle._moments import Moments, StepLoss, real_moments

Losses = tuple[StepLoss, ...]
Total = Callable[[float], Moments]
"""The moments of the sum of all losses, at a real s."""

_FAR = 700.0
LEFT_OUT = 30.0
"""Nats below delta at which extreme outputs are left out."""


def step_losses(steps: Steps, direction: Direction) -> Losses:
    return tuple(
        StepLoss(
            noise_multiplier=step.noise_multiplier,
            sampling_rate=step.sampling_rate,
            count=step.count,
            direction=direction,
        )
        for step in steps
    )


def total_of(steps: Losses) -> Total:
    def total(s: float) -> Moments:
        parts = [(step.count, real_moments(step, s)) for step in steps]
        return Moments(
            sum(n * m.value for n, m in parts),
            sum(n * m.slope for n, m in parts),
            sum(n * m.curvature for n, m in parts),
        )

    return total


def log_peak(c: float) -> float:
    """log of the largest value of exp(-c x) times (1 - exp(-x))+, or min(1, exp(-x)) for c <= 0."""
    return c * math.log(c) - (1 + c) * math.log1p(c) if c > 0 else 0.0


@dataclass(frozen=True)
class Saddle:
    """The least point c of log(M(c) exp(-c epsilon) / |c (c + 1)|), and about log delta there (log(1 - delta) for c < 0)."""

    c: float
    epsilon: float
    log_value: float
    width: float
    """Standard deviation of the tilted sum of the losses, with the poles: 1 / sqrt of the second derivative."""


def cut(steps: Losses, log_delta: float, nats: float = LEFT_OUT) -> Losses:
    """The steps without outputs so extreme that they do not matter to a delta of about exp(log_delta)."""
    log_left_out = log_delta - nats - math.log(len(steps))
    return tuple(step.with_cut(log_left_out) for step in steps)


def saddle_at(total: Total, epsilon: float) -> Saddle:
    origin = total(0.0)
    if origin.slope - epsilon > math.sqrt(origin.curvature):
        c = _root(lambda c: _saddle_epsilon(total, c)[0] - epsilon, -1 + 1e-9, -1e-9, log=False)
    else:

        def short(c: float) -> float:
            own, moments = _saddle_epsilon(total, c)
            check_near(moments.value - c * epsilon)
            return own - epsilon

        c = _rising_root(short, 1.0 / math.sqrt(origin.curvature))
    return _saddle(total, c, epsilon)


def saddle_for(total: Total, log_delta: float) -> Saddle:
    """The saddle, c > 0, at which delta is about exp(log_delta); its epsilon may be below 0."""
    start = 1.0 / math.sqrt(total(0.0).curvature)
    c = _rising_root(lambda c: log_delta - _saddle(total, c, None).log_value, start)
    return _saddle(total, c, None)


def check_near(log_value: float) -> None:
    """Deltas below exp(-_FAR) are left to closed forms."""
    if log_value < -_FAR:
        raise Unresolved("epsilon is far beyond the losses that occur")


def _saddle_epsilon(total: Total, c: float) -> tuple[float, Moments]:
    moments = total(c)
    return moments.slope - 1 / c - 1 / (1 + c), moments


def _saddle(total: Total, c: float, epsilon: float | None) -> Saddle:
    own, moments = _saddle_epsilon(total, c)
    epsilon = own if epsilon is None else epsilon
    curvature = moments.curvature + 1 / c**2 + 1 / (1 + c) ** 2
    log_value = moments.value - c * epsilon - math.log(abs(c)) - math.log1p(c) - 0.5 * math.log(2 * math.pi * curvature)
    log_value = min(
        log_value, moments.value - c * epsilon + log_peak(c)
    )  # Chernoff, where the law is far from Gaussian
    return Saddle(c, epsilon, log_value, math.sqrt(curvature))


def _rising_root(function: Callable[[float], float], start: float) -> float:
    """Root of a rising function of c > 0, from a guess of its scale."""
    low = high = start
    for _ in range(200):
        if function(high) > 0:
            break
        low, high = high, 2 * high
    else:
        raise Unresolved("no saddle point: epsilon is at the largest loss")
    for _ in range(400):
        if function(low) <= 0:
            break
        low, high = low / 2, low
    else:
        raise Unresolved("no saddle point above 0")
    return _root(function, low, high, log=True)


def _root(function: Callable[[float], float], low: float, high: float, *, log: bool) -> float:
    """About the root of a rising function, by bisection: of c, or of log c."""
    while high - low > 1e-3 * (low if log else 1.0):
        middle = math.sqrt(low * high) if log else (low + high) / 2
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return low + (high - low) / 2
