"""Rows of measurements, and parts that mechanisms are handed, made up and as plain as they may be."""

from typing import Any

import torch

from dptheory.training.measure import Row
from dptheory.training.mechanisms import AnchorSource


def row(
    predicted: float,
    measured: float,
    standard_error: float = 0.0,
    *,
    quantity: str = "q",
    setting: str = "",
    **more: Any,
) -> Row:
    """A row of group "g" and claims "c" where nobody says otherwise."""
    return Row(
        quantity=quantity,
        setting=setting,
        predicted=predicted,
        measured=measured,
        standard_error=standard_error,
        **{"group": "g", "claims": "c"} | more,
    )


class Anchors(AnchorSource):
    """These anchor gradients, whatever the model; without a state."""

    def __init__(self, *gradients: torch.Tensor) -> None:
        self._gradients = list(gradients)

    def __call__(self) -> list[torch.Tensor]:
        return self._gradients
