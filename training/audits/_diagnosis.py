"""What is wrong with a loop of DP-SGD, from the gradients that it released: one finding for each usual mistake.

Signals hide in the noise, and what they are is not known here. So every test asks whether there is too little noise, or too much
of a canary, which stays true whatever the signals are: a Gaussian variable with a shift that does not depend on it is larger in
size than one without (Anderson). Chances are those of :data:`FALSE_ALARM` for each finding.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dptheory import _validate
from dptheory.privacy import Composition, Step
from dptheory.training.audits._findings import FALSE_ALARM, Finding
from dptheory.training.audits._released import Steps

Array = NDArray[np.float64]

_MEDIAN = float(stats.norm.ppf(0.75))
"""Of the size of a standard normal variable."""
_FEWEST = 16
"""Entries of which two tensors are compared."""
_PAIRS = 200


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a loop of DP-SGD says of its steps.

    Attributes:
        noise_multiplier: sigma, the noise of the clipped sum over the clip, > 0.
        max_grad_norm: the clip C, > 0.
        sampling_rate: q, with which every record joins a batch, in (0, 1].
        batch_size: the constant by which the noisy sum is divided, mostly q times the number of records, > 0.

    Raises:
        ValueError: a number outside its range.

    Example: the noise of a released entry.
        >>> from dptheory.training.audits import Stated
        >>> stated = Stated(noise_multiplier=2.0, max_grad_norm=1.0, sampling_rate=0.01, batch_size=50)
        >>> stated.noise_multiplier * stated.max_grad_norm / stated.batch_size
        0.04
    """

    noise_multiplier: float
    max_grad_norm: float
    sampling_rate: float
    batch_size: float

    def __post_init__(self) -> None:
        _validate.store(
            self,
            noise_multiplier=_validate.size("noise_multiplier", self.noise_multiplier, 1e-6, 1e6),
            max_grad_norm=_validate.size("max_grad_norm", self.max_grad_norm),
            sampling_rate=_validate.real("sampling_rate", self.sampling_rate, 0.0, 1.0, ends="(]"),
            batch_size=_validate.real("batch_size", self.batch_size, 0.0, 1e12, ends="(]"),
        )

    def composition(self, steps: int) -> Composition:
        """The run that was stated, as data."""
        one = Step(noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, count=steps)
        return Composition((one,))


def diagnosis(steps: Steps, stated: Stated, along: Array, coins: NDArray[np.bool_]) -> tuple[Finding, ...]:
    """Every statement that the released gradients refute or leave standing.

    Args:
        steps: what was released.
        stated: what the loop says of itself.
        along: released gradients along those of the canaries, in units of C / B, shape (steps, canaries).
        coins: which canaries were in.
    """
    unit = stated.noise_multiplier * stated.max_grad_norm / stated.batch_size
    released = [{name: g.double().numpy().ravel() / unit for name, g in one.items()} for one in steps.gradients]
    return (
        *_noise_of_tensors(released),
        _noise_of_steps(released),
        _fresh_noise(released),
        _noise_of_its_own(released),
        *_canaries(along, coins, stated.sampling_rate),
    )


def _noise_of_tensors(released: Sequence[dict[str, Array]]) -> list[Finding]:
    names = list(released[0])
    return [
        _enough(
            f"noise of {name}",
            "noise of standard deviation sigma C / B is added to every entry: none is missing, too small, or divided by more",
            np.concatenate([one[name] for one in released]),
            len(names),
        )
        for name in names
    ]


def _noise_of_steps(released: Sequence[dict[str, Array]]) -> Finding:
    """The step with the least noise; less in some than in others is what a divisor of the drawn batch makes."""
    each = [
        _enough(
            "noise of every step",
            "the divisor is one constant, and every step has its noise: neither follows the batch",
            np.concatenate(list(one.values())),
            len(released),
        )
        for one in released
    ]
    return min(each, key=lambda found: found.chance or 0.0)


def _fresh_noise(released: Sequence[dict[str, Array]]) -> Finding:
    whole = [np.concatenate(list(one.values())) for one in released]
    near = list(itertools.pairwise(range(len(whole))))
    first = [(0, i) for i in range(2, len(whole))]
    pairs = (near + first)[:_PAIRS]
    return _apart(
        "noise of one step and another",
        "noise is drawn afresh in every step: no seed is set again",
        [(whole[i], whole[j]) for i, j in pairs],
    )


def _noise_of_its_own(released: Sequence[dict[str, Array]]) -> Finding:
    pairs = []
    for one, other in itertools.combinations(list(released[0]), 2):
        shared = min(released[0][one].size, released[0][other].size)
        if shared >= _FEWEST or shared * len(released) >= 10 * _FEWEST:
            pairs.append(tuple(np.concatenate([step[name][:shared] for step in released]) for name in (one, other)))
    return _apart(
        "noise of one tensor and another",
        "every tensor has noise of its own",
        [(one, sign * other) for one, other in pairs for sign in (1.0, -1.0)][:_PAIRS],
    )


def _canaries(along: Array, coins: NDArray[np.bool_], rate: float) -> list[Finding]:
    """A canary in the data moves its own direction by at most q C / B a step, on the average."""
    inside, outside = along[:, coins], along[:, ~coins]
    means = inside.mean(axis=0), outside.mean(axis=0)
    moved = float(means[0].mean() - means[1].mean())
    error = float(np.sqrt(means[0].var(ddof=1) / means[0].size + means[1].var(ddof=1) / means[1].size))
    chance = float(stats.norm.sf((moved - rate) / max(error, 1e-300)))
    squares = float((inside**2).mean() - (outside**2).mean()) - 2.0 * float(outside.mean()) * moved
    weight = squares / moved if moved > 0 else 0.0
    long = weight > 1.2  # twice as often at weight 1, or as often at weight 2: the squares tell
    held = chance >= FALSE_ALARM
    return [
        Finding(
            "sampling rate of canaries",
            "a record joins a batch with the sampling rate: none is drawn more often",
            moved / max(weight, 1.0),
            rate,
            held or long,
            chance,
        ),
        Finding(
            "weight of a canary",
            "a record's gradient is clipped to C, whole, before it is summed, and the divisor is B",
            max(weight, moved / rate if long else 0.0),
            1.0,
            held or not long,
            chance,
        ),
    ]


def _enough(name: str, statement: str, entries: Array, among: int) -> Finding:
    """Of entries with noise of deviation 1 at most half are smaller than its median, whatever their shifts; exact."""
    small = int(np.sum(np.abs(entries) < _MEDIAN))
    chance = min(1.0, among * float(stats.binom.sf(small - 1, entries.size, 0.5)))
    return Finding(name, statement, float(np.median(np.abs(entries))) / _MEDIAN, 1.0, chance >= FALSE_ALARM, chance)


def _apart(name: str, statement: str, pairs: Sequence[tuple[Array, Array]]) -> Finding:
    """Given the one, the other has noise of its own: their difference is as large as that at least."""
    found = [_enough(name, statement, one - other, len(pairs)) for one, other in pairs]
    if not found:
        return Finding(name, statement, 1.0, 1.0, True)
    return min(found, key=lambda one: one.chance or 0.0)
