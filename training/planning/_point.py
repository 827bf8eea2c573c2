"""A choice of hyperparameters, and ranges of numbers."""

from dataclasses import dataclass
from typing import Literal

# --- Ranges of numbers


@dataclass(frozen=True)
class Range:
    """A closed range of numbers.

    Attributes:
        low: its lower end.
        high: its upper end.
    """

    low: float
    high: float


Schedule = Literal["constant", "linear", "cosine"]
CONSTANT: Schedule = "constant"
LINEAR: Schedule = "linear"
COSINE: Schedule = "cosine"
SCHEDULES = (CONSTANT, LINEAR, COSINE)
AVERAGES = (0.0, 0.2, 0.5)
"""Shares of the steps, the last ones, whose weights a pilot averages: each pilot tries all of them, as none costs a step."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """What a run of DP-SGD is set to.

    Attributes:
        batch_size: B, the expected size of the Poisson batches.
        epochs: passes over the private records.
        steps: T.
        noise_multiplier: sigma; the noise on the sum of the clipped gradients has the standard deviation sigma C.
        clip_norm: C.
        learning_rate: of the first step.
        momentum: in [0, 1).
        schedule: "constant", "linear" or "cosine".
        average: share of the steps, the last ones, whose weights are averaged at the end; 0 for none.
    """

    batch_size: int
    epochs: float
    steps: int
    noise_multiplier: float
    clip_norm: float
    learning_rate: float
    momentum: float
    schedule: Schedule
    average: float

    @property
    def stride(self) -> float:
        """The longest way that one gradient, clipped to C, moves the weights in all: learning rate times C over 1 - momentum."""
        return self.learning_rate * self.clip_norm / (1.0 - self.momentum)
