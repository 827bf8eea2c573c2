"""The least bound over the learning rate, by search."""

import math

import scipy


def least_over_rates(slope: float, gap: float, steps: float) -> float:
    """min over the learning rate of gap / (g steps) + g slope, by a bounded search over log g."""

    def bound(log_g: float) -> float:
        return gap / steps * math.exp(-log_g) + slope * math.exp(log_g)

    found = scipy.optimize.minimize_scalar(bound, bounds=(-30.0, 30.0), method="bounded", options={"xatol": 1e-9})
    return float(found.fun)
