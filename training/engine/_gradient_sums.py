"""Per-sample gradients must add up to the gradient of the batch, which ``backward()`` leaves beside them."""

import math
from collections.abc import Mapping

import torch

from dptheory.training.per_example import PerExampleGradients, Representation, Tensors

_OF_GRADIENT, _OF_ROWS, _OF_HALF_ROWS = 1e-2, 1e-3, 3e-2
"""Largest difference: as a share of the gradient's norm, and of the norms of the rows (in half precision), which round."""


class GradientSums:
    """Compares the two once for every parameter, in the first step in which it has a gradient.

    Opacus works per-sample gradients out by itself. They are others where a parameter is used outside its layer, or where
    something changes ``p.grad`` and means the step by it, as a gradient scaler does.

    Args:
        names: of the parameters, for errors.
        mean: whether the loss is a mean over the batch.
        views: rows of an example, over which its gradient is the mean.
    """

    def __init__(self, names: Mapping[torch.Tensor, str], *, mean: bool, views: int = 1) -> None:
        self._names = names
        self._views = views
        self._mean = mean
        self._seen: set[int] = set()
        self._bare: set[int] = set()

    def start_again(self) -> None:
        """Compare every parameter once more: others are trained now."""
        self._seen.clear()

    def wants(self, p: torch.Tensor) -> bool:
        """Whether the gradient of a parameter is still to be compared, so that a backward pass must leave it."""
        return id(p) not in self._seen

    def before_forward(self, params: Tensors) -> None:
        """Note where there is no gradient yet, so that what a backward pass leaves is its own."""
        unseen = (p for p in params if id(p) not in self._seen)
        self._bare = {id(p) for p in unseen if p.grad is None or not p.grad.any()}

    def check(self, params: Tensors, samples: PerExampleGradients) -> None:
        """Compare, where that has not been done.

        Raises:
            ValueError: they differ clearly for a parameter.
        """
        found = [(p, rows, self._gradient(p, rows)) for p, rows in zip(params, samples.parts, strict=True)]
        new = [(p, rows, gradient) for p, rows, gradient in found if gradient is not None]
        self._bare = set()
        largest = max(self._size(rows) for rows in samples.parts) if new else 0.0
        for p, rows, gradient in new:
            fits = self._add_up(rows, gradient, largest)
            if fits is False:
                raise ValueError(
                    f"{self._names.get(p, 'a parameter')} must have per-sample gradients that add up to its p.grad, got others: "
                    "it is used outside of its layer (weights tied in a function call, a penalty in the loss: tie layers, take "
                    "weight_decay, or grad_sample_mode='whole network'), p.grad was changed before step() (no GradScaler, no "
                    "clip_grad_norm_), or Opacus misreads the layer"
                )
            if fits:
                self._seen.add(id(p))

    def _gradient(self, p: torch.Tensor, rows: Representation) -> torch.Tensor | None:
        """The gradient of this backward pass and no other; None where there is none to compare with."""
        known = id(p) in self._bare and p.grad is not None and p.grad.layout == torch.strided and len(rows) > 0
        return p.grad if known and p.grad is not None and p.grad.any() else None

    def _size(self, rows: Representation) -> float:
        """Sum of the norms of the rows, which their rounding goes with, in the scale of the gradient."""
        return float(rows.square_norms().sqrt().sum()) / self._divisor(rows)

    def _divisor(self, rows: Representation) -> float:
        return len(rows) if self._mean else 1 / self._views

    def _add_up(self, rows: Representation, gradient: torch.Tensor, largest: float) -> bool | None:
        """Whether the rows add up to the gradient; None where it cannot be said.

        Args:
            largest: size of the rows of any parameter, with which the rounding of a gradient goes that is zero otherwise.
        """
        half = min(torch.finfo(rows.computed_in).bits, torch.finfo(gradient.dtype).bits) < 32
        difference = float(
            (rows.weighted_sum(torch.ones(len(rows), device=gradient.device)) / self._divisor(rows) - gradient).norm()
        )
        allowed = _OF_GRADIENT * float(gradient.norm())
        allowed += (_OF_HALF_ROWS if half else _OF_ROWS) * max(self._size(rows), largest / 3)
        return difference <= allowed if math.isfinite(difference + allowed) else None
