"""What is asked of a run and what is answered: directions, ranges, and bounds with the names of the methods that gave them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Direction = Literal["remove", "add", "replace"]
"""Which law has the record: the first ("remove"), the second ("add"), or each one of its own ("replace")."""
DIRECTIONS = ("worst", "add", "remove")
SAMPLINGS = ("poisson", "without replacement", "random allocation")
OF_SHUFFLING = "; of shuffled batches there are bounds of epsilon alone: privacy.samplers, dptheory privacy epsilon --sampling shuffled"
NOISE = (0.05, 1000.0)
MAX_STEPS = 1_000_000
MAX_RELEASES = 10**12
"""Of parts that are alike, of all kinds."""
RATE = (1e-8, 1.0)
DELTA = (1e-30, 0.99)
RTOL = 1e-4
"""Relative width of a bracket at which nothing is asked that takes seconds."""
LINE, CLOSED, ONE, LATTICE, GRID, RENYI, ADDED, CHANCE, CERTIFIED, ALLOCATION, BLOCKS, BOTH, RELEASES, NONE = (
    "saddle line",
    "Gaussian",
    "one step",
    "lattice",
    "grid",
    "RDP",
    "values and index sets added up",
    "participations",
    "certified",
    "random allocation",
    "blocks",
    "remove, then add",
    "other releases",
    "nothing",
)


def total_loss(spacing: float, steps: int) -> float:
    """``steps`` times ``spacing``, rounded up."""
    return math.inf if math.isinf(spacing) else double_above(steps * Fraction(spacing))


def added_up(losses: Iterable[float]) -> float:
    """The sum, rounded up."""
    losses = tuple(losses)
    return math.inf if math.inf in losses else double_above(sum(map(Fraction, losses), Fraction(0)))


def double_above(exact: Fraction) -> float:
    """The least double that is not below; inf above all doubles."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


class Unresolved(ArithmeticError):
    """A method cannot do what was asked of it; ``lower`` and ``upper`` are bounds that hold all the same."""

    def __init__(self, message: str, lower: float = 0.0, upper: float = math.inf) -> None:
        super().__init__(message)
        self.lower, self.upper = lower, upper


@dataclass(frozen=True)
class Found:
    """Bounds, and what gave the lower and the upper one."""

    lower: float
    upper: float
    below: str = NONE
    above: str = NONE

    def with_lower(self, lower: float, name: str) -> "Found":
        return Found(lower, self.upper, name, self.above) if lower > self.lower else self

    def with_upper(self, upper: float, name: str) -> "Found":
        return Found(self.lower, upper, self.below, name) if upper < self.upper else self

    def with_more(self, other: "Found") -> "Found":
        """Bounds of the larger of two numbers."""
        lower, upper = max(self, other, key=lambda one: one.lower), max(self, other, key=lambda one: one.upper)
        return Found(lower.lower, upper.upper, lower.below, upper.above)


@dataclass(frozen=True, kw_only=True)
class EpsilonBounds:
    """What is known of the smallest epsilon.

    Attributes:
        lower: epsilon is at least this.
        estimate: the middle of the bracket, whatever gave its ends: lower <= estimate <= upper.
        upper: epsilon is at most this; the number to report.
        method: what gave the bracket: "saddle line" (the inversion integral), "certified" (the same in ball arithmetic),
            "Gaussian" or "one step" (closed forms), "participations" (the bound that reveals in which steps an example took
            part), "lattice", "grid" or "RDP" (where the integral gives a wide bracket only, or serves not at all), without
            replacement, "dominating pair" or "divergence" (proofs/privacy/fixed_size_batches.md), or of random allocation its own
            name, "blocks" (several participations, from above) or "remove, then add" (one record replaced, from above), or "other
            releases" (Laplace noise, black boxes). Of two names the first gave the lower bound, the second the upper one; the middle
            then says only that epsilon is near it if they are close.
    """

    lower: float
    estimate: float
    upper: float
    method: str


@dataclass(frozen=True, kw_only=True)
class ProbabilityBounds:
    """What is known of a probability, such as the smallest delta.

    Attributes:
        lower: it is at least this.
        upper: it is at most this; of delta the number to report.
        method: what gave the bounds, in the words of :class:`EpsilonBounds`; of two names the first gave the lower bound, the
            second the upper one.
    """

    lower: float
    upper: float
    method: str
