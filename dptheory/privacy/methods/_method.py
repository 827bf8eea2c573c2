"""What a method is: proved bounds of what parts of a run spend in one direction, with its name and its range."""

from typing import NamedTuple, Protocol

from dptheory.privacy._bounds import Direction
from dptheory.privacy._parts import Parts, Steps


class Bracket(NamedTuple):
    """Bounds that hold, and whether they are so narrow that no other method need be asked."""

    lower: float
    upper: float
    settled: bool = False


class Method(Protocol):
    """Bounds of noisy values alone: of steps that may differ, all of them served.

    Methods are asked in the order of ``value_methods`` until a bracket is settled, or its upper end is too small to be told from 0:
    a method that stands behind one which settles the same parts is never asked.
    """

    @property
    def name(self) -> str:
        """What bounds say that come from it."""

    def serves(self, parts: Parts, direction: Direction) -> bool:
        """Whether it has bounds of these parts."""

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        """Bounds of the least delta at an epsilon >= 0."""

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        """Bounds of the least epsilon at a delta in (0, 1)."""
