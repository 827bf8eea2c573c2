"""Enclosures in ball arithmetic; what is refused as errors that name the argument."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import CERTIFIED, Direction, Found, Unresolved
from dptheory.privacy._parts import FixedSizeStep, Parts, RandomAllocation, Step, Steps, values_of


def certified_epsilon(parts: Parts, directions: tuple[Direction, ...], delta: float) -> Found:
    """The least epsilon of noisy values, enclosed."""
    with _enclosures(parts) as (module, run):
        lower, upper = module.worst_epsilon(run, delta=delta, among=directions)
    return Found(lower, upper, CERTIFIED, CERTIFIED)


def certified_delta(parts: Parts, directions: tuple[Direction, ...], epsilon: float) -> Found:
    """The least delta of noisy values, enclosed: that of all directions."""
    return functools.reduce(Found.with_more, [certified_direction(parts, one, epsilon) for one in directions])


@functools.lru_cache(maxsize=512)
def certified_direction(parts: Parts, direction: Direction, epsilon: float) -> Found:
    """The least delta of noisy values in one direction, enclosed."""
    with _enclosures(parts) as (module, run):
        lower, upper = module.worst_delta(run, epsilon=epsilon, among=(direction,))
    return Found(lower, upper, CERTIFIED, CERTIFIED)


def _epochs(parts: Parts) -> RandomAllocation | None:
    """Whole epochs of random allocation, one participation each, where a run is nothing else."""
    match parts:
        case (RandomAllocation(participations=1) as part,) if part.steps == part.steps_per_epoch:
            return part
    return None


def _noisy_values(parts: Parts) -> Steps:
    if any(isinstance(part, FixedSizeStep) for part in parts):
        raise ArgumentError(
            "certified", "be False for sampling 'without replacement', whose upper bound is not an enclosure", True
        )
    others = sorted({type(part).__name__ for part in parts if not isinstance(part, Step)})
    if others:
        raise ArgumentError(
            "certified",
            f"be False with {', '.join(others)}: noisy values, or whole epochs with one participation, alone have enclosures; "
            "the bounds in doubles hold",
            True,
        )
    return values_of(parts, hidden=False)


@contextmanager
def _enclosures(parts: Parts) -> Iterator[tuple[ModuleType, Steps | RandomAllocation]]:
    """The module that computes in ball arithmetic, and what it is asked of."""
    try:
        from dptheory.privacy.methods.random_allocation import _enclosure as of_epochs  # python-flint is an extra
        from dptheory.privacy.methods.saddle import _enclosure as of_steps
    except ModuleNotFoundError as missing:
        if missing.name != "flint":
            raise
        raise ArgumentError(
            "certified", "be False without python-flint: pip install 'dptheory[certified]'", True
        ) from None
    try:
        epochs = _epochs(parts)
        yield (of_steps, _noisy_values(parts)) if epochs is None else (of_epochs, epochs)
    except Unresolved as refused:
        raise ArgumentError("certified", f"be False here: {refused}", True) from None
