"""What a mechanism is: per-sample gradients in, one released gradient out."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from opacus import GradSampleModule

from dptheory.joint_privacy import FreshMask
from dptheory.mallows import SubsetMallows

Tensors = list[torch.Tensor]
"""One tensor a parameter; per-sample gradients have the samples first: shape (n, *parameter.shape)."""

Noise = Callable[[torch.Tensor, float], torch.Tensor]
"""``noise(like, std)``: independent N(0, std^2) entries in the shape, type and device of ``like``."""


@dataclass(frozen=True)
class Contribution:
    """What a batch adds to a step.

    Attributes:
        total: sums over the samples, in the mechanism's own shapes; totals of parts of a batch add up.
        nonfinite: samples whose gradient held NaN or infinity and counted as zero.
    """

    total: Tensors
    nonfinite: int


@dataclass(frozen=True)
class StepCost:
    """What one step spends.

    Attributes:
        noise_multiplier: sigma of the Gaussian mechanism of sensitivity 1 that the step's noisy releases are together as
            private as; 0 where something leaves without noise, inf where nothing leaves.
        selection: the private choice of entries made beside, as (number of groups, law of one); None where there is none.
        mask: the fresh public mask, drawn after clipping, behind which the noisy sum leaves; None where there is none.
    """

    noise_multiplier: float
    selection: tuple[int, SubsetMallows] | None = None
    mask: FreshMask | None = None


class Mechanism(abc.ABC):
    """One algorithm. The optimizer calls, for every step, ``begin_step``, ``contribute`` once a physical batch, ``release``.

    A mechanism draws public randomness (masks) from its own generator, so that every process of a distributed run, seeded
    alike, has the same; and private randomness from the ``noise`` it is handed. In a distributed run every process calls
    ``release`` on the same totals, and what the first returns is used.
    """

    title: ClassVar[str]
    """As it stands in tables; one that breaks the privacy guarantee says NOT PRIVATE."""

    def attach(self, module: GradSampleModule) -> None:  # noqa: B027 -- most mechanisms need the gradients alone
        """Learn whose gradients will come; ``make_private`` calls it once."""

    def begin_step(self, params: Tensors) -> None:  # noqa: B027 -- most mechanisms have nothing to prepare
        """Prepare a step: refresh masks and subspaces. ``params`` are the trainable parameters."""

    def shared(self) -> Tensors:
        """What ``begin_step`` computed on the device and every process must have alike, to be overwritten in place."""
        return []

    @abc.abstractmethod
    def contribute(self, samples: Tensors, clip: float) -> Contribution:
        """Clip and sum per-sample gradients, in float32 or wider."""

    def release(self, total: Tensors, noise_multiplier: float, clip: float, noise: Noise) -> Tensors:
        """The noisy sum, one tensor a parameter. By default plain Gaussian noise of standard deviation sigma C."""
        return [t + noise(t, noise_multiplier * clip) for t in total]

    def end_step(self, released: Tensors, std: float) -> None:  # noqa: B027 -- likewise
        """Take note of what was released, before the division by the batch size; ``std`` is sigma C."""

    def cost(self, noise_multiplier: float) -> StepCost:
        """What a step costs at noise multiplier sigma; by default that of the Gaussian mechanism."""
        return StepCost(noise_multiplier)

    def state_dict(self) -> dict[str, Any]:
        """All that changes from step to step, to resume bit for bit."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        if state:
            raise ValueError(f"state must be empty for {self.title}, got the keys {sorted(state)}")
