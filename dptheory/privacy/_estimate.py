"""A quick estimate of the noise that a budget asks for: to go through many settings before one is accounted for."""

import math
from dataclasses import replace

from scipy.optimize import brentq

from dptheory import _validate
from dptheory.privacy._brackets import NOISE, checked
from dptheory.privacy._prv import saddle_point

_GAP, _TINY = 1e-3, 1e-300


def estimated_noise_multiplier(*, epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """About the least noise multiplier of Poisson batches, by a saddle point: a millisecond, and no guarantee.

    For comparing settings. What is trained with comes from :func:`least_noise_multiplier`, whose upper bound is proved. Over
    epsilon from 0.3 to 8 the estimate was seen to be 0 to 2 % above it where a record is drawn once or more in a run, and up to
    50 % where it hardly ever is.

    Args:
        epsilon: > 0; neighbours are add-remove.
        delta, sampling_rate, steps: as for :func:`least_noise_multiplier`.

    Returns:
        sigma in [0.1, 1000]; the ends where less would do, or more would be needed.

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: ten steps on all records at epsilon 1.
        >>> from dptheory.privacy import estimated_noise_multiplier
        >>> round(estimated_noise_multiplier(epsilon=1.0, delta=1e-5, sampling_rate=1.0, steps=10), 1)
        11.9
    """
    budget = _validate.real("epsilon", epsilon, 0.0, ends="()")
    asked = checked(1.0, sampling_rate, steps, delta, "add-remove", "poisson", "remove")

    def excess(log_sigma: float) -> float:
        loss = replace(asked, noise_multiplier=math.exp(log_sigma)).losses()[0]
        found = saddle_point(loss, asked.steps, asked.delta).epsilon
        return math.log(max(found, _TINY)) - math.log(max(budget, _TINY))

    low, high = map(math.log, NOISE)
    if excess(low) <= 0.0:
        return NOISE[0]
    if excess(high) >= 0.0:
        return NOISE[1]
    return math.exp(brentq(excess, low, high, xtol=_GAP))
