"""Renyi privacy of samples without replacement, by dp-accounting.

Its curve of a step can round to 0, from which epsilon = 0 would follow for any number of steps: the rounding error is added.
"""

import functools
import logging
import math
from typing import Any

import numpy as np
import scipy

from dptheory.privacy._composition import valid_delta
from dptheory.privacy._parts import checked_step


def fixed_size_rdp_epsilon(*, noise_multiplier: float, sampling_rate: float, steps: int, delta: float) -> float:
    """Upper bound of epsilon by Renyi privacy on batches of a fixed size, replace-one; inf where there is none.

    For comparison with :func:`dptheory.privacy.epsilon_bounds` and sampling "without replacement", which is far closer. Needs the
    package dp-accounting: ``pip install 'dptheory[accountants]'``.

    Args:
        noise_multiplier, sampling_rate, steps, delta: as for :func:`dptheory.privacy.epsilon_bounds`.

    Returns:
        The upper bound, at the orders of dp-accounting.

    Raises:
        ImportError: dp-accounting is not installed.

    Source: GIP, Lemma 1 (gip.lem1).

    Example: more than twice the upper bound of :func:`dptheory.privacy.epsilon_bounds`.
        >>> from dptheory.privacy.methods.references import fixed_size_rdp_epsilon
        >>> round(fixed_size_rdp_epsilon(noise_multiplier=4.0, sampling_rate=0.02, steps=500, delta=1e-5), 2)
        2.14
    """
    step, delta = checked_step(noise_multiplier, sampling_rate, steps), valid_delta(delta)
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = np.array(rdp.DEFAULT_RDP_ORDERS, dtype=np.float64)
    total = step.count * np.array(_curve(step.noise_multiplier, step.sampling_rate))
    usable = np.isfinite(total)
    if not usable.any():
        return math.inf
    return float(rdp.compute_epsilon(orders[usable], total[usable], delta)[0])


@functools.lru_cache(maxsize=64)
def _curve(noise_multiplier: float, sampling_rate: float) -> tuple[float, ...]:
    """Renyi curve of one step at dp-accounting's orders, rounding error included; inf or NaN where there is no number."""
    from dp_accounting import dp_event
    from dp_accounting.privacy_accountant import NeighboringRelation
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = np.array(rdp.DEFAULT_RDP_ORDERS, dtype=np.float64)
    # The library's noise is in units of the change that one record makes, which is twice the clipping norm.
    gaussian = dp_event.GaussianDpEvent(noise_multiplier / 2)
    records = 10**9
    drawn = min(records, math.ceil(sampling_rate * records))  # never fewer: this is an upper bound
    event = dp_event.SampledWithoutReplacementDpEvent(records, drawn, gaussian)
    found = np.array([_rdp_of_order(rdp, event, order, NeighboringRelation.REPLACE_ONE) for order in orders])
    log_rate = -math.log(sampling_rate)
    rounding = 1e-14 * (1.0 + scipy.special.gammaln(orders + 1) + orders * log_rate) / (orders - 1)
    return tuple((np.maximum(found, 0.0) + rounding).tolist())


def _rdp_of_order(rdp: Any, event: Any, order: float, relation: Any) -> float:
    level = logging.getLogger("absl").level
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        with np.errstate(all="ignore"):
            return float(rdp.RdpAccountant([order], relation).compose(event).rdp[0])
    except (OverflowError, ValueError, ZeroDivisionError):
        return math.inf
    finally:
        logging.getLogger("absl").setLevel(level)
