"""What was spent, as a composition."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dptheory.errors import ArgumentError
from dptheory.privacy import Composition, JointStep, MaskedStep, Step
from dptheory.training.mechanisms import StepCost

_LEAST_NOISE, _MOST_NOISE, _LEAST_RATE = 1e-15, 1e15, 1e-12
"""Of the steps of a composition: less noise is as good as none; more, or a lower rate, only costs less."""


def composition_of(
    spent: Mapping[StepCost, int], sampling_rate: float, releases: Sequence[Step] = ()
) -> Composition | None:
    """The steps as a composition, in an order that does not depend on theirs, after what else was released; None without any.

    Args:
        spent: number of steps of each cost.
        sampling_rate: of the Poisson batches, in (0, 1].
        releases: Gaussian ones of the same records besides the steps.

    Raises:
        ValueError: steps of so little noise that nothing protects them.
    """
    rate = max(sampling_rate, _LEAST_RATE)
    parts = [part for cost, count in spent.items() if (part := _part(cost, count, rate)) is not None]
    whole = (*releases, *sorted(parts, key=repr))
    return Composition(whole) if whole else None


def composed_epsilon(
    spent: Mapping[StepCost, int], sampling_rate: float, delta: float, releases: Sequence[Step] = ()
) -> float:
    """Upper bound on epsilon of all steps by their composition, as if masks hid nothing; inf where nothing protects them.

    What masks hide, a composition bounds by Renyi curves alone, as the accountant does itself.

    Args:
        spent: number of steps of each cost.
        sampling_rate: of the Poisson batches, in (0, 1].
        delta: in [1e-30, 0.99].
        releases: Gaussian ones of the same records besides the steps.
    """
    if any(cost.noise_multiplier < _LEAST_NOISE for cost in spent):
        return math.inf
    open_steps: Counter[StepCost] = Counter()
    for cost, count in spent.items():
        open_steps[replace(cost, mask=None, seeded_mask=None)] += count
    found = composition_of(open_steps, sampling_rate, releases)
    return 0.0 if found is None else found.epsilon(delta).upper


def _part(cost: StepCost, count: int, rate: float) -> Step | JointStep | MaskedStep | None:
    if cost.noise_multiplier < _LEAST_NOISE:
        raise ArgumentError("noise_multiplier", f"be at least {_LEAST_NOISE:g}", cost.noise_multiplier)
    noise = min(cost.noise_multiplier, _MOST_NOISE)
    if cost.selection is not None:
        groups, law = cost.selection
        return JointStep(noise_multiplier=noise, sampling_rate=rate, mechanism=law, groups=groups, count=count)
    if math.isinf(cost.noise_multiplier):
        return None
    if cost.mask is not None:
        return MaskedStep(noise_multiplier=noise, sampling_rate=rate, mask=cost.mask, count=count)
    return Step(noise_multiplier=noise, sampling_rate=rate, count=count)
