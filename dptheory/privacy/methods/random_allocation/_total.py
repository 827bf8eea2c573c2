"""Epsilon and delta of independent parts, each with its loss on one lattice, from above and from below."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from dptheory.privacy._bounds import Unresolved
from dptheory.privacy.methods.lattice._epsilon import highest, least, positive_part, tilt_at
from dptheory.privacy.methods.lattice._sums import LatticeMasses, LatticeSum, radius, tilt_for, tilted_sum_of
from dptheory.privacy.methods.random_allocation._losses import PartLoss

_FINE = 250
"""Lattice points to the standard deviation of a part's loss."""
_COARSE = 4000
_MOST = 2**18
_MARGIN = 1e-9
"""Relative, on delta: what else is rounded."""
_ROUNDS = 3
_CLOSE = 1e-6


@dataclass(frozen=True, eq=False)
class Total:
    """Parts of a run and how often each occurs; bounds are close at about ``delta``, which what is left out is small against."""

    parts: tuple[tuple[PartLoss, int], ...]
    about: float

    @property
    def _single(self) -> PartLoss | None:
        return self.parts[0][0] if len(self.parts) == self.parts[0][1] == 1 else None

    @property
    def _left_out(self) -> float:
        return math.fsum(count * part.left_out for part, count in self.parts)

    @property
    def _rounding(self) -> float:
        """Relative, of the probability of a sequence of outputs."""
        return 1.01 * math.fsum(count * part.rounding for part, count in self.parts)

    @functools.cached_property
    def _spacing(self) -> float:
        spreads = [part.spread for part, _ in self.parts]
        farthest = max(most for most, _ in spreads)
        rough = self._on(farthest / _COARSE, above=True)
        reach = radius(rough, 1, tilt_for(rough, 1, math.log(self.about)))
        deviation = math.sqrt(
            math.fsum(count * one[1] ** 2 for one, (_, count) in zip(spreads, self.parts, strict=True)) / rough.count
        )
        return max(deviation / _FINE, 2 * reach / _MOST, farthest / _MOST)

    def _on(self, spacing: float, *, above: bool) -> LatticeSum:
        laws: list[tuple[LatticeMasses, int]] = [
            (part.above(spacing) if above else part.below(spacing), count) for part, count in self.parts
        ]
        return LatticeSum(tuple(laws))

    @functools.cached_property
    def _above(self) -> LatticeSum:
        return self._on(self._spacing, above=True)

    @functools.cached_property
    def _below(self) -> LatticeSum:
        return self._on(self._spacing, above=False)

    def upper_epsilon(self, delta: float) -> float:
        """An epsilon at which delta is surely at most ``delta``; inf where what is left out is more than that."""
        allowed = (delta - self._left_out) / (1.0 + self._rounding) * (1.0 - _MARGIN)
        if allowed <= 0.0:
            return math.inf
        if self._single is not None:
            return _root(lambda epsilon: self._upper(epsilon) - delta, up=True)
        tilt, found = tilt_for(self._above, 1, math.log(allowed)), math.inf
        for _ in range(_ROUNDS):
            before = found
            found = min(found, least(tilted_sum_of(self._above, tilt), allowed, positive_part, 0.0) * (1 + 1e-12))
            if found == 0.0 or before - found <= _CLOSE * found:
                break
            tilt = tilt_at(self._above, found, tilt)
        return found

    def lower_epsilon(self, delta: float) -> float:
        """An epsilon >= 0 at which delta is surely at least ``delta``, or 0."""
        asked = delta * (1.0 + _MARGIN) / max(1.0 - self._rounding, 1e-3)
        if self._single is not None:
            return _root(lambda epsilon: self._lower(epsilon) - delta, up=False)
        tilt, found = tilt_for(self._below, 1, math.log(asked)), 0.0
        for _ in range(_ROUNDS):
            before = found
            found = max(found, highest(tilted_sum_of(self._below, tilt), asked) * (1 - 1e-12))
            if found == 0.0 or found - before <= _CLOSE * found:
                break
            tilt = tilt_at(self._below, found, tilt)
        return max(0.0, found - 2 * self._rounding)

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Bounds of delta at epsilon >= 0."""
        return self._lower(epsilon), self._upper(epsilon)

    def _upper(self, epsilon: float) -> float:
        if self._single is not None:
            found = self._single.deltas(epsilon)[1]
        else:
            found = sum(self._tilted(self._above, epsilon).expectation(positive_part, 0.0, epsilon))
        return min(1.0, found * (1.0 + self._rounding) * (1.0 + _MARGIN) + self._left_out)

    def _lower(self, epsilon: float) -> float:
        moved = epsilon + 2 * self._rounding
        if self._single is not None:
            found, wrong = self._single.deltas(moved)[0], 0.0
        else:
            found, wrong = self._tilted(self._below, moved).expectation(positive_part, 0.0, moved)
        return max(0.0, (found - wrong) * (1.0 - self._rounding) * (1.0 - _MARGIN))

    def _tilted(self, law: LatticeSum, epsilon: float):
        return tilted_sum_of(law, tilt_at(law, epsilon, tilt_for(law, 1, math.log(self.about))))


def _root(excess: Callable[[float], float], *, up: bool) -> float:
    """Just beyond the root of a falling function on [0, inf), or just before it."""
    if excess(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0.0:
        low, high = high, 2.0 * high
        if high > 1e6:
            raise Unresolved("an epsilon beyond all losses", low)
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return high if up else low
