"""The least noise of a training that comes after releases of the same records."""

import math

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import NOISE
from dptheory.privacy._budgets import least_noise_multiplier
from dptheory.privacy._composition import Composition
from dptheory.privacy._crossing import first_that_fits
from dptheory.privacy._noise_scale import root
from dptheory.privacy._parts import Step
from dptheory.privacy.methods.gaussian._gaussian import gaussian_mu

_LEAST_LEFT = 0.01
"""Of the squared mu of the budget: what is taken to be left for a first guess."""


def least_noise_beside(*, spent: Composition, epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """The least noise multiplier of a training that keeps a budget together with what the same records spent before.

    ``Composition([*spent.parts, Step(...)]).epsilon(delta).upper`` is at most ``epsilon`` at the returned sigma, which is the
    least one to 1e-6 relative where :meth:`Composition.epsilon` is narrow, and safe, but larger, where it is not.

    Args:
        spent: releases made before: sums or counts with noise, an earlier training.
        epsilon: the budget of both, in (0, 1e4].
        delta: of the budget, in [1e-15, 0.1].
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
