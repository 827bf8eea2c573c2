"""Two accountants by other people, side by side."""

import math
from dataclasses import dataclass

from dptheory import _validate
from dptheory.privacy._bounds import valid_delta
from dptheory.privacy._composition import alike_steps, directions_of
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.references._pld import pld_bracket
from dptheory.privacy.methods.references._prv import prv_or_none
from dptheory.privacy.methods.renyi._sampled import sampled_renyi_epsilon


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
        ValueError: an argument outside its range.
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
