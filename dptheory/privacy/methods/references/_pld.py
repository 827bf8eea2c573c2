r"""Epsilon by dp-accounting: privacy loss distributions (PLD), and Renyi privacy (RDP) of samples without replacement.

PLD composes a discretised loss too, but by other means: connect-the-dots for the upper bound, losses rounded down for the lower
one. What the library leaves to its caller is done here.

- The probabilities are second differences of deltas over the interval h: they carry errors of about 1e-15 / h, which T
  steps add up. This much of delta is set aside; where it is more than a tenth of delta there is no answer.
- Its default truncation of 1e-15 would use up a delta of that size. It is set to a share of delta, and set aside in the
  lower bound, to which the library adds it as well.
- It weighs losses by exp(-loss), which underflows beyond about 700: its epsilon is then up to about 1 too large. Such a lower
  bound is dropped.
- Its RDP of a step can round to 0, from which epsilon = 0 would follow for any number of steps: the rounding error is added.
  For Poisson samples it is far too large at orders below 2 and high at fractional ones: there the curve is our own.
"""

import functools
import logging
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.references._prv import grid_radius, saddle_point

Array = NDArray[np.float64]

_SHARE = 1e-4  # of delta: truncated tails
_SINGLE_CELLS, _COMPOSED_CELLS = 60_000, 2**18
_UNDERFLOW = 650.0
_ROUNDED_DOWN_CELLS = 4_000  # the library makes these one by one, in Python


@functools.lru_cache(maxsize=64)
def pld_bracket(loss: Loss, steps: int, delta: float) -> tuple[float, float]:
    """Lower and upper bound of epsilon from dp-accounting; "add" and "remove" both ask for the larger of the two.

    The upper bound is inf and the lower one 0 where floating point leaves no answer.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    relation = _relation(loss)
    point = saddle_point(loss, steps, delta)
    radius, _ = grid_radius(loss, steps, delta, point)
    share = _SHARE * delta
    log_mass = min(-50.0, math.log(share / steps))
    reach = math.sqrt(-2 * log_mass) + 1.0
    span = float(np.ptp(loss.at(np.array([-reach, reach + 1.0 / loss.noise_multiplier]))))

    def composed(interval: float, pessimistic: bool) -> Any:
        one = pld.from_gaussian_mechanism(
            loss.noise_multiplier,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=interval,
            log_mass_truncation_bound=log_mass,
            sampling_prob=loss.sampling_rate,
            use_connect_dots=pessimistic,
            neighboring_relation=relation,
        )
        return one.self_compose(steps, share)

    lower, upper = 0.0, math.inf
    with np.errstate(all="ignore"):
        interval = max(span / _SINGLE_CELLS, 2 * radius / _COMPOSED_CELLS)
        rounding = steps * 1e-15 * (1.0 + 1.0 / interval)
        if rounding < 0.1 * delta:
            upper = _epsilon_at(composed(interval, True), delta - rounding, math.inf)
        interval = max(span / _ROUNDED_DOWN_CELLS, 2 * radius / _COMPOSED_CELLS)
        if steps * interval / 2 < point.epsilon:  # what rounding down takes off
            lower = _epsilon_at(composed(interval, False), delta + steps * 1e-15 + 2 * share, 0.0)
    return (lower if lower < _UNDERFLOW else 0.0, upper if upper >= 0 else math.inf)


def _epsilon_at(distribution: Any, delta: float, otherwise: float) -> float:
    try:
        return float(distribution.get_epsilon_for_delta(delta))
    except OverflowError:  # exp(-loss) of a loss far below 0
        return otherwise


def fixed_size_rdp_epsilon(loss: Loss, steps: int, delta: float) -> float:
    """Epsilon without replacement from Renyi privacy at dp-accounting's orders; inf where there is none."""
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders, total = _fixed_size_curve(loss, steps)
    if not orders.size:
        return math.inf
    return float(rdp.compute_epsilon(orders, total, delta)[0])


def fixed_size_rdp_delta(loss: Loss, steps: int, epsilon: float) -> float:
    """delta(epsilon) without replacement from Renyi privacy at dp-accounting's orders; 1 where none of them says less."""
    a, curve = _fixed_size_curve(loss, steps)
    log_delta = (a - 1) * (curve + np.log1p(-1 / a) - epsilon) - np.log(a)
    return math.exp(min(0.0, float(log_delta.min(initial=0.0))))


def _fixed_size_curve(loss: Loss, steps: int) -> tuple[Array, Array]:
    """The orders at which there is a number, and the Renyi curve of all steps there."""
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = np.array(rdp.DEFAULT_RDP_ORDERS, dtype=np.float64)
    total = steps * np.array(_rdp_without_replacement(loss))
    usable = np.isfinite(total)
    return orders[usable], total[usable]


@functools.lru_cache(maxsize=64)  # a search for the number of steps asks for one step again and again
def _rdp_without_replacement(loss: Loss) -> tuple[float, ...]:
    """Renyi curve of one step at dp-accounting's orders, rounding error included; inf or NaN where there is no number."""
    from dp_accounting import dp_event
    from dp_accounting.privacy_accountant import NeighboringRelation
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = np.array(rdp.DEFAULT_RDP_ORDERS, dtype=np.float64)
    # The library's noise is in units of the change that one record makes, which is twice the clipping norm.
    gaussian = dp_event.GaussianDpEvent(loss.noise_multiplier / 2)
    records = 10**9
    drawn = min(records, math.ceil(loss.sampling_rate * records))  # never fewer: this is an upper bound
    event = dp_event.SampledWithoutReplacementDpEvent(records, drawn, gaussian)
    found = np.array([_rdp_of_order(rdp, event, order, NeighboringRelation.REPLACE_ONE) for order in orders])
    log_rate = -math.log(loss.sampling_rate)
    rounding = 1e-14 * (1.0 + gammaln(orders + 1) + orders * log_rate) / (orders - 1)
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


def _relation(loss: Loss) -> Any:
    from dp_accounting.privacy_accountant import NeighboringRelation

    return NeighboringRelation.REPLACE_ONE if loss.direction == "replace" else NeighboringRelation.ADD_OR_REMOVE_ONE
