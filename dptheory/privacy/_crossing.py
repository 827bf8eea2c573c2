"""Where an upper bound of epsilon crosses a budget: few exact evaluations, after a guess by a cheap approximation."""

import math
from collections.abc import Callable

Excess = Callable[[float], float]  # log(epsilon / budget)


MARGIN = 1e-7
"""Relative: added to a noise, so that the bracket in any arithmetic keeps the budget."""
_TURNS = 60


def first_that_fits(x: float, most: float, fits: Callable[[float], bool]) -> float | None:
    """``x``, or a number a little larger that fits, by steps that double from ``MARGIN``; None where ``most`` does not.

    The bracket of delta by which a noise was chosen, and that of epsilon, agree up to rounding.
    """
    for turn in range(_TURNS):
        if fits(x):
            return x
        if x == most:
            break
        x = min(most, x * (1 + 2.0**turn * MARGIN))
    return None


def crossing(
    rough: Excess, excess: Excess, private: float, risky: float, gap: float, whole: bool = False
) -> float | None:
    """The x between ``private`` and ``risky`` that just fits: excess(x) <= 0, but not at x * gap (or x + 1) towards ``risky``.

    Args:
        rough: about ``excess``, cheap.
        excess: rises from ``private`` to ``risky``.
        private, risky: ends, > 0.
        gap: ratio, above 1.
        whole: x is an integer; 1 is the smallest gap.

    Returns:
        ``risky`` where it fits, None where ``private`` does not.
    """
    x = _bisected(rough, private, risky)
    if whole:
        x = float(round(x))
    fits, fails = _bracketed(excess, x, private, risky, 5 * math.log(gap), whole)
    if fits is None or fails is None:
        return None if fits is None else fits[0]
    for turn in range(200):
        distance = math.log(fails[0] / fits[0])
        if abs(distance) <= math.log(gap) or (whole and abs(fails[0] - fits[0]) <= 1):
            break
        # Two of three times by interpolation, to either side of the estimate so that both ends close in; else the middle.
        share = fits[1] / (fits[1] - fails[1]) if turn % 3 < 2 and fails[1] > fits[1] else 0.5
        side = (-1.0, 1.0, 0.0)[turn % 3]
        share = min(max(share + side * 0.4 * math.log(gap) / abs(distance), 0.02), 0.98)
        x = fits[0] * math.exp(share * distance)
        if whole:
            x = float(min(max(round(x), min(fits[0], fails[0]) + 1), max(fits[0], fails[0]) - 1))
        point = (x, excess(x))
        fits, fails = (point, fails) if point[1] <= 0 else (fits, point)
    return fits[0]


def _bisected(rough: Excess, private: float, risky: float) -> float:
    if rough(risky) <= 0:
        return risky
    fits, fails = private, risky
    while abs(math.log(fails / fits)) > 1e-3:
        middle = math.sqrt(fits * fails)
        fits, fails = (middle, fails) if rough(middle) <= 0 else (fits, middle)
    return fits


_Point = tuple[float, float]


def _bracketed(
    excess: Excess, x: float, private: float, risky: float, step: float, whole: bool
) -> tuple[_Point | None, _Point | None]:
    """A point that fits and one that does not, near x; None where there is none up to the end."""
    low, high = min(private, risky), max(private, risky)
    fits: _Point | None = None
    fails: _Point | None = None
    while True:
        value = excess(x)
        if value <= 0:
            fits = (x, value)
        else:
            fails = (x, value)
        if (fits and fails) or x == (risky if fits else private):
            return fits, fails
        towards = math.log((risky if fits else private) / x)
        moved = x * math.exp(math.copysign(min(step, abs(towards)), towards))
        if whole:
            moved = float(max(round(moved), x + 1) if towards > 0 else min(round(moved), x - 1))
        x = min(max(moved, low), high)
        if abs(towards) <= step:
            x = risky if fits else private
        step *= 3
