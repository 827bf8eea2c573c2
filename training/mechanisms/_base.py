"""What a mechanism is: per-sample gradients in, one released gradient out."""

import abc
import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import torch
from opacus import GradSampleModule

from dptheory import _validate
from dptheory.errors import ArgumentError, ArgumentTypeError
from dptheory.privacy import FreshMask
from dptheory.pruning import SubsetMallows
from dptheory.training._streams import Stream
from dptheory.training.per_example import PerExampleGradients
from dptheory.training.per_example import Tensors as Tensors

Samples = PerExampleGradients | Tensors
"""Per-sample gradients of a batch: as the optimizer hands them, or as tensors with the samples first, (n, *parameter.shape)."""

Noise = Callable[[torch.Tensor, float], torch.Tensor]
"""``noise(like, std)``: independent N(0, std^2) entries in the shape, type and device of ``like``."""


def noised(total: Tensors, std: float, noise: Noise) -> Tensors:
    """The tensors with noise of one standard deviation on every entry.

    A call costs secure noise more than its numbers where tensors are small: it says ``in_one_draw``, and what is drawn for all
    together is cut into pieces, in float64 (see :func:`with_noise`). A generator gives each tensor the numbers that it always has,
    which are those of Opacus.
    """
    if not getattr(noise, "in_one_draw", False):
        return [t + noise(t, std) for t in total]
    if len({(t.dtype, t.device) for t in total}) != 1:
        return [with_noise(t, std, noise) for t in total]
    sizes = [t.numel() for t in total]
    drawn = torch.split(noise(total[0].new_empty(sum(sizes), dtype=torch.float64), std), sizes)
    return [(t + piece.view(t.shape)).to(t.dtype) for t, piece in zip(total, drawn, strict=True)]


def with_noise(value: torch.Tensor, std: float, noise: Noise) -> torch.Tensor:
    """The tensor with noise on every entry.

    Secure noise is added in float64, and the sum rounded once. Were the noise rounded first, the lowest bits of the sum would be those
    of the value wherever the noise is larger, and tell which data set it was.
    """
    return noised([value], std, noise)[0]


@dataclass(frozen=True)
class Contribution:
    """What a batch adds to a step.

    Attributes:
        total: sums over the samples, in the mechanism's own shapes; totals of parts of a batch add up.
        nonfinite: samples whose gradient held NaN or infinity and counted as zero.
        votes: sum over the samples of 1/2 where the clip left the gradient as it was, and of -1/2 where it was shortened; a zero
            gradient and one that is not finite have none, so that a row of zeros for no sample moves nothing. None where a rule
            changes all of them.

    Example: a sample that holds NaN adds nothing, and is counted.
        >>> import torch
        >>> from dptheory.training.mechanisms import DpSgd
        >>> DpSgd().contribute([torch.tensor([[0.3, 0.4], [float("nan"), 1.0]])], clip_norm=1.0)
        Contribution(total=[tensor([0.3000, 0.4000])], nonfinite=1, votes=0.5)
    """

    total: Tensors
    nonfinite: int
    votes: float | None = None


@dataclass(frozen=True)
class StepCost:
    """What one step spends.

    Attributes:
        noise_multiplier: sigma of the Gaussian mechanism of sensitivity 1 that the step's noisy releases are together as
            private as; 0 where something leaves without noise, inf where nothing leaves. In [0, inf].
        selection: the private choice of entries made beside, as (number of groups, law of one); None where there is none.
        mask: the fresh mask behind which the noisy sum leaves, which nobody can tell before it is used; None where there is
            none.
        seeded_mask: such a mask drawn from a seed. It amplifies nothing, but would in a secure run.

    Raises:
        ValueError: a noise multiplier outside its range.

    Example: two releases at once cost as much as one of multiplier (1/3^2 + 1/4^2)^(-1/2).
        >>> from dptheory.training.mechanisms import Constant, NoisyMagnitudeTopK
        >>> round(NoisyMagnitudeTopK(3.0, Constant(0.1)).cost(noise_multiplier=4.0).noise_multiplier, 6)
        2.4
    """

    noise_multiplier: float
    _: KW_ONLY
    selection: tuple[int, SubsetMallows] | None = None
    mask: FreshMask | None = None
    seeded_mask: FreshMask | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", _validate.real("noise_multiplier", self.noise_multiplier, 0.0))

    def seeded(self) -> "StepCost":
        """The cost of the same step in a seeded run: its mask does not amplify."""
        return dataclasses.replace(self, mask=None, seeded_mask=self.mask or self.seeded_mask)

    def secured(self) -> "StepCost":
        """The cost that the same step would have in a secure run."""
        return dataclasses.replace(self, mask=self.mask or self.seeded_mask, seeded_mask=None)


class Mechanism(abc.ABC):
    """One algorithm: what becomes of per-sample gradients in a step.

    The optimizer calls, for every step, ``begin_step``, ``contribute`` once per physical batch, ``release`` and ``end_step``.
    A batch may be abandoned: then ``begin_step`` comes again before ``end_step``, and must begin the same step anew.

    A mechanism draws its own randomness (masks) from a seed, so that every process of a distributed run, seeded alike, has the
    same; or, where its ``seed`` is None, from the operating system's generator, and then the first process's is handed to all
    (``shared``). Private randomness comes from the ``noise`` it is handed. In a distributed run every process calls ``release``
    on the same totals, and what the first returns is used.

    Example: an algorithm of one's own says what it sums up, and what a step costs.
        >>> import torch
        >>> from dptheory.training.mechanisms import Mechanism, StepCost, clipped_sum
        >>> class HalfClip(Mechanism):
        ...     title = "DP-SGD with half the clip and the whole noise"
        ...     def contribute(self, samples, clip_norm):
        ...         return clipped_sum(samples, clip_norm / 2)
        ...     def cost(self, noise_multiplier):
        ...         return StepCost(2 * noise_multiplier)  # noise sigma C on a sum of sensitivity C / 2
        >>> HalfClip().contribute([torch.tensor([[3.0, 4.0]])], clip_norm=1.0).total
        [tensor([0.3000, 0.4000])]
    """

    title: ClassVar[str]
    """As it stands in tables; one that breaks the privacy guarantee says NOT PRIVATE."""

    seeded: bool = False
    """Whether it draws masks or other randomness of its own from a seed."""

    public: tuple[str, ...] = ()
    """What its guarantee takes to be known to everybody, in words."""

    _belongs = False
    """To a run."""

    def belong(self, module: GradSampleModule) -> None:
        """:meth:`attach`, for one run alone; ``make_private`` calls it, and a mechanism that holds another one that of the other.

        Raises:
            ValueError: it belongs to a run already.
        """
        if self._belongs:
            raise ArgumentError(
                "mechanism",
                "be a new one for every run",
                self.title,
                got=f"that of an earlier run ({self.title}), which would go on where that run left it: build "
                "another one",
            )
        self.attach(module)
        self._belongs = True

    def leave(self) -> None:
        """Take :meth:`belong` back, where the run was refused before its first step."""
        self._belongs = False

    @property
    def mask_before_clipping(self) -> Tensors:
        """What gradients are multiplied by before they are clipped, in the step under way: a bool tensor a parameter, or none."""
        return []

    def streams(self) -> list[Stream]:
        """Its own random numbers: a run that takes a state over goes on with fresh ones."""
        return []

    def attach(self, module: GradSampleModule) -> None:  # noqa: B027 -- most mechanisms need the gradients alone
        """Called once by ``make_private``, with the wrapped module."""

    def check_clip(self, clip_norm: float) -> None:  # noqa: B027 -- most mechanisms take any
        """Raise a ValueError where the mechanism's own arguments do not go with the clip C; ``make_private`` calls it once."""

    def begin_step(self, params: Tensors) -> None:  # noqa: B027 -- most mechanisms have nothing to prepare
        """Prepare a step: refresh masks and subspaces. ``params`` are the trainable parameters."""

    def shared(self) -> Tensors:
        """What ``begin_step`` left and every process must have alike, to be overwritten by the first process's."""
        return []

    @abc.abstractmethod
    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        """Clip and sum per-sample gradients, in float32 or wider."""

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        """The noisy sum, one tensor per parameter; the optimizer divides it by the expected batch size, whatever its scale.

        By default plain Gaussian noise of standard deviation sigma C.
        """
        return noised(total, noise_multiplier * clip_norm, noise)

    def end_step(self, released: Tensors, std: float) -> None:  # noqa: B027 -- likewise
        """Take note of what was released, before the division by the batch size; ``std`` is sigma C."""

    def cost(self, noise_multiplier: float) -> StepCost:
        """What a step costs at noise multiplier sigma; by default that of the Gaussian mechanism."""
        return StepCost(noise_multiplier)

    def state_dict(self) -> dict[str, Any]:
        """All that changes from step to step; masks and other random numbers are drawn afresh instead, but in a simulation."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        if state:
            raise ArgumentError("state", f"be empty for {self.title}", state, got=f"the keys {sorted(state)}")


# --- A mechanism around another one: what it leaves to that one


class Around(Mechanism):
    """Does what another mechanism does; what derives from it changes some of that, and says in ``public`` what else is known."""

    def __init__(self, inner: Mechanism, *, public: str) -> None:
        if not isinstance(inner, Mechanism):
            raise ArgumentTypeError("inner", "be a mechanism", inner)
        self._inner = inner
        self.seeded = inner.seeded
        self.public = (*inner.public, public)

    def attach(self, module: GradSampleModule) -> None:
        """Tell the mechanism whose gradients it gets; ``make_private`` does it."""
        self._inner.belong(module)

    def leave(self) -> None:
        super().leave()
        self._inner.leave()

    @property
    def mask_before_clipping(self) -> Tensors:
        return self._inner.mask_before_clipping

    def streams(self) -> list[Stream]:
        return self._inner.streams()

    def check_clip(self, clip_norm: float) -> None:
        self._inner.check_clip(clip_norm)

    def begin_step(self, params: Tensors) -> None:
        self._inner.begin_step(params)

    def shared(self) -> Tensors:
        return self._inner.shared()

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        return self._inner.contribute(samples, clip_norm)

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        return self._inner.release(total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)

    def end_step(self, released: Tensors, std: float) -> None:
        self._inner.end_step(released, std)

    def cost(self, noise_multiplier: float) -> StepCost:
        return self._inner.cost(noise_multiplier)
