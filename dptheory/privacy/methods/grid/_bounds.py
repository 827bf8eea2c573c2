"""Bounds of delta and epsilon of steps of several kinds on a grid, add/remove alone."""

import functools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dptheory.privacy._bounds import GRID, Direction, Unresolved
from dptheory.privacy._parts import Apart, IndexSteps, JointStep, MaskedStep, Part, Parts, Step, Steps
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods.grid._law import (
    NO_INDEX,
    Atoms,
    Kind,
    enough_atoms,
    merged_atoms,
    powered_atoms,
    split_atoms,
)
from dptheory.privacy.methods.grid._sum import IndexLaw, TiltedLaw, grid_sum
from dptheory.privacy.methods.lattice._index_law import SMALL_GROUP, loss_law
from dptheory.privacy.methods.lattice._loss import LatticeLoss, _Trimmed
from dptheory.pruning import SubsetMallows

Array = NDArray[np.float64]

LEAST = 1e-250
"""A delta below this no grid resolves."""
_LARGEST_WINDOW = 2**20
_LARGEST_THETA = 100.0
_ETA = 1e-6
"""Share of delta that is given away, so that splitting moves the sum no further than is counted."""
_TRIM = 45.0
_MOST_STEPS = 10**8


class Grid:
    """Steps that differ, on one grid: outside the range of the line, add/remove alone."""

    name = GRID

    def serves(self, parts: Parts, direction: Direction) -> bool:
        return direction != "replace" and all(isinstance(part, Step) for part in parts)

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        return Bracket(*grid_bounds(steps, direction, epsilon))

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        return Bracket(*grid_epsilon(steps, direction, delta))


def grid_bounds(parts: Parts, direction: Direction, epsilon: float) -> tuple[float, float]:
    """Bounds of delta(epsilon); 0 and 1 where no grid serves."""
    if epsilon >= largest_loss(parts, direction):
        return 0.0, 0.0
    lower, upper, size = 0.0, 1.0, 1e-3
    for _ in range(4):
        try:
            sums = GridPair(parts, direction, epsilon, size)
        except Unresolved:
            return lower, min(upper, grid_upper(parts, direction, epsilon, size))
        lower, upper = max(lower, sums.lower(epsilon)), min(upper, sums.upper(epsilon))
        if upper > size / 100 or upper < LEAST:
            break
        size = max(lower, upper * 1e-9, LEAST)
    return lower, upper


def largest_loss(parts: Parts, direction: Direction) -> float:
    """What the losses never exceed: without the record a sample's density is at most 1 / (1 - q) times the other."""
    total = 0.0
    for part in parts:
        if isinstance(part, IndexSteps):
            total += part.epsilon
        elif direction == "remove" or isinstance(part, Apart) or part.sampling_rate == 1.0:
            return math.inf
        else:
            total -= part.count * math.log1p(-part.sampling_rate)
    return total * (1 + 1e-12)


def grid_epsilon(parts: Parts, direction: Direction, delta: float) -> tuple[float, float]:
    """Bounds of the least epsilon; 0 and inf where no grid serves."""
    try:
        sums = GridPair(parts, direction, None, delta)
        return _crossing(sums.lower, delta, down=True), _crossing(sums.upper, delta, down=False)
    except Unresolved:
        return 0.0, math.inf


def grid_upper(parts: Parts, direction: Direction, epsilon: float, delta: float) -> float:
    """At least delta(epsilon), precise where that is about ``delta`` alone; 1 where no grid serves."""
    try:
        return GridPair(parts, direction, None, delta).upper(epsilon)
    except Unresolved:
        return 1.0


def _crossing(bound: Callable[[float], float], delta: float, *, down: bool) -> float:
    """About where a falling bound crosses delta: just before it, or just after."""
    if bound(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while bound(high) > delta:
        low, high = high, 2 * high
        if high > 1e4:
            return low if down else math.inf
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if bound(middle) > delta else (low, middle)
    return low if down else high


class GridPair:
    """The sum of the losses on a grid: from below, a masked step showing one entry or nothing, and from above, without masks."""

    def __init__(self, parts: Parts, side: Direction, epsilon: float | None, delta: float) -> None:
        self._delta = delta
        if sum(part.count for part in parts if not isinstance(part, IndexSteps)) > _MOST_STEPS:
            raise Unresolved("too many steps for a grid")
        inner = [kind for part in parts if (kind := _kind(part, merged=True)) is not None]
        outer = [kind for part in parts if (kind := _kind(part, merged=False)) is not None]
        laws = [_index_law(part) for part in parts if isinstance(part, IndexSteps)]
        self._below = grid_sum(inner, laws, side, epsilon=epsilon, delta=delta)
        alike = all(a.share == b.share and a.atoms.are(b.atoms) for a, b in zip(inner, outer, strict=True))
        self._above = self._below if alike else grid_sum(outer, laws, side, epsilon=epsilon, delta=delta)

    def lower(self, epsilon: float) -> float:
        return self._below.lower(epsilon, _ETA * self._delta)

    def upper(self, epsilon: float) -> float:
        return self._above.upper(epsilon)


def _kind(part: Part, *, merged: bool) -> Kind | None:
    if isinstance(part, IndexSteps | Apart):
        return None
    share, atoms = 1.0, NO_INDEX
    if isinstance(part, MaskedStep):
        share = part.mask.keep / part.mask.dim if merged else 1.0  # from above a mask hides nothing
    elif isinstance(part, JointStep):
        atoms = _atoms(part.mechanism, part.groups, 1.0 / part.noise_multiplier, merged)
    return Kind(1.0 / part.noise_multiplier, part.sampling_rate, atoms, part.count, share)


@functools.lru_cache(maxsize=64)
def _atoms(mechanism: SubsetMallows, groups: int, shift: float, merged: bool) -> Atoms:
    if mechanism.theta == 0.0:
        return NO_INDEX
    law = _lattice(mechanism)
    whole = powered_atoms(law.low, np.exp(law.log_pmf), law.spacing, groups)
    most = enough_atoms(whole, shift)
    reduced = merged_atoms(whole, most) if merged else split_atoms(whole, most)
    omitted = groups * math.exp(law.log_omitted)
    return Atoms(reduced.log_ratio, reduced.mass, reduced.left_out + omitted)


def _lattice(mechanism: SubsetMallows) -> LatticeLoss:
    if mechanism.theta > _LARGEST_THETA:
        raise Unresolved("the index sets are as good as revealed")
    if mechanism.dim > SMALL_GROUP:
        raise Unresolved("the index sets take too many values for a grid")
    return loss_law(mechanism=mechanism)


def _index_law(part: IndexSteps) -> IndexLaw:
    loss = _lattice(part.mechanism)
    law, count, step = _Trimmed.of(loss), part.steps * part.groups, loss.spacing

    def cumulants(tilt: float) -> tuple[float, float, float]:
        tilted = law.tilted(tilt * step)
        mean = float(tilted @ law.j)
        variance = float(tilted @ np.square(law.j - mean))
        return count * law.cumulant(tilt * step), count * step * mean, count * step**2 * variance

    def tilted(spacing: float, tilt: float) -> TiltedLaw:
        if law.window(count, tilt * step) > _LARGEST_WINDOW:
            raise Unresolved("the index sets take too many values for a grid")
        sums = law.sums(count, tilt * step)
        places = step * (sums.low + np.arange(sums.log_pmf.size, dtype=np.float64))
        logs = sums.log_pmf + tilt * places
        some = logs > logs.max() - _TRIM  # beyond lies the rounding of a transform
        return TiltedLaw.split(
            places[some], logs[some], spacing, tilt, left_out=count * law.left_out, wrong=1e-12 + 1e-15 * count
        )

    return IndexLaw(cumulants, tilted)
