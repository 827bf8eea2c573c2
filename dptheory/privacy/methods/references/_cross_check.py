"""Two accountants by other people, side by side: the second opinions, and the privacy loss distributions (PLD) of dp-accounting."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dptheory import _validate
from dptheory.privacy._composition import alike_steps, directions_of, valid_delta
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.references._prv import grid_radius, prv_or_none, saddle_point
from dptheory.privacy.methods.renyi._sampled import sampled_renyi_epsilon

# --- Epsilon by the privacy loss distributions (PLD) of dp-accounting
#
# PLD composes a discretised loss too, but by other means: connect-the-dots for the upper bound, losses rounded down for the lower
# one. What the library leaves to its caller is done here.
#
# - The probabilities are second differences of deltas over the interval h: they carry errors of about 1e-15 / h, which T
#   steps add up. This much of delta is set aside; where it is more than a tenth of delta there is no answer.
# - Its default truncation of 1e-15 would use up a delta of that size. It is set to a share of delta, and set aside in the
#   lower bound, to which the library adds it as well.
# - It weighs losses by exp(-loss), which underflows beyond about 700: its epsilon is then up to about 1 too large. Such a lower
#   bound is dropped.


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


@dataclass(frozen=True, kw_only=True)
class CrossCheck:
    """Two independent brackets of one epsilon, and the Renyi upper bound.

    Attributes:
        prv: lower and upper bound by prv-accountant; 0 and inf where it gives none.
        pld: lower and upper bound by dp-accounting's privacy loss distributions; the upper one is inf where its
            rounding errors are not small against delta.
        rdp: upper bound by Renyi privacy, as :func:`rdp_epsilon` gives it.
    """

    prv: tuple[float, float]
    pld: tuple[float, float]
    rdp: float


def cross_check(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    width: float = 0.005,
    adjacency: str = "add-remove",
) -> CrossCheck:
    """Ask prv-accountant and dp-accounting about the same Poisson-sampled steps.

    Args:
        noise_multiplier, sampling_rate, steps, delta, adjacency: as for :func:`epsilon_bounds`.
        width: how far apart the bounds by prv-accountant should be, times max(1, epsilon); in [1e-4, 1]. It is met where
            4 million grid points suffice; otherwise they hold but are wider.

    Returns:
        The brackets, which overlap.

    Raises:
        ArithmeticError: the brackets contradict each other; one accountant is wrong.
        ImportError: dp-accounting is not installed (``pip install 'dptheory[accountants]'``).

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1).

    Example: one step on 1 % of the records: both accountants give the same epsilon, Renyi privacy nearly five times as much.
        >>> from dptheory.privacy.methods.references import cross_check
        >>> found = cross_check(noise_multiplier=4.0, sampling_rate=0.01, steps=1, delta=1e-5, width=0.5)
        >>> round(found.pld[1], 3), found.prv[0] <= found.pld[1] and found.pld[0] <= found.prv[1], round(found.rdp, 3)
        (0.008, True, 0.038)
    """
    width = _validate.real("width", width, 1e-4, 1.0)
    run, delta = alike_steps(noise_multiplier, sampling_rate, steps, adjacency=adjacency), valid_delta(delta)
    losses = [Loss(one, float(noise_multiplier), float(sampling_rate)) for one in directions_of(run, "worst")]
    brackets = [prv_or_none(loss, int(steps), delta, width) or (0.0, math.inf) for loss in losses]
    prv = (max(low for low, _ in brackets), max(high for _, high in brackets))
    pld = pld_bracket(losses[0], int(steps), delta)
    rdp = sampled_renyi_epsilon(losses[0], int(steps), delta)
    if max(prv[0], pld[0]) > min(prv[1], pld[1], rdp) * (1 + 1e-9) + 1e-12:
        raise ArithmeticError(f"the accountants contradict each other: PRV {prv}, PLD {pld}, RDP <= {rdp}")
    return CrossCheck(prv=prv, pld=pld, rdp=rdp)
