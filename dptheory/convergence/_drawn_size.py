"""What division by the drawn batch size does to the noise."""

import math

import numpy as np
import scipy

from dptheory import _validate

_MAX_TRAIN_SIZE = 10**9
_TAIL = 40.0  # standard deviations that are summed on both sides of the mean


def drawn_size_factor(*, train_size: int, sampling_rate: float) -> float:
    r"""E[(qN / K)^2 | K >= 1], K binomial (N, q): the noise of a sum divided by the drawn size, over that of one divided by qN.

    It tends to 1 + 3 (1 - q) / B as B = qN grows. It is below 1 only for B below about 1.3: empty batches are left out, and the
    others are larger than B on average.

    Args:
        train_size: N, 1..1e9.
        sampling_rate: q in [1e-30, 1].

    Returns:
        The factor on the variance of the noise; at most N^2.

    Source: RS, Algorithm 1, line 6; our own (rs.batch_divisors).

    Example: at a mean batch size of 10 the drawn divisor makes the noise's variance half as large again.
        >>> from dptheory.convergence import drawn_size_factor
        >>> [round(drawn_size_factor(train_size=1000, sampling_rate=q), 3) for q in (0.01, 0.1, 1.0)]
        [1.524, 1.028, 1.0]
    """
    train_size = _validate.integer("train_size", train_size, 1, _MAX_TRAIN_SIZE)
    rate = _validate.real("sampling_rate", sampling_rate, 1e-30, 1.0)
    mean = rate * train_size
    reach = _TAIL * math.sqrt(mean * (1 - rate)) + _TAIL
    sizes = np.arange(max(1, math.floor(mean - reach)), min(train_size, math.ceil(mean + reach)) + 1)
    chances = scipy.stats.binom.pmf(sizes, train_size, rate)
    return float((chances * (mean / sizes) ** 2).sum() / chances.sum())
