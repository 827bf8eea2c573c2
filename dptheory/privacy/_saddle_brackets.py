"""Brackets of delta, epsilon and the noise of Poisson-subsampled Gaussian steps that may differ, by the saddle-line integral.

Each is as narrow as the errors that proofs/privacy/saddle_line.md bounds; a bracket wider than ``WIDEST`` is refused.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from dptheory.privacy._gaussian import gaussian_mu
from dptheory.privacy._measures import law
from dptheory.privacy._moments import Direction, StepLoss, Unresolved
from dptheory.privacy._saddle_delta import delta_bounds_at, narrow, rough_saddle, unsampled_mu, whole_line
from dptheory.privacy._saddle_epsilon import epsilon_of
from dptheory.privacy._saddle_line import Plan, plan_line
from dptheory.privacy._saddle_points import Steps, cut, saddle_at

Adjacency = Literal["add-remove", "replace-one"]

_TURNS = 12
_NOISE_WIDTH = 1e-6


@dataclass(frozen=True, kw_only=True)
class SampledGaussian:
    """Steps of one kind: Gaussian noise on the clipped sum of a Poisson sample.

    Attributes:
        noise_multiplier: standard deviation of the noise over the clipping norm, > 0.
        sampling_rate: in (0, 1].
        count: number of such steps, >= 1.
    """

    noise_multiplier: float
    sampling_rate: float
    count: int


Composition = tuple[SampledGaussian, ...]


def directions(adjacency: Adjacency) -> tuple[Direction, ...]:
    return ("replace",) if adjacency == "replace-one" else ("remove", "add")


def delta_bracket(
    composition: Composition, *, epsilon: float, adjacency: Adjacency = "add-remove"
) -> tuple[float, float]:
    """Bounds of delta(epsilon), the larger of both directions.

    Args:
        composition: steps that may differ.
        epsilon: >= 0.
        adjacency: "add-remove" or "replace-one".

    Raises:
        Unresolved: wider than ``WIDEST``; it carries the bounds that hold.
    """
    found = [direction_delta(composition, epsilon=epsilon, direction=one) for one in directions(adjacency)]
    return max(low for low, _ in found), max(high for _, high in found)


def direction_delta(composition: Composition, *, epsilon: float, direction: Direction) -> tuple[float, float]:
    """Bounds of delta(epsilon) of one direction: "remove", "add" or "replace"."""
    low, high = delta_bounds_at(step_losses(composition, direction), epsilon)
    if not narrow(low, high):
        raise Unresolved(f"delta is known to lie in [{low!r}, {high!r}] only", low, high)
    return low, high


def epsilon_bracket(
    composition: Composition, *, delta: float, adjacency: Adjacency = "add-remove"
) -> tuple[float, float]:
    """Bounds of the smallest epsilon >= 0 for which the composition is (epsilon, delta)-private.

    Args:
        composition: steps that may differ.
        delta: in (0, 1).
        adjacency: "add-remove" or "replace-one".

    Raises:
        Unresolved: delta near that epsilon is not known to within ``WIDEST``.
    """
    first, *others = directions(adjacency)
    lower, upper = direction_epsilon(composition, delta=delta, direction=first)
    for direction in others:
        if delta_bounds_at(step_losses(composition, direction), lower)[1] > delta:
            low, high = direction_epsilon(composition, delta=delta, direction=direction)
            lower, upper = max(lower, low), max(upper, high)
    return lower, upper


def direction_epsilon(composition: Composition, *, delta: float, direction: Direction) -> tuple[float, float]:
    """Bounds of the smallest epsilon of one direction.

    Raises:
        Unresolved: delta there is not known to within ``WIDEST``, nor epsilon to within 1e-9; it carries bounds that hold.
    """
    return epsilon_of(step_losses(composition, direction), delta)


def noise_bracket(
    composition: Composition, *, epsilon: float, delta: float, adjacency: Adjacency = "add-remove"
) -> tuple[float, float]:
    """Bounds, 1e-6 apart, of the least factor on all noise multipliers that makes the composition (epsilon, delta)-private.

    At the upper one the upper bound of delta(epsilon) is at most ``delta``; at the lower one the lower bound is above it.

    Args:
        composition: steps that may differ; their noise multipliers give the shape.
        epsilon: > 0.
        delta: in (0, 1).
        adjacency: "add-remove" or "replace-one".

    Raises:
        Unresolved: a bracket on the way is wider than ``WIDEST``, or the search does not end.
    """

    def scaled(log_factor: float) -> Composition:
        factor = math.exp(log_factor)
        return tuple(replace(part, noise_multiplier=factor * part.noise_multiplier) for part in composition)

    def rough(log_factor: float) -> float:
        steps = step_losses(scaled(log_factor), directions(adjacency)[0])
        try:
            return rough_saddle(steps, epsilon).log_value - math.log(delta)
        except Unresolved:  # epsilon is beyond all losses that occur
            return -math.inf

    def upper_delta(log_factor: float, direction: Direction) -> float:
        return delta_bounds_at(step_losses(scaled(log_factor), direction), epsilon)[1]

    unsampled = max(unsampled_mu(step_losses(composition, one)) for one in directions(adjacency))
    x = _root_below(rough, math.log(unsampled / gaussian_mu(epsilon, delta)))
    slope = (rough(x + 1e-2) - rough(x - 1e-2)) / 2e-2
    larger = max(directions(adjacency), key=lambda one: upper_delta(x, one))
    before: tuple[float, float] | None = None
    for _ in range(_TURNS):
        excess = math.log(max(upper_delta(x, larger), 1e-300) / delta)
        if before is not None and x != before[0]:
            slope = min((excess - before[1]) / (x - before[0]), -1e-6)
        before = (x, excess)
        step = max(-0.7, min(0.7, -excess / slope))
        x += step
        if abs(step) > _NOISE_WIDTH * 100 or abs(excess) > 1e-3:
            continue  # the next step of a secant is far below the width
        lower, upper = x - _NOISE_WIDTH / 2, x + _NOISE_WIDTH / 2
        excesses = {one: upper_delta(upper, one) - delta for one in directions(adjacency)}
        if max(excesses.values()) > 0:
            larger = max(excesses, key=lambda one: excesses[one])
        elif delta_bounds_at(step_losses(scaled(lower), larger), epsilon)[0] > delta:
            return math.exp(lower), math.exp(upper)
    raise Unresolved(f"the search for the noise did not end near a factor of {math.exp(x):.6g}")


def step_losses(composition: Composition, direction: Direction) -> Steps:
    return tuple(
        StepLoss(
            noise_multiplier=part.noise_multiplier,
            sampling_rate=part.sampling_rate,
            count=part.count,
            direction=direction,
        )
        for part in composition
    )


def line_plan(composition: Composition, *, epsilon: float, direction: Direction) -> Plan:
    """Where the line for epsilon runs, for an evaluation in another arithmetic."""
    steps = step_losses(composition, direction)
    line = whole_line(steps, epsilon)
    kept = cut(steps, math.log(max(line.delta_bracket(epsilon)[1], 1e-300)))
    return plan_line(law(kept), saddle_at(kept, epsilon))


def _root_below(function: Callable[[float], float], high: float) -> float:
    """About the root of a falling function that is below 0 at ``high``."""
    low = high - 0.5
    while function(low) <= 0 and high - low < 40.0:
        high, low = low, low - 1.0
    while high - low > 1e-2:
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2
