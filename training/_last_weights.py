"""The mean of the weights after the last steps of a training."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def first_averaged(steps: int, average: float) -> int:
    """The step, from 0, after which the weights come into the mean for the first time.

    Args:
        steps: of the training.
        average: share of them, the last ones, in (0, 1]; at least one.
    """
    return steps - max(1, round(average * steps))


class LastWeights:
    """The running mean of a network's trained weights.

    It costs no privacy: every weight that goes into it was released already, as a function of the noisy gradients alone, and
    what is made of released values without a look at the data (post-processing) has their guarantee.

    Args:
        network: that is trained; it is not changed.
    """

    def __init__(self, network: nn.Module) -> None:
        self._weights = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self._means: dict[str, Tensor] = {}
        self.count = 0

    @torch.no_grad()
    def take(self) -> None:
        """The weights as they are now come into the mean: m + (w - m) / n."""
        self.count += 1
        if self.count == 1:
            self._means = {name: p.detach().clone() for name, p in self._weights.items()}
            return
        torch._foreach_lerp_(list(self._means.values()), list(self._weights.values()), 1.0 / self.count)

    @torch.no_grad()
    def put_into(self, network: nn.Module) -> None:
        """Give a network of the same kind the mean as its weights; where there is none yet it stays as it is."""
        for name, p in network.named_parameters():
            if name in self._means:
                p.copy_(self._means[name])

    def state_dict(self) -> dict[str, Any]:
        """How many steps went in, and the mean by the names of the parameters."""
        return {"count": self.count, "weights": dict(self._means)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises:
            ValueError: it is of another network.
        """
        count, weights = state["count"], state["weights"]
        wanted = {name: p.shape for name, p in self._weights.items()} if count else {}
        if {name: mean.shape for name, mean in weights.items()} != wanted:
            raise ValueError("the averaged weights must be those of this network, got others")
        self.count = count
        self._means = {name: weights[name].to(p).clone() for name, p in self._weights.items() if count}
