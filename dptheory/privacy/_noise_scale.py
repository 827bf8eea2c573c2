"""The least noise of a given shape that keeps a budget: one factor on the noise multipliers of all steps."""

import math
from collections.abc import Callable

from dptheory.errors import ArgumentError
from dptheory.privacy import epsilon as methods
from dptheory.privacy._bounds import NOISE, Direction
from dptheory.privacy._parts import (
    LEAST_NOISE,
    MOST_NOISE,
    Apart,
    FixedSizeStep,
    Noised,
    Part,
    Parts,
    RandomAllocation,
    Step,
    Steps,
    alike,
    chance,
    index_epsilon,
    plain,
    scaled,
    unsampled_mu,
    values_of,
)
from dptheory.privacy.methods._closed_forms import gaussian_mu
from dptheory.privacy.methods.saddle._brackets import MOST_KINDS, about_log_delta, closed_bounds, without_lines
from dptheory.privacy.methods.saddle._certified import certified_epsilon
from dptheory.privacy.methods.saddle._line import step_losses

_QUIET = 1e-3  # of the budget's mu: what noise spends that is as good as infinite
_TURNS, _SECANTS = 60, 30
GAP = 1e-6
"""Relative: a noise multiplier smaller by this does not keep the budget."""
_ROUGH_GAP = 1e-3
_LEAST_GUESSED = 0.02
"""Noise below which no guess goes."""
_STEEP, _FLAT = -20.0, -0.1
"""Slopes of log epsilon over log noise that are believed."""


MARGIN = 1e-7
"""Relative: added to a noise, so that the bracket in any arithmetic keeps the budget."""


def first_that_fits(x: float, most: float, fits: Callable[[float], bool]) -> float | None:
    """``x``, or a number a little larger that fits, by steps that double from ``MARGIN``; None where ``most`` does not.

    The bracket of delta by which a noise was chosen, and that of epsilon, agree up to rounding.
    """
    for turn in range(_TURNS):
        if fits(x):
            return x
        if x == most:
            break
        x = min(most, x * (1 + 2.0**turn * MARGIN))
    return None


def least_scale(
    parts: Parts,
    directions: tuple[Direction, ...],
    *,
    epsilon: float,
    delta: float,
    certified: bool = False,
    noises: tuple[float, float] = (LEAST_NOISE, MOST_NOISE),
) -> float:
    """The least factor on all noise multipliers whose upper bound of epsilon is at most the budget, to ``GAP``.

    ``noises``: between which all noise multipliers stay; the least where less would do.
    """
    known = [part.noise_multiplier for part in parts if isinstance(part, Noised)]
    if not known:
        raise ArgumentError("parts", "hold steps with noise that can be scaled", parts, got="none")
    least, most = noises[0] / min(known), noises[1] / max(known)
    # in which a record takes part for sure
    allocated = any(isinstance(part, Apart) for part in parts)
    if index_epsilon(parts) == 0.0 and not allocated and chance(about_poisson(parts)) <= delta:
        return least
    # the bounds that take no time are not of ball arithmetic, and know noise in the range of the line alone
    only_values = all(isinstance(part, Step) for part in parts)
    known_quickly = only_values and not certified and noises[0] >= NOISE[0]
    if known_quickly and quick_delta(values_of(scaled(parts, least), hidden=False), directions, epsilon) <= delta:
        return least

    def fits(factor: float) -> bool:
        some = plain(scaled(parts, factor))
        if methods.upper_epsilon(some, directions, delta) > epsilon:
            return False
        return not certified or certified_epsilon(some, directions, delta).upper <= epsilon

    search = _by_delta if only_values else _searched
    factor = search(parts, directions, epsilon, delta, (least, most))
    found = first_that_fits(min(max(factor, least), most), most, fits)
    if found is None:
        raise NoNoiseError(epsilon)
    return found


class NoNoiseError(ArgumentError):
    """No noise that is allowed keeps a budget."""

    def __init__(self, epsilon: float) -> None:
        super().__init__(
            "epsilon", "be larger, or delta: no noise multipliers that are allowed keep the budget", epsilon
        )


def quick_delta(values: Steps, directions: tuple[Direction, ...], epsilon: float) -> float:
    """Upper bound of delta that needs no line: a line takes seconds."""
    losses = [step_losses(values, direction) for direction in directions]
    found = min(chance(values), max(closed_bounds(steps, epsilon)[1] for steps in losses))
    exact = len(values) == values[0].count == 1 or all(step.sampling_rate == 1.0 for step in values)
    return found if exact else min(found, max(without_lines(steps, epsilon) for steps in losses))


def about_poisson(parts: Parts) -> Steps:
    """The noisy values; of batches of a fixed size what is attained where the other records are alike, of random allocation a guess."""
    return values_of(tuple(map(_as_step, parts)), hidden=False)


def _as_step(part: Part) -> Part:
    if isinstance(part, FixedSizeStep):
        return alike(part)
    if isinstance(part, RandomAllocation):  # as many participations on average
        rate = part.participations / part.steps_per_epoch
        return Step(noise_multiplier=part.noise_multiplier, sampling_rate=rate, count=part.steps * part.count)
    return part


def _by_delta(
    parts: Parts, directions: tuple[Direction, ...], epsilon: float, delta: float, ends: tuple[float, float]
) -> float:
    """About the least factor of noisy values, by the upper bound of delta: cheaper than that of epsilon, and as close."""

    def at(log_factor: float) -> Steps:
        return values_of(scaled(parts, math.exp(log_factor)), hidden=False)

    def rough(log_factor: float) -> float:
        return about_log_delta(at(log_factor), epsilon, directions[0]) - math.log(delta)

    def excess(log_factor: float, direction: Direction) -> float:
        return math.log(max(methods.delta_in(at(log_factor), direction, epsilon).upper, 1e-320) / delta)

    enough = max(unsampled_mu(at(0.0), one) for one in directions) / gaussian_mu(epsilon, delta)
    low, high = math.log(ends[0]), math.log(enough) + 1e-6  # where the steps fit without sampling
    if high > math.log(ends[1]):
        high = math.log(ends[1])
        if quick_delta(at(high), directions, epsilon) > delta and max(excess(high, one) for one in directions) > 0.0:
            raise NoNoiseError(epsilon)
    if high <= low:
        return math.exp(low)
    floor = max(low, math.log(_LEAST_GUESSED / min(step.noise_multiplier for step in at(0.0))))
    guess = root(rough, high - 0.5, min(floor, high), high, _ROUGH_GAP, steepest=-math.inf)
    slope = (rough(guess + 1e-2) - rough(guess - 1e-2)) / 2e-2
    at_guess = {one: excess(guess, one) for one in directions}
    closest = [one for one in directions if at_guess[one] > max(at_guess.values()) - 1.0]
    found = root(
        lambda x: max(excess(x, one) for one in closest),
        guess,
        low,
        high,
        slope=slope if math.isfinite(slope) and slope < 0.0 else -1.5,
        steepest=-math.inf,
    )
    return math.exp(found)


def _searched(
    parts: Parts, directions: tuple[Direction, ...], epsilon: float, delta: float, ends: tuple[float, float]
) -> float:
    """About the least factor, by the upper bound of epsilon itself."""

    def excess(log_factor: float) -> float:
        found = methods.upper_epsilon(plain(scaled(parts, math.exp(log_factor))), directions, delta)
        return math.log(found / epsilon) if found > 0.0 else -math.inf

    # a batch of a fixed size has an upper bound that is some percent off, and takes long; epochs of random allocation, and
    # schedules, bounds that are 1e-3 or less off
    values = about_poisson(parts)
    others = FixedSizeStep | Apart
    wide = any(isinstance(part, others) for part in parts) or len(values) > MOST_KINDS
    gap = _ROUGH_GAP if wide else GAP
    enough = max(unsampled_mu(values, one) for one in directions) / gaussian_mu(epsilon, delta)
    low, high = math.log(ends[0]), math.log(min(ends[1], enough / _QUIET))
    if high <= low or excess(high) > 0.0:
        raise NoNoiseError(epsilon)
    # a guess: amplification by the mean rate, no more than a start
    total = sum(step.count for step in values)
    rate = math.fsum(step.sampling_rate * step.count for step in values) / total
    return math.exp(root(excess, min(high, max(low, math.log(enough * max(rate, 1e-3)))), low, high, gap))


def root(
    excess: Callable[[float], float],
    x: float,
    low: float,
    high: float,
    gap: float = GAP,
    *,
    slope: float = -1.5,
    steepest: float = _STEEP,
) -> float:
    """The least place to within ``gap`` where a falling function is at most 0, which it is at ``high``.

    By secants that aim a little beyond the root, on the side whose end is further off; by halving where they leave the bracket.
    """
    fits, breaks = high, -math.inf
    before: tuple[float, float] | None = None
    for turn in range(4 * _TURNS):
        value = excess(x)
        if before is not None and math.isfinite(value) and math.isfinite(before[1]) and x != before[0]:
            slope = min(_FLAT, max(steepest, (value - before[1]) / (x - before[0])))
        before = (x, value)
        fits, breaks = (min(fits, x), breaks) if value <= 0.0 else (fits, max(breaks, x))
        if fits <= low or fits - breaks <= gap / 2:
            break
        root = x + min(1.0, max(-1.0, -value / slope))
        x = max(low, root + (0.2 if fits - root > 0.25 * gap else -0.2) * gap)
        if not breaks < x < fits or turn > _SECANTS:
            x = (fits + breaks) / 2 if breaks > -math.inf else max(low, fits - 1.0)
    return fits
