"""Epsilon and delta of independent parts, each with its loss on one lattice, from above and from below."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from dptheory.privacy._bounds import Unresolved
from dptheory.privacy.methods._closed_forms import LEAST
from dptheory.privacy.methods.lattice._epsilon import highest, least, positive_part
from dptheory.privacy.methods.lattice._sums import LatticeMasses, LatticeSum, TiltedSum, radius, tilt_for, tilted_sum_of
from dptheory.privacy.methods.random_allocation._losses import PartLoss

_FINE = 250
"""Lattice points to the standard deviation of a part's loss."""
_COARSE = 4000
_MOST = 2**18
_MARGIN = 1e-9
"""Relative, on delta: what else is rounded."""
_MOST_ROUNDED = 700.0
_ROUNDS = 3
LEFT_OUT = 1e-8
"""Share of delta that is left out in all steps."""
_LEAST_TILT, _RATIO, _TILTS = 1e-3, 1.15, 128


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
        """Relative, of the probability of a sequence of outputs: (1 + r)^n - 1 at most."""
        return math.expm1(min(1.01 * math.fsum(count * part.rounding for part, count in self.parts), _MOST_ROUNDED))

    @property
    def _kept(self) -> float:
        """Of such a probability, at least."""
        return max(0.0, 1.0 - self._rounding)

    @functools.cached_property
    def _rough(self) -> LatticeSum:
        """On so few points that it is cheap to ask where a fine one is to be looked at."""
        return self._on(max(most for most, _ in (part.spread for part, _ in self.parts)) / _COARSE, above=True)

    @functools.cached_property
    def _spacing(self) -> float:
        spreads = [part.spread for part, _ in self.parts]
        farthest, rough = max(most for most, _ in spreads), self._rough
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
    def _above(self) -> "_Tilts":
        return _Tilts(self._on(self._spacing, above=True), self._rough)

    @functools.cached_property
    def _below(self) -> "_Tilts":
        return _Tilts(self._on(self._spacing, above=False), self._rough)

    def upper_epsilon(self, delta: float) -> float:
        """An epsilon at which delta is surely at most ``delta``; inf where what is left out is more than that."""
        allowed = (delta - self._left_out) / (1.0 + self._rounding) * (1.0 - _MARGIN)
        if allowed <= 0.0:
            return math.inf
        if self._single is not None:
            return _root(lambda epsilon: self._upper(epsilon) - delta, up=True)
        place, found = self._above.for_level(math.log(allowed)), math.inf
        for _ in range(_ROUNDS):
            found = min(found, least(self._above.total(place), allowed, positive_part, 0.0) * (1 + 1e-12))
            if found == 0.0 or self._above.for_mean(found) == place:
                break
            place = self._above.for_mean(found)
        return found

    def lower_epsilon(self, delta: float) -> float:
        """An epsilon >= 0 at which delta is surely at least ``delta``, or 0."""
        if self._kept < 1e-3:
            return 0.0
        asked = delta * (1.0 + _MARGIN) / self._kept
        if self._single is not None:
            return _root(lambda epsilon: self._lower(epsilon) - delta, up=False)
        place, found = self._below.for_level(math.log(asked)), 0.0
        for _ in range(_ROUNDS):
            found = max(found, highest(self._below.total(place), asked) * (1 - 1e-12))
            if found == 0.0 or self._below.for_mean(found) == place:
                break
            place = self._below.for_mean(found)
        return max(0.0, found - 2 * self._rounding)

    def lower_delta(self, epsilon: float) -> float:
        """Lower bound of delta at epsilon >= 0."""
        return self._lower(epsilon)

    def upper_delta(self, epsilon: float) -> float:
        """Upper bound of delta at epsilon >= 0."""
        return self._upper(epsilon)

    def _upper(self, epsilon: float) -> float:
        if self._single is not None:
            found = self._single.deltas(epsilon)[1]
        else:
            found = sum(self._above.total(self._above.for_mean(epsilon)).expectation(positive_part, 0.0, epsilon))
        return min(1.0, found * (1.0 + self._rounding) * (1.0 + _MARGIN) + self._left_out)

    def _lower(self, epsilon: float) -> float:
        moved = epsilon + 2 * self._rounding
        if self._single is not None:
            found, wrong = self._single.deltas(moved)[0], 0.0
        else:
            found, wrong = self._below.total(self._below.for_mean(moved)).expectation(positive_part, 0.0, moved)
        return max(0.0, found - wrong) * self._kept * (1.0 - _MARGIN)


class _Tilts:
    """A sum at tilts of a geometric sequence, each computed once: which of them is taken costs width, not validity."""

    def __init__(self, law: LatticeSum, rough: LatticeSum) -> None:
        self._law, self._rough = law, rough
        self._cumulants: dict[int, tuple[float, float, float]] = {}
        self._totals: dict[int, TiltedSum] = {}

    def total(self, place: int) -> TiltedSum:
        if place not in self._totals:
            self._totals[place] = tilted_sum_of(self._law, _tilt(place), self._rough)
        return self._totals[place]

    def for_level(self, log_level: float) -> int:
        """The last at which Chernoff's bound of the sum being at least its tilted mean is above exp(log_level).

        From one tilt to the next that bound may fall by hundreds of nats, where outputs that hardly ever occur take over.
        """

        def enough(place: int) -> bool:
            log_moment, mean, _ = self._at(place)
            return log_moment - _tilt(place) * mean <= log_level

        return max(self._first(enough) - 1, 0)

    def for_mean(self, mean: float) -> int:
        """At which the tilted mean is about that."""
        return self._first(lambda place: self._at(place)[1] >= mean)

    def _at(self, place: int) -> tuple[float, float, float]:
        if place not in self._cumulants:
            self._cumulants[place] = self._rough.cumulants(_tilt(place))
        return self._cumulants[place]

    @staticmethod
    def _first(enough: Callable[[int], bool]) -> int:
        low, high = 0, _TILTS - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle + 1, high)
        return low


def _tilt(place: int) -> float:
    return _LEAST_TILT * _RATIO**place


def power_of_ten(delta: float) -> float:
    """The largest at most delta, so that a lattice serves for many."""
    return 10.0 ** math.floor(math.log10(delta) + 1e-9)


_GUESS, _PASSES = 1e-6, 3


def lattice_delta(total: Callable[[float], Total], epsilon: float, *, above: bool, least: float) -> float:
    """A bound of delta from a lattice that is good where delta is about what it is found to be.

    Args:
        total: the sum of all losses, on a lattice for a delta of about its argument; its bounds are of one side.
        least: a delta for which no finer lattice is made.
    """
    best, about = 1.0 if above else 0.0, _GUESS
    try:
        for _ in range(_PASSES):
            found = total(power_of_ten(about))
            best = min(best, found.upper_delta(epsilon)) if above else max(best, found.lower_delta(epsilon))
            if best >= about / 100 or best < least:
                break
            about = best
    except Unresolved:
        pass
    return max(best, LEAST) if above else best


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
