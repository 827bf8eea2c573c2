"""Bounds of runs with epochs of random allocation, beside Poisson-sampled steps: proofs/privacy/random_allocation.md.

- One participation, both: the law of the likelihood ratio of an epoch, a mean of independent numbers, on a lattice.
- Several, from above: as many epochs of one participation, each in its share of the steps, drawn at random.
- Several, from below: an attacker who sees no more than the sum of those numbers; of many, the sum of all outputs.
- One record replaced: from above, it is removed, then another one added; from below, removed, added, or the sum of all outputs.
"""

import math

from dptheory.privacy._bounds import ALLOCATION, BLOCKS, BOTH, CLOSED, Direction, Found
from dptheory.privacy._parts import Parts, RandomAllocation, Step, Steps, taking_part_always
from dptheory.privacy.methods._closed_forms import Gaussian
from dptheory.privacy.methods.lattice._method import LEAST_DELTA, delta_bound, lower_epsilon, upper_epsilon

_SHARES = (0.5, 0.9, 0.99)
"""Of delta, for the record that is removed."""
_PLACES = (0.35, 0.45, 0.5, 0.55, 0.65)
"""Of epsilon, for the same."""


def allocation_epsilon(parts: Parts, direction: Direction, delta: float) -> Found:
    """Bounds of the least epsilon of one direction."""
    found = _by_sums(parts, direction, delta=delta)
    if direction == "replace":
        found = found.with_upper(_replaced_epsilon(parts, delta), BOTH)
        for one in ("remove", "add"):
            found = found.with_lower(lower_epsilon(parts, one, delta), ALLOCATION)
        return found
    return found.with_lower(lower_epsilon(parts, direction, delta), ALLOCATION).with_upper(
        upper_epsilon(parts, direction, delta), _name_above(parts)
    )


def allocation_delta(parts: Parts, direction: Direction, epsilon: float) -> Found:
    """Bounds of the least delta of one direction at epsilon >= 0."""
    found = _by_sums(parts, direction, epsilon=epsilon)
    if direction == "replace":
        found = found.with_upper(_replaced_delta(parts, epsilon), BOTH)
        for one in ("remove", "add"):
            found = found.with_lower(delta_bound(parts, one, epsilon, above=False), ALLOCATION)
        return found
    return found.with_lower(delta_bound(parts, direction, epsilon, above=False), ALLOCATION).with_upper(
        delta_bound(parts, direction, epsilon, above=True), _name_above(parts)
    )


def _name_above(parts: Parts) -> str:
    return (
        BLOCKS if any(isinstance(part, RandomAllocation) and part.participations > 1 for part in parts) else ALLOCATION
    )


def _by_sums(parts: Parts, direction: Direction, *, epsilon: float = 0.0, delta: float | None = None) -> Found:
    """What needs no lattice: above, that it is known when the record takes part; below, the sum of the outputs of each epoch."""
    above = tuple(taking_part_always(part) if isinstance(part, RandomAllocation) else part for part in _served(parts))
    below = tuple(step for part in parts for step in _summed(part))
    found = Found(0.0, 1.0 if delta is None else math.inf)
    for steps, upper in ((above, True), (below, False)):
        if not steps or not Gaussian().serves(steps, direction):
            continue
        bracket = (
            Gaussian().delta(steps, direction, epsilon)
            if delta is None
            else Gaussian().epsilon(steps, direction, delta)
        )
        found = found.with_upper(bracket.upper, CLOSED) if upper else found.with_lower(bracket.lower, CLOSED)
    return found


def _summed(part: object) -> Steps:
    """A Gaussian release that shows no more than the part does; none where none is known."""
    if isinstance(part, Step):
        return (part,) if part.sampling_rate == 1.0 else ()
    if isinstance(part, RandomAllocation) and part.steps == part.steps_per_epoch:
        noise = part.noise_multiplier * math.sqrt(part.steps_per_epoch) / part.participations
        return (Step(noise_multiplier=noise * (1 + 1e-15), sampling_rate=1.0, count=part.count),)
    return ()


def _replaced_epsilon(parts: Parts, delta: float) -> float:
    """Of a record that is removed, which costs a share of delta, and another one that is added."""
    best = math.inf
    for share in _SHARES:
        removed = upper_epsilon(parts, "remove", share * delta)
        left = (1.0 - share) * delta * math.exp(-min(removed, 700.0)) * (1 - 1e-12)
        if removed < min(best, 690.0) and left > LEAST_DELTA:
            best = min(best, (removed + upper_epsilon(parts, "add", left)) * (1 + 1e-15))
    return best


def _replaced_delta(parts: Parts, epsilon: float) -> float:
    best = 1.0
    for place in _PLACES:
        removed = place * epsilon
        added = (epsilon - removed) * (1 - 1e-15)
        if removed < 690.0:
            found = delta_bound(parts, "remove", removed, above=True)
            found += math.exp(removed) * (1 + 1e-12) * delta_bound(parts, "add", added, above=True)
            best = min(best, found)
    return best


def _served(parts: Parts) -> tuple[Step | RandomAllocation, ...]:
    """All parts: no others stand beside epochs of random allocation."""
    return tuple(part for part in parts if isinstance(part, Step | RandomAllocation))
