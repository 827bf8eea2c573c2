"""The dispersion that a budget pays for."""

import math
from collections.abc import Callable

import scipy

_LEAST_THETA, _LARGEST_THETA = 1e-300, 1e9  # between them lies every dispersion that a budget up to 1e6 pays for
_STEP = 1e-10  # small, as rounding decides, by the machine, whether the root or the step before it fits
_FAR = 1e9  # stands for an infinite excess, which the root finder cannot take


def largest_theta(spent: Callable[[float], float], budget: float, start: float) -> float:
    """The largest dispersion that spends no more than ``budget``, within a relative 1e-6; ``start`` where that spends more.

    Args:
        spent: epsilon or log delta of a dispersion, rising.
        budget: what may be spent.
        start: a dispersion that a proof affords, whatever ``spent`` says of it; >= 0.
    """
    low = max(start, _LEAST_THETA)
    if spent(low) > budget:
        return start
    high, factor = 2.0 * low, 4.0
    while high < _LARGEST_THETA and spent(high) <= budget:
        low, high, factor = high, factor * high, factor * factor
    high = min(high, _LARGEST_THETA)
    if spent(high) <= budget:
        return high

    def excess(log_theta: float) -> float:
        return min(max(spent(math.exp(log_theta)) - budget, -_FAR), _FAR)

    ends = math.log(low), math.log(high)
    if excess(ends[0]) > 0.0 or excess(ends[1]) <= 0.0:  # only by the rounding of the logarithm
        return low
    x = float(scipy.optimize.brentq(excess, *ends, xtol=_STEP, maxiter=200))
    for power in range(34):  # the root is known up to a step: go back until it fits
        theta = math.exp(x) * (1.0 - _STEP * (2.0**power - 1.0))
        if spent(theta) <= budget:
            return max(low, theta)
    return low
