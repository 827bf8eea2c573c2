"""The smallest epsilon of one direction: where delta(epsilon) crosses a given delta."""

import math
from collections.abc import Callable

from dptheory.privacy._bounds import Unresolved
from dptheory.privacy._parts import unsampled_mu
from dptheory.privacy.methods._closed_forms import one_step_epsilon, participation_epsilon
from dptheory.privacy.methods.gaussian._bracket import Curve, first_that_holds, unsampled_ends
from dptheory.privacy.methods.gaussian._gaussian import gaussian_epsilon
from dptheory.privacy.methods.saddle._delta import (
    MANY_PRODUCTS,
    WANTED,
    WIDEST,
    Lines,
    Way,
    by_participations,
    closed_bounds,
    delta_bounds_at,
    gaussian_mu,
    guessed_log_delta,
    largest_loss,
    lines_by,
    lines_near,
    narrow,
)
from dptheory.privacy.methods.saddle._line import line_at
from dptheory.privacy.methods.saddle._measures import law
from dptheory.privacy.methods.saddle._points import Losses, cut, saddle_at, saddle_for, total_of

_FEW = 4096  # nodes while searching
_SEARCH = 16
_BLIND = 2
"""Lines that tell nothing, after which the place is taken where one extreme output makes out delta."""
_SURELY, _ROUGH = 1.0, 0.01
"""Of log delta at 0: what its guess is off at most; and how closely it has to be known to say whether epsilon is 0."""
_SETTLED = 0.1  # log of delta over the one that is asked for: the next step of Newton's method is close enough
_LONG_SEARCH = 80
_WIDE = 4  # wide brackets after which the search gives up
_TURNS = 12
_FURTHEST = 4.0  # times epsilon, in one step of Newton's method
_AGAIN = 3
_ASTRAY = 8.0  # times: lines serve no epsilon as far as this from the one that they were made for
_NEAR = 1e-3  # relative: lines made as near as this to epsilon are not made again
_USEFUL = 1e-3
"""Relative: a bracket of epsilon that is narrower is not tried to better, unless it is asked for."""
_CLOSE = 1e-9
"""A bracket of epsilon as narrow as this, relative, is narrow even where delta changes fast."""


def epsilon_of(steps: Losses, delta: float, enough: float = WIDEST) -> tuple[float, float]:
    """Bounds of the smallest epsilon >= 0 with delta(epsilon) <= ``delta``; ``enough`` as for :func:`lines_near`.

    Raises:
        Unresolved: they are wide; it carries them.
    """
    if len(steps) == steps[0].count == 1:
        return one_step_epsilon(steps[0], delta)
    if _nothing_is_spent(steps, delta):
        return 0.0, 0.0
    lower, upper = 0.0, math.inf
    for attempt in (_quickly, _carefully):
        try:
            below, above, bracket = attempt(steps, delta, enough)
        except Unresolved:
            continue
        lower, upper = max(lower, below), min(upper, above)
        if upper - lower <= (_CLOSE if enough < WIDEST else _USEFUL) * upper or (
            bracket(upper)[0] >= delta * (1 - 2 * WIDEST)
            and (bracket(lower) if lower > 0 else delta_bounds_at(steps, 0.0))[1] <= delta * (1 + 2 * WIDEST)
        ):
            return lower, upper
    raise Unresolved(f"epsilon is known to lie in [{lower!r}, {upper!r}] only", lower, upper)


def _nothing_is_spent(steps: Losses, delta: float) -> bool:
    """Whether delta(0) is known to be at most ``delta``; where it is likely to be far above, no line is asked."""
    alone = [step.delta_bounds(0.0)[1] for step in steps]
    if max(alone) > delta:
        return False
    if sum(step.count * one for step, one in zip(steps, alone, strict=True)) * (1 + 1e-12) <= delta:
        return True  # the distances of single steps add up to at least that of all
    return guessed_log_delta(steps, 0.0) < math.log(delta) + _SURELY and delta_bounds_at(steps, 0.0, _ROUGH)[1] <= delta


def _quickly(steps: Losses, delta: float, enough: float) -> tuple[float, float, Curve]:
    """By lines with few nodes to where epsilon is about, then by one line."""
    mu = gaussian_mu(steps)
    if mu is not None:
        return unsampled_ends(mu, delta)
    largest = largest_loss(steps)
    epsilon = _search(steps, delta, largest)
    lines = lines_near(steps, epsilon, enough)
    for _ in range(_AGAIN):
        lower, upper = ends_around(lines, lines.delta_bracket, delta, (0.0, largest))
        below, above = lines.delta_bracket(upper)
        width = (above - below) / above
        if (
            width <= WANTED
            or (lines.products > MANY_PRODUCTS and width <= enough)
            or abs(upper - epsilon) <= _NEAR * upper
        ):
            break
        if not epsilon / _ASTRAY <= upper <= epsilon * _ASTRAY:
            raise Unresolved(f"the search for epsilon went astray, to {epsilon!r} and {upper!r}")
        epsilon = upper  # the search stopped too early
        lines = lines_by(steps, epsilon, lines.way)
    return lower, upper, lines.delta_bracket


def _search(steps: Losses, delta: float, largest: float) -> float:
    log_delta = math.log(delta)
    kept = cut(steps, log_delta)
    low, high = 0.0, largest
    epsilon = max(saddle_for(total_of(kept), log_delta).epsilon, 0.0)
    if epsilon >= high:
        epsilon = 0.999 * high
    blind = 0
    for _ in range(_SEARCH):
        line = line_at(law(kept), saddle_at(total_of(kept), epsilon), _FEW)
        below, above = line.delta_bracket(epsilon)
        # neither of both: taken as a lower end of the search
        low, high = (low, min(high, epsilon)) if above < delta else (max(low, epsilon), high)
        value, slope = line.middle(epsilon)
        moved, astray = math.nan, math.inf
        if above - below < above / 4 and slope < 0:
            astray = math.log(value / delta)
            moved = epsilon - astray * value / slope
        if not low <= moved <= high:
            moved = math.sqrt(low * high) if low > 0 and high < math.inf else (epsilon / 2 if low == 0 else 2 * epsilon)
        blind = blind + 1 if math.isinf(astray) else 0
        if blind == _BLIND:
            return _by_one_output(steps, delta)
        epsilon = moved
        if abs(astray) < _SETTLED:
            break
    return epsilon


def _carefully(steps: Losses, delta: float, enough: float) -> tuple[float, float, Curve]:
    """Between two epsilons whose deltas are known to lie on either side, with the best lines at each."""
    low, high = _closed(steps, delta)
    if high - low <= _CLOSE * high:
        return low, high, lambda epsilon: closed_bounds(steps, epsilon)
    bounded = largest_loss(steps) < math.inf
    epsilon = _by_one_output(steps, delta)
    if not low < epsilon < high:
        epsilon = low + (high - low) / 2
    wide = 0
    way: Way | None = None
    for _ in range(_LONG_SEARCH):
        below, above = closed_bounds(steps, epsilon)
        lines = None if narrow(below, above) else _lines_or_none(steps, epsilon, enough, way, delta)
        way = way if lines is None else lines.way
        below, above = _both(steps, lines, epsilon)
        if lines is not None and narrow(below, above) and delta / 1.5 < above < 1.5 * delta:
            bracket = _held(steps, lines)
            try:
                return *ends_around(lines, bracket, delta, (low, high)), bracket
            except Unresolved:
                break
        if below >= delta:
            low = epsilon
        elif above <= delta:
            high = epsilon
        else:
            break
        wide += not narrow(below, above) and below <= 2 * delta and above >= delta / 2
        if wide > _WIDE:
            break
        moved = math.nan
        if lines is not None and above < 2 * below:
            value, slope = lines.middle(epsilon)
            moved = epsilon - math.log(value / delta) * value / slope if value > 0 and slope < 0 else math.nan
        if not low < moved < high and bounded and below > 0:
            moved = high - (high - epsilon) * min(delta / below, 0.5)  # delta falls to 0 at the largest loss
        if not low < moved < high:
            moved = math.sqrt(low * high) if low > 0.1 * high else (low + high) / (2 if low > 0 else 4)
        if not low < moved < high:
            break
        epsilon = moved

    return low, high, lambda epsilon: delta_bounds_at(steps, epsilon)


def _closed(steps: Losses, delta: float) -> tuple[float, float]:
    """Bounds of epsilon by the closed forms alone."""
    highest = min(largest_loss(steps), gaussian_epsilon(unsampled_mu(steps, steps[0].direction), delta) * (1 + 1e-8))
    if len(steps) == 1:
        size = 2.0 if steps[0].direction == "replace" else 1.0
        highest = min(
            highest, participation_epsilon(size * steps[0].shift, steps[0].sampling_rate, steps[0].count, delta)
        )
    lowest = max(one_step_epsilon(step, delta)[0] for step in steps)  # of a part of the run
    return (
        max(lowest, _last(lambda epsilon: closed_bounds(steps, epsilon)[0] >= delta, highest)[0]),
        _last(lambda epsilon: closed_bounds(steps, epsilon)[1] > delta, highest)[1],
    )


def _by_one_output(steps: Losses, delta: float) -> float:
    """About epsilon where one extreme output makes out delta: a guess."""
    return max(one_step_epsilon(step, delta / sum(one.count for one in steps))[0] for step in steps)


def _last(holds: Callable[[float], bool], high: float) -> tuple[float, float]:
    """Where a bound ends to hold: a point of [0, high] where it holds, or 0, and one where it does not, or ``high``."""
    low = 0.0
    for _ in range(200):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _lines_or_none(steps: Losses, epsilon: float, enough: float, way: Way | None, delta: float) -> Lines | None:
    try:
        return lines_near(steps, epsilon, enough, split_first=True, first=way, apart_from=delta)
    except Unresolved:
        return None


def _both(steps: Losses, lines: Lines | None, epsilon: float) -> tuple[float, float]:
    """The bounds by the lines and by the closed forms, whichever are nearer."""
    low, high = (0.0, 1.0) if lines is None else lines.delta_bracket(epsilon)
    below, above = closed_bounds(steps, epsilon)
    return max(low, below), min(high, above, by_participations(steps, epsilon))


def _held(steps: Losses, lines: Lines) -> Curve:
    return lambda epsilon: _both(steps, lines, epsilon)


def ends_around(lines: Lines, bracket: Curve, delta: float, ends: tuple[float, float]) -> tuple[float, float]:
    """The ends of the bracket of epsilon, by lines that serve there."""
    epsilon, slope = min(max(lines.epsilon, ends[0]), ends[1]), math.nan
    for _ in range(_TURNS):
        value, slope = lines.middle(epsilon)
        if not (value > 0 and slope < 0):
            break
        step = math.log(value / delta) * value / slope
        near = min(max(epsilon - step, epsilon / _FURTHEST), epsilon * _FURTHEST) if epsilon > 0 else -step
        epsilon = min(max(near, ends[0]), ends[1])
        if abs(step) <= 4e-16 * epsilon:
            break
    low, high = bracket(epsilon)
    if not slope < 0:
        raise Unresolved(f"delta does not fall near {epsilon!r}")
    start = 1.01 * (high - low) / abs(slope) + 4e-16 * epsilon
    return (
        max(ends[0], first_that_holds(lambda e: bracket(e)[0] >= delta, epsilon, -start)),
        min(ends[1], first_that_holds(lambda e: bracket(e)[1] <= delta, epsilon, start)),
    )
