"""How a rate moves over a run: sparsification rate, or share of entries kept."""

from dataclasses import dataclass
from typing import Protocol

from dptheory import _validate, schedules


class Schedule(Protocol):
    """A value for every step, 0, 1, ..."""

    def __call__(self, step: int) -> float: ...


@dataclass(frozen=True)
class Constant:
    """The same value at every step, in [0, 1]."""

    value: float

    def __post_init__(self) -> None:
        _validate.real("value", self.value, 0.0, 1.0)

    def __call__(self, step: int) -> float:
        return self.value


@dataclass(frozen=True)
class GradualCooling:
    """The sparsification rate rises linearly, epoch by epoch, to ``final_rate`` in epoch ``cooling_epochs`` - 1.

    Source: RF, Algorithm 1 (rf.density).
    """

    final_rate: float
    cooling_epochs: int
    steps_per_epoch: int

    def __post_init__(self) -> None:
        schedules.freeze_rate(0, self.final_rate, self.cooling_epochs)
        _validate.integer("steps_per_epoch", self.steps_per_epoch, 1)

    def __call__(self, step: int) -> float:
        return schedules.freeze_rate(step // self.steps_per_epoch, self.final_rate, self.cooling_epochs)


@dataclass(frozen=True)
class Linear:
    """From ``start`` at step 0 to ``end`` at step ``steps`` - 1 in equal differences, and ``end`` from then on."""

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        _validate.real("start", self.start, 0.0, 1.0)
        _validate.real("end", self.end, 0.0, 1.0)
        _validate.integer("steps", self.steps, 2)

    def __call__(self, step: int) -> float:
        return self.start + (self.end - self.start) * min(step / (self.steps - 1), 1.0)


@dataclass(frozen=True)
class Exponential:
    """From ``start`` at step 0 to ``end`` at step ``steps`` - 1 in equal ratios, and ``end`` from then on."""

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        _validate.real("start", self.start, 0.0, 1.0, ends="(]")
        _validate.real("end", self.end, 0.0, 1.0, ends="(]")
        _validate.integer("steps", self.steps, 2)

    def __call__(self, step: int) -> float:
        return float(self.start * (self.end / self.start) ** min(step / (self.steps - 1), 1.0))
