"""A mechanism around another one: what it leaves to that one."""

from opacus import GradSampleModule

from dptheory.errors import ArgumentTypeError
from dptheory.training._streams import Stream
from dptheory.training.mechanisms._base import Contribution, Mechanism, Noise, Samples, StepCost, Tensors


class Around(Mechanism):
    """Does what another mechanism does; what derives from it changes some of that.

    Args:
        inner: the other one.
        public: what of this one is known to everybody, beside what is known of the other.

    Raises:
        ValueError: ``inner`` is no mechanism.
    """

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
