"""The least noise of a given shape that keeps a budget: one factor on the noise multipliers of all steps."""

import math
from collections.abc import Callable
from dataclasses import replace

from dptheory import _validate
from dptheory._adjacency import Adjacency
from dptheory.privacy._budgets import GAP
from dptheory.privacy._certified import certified_epsilon
from dptheory.privacy._composed_steps import composed_epsilon, index_epsilon, plain
from dptheory.privacy._crossing import MARGIN, first_that_fits
from dptheory.privacy._parts import LEAST_NOISE, MOST_NOISE, IndexSteps, Part, Step
from dptheory.privacy._values_bounds import bins, on_line, unsampled_mu, values_epsilon, values_of
from dptheory.privacy.methods.gaussian._gaussian import gaussian_mu
from dptheory.privacy.methods.renyi._parts import renyi_epsilon
from dptheory.privacy.methods.saddle._brackets import chance, directions, noise_bracket
from dptheory.privacy.methods.saddle._moments import Unresolved

_QUIET = 1e-3  # of the budget's mu: what noise spends that is as good as infinite
_TURNS, _SECANTS = 60, 30
_STEEP, _FLAT = -20.0, -0.1
"""Slopes of log epsilon over log noise that are believed."""


def scaled(parts: tuple[Part, ...], factor: float) -> tuple[Part, ...]:
    """All noise multipliers times ``factor``; index sets as they are."""
    return tuple(
        part if isinstance(part, IndexSteps) else replace(part, noise_multiplier=factor * part.noise_multiplier)
        for part in parts
    )


def least_scale(
    parts: tuple[Part, ...], adjacency: Adjacency, *, epsilon: float, delta: float, certified: bool
) -> float:
    """The least factor on all noise multipliers whose upper bound of epsilon is at most the budget, to ``GAP``.

    Raises:
        ValueError: no noise keeps the budget, or ball arithmetic refuses it.
    """
    noises = [part.noise_multiplier for part in parts if not isinstance(part, IndexSteps)]
    if not noises:
        raise ValueError("parts must hold steps with noise that can be scaled, got index sets alone")
    least, most = LEAST_NOISE / min(noises), MOST_NOISE / max(noises)
    if index_epsilon(parts) == 0.0 and chance(values_of(parts, hidden=False)) <= delta:
        return least

    def fits(factor: float, *, enclosed: bool = False) -> bool:
        return _upper(scaled(parts, factor), adjacency, delta, enclosed) <= epsilon

    factor = _from_the_integral(parts, adjacency, epsilon, delta)
    if factor is None:
        factor = _searched(parts, adjacency, epsilon, delta, (least, most))
    found = first_that_fits(
        min(max(factor, least), most),
        most,
        lambda one: fits(one) and (not certified or fits(one, enclosed=True)),
    )
    if found is None:
        raise ValueError(_refusal(epsilon))
    return found


def _refusal(epsilon: float) -> str:
    return (
        "epsilon must be larger, or delta: no noise multipliers that are allowed keep the budget, got "
        f"{_validate.shown(epsilon)}"
    )


def _upper(parts: tuple[Part, ...], adjacency: Adjacency, delta: float, enclosed: bool) -> float:
    """Upper bound of epsilon; without index sets no grid is asked, whose upper end is never lower there."""
    if enclosed:
        return certified_epsilon(parts, adjacency, delta).upper
    parts = plain(parts)
    if index_epsilon(parts) > 0.0:
        return composed_epsilon(parts, directions(adjacency), delta).upper
    values, both = values_of(parts, hidden=False), directions(adjacency)
    if all(isinstance(part, Step) for part in parts):
        return composed_epsilon(parts, both, delta).upper
    return min(max(values_epsilon(values, one, delta).upper for one in both), renyi_epsilon(parts, delta))


def _from_the_integral(parts: tuple[Part, ...], adjacency: Adjacency, epsilon: float, delta: float) -> float | None:
    """Of noisy values, where the integral knows delta closely; many kinds as the bounds of epsilon bin them; None elsewhere."""
    values = bins(values_of(parts, hidden=False), upper=True)
    if not (all(isinstance(part, Step) for part in parts) and on_line(values)):
        return None
    try:
        return noise_bracket(values, epsilon=epsilon, delta=delta, adjacency=adjacency)[1] * (1 + MARGIN)
    except Unresolved:
        return None


def _searched(
    parts: tuple[Part, ...], adjacency: Adjacency, epsilon: float, delta: float, ends: tuple[float, float]
) -> float:
    """About the least factor, by the upper bound of epsilon itself."""

    def excess(log_factor: float) -> float:
        found = _upper(scaled(parts, math.exp(log_factor)), adjacency, delta, enclosed=False)
        return math.log(found / epsilon) if found > 0.0 else -math.inf

    values = values_of(parts, hidden=False)
    enough = max(unsampled_mu(values, one) for one in directions(adjacency)) / gaussian_mu(epsilon, delta)
    low, high = math.log(ends[0]), math.log(min(ends[1], enough / _QUIET))
    if high <= low or excess(high) > 0.0:
        raise ValueError(_refusal(epsilon))
    # a guess: amplification by the mean rate, no more than a start
    total = sum(step.count for step in values)
    rate = math.fsum(step.sampling_rate * step.count for step in values) / total
    return math.exp(root(excess, min(high, max(low, math.log(enough * max(rate, 1e-3)))), low, high))


def root(excess: Callable[[float], float], x: float, low: float, high: float) -> float:
    """The least place to within ``GAP`` where a falling function is at most 0, which it is at ``high``.

    By secants that aim a little beyond the root, on the side whose end is further off; by halving where they leave the bracket.
    """
    fits, breaks, slope = high, -math.inf, -1.5
    before: tuple[float, float] | None = None
    for turn in range(4 * _TURNS):
        value = excess(x)
        if before is not None and math.isfinite(value) and math.isfinite(before[1]) and x != before[0]:
            slope = min(_FLAT, max(_STEEP, (value - before[1]) / (x - before[0])))
        before = (x, value)
        fits, breaks = (min(fits, x), breaks) if value <= 0.0 else (fits, max(breaks, x))
        if fits <= low or fits - breaks <= GAP / 2:
            break
        root = x + min(1.0, max(-1.0, -value / slope))
        x = max(low, root + (0.2 if fits - root > 0.25 * GAP else -0.2) * GAP)
        if not breaks < x < fits or turn > _SECANTS:
            x = (fits + breaks) / 2 if breaks > -math.inf else max(low, fits - 1.0)
    return fits
