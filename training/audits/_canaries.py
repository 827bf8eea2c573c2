"""Canaries of an audit of any loop: records made to be found, and the user's data with those that the coins put in."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Dataset, Subset

from dptheory import _validate
from dptheory.errors import ArgumentError

MOST = 10**6
_LOOKED_AT = 256
"""Records from which labels and the largest size of an input are read."""
_LEAST_LENGTH = 10.0
"""Of an input, in units of the clip: its gradient is to be longer than the clip, and longer than that of the bias, which all share."""


class Records(Dataset[Any]):
    """Records that were made, each a pair of an input and a label."""

    def __init__(self, rows: Sequence[tuple[Any, Any]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return self.rows[i]


def length(name: str, records: Any) -> int:
    """Number of records, at least one.

    Raises:
        ValueError: no Dataset with a length.
    """
    if not hasattr(records, "__getitem__") or not hasattr(records, "__len__") or len(records) < 1:
        raise ArgumentError(name, "be a Dataset with a length and at least one record", records)
    return len(records)


def made(data: Any, canaries: int, access: str, rng: np.random.Generator, clip: float = 1.0) -> Dataset[Any]:
    """So many canaries: records with another label, or, where gradients are seen, inputs that are orthogonal to each other.

    An input of the second kind is 0 but for one entry, as large as the largest input is long, at least 10 and 10 ``clip``. The
    gradients of a first layer that is dense are then orthogonal, too, as long as there are no more canaries than entries; the next
    ones are their opposites.

    Raises:
        ValueError: records that are no pairs of a tensor of floats and a whole label, or more canaries than can differ.
    """
    size = length("data", data)
    rows = [data[int(i)] for i in rng.choice(size, min(size, _LOOKED_AT), replace=False)]
    for row in rows:
        _require_pair(row)
    classes = max(int(label) for _, label in rows) + 1
    if access == "gradients":
        longest = max(
            _LEAST_LENGTH * max(1.0, clip), *(float(torch.linalg.vector_norm(features)) for features, _ in rows)
        )
        most = 2 * min(row[0].numel() for row in rows)
        if canaries > most:  # the same inputs again
            raise ArgumentError(
                "canaries", f"be at most two for each entry of an input, {most}, or a Dataset of your own", canaries
            )
        kinds = [rows[i % len(rows)] for i in range(canaries)]
        return Records([_spike(row[0], row[1], i, longest, classes, rng) for i, row in enumerate(kinds)])
    if classes < 2:
        raise ArgumentError("data", "have at least two labels, so that a record can be given a wrong one", data)
    if canaries > size:
        # the same record twice, with coins of its own each time: a guess would not tell which of both was in
        raise ArgumentError("canaries", f"be at most the number of records, {size}, or a Dataset of your own", canaries)
    chosen = rng.choice(size, canaries, replace=False)
    wrong = []
    for i in chosen:
        features, label = data[int(i)]
        _require_pair((features, label))
        other = int(rng.integers(classes - 1)) if int(label) < classes else int(rng.integers(classes))
        wrong.append((features, _like(label, other + (other >= int(label)))))
    return Records(wrong)


def with_drawn(data: Any, canaries: Any, coins: NDArray[np.bool_]) -> Dataset[Any]:
    """The user's records, and behind them the canaries whose coin says "in"."""
    return ConcatDataset([data, Subset(canaries, np.flatnonzero(coins).tolist())])


def _require_pair(row: Any) -> None:
    pair = isinstance(row, tuple | list) and len(row) == 2
    if not pair or not isinstance(row[0], torch.Tensor) or not row[0].is_floating_point():
        raise ArgumentError(
            "canaries", "be a Dataset where records are no pairs of a tensor of floats and a whole label", row
        )
    try:
        label: Any = row[1].item() if isinstance(row[1], torch.Tensor) else row[1]
        _validate.integer("canaries", label, 0)
    except (ValueError, RuntimeError):
        raise ArgumentError("canaries", "be a Dataset where labels are no whole numbers >= 0", row[1]) from None


def _spike(
    features: torch.Tensor, label: Any, place: int, longest: float, classes: int, rng: np.random.Generator
) -> tuple[torch.Tensor, Any]:
    spike = torch.zeros_like(features)
    spike.view(-1)[place % features.numel()] = longest * (-1.0) ** (place // features.numel())
    return spike, _like(label, int(rng.integers(classes)))


def _like(label: Any, value: int) -> Any:
    """A label of the same kind."""
    return torch.full_like(label, value) if isinstance(label, torch.Tensor) else type(label)(value)
