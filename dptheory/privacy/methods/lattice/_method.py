"""Few or rare steps of one kind as a method: their losses on a lattice, from above and from below.

Where a record takes part in a step next to never, the law of the losses has two scales, and no line of the integral is narrow.
Here each step's loss is put on a lattice, and the sum is formed by a transform (proofs/privacy/fixed_size_batches.md, step 9),
or, of few steps, by plain convolution, which rounds each mass by no more than a share of it.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy

from dptheory.privacy._bounds import LATTICE, MAX_STEPS, NOISE, RATE, Direction
from dptheory.privacy._parts import Parts, Step, Steps
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods.lattice._epsilon import LEFT_OUT, largest_delta, least_epsilon
from dptheory.privacy.methods.lattice._rising_loss import LossCells, sampled_loss
from dptheory.privacy.methods.lattice._sums import LatticeMasses, power

_SHARE = LEFT_OUT / 2  # of delta: the largest outputs
_ROUNDED = 2.0**-50
"""What rounding moves a step's loss by: differences of masses are rounded, and a cell's split with them."""
_MARGIN = 1e-9  # relative, on masses: of convolutions, whose errors are some thousand units in the last place
_FEW = 64
_POINTS = 2**15  # of the sum of few steps
_PASSES = 3


class Lattice:
    """Steps of one kind on a lattice: wider than the line where the line is narrow, far narrower where it is not.

    Proof: proofs/privacy/fixed_size_batches.md, steps 7 to 9: losses rounded up and down to cells, their sum, what is left out.
    """

    name = LATTICE

    def serves(self, parts: Parts, direction: Direction) -> bool:
        return len(parts) == 1 and _one_kind(parts[0])

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        step, guess = steps[0], 1e-12
        lower, upper = 0.0, 1.0
        for _ in range(_PASSES):
            found = _Sum(step, direction, guess)
            lower, upper = max(lower, found.lower_delta(epsilon)), min(upper, found.upper_delta(epsilon))
            if upper >= guess / 100:
                break
            guess = max(upper, 1e-300)
        return Bracket(lower, upper)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        found = _Sum(steps[0], direction, delta)
        return Bracket(found.lower_epsilon(), found.upper_epsilon())


def _one_kind(part: object) -> bool:
    return (
        isinstance(part, Step)
        and 1 < part.count <= MAX_STEPS
        and NOISE[0] / 2 <= part.noise_multiplier <= NOISE[1]
        and RATE[0] <= part.sampling_rate < 1.0
    )


class _Sum:
    """The losses of all steps; what is left out of them is small against ``delta``."""

    def __init__(self, step: Step, direction: Direction, delta: float) -> None:
        self._count, self._delta = step.count, delta
        loss = sampled_loss(step.noise_multiplier, step.sampling_rate, direction)
        self._cells: LossCells = loss.cells(math.log(_SHARE * delta / step.count))
        self._span = float(max(np.ptp(self._cells.losses), self._cells.losses[-1]))
        spacing = self._span * self._count / _POINTS
        few = self._count <= _FEW and spacing > 0.0
        self._above = power(self._cells.from_above(spacing), self._count) if few else None
        self._below = power(self._cells.from_below(spacing), self._count) if few else None

    @property
    def _nothing(self) -> bool:
        """Whether all that has a loss above 0 is left out, and less likely than delta."""
        return bool(self._cells.losses[-1] <= 0.0)

    def upper_epsilon(self) -> float:
        if self._nothing:
            return 0.0
        moved = self._count * _ROUNDED
        found = least_epsilon(self._cells.from_above, self._span, self._count, self._delta) + moved
        if self._above is not None:
            allowed = self._delta * (1 - LEFT_OUT - _MARGIN)
            found = min(found, _crossing(_hockey_stick(self._above), allowed, down=False) + moved)
        return found

    def lower_epsilon(self) -> float:
        if self._below is None or self._nothing:
            return 0.0
        found = _crossing(_hockey_stick(self._below), self._delta * (1 + _MARGIN), down=True)
        return max(0.0, found - self._count * _ROUNDED)

    def upper_delta(self, epsilon: float) -> float:
        left_out = LEFT_OUT * self._delta
        if self._nothing:
            return left_out
        less = max(0.0, epsilon - self._count * _ROUNDED)
        found = largest_delta(self._cells.from_above, self._span, self._count, less, self._delta)
        if self._above is not None:
            found = min(found, _hockey_stick(self._above)(less) * (1 + _MARGIN) + left_out)
        return found

    def lower_delta(self, epsilon: float) -> float:
        if self._below is None or self._nothing:
            return 0.0
        return _hockey_stick(self._below)(epsilon + self._count * _ROUNDED) * (1 - _MARGIN)


def _hockey_stick(total: LatticeMasses) -> Callable[[float], float]:
    """E (1 - exp(epsilon - loss))+ as a function of epsilon."""
    losses, masses = total.losses, total.masses

    def value(epsilon: float) -> float:
        first = int(np.searchsorted(losses, epsilon))
        return float(masses[first:] @ -np.expm1(epsilon - losses[first:]))

    return value


def _crossing(falling: Callable[[float], float], level: float, *, down: bool) -> float:
    """Just before a falling function crosses a level, or just after; 0 where it never exceeds it."""

    def excess(epsilon: float) -> float:
        return math.log(max(falling(epsilon), 1e-320)) - math.log(level)

    if excess(0.0) <= 0.0:
        return 0.0
    high = 1e-12
    while excess(high) > 0.0:
        high *= 4.0
    root = float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-13 * high, rtol=1e-12))
    step = 2e-12 * root + 2e-13 * high
    return max(0.0, root - step) if down else root + step
