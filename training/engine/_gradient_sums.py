"""What a loop leaves in ``p.grad``: the sum of the per-sample gradients, and nothing that is changed before ``step()``."""

import math
from collections.abc import Iterable, Mapping
from functools import partial

import torch

from dptheory.training.per_example import PerExampleGradients, Representation, Tensors

# --- Whether a loop has changed p.grad between backward() and step(), which would have no effect


class GradientEdits:
    """Counts the writes to a gradient since the backward pass that left it.

    ``clip_grad_norm_`` writes where it does not clip, too, and a scaler where its factor is 1: what would be without effect in
    every step is refused in the first one.

    Args:
        names: of the parameters, for errors; one that is trained later is followed from then on.
    """

    def __init__(self, names: Mapping[torch.Tensor, str]) -> None:
        self._names = names
        self._followed: set[int] = set()
        self._left: dict[int, tuple[int, int]] = {}
        """By parameter: the place in memory of its gradient, and the writes to it so far."""

    def follow(self, params: Iterable[torch.Tensor]) -> None:
        """Note what backward passes leave at these parameters from now on."""
        for p in params:
            if id(p) not in self._followed and p.is_leaf:
                self._followed.add(id(p))
                p.register_post_accumulate_grad_hook(partial(_note, self._left))  # type: ignore[no-untyped-call]

    def check(self, params: Iterable[torch.Tensor]) -> None:
        """See that the gradients are as the last backward pass left them, where it left any.

        Raises:
            ValueError: one is not.
        """
        for p in params:
            left = self._left.pop(id(p), None)
            if left is not None and p.grad is not None and left != (p.grad.data_ptr(), p.grad._version):
                raise ValueError(
                    f"p.grad of {self._names.get(p, 'a parameter')} must stay as backward() left it until step(), got one that was "
                    "written to: step() releases per-sample gradients, each clipped to max_grad_norm, in its place; leave out "
                    "clip_grad_norm_, GradScaler and own edits (change max_grad_norm, the loss or the learning rate)"
                )

    def forget(self) -> None:
        """What was left is cleared."""
        self._left.clear()


def _note(left: dict[int, tuple[int, int]], p: torch.Tensor) -> None:
    if p.grad is not None and p.grad.layout == torch.strided and not p.grad.is_inference():
        left[id(p)] = p.grad.data_ptr(), p.grad._version


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
