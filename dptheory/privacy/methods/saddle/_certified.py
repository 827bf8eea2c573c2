"""Enclosures in ball arithmetic; what is refused as errors that name the argument."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import CERTIFIED, Direction, Found, Unresolved
from dptheory.privacy._parts import FixedSizeStep, Parts, Step, Steps, values_of


def certified_epsilon(parts: Parts, directions: tuple[Direction, ...], delta: float) -> Found:
    """The least epsilon of noisy values, enclosed."""
    with _enclosures() as module:
        lower, upper = module.worst_epsilon(_noisy_values(parts), delta=delta, among=directions)
    return Found(lower, upper, CERTIFIED, CERTIFIED)


def certified_delta(parts: Parts, directions: tuple[Direction, ...], epsilon: float) -> Found:
    """The least delta of noisy values, enclosed: that of all directions."""
    return functools.reduce(Found.with_more, [certified_direction(parts, one, epsilon) for one in directions])


@functools.lru_cache(maxsize=512)
def certified_direction(parts: Parts, direction: Direction, epsilon: float) -> Found:
    """The least delta of noisy values in one direction, enclosed."""
    with _enclosures() as module:
        lower, upper = module.worst_delta(_noisy_values(parts), epsilon=epsilon, among=(direction,))
    return Found(lower, upper, CERTIFIED, CERTIFIED)


def _noisy_values(parts: Parts) -> Steps:
    if any(isinstance(part, FixedSizeStep) for part in parts):
        raise ArgumentError(
            "certified", "be False for sampling 'without replacement', whose upper bound is not an enclosure", True
        )
    others = sorted({type(part).__name__ for part in parts if not isinstance(part, Step)})
    if others:
        raise ArgumentError(
            "certified",
            f"be False with {', '.join(others)}: only noisy values have enclosures; the bounds in doubles hold",
            True,
        )
    return values_of(parts, hidden=False)


@contextmanager
def _enclosures() -> Iterator[ModuleType]:
    """The module that computes in ball arithmetic.

    Raises:
        ValueError: python-flint is not there, or what is asked for is outside the range of the method.
    """
    try:
        from dptheory.privacy.methods.saddle import _enclosure as module  # python-flint is an extra
    except ModuleNotFoundError as missing:
        if missing.name != "flint":
            raise
        raise ArgumentError(
            "certified", "be False without python-flint: pip install 'dptheory[certified]'", True
        ) from None
    try:
        yield module
    except Unresolved as refused:
        raise ArgumentError("certified", f"be False here: {refused}", True) from None
