"""Brackets of epsilon and delta of subsampled Gaussian steps: who gives them, and in which direction.

The integral on the saddle line gives nearly all of them (proofs/privacy/saddle_line.md). Where its bracket is wider than it
promises, the bracket of prv-accountant or dp-accounting and a closed form take over as far as they are narrower.
"""

import functools
import math
from contextlib import AbstractContextManager
from types import ModuleType

from dptheory.privacy._asked import Mechanism, Run
from dptheory.privacy._bounds import (
    CHANCE,
    EpsilonBounds,
    ProbabilityBounds,
)
from dptheory.privacy.methods._closed_forms import participation_epsilon
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.fixed_size._bounds import fixed_size_upper
from dptheory.privacy.methods.gaussian._gaussian import gaussian_epsilon
from dptheory.privacy.methods.references._pld import fixed_size_rdp_delta, fixed_size_rdp_epsilon, pld_bracket
from dptheory.privacy.methods.references._prv import prv_or_none
from dptheory.privacy.methods.renyi._sampled import sampled_renyi_epsilon
from dptheory.privacy.methods.saddle._ball_arithmetic import enclosures
from dptheory.privacy.methods.saddle._brackets import (
    chance,
    direction_delta,
    direction_epsilon,
)
from dptheory.privacy.methods.saddle._moments import Direction, Unresolved

_WITNESS_WIDTH = 0.005  # of prv-accountant's bracket, where the saddle line's is wider than it promises


@functools.lru_cache(maxsize=512)
def bracketed(asked: Mechanism, certified: bool = False) -> EpsilonBounds:
    if certified:
        with _enclosure(asked) as module:
            lower, upper = module.worst_epsilon(asked.composition, delta=asked.delta, among=asked.directions)
        return EpsilonBounds(lower=lower, estimate=(lower + upper) / 2, upper=upper, method="certified")
    if chance(asked.composition) <= asked.delta:
        return EpsilonBounds(lower=0.0, estimate=0.0, upper=0.0, method=CHANCE)
    if asked.sampling_rate == 1.0:
        exact = gaussian_epsilon(asked.shift * math.sqrt(asked.steps), asked.delta)
        return EpsilonBounds(lower=exact, estimate=exact, upper=exact, method="Gaussian")
    lower, upper, name = _worst_direction(asked)
    if asked.sampling == "without replacement" and asked.steps > 1:
        upper, other = _fixed_size_upper(asked)
        name = f"{name}, {other}"
    if lower > upper:
        raise ArithmeticError(f"lower bound {lower!r} above upper bound {upper!r}: please report {asked}")
    return EpsilonBounds(lower=lower, estimate=(lower + upper) / 2, upper=upper, method=name)


def upper_bound(asked: Mechanism, certified: bool = False) -> float:
    """The upper bound of :func:`bracketed`, without the lower one where that is another computation."""
    fixed_size = asked.sampling == "without replacement" and asked.sampling_rate < 1.0 and asked.steps > 1
    if fixed_size and not certified and chance(asked.composition) > asked.delta:
        return _fixed_size_upper(asked)[0]
    return bracketed(asked, certified).upper


def _fixed_size_upper(asked: Mechanism) -> tuple[float, str]:
    guard = participation_epsilon(asked.shift, asked.sampling_rate, asked.steps, asked.delta)
    found = fixed_size_upper(
        noise_multiplier=asked.noise_multiplier,
        sampling_rate=asked.sampling_rate,
        steps=asked.steps,
        delta=asked.delta,
    )
    return min(found, (guard, "participations"))


@functools.lru_cache(maxsize=512)
def delta_bracketed(asked: Run, epsilon: float, certified: bool = False) -> ProbabilityBounds:
    if certified:
        with _enclosure(asked) as module:
            lower, upper = module.worst_delta(asked.composition, epsilon=epsilon, among=asked.directions)
        return ProbabilityBounds(lower=lower, upper=upper, method="certified")
    name = "Gaussian" if asked.sampling_rate == 1.0 else "one step" if asked.steps == 1 else "saddle line"
    found = [_delta(asked, direction, epsilon) for direction in asked.directions]
    lower, upper = max(low for low, _ in found), max(high for _, high in found)
    if asked.sampling == "without replacement" and asked.sampling_rate < 1.0 and asked.steps > 1:
        upper, name = fixed_size_rdp_delta(_replaced(asked), asked.steps, epsilon), f"{name}, RDP"
    return ProbabilityBounds(lower=lower, upper=upper, method=name)


def _delta(asked: Run, direction: Direction, epsilon: float) -> tuple[float, float]:
    try:
        return direction_delta(asked.composition, epsilon=epsilon, direction=direction)
    except Unresolved as wide:
        return wide.lower, wide.upper


def _worst_direction(asked: Mechanism) -> tuple[float, float, str]:
    first, *others = asked.directions
    lower, upper, name = _bracket(first, asked)
    for direction in others:
        if _delta(asked, direction, lower)[1] > asked.delta:
            low, high, other = _bracket(direction, asked)
            if high > upper:
                name = other
            lower, upper = max(lower, low), max(upper, high)
    return lower, upper, name


def _bracket(direction: Direction, asked: Mechanism) -> tuple[float, float, str]:
    name = "one step" if asked.steps == 1 else "saddle line"
    try:
        return *direction_epsilon(asked.composition, delta=asked.delta, direction=direction), name
    except Unresolved as wide:
        lower, upper = wide.lower, wide.upper
    low, high, witness = _witness(asked.loss(direction), asked)
    below = witness if low > lower else name
    above = witness if high < upper else name
    return max(lower, low), min(upper, high), below if below == above else f"{below}, {above}"


def _witness(loss: Loss, asked: Mechanism) -> tuple[float, float, str]:
    """The bracket by another accountant, where the integral's is wide."""
    found, name = prv_or_none(loss, asked.steps, asked.delta, _WITNESS_WIDTH), "PRV"
    if found is None:
        lower, upper = pld_bracket(loss, asked.steps, asked.delta)
        # dp-accounting takes the larger of both directions: no lower bound of one alone.
        alone = loss.direction == "add" or (loss.direction == "remove" and asked.direction != "worst")
        found, name = (0.0 if alone else lower, upper), "PLD"
    guard = participation_epsilon(asked.shift, asked.sampling_rate, asked.steps, asked.delta)
    return (*found, name) if found[1] <= guard else (found[0], guard, "participations")


def renyi_bound(asked: Mechanism) -> float:
    if asked.sampling == "poisson":
        return sampled_renyi_epsilon(asked.loss(asked.directions[0]), asked.steps, asked.delta)
    return fixed_size_rdp_epsilon(_replaced(asked), asked.steps, asked.delta)


def _replaced(asked: Run) -> Loss:
    return Loss("replace", asked.noise_multiplier, asked.sampling_rate)


def _enclosure(asked: Run) -> AbstractContextManager[ModuleType]:
    """The module that computes in ball arithmetic; its refusals as errors that name the argument."""
    if asked.sampling != "poisson":
        raise ValueError(
            f"certified must be False for sampling {asked.sampling!r}, whose upper bound is not an enclosure"
        )
    return enclosures()
