"""The saddle line as a method: noisy values of Poisson samples, steps that may differ.

Each bracket is as narrow as the errors that proofs/privacy/saddle_line.md bounds.
"""

import functools
import math
from dataclasses import dataclass

from dptheory.privacy._bounds import LINE, RTOL, Direction, Unresolved
from dptheory.privacy._parts import Parts, Step, Steps
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods.saddle._delta import delta_bounds_at, narrow
from dptheory.privacy.methods.saddle._epsilon import epsilon_of
from dptheory.privacy.methods.saddle._points import step_losses

_NOISE, _RATE, _STEPS = (0.025, 1e7), 1e-8, 10**12
"""Where the line is tried; elsewhere it is slow to find that it cannot. From half of the least noise of a batch of a fixed size."""
MOST_KINDS = 16
"""Steps of more kinds are binned, once towards more privacy and once towards less."""
_ALIKE = 1.0001 + 1e-12


@dataclass(frozen=True)
class SaddleLine:
    """The inversion integral on the saddle line: all but exact in its range, and quick.

    Attributes:
        rtol: relative width of delta at which no lines are asked that take long.
    """

    rtol: float = RTOL
    name = LINE

    def serves(self, parts: Parts, direction: Direction) -> bool:
        return all(
            isinstance(part, Step) and _NOISE[0] <= part.noise_multiplier <= _NOISE[1] and part.sampling_rate >= _RATE
            for part in parts
        ) and self._few(parts)

    def _few(self, parts: Parts) -> bool:
        return sum(part.count for part in parts if isinstance(part, Step)) <= _STEPS

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        less, more = bins(steps, upper=False), bins(steps, upper=True)
        low, high = delta_bounds_at(step_losses(less, direction), epsilon, self.rtol)
        if more != less:
            high = delta_bounds_at(step_losses(more, direction), epsilon, self.rtol)[1]
        return Bracket(max(0.0, low), min(1.0, high), high - low <= self.rtol * high or more != less)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        less, more = bins(steps, upper=False), bins(steps, upper=True)
        found = self._bracket(less, direction, delta)
        if more == less:
            return found
        above = self._bracket(more, direction, delta)
        return Bracket(found.lower, above.upper, found.settled and above.settled)

    def _bracket(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        try:
            return Bracket(*epsilon_of(step_losses(steps, direction), delta, self.rtol), settled=True)
        except Unresolved as refused:  # what it carries holds all the same
            return Bracket(refused.lower, refused.upper)


@functools.lru_cache(maxsize=64)
def bins(steps: Steps, *, upper: bool | None, most: int = MOST_KINDS) -> Steps:
    """At most so many kinds: each step with no more noise and no lower rate than it has, or the other way round.

    ``upper``: which of both; None for kinds of about the same law, for what is no bound.
    """
    found, width = steps, 1e-4
    while len(found) > most:
        groups: dict[tuple[int, int], list[Step]] = {}
        for step in steps:
            key = math.floor(math.log(step.noise_multiplier) / width), math.floor(math.log(step.sampling_rate) / width)
            groups.setdefault(key, []).append(step)
        one, other = (_middle, _middle) if upper is None else (min, max) if upper else (max, min)
        found = tuple(
            Step(
                noise_multiplier=one([step.noise_multiplier for step in group]),
                sampling_rate=other([step.sampling_rate for step in group]),
                count=sum(step.count for step in group),
            )
            for group in groups.values()
        )
        width *= 2
    return found


def _middle(values: list[float]) -> float:
    return (min(values) + max(values)) / 2


def nearly_alike(steps: Steps) -> bool:
    """Whether the bins, if any, are so narrow that they move epsilon by a few 1e-4 of itself at most."""
    less, more = bins(steps, upper=False), bins(steps, upper=True)
    return all(
        one.noise_multiplier <= other.noise_multiplier * _ALIKE and other.sampling_rate <= one.sampling_rate * _ALIKE
        for one, other in zip(less, more, strict=True)
    )


def direction_delta(steps: Steps, *, epsilon: float, direction: Direction) -> tuple[float, float]:
    """Bounds of delta(epsilon) of one direction.

    Raises:
        Unresolved: wider than ``WIDEST``; it carries the bounds that hold.
    """
    low, high = delta_bounds_at(step_losses(steps, direction), epsilon)
    if not narrow(low, high):
        raise Unresolved(f"delta is known to lie in [{low!r}, {high!r}] only", low, high)
    return low, high


def direction_epsilon(steps: Steps, *, delta: float, direction: Direction) -> tuple[float, float]:
    """Bounds of the smallest epsilon of one direction.

    Raises:
        Unresolved: delta there is not known to within ``WIDEST``, nor epsilon to within 1e-9; it carries bounds that hold.
    """
    return epsilon_of(step_losses(steps, direction), delta)
