"""Where an upper bound of epsilon crosses a budget: a search that pays for accuracy only at the end."""

import math
from collections.abc import Callable

Excess = Callable[[float, float], float]  # (x, width) -> log(upper bound of epsilon / budget)
_COARSE = 0.02  # width, and relative distance, of the first stage


def crossing(excess: Excess, fits: float, fails: float, width: float, gap: float, whole: bool = False) -> float:
    """The x nearest to the crossing that fits: next to it, ``gap`` times as near to ``fails`` or 1 if ``whole``, one fails.

    Args:
        excess: rises from ``fits`` to ``fails``, up to the accuracy that its second argument asks for.
        fits, fails: ends, > 0; it is <= 0 at the first and > 0 at the second.
        width: the accuracy of the answer.
        gap: ratio, a little above 1.
        whole: x is an integer.
    """
    towards = 1.0 if fails > fits else -1.0
    if gap < 1 + _COARSE / 2:
        fits, fails = _stage(excess, fits, fails, _COARSE, 1 + _COARSE / 2, whole)
        limit = fails
        # The coarse bound is the larger one: what fits still does, what failed may fit now.
        while excess(fails, width) <= 0:
            fits, limit = fails, limit * (1 + _COARSE) ** towards
            fails = max(fails + towards, math.ceil(limit)) if whole else limit
    return _stage(excess, fits, fails, width, gap, whole)[0]


def _stage(excess: Excess, fits: float, fails: float, width: float, gap: float, whole: bool) -> tuple[float, float]:
    below, above = excess(fits, width), excess(fails, width)
    if below > 0:  # by the coarse bound only: the end was known to fit
        return fits, fails
    nudge = 0.4 * math.log(gap)
    for turn in range(200):
        distance = math.log(fails / fits)
        if abs(distance) <= math.log(gap) or (whole and abs(fails - fits) <= 1):
            break
        share = below / (below - above) if turn % 3 < 2 and above > below else 0.5
        moved = share * distance
        # A step to either side of the estimate, so that two values of x close in on it.
        moved += math.copysign(nudge, distance) * (-1.0 if turn % 3 == 0 else 1.0 if turn % 3 == 1 else 0.0)
        low, high = sorted((0.0, distance))
        x = fits * math.exp(min(max(moved, low + 0.02 * (high - low)), high - 0.02 * (high - low)))
        if whole:
            x = float(min(max(round(x), min(fits, fails) + 1), max(fits, fails) - 1))
        found = excess(x, width)
        if found <= 0:
            fits, below = x, found
        else:
            fails, above = x, found
    return fits, fails
