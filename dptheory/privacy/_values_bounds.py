"""Bounds of delta and epsilon of noisy values alone, whatever their noise and rate.

From the integral on the saddle line where it serves; else from a grid, without sampling, by the chance to take part, and by
Renyi curves.
"""

import functools
import math
from collections import Counter

from dptheory.privacy._bounds import CHANCE, CLOSED, GRID, LINE, NOISE, NONE, ONE, RATE, RENYI, Found
from dptheory.privacy._parts import IndexSteps, MaskedStep, Part, Step
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.gaussian._gaussian import gaussian_delta, gaussian_epsilon
from dptheory.privacy.methods.grid._bounds import LEAST, grid_bounds, grid_epsilon
from dptheory.privacy.methods.renyi._parts import renyi_delta, renyi_epsilon
from dptheory.privacy.methods.saddle._brackets import SampledGaussian, chance, direction_delta, direction_epsilon
from dptheory.privacy.methods.saddle._delta import gaussian_bracket
from dptheory.privacy.methods.saddle._epsilon import unsampled_ends
from dptheory.privacy.methods.saddle._moments import Direction, Unresolved

Steps = tuple[SampledGaussian, ...]

_LINE_NOISE, _LINE_RATE, _LINE_STEPS = (0.05, 1000.0), 1e-8, 1_000_000
"""Where the saddle line is tried; elsewhere it is slow to find that it cannot."""
MOST_KINDS = 16
"""Steps of more kinds are binned, once towards more privacy and once towards less."""
_MAX_SHIFT = 1e100
_INTEGRAL = 1e-9  # relative error of the integral for one step, generously
_NARROW = 1e-5
"""Relative width at which no other method is asked."""


def values_of(parts: tuple[Part, ...], *, hidden: bool) -> Steps:
    """The noisy values: of masked steps none (``hidden``), or as if no mask hid anything. Equal kinds are counted together."""
    counts: Counter[tuple[float, float]] = Counter()
    for part in parts:
        if not (isinstance(part, IndexSteps) or (isinstance(part, MaskedStep) and hidden)):
            counts[part.noise_multiplier, part.sampling_rate] += part.count
    return tuple(
        SampledGaussian(noise_multiplier=noise, sampling_rate=rate, count=count)
        for (noise, rate), count in sorted(counts.items())
    )


def values_delta(steps: Steps, direction: Direction, epsilon: float) -> Found:
    if not steps:
        return Found(0.0, 0.0, CLOSED, CLOSED)
    if _unsampled(steps, direction):
        return Found(*gaussian_bracket(unsampled_mu(steps, direction), epsilon), CLOSED, CLOSED)
    if sum(step.count for step in steps) == 1 and _closed(steps[0]):
        low, high = Loss(direction, steps[0].noise_multiplier, steps[0].sampling_rate).delta_bounds(epsilon)
        return Found(max(0.0, low * (1 - _INTEGRAL)), min(1.0, high * (1 + _INTEGRAL)), ONE, ONE)
    found = Found(0.0, 1.0, NONE, NONE)
    for bound in (False, True):
        binned = bins(steps, upper=bound)
        if on_line(binned):
            low, high = _line_delta(binned, direction, epsilon)
            found = found.with_upper(high, LINE) if bound or binned == steps else found
            found = found.with_lower(low, LINE) if not bound or binned == steps else found
        if binned == steps:
            break
    if found.upper - found.lower <= _NARROW * found.upper or (found.method == LINE and binned != steps):
        return found
    found = found.with_upper(_unsampled_delta(steps, direction, epsilon), CLOSED)
    found = found.with_upper(chance(steps), CHANCE)
    if direction != "replace" and found.upper > LEAST:
        parts = tuple(map(_as_step, steps))
        found = found.with_upper(renyi_delta(parts, epsilon), RENYI)
        lower, upper = grid_bounds(parts, direction, epsilon)
        found = found.with_lower(lower, GRID).with_upper(upper, GRID)
    return found


def _line_delta(steps: Steps, direction: Direction, epsilon: float) -> tuple[float, float]:
    try:
        return direction_delta(steps, epsilon=epsilon, direction=direction)
    except Unresolved as refused:
        return max(0.0, refused.lower), min(1.0, refused.upper)


def values_epsilon(steps: Steps, direction: Direction, delta: float) -> Found:
    if not steps:
        return Found(0.0, 0.0, CLOSED, CLOSED)
    found = Found(0.0, math.inf, NONE, NONE)
    if _unsampled(steps, direction):
        mu = unsampled_mu(steps, direction)
        covered = gaussian_bracket(mu, 0.0)[1] <= delta
        lower, upper, _ = (0.0, 0.0, None) if covered else unsampled_ends(mu, delta)
        return Found(lower, upper, CLOSED, CLOSED)
    if chance(steps) <= delta:
        return Found(0.0, 0.0, CHANCE, CHANCE)
    for bound in (False, True):
        binned = bins(steps, upper=bound)
        if on_line(binned):
            try:
                low, high = direction_epsilon(binned, delta=delta, direction=direction)
            except Unresolved:
                continue
            found = found.with_upper(high, LINE) if bound or binned == steps else found
            found = found.with_lower(low, LINE) if not bound or binned == steps else found
        if binned == steps:
            break
    if found.upper < math.inf:
        return found if found.lower > 0.0 else Found(0.0, found.upper, found.above, found.above)
    mu = unsampled_mu(steps, direction)
    found = found.with_upper(gaussian_epsilon(mu, delta) if mu <= _MAX_SHIFT else math.inf, CLOSED)
    if direction != "replace":
        parts = tuple(map(_as_step, steps))
        found = found.with_upper(renyi_epsilon(parts, delta), RENYI)
        lower, upper = grid_epsilon(parts, direction, delta)
        found = found.with_lower(lower, GRID).with_upper(upper, GRID)
    return found


def _unsampled(steps: Steps, direction: Direction) -> bool:
    """Whether the steps are one Gaussian mechanism, whatever their noise and number."""
    return all(step.sampling_rate == 1.0 for step in steps) and unsampled_mu(steps, direction) <= _MAX_SHIFT


def _closed(step: SampledGaussian) -> bool:
    return NOISE[0] <= step.noise_multiplier <= NOISE[1] and RATE[0] <= step.sampling_rate < 1.0


def _as_step(step: SampledGaussian) -> Step:
    return Step(noise_multiplier=step.noise_multiplier, sampling_rate=step.sampling_rate, count=step.count)


def on_line(steps: Steps) -> bool:
    """Whether the integral on the saddle line is asked."""
    return sum(step.count for step in steps) <= _LINE_STEPS and all(
        _LINE_NOISE[0] <= step.noise_multiplier <= _LINE_NOISE[1] and step.sampling_rate >= _LINE_RATE for step in steps
    )


@functools.lru_cache(maxsize=64)
def bins(steps: Steps, *, upper: bool) -> Steps:
    """At most ``MOST_KINDS`` kinds: each step with no more noise and no lower rate than it has, or the other way round."""
    found, width = steps, 1e-3
    while len(found) > MOST_KINDS:
        groups: dict[tuple[int, int], list[SampledGaussian]] = {}
        for step in steps:
            key = math.floor(math.log(step.noise_multiplier) / width), math.floor(math.log(step.sampling_rate) / width)
            groups.setdefault(key, []).append(step)
        one, other = (min, max) if upper else (max, min)
        found = tuple(
            SampledGaussian(
                noise_multiplier=one(step.noise_multiplier for step in group),
                sampling_rate=other(step.sampling_rate for step in group),
                count=sum(step.count for step in group),
            )
            for group in groups.values()
        )
        width *= 2
    return found


def unsampled_mu(steps: Steps, direction: Direction) -> float:
    """mu of the Gaussian mechanism that reveals every record in every step."""
    size = 2.0 if direction == "replace" else 1.0
    return size * math.sqrt(math.fsum(step.count / step.noise_multiplier / step.noise_multiplier for step in steps))


def _unsampled_delta(steps: Steps, direction: Direction, epsilon: float) -> float:
    mu = unsampled_mu(steps, direction)
    return gaussian_delta(mu, epsilon) if mu <= _MAX_SHIFT else 1.0
