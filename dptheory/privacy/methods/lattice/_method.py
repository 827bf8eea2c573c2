"""Sums of losses on one lattice, from both sides: of noisy values as a method, and bounds of whatever else a run releases.

Each part's loss is spread from above and contracted from below, and the sum is formed by one tilted transform
(proofs/privacy/random_allocation.md, steps 6 and 8).
"""

import math

from dptheory.privacy._bounds import LATTICE, MAX_STEPS, NOISE, RATE, Direction, Unresolved
from dptheory.privacy._parts import Parts, Step, Steps
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods.lattice._part_losses import total_loss
from dptheory.privacy.methods.random_allocation._total import power_of_ten
from dptheory.privacy.methods.saddle._brackets import bins

LEAST_DELTA = 1e-300
"""A delta for which no finer lattice is made."""
_MOST = 128
"""More kinds than these are binned: each takes some hundredths of a second."""
_NARROW = 1e-2
"""Relative width at which no other method is asked."""
_GUESS, _PASSES = 1e-6, 4


def upper_epsilon(parts: Parts, direction: Direction, delta: float) -> float:
    """An epsilon at which delta is surely at most ``delta``; inf where no lattice serves."""
    try:
        return total_loss(parts, direction, power_of_ten(delta), True).upper_epsilon(delta)
    except Unresolved:
        return math.inf


def lower_epsilon(parts: Parts, direction: Direction, delta: float) -> float:
    """An epsilon at which delta is surely at least ``delta``, or 0."""
    try:
        return total_loss(parts, direction, power_of_ten(delta), False).lower_epsilon(delta)
    except Unresolved:
        return 0.0


def delta_bound(parts: Parts, direction: Direction, epsilon: float, *, above: bool) -> float:
    """A bound of delta from a lattice that is good where delta is about what it is found to be; 0 or 1 where none serves."""
    best, about = 1.0 if above else 0.0, _GUESS
    try:
        for _ in range(_PASSES):
            total = total_loss(parts, direction, power_of_ten(about), above)
            best = min(best, total.upper_delta(epsilon)) if above else max(best, total.lower_delta(epsilon))
            if best >= about / 100 or best < LEAST_DELTA:
                break
            about = best
    except Unresolved:
        pass
    return best


class Lattice:
    """Wider than the line where the line is narrow, far narrower where it is not: few steps, heavy tails, kinds that differ."""

    name = LATTICE

    def serves(self, parts: Parts, direction: Direction) -> bool:
        return all(
            isinstance(part, Step)
            and part.count <= MAX_STEPS
            and NOISE[0] / 2 <= part.noise_multiplier <= NOISE[1]
            and part.sampling_rate >= RATE[0]
            for part in parts
        )

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        lower, upper = (
            delta_bound(bins(steps, upper=above, most=_MOST), direction, epsilon, above=above)
            for above in (False, True)
        )
        return Bracket(lower, upper, upper - lower <= _NARROW * upper)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        lower = lower_epsilon(bins(steps, upper=False, most=_MOST), direction, delta)
        upper = upper_epsilon(bins(steps, upper=True, most=_MOST), direction, delta)
        return Bracket(lower, upper, upper - lower <= _NARROW * upper)
