"""How a rate moves over a run: sparsification rate, or share of entries kept."""

import operator
from dataclasses import dataclass, field
from typing import Any, Protocol

from dptheory import _validate, sparsification
from dptheory.errors import ArgumentTypeError

_MOST_STEPS = 10**15
_LEAST_RATE = 1e-100  # of which a quotient and its powers are finite


class Schedule(Protocol):
    """A value for every step, 0, 1, ...: any function of the step is one.

    Example: any function of the step will do.
        >>> from dptheory.training.mechanisms import RandomSparsification
        >>> mechanism = RandomSparsification(lambda step: 0.5 if step < 100 else 0.9, seed=0)
    """

    def __call__(self, step: int) -> float: ...


@dataclass(frozen=True)
class Checked:
    """A schedule that somebody else wrote, with every value checked; the first one at once.

    Args:
        name: of the argument, for errors.
        schedule: any function of the step.
        ends: which ends of 0..1 belong to the values, as in ``"[)"``.

    Raises:
        TypeError: ``schedule`` is not a function.
        ValueError: a value that is not a number in its range.

    Example: a schedule that leaves its range is refused at the step where it does.
        >>> from dptheory.training.mechanisms import Checked
        >>> rate = Checked("drop_rate", lambda step: step / 10)
        >>> rate(3)
        0.3
        >>> rate(11)
        Traceback (most recent call last):
            ...
        dptheory.errors.ArgumentError: drop_rate at step 11 must be a number in [0, 1], got 1.1
    """

    name: str
    schedule: Schedule
    ends: str = field(default="[]", kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.schedule):
            raise ArgumentTypeError(self.name, "be a schedule such as Constant(0.5)", self.schedule)
        self(0)

    def __call__(self, step: int) -> float:
        return _validate.real(f"{self.name} at step {step}", self.schedule(step), 0.0, 1.0, ends=self.ends)


@dataclass(frozen=True)
class Constant:
    """The same value at every step.

    Args:
        value: in [0, 1].

    Example: step 1000 has the value of every other step.
        >>> from dptheory.training.mechanisms import Constant
        >>> Constant(0.5)(1000)
        0.5
    """

    value: float

    def __post_init__(self) -> None:
        _validate.store(self, value=_validate.real("value", self.value, 0.0, 1.0))

    def __call__(self, step: int) -> float:
        return self.value


@dataclass(frozen=True, kw_only=True)
class GradualCooling:
    r"""The rate rises linearly, epoch by epoch, over E epochs and then stays: :math:`\min(1, e/(E-1)) r^\ast` in epoch e.

    Args:
        final_drop_rate: r*, in [0, 1].
        cooling_epochs: E, >= 2.
        steps_per_epoch: n, >= 1, whole or not; epoch e begins at step round(e n), so that a run of round(E n) steps ends in
            epoch E - 1. Poisson sampling at rate q has n = 1 / q, or steps of the run / epochs of the run.

    Source: RF, Algorithm 1 (rf.density); computed by :func:`dptheory.sparsification.freeze_rate`.

    Example: nothing is dropped in the first epoch, and the final rate is reached after the last of five.
        >>> from dptheory.training.mechanisms import GradualCooling
        >>> rate = GradualCooling(final_drop_rate=0.8, cooling_epochs=5, steps_per_epoch=10)
        >>> [round(rate(step), 3) for step in (0, 9, 10, 40, 1000)]
        [0.0, 0.0, 0.2, 0.8, 0.8]

    Five epochs of 1.5 steps are 8 steps, and the last of them has the final rate.
        >>> rate = GradualCooling(final_drop_rate=0.8, cooling_epochs=5, steps_per_epoch=1.5)
        >>> [round(rate(step), 3) for step in range(8)]
        [0.0, 0.0, 0.2, 0.4, 0.6, 0.6, 0.8, 0.8]
    """

    final_drop_rate: float
    cooling_epochs: int
    steps_per_epoch: float

    def __post_init__(self) -> None:
        sparsification.freeze_rate(epoch=0, final_drop_rate=self.final_drop_rate, cooling_epochs=self.cooling_epochs)
        _validate.store(
            self,
            final_drop_rate=_validate.real("final_drop_rate", self.final_drop_rate, 0.0, 1.0),
            cooling_epochs=_validate.integer("cooling_epochs", self.cooling_epochs, 2),
            steps_per_epoch=_whole_or_not(self.steps_per_epoch),
        )

    def __call__(self, step: int) -> float:
        return sparsification.freeze_rate(
            epoch=_epoch(step, self.steps_per_epoch),
            final_drop_rate=self.final_drop_rate,
            cooling_epochs=self.cooling_epochs,
        )


def _whole_or_not(steps_per_epoch: Any) -> float:
    """Whole numbers of any size; others of which steps can be counted in floats."""
    try:
        operator.index(steps_per_epoch)
    except TypeError:
        pass
    else:
        return _validate.integer("steps_per_epoch", steps_per_epoch, 1)
    return _validate.real("steps_per_epoch", steps_per_epoch, 1.0, _MOST_STEPS)


def _epoch(step: int, steps_per_epoch: float) -> int:
    """The epoch e, 0, 1, ..., that the step belongs to: round(e n) <= step < round((e + 1) n)."""
    if isinstance(steps_per_epoch, int):
        return step // steps_per_epoch
    guess = int(step / steps_per_epoch)
    return next(e for e in (guess + 1, guess, guess - 1) if round(e * steps_per_epoch) <= step)


@dataclass(frozen=True, kw_only=True)
class Linear:
    r"""From ``start`` at step 0 to ``end`` at step T - 1 in equal differences: :math:`a + (b - a)\min(1, t/(T - 1))`.

    Args:
        start, end: a and b, in [0, 1].
        steps: T, 2..1e15.

    Source: GIP, section 6, "Hyperparameters" (gip.fig3).

    Example: half-way from 1 to 0.1 the value is 0.55; after the last step it stays.
        >>> from dptheory.training.mechanisms import Linear
        >>> rate = Linear(start=1.0, end=0.1, steps=11)
        >>> [round(rate(step), 3) for step in (0, 5, 10, 11)]
        [1.0, 0.55, 0.1, 0.1]
    """

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        _validate.store(
            self,
            start=_validate.real("start", self.start, 0.0, 1.0),
            end=_validate.real("end", self.end, 0.0, 1.0),
            steps=_validate.integer("steps", self.steps, 2, _MOST_STEPS),
        )

    def __call__(self, step: int) -> float:
        return self.start + (self.end - self.start) * min(step / (self.steps - 1), 1.0)


@dataclass(frozen=True, kw_only=True)
class Exponential:
    r"""From ``start`` at step 0 to ``end`` at step T - 1 in equal ratios: :math:`a (b/a)^{\min(1, t/(T - 1))}`.

    Args:
        start, end: a and b, in [1e-100, 1].
        steps: T, 2..1e15.

    Source: GIP, section 6, "Hyperparameters" (gip.fig3).

    Example: half-way from 1 to 0.01 the value is 0.1; after the last step it stays.
        >>> from dptheory.training.mechanisms import Exponential
        >>> rate = Exponential(start=1.0, end=0.01, steps=11)
        >>> [round(rate(step), 3) for step in (0, 5, 10, 11)]
        [1.0, 0.1, 0.01, 0.01]
    """

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        _validate.store(
            self,
            start=_validate.real("start", self.start, _LEAST_RATE, 1.0),
            end=_validate.real("end", self.end, _LEAST_RATE, 1.0),
            steps=_validate.integer("steps", self.steps, 2, _MOST_STEPS),
        )

    def __call__(self, step: int) -> float:
        return float(self.start * (self.end / self.start) ** min(step / (self.steps - 1), 1.0))
