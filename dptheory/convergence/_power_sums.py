"""Sums of the powers of a number just below 1, without cancellation."""

import math


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
