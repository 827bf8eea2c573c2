"""Whether a loop has changed ``p.grad`` between ``backward()`` and ``step()``, which would have no effect."""

from collections.abc import Iterable, Mapping
from functools import partial

import torch


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
