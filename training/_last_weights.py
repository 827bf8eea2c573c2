"""The mean of the weights after the steps of a training, over the last of them or exponential."""

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dptheory.errors import ArgumentError


def first_averaged(steps: int, average: float) -> int:
    """The step, from 0, after which the weights first come into the mean: ``average`` is the share of the last ones, in (0, 1]."""
    return steps - max(1, round(average * steps))


def _share(decay: float, count: int) -> float:
    """Of the last of so many weights in their mean: 1 / (1 + d + ... + d^(n - 1))."""
    return 1.0 / count if decay == 1.0 else (decay - 1.0) / math.expm1(count * math.log(decay))


class LastWeights:
    r"""The running mean of a network's trained weights.

    Of n weights that came in, :math:`\sum_t d^{n-t}w_t/\sum_t d^{n-t}`: their plain mean for d = 1, and for less the exponential
    average, which is one from the first step on (no start at zero that would have to fade).

    It costs no privacy: every weight that goes into it was released already, as a function of the noisy gradients alone, and
    what is made of released values without a look at the data (post-processing) has their guarantee.

    Args:
        decay: d, in (0, 1].
    """

    def __init__(self, network: nn.Module, *, decay: float = 1.0) -> None:
        self._decay = decay
        self._weights = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self._means: dict[str, Tensor] = {}
        self.count = 0

    @torch.no_grad()
    def take(self) -> None:
        """The weights as they are now come into the mean: m + (w - m) / (1 + d + ... + d^(n - 1))."""
        self.count += 1
        if self.count == 1:
            self._means = {name: p.detach().clone() for name, p in self._weights.items()}
            return
        share = _share(self._decay, self.count)
        torch._foreach_lerp_(list(self._means.values()), list(self._weights.values()), share)

    @torch.no_grad()
    def of(self, network: nn.Module) -> nn.Module:
        """A copy of a network of the same kind with the mean as its weights; its own where there is none yet."""
        found = copy.deepcopy(network)
        for name, p in found.named_parameters():
            if name in self._means:
                p.copy_(self._means[name])
        return found

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Let the network have the mean as its weights meanwhile, where there is one; bit for bit its own again afterwards."""
        kept = {name: self._weights[name].detach().clone() for name in self._means}
        self._write(self._means)
        try:
            yield
        finally:
            self._write(kept)

    @torch.no_grad()
    def _write(self, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            self._weights[name].copy_(value)

    def state_dict(self) -> dict[str, Any]:
        """How many steps went in, and the mean by the names of the parameters."""
        return {"count": self.count, "weights": dict(self._means)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        count, weights = state["count"], state["weights"]
        wanted = {name: p.shape for name, p in self._weights.items()} if count else {}
        if {name: mean.shape for name, mean in weights.items()} != wanted:
            raise ArgumentError("state", "hold averaged weights of this network", weights, got="others")
        self.count = count
        self._means = {name: weights[name].to(p).clone() for name, p in self._weights.items() if count}
