"""Sums of the powers of a number just below 1, without cancellation."""

import math

import numpy as np

from dptheory._arrays import Array


def power_sums(gap: float, count: int) -> tuple[float, float]:
    r"""A_n = sum_{t<n} (1 - gap)^t and B_n = sum_{t<n} A_t, n = ``count`` >= 1, gap in [0, 1].

    A_n = (1 - (1 - gap)^n) / gap and B_n = (n - A_n) / gap, but as sums of positive terms, by doubling n:
    A_{2n} = A_n + (1 - gap)^n A_n and B_{2n} = B_n + n A_n + (1 - gap)^n B_n.
    """
    if gap == 1:
        return 1.0, count - 1.0
    slope = math.log1p(-gap)
    first, second, done = 1.0, 0.0, 1
    for bit in bin(count)[3:]:
        power = math.exp(done * slope)
        first, second = first + power * first, second + done * first + power * second
        done *= 2
        if bit == "1":
            first, second = 1 + first - gap * first, second + first
            done += 1
    return first, second


def changing_sums(gaps: Array, kicks: Array) -> tuple[float, float]:
    r"""p_1 / sum_t gap_t and sum_t kick_t p_{t+1} / sum_t gap_t, p_t = 1 - prod_{s>=t} (1 - gap_s), shapes (n,).

    With gap and kick constant they are A_n / n and kick B_n / n of :func:`power_sums`, so their limits where all gaps are 0.
    """
    with np.errstate(divide="ignore"):  # a gap of 1 leaves nothing
        left = np.cumsum(np.log1p(-np.minimum(gaps, 1.0))[::-1])[::-1]  # rounding can lift a gap above 1
    used = np.append(-np.expm1(left), 0.0)
    total = float(gaps.sum())
    if total == 0.0:
        return 1.0, float(kicks @ np.arange(len(kicks) - 1.0, -1.0, -1.0)) / len(kicks)
    return float(used[0]) / total, float((kicks * used[1:]).sum()) / total
