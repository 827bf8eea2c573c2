"""Bounds of runs with epochs of random allocation, beside Poisson-sampled steps: proofs/privacy/random_allocation.md.

- One participation, both: the law of the likelihood ratio of an epoch, a mean of independent numbers, on a lattice.
- Several, from above: as many epochs of one participation, each in its share of the steps, drawn at random.
- Several, from below: an attacker who sees no more than the sum of those numbers; of many, the sum of all outputs.
- One record replaced: from above, it is removed, then another one added; from below, removed, added, or the sum of all outputs.
"""

import functools
import math

import scipy

from dptheory.privacy._bounds import ALLOCATION, BLOCKS, BOTH, CLOSED, MAX_STEPS, NOISE, Direction, Found, Unresolved
from dptheory.privacy._parts import Parts, RandomAllocation, Step, Steps, taking_part_always
from dptheory.privacy.methods._closed_forms import Gaussian
from dptheory.privacy.methods.lattice._rising_loss import sampled_loss
from dptheory.privacy.methods.random_allocation._losses import PartLoss, StepLoss, epoch_loss
from dptheory.privacy.methods.random_allocation._ratio import epoch_law
from dptheory.privacy.methods.random_allocation._total import LEFT_OUT, Total, lattice_delta, power_of_ten

_LEAST_NOISE = 0.2
"""With less the lattice has hundreds of octaves, and epochs give themselves away."""
_MOST_COUNTED = 8
_PER_OCTAVE_COUNTED = 64
"""Participations that are counted from below, and the points of their lattice: the bound from above is farther off than that."""
_SHARES = (0.5, 0.9, 0.99)
"""Of delta, for the record that is removed."""
_PLACES = (0.35, 0.45, 0.5, 0.55, 0.65)
"""Of epsilon, for the same."""
_LEAST_ABOUT = 1e-300


def allocation_epsilon(parts: Parts, direction: Direction, delta: float) -> Found:
    """Bounds of the least epsilon of one direction."""
    found = _by_sums(parts, direction, delta=delta)
    if direction == "replace":
        found = found.with_upper(_replaced_epsilon(parts, delta), BOTH)
        for one in ("remove", "add"):
            found = found.with_lower(_lower_epsilon(parts, one, delta), ALLOCATION)
        return found
    return found.with_lower(_lower_epsilon(parts, direction, delta), ALLOCATION).with_upper(
        _upper_epsilon(parts, direction, delta), _name_above(parts)
    )


def allocation_delta(parts: Parts, direction: Direction, epsilon: float) -> Found:
    """Bounds of the least delta of one direction at epsilon >= 0."""
    found = _by_sums(parts, direction, epsilon=epsilon)
    if direction == "replace":
        found = found.with_upper(_replaced_delta(parts, epsilon), BOTH)
        for one in ("remove", "add"):
            found = found.with_lower(_delta(parts, one, epsilon, above=False), ALLOCATION)
        return found
    return found.with_lower(_delta(parts, direction, epsilon, above=False), ALLOCATION).with_upper(
        _delta(parts, direction, epsilon, above=True), _name_above(parts)
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


def _upper_epsilon(parts: Parts, direction: Direction, delta: float) -> float:
    try:
        return _total(parts, direction, power_of_ten(delta), True).upper_epsilon(delta)
    except Unresolved:
        return math.inf


def _lower_epsilon(parts: Parts, direction: Direction, delta: float) -> float:
    try:
        return _total(parts, direction, power_of_ten(delta), False).lower_epsilon(delta)
    except Unresolved:
        return 0.0


def _delta(parts: Parts, direction: Direction, epsilon: float, *, above: bool) -> float:
    return lattice_delta(lambda about: _total(parts, direction, about, above), epsilon, above=above, least=_LEAST_ABOUT)


def _replaced_epsilon(parts: Parts, delta: float) -> float:
    """Of a record that is removed, which costs a share of delta, and another one that is added."""
    best = math.inf
    for share in _SHARES:
        removed = _upper_epsilon(parts, "remove", share * delta)
        left = (1.0 - share) * delta * math.exp(-min(removed, 700.0)) * (1 - 1e-12)
        if removed < min(best, 690.0) and left > _LEAST_ABOUT:
            best = min(best, (removed + _upper_epsilon(parts, "add", left)) * (1 + 1e-15))
    return best


def _replaced_delta(parts: Parts, epsilon: float) -> float:
    best = 1.0
    for place in _PLACES:
        removed = place * epsilon
        added = (epsilon - removed) * (1 - 1e-15)
        if removed < 690.0:
            found = _delta(parts, "remove", removed, above=True)
            found += math.exp(removed) * (1 + 1e-12) * _delta(parts, "add", added, above=True)
            best = min(best, found)
    return best


@functools.lru_cache(maxsize=32)
def _total(parts: Parts, direction: Direction, about: float, above: bool) -> Total:
    """All parts for the bounds of one side; what is not served is left out below, as if not released, and Unresolved above."""
    served = _served(parts)
    steps = sum(part.steps * part.count if isinstance(part, RandomAllocation) else part.count for part in served)
    found: list[tuple[PartLoss, int]] = []
    for part in served:
        losses = part_losses(part, direction, LEFT_OUT * about / steps, above) if counted(part) else ()
        if not losses and above:
            raise Unresolved("noise or counts that no lattice serves")
        found += losses
    if not found:
        raise Unresolved("noise or counts that no lattice serves")
    return Total(tuple(found), about)


def _served(parts: Parts) -> tuple[Step | RandomAllocation, ...]:
    """All parts: no others stand beside epochs of random allocation."""
    return tuple(part for part in parts if isinstance(part, Step | RandomAllocation))


def counted(part: Step | RandomAllocation) -> bool:
    return part.count <= MAX_STEPS and _LEAST_NOISE <= part.noise_multiplier <= NOISE[1]


def part_losses(
    part: Step | RandomAllocation, direction: Direction, budget: float, above: bool
) -> tuple[tuple[PartLoss, int], ...]:
    """The losses that one part adds; of each step at most ``budget`` is left out, of its probability."""
    if isinstance(part, Step):
        cells = sampled_loss(part.noise_multiplier, part.sampling_rate, direction).cells(math.log(budget))
        return ((StepLoss(cells, budget), part.count),)
    shift, reach = 1.0 / part.noise_multiplier, _reach(budget)
    steps, k = part.steps, part.participations
    if k == 1:
        law = epoch_law(shift, steps, 1, reach)
        return ((epoch_loss(law, direction, steps / part.steps_per_epoch), part.count),)
    if above:  # an epoch that was cut short costs at most a whole one
        size, longer = divmod(part.steps_per_epoch, k)
        blocks = ((size + 1, longer), (size, k - longer))
        return tuple(
            (epoch_loss(epoch_law(shift, length, 1, reach), direction), number * part.count)
            for length, number in blocks
            if number > 0
        )
    if k > _MOST_COUNTED or steps < part.steps_per_epoch:
        return ()
    law = epoch_law(shift, steps, k, reach, _PER_OCTAVE_COUNTED)
    return ((epoch_loss(law, direction), part.count),)


def _reach(budget: float) -> float:
    """Deviations beyond which an output has a probability of a few percent of the budget, in halves."""
    return math.ceil(-2.0 * float(scipy.special.ndtri_exp(math.log(budget) - 3.0))) / 2
