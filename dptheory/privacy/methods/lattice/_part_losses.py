"""Each part of a run as losses on a lattice, from above and from below: what one engine adds up, whatever the parts are."""

import functools
import math

import numpy as np
import scipy

from dptheory.privacy._bounds import MAX_STEPS, NOISE, Direction, Unresolved
from dptheory.privacy._parts import (
    BlackBox,
    IndexSteps,
    JointStep,
    LaplaceRelease,
    MaskedStep,
    Part,
    Parts,
    RandomAllocation,
    Step,
)
from dptheory.privacy.methods.lattice._atoms import composed_loss, joint_cells, masked_cells
from dptheory.privacy.methods.lattice._rising_loss import sampled_loss
from dptheory.privacy.methods.random_allocation._losses import EpochLoss, PartLoss, StepLoss, epoch_loss
from dptheory.privacy.methods.random_allocation._ratio import epoch_law
from dptheory.privacy.methods.random_allocation._total import LEFT_OUT, Total

_LEAST_NOISE = 0.2
"""Of epochs: with less the lattice has hundreds of octaves, and they give themselves away."""
_MOST_COUNTED = 8
_PER_OCTAVE_COUNTED = 64
"""Participations that are counted from below, and the points of their lattice: the bound from above is farther off than that."""
_FEWEST_CELLS, _MOST_CELLS, _ALL_CELLS = 2**12, 2**16, 2**18
"""Of the outputs of a step, and of all kinds together."""
_FINE = 2**12
_RELEASE_CELLS = 4096
_ROUNDING = 1e-13
"""Relative, of the probabilities of releases: a dozen roundings, and those of exp."""


@functools.lru_cache(maxsize=32)
def total_loss(parts: Parts, direction: Direction, about: float, above: bool) -> Total:
    """All parts for the bounds of one side; from below those that are not served are left out, as if they were not released.

    Raises:
        Unresolved: from above, a part is not served, or nothing has a loss.
    """
    budget = LEFT_OUT * about / max(sum(_steps(part) for part in parts), 1)
    found: list[tuple[PartLoss, int]] = []
    for part in _index_sets_together(parts):
        losses = _losses(part, direction, budget, above, len(parts)) if _counted(part) else None
        if losses is None and above:
            raise Unresolved("noise or counts that no lattice serves")
        found += losses or ()
    if not found:
        raise Unresolved("nothing with a loss")
    fine = any(isinstance(part, JointStep | IndexSteps | MaskedStep) for part in parts)
    return Total(tuple(found), about, _FINE) if fine else Total(tuple(found), about)


def _steps(part: Part) -> int:
    if isinstance(part, RandomAllocation):
        return part.steps * part.count
    return 1 if isinstance(part, IndexSteps) else part.count


def _index_sets_together(parts: Parts) -> Parts:
    """Index sets of one law as one part: each has a loss of its own."""
    alone = {part.mechanism: 0 for part in parts if isinstance(part, IndexSteps)}
    for part in parts:
        if isinstance(part, IndexSteps):
            alone[part.mechanism] += part.steps * part.groups
    together = tuple(IndexSteps(steps=count, mechanism=mechanism) for mechanism, count in alone.items())
    return (*(part for part in parts if not isinstance(part, IndexSteps)), *together)


def _counted(part: Part) -> bool:
    if isinstance(part, Step | JointStep | MaskedStep):
        return part.count <= MAX_STEPS and NOISE[0] / 2 <= part.noise_multiplier <= NOISE[1]
    return not isinstance(part, RandomAllocation) or (
        part.count <= MAX_STEPS and _LEAST_NOISE <= part.noise_multiplier <= NOISE[1]
    )


def _losses(
    part: Part, direction: Direction, budget: float, above: bool, kinds: int
) -> tuple[tuple[PartLoss, int], ...] | None:
    """The losses that one part adds, of each step at most ``budget`` of its probability left out; None where it has none."""
    cells = min(_MOST_CELLS, max(_FEWEST_CELLS, _ALL_CELLS // kinds))
    match part:
        case JointStep():
            joint, missing = joint_cells(part, direction, math.log(budget), above, kinds)
            return ((StepLoss(joint, budget + missing), part.count),)
        case MaskedStep() if not above:
            return ((StepLoss(masked_cells(part, direction, math.log(budget), cells), budget), part.count),)
        case Step() | MaskedStep():  # from above a mask hides nothing
            loss = sampled_loss(part.noise_multiplier, part.sampling_rate, direction)
            return ((StepLoss(loss.cells(math.log(budget), cells), budget), part.count),)
        case IndexSteps():
            return ((composed_loss(part.mechanism, part.steps, -math.log(budget)), 1),)
        case RandomAllocation():
            return _epochs(part, direction, budget, above)
        case BlackBox():  # but for what is revealed
            return ((_randomized_response(part.epsilon), part.count),) if part.epsilon > 0.0 else ()
        case LaplaceRelease():
            largest = 1.0 / part.noise_multiplier  # rounded towards more privacy it would hide all of a delta of 1e-16
            return ((_laplace(math.nextafter(largest, math.inf if above else 0.0)), part.count),)
    return None


def _epochs(
    part: RandomAllocation, direction: Direction, budget: float, above: bool
) -> tuple[tuple[PartLoss, int], ...] | None:
    shift, reach = 1.0 / part.noise_multiplier, _reach(budget)
    steps, k = part.steps, part.participations
    if k == 1:
        law = epoch_law(shift, steps, 1, reach)
        return ((epoch_loss(law, direction, steps / part.steps_per_epoch), part.count),)
    if above:  # an epoch that was cut short costs at most a whole one
        size, longer = divmod(part.steps_per_epoch, k)
        blocks = ((size + 1, longer), (size, k - longer))
        return tuple(
            (epoch_loss(epoch_law(shift, length, 1, reach), direction), number * part.count)
            for length, number in blocks
            if number > 0
        )
    if k > _MOST_COUNTED or steps < part.steps_per_epoch:
        return None
    law = epoch_law(shift, steps, k, reach, _PER_OCTAVE_COUNTED)
    return ((epoch_loss(law, direction), part.count),)


def _reach(budget: float) -> float:
    """Deviations beyond which an output has a probability of a few percent of the budget, in halves."""
    return math.ceil(-2.0 * float(scipy.special.ndtri_exp(math.log(budget) - 3.0))) / 2


def _randomized_response(epsilon: float) -> EpochLoss:
    """A bit that is told rightly with probability e^epsilon / (1 + e^epsilon): the losses -epsilon and epsilon."""
    first = np.array([1.0, math.exp(-epsilon)])[::-1] / (1.0 + math.exp(-epsilon))
    return EpochLoss(np.array([-epsilon, epsilon]), first, first, first[::-1], 0.0, _ROUNDING)


def _laplace(epsilon: float) -> EpochLoss:
    """Laplace noise of scale 1 / epsilon at 0 and at 1: an atom at each end of [-epsilon, epsilon], cells between.

    Between the means the loss of an output x is epsilon (1 - 2 x), and its density in the loss l goes as e^(l / 2). A cell of
    width w that is put on its ends so that both laws keep its probability has 1 / (1 + e^(-w / 2)) of it on the upper one; as
    one outcome it shows no more than its outputs do.
    """
    width = 2.0 * epsilon / _RELEASE_CELLS
    losses = np.linspace(-epsilon, epsilon, _RELEASE_CELLS + 1)
    # of the cell from losses[i] on: x from (1 - losses[i + 1] / epsilon) / 2 on
    cells = np.exp((losses[1:] - epsilon) / 2.0) * -math.expm1(-width / 2.0) / 2.0
    ends = math.exp(-epsilon) / 2.0, 0.5
    share = 1.0 / (1.0 + math.exp(-width / 2.0))
    masses = np.concatenate([(1.0 - share) * cells, [0.0]]) + np.concatenate([[0.0], share * cells])
    masses[[0, -1]] += ends
    first = np.concatenate([[ends[0]], cells, [ends[1]]])
    return EpochLoss(losses, masses, first, first[::-1], 0.0, _ROUNDING)
