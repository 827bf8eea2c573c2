"""The least noise and the most steps that a privacy budget allows for, each from a bracket that holds."""

import math
from dataclasses import replace

from dptheory import _validate
from dptheory.privacy import _brackets
from dptheory.privacy._brackets import MAX_STEPS, NOISE, Mechanism, checked
from dptheory.privacy._crossing import crossing
from dptheory.privacy._gaussian import gaussian_mu
from dptheory.privacy._prv import MAX_CELLS, saddle_point

_SMALL_BUDGET = 0.01  # a budget so small asks for brackets that no grid gives: a search stops earlier
_FEW_CELLS = 2**18
_FINE = 1e-3  # width for the number of steps


def least_noise_multiplier(
    *,
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    tolerance: float = 1e-3,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    direction: str = "worst",
) -> float:
    """The least noise multiplier whose upper bound of epsilon fits the budget.

    At the returned sigma the upper bound of the bracket of width ``tolerance`` is at most ``epsilon``, at sigma / (1 + tolerance)
    it is not. The coarser bracket that :func:`epsilon_bounds` gives by default may end a little above the budget. For budgets
    below 0.01 the grid of the bracket is limited, so that a search takes seconds: sigma is then safe, but not the least.

    Args:
        epsilon: > 0.
        delta, sampling_rate, steps, adjacency, sampling, direction: as for :func:`epsilon_bounds`.
        tolerance: relative, in [1e-4, 0.1].

    Returns:
        sigma in [0.1, 1000]; 0.1 where less would do.

    Raises:
        ValueError: an argument outside its range, or sigma = 1000 is not enough.

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, Tables 5-9 (rf.sigmas).

    Example: ten steps on all records at epsilon 1; a tenth of the steps asks for sqrt(10) times less noise.
        >>> from dptheory.privacy import least_noise_multiplier
        >>> [round(least_noise_multiplier(epsilon=1.0, delta=1e-5, sampling_rate=1.0, steps=steps), 1) for steps in (10, 1)]
        [11.8, 3.7]
    """
    budget = _validate.real("epsilon", epsilon, 0.0, ends="()")
    tolerance = _validate.real("tolerance", tolerance, 1e-4, 0.1)
    asked = checked(1.0, sampling_rate, steps, delta, adjacency, sampling, direction)

    least, most = NOISE
    # Without subsampling this much noise would do.
    enough = 1.00001 * asked.shift * math.sqrt(asked.steps) / gaussian_mu(min(budget, 1e100), asked.delta)
    found = crossing(
        lambda sigma: _log_ratio(_rough(replace(asked, noise_multiplier=sigma)), budget),
        lambda sigma: _log_excess(replace(asked, noise_multiplier=sigma), tolerance, budget),
        min(most, max(1.01 * least, enough)),
        least,
        1 + tolerance,
    )
    last = replace(asked, noise_multiplier=most)
    if (
        found is None
        and _rough(last) <= max(budget, 1e-6)
        and _brackets.bracketed(last, tolerance * min(1.0, budget)).upper <= budget
    ):
        return most  # a budget so small that only the finest grid shows that it is kept
    if found is None:
        raise ValueError(
            f"epsilon must be larger, or delta, or steps fewer: sigma = {most:g} is not enough, got {budget!r}"
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
) -> int:
    """The most steps whose upper bound of epsilon fits the budget: one could afford at most 0.1 % more.

    For budgets below 0.01 the bracket is wider, as for :func:`least_noise_multiplier`: the number is then safe, but may be
    smaller.

    Args:
        epsilon: > 0.
        delta, noise_multiplier, sampling_rate, adjacency, sampling, direction: as for :func:`epsilon_bounds`.

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
    asked = checked(noise_multiplier, sampling_rate, 1, delta, adjacency, sampling, direction)

    found = crossing(
        lambda count: _log_ratio(_rough(replace(asked, steps=int(count))), budget),
        lambda count: _log_excess(replace(asked, steps=int(count)), _FINE, budget),
        1.0,
        float(MAX_STEPS),
        1 + _FINE,
        whole=True,
    )
    return 0 if found is None else int(found)


def _log_excess(asked: Mechanism, width: float, budget: float) -> float:
    wanted = width * min(1.0, budget)
    cells = MAX_CELLS if budget >= _SMALL_BUDGET else _FEW_CELLS
    rough = _rough(asked)
    # Far above the budget a bracket that is wide, and cheap, says so: its lower end is above the budget.
    enough = min(1.0, (rough - budget) / (4 * max(1.0, rough)))
    if enough > 2 * wanted:
        found = _brackets.bracketed(asked, enough, cells)
        if found.lower > budget:
            return _log_ratio(found.estimate, budget)
    return _log_ratio(_brackets.bracketed(asked, wanted, cells).upper, budget)


def _log_ratio(epsilon: float, budget: float) -> float:
    return math.log(max(epsilon, 1e-300)) - math.log(max(budget, 1e-300))


def _rough(asked: Mechanism) -> float:
    return saddle_point(asked.losses()[0], asked.steps, asked.delta).epsilon
