"""Bounds of delta and epsilon for steps of several kinds, each from the narrowest method that serves all of them.

Noisy values alone go through the integral on the saddle line (:mod:`_values_bounds`). Index sets come in on a grid
(:mod:`_grid_bounds`), and by their pure epsilon; masks by Renyi curves, and as if they hid nothing.
"""

import functools
import math
from collections.abc import Callable, Sequence

from dptheory.privacy._bounds import ADDED, CHANCE, GRID, NONE, RENYI, Found
from dptheory.privacy._parts import IndexSteps, JointStep, MaskedStep, Part, Step
from dptheory.privacy._values_bounds import values_delta, values_epsilon, values_of
from dptheory.privacy.methods._added import joint_epsilon
from dptheory.privacy.methods.grid._bounds import GridPair, grid_bounds, grid_epsilon, grid_upper
from dptheory.privacy.methods.renyi._parts import renyi_delta, renyi_epsilon
from dptheory.privacy.methods.saddle._brackets import chance
from dptheory.privacy.methods.saddle._moments import Direction, Unresolved

_ROUGH = 1e-7
_NARROW = 1e-3
"""Relative width at which no grid is asked."""


def composed_delta(parts: tuple[Part, ...], direction: Direction, epsilon: float) -> Found:
    """Bounds of delta(epsilon) of one direction; epsilon >= 0."""
    if _only_values(parts):
        return values_delta(values_of(parts, hidden=False), direction, epsilon)
    return _on_the_grid(_around(parts, direction, epsilon), parts, direction, epsilon)


def _on_the_grid(found: Found, parts: tuple[Part, ...], direction: Direction, epsilon: float) -> Found:
    """``found``, narrowed where it is wide and a grid serves."""
    if direction != "replace" and found.upper - found.lower > _NARROW * found.upper:
        lower, upper = grid_bounds(parts, direction, epsilon)
        found = found.with_lower(lower, GRID).with_upper(upper, GRID)
    return found


def _around(parts: tuple[Part, ...], direction: Direction, epsilon: float) -> Found:
    """Bounds by the values, with and without what else is released, and by Renyi curves."""
    outer, inner = values_of(parts, hidden=False), values_of(parts, hidden=True)
    pure = index_epsilon(parts)
    found = Found(0.0, 1.0, NONE, NONE)
    if _within_samples(parts):
        found = found.with_upper(chance(outer), CHANCE)
    if inner:
        alone = values_delta(inner, direction, epsilon)
        found = found.with_lower(alone.lower, f"{alone.below} of the values")
    if pure <= epsilon:
        alone = values_delta(outer, direction, epsilon - pure)
        found = found.with_upper(alone.upper, ADDED if pure > 0.0 else f"{alone.above} without masks")
    return found.with_upper(renyi_delta(parts, epsilon), RENYI)


def composed_epsilon(parts: tuple[Part, ...], directions: Sequence[Direction], delta: float) -> Found:
    """Bounds of the least epsilon at which delta(epsilon) <= delta in all directions."""
    first, *others = directions
    found = _direction_epsilon(parts, first, delta)
    for direction in others:
        if found.lower == math.inf or _delta_is_at_most(delta, parts, direction, found.lower):
            continue  # the other direction's epsilon is no larger
        other = _direction_epsilon(parts, direction, delta)
        found = found.with_more(other)
    return found


def _delta_is_at_most(delta: float, parts: tuple[Part, ...], direction: Direction, epsilon: float) -> bool:
    """Whether this is known: of a delta far below, no grid need say how far."""
    if _only_values(parts):
        return composed_delta(parts, direction, epsilon).upper <= delta
    found = _around(parts, direction, epsilon)
    if found.upper <= delta or direction == "replace":
        return found.upper <= delta
    return (
        grid_upper(parts, direction, epsilon, delta) <= delta
        or _on_the_grid(found, parts, direction, epsilon).upper <= delta
    )


def _direction_epsilon(parts: tuple[Part, ...], direction: Direction, delta: float) -> Found:
    outer, inner = values_of(parts, hidden=False), values_of(parts, hidden=True)
    if _only_values(parts):
        return values_epsilon(outer, direction, delta)
    if _within_samples(parts) and chance(outer) <= delta:
        return Found(0.0, 0.0, CHANCE, CHANCE)
    pure = index_epsilon(parts)
    found = Found(0.0, math.inf, NONE, NONE)
    values = functools.cache(lambda share: values_epsilon(outer, direction, share))
    if inner:
        least = values(delta) if inner == outer else values_epsilon(inner, direction, delta)
        found = found.with_lower(least.lower, f"{least.below} of the values")
    if pure == 0.0:
        found = found.with_upper(values(delta).upper, f"{values(delta).above} without masks")
    found = found.with_upper(renyi_epsilon(parts, delta), RENYI)
    if pure > 0.0:
        added = joint_epsilon(
            delta=delta,
            values=lambda share: values(share).upper,
            index_epsilon=pure,
            index_zcdp_rho=index_zcdp_rho(parts),
        )
        found = found.with_upper(added, ADDED)
    if direction != "replace" and found.upper - found.lower > _NARROW * found.upper:
        lower, upper = grid_epsilon(parts, direction, delta)
        found = found.with_lower(lower, GRID).with_upper(upper, GRID)
    return found


def _within_samples(parts: tuple[Part, ...]) -> bool:
    """Whether nothing is released of a record that is in no sample."""
    return not any(isinstance(part, IndexSteps) for part in parts)


def _only_values(parts: tuple[Part, ...]) -> bool:
    """Whether no mask hides anything and no index set is released."""
    return index_epsilon(parts) == 0.0 and values_of(parts, hidden=False) == values_of(parts, hidden=True)


def index_epsilon(parts: tuple[Part, ...]) -> float:
    """Pure epsilon of all index sets, for given batches."""
    return math.fsum(
        part.epsilon if isinstance(part, IndexSteps) else part.count * part.index_epsilon
        for part in parts
        if isinstance(part, IndexSteps | JointStep)
    )


def index_zcdp_rho(parts: tuple[Part, ...]) -> float:
    """zCDP of all index sets, for given batches."""
    return math.fsum(
        part.zcdp_rho
        if isinstance(part, IndexSteps)
        else part.count * part.groups * part.mechanism.zcdp(2 * part.mechanism.max_swaps)
        for part in parts
        if isinstance(part, IndexSteps | JointStep)
    )


def plain(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Each part as what it is: a mask that keeps all or nothing, and index sets that say nothing, are not there."""
    found: list[Part] = []
    for part in parts:
        if (isinstance(part, MaskedStep) and part.mask.keep == part.mask.dim) or (
            isinstance(part, JointStep) and part.mechanism.theta == 0.0
        ):
            found.append(_step(part))
        elif not (isinstance(part, MaskedStep) and part.mask.keep == 0) and not (
            isinstance(part, IndexSteps) and part.mechanism.theta == 0.0
        ):
            found.append(part)
    return tuple(found)


def _step(part: MaskedStep | JointStep) -> Step:
    return Step(noise_multiplier=part.noise_multiplier, sampling_rate=part.sampling_rate, count=part.count)


def delta_curve(parts: tuple[Part, ...], direction: Direction) -> Callable[[float], Found]:
    """Bounds of delta at every epsilon >= 0: where a grid is needed, one for all, precise to some 1e-9."""
    if direction == "replace" or _only_values(parts):
        return lambda epsilon: composed_delta(parts, direction, epsilon)
    try:
        sums = GridPair(parts, direction, 0.0, _ROUGH)
    except Unresolved:
        return lambda epsilon: composed_delta(parts, direction, epsilon)

    def bounds(epsilon: float) -> Found:
        around = _around(parts, direction, epsilon)
        return around.with_lower(sums.lower(epsilon), GRID).with_upper(sums.upper(epsilon), GRID)

    return bounds
