"""Lower bounds on epsilon, by another library's privacy loss distributions: what an account must not fall short of."""

import functools
from collections import Counter
from collections.abc import Sequence

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from numpy.typing import NDArray
from scipy import optimize, stats

from dptheory.pruning import SubsetMallows

Array = NDArray[np.float64]

_FINE, _COARSE = 1e-3, 0.05
"""Intervals of losses, which are rounded down: of Gaussian steps, and of choices, whose epsilon is of the order of 100."""
_LEAST_CHANCE = 1e-300
"""Rarer outcomes are left out, which makes epsilon no larger."""


def gaussian(noise_multiplier: float, sampling_rate: float) -> pld.PrivacyLossDistribution:
    """Of one noisy sum of a Poisson batch, rounded down."""
    return pld.from_gaussian_mechanism(
        noise_multiplier,
        sampling_prob=sampling_rate,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=_FINE,
    )


@functools.lru_cache
def epsilon(
    noise_multiplier: float, sampling_rate: float, steps: int, delta: float, shares: tuple[float, ...] = ()
) -> float:
    """A lower bound on epsilon of so many steps.

    Where nobody can tell beforehand which share of the entries a step releases, an example of one entry is hit in each with that
    probability. Masks are public afterwards and tell nothing themselves, so delta(epsilon) is the mean of that of so many steps
    as hit it.
    """
    one = gaussian(noise_multiplier, sampling_rate)
    if all(share == 1.0 for share in shares):
        return float(one.self_compose(steps).get_epsilon_for_delta(delta))
    chances = functools.reduce(np.convolve, [np.array([1 - share, share]) for share in shares], np.ones(1))
    composed = [one.self_compose(hit) for hit in range(1, steps + 1)]

    def excess(bound: float) -> float:
        return float(chances[1:] @ [own.get_delta_for_epsilon(bound) for own in composed]) - delta

    return float(optimize.brentq(excess, 0.0, 1e3)) if excess(0.0) > 0 else 0.0


def of_choices(
    *, size: int, theta: float, groups: int, keeps: Sequence[int], sampling_rate: float, delta: float
) -> float:
    """A lower bound on epsilon of index sets alone, drawn by the Mallows model in ``groups`` of ``size``; one of ``keeps`` a step.

    One example turns the largest entries of every group into the smallest, as far as there are others: a sum whose entries are
    all but equal can be made so.
    """
    whole = None
    for keep, times in sorted(Counter(keeps).items()):
        part = _of_choice(size, keep, theta, groups, sampling_rate).self_compose(times)
        whole = part if whole is None else whole.compose(part)
    return 0.0 if whole is None else float(whole.get_epsilon_for_delta(delta))


def _of_choice(size: int, keep: int, theta: float, groups: int, rate: float) -> pld.PrivacyLossDistribution:
    chances = functools.reduce(np.convolve, [_differences(size, keep, theta)] * groups)
    edge = len(chances) // 2
    inside, without = {}, {}
    for place, (here, there) in enumerate(zip(chances, chances[::-1], strict=True)):
        if min(here, there) > _LEAST_CHANCE:  # with the example in the batch, and without it
            inside[place - edge] = float(np.log(rate * here + (1 - rate) * there))
            without[place - edge] = float(np.log(there))
    return pld.from_two_probability_mass_functions(
        without, inside, pessimistic_estimate=False, value_discretization_interval=_COARSE
    )


def _differences(size: int, keep: int, theta: float) -> Array:
    """Law of how many entries fewer an index set lacks of its own reference than of the other one, -s to s for s swaps at most.

    Own and other reference share as little as they can. Of i entries that have left the own one for the d - s others, some lie in
    the other one: hypergeometric. Where more than half of a group is kept, all this is said of what is not.
    """
    most = min(keep, size - keep)
    found = np.zeros(2 * most + 1)
    for swaps, chance in enumerate(SubsetMallows(size, keep, theta=theta).swap_pmf()):
        hits = np.arange(swaps + 1)
        found[2 * most - hits - swaps] += chance * stats.hypergeom.pmf(hits, size - most, most, swaps)
    return found
