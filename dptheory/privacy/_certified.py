"""Enclosures of compositions in ball arithmetic; what it refuses as errors that name the argument."""

import functools

from dptheory._adjacency import Adjacency
from dptheory.privacy._bounds import Found
from dptheory.privacy._parts import Part, Step
from dptheory.privacy._values_bounds import values_of
from dptheory.privacy.methods.saddle._ball_arithmetic import enclosures
from dptheory.privacy.methods.saddle._brackets import directions
from dptheory.privacy.methods.saddle._moments import Direction

CERTIFIED = "certified"


def certified_epsilon(parts: tuple[Part, ...], adjacency: Adjacency, delta: float) -> Found:
    """The smallest epsilon of noisy values, enclosed."""
    _noisy_values_alone(parts)
    with enclosures() as module:
        lower, upper = module.certified_epsilon(values_of(parts, hidden=False), delta=delta, adjacency=adjacency)
    return Found(lower, upper, CERTIFIED, CERTIFIED)


def certified_delta(parts: tuple[Part, ...], adjacency: Adjacency, epsilon: float) -> Found:
    """The smallest delta of noisy values, enclosed: that of all directions of the adjacency."""
    first, *others = (certified_direction(parts, one, epsilon) for one in directions(adjacency))
    for other in others:
        first = first.with_more(other)
    return first


@functools.lru_cache(maxsize=512)
def certified_direction(parts: tuple[Part, ...], direction: Direction, epsilon: float) -> Found:
    """The smallest delta of noisy values in one direction, enclosed."""
    _noisy_values_alone(parts)
    with enclosures() as module:
        lower, upper = module.worst_delta(values_of(parts, hidden=False), epsilon=epsilon, among=(direction,))
    return Found(lower, upper, CERTIFIED, CERTIFIED)


def _noisy_values_alone(parts: tuple[Part, ...]) -> None:
    others = sorted({type(part).__name__ for part in parts if not isinstance(part, Step)})
    if others:
        raise ValueError(
            f"certified must be False with {', '.join(others)}: only noisy values have enclosures; the bounds in doubles hold"
        )
