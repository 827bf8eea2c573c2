"""The least noise and the most steps that a privacy budget allows for, each from a bracket that holds."""

import math
from dataclasses import replace

from dptheory import _validate
from dptheory.privacy import _brackets
from dptheory.privacy._asked import Mechanism, checked
from dptheory.privacy._bounds import MAX_STEPS, NOISE
from dptheory.privacy._crossing import MARGIN, crossing, first_that_fits
from dptheory.privacy.methods.gaussian._gaussian import gaussian_mu
from dptheory.privacy.methods.saddle._brackets import (
    about_log_delta,
    chance,
    noise_bracket,
    step_losses,
)
from dptheory.privacy.methods.saddle._delta import closed_bounds, without_lines
from dptheory.privacy.methods.saddle._moments import Unresolved

_BEYOND = (
    "; the range of this function ends there, not the budget: "
    "Composition([Step(noise_multiplier=1.0, sampling_rate=..., count=...)]).noise_scale(epsilon=..., delta=...) answers to 1e15"
)
GAP = 1e-6
"""Relative: a noise multiplier smaller by this does not keep the budget."""
_ROUGH_GAP = 1e-3  # relative: for sampling without replacement, whose upper bound is far above epsilon


def least_noise_multiplier(
    *,
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    direction: str = "worst",
    certified: bool = False,
) -> float:
    """The least noise multiplier whose upper bound of epsilon fits the budget, to 1e-6 relative.

    ``epsilon_bounds(...).upper`` is at most ``epsilon`` at the returned sigma. Where the bounds are wide (:func:`epsilon_bounds`
    says where) sigma is safe, but may be larger than needed; for sampling without replacement it is found to 0.1 %.

    Args:
        epsilon: > 0.
        delta, sampling_rate, steps, adjacency, sampling, direction, certified: as for :func:`epsilon_bounds`.

    Returns:
        sigma in [0.05, 1000]; 0.05 where less would do. :meth:`Composition.noise_scale` of one step with noise 1 answers from 1e-15
        to 1e15.

    Raises:
        ValueError: an argument outside its range, or sigma = 1000 is not enough.

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, Tables 5-9 (rf.sigmas).

    Example: ten steps on all records at epsilon 1; a tenth of the steps asks for sqrt(10) times less noise.
        >>> from dptheory.privacy import least_noise_multiplier
        >>> [round(least_noise_multiplier(epsilon=1.0, delta=1e-5, sampling_rate=1.0, steps=steps), 1) for steps in (10, 1)]
        [11.8, 3.7]
    """
    budget = _validate.real("epsilon", epsilon, 0.0, ends="()")
    certified = _validate.flag("certified", certified)
    asked = checked(1.0, sampling_rate, steps, delta, adjacency, sampling, direction)

    def fits(sigma: float, *, enclosed: bool = False) -> bool:
        return _upper(replace(asked, noise_multiplier=sigma), enclosed) <= budget

    least, most = NOISE
    if _unsampled_noise(asked, budget) <= least or chance(asked.composition) <= asked.delta:
        return least
    quick = asked.sampling == "poisson" and not certified  # these bounds are not of ball arithmetic
    if quick and _quick_delta(replace(asked, noise_multiplier=least), budget) <= asked.delta:
        return least
    try:
        sigma = _about_noise(asked, budget) * (1 + MARGIN)
    except Unresolved:
        sigma = _searched_noise(asked, budget)
    sigma = min(max(sigma, least), most)
    found = first_that_fits(sigma, most, lambda noise: fits(noise) and (not certified or fits(noise, enclosed=True)))
    if found is None:
        raise ValueError(
            f"epsilon must be larger, or delta, or steps fewer: sigma = {most:g} is not enough, got {budget!r}"
            + (_BEYOND if asked.sampling == "poisson" else "")
        )
    return found


def max_steps(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    sampling_rate: float,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    direction: str = "worst",
    certified: bool = False,
) -> int:
    """The most steps whose upper bound of epsilon fits the budget.

    ``epsilon_bounds(...).upper`` is at most ``epsilon`` at the returned number of steps, and above it at one step more.

    Args:
        epsilon: > 0.
        delta, noise_multiplier, sampling_rate, adjacency, sampling, direction, certified: as for :func:`epsilon_bounds`.

    Returns:
        0 where not even one step fits; at most 10^6, the largest number that is accounted for.

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, section 4 (rf.sigmas).

    Example: by hand: epsilon 1 asks for 3.731 in one step, so that 20 suffice for (20 / 3.731)^2 = 28.7.
        >>> from dptheory.privacy import max_steps
        >>> max_steps(epsilon=1.0, delta=1e-5, noise_multiplier=20.0, sampling_rate=1.0)
        28
    """
    budget = _validate.real("epsilon", epsilon, 0.0, ends="()")
    certified = _validate.flag("certified", certified)
    asked = checked(noise_multiplier, sampling_rate, 1, delta, adjacency, sampling, direction)

    def excess(count: float) -> float:
        return _log_excess(replace(asked, steps=int(count)), budget)

    def rough(count: float) -> float:
        return _about_excess(replace(asked, steps=int(count)), budget)

    found = crossing(rough, excess, 1.0, float(MAX_STEPS), 1 + 1e-12, whole=True)
    count = 0 if found is None else int(found)
    while count > 0 and _upper(replace(asked, steps=count), certified) > budget:
        count -= 1  # rounding, or an enclosure that is wider
    return count


def _upper(asked: Mechanism, certified: bool = False) -> float:
    return _brackets.upper_bound(asked, certified)


def _about_noise(asked: Mechanism, budget: float) -> float:
    """The upper end of a narrow bracket of the least noise.

    Raises:
        Unresolved: there is none.
    """
    if asked.sampling != "poisson":
        raise Unresolved("the upper bound of epsilon is not that of the integral")
    return noise_bracket(asked.composition, epsilon=budget, delta=asked.delta, among=asked.directions)[1]


def _searched_noise(asked: Mechanism, budget: float) -> float:
    """About the least noise, by the bounds of epsilon."""
    least, most = NOISE
    found = crossing(
        lambda sigma: _about_excess(replace(asked, noise_multiplier=sigma), budget),
        lambda sigma: _log_excess(replace(asked, noise_multiplier=sigma), budget),
        min(most, max(1.01 * least, _unsampled_noise(asked, budget))),
        least,
        1 + (GAP / 2 if asked.sampling == "poisson" else _ROUGH_GAP),
    )
    return most if found is None else found


def _unsampled_noise(asked: Mechanism, budget: float) -> float:
    """Without subsampling this much noise would do."""
    return 1.00001 * asked.shift * math.sqrt(asked.steps) / gaussian_mu(min(budget, 1e100), asked.delta)


def _quick_delta(asked: Mechanism, budget: float) -> float:
    """Upper bound of delta at the budget's epsilon for Poisson batches that needs no line: a line takes seconds."""
    losses = [step_losses(asked.composition, direction) for direction in asked.directions]
    found = min(chance(asked.composition), max(closed_bounds(steps, budget)[1] for steps in losses))
    if found > asked.delta and asked.steps > 1 and asked.sampling_rate < 1.0:
        found = max(without_lines(steps, budget) for steps in losses)
    return found


def _log_excess(asked: Mechanism, budget: float) -> float:
    """Above 0 where the run breaks the budget: of delta at the budget's epsilon, or of epsilon where only that is bounded."""
    if asked.sampling == "poisson":
        found = _quick_delta(asked, budget)
        if found > asked.delta:
            found = _brackets.delta_bracketed(asked.run, budget).upper
        return math.log(max(found, 1e-320)) - math.log(asked.delta)
    return math.log(max(_upper(asked), 1e-300)) - math.log(budget)


def _about_excess(asked: Mechanism, budget: float) -> float:
    return about_log_delta(asked.composition, budget, asked.directions[0]) - math.log(asked.delta)
