"""What is wrong with a loop of DP-SGD, from the gradients that it released: one finding for each usual mistake.

Signals hide in the noise, and what they are is not known here. So every test asks whether there is too little noise, or too much
of a canary, which stays true whatever the signals are: a Gaussian variable with a shift that does not depend on it is larger in
size than one without (Anderson). Chances are those of :data:`FALSE_ALARM` for each finding.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dptheory import _validate
from dptheory.privacy import Composition, Step
from dptheory.training.audits._findings import FALSE_ALARM, Finding
from dptheory.training.audits._released import Seen, Steps

Array = NDArray[np.float64]

_MEDIAN = float(stats.norm.ppf(0.75))
"""Of the size of a standard normal variable."""
_FEWEST = 16
"""Entries of which two tensors are compared."""
_PAIRS = 200
_OFTEN = 1.3
"""How much more often than stated records are drawn where that is taken for what is wrong, and not their length."""
_TINY = 1e-12
_APART = 4.0
"""Standard errors of a difference of two tensors' weights beyond which they differ."""
_MANY = 500
"""Entries of a tensor over all steps from which it is said to have its noise."""
_SLACK = 0.01
"""Of a claimed epsilon, absolute and relative: digits that are not printed, and what accountants differ by."""


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a loop of DP-SGD says of its steps.

    Attributes:
        noise_multiplier: sigma, the noise of the clipped sum over the clip, > 0.
        max_grad_norm: the clip C, > 0.
        sampling_rate: q, with which every record joins a batch, in (0, 1].
        batch_size: the constant by which the noisy sum is divided, mostly q times the number of records, > 0.

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


def diagnosis(
    steps: Steps,
    stated: Stated,
    found: Seen,
    coins: NDArray[np.bool_],
    *,
    records: int,
    epsilon: float,
    delta: float,
) -> tuple[Finding, ...]:
    """Every statement that the released gradients refute or leave standing, causes before what follows from them."""
    unit = stated.noise_multiplier * stated.max_grad_norm / stated.batch_size
    released = [{name: g.double().numpy().ravel() / unit for name, g in one.items()} for one in steps.gradients]
    noise, fresh = _noise(released), _fresh_noise(released)
    # noise that is there and comes again may be small in a tensor by chance
    again = [fresh] if not fresh.passed and any(one.name == "noise" and one.passed for one in noise) else []
    return (
        _account(stated, len(steps), epsilon, delta),
        *_batches(steps.rows, stated.sampling_rate, records),
        *again,
        *noise,
        _noise_of_steps(released),
        *([] if again else [fresh]),
        _noise_of_its_own(released),
        *_canaries(found, coins, stated.sampling_rate, steps.rows, records),
    )


def _account(stated: Stated, steps: int, epsilon: float, delta: float) -> Finding:
    spent = stated.composition(steps).epsilon(delta).lower
    statement = (
        "epsilon is at least what the stated settings spend in the steps that were seen: the account has all of them"
    )
    return Finding("account", statement, spent, epsilon, spent <= epsilon + _SLACK * (1.0 + epsilon))


def _batches(rows: Sequence[int], rate: float, records: int) -> list[Finding]:
    """Poisson batches seldom have one size; how many rows a record has does not matter."""
    if not any(rows) or rate == 1.0:
        return []
    most = float(stats.binom.pmf([math.floor((records + 1) * rate)], records, rate)[0])
    same = max(Counter(rows).values())
    chance = min(1.0, (records + 1) * float(stats.binom.sf(same - 1, len(rows), most)))
    statement = "every record joins a batch by a coin of its own, so that sizes vary: batches are no pass in order, nor shuffled"
    return [Finding("batches", statement, same / len(rows), most, chance >= FALSE_ALARM, chance)]


def _noise(released: Sequence[dict[str, Array]]) -> list[Finding]:
    """Of all entries, and of each tensor; first what says more: all, where no tensor has enough."""
    statement = (
        "noise of standard deviation sigma C / B is on every entry: none is missing, lacks C, or is divided by more"
    )
    names = list(released[0])
    entries = {name: np.concatenate([one[name] for one in released]) for name in names}
    each = [_enough(f"noise of {name}", statement, entries[name], len(names)) for name in names]
    whole = _enough("noise", statement, np.concatenate(list(entries.values())), 1)
    has_noise = any(one.passed and entries[name].size >= _MANY for one, name in zip(each, names, strict=True))
    return [*each, whole] if has_noise else [whole, *each]


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


def _canaries(found: Seen, coins: NDArray[np.bool_], rate: float, rows: Sequence[int], records: int) -> list[Finding]:
    """A canary in the data moves its own direction by at most q C / B a step, on the average; in each tensor by its share.

    Where they move it more, the rows that were seen tell why: batches that are multiples of a number have as many rows of a record,
    and batches that are too large are drawn too often. Where no rows were seen the squares tell: a canary that is drawn twice as often
    adds twice to them, one that is twice as long four times.
    """
    allowed = rate * max(float(found.size[:, coins].mean()), _TINY)
    moved, error = _moved(found.along.mean(axis=0), coins)
    chance = float(stats.norm.sf((moved - allowed) / error))
    held, excess = chance >= FALSE_ALARM, moved / allowed
    of_record = max(1, math.gcd(*rows) if len(set(rows)) > 1 else round(rows[0] / (rate * records)))
    if any(rows):
        often = sum(rows) / (of_record * len(rows) * rate * records)
    else:
        inside, outside = found.along[:, coins], found.along[:, ~coins]
        squares = float((inside**2).mean() - (outside**2).mean()) - 2.0 * float(outside.mean()) * moved
        often = excess / max(squares / moved, 1.0) if moved > 0 else 1.0
    too_often = often > _OFTEN
    tensors = _clip_of_tensors(found, coins, rate)
    whole = [
        Finding(
            "rows of a record",
            "a record is one row, or the mean over its rows, before it is clipped: its views do not count apart",
            of_record,
            1.0,
            held or of_record == 1,
            chance,
        ),
        Finding(
            "sampling rate of canaries",
            "a record joins a batch with the sampling rate: none is drawn more often",
            often * rate,
            rate,
            held or not too_often,
            chance,
        ),
        Finding(
            "weight of a canary",
            "the gradient of a record, not of a batch, is clipped to C, whole, and the divisor is B",
            excess / max(often, 1.0),
            1.0,
            held or too_often,
            chance,
        ),
    ]
    return [*(one for one, alone in tensors if alone), *whole, *(one for one, alone in tensors if not alone)]


def _clip_of_tensors(found: Seen, coins: NDArray[np.bool_], rate: float) -> list[tuple[Finding, bool]]:
    """Of each tensor, and whether it is heavier than another one beyond doubt: then it is what is wrong, not the clip of all."""
    statement = "the gradient of this tensor is multiplied by the record's clip factor, like all others"
    weights, errors = [], []
    for along, size in found.parts.values():
        allowed = rate * max(float(size[coins].mean()), _TINY)
        moved, error = _moved(along, coins)
        weights.append(moved / allowed)
        errors.append(error / allowed)
    result = []
    for name, weight, error in zip(found.parts, weights, errors, strict=True):
        chance = min(1.0, len(weights) * float(stats.norm.sf((weight - 1.0) / error)))
        alone = any(
            weight - one > _APART * math.hypot(error, other) for one, other in zip(weights, errors, strict=True)
        )
        result.append((Finding(f"clip of {name}", statement, weight, 1.0, chance >= FALSE_ALARM, chance), alone))
    return result


def _moved(along: Array, coins: NDArray[np.bool_]) -> tuple[float, float]:
    """How much farther the canaries inside are than those outside, and the standard error of that."""
    inside, outside = along[coins], along[~coins]
    error = float(np.sqrt(inside.var(ddof=1) / inside.size + outside.var(ddof=1) / outside.size))
    return float(inside.mean() - outside.mean()), max(error, 1e-300)


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
