"""Ranked sparsification: keep the entries that were largest in the released gradients of the last epoch."""

from typing import Any

import torch

from dptheory import _validate
from dptheory.training._randomness import normal
from dptheory.training._streams import RANKING, Stream, on_cpu, seed_stream
from dptheory.training.mechanisms._base import Contribution, Noise, Samples, Tensors, noised
from dptheory.training.mechanisms._clipping import FLAT, Clipped, Clipping, NotPrivate, clipped_sum
from dptheory.training.mechanisms._random_sparsification import kept_entries
from dptheory.training.mechanisms._rates import Checked, Schedule
from dptheory.training.per_example import masked


def largest_entries(values: Tensors, drop_rate: float) -> Tensors:
    """Bool mask that keeps the round((1 - drop_rate) d) entries of largest magnitude over all tensors together.

    Args:
        values: tensors of any shapes, d entries together.
        drop_rate: share of entries dropped, in [0, 1).

    Returns:
        One bool tensor per tensor, in its shape; True where an entry is kept.

    Raises:
        ValueError: a rate outside [0, 1), or one that keeps no entry.

    Source: RF, Algorithm 2; RS, Algorithm 4 (rf.alg2, rs.alg4).

    Example: the two largest magnitudes of four, over both tensors.
        >>> import torch
        >>> from dptheory.training.mechanisms import largest_entries
        >>> largest_entries([torch.tensor([1.0, -3.0]), torch.tensor([[2.0], [0.5]])], 0.5)
        [tensor([False,  True]), tensor([[ True],
                [False]])]
    """
    flat = torch.cat([v.flatten().abs() for v in values])
    keep = kept_entries(dim=flat.numel(), drop_rate=drop_rate)
    mask = torch.zeros_like(flat, dtype=torch.bool)
    mask[flat.topk(keep, sorted=False).indices] = True
    return [m.view(v.shape) for m, v in zip(torch.split(mask, [v.numel() for v in values]), values, strict=True)]


class RankedSparsification(Clipped):
    r"""Masks by last epoch's sum of released gradients; the velocity takes the noised gradient, so all is post-processing.

    A step releases :math:`y = m\odot(\sum_i\mathrm{clip}_C(m\odot g_i) + \sigma C z)` and adds
    :math:`y + (1-m)\odot\sigma C z'` to the ranking sum, so that entries masked out can come back; m keeps the entries that
    were largest in that of the epoch before. The printed algorithms hand the un-noised gradient to the velocity, which is not
    private.

    Args:
        drop_rate: sparsification rate over the steps, in [0, 1); the first epoch drops nothing.
        steps_per_epoch: steps between two rankings, >= 1.
        seed: of the noise of masked entries, which tells nothing about the data, 0 to 2^63 - 1; None for the operating system's
            generator.
        clipping: the rule; what it clips is the masked gradient.

    Raises:
        TypeError: ``drop_rate`` is no schedule, or ``clipping`` no rule.

    Source: RF, Algorithm 2; RS, Algorithm 4, corrected (rf.alg2, rs.alg4).

    Example: the two largest entries that the first step released are kept in the next one.
        >>> import torch
        >>> from dptheory.training.mechanisms import Constant, RankedSparsification
        >>> mechanism = RankedSparsification(Constant(0.5), steps_per_epoch=1, seed=0)
        >>> mechanism.begin_step([torch.zeros(4)])
        >>> mechanism.end_step([torch.tensor([0.1, -0.9, 0.2, 0.7])], std=1.0)  # what the first step released
        >>> mechanism.mask
        [tensor([False,  True, False,  True])]
    """

    title = "ranked sparsification"
    public = ("masks, once they are used",)

    def __init__(
        self, drop_rate: Schedule, *, steps_per_epoch: int, seed: int | None, clipping: Clipping = FLAT
    ) -> None:
        super().__init__(clipping=clipping)
        self._drop_rate = Checked("drop_rate", drop_rate, ends="[)")
        self._epoch = _validate.integer("steps_per_epoch", steps_per_epoch, 1)
        self._stream = seed_stream(seed, RANKING)
        self.seeded = seed is not None
        self._step = 0
        self._sums: Tensors = []
        self.mask: Tensors = []

    @property
    def mask_before_clipping(self) -> Tensors:
        return self.mask

    @property
    def steps_summed(self) -> int:
        """Steps since the last ranking, whose sum the next one will rank."""
        return self._step % self._epoch

    def begin_step(self, params: Tensors) -> None:
        if [s.shape for s in self._sums] != [p.shape for p in params]:  # at the start, and when layers are frozen
            self._sums = [torch.zeros(p.shape, device=p.device) for p in params]
            self.mask = [torch.ones(p.shape, dtype=torch.bool, device=p.device) for p in params]

    def streams(self) -> list[Stream]:
        return [] if self._stream is None else [self._stream]

    def shared(self) -> Tensors:
        return [*self._sums, *self.mask]

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        return clipped_sum(samples, clip_norm, mask=self.mask, clipping=self._clipping)

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        return masked(noised(total, noise_multiplier * clip_norm, noise), self.mask)

    def end_step(self, released: Tensors, std: float) -> None:
        for s, r, m in zip(self._sums, released, self.mask, strict=True):
            s += r + normal(s.shape, on_cpu(self._stream)).to(s.device) * std * ~m
        self._rank_after_an_epoch()

    def _rank_after_an_epoch(self) -> None:
        self._step += 1
        if self.steps_summed == 0:
            self.mask = largest_entries(self._sums, self._drop_rate(self._step))
            self._sums = [torch.zeros_like(s) for s in self._sums]

    def state_dict(self) -> dict[str, Any]:
        generator = None if self._stream is None else self._stream.state()
        return {"step": self._step, "generator": generator, "sums": self._sums, "mask": self.mask}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._step = state["step"]
        if self._stream is not None:
            self._stream.load(state["generator"])
        self._sums, self.mask = list(state["sums"]), list(state["mask"])


class RankedByTrueGradients(NotPrivate, RankedSparsification):
    r"""The same with masks by the un-noised sums :math:`\sum_i\mathrm{clip}_C(m\odot g_i)`: what a perfect ranking would do.

    Args:
        drop_rate, steps_per_epoch, seed, clipping: as for :class:`RankedSparsification`.

    Raises:
        TypeError: ``drop_rate`` is no schedule.

    Source: new, on RF, Algorithm 2 (rf.ranked).

    Example: it is accounted for as a step without noise.
        >>> from dptheory.training.mechanisms import Constant, RankedByTrueGradients
        >>> RankedByTrueGradients(Constant(0.5), steps_per_epoch=10, seed=0).cost(noise_multiplier=1.0).noise_multiplier
        0.0
    """

    title = "ranked by true gradients (NOT PRIVATE)"

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        self._true = [t.clone() for t in total]
        return super().release(total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)

    def end_step(self, released: Tensors, std: float) -> None:
        for s, t in zip(self._sums, self._true, strict=True):
            s += t
        self._rank_after_an_epoch()
