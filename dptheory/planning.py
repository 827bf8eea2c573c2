"""What theory alone proposes for a training: batch size, passes and steps, each at the exact noise that a budget asks for.

This is not enough to train with: it says nothing of clip, learning rate or accuracy. ``dptheory.training.plan`` runs pilots of
one's own network, which decide.
"""

import itertools
import math
from dataclasses import dataclass

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy import DELTA, NOISE, RATE, least_noise_multiplier

__all__ = ["Candidate", "candidates"]
_RATES = tuple(2.0**-power for power in range(11))
_PASSES = (1.0, 1 / 2, 1 / 4, 1 / 8)
"""Of the most that can be afforded."""
_LEAST_BATCH = 16
_LEAST_EXAMPLES, _MOST_EXAMPLES = 50, 10**9
_MOST_EPOCHS = 1e9
_MOST_STEPS = 50_000


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A batch size and a number of passes, and what the budget asks for with them.

    Attributes:
        batch_size: expected size of the Poisson batches.
        epochs: passes over the records.
        steps: the number of updates in these passes, rounded.
        sampling_rate: batch size over number of records.
        noise_multiplier: the least that keeps the budget over these steps.
    """

    batch_size: int
    epochs: float
    steps: int
    sampling_rate: float
    noise_multiplier: float

    @property
    def noise_per_step(self) -> float:
        """Standard deviation of the noise on the mean gradient of a batch, per entry, in clips: sigma / B."""
        return self.noise_multiplier / self.batch_size


def candidates(
    *,
    num_examples: int,
    epsilon: float,
    delta: float,
    max_epochs: float,
    batch_size: int | None = None,
    epochs: float | None = None,
) -> tuple[Candidate, ...]:
    r"""What a budget allows: batch sizes and passes on a grid, each at its least noise.

    The grid has the sampling rates :math:`1, 1/2, \dots, 2^{-10}` (batches of 16 records or more) and 1, 1/2, 1/4 and 1/8 of the
    most passes that can be afforded. A choice whose passes do not hold one whole batch is left out, and so are more than 50,000
    steps and noise multipliers above 1000. Noise is for Poisson batches and neighbours that differ by one record, by
    :func:`dptheory.privacy.least_noise_multiplier`: its upper bound of epsilon keeps the budget, and is the least that does to
    1e-6 relative. A choice takes some 0.1 seconds, the whole grid three to seven; less
    than one pass over few records takes some seconds a choice.

    Theory alone cannot choose among them: which one trains best depends on the gradients, and so do clip and learning rate.

    Args:
        num_examples: number of training records, 50 to 1e9; taken as public.
        epsilon: the budget, > 0.
        delta: of the budget, in [1e-30, 0.99].
        max_epochs: most passes over the records that can be afforded, in (0, 1e9].
        batch_size: expected size of the batches, where it is fixed: at most ``num_examples``, at least 1e-8 of them.
        epochs: passes over the records, where they are fixed, in (0, ``max_epochs``].

    Returns:
        The choices: the largest batch first, of each batch size the most passes first.

    Raises:
        ValueError: an argument outside its range, no choice of one to 50,000 steps, or an epsilon that no choice keeps.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: by hand: one pass with all records in each batch is one step, whose noise has a closed form.
        >>> from dptheory.planning import candidates
        >>> from dptheory.privacy import gaussian_mu
        >>> (found,) = candidates(num_examples=500, epsilon=1.0, delta=1e-5, max_epochs=2, batch_size=500, epochs=1)
        >>> found.steps, found.sampling_rate, round(found.noise_multiplier, 4), round(1 / gaussian_mu(1.0, 1e-5), 4)
        (1, 1.0, 3.7306, 3.7306)
        >>> round(found.noise_per_step, 6)
        0.007461
    """
    count = _validate.integer("num_examples", num_examples, _LEAST_EXAMPLES, _MOST_EXAMPLES)
    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="()")
    delta = _validate.real("delta", delta, *DELTA)
    most = _validate.real("max_epochs", max_epochs, 0.0, _MOST_EPOCHS, ends="(]")
    batches = _batches(count) if batch_size is None else [_fixed_batch(batch_size, count)]
    passes = [share * most for share in _PASSES]
    if epochs is not None:
        passes = [_validate.real("epochs", epochs, 0.0, most, ends="(]")]
    sizes = [
        (batch, some, max(1, round(some * count / batch)))
        for batch, some in itertools.product(batches, passes)
        if 1.0 <= some * count / batch < _MOST_STEPS + 0.5
    ]
    if not sizes:
        name, value = ("max_epochs", most) if epochs is None else ("epochs", passes[0])
        raise ArgumentError(
            name,
            f"be such that the passes have 1 to {_MOST_STEPS} steps with batches of {batches[-1]} to {batches[0]}",
            value,
        )
    found = [(size, _noise(epsilon, delta, size[0] / count, size[2])) for size in sizes]
    kept = tuple(
        Candidate(
            batch_size=batch, epochs=some, steps=steps, sampling_rate=batch / count, noise_multiplier=noise_multiplier
        )
        for (batch, some, steps), noise_multiplier in found
        if noise_multiplier is not None
    )
    if not kept:
        raise ArgumentError(
            "epsilon",
            "be larger, or delta, or max_epochs smaller: no batch size and number of passes keeps it "
            f"with a noise multiplier of at most {NOISE[1]:g}",
            epsilon,
        )
    return kept


def _batches(count: int) -> list[int]:
    return sorted({max(_LEAST_BATCH, round(rate * count)) for rate in _RATES}, reverse=True)


def _fixed_batch(batch_size: int, count: int) -> int:
    return _validate.integer("batch_size", batch_size, math.ceil(RATE[0] * count), count)


def _noise(epsilon: float, delta: float, sampling_rate: float, steps: int) -> float | None:
    """The least noise multiplier; None where the largest that is accounted for does not keep the budget."""
    try:
        return least_noise_multiplier(epsilon=epsilon, delta=delta, sampling_rate=sampling_rate, steps=steps)
    except ValueError as error:
        if not str(error).startswith("epsilon must be larger"):  # anything else is an error of ours
            raise
        return None
