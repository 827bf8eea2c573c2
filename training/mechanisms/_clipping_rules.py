"""Rules that shorten gradients otherwise than by one fixed clip: layer by layer, to nearly one length, or by a clip that adapts."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from opacus import GradSampleModule
from torch import nn

from dptheory import _validate, privacy
from dptheory.errors import ArgumentError
from dptheory.training.mechanisms._base import (
    Around,
    Contribution,
    Mechanism,
    Noise,
    Samples,
    StepCost,
    Tensors,
    with_noise,
)
from dptheory.training.mechanisms._clipping import Clipping, clip_factors
from dptheory.training.mechanisms._layer_freezing import layers, own_parameters


class LayerClipping(Clipping):
    r"""Each layer has a clip of its own: :math:`g_l\min(1, C_l/|g_l|)`, :math:`C_l = C\sqrt{w_l/\sum w}`.

    So :math:`\sum_l C_l^2 = C^2`, and all layers together are no longer than C. Of layers that are frozen or have no trained
    parameters the share goes to the others, in proportion. A layer is a module that holds parameters of its own, or a parametrized
    one; used without a model, every tensor is one.

    Args:
        shares: the w_l, in the order of :func:`layers`, each in [1e-15, 1e15]; None for equal ones.

    Raises:
        ValueError: an argument outside its range; where it is attached to a model, another number of shares than of layers.

    Source: new, on RS, Algorithm 1 (rs.layer_clip).

    Example: two layers share the square of C = 5 as 16 to 9.
        >>> import torch
        >>> from dptheory.training.mechanisms import DpSgd, LayerClipping
        >>> samples = [torch.tensor([[8.0, 0.0]]), torch.tensor([[0.0, 1.0]])]
        >>> DpSgd(clipping=LayerClipping([16.0, 9.0])).contribute(samples, clip_norm=5.0).total
        [tensor([4., 0.]), tensor([0., 1.])]
    """

    def __init__(self, shares: Sequence[float] | None = None) -> None:
        self._shares = None if shares is None else _shares(shares)
        self._layers: list[list[nn.Parameter]] | None = None

    def attach(self, module: GradSampleModule) -> None:
        seen: set[int] = set()
        found = []
        for layer in layers(module._module):
            own = [
                p for p in own_parameters(layer) if id(p) not in seen
            ]  # one that two layers share is the first one's
            seen |= {id(p) for p in own}
            found.append(own)
        if self._shares is not None and len(self._shares) != len(found):
            raise ArgumentError("shares", f"be one for each of the {len(found)} layers", len(self._shares))
        self._layers = found

    def groups(self, parameters: int) -> list[list[int]]:
        return [group for group in self._numbered(parameters) if group]

    def factors(self, norms: torch.Tensor, clip_norm: float) -> torch.Tensor:
        groups = norms.shape[1]
        trained = [True] * groups if self._layers is None else [_is_trained(layer) for layer in self._layers]
        shares = [1.0] * len(trained) if self._shares is None else self._shares
        kept = [share for share, there in zip(shares, trained, strict=True) if there]
        own = torch.tensor(kept, dtype=torch.float64)
        clips = (clip_norm * (own / own.sum()).sqrt()).tolist()
        return torch.stack([clip_factors(norms[:, i], clip) for i, clip in enumerate(clips)], 1)

    def _numbered(self, parameters: int) -> list[list[int]]:
        """The numbers of the trained parameters of each layer; none of a layer without."""
        if self._layers is None:
            return [[i] for i in range(parameters)]
        trained = sum(p.requires_grad for layer in self._layers for p in layer)
        if trained != parameters:
            raise ArgumentError(
                "samples", f"be of the {trained} trained parameters of the model", parameters, got=f"{parameters}"
            )
        places = iter(range(parameters))
        return [[next(places) for p in layer if p.requires_grad] for layer in self._layers]


class AutomaticClipping(Clipping):
    r"""Each gradient is normalised, whatever its length: :math:`C g/(|g| + \gamma)`, shorter than C.

    Small gradients count nearly as much as large ones. The step is the same for C and learning rate as for 1 and their product.

    Args:
        gamma: in [1e-15, 1e15], in the unit of the gradient; of the order of the gradients that should stay small.

    Source: new, on RS, Algorithm 1 (rs.automatic_clip).

    Example: norms of 1 and 3 become 1/2 and 3/4.
        >>> import torch
        >>> from dptheory.training.mechanisms import AutomaticClipping, DpSgd
        >>> samples = [torch.tensor([[1.0, 0.0], [0.0, 3.0]])]
        >>> DpSgd(clipping=AutomaticClipping(gamma=1.0)).contribute(samples, clip_norm=1.0).total
        [tensor([0.5000, 0.7500])]
    """

    def __init__(self, *, gamma: float = 0.01) -> None:
        self._gamma = _validate.real("gamma", gamma, 1e-15, 1e15)

    def factors(self, norms: torch.Tensor, clip_norm: float) -> torch.Tensor:
        found = clip_norm / (norms + self._gamma)
        precise = torch.isfinite(norms) & (found >= torch.finfo(norms.dtype).tiny)  # as for clip_factors
        return torch.where(precise, found, torch.zeros_like(found))

    def kept(self, factors: torch.Tensor) -> torch.Tensor | None:
        return None


def _is_trained(layer: list[nn.Parameter]) -> bool:
    return any(p.requires_grad for p in layer)


def _shares(shares: Sequence[float]) -> list[float]:
    found = _validate.finite("shares", shares)
    if found.ndim != 1 or not found.size or not ((found >= 1e-15) & (found <= 1e15)).all():
        raise ArgumentError("shares", "be a number in [1e-15, 1e+15] for each layer", shares)
    return [float(share) for share in found]


_LEAST, _MOST = 1e-15, 1e15
"""Of a clip, as for that of the optimizer."""
_FARTHEST = math.log(_MOST / _LEAST)


class AdaptiveClipping(Around):
    r"""Another mechanism with the clip :math:`C_t = C e^{s_t}`, which moves to a quantile of the norms from step to step.

    An example votes :math:`v_i = \frac12` if its gradient is no longer than :math:`C_t`, :math:`-\frac12` if it is, and 0 if it is
    zero. A step releases what the other mechanism does at noise multiplier :math:`\sigma/\sqrt{1-c}`, and the count
    :math:`n = \sum_iv_i + \frac{\sigma}{2\sqrt c}z`. Both together are as private as the Gaussian mechanism of noise multiplier
    sigma, as one example moves the count by 1/2. Then :math:`s_{t+1} = s_t - \eta(\frac nB + \frac12 - q)`, which is
    post-processing. ``max_grad_norm``, C, is where the clip starts; a schedule of it scales the clip.

    Args:
        inner: what is done with the gradients at the clip of the step. It must clip by one norm, and tell how many it leaves:
            DP-SGD, masks, layer freezing and index pruning do, flat or layer by layer.
        expected_batch_size: B, in [1e-15, 1e15]; a constant, never the size of the batch drawn.
        quantile: q, share of the gradients that are to be no longer than the clip, in [0, 1].
        clip_rate: eta, in (0, 10].
        count_share: c, share of a step's budget (of :math:`1/\sigma^2`) that the count takes, in [1e-6, 0.5].

    Raises:
        ValueError: ``inner`` is no mechanism.
        ValueError: an argument outside its range; in the first step, a mechanism that does not tell how many gradients it left.

    Source: new, on RS, Algorithm 1 (rs.adaptive_clip).

    Example: all three gradients are shorter than the clip, which falls; the step costs what the noise multiplier says.
        >>> import math, torch
        >>> from dptheory.training.mechanisms import AdaptiveClipping, DpSgd
        >>> mechanism = AdaptiveClipping(DpSgd(), expected_batch_size=3, quantile=0.5, clip_rate=0.2)
        >>> mechanism.begin_step([torch.zeros(2)])
        >>> total = mechanism.contribute([torch.tensor([[0.1, 0.0], [0.0, 0.3], [0.2, 0.0]])], clip_norm=1.0).total
        >>> released = mechanism.release(total, noise_multiplier=1.0, clip_norm=1.0,
        ...     noise=lambda like, std: torch.zeros_like(like))
        >>> mechanism.end_step(released, std=1.0)
        >>> round(mechanism.clip_of(1.0), 6), round(math.exp(-0.1), 6), mechanism.cost(noise_multiplier=1.0).noise_multiplier
        (0.904837, 0.904837, 1.0)
    """

    title = "adaptive clipping"

    def __init__(
        self,
        inner: Mechanism,
        *,
        expected_batch_size: float,
        quantile: float = 0.5,
        clip_rate: float = 0.2,
        count_share: float = 0.01,
    ) -> None:
        super().__init__(inner, public="clip of every step")
        self._size = _validate.real("expected_batch_size", expected_batch_size, 1e-15, 1e15)
        self._quantile = _validate.real("quantile", quantile, 0.0, 1.0)
        self._rate = _validate.real("clip_rate", clip_rate, 0.0, 10.0, ends="(]")
        self._share = _validate.real("count_share", count_share, *privacy.clipping.COUNT_SHARE)
        self._moved = torch.zeros(1, dtype=torch.float64)
        self._count: float | None = None
        self._std: float | None = None
        self.used: float | None = None
        """The clip of the step under way, or of the last one."""

    def clip_of(self, clip_norm: float) -> float:
        """C_t of the next step: C times what the counts so far have made of it, in [1e-15, 1e15]."""
        return min(max(clip_norm * math.exp(float(self._moved)), _LEAST), _MOST)

    def check_clip(self, clip_norm: float) -> None:
        super().check_clip(self.clip_of(clip_norm))

    def begin_step(self, params: Tensors) -> None:
        self._count = self._std = None
        self._moved = self._moved.to(params[0].device)
        super().begin_step(params)

    def shared(self) -> Tensors:
        """The first process's clip for all: the others' noise is not what was released."""
        return [self._moved, *super().shared()]

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        self.used = self.clip_of(clip_norm)
        found = super().contribute(samples, self.used)
        if found.votes is None:
            raise ArgumentError(
                "inner",
                "be a mechanism that tells how many gradients its clip left as they were",
                self._inner.title,
                got=f"{self._inner.title}: take DP-SGD, a mask or layer freezing, with flat clipping or "
                "clipping by layer",
            )
        # A vote is +-1/2 in place of 1 and 0: an example that joins moves the count by a half, whichever way it votes.
        return Contribution([*found.total, found.total[0].new_tensor([found.votes])], found.nonfinite, found.votes)

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        stds = self._noise(noise_multiplier)
        votes = total[-1]
        self._count = float(with_noise(votes, stds.count_std, noise))
        clip = self.clip_of(clip_norm)
        self._std = stds.gradient_multiplier * clip
        return super().release(total[:-1], noise_multiplier=stds.gradient_multiplier, clip_norm=clip, noise=noise)

    def end_step(self, released: Tensors, std: float) -> None:
        super().end_step(released, std if self._std is None else self._std)
        if self._count is not None:
            moved = float(self._moved) - self._rate * (self._count / self._size + 0.5 - self._quantile)
            self._moved.fill_(min(max(moved, -_FARTHEST), _FARTHEST))
        self._count = self._std = None

    def cost(self, noise_multiplier: float) -> StepCost:
        """That of both releases together. What hides the entries of the sum does not hide the count: it amplifies nothing."""
        stds = self._noise(noise_multiplier)
        inner = super().cost(stds.gradient_multiplier)
        if inner.noise_multiplier == stds.gradient_multiplier:
            return StepCost(noise_multiplier, selection=inner.selection)
        if inner.noise_multiplier == 0.0:
            return StepCost(0.0, selection=inner.selection)
        joint = 1.0 / math.hypot(1.0 / inner.noise_multiplier, 0.5 / stds.count_std)
        return StepCost(joint, selection=inner.selection)

    def _noise(self, noise_multiplier: float) -> privacy.clipping.CountedNoise:
        return privacy.clipping.counted_noise(noise_multiplier=noise_multiplier, count_share=self._share)

    def state_dict(self) -> dict[str, Any]:
        return {"moved": float(self._moved), "inner": self._inner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._moved.fill_(_validate.real("moved", state["moved"], -_FARTHEST, _FARTHEST))
        self._inner.load_state_dict(state["inner"])
