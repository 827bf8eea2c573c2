r"""Epsilon by the privacy loss distributions (PLD) of dp-accounting.

PLD composes a discretised loss too, but by other means: connect-the-dots for the upper bound, losses rounded down for the lower
one. What the library leaves to its caller is done here.

- The probabilities are second differences of deltas over the interval h: they carry errors of about 1e-15 / h, which T
  steps add up. This much of delta is set aside; where it is more than a tenth of delta there is no answer.
- Its default truncation of 1e-15 would use up a delta of that size. It is set to a share of delta, and set aside in the
  lower bound, to which the library adds it as well.
- It weighs losses by exp(-loss), which underflows beyond about 700: its epsilon is then up to about 1 too large. Such a lower
  bound is dropped.
"""

import functools
import math
from typing import Any

import numpy as np

from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.references._prv import grid_radius, saddle_point

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


def _relation(loss: Loss) -> Any:
    from dp_accounting.privacy_accountant import NeighboringRelation

    return NeighboringRelation.REPLACE_ONE if loss.direction == "replace" else NeighboringRelation.ADD_OR_REMOVE_ONE
