"""Random masks: before clipping (random sparsification) and after it (posterior freeze)."""

from dataclasses import replace
from typing import Any

import torch
from opacus import GradSampleModule

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy import FreshMask
from dptheory.training._randomness import subset
from dptheory.training._streams import MASKS, Stream, on_cpu, seed_stream
from dptheory.training.mechanisms._base import Contribution, Noise, Samples, StepCost, Tensors, noised
from dptheory.training.mechanisms._clipping import FLAT, Clipped, Clipping, clipped_sum
from dptheory.training.mechanisms._rates import Checked, Schedule
from dptheory.training.per_example import masked


def kept_entries(*, dim: int, drop_rate: float) -> int:
    """round((1 - drop_rate) d) of d entries.

    Raises:
        ValueError: a rate outside [0, 1), or one that keeps no entry.
    """
    keep = round((1.0 - _validate.real("drop_rate", drop_rate, 0.0, 1.0, ends="[)")) * dim)
    if keep == 0:
        raise ArgumentError(
            "drop_rate", f"keep at least one of the {dim} entries", drop_rate, then=f"; take at most {1 - 1 / dim:.6g}"
        )
    return keep


def draw_mask(params: Tensors, drop_rate: float, generator: torch.Generator | None) -> Tensors:
    """A mask over all parameters together, uniform among those that keep round((1 - drop_rate) d) of the d entries.

    Args:
        params: tensors whose shapes and devices the mask takes.
        drop_rate: share of entries dropped, in [0, 1).
        generator: of the CPU, so that every device gets the same mask; None for the operating system's.

    Returns:
        One bool tensor per parameter, in its shape; True where an entry is kept.

    Raises:
        ValueError: a rate outside its range, or one that keeps no entry.

    Source: RS, Algorithm 1; RF, Algorithm 1 (rs.alg1.divisor, rf.density).

    Example: of 24 entries of two tensors a quarter is kept.
        >>> import torch
        >>> from dptheory.training.mechanisms import draw_mask
        >>> weight, bias = draw_mask([torch.zeros(4, 5), torch.zeros(4)], 0.75, torch.Generator().manual_seed(0))
        >>> weight.shape, int(weight.sum() + bias.sum())
        (torch.Size([4, 5]), 6)
    """
    dim = sum(p.numel() for p in params)
    flat = subset(dim, kept_entries(dim=dim, drop_rate=drop_rate), generator)
    pieces = torch.split(flat, [p.numel() for p in params])
    return [piece.view(p.shape).to(p.device) for piece, p in zip(pieces, params, strict=True)]


class _Masked(Clipped):
    """What both share: a mask that is drawn afresh every ``refresh_steps`` steps; masked noise."""

    public = ("masks, once they are used",)

    def __init__(
        self, drop_rate: Schedule, seed: int | None, *, refresh_steps: int = 1, clipping: Clipping = FLAT
    ) -> None:
        super().__init__(clipping=clipping)
        self._drop_rate = Checked("drop_rate", drop_rate, ends="[)")
        self._refresh_steps = _validate.integer("refresh_steps", refresh_steps, 1)
        self._stream = seed_stream(seed, MASKS)
        self.seeded = seed is not None
        self._step = 0
        self.mask: Tensors = []
        """The mask of the step under way, one bool tensor per parameter."""

    def attach(self, module: GradSampleModule) -> None:
        """See that the first mask keeps an entry."""
        super().attach(module)
        kept_entries(
            dim=sum(p.numel() for p in module.parameters() if p.requires_grad), drop_rate=self._drop_rate(self._step)
        )

    def begin_step(self, params: Tensors) -> None:
        if self._step % self._refresh_steps == 0 or [m.shape for m in self.mask] != [p.shape for p in params]:
            self.mask = draw_mask(params, self._drop_rate(self._step), on_cpu(self._stream))

    def streams(self) -> list[Stream]:
        return [] if self._stream is None else [self._stream]

    def shared(self) -> Tensors:
        return self.mask

    def end_step(self, released: Tensors, std: float) -> None:
        self._step += 1

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        return masked(noised(total, noise_multiplier * clip_norm, noise), self.mask)

    def state_dict(self) -> dict[str, Any]:
        generator = None if self._stream is None else self._stream.state()
        return {"step": self._step} | ({} if generator is None else {"generator": generator, "mask": self.mask})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave; the next step draws a new mask, but in a simulation."""
        self._step = state["step"]
        self.mask = list(state["mask"]) if self._stream and self._stream.load(state.get("generator")) else []


class RandomSparsification(_Masked):
    r"""Drop a random share of the entries of every gradient, then clip, then add noise to the entries kept.

    Released is :math:`m\odot(\sum_i\mathrm{clip}_C(m\odot g_i) + \sigma C z)`, m uniform among the masks of
    round((1 - r) d) ones.

    Args:
        drop_rate: sparsification rate r over the steps, in [0, 1).
        seed: of the masks, the same in every process, 0 to 2^63 - 1; None for masks from the operating system's cryptographic
            generator, as a secure run wants them.
        refresh_steps: steps for which a mask is kept, >= 1; the steps of an epoch for one mask per epoch. The convergence bound
            holds for 1 only.
        clipping: the rule; what it clips is the masked gradient.

    Raises:
        TypeError: ``drop_rate`` is no schedule, or ``clipping`` no rule.
        ValueError: an argument outside its range; where it is attached or a step begins, a rate that keeps no entry.

    Source: RS, Algorithm 1; RF, Algorithm 1 (rs.alg1.divisor, rf.density).

    Example: each masked gradient has norm 1.41 and is clipped to 1, so that three add up to norm 3.
        >>> import torch
        >>> from dptheory.training.mechanisms import Constant, RandomSparsification
        >>> mechanism = RandomSparsification(Constant(0.75), 0)
        >>> mechanism.begin_step([torch.zeros(8)])
        >>> total = mechanism.contribute([torch.ones(3, 8)], clip_norm=1.0).total[0]
        >>> int((total != 0).sum()), round(float(total.norm()), 4)
        (2, 3.0)
    """

    title = "random sparsification"

    @property
    def mask_before_clipping(self) -> Tensors:
        return self.mask

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        return clipped_sum(samples, clip_norm, mask=self.mask, clipping=self._clipping)


class PosteriorFreeze(_Masked):
    r"""Clip, then drop a random share of the entries of sum and noise: :math:`m\odot(\sum_i\mathrm{clip}_C(g_i) + \sigma C z)`.

    With a fresh mask at every step (``refresh_steps`` 1) this is random-k pruning, and a mask that nobody can tell before it is
    used amplifies privacy: in a secure run. Whoever knows the seed of the masks can make an example for them, which each step
    protects as DP-SGD does and no better.

    Args:
        drop_rate, seed, refresh_steps: as for :class:`RandomSparsification`.
        clipping: the rule; it clips the whole gradient, before the mask.

    Raises:
        TypeError: ``drop_rate`` is no schedule, or ``clipping`` no rule.
        ValueError: an argument outside its range; where it is attached or a step begins, a rate that keeps no entry.

    Source: RF, Appendix G (rf.posterior); GIP, Proposition 1 (gip.prop1).

    Example: of the norm 3 of three clipped gradients two of eight entries keep the share sqrt(2 / 8).
        >>> import torch
        >>> from dptheory.training.mechanisms import Constant, PosteriorFreeze
        >>> mechanism = PosteriorFreeze(Constant(0.75), 0)
        >>> mechanism.begin_step([torch.zeros(8)])
        >>> total = mechanism.contribute([torch.ones(3, 8)], clip_norm=1.0).total[0]
        >>> int((total != 0).sum()), round(float(total.norm()), 4)
        (2, 1.5)
    """

    title = "posterior freeze"

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        found = super().contribute(samples, clip_norm)
        return replace(found, total=masked(found.total, self.mask))

    def cost(self, noise_multiplier: float) -> StepCost:
        if self._refresh_steps > 1:  # a mask that is used again does not amplify
            return StepCost(noise_multiplier)
        kept = sum(int(m.sum()) for m in self.mask)
        cost = StepCost(noise_multiplier, mask=FreshMask(dim=sum(m.numel() for m in self.mask), keep=kept))
        return cost.seeded() if self.seeded else cost
