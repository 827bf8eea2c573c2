"""Epsilon from the law of one step's loss on a lattice: the least that surely suffices, the most that is surely needed."""

import math
from collections.abc import Callable

import numpy as np
import scipy

from dptheory.privacy.methods.lattice._sums import Array, Kernel, LatticeMasses, TiltedSum, radius, tilt_for, tilted_sum

LEFT_OUT = 1e-6
"""Share of delta that a law may leave out, in all steps together."""
_MARGIN = 1e-9  # relative, on delta: rounding of masses, split of a cell
_COARSE = 4000
_FEWEST, _MOST = 2**16, 2**19  # lattice points of the window, and at most as many cells of one step
_ROUNDS = 3

Law = Callable[[float], LatticeMasses | None]
"""The law for a spacing."""


def hockey_stick(_: float) -> tuple[Kernel, float]:
    """(1 - exp(-x))+, and where it begins; the same for every tilt."""
    return positive_part, 0.0


def positive_part(over: Array) -> Array:
    """(1 - exp(-x))+."""
    return np.asarray(-np.expm1(-np.maximum(over, 0.0)))


def least_epsilon(
    law: Law, span: float, steps: int, delta: float, kernel: Callable[[float], tuple[Kernel, float]] = hockey_stick
) -> float:
    """The least epsilon >= 0 at which the kernel's expectation is surely at most ``delta``; inf where there is no law.

    Args:
        law: an upper law of one step's loss, which leaves out at most ``LEFT_OUT`` delta in all steps.
        span: about the largest loss of one step.
        steps: how many such losses are added.
        delta: in (0, 1).
        kernel: for a tilt, a function of loss less epsilon that is at least (1 - exp(-x))+, and where it begins.
    """
    fine = _fine(law, span, steps, delta)
    if fine is None:
        return math.inf
    allowed = delta * (1 - LEFT_OUT - _MARGIN)
    tilt, epsilon = tilt_for(fine, steps, math.log(delta)), math.inf
    for _ in range(_ROUNDS):
        before = epsilon
        epsilon = min(epsilon, least(tilted_sum(fine, steps, tilt), allowed, *kernel(tilt)) * (1 + 1e-9))
        if epsilon == 0.0 or before - epsilon <= 1e-5 * epsilon:
            break
        tilt = _tilt_at(fine, epsilon / steps, tilt)
    return epsilon


def largest_delta(
    law: Law,
    span: float,
    steps: int,
    epsilon: float,
    delta: float,
    kernel: Callable[[float], tuple[Kernel, float]] = hockey_stick,
) -> float:
    """An upper bound of the kernel's expectation at epsilon, close where that is about ``delta``; 1 where there is no law.

    Args:
        law, span, steps, kernel: as for :func:`least_epsilon`; the law leaves out at most ``LEFT_OUT`` delta.
        epsilon: >= 0.
        delta: in (0, 1).
    """
    fine = _fine(law, span, steps, delta)
    if fine is None:
        return 1.0
    tilt = _tilt_at(fine, epsilon / steps, tilt_for(fine, steps, math.log(delta)))
    bound = sum(tilted_sum(fine, steps, tilt).expectation(*kernel(tilt), epsilon))
    return min(1.0, bound * (1 + _MARGIN) + LEFT_OUT * delta)


def attained_epsilon(law: Law, span: float, steps: int, delta: float) -> float:
    """An epsilon >= 0 at which delta is surely at least ``delta``, or 0.

    Args:
        law: a lower law of one step's loss.
        span, steps, delta: as for :func:`least_epsilon`.
    """
    fine = _fine(law, span, steps, delta)
    if fine is None:
        return 0.0
    tilt, epsilon = tilt_for(fine, steps, math.log(delta)), 0.0
    for _ in range(_ROUNDS):
        found = highest(tilted_sum(fine, steps, tilt), delta * (1 + _MARGIN)) * (1 - 1e-9)
        before, epsilon = epsilon, max(epsilon, found)
        if found == 0.0 or epsilon - before <= 1e-5 * epsilon:
            break
        tilt = _tilt_at(fine, found / steps, tilt)
    return epsilon


def highest(total: TiltedSum, delta: float) -> float:
    """Where the lower bound of delta crosses ``delta``, sought from the tilt's place: far below it the error is magnified."""

    def excess(epsilon: float) -> float:
        value, wrong = total.expectation(positive_part, 0.0, epsilon)
        return math.log(max(value - wrong, 1e-300)) - math.log(delta)

    low = high = max(total.spacing * (total.low + total.tilted.size / 2), 0.0)
    step = 0.25 / total.tilt
    if excess(high) >= 0.0:
        while excess(high) >= 0.0:
            low, high = high, high + step
    else:
        while excess(low) < 0.0:
            if low == 0.0:
                return 0.0
            low, high, step = max(low - step, 0.0), low, 1.5 * step
    found = float(scipy.optimize.brentq(excess, low, high, xtol=1e-12 * high, rtol=1e-10))
    step = 1e-13 * high  # the root is known to either side only
    while excess(found) < 0.0 and found > 0.0:
        found, step = max(found - step, 0.0), 2 * step
    return found


def _fine(law: Law, span: float, steps: int, delta: float) -> LatticeMasses | None:
    rough = law(span / _COARSE)
    if rough is None:
        return None
    reach = radius(rough, steps, tilt_for(rough, steps, math.log(delta)))
    points = min(max(_FEWEST, int(3000 * math.sqrt(steps))), _MOST)  # the lattice widens a sum by steps h^2
    return law(max(2 * reach, span) / points)


def least(total: TiltedSum, delta: float, kernel: Kernel, start: float) -> float:
    """Where the upper bound of the kernel's expectation crosses ``delta``; inf where that is beyond 10^6."""

    def excess(epsilon: float) -> float:
        bound = sum(total.expectation(kernel, start, epsilon))
        return math.log(min(max(bound, 1e-300), 1e300)) - math.log(delta)

    if excess(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, max(total.spacing * (total.low + total.tilted.size / 2), total.spacing)
    while excess(high) > 0.0:
        low, high = high, 1.2 * high + 1 / total.tilt
        if high > 1e6:
            return math.inf
    found = float(scipy.optimize.brentq(excess, low, high, xtol=1e-12 * high, rtol=1e-10))
    step = 1e-13 * high  # the root is known to either side only
    while excess(found) > 0.0:
        found, step = found + step, 2 * step
    return found


def _tilt_at(law: LatticeMasses, mean: float, start: float) -> float:
    """About the tilt at which a loss has this mean."""
    low, high = start / 16, start * 16
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if law.cumulants(middle)[1] < mean else (low, middle)
    return high
