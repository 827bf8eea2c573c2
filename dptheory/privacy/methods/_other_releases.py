"""Bounds of runs that release more than steps: Laplace noise, and (epsilon, delta) releases as black boxes.

Proof: proofs/privacy/other_samplers.md. The pair of laws that dominates a black box is revealed with probability delta, and randomized
response otherwise. So delta(epsilon) of a run is D + (1 - D) delta'(epsilon): D is the chance that some black box is
revealed, delta' that of everything else, whose losses are finite. Those are put on one lattice with those of the steps.
"""

import math
from collections.abc import Callable

from dptheory.privacy._bounds import ADDED, NONE, RELEASES, Direction, Found
from dptheory.privacy._parts import BlackBox, LaplaceRelease, Parts, RandomAllocation, Step
from dptheory.privacy.methods.lattice._method import delta_bound, lower_epsilon, upper_epsilon

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
    found = found.with_upper(upper_epsilon(parts, direction, left), RELEASES)
    return found.with_lower(lower_epsilon(parts, direction, most), RELEASES)


def releases_delta(parts: Parts, direction: Direction, epsilon: float, alone: Callable[[Parts, float], Found]) -> Found:
    """Bounds of the least delta of one direction; ``alone``: those of the steps alone, at an epsilon."""
    low, high = _revealed(parts)
    others, pure = _others(parts), _pure(parts)
    found = Found(0.0, 1.0)
    if others:
        rest = alone(others, epsilon)
        found = found.with_lower(rest.lower, rest.below)
    if pure * _UP <= epsilon:
        rest = alone(others, math.nextafter(epsilon - pure * _UP, 0.0)) if others else Found(0.0, 0.0)
        found = found.with_upper(rest.upper, ADDED if others else RELEASES)
    if found.upper > 0.0:
        found = found.with_lower(delta_bound(parts, direction, epsilon, above=False), RELEASES).with_upper(
            delta_bound(parts, direction, epsilon, above=True), RELEASES
        )
    upper = min(1.0, (high + (1.0 - high) * found.upper) * _UP)
    return Found((low + (1.0 - low) * found.lower) / _UP, upper, found.below, found.above)


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
