"""Brackets of delta, epsilon and the noise of Poisson-subsampled Gaussian steps that may differ, by the saddle-line integral.

Each is as narrow as the errors that proofs/privacy/saddle_line.md bounds; a bracket wider than ``WIDEST`` is refused.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from dptheory.privacy._gaussian import gaussian_log_delta, gaussian_mu
from dptheory.privacy._moments import Direction, StepLoss, Unresolved
from dptheory.privacy._saddle_line import Line, Plan, line_at, plan_line
from dptheory.privacy._saddle_points import LEFT_OUT, Saddle, Steps, cut, saddle_at, saddle_for

Adjacency = Literal["add-remove", "replace-one"]

WIDEST = 1e-4
"""Largest width of a bracket of delta, relative."""
_CLOSED_FORM = 3e-10  # error of log delta of a Gaussian mechanism, for |log delta| < 1e5
_FINE = 1e-8  # relative: a line that does this needs no second one
_TURNS = 12
_SEARCH = 16
_CUTS = 3
_FEW = 4096  # nodes while searching
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
    low, high = _delta(step_losses(composition, direction), epsilon)
    return low, _narrow(low, high)


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
        if _delta(step_losses(composition, direction), lower)[1] > delta:
            low, high = direction_epsilon(composition, delta=delta, direction=direction)
            lower, upper = max(lower, low), max(upper, high)
    return lower, upper


def direction_epsilon(composition: Composition, *, delta: float, direction: Direction) -> tuple[float, float]:
    """Bounds of the smallest epsilon of one direction."""
    steps = step_losses(composition, direction)
    if _delta(steps, 0.0)[1] <= delta:
        return 0.0, 0.0
    bracket, middle, epsilon = _near(steps, delta)
    slope = middle(epsilon)[1]
    low, high = bracket(epsilon)
    _narrow(low, high)
    start = 1.01 * (high - low) / abs(slope) + 4e-16 * epsilon
    return (
        _end(lambda e: bracket(e)[0] >= delta, epsilon, -start),
        min(_end(lambda e: bracket(e)[1] <= delta, epsilon, start), largest_loss(steps)),
    )


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
            return _saddle(steps, epsilon).log_value - math.log(delta)
        except Unresolved:  # epsilon is beyond all losses that occur
            return -math.inf

    def upper_delta(log_factor: float, direction: Direction) -> float:
        return _delta(step_losses(scaled(log_factor), direction), epsilon)[1]

    unsampled = max(_unsampled_mu(step_losses(composition, one)) for one in directions(adjacency))
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
        elif _delta(step_losses(scaled(lower), larger), epsilon)[0] > delta:
            return math.exp(lower), math.exp(upper)
    raise Unresolved(f"the search for the noise did not end near a factor of {math.exp(x):.6g}")


def largest_loss(steps: Steps) -> float:
    """What the losses of all steps never exceed: without the record a sample's density is at most 1 / (1 - q) times the other."""
    if any(step.direction != "add" or step.sampling_rate == 1.0 for step in steps):
        return math.inf
    return -sum(step.count * math.log1p(-step.sampling_rate) for step in steps) * (1 + 1e-14)


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
    line = _line(steps, epsilon)
    kept = cut(steps, math.log(max(line.delta_bracket(epsilon)[1], 1e-300)))
    return plan_line(kept, saddle_at(kept, epsilon))


def _narrow(low: float, high: float) -> float:
    if high - low > WIDEST * high:
        raise Unresolved(f"delta is known to lie in [{low!r}, {high!r}] only", low, high)
    return high


def _gaussian_mu(steps: Steps) -> float | None:
    """Steps without sampling are one Gaussian mechanism."""
    return None if any(step.sampling_rate < 1.0 for step in steps) else _unsampled_mu(steps)


def _unsampled_mu(steps: Steps) -> float:
    size = 2.0 if steps[0].direction == "replace" else 1.0
    return size * math.sqrt(math.fsum(step.count * step.shift**2 for step in steps))


def _delta(steps: Steps, epsilon: float) -> tuple[float, float]:
    if epsilon >= largest_loss(steps):
        return 0.0, 0.0
    mu = _gaussian_mu(steps)
    if mu is not None:
        return _gaussian_bracket(mu, epsilon)
    try:
        return _line(steps, epsilon).delta_bracket(epsilon)
    except Unresolved:  # no loss exceeds the largest one: delta <= 1 - exp(epsilon - largest)
        return 0.0, -math.expm1(epsilon - largest_loss(steps)) * (1 + 1e-12)


def _gaussian_bracket(mu: float, epsilon: float) -> tuple[float, float]:
    log_delta = gaussian_log_delta(mu, epsilon)
    return math.exp(log_delta - _CLOSED_FORM), min(1.0, math.exp(log_delta + _CLOSED_FORM))


def _saddle(steps: Steps, epsilon: float) -> Saddle:
    return saddle_at(cut(steps, -25.0), epsilon)


def _line(steps: Steps, epsilon: float, log_delta: float | None = None) -> Line:
    """The line for epsilon, whose cut fits delta: it is made anew until what is left out does not matter."""
    if log_delta is None:
        log_delta = min(_saddle(steps, epsilon).log_value, -1.0)
    best, width = None, math.inf
    for nats in (LEFT_OUT, LEFT_OUT / 2):  # nearer cuts leave less of what delta has to be told from
        for _ in range(_CUTS):
            kept = cut(steps, log_delta, nats)
            line = line_at(kept, saddle_at(kept, epsilon))
            low, high = line.delta_bracket(epsilon)
            if line.left_out <= 2 * math.exp(-nats) * low:
                break
            log_delta = min(math.log(low) if low > 0.1 * high else log_delta - 12.0, log_delta - 1.0)
        if best is None or high - low < width:
            best, width = line, high - low
        if width < _FINE * high:
            break
    assert best is not None
    return best


def _near(
    steps: Steps, delta: float
) -> tuple[Callable[[float], tuple[float, float]], Callable[[float], tuple[float, float]], float]:
    """Bounds of delta, about delta with its derivative, and about the epsilon where it is ``delta``."""
    mu = _gaussian_mu(steps)
    log_delta = math.log(delta)
    low, high = 0.0, largest_loss(steps)
    epsilon = max(saddle_for(cut(steps, log_delta), log_delta).epsilon, 0.0)
    if epsilon >= high:
        epsilon = 0.999 * high
    kept = cut(steps, log_delta)
    for _ in range(_SEARCH):
        line = line_at(kept, saddle_at(kept, epsilon), _FEW)
        below, above = line.delta_bracket(epsilon)
        # neither of both: taken as a lower end of the search
        low, high = (low, min(high, epsilon)) if above < delta else (max(low, epsilon), high)
        value, slope = line.middle(epsilon)
        moved = math.nan
        if above - below < above / 4 and slope < 0:
            moved = epsilon - math.log(value / delta) * value / slope
        if not low <= moved <= high:
            moved = math.sqrt(low * high) if low > 0 and high < math.inf else (epsilon / 2 if low == 0 else 2 * epsilon)
        settled = abs(moved - epsilon) * -slope < delta / 10
        epsilon = moved
        if settled:
            break
    line = _line(steps, epsilon, log_delta)
    for _ in range(_TURNS):
        value, slope = line.middle(epsilon)
        if not (value > 0 and slope < 0):
            break
        step = math.log(value / delta) * value / slope
        epsilon = min(max(epsilon - step, 0.0), high)
        if abs(step) <= 4e-16 * epsilon:
            break
    if mu is not None:
        return (lambda e: _gaussian_bracket(mu, e)), line.middle, epsilon
    return line.delta_bracket, line.middle, epsilon


def _end(holds: Callable[[float], bool], epsilon: float, step: float) -> float:
    """The first of epsilon + step, + 2 step, + 4 step, ... that holds; 0 where it falls below."""
    for _ in range(40):
        if epsilon + step <= 0:
            return 0.0
        if holds(epsilon + step):
            return epsilon + step
        step *= 2
    raise Unresolved(f"no bound of epsilon near {epsilon!r}: delta is known too roughly there")


def _root_below(function: Callable[[float], float], high: float) -> float:
    """About the root of a falling function that is below 0 at ``high``."""
    low = high - 0.5
    while function(low) <= 0 and high - low < 40.0:
        high, low = low, low - 1.0
    while high - low > 1e-2:
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2
