"""Parts that mechanisms are handed, as plain as they may be."""

from typing import Any

import torch


class Anchors:
    """These anchor gradients, whatever the model; without a state."""

    def __init__(self, *gradients: torch.Tensor) -> None:
        self._gradients = list(gradients)

    def __call__(self) -> list[torch.Tensor]:
        return self._gradients

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
