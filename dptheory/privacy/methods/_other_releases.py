"""Bounds of runs that release more than steps: Laplace noise, and (epsilon, delta) releases as black boxes.

Proof: proofs/privacy/other_samplers.md. The pair of laws that dominates a black box is revealed with probability delta, and randomized
response otherwise. So delta(epsilon) of a run is D + (1 - D) delta'(epsilon): D is the chance that some black box is
revealed, delta' that of everything else, whose losses are finite. Those are put on one lattice with those of the steps.
"""

import functools
import math
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from dptheory.privacy._bounds import ADDED, NONE, RELEASES, Direction, Found, Unresolved
from dptheory.privacy._parts import BlackBox, LaplaceRelease, Parts, RandomAllocation, Step
from dptheory.privacy.methods.random_allocation._bounds import (
    counted,
    part_losses,
)
from dptheory.privacy.methods.random_allocation._losses import EpochLoss, PartLoss
from dptheory.privacy.methods.random_allocation._total import LEFT_OUT, Total, lattice_delta, power_of_ten

_CELLS = 4096
_UP = 1 + 1e-12
"""What sums and powers of up to 10^12 releases are rounded by, generously."""
_LEAST = 1e-280
"""A share of delta that no lattice serves."""


def releases_epsilon(parts: Parts, direction: Direction, delta: float, alone: Callable[[Parts, float], Found]) -> Found:
    """Bounds of the least epsilon of one direction; ``alone``: those of the steps alone, at a delta."""
    low, high = _revealed(parts)
    if delta < low:
        return Found(math.inf, math.inf, RELEASES, RELEASES)  # that much is revealed at any epsilon
    if delta < high:
        return Found(0.0, math.inf, NONE, RELEASES)  # it cannot be told whether more is revealed
    left = delta if high == 0.0 else (delta - high) / (1.0 - high) / _UP
    most = delta if low == 0.0 else (delta - low) / (1.0 - low) * _UP
    others = _others(parts)
    pure = _pure(parts)
    if left < _LEAST:
        if others:
            return Found(0.0, math.inf, NONE, RELEASES)
        # a smaller epsilon breaks delta' = 0, but not a larger delta' that rounding may have hidden
        exact = low == high == delta
        return Found(pure / _UP if exact else 0.0, pure * _UP, RELEASES, RELEASES)
    found = Found(0.0, pure * _UP, NONE, RELEASES)
    if others:
        # of the two shares of delta that rounding leaves, the smaller one from above and the larger one from below
        rest = alone(others, most)
        found = Found(0.0, (alone(others, left).upper + pure) * _UP, NONE, ADDED).with_lower(rest.lower, rest.below)
    with suppress(Unresolved):
        found = found.with_upper(_total(parts, direction, power_of_ten(left), True).upper_epsilon(left), RELEASES)
    with suppress(Unresolved):
        found = found.with_lower(_total(parts, direction, power_of_ten(most), False).lower_epsilon(most), RELEASES)
    return found


def releases_delta(parts: Parts, direction: Direction, epsilon: float, alone: Callable[[Parts, float], Found]) -> Found:
    """Bounds of the least delta of one direction; ``alone``: those of the steps alone, at an epsilon."""
    low, high = _revealed(parts)
    others, pure = _others(parts), _pure(parts)
    found = Found(0.0, 1.0)
    if others:
        found = found.with_lower(*_below(alone(others, epsilon)))
    if pure * _UP <= epsilon:
        rest = alone(others, math.nextafter(epsilon - pure * _UP, 0.0)) if others else Found(0.0, 0.0)
        found = found.with_upper(rest.upper, ADDED if others else RELEASES)
    if found.upper > 0.0:
        found = found.with_lower(_lattice(parts, direction, epsilon, above=False), RELEASES).with_upper(
            _lattice(parts, direction, epsilon, above=True), RELEASES
        )
    upper = min(1.0, (high + (1.0 - high) * found.upper) * _UP)
    return Found((low + (1.0 - low) * found.lower) / _UP, upper, found.below, found.above)


def _below(found: Found) -> tuple[float, str]:
    return found.lower, found.below


def _lattice(parts: Parts, direction: Direction, epsilon: float, *, above: bool) -> float:
    """A bound of what is not revealed."""
    return lattice_delta(lambda about: _total(parts, direction, about, above), epsilon, above=above, least=_LEAST)


def _others(parts: Parts) -> tuple[Step | RandomAllocation, ...]:
    """Steps and epochs."""
    return tuple(part for part in parts if isinstance(part, Step | RandomAllocation))


def _revealed(parts: Parts) -> tuple[float, float]:
    """Bounds of the chance that some black box is revealed; exact of one box."""
    boxes = [part for part in parts if isinstance(part, BlackBox) and part.delta > 0.0]
    if sum(part.count for part in boxes) <= 1:
        alone = boxes[0].delta if boxes else 0.0
        return alone, alone
    found = -math.expm1(math.fsum(part.count * math.log1p(-part.delta) for part in boxes))
    return found / _UP, min(1.0 - 1e-16, found * _UP)


def _pure(parts: Parts) -> float:
    """The largest loss that all releases without steps add up to, but for what is revealed."""
    boxes = [part.count * part.epsilon for part in parts if isinstance(part, BlackBox)]
    return math.fsum(
        [*boxes, *(part.count / part.noise_multiplier for part in parts if isinstance(part, LaplaceRelease))]
    )


@functools.lru_cache(maxsize=32)
def _total(parts: Parts, direction: Direction, about: float, above: bool) -> Total:
    """Everything but what is revealed, for the bounds of one side; what is not served is left out below, and Unresolved above."""
    steps = sum(
        part.steps * part.count if isinstance(part, RandomAllocation) else part.count for part in _others(parts)
    )
    found: list[tuple[PartLoss, int]] = []
    for part in parts:
        if isinstance(part, BlackBox):
            found += [(_randomized_response(part.epsilon), part.count)] if part.epsilon > 0.0 else []
        elif isinstance(part, LaplaceRelease):
            largest = 1.0 / part.noise_multiplier  # rounded towards more privacy it would hide all of a delta of 1e-16
            found.append((_laplace(math.nextafter(largest, math.inf if above else 0.0)), part.count))
        elif isinstance(part, Step | RandomAllocation):
            losses = part_losses(part, direction, LEFT_OUT * about / steps, above) if counted(part) else ()
            if not losses and above:
                raise Unresolved("noise or counts that no lattice serves")
            found += losses
    if not found:
        raise Unresolved("nothing with a loss")
    return Total(tuple(found), about)


_ROUNDING = 1e-13
"""Relative, of the probabilities below: a dozen roundings, and those of exp."""


def _randomized_response(epsilon: float) -> EpochLoss:
    """A bit that is told rightly with probability e^epsilon / (1 + e^epsilon): the losses -epsilon and epsilon."""
    first = np.array([1.0, math.exp(-epsilon)])[::-1] / (1.0 + math.exp(-epsilon))
    return EpochLoss(np.array([-epsilon, epsilon]), first, first, first[::-1], 0.0, _ROUNDING)


def _laplace(epsilon: float) -> EpochLoss:
    """Laplace noise of scale 1 / epsilon at 0 and at 1: an atom at each end of [-epsilon, epsilon], cells between.

    Between the means the loss of an output x is epsilon (1 - 2 x), and its density in the loss l goes as e^(l / 2). A cell of
    width w that is put on its ends so that both laws keep its probability has 1 / (1 + e^(-w / 2)) of it on the upper one; as
    one outcome it shows no more than its outputs do.
    """
    width = 2.0 * epsilon / _CELLS
    losses = np.linspace(-epsilon, epsilon, _CELLS + 1)
    # of the cell from losses[i] on: x from (1 - losses[i + 1] / epsilon) / 2 on
    cells = np.exp((losses[1:] - epsilon) / 2.0) * -math.expm1(-width / 2.0) / 2.0
    ends = math.exp(-epsilon) / 2.0, 0.5
    share = 1.0 / (1.0 + math.exp(-width / 2.0))
    masses = np.concatenate([(1.0 - share) * cells, [0.0]]) + np.concatenate([[0.0], share * cells])
    masses[[0, -1]] += ends
    first = np.concatenate([[ends[0]], cells, [ends[1]]])
    return EpochLoss(losses, masses, first, first[::-1], 0.0, _ROUNDING)
