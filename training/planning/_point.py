"""A choice of hyperparameters, ranges of numbers, and what people take without a plan: choices that did well on other data."""

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


@dataclass(frozen=True, kw_only=True)
class Usual:
    """A plain choice; its rate is constant and its passes are all that can be afforded.

    Attributes:
        batch_size: B, or a quarter of the records where that is less and ``quarter`` says so.
        clip_norm: C.
        stride: learning rate times C over 1 - momentum.
        momentum: of SGD.
        average: share of the steps, the last ones, whose weights are averaged.
        quarter: whether B is at most a quarter of the records.
    """

    batch_size: int
    clip_norm: float
    stride: float
    momentum: float = 0.0
    average: float = 0.0
    quarter: bool = False

    def size(self, num_examples: int) -> int:
        """The batch size for so many records."""
        return min(self.batch_size, num_examples // 4 if self.quarter else num_examples)


TUTORIAL = Usual(batch_size=512, clip_norm=1.0, stride=0.5)
DE_ET_AL = Usual(batch_size=4096, clip_norm=1.0, stride=2.0, average=0.5, quarter=True)
"""De et al. (2022): learning rate 2, weights averaged (there exponentially; here over the last half)."""
TRAMER_AND_BONEH = Usual(batch_size=512, clip_norm=0.1, stride=1.0, momentum=0.9)
"""Tramer and Boneh (2021): learning rate 1 for B 512."""
_MNIST, _FASHION_MNIST = (
    Usual(batch_size=batch, clip_norm=0.1, stride=batch / 512, momentum=0.9, quarter=True) for batch in (4096, 8192)
)
USUAL = {
    "a tutorial's": TUTORIAL,
    "De et al.'s": DE_ET_AL,
    "Tramer and Boneh's": TRAMER_AND_BONEH,
    "Tramer and Boneh's for MNIST": _MNIST,
    "Tramer and Boneh's for FashionMNIST": _FASHION_MNIST,
}
"""By whose they are."""
