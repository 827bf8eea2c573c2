"""Brackets of the least noise that keeps a budget, by the saddle-line integral."""

import math
from collections.abc import Callable
from dataclasses import replace

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import Steps, unsampled_mu
from dptheory.privacy.methods._closed_forms import gaussian_mu
from dptheory.privacy.methods.saddle._brackets import delta_bounds_at, guessed_log_delta
from dptheory.privacy.methods.saddle._line import step_losses

_TURNS = 12
_LEAST_NOISE = 0.02  # a search for the noise does not look below
_NOISE_WIDTH = 5e-7
_BISECTIONS = 40


def about_log_delta(composition: Steps, epsilon: float, direction: Direction) -> float:
    """About log delta(epsilon), cheaply; -inf beyond all losses that occur."""
    return guessed_log_delta(step_losses(composition, direction), epsilon)


def noise_bracket(
    composition: Steps,
    *,
    epsilon: float,
    delta: float,
    among: tuple[Direction, ...],
) -> tuple[float, float]:
    """Bounds, 5e-7 apart, of the least factor on all noise multipliers that makes the composition (epsilon, delta)-private.

    At the upper one the upper bound of delta(epsilon) is at most ``delta``; at the lower one the lower bound is above it.

    Raises:
        Unresolved: delta is not known closely enough; it carries factors that hold.
    """

    def bounds(log_factor: float, direction: Direction) -> tuple[float, float]:
        return delta_bounds_at(step_losses(_scaled(composition, math.exp(log_factor)), direction), epsilon)

    def rough(log_factor: float) -> float:
        return about_log_delta(_scaled(composition, math.exp(log_factor)), epsilon, among[0]) - math.log(delta)

    unsampled = max(unsampled_mu(composition, one) for one in among)
    enough = math.log(unsampled / gaussian_mu(epsilon, delta)) + 1e-6
    search = _NoiseSearch(bounds, among, delta)
    floor = math.log(_LEAST_NOISE / min(step.noise_multiplier for step in composition))
    search.secant(_root_below(rough, enough, floor), rough)
    if not search.done:
        search.bisect(enough, floor)
    if not search.done:
        raise Unresolved(
            f"the least factor is known to lie in [{math.exp(search.breaks)!r}, {math.exp(search.fits)!r}] only",
            math.exp(search.breaks),
            math.exp(search.fits),
        )
    return math.exp(search.breaks), math.exp(search.fits)


def _scaled(steps: Steps, factor: float) -> Steps:
    return tuple(replace(step, noise_multiplier=factor * step.noise_multiplier) for step in steps)


class _NoiseSearch:
    """For the log of the least factor: the least that was seen to fit the budget, and the largest that was seen to break it."""

    def __init__(
        self,
        bounds: Callable[[float, Direction], tuple[float, float]],
        among: tuple[Direction, ...],
        delta: float,
    ) -> None:
        self._bounds, self._among, self._delta = bounds, list(among), delta
        self.breaks, self.fits = -math.inf, math.inf

    @property
    def done(self) -> bool:
        return self.fits - self.breaks <= _NOISE_WIDTH * (1 + 1e-6)

    def _excess(self, x: float) -> float:
        """log of the upper bound of delta over the budget's, of the direction that asks for more."""
        low, high = self._bounds(x, self._among[0])
        if low > self._delta:
            self.breaks = max(self.breaks, x)
        return math.log(max(high, 1e-300) / self._delta)

    def _test(self, x: float) -> bool:
        """Whether both directions fit at x; the one that does not comes first from then on."""
        for direction in tuple(self._among):
            low, high = self._bounds(x, direction)
            if low > self._delta:
                self.breaks = max(self.breaks, x)
            if high > self._delta:
                self._among.remove(direction)
                self._among.insert(0, direction)
                return False
        self.fits = min(self.fits, x)
        return True

    def secant(self, x: float, rough: Callable[[float], float]) -> None:
        """From a guess whose slope is known: two or three evaluations, then one at either end of the bracket."""
        if len(self._among) > 1:
            self._among.sort(key=lambda one: -self._bounds(x, one)[1])
        slope = (rough(x + 1e-2) - rough(x - 1e-2)) / 2e-2
        before: tuple[float, float] | None = None
        for _ in range(_TURNS):
            excess = self._excess(x)
            if before is not None and x != before[0]:
                slope = (excess - before[1]) / (x - before[0])
            if not (math.isfinite(slope) and slope < 0):
                return
            before = (x, excess)
            step = max(-0.7, min(0.7, -excess / slope))
            x += step
            if abs(step) > _NOISE_WIDTH * 100 or abs(excess) > 1e-3:
                continue  # the next step of a secant is far below the width
            if self._test(x + _NOISE_WIDTH / 2):
                self._excess(x - _NOISE_WIDTH / 2)
            if self.done:
                return

    def bisect(self, enough: float, floor: float) -> None:
        """Between ends that are known to fit and to break, where the secant did not get there; not below ``floor``."""
        if self.fits == math.inf and not self._test(enough):
            return
        x, step = self.fits, 0.5
        while self.breaks == -math.inf and x > floor:
            x = max(self.fits - step, floor)
            self._test(x)
            step *= 2
        for _ in range(_BISECTIONS):
            if self.done or self.breaks == -math.inf:
                return
            fits, breaks = self.fits, self.breaks
            self._test((fits + breaks) / 2)
            if (self.fits, self.breaks) == (fits, breaks):
                return  # neither: delta is not known closely enough


def _root_below(function: Callable[[float], float], high: float, floor: float) -> float:
    """About the root of a falling function that is below 0 at ``high``; ``floor`` where it is below 0 from there on."""
    low = high - 0.5
    while low > floor and function(low) <= 0:
        high, low = low, low - 1.0
    if low <= floor and function(floor) <= 0:
        return floor
    low = max(low, floor)
    while high - low > 1e-2:
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2
