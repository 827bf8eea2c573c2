"""Ranges of numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """A closed range of numbers.

    Attributes:
        low: its lower end.
        high: its upper end.
    """

    low: float
    high: float
