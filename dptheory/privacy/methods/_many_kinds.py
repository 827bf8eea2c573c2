"""Poisson steps of many kinds, a run with a schedule of noise or rates, as methods: on a line, and on a lattice.

The saddle line's cost grows with the kinds, so that it bins them, once towards more privacy and once towards less: 16 bins of a
schedule by which the noise falls to a third are 14 % of epsilon apart. Kinds of near noise share the nodes of one rule, and near
rates are interpolated (proofs/privacy/saddle_line.md, steps 13 and 15). Where no line serves every kind has its own law on a
lattice, spread from above and contracted from below, and the sum is formed by one transform:
proofs/privacy/random_allocation.md, steps 6 and 8.
"""

import functools
import math
from dataclasses import dataclass

from dptheory.privacy._bounds import LATTICE, LINE, MAX_STEPS, NOISE, RATE, RTOL, Direction, Unresolved
from dptheory.privacy._parts import Parts, Step, Steps
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods.lattice._rising_loss import sampled_loss
from dptheory.privacy.methods.random_allocation._losses import PartLoss, StepLoss
from dptheory.privacy.methods.random_allocation._total import LEFT_OUT, Total, power_of_ten
from dptheory.privacy.methods.saddle._brackets import MOST_KINDS, Lines, SaddleLine, bins, ends_around, nearly_alike
from dptheory.privacy.methods.saddle._line import Plan, line_of, plan_line, saddle_at, saddle_for
from dptheory.privacy.methods.saddle._schedule import Schedule, schedule

_TURNS, _NEAR = 3, 3e-3
_CELLS = 2**12
_MOST = 128
"""More kinds than these are binned: each takes some hundredths of a second."""
_NARROW = 1e-2
"""Relative width at which no other method is asked."""
_GUESS, _LEAST, _PASSES = 1e-6, 1e-300, 3


@dataclass(frozen=True)
class ManyKindsLine:
    """Steps of more kinds than the saddle line computes one by one, on a line all the same: add/remove alone."""

    longest: bool = True
    name = LINE

    def serves(self, parts: Parts, direction: Direction) -> bool:
        steps = tuple(part for part in parts if isinstance(part, Step))
        return (
            direction != "replace" and MOST_KINDS < len(parts) == len(steps) and SaddleLine().serves(parts, direction)
        )

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        try:
            lower, upper = self._lines(steps, direction, epsilon).delta_bracket(epsilon)
        except Unresolved:
            return Bracket(0.0, 1.0)
        return Bracket(lower, upper, upper - lower <= RTOL * upper)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        lower, upper = 0.0, math.inf
        try:
            about = max(saddle_for(_law(steps, direction).total, math.log(delta)).epsilon, 0.0)
            for _ in range(_TURNS):
                lines = self._lines(steps, direction, about)
                if about == 0.0 and lines.delta_bracket(0.0)[1] <= delta:
                    return Bracket(0.0, 0.0, settled=True)
                lower, upper = ends_around(lines, lines.delta_bracket, delta, (0.0, math.inf))
                blurred = _plan(steps, direction, about).smoothing > 0.0 and upper - lower > _NARROW * upper
                if blurred or abs(upper - about) <= _NEAR * upper:
                    break
                about = upper
        except Unresolved:  # as where epsilon is so near 0 that its line says nothing
            if upper == math.inf and self.delta(steps, direction, 0.0).upper <= delta:
                return Bracket(0.0, 0.0, settled=True)
        return Bracket(lower, upper, lower > 0.0 and upper - lower <= RTOL * upper)

    def _lines(self, steps: Steps, direction: Direction, epsilon: float) -> Lines:
        if not self.longest and _plan(steps, direction, epsilon).smoothing > 0.0:
            raise Unresolved("a line that takes many seconds")
        return _lines(steps, direction, epsilon)


@functools.lru_cache(maxsize=16)
def _law(steps: Steps, direction: Direction) -> Schedule:
    return schedule(steps, bins(steps, upper=None, most=_MOST), direction)


@functools.lru_cache(maxsize=16)
def _plan(steps: Steps, direction: Direction, epsilon: float) -> Plan:
    law = _law(steps, direction)
    return plan_line(law, saddle_at(law.total, epsilon))


@functools.lru_cache(maxsize=16)
def _lines(steps: Steps, direction: Direction, epsilon: float) -> Lines:
    return Lines(epsilon, (line_of(_plan(steps, direction, epsilon)),))


class ManyKinds:
    """The same on a lattice, where there is no line: one record replaced, heavy tails."""

    name = LATTICE

    def serves(self, parts: Parts, direction: Direction) -> bool:
        steps = tuple(part for part in parts if isinstance(part, Step))
        return (
            MOST_KINDS < len(parts) == len(steps)
            and all(
                part.count <= MAX_STEPS
                and NOISE[0] / 2 <= part.noise_multiplier <= NOISE[1]
                and part.sampling_rate >= RATE[0]
                for part in steps
            )
            and not nearly_alike(steps)
        )

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        lower, upper = 0.0, 1.0
        about = _GUESS
        try:
            for _ in range(_PASSES):
                upper = min(upper, _total(steps, direction, about, True).upper_delta(epsilon))
                if upper >= about / 100 or upper < _LEAST:
                    break
                about = power_of_ten(upper)
            lower = _total(steps, direction, about, False).lower_delta(epsilon)
        except Unresolved:
            pass
        return Bracket(lower, upper, upper - lower <= _NARROW * upper)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        lower, upper, about = 0.0, math.inf, power_of_ten(delta)
        try:
            upper = _total(steps, direction, about, True).upper_epsilon(delta)
            lower = _total(steps, direction, about, False).lower_epsilon(delta)
        except Unresolved:
            pass
        return Bracket(lower, upper, upper - lower <= _NARROW * upper)


@functools.lru_cache(maxsize=8)
def _total(steps: Steps, direction: Direction, about: float, above: bool) -> Total:
    kinds = bins(steps, upper=above, most=_MOST)
    budget = LEFT_OUT * about / sum(step.count for step in kinds)
    parts: list[tuple[PartLoss, int]] = []
    for step in kinds:
        loss = sampled_loss(step.noise_multiplier, step.sampling_rate, direction)
        parts.append((StepLoss(loss.cells(math.log(budget), _CELLS), budget), step.count))
    return Total(tuple(parts), about)
