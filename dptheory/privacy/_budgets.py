"""The least noise, and the most steps that a privacy budget allows for, each from a bracket that holds."""

import math
from collections.abc import Callable
from typing import Any

import scipy

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy import epsilon as methods
from dptheory.privacy._bounds import MAX_STEPS, NOISE
from dptheory.privacy._composition import Composition, alike_steps, directions_of, valid_delta
from dptheory.privacy._noise_scale import (
    GAP,
    NoNoiseError,
    about_poisson,
    first_that_fits,
    least_scale,
    quick_delta,
    root,
)
from dptheory.privacy._parts import RandomAllocation, Step, plain, values_of
from dptheory.privacy.methods._closed_forms import gaussian_mu
from dptheory.privacy.methods.saddle._brackets import about_log_delta
from dptheory.privacy.methods.saddle._certified import certified_epsilon

_BEYOND = (
    "; the range of this function ends there, not the budget: "
    "Composition([Step(noise_multiplier=1.0, sampling_rate=..., count=...)]).noise_scale(epsilon=..., delta=...) answers to 1e15"
)


def least_noise_multiplier(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    true_positive_rate: float | None = None,
    false_positive_rate: float | None = None,
    sampling_rate: float | None = None,
    steps: int,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    steps_per_epoch: int | None = None,
    participations: int | None = None,
    direction: str = "worst",
    certified: bool = False,
) -> float:
    """The least noise multiplier that keeps a budget of epsilon, or of what an attacker can do, to 1e-6 relative.

    ``epsilon_bounds(...).upper`` is at most ``epsilon`` at the returned sigma; or the upper bound of the advantage, or of the true
    positive rate, of any attack on one record is at most what is asked for (:meth:`Composition.attack` gives them). Where the
    bounds are wide (:func:`epsilon_bounds` says where) sigma is safe, but may be larger than needed; for other than Poisson
    sampling it is found to 0.1 %, and for a true positive rate to 0.01 %.

    Args:
        epsilon: > 0; with ``delta``. One of ``epsilon``, ``advantage`` and ``true_positive_rate`` is given.
        advantage: in (0, 1): true positive rate less false positive rate of any attack, at most.
        true_positive_rate: in (0, 1), above ``false_positive_rate``: share of the records in the data that any attack finds, at most.
        false_positive_rate: with ``true_positive_rate``: share of the other records that the attack accuses, in (0, 1).
        delta, sampling_rate, steps, adjacency, sampling, steps_per_epoch, participations, direction, certified: as for
            :func:`epsilon_bounds`; attacks are of the worst direction.

    Returns:
        sigma in [0.05, 1000]; 0.05 where less would do. :meth:`Composition.noise_scale` of one step with noise 1 answers from 1e-15
        to 1e15.

    Raises:
        ValueError: an argument outside its range, or sigma = 1000 is not enough.

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, Tables 5-9 (rf.sigmas); GEP, section 4 (gep.best_over_k).

    Example: ten steps on all records at epsilon 1; a tenth of the steps asks for sqrt(10) times less noise.
        >>> from dptheory.privacy import least_noise_multiplier
        >>> [round(least_noise_multiplier(epsilon=1.0, delta=1e-5, sampling_rate=1.0, steps=steps), 1) for steps in (10, 1)]
        [11.8, 3.7]

        One release of which no attack has an advantage above 0.1: by hand, 2 Phi(1 / (2 sigma)) - 1 = 0.1.
        >>> round(least_noise_multiplier(advantage=0.1, sampling_rate=1.0, steps=1), 3)
        3.979
    """
    certified = _validate.flag("certified", certified)
    law: dict[str, Any] = {"steps_per_epoch": steps_per_epoch, "participations": participations}
    run = alike_steps(1.0, sampling_rate, steps, adjacency=adjacency, sampling=sampling, **law)
    rates = {"true_positive_rate": true_positive_rate, "false_positive_rate": false_positive_rate}
    if advantage is not None or any(rate is not None for rate in rates.values()):
        for name, value in {"epsilon": epsilon, "delta": delta}.items():
            if value is not None:
                raise ArgumentError(name, "be left out with a budget of what an attacker can do", value)
        if directions_of(run, direction) != directions_of(run, "worst"):
            raise ArgumentError("direction", "be 'worst' with a budget of what an attacker can do", direction)
        return _noise_against(run, advantage, rates, certified)
    if epsilon is None or delta is None:
        raise ArgumentError(
            "epsilon" if epsilon is None else "delta", "be given, or advantage, or true_positive_rate", None
        )
    budget = _validate.real("epsilon", epsilon, 0.0, ends="()")
    directions, delta = directions_of(run, direction), valid_delta(delta)
    try:
        return least_scale(run.parts, directions, epsilon=budget, delta=delta, certified=certified, noises=NOISE)
    except NoNoiseError:
        raise ArgumentError(
            "epsilon",
            f"be larger, or delta, or steps fewer: sigma = {NOISE[1]:g} is not enough",
            budget,
            then=_BEYOND if sampling == "poisson" else "",
        ) from None


_RATE_GAP = 1e-4
"""Relative, of the noise that a true positive rate asks for: each of its bounds takes dozens of deltas."""


def _noise_against(run: Composition, advantage: float | None, rates: dict[str, float | None], certified: bool) -> float:
    """The least noise at which no attack has a larger advantage, or true positive rate, than is asked for."""
    if advantage is not None:
        for name, value in rates.items():
            if value is not None:
                raise ArgumentError(name, "be left out with advantage", value)
        most, of = _validate.real("advantage", advantage, 0.0, 1.0, ends="()"), None
        mu = -2 * float(scipy.special.ndtri((1 - most) / 2))
    else:
        for name, value in rates.items():
            if value is None:
                raise ArgumentError(name, "be given with the other rate", None)
        of = _validate.real("false_positive_rate", rates["false_positive_rate"], 0.0, 1.0, ends="()")
        most = _validate.real("true_positive_rate", rates["true_positive_rate"], of, 1.0, ends="()")
        mu = float(scipy.special.ndtri(most) - scipy.special.ndtri(of))

    def excess(log_noise: float, certified: bool = False) -> float:
        noisy = run.scaled(math.exp(log_noise))
        by_rate = None if of is None else noisy.tradeoff(of, certified=certified).lower
        found = noisy.advantage(certified=certified).upper if by_rate is None else 1.0 - by_rate
        return math.log(found / most) if found > 0.0 else -math.inf

    low, high = map(math.log, NOISE)
    if excess(high) > 0.0:
        raise ArgumentError(
            "advantage" if of is None else "true_positive_rate",
            f"be larger, or steps fewer: sigma = {NOISE[1]:g} is not enough",
            most,
        )
    # a guess: as if the record took part in a mean number of steps, and they were known
    values = about_poisson(run.parts)
    taken = max(math.fsum(step.sampling_rate * step.count for step in values), 1e-3)
    found = math.exp(
        root(excess, min(max(math.log(math.sqrt(taken) / mu), low), high), low, high, GAP if of is None else _RATE_GAP)
    )
    fitting = first_that_fits(max(found, NOISE[0]), NOISE[1], lambda noise: excess(math.log(noise), certified) <= 0.0)
    assert fitting is not None or certified
    if fitting is None:
        raise ArgumentError("certified", "be False here: no enclosure keeps the budget", True)
    return fitting


def max_steps(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    sampling_rate: float | None = None,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    steps_per_epoch: int | None = None,
    participations: int | None = None,
    direction: str = "worst",
    certified: bool = False,
) -> int:
    """The most steps whose upper bound of epsilon fits the budget.

    ``epsilon_bounds(...).upper`` is at most ``epsilon`` at the returned number of steps, and above it at one step more.

    Args:
        epsilon: > 0.
        delta, noise_multiplier, sampling_rate, adjacency, sampling, steps_per_epoch, participations, direction, certified: as for
            :func:`epsilon_bounds`.

    Returns:
        0 where not even one step fits; at most 10^6, the largest number that is accounted for.

    Source: GIP, Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, section 4 (rf.sigmas).

    Example: by hand: epsilon 1 asks for 3.731 in one step, so that 20 suffice for (20 / 3.731)^2 = 28.7.
        >>> from dptheory.privacy import max_steps
        >>> max_steps(epsilon=1.0, delta=1e-5, noise_multiplier=20.0, sampling_rate=1.0)
        28
    """
    budget = _validate.real("epsilon", epsilon, 0.0, ends="()")
    certified = _validate.flag("certified", certified)
    law: dict[str, Any] = {"steps_per_epoch": steps_per_epoch, "participations": participations}

    def run(count: int) -> Composition:
        return alike_steps(noise_multiplier, sampling_rate, count, adjacency=adjacency, sampling=sampling, **law)

    one = run(1)
    directions, delta = directions_of(one, direction), valid_delta(delta)
    poisson = isinstance(one.parts[0], Step)

    def excess(count: int) -> float:
        """Above 0 where the run breaks the budget: of delta at the budget's epsilon, or of epsilon where only that is bounded."""
        if not poisson:
            return math.log(max(methods.upper_epsilon(plain(run(count).parts), directions, delta), 1e-300)) - math.log(
                budget
            )
        found = quick_delta(values_of(run(count).parts, hidden=False), directions, budget)
        if found > delta:
            found = methods.delta_of(run(count).parts, directions, budget).upper
        return math.log(max(found, 1e-320)) - math.log(delta)

    def rough(count: int) -> float:
        return about_log_delta(about_poisson(run(count).parts), budget, directions[0]) - math.log(delta)

    def upper(count: int) -> float:
        parts = plain(run(count).parts)
        return (
            certified_epsilon(parts, directions, delta).upper
            if certified
            else methods.upper_epsilon(parts, directions, delta)
        )

    # epochs first: each number of steps of an epoch that is cut short has a law of its own, which takes long
    unit = one.parts[0].steps_per_epoch if isinstance(one.parts[0], RandomAllocation) else 1
    count = _most(lambda x: rough(x * unit), lambda x: excess(x * unit), MAX_STEPS // unit)
    while count > 0 and upper(count * unit) > budget:
        count -= 1  # rounding, or an enclosure that is wider
    fits, breaks = count * unit, min((count + 1) * unit, MAX_STEPS + 1)
    while breaks - fits > 1:
        middle = (fits + breaks) // 2
        fits, breaks = (middle, breaks) if upper(middle) <= budget else (fits, middle)
    return fits


def _most(rough: Callable[[int], float], excess: Callable[[int], float], most: int) -> int:
    """The largest number up to ``most`` at which a rising function is at most 0; ``rough``: about that function, cheap."""

    def guess(x: float) -> float:
        return rough(round(math.exp(-x)))

    low = -math.log(most)
    start = low if rough(most) <= 0.0 else root(guess, -0.5 * math.log(most), low, 0.0, 1e-3)
    count = round(math.exp(-start))
    if excess(count) > 0.0:
        if count == 1 or excess(1) > 0.0:
            return 0
        count = round(math.exp(-root(lambda x: excess(round(math.exp(-x))), start, low, 0.0, 0.5 / count)))
    step = 1
    while step > 0:  # doubled while it fits, then halved
        fits = count + step <= most and excess(count + step) <= 0.0
        count, step = (count + step, 2 * step) if fits else (count, step // 2)
    return count


# --- The least noise of a training that comes after releases of the same records


_LEAST_LEFT = 0.01
"""Of the squared mu of the budget: what is taken to be left for a first guess."""


def least_noise_beside(*, spent: Composition, epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """The least noise multiplier of a training that keeps a budget together with what the same records spent before.

    ``Composition([*spent.parts, Step(...)]).epsilon(delta).upper`` is at most ``epsilon`` at the returned sigma, which is the
    least one to 1e-6 relative where :meth:`Composition.epsilon` is narrow, and safe, but larger, where it is not.

    Args:
        spent: releases made before: sums or counts with noise, an earlier training.
        epsilon, delta: the budget of both, as for :func:`least_noise_multiplier`.
        sampling_rate: of the training to come, in [1e-9, 1].
        steps: of the training to come, 1..1e6.

    Returns:
        sigma in [0.05, 1000]; 0.05 where less would do.

    Raises:
        ValueError: an argument outside its range, or a budget that is spent, or that sigma = 1000 does not keep.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: by hand: of four releases of noise 4 two are made, mu^2 = 2/16 of the budget's 4/16; two steps at noise 4 are left.
        >>> from dptheory.privacy import Composition, Step, gaussian_epsilon, least_noise_beside
        >>> made = Composition([Step(noise_multiplier=4.0, sampling_rate=1.0, count=2)])
        >>> round(least_noise_beside(spent=made, epsilon=gaussian_epsilon(0.5, 1e-5), delta=1e-5, sampling_rate=1.0, steps=2), 4)
        4.0
    """
    _validate.instance("spent", spent, Composition)
    alone = least_noise_multiplier(
        epsilon=epsilon, delta=delta, adjacency=spent.adjacency, sampling_rate=sampling_rate, steps=steps
    )
    before, budget = spent.epsilon(delta).upper, float(epsilon)
    if before >= budget:
        raise ArgumentError("epsilon", f"be more than the {before:.6g} that spent took at this delta", epsilon)
    least, most = NOISE

    def excess(log_noise: float) -> float:
        more = Step(noise_multiplier=math.exp(log_noise), sampling_rate=sampling_rate, count=steps)
        found = Composition((*spent.parts, more), adjacency=spent.adjacency).epsilon(delta).upper
        return math.log(found / budget) if found > 0.0 else -math.inf

    if excess(math.log(most)) > 0.0:
        raise ArgumentError(
            "epsilon", f"be larger, or delta, or steps fewer: sigma = {most:g} is not enough beside spent", epsilon
        )
    taken = gaussian_mu(before, delta) if before > 0.0 else 0.0
    left = 1.0 - (taken / gaussian_mu(budget, delta)) ** 2
    guess = min(most, alone / math.sqrt(max(left, _LEAST_LEFT)))
    log_found = root(excess, math.log(guess), math.log(alone), math.log(most))
    found = alone if log_found <= math.log(alone) else math.exp(log_found)
    fitting = first_that_fits(max(found, least), most, lambda noise: excess(math.log(noise)) <= 0.0)
    assert fitting is not None  # the largest does
    return fitting
