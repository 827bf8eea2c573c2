"""What happens in the forward pass of a dry step: dropout rests, and what the layers give is noted."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.hooks import RemovableHandle

_DROPPING = (_DropoutNd, nn.RNNBase, nn.MultiheadAttention)


class DryForward:
    """Dropout at rate zero, and a fingerprint of every layer's output, from :meth:`begin` to :meth:`end`.

    Args:
        model: the wrapped model.

    Attributes:
        parts: of each part of the batch, the fingerprints of its forward pass: name, (rows, 3).
        precisions: of autocast, where it was on.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._handles: list[RemovableHandle] = []
        self._rates: list[tuple[nn.Module, str, float]] = []
        self._inside = False
        self.parts: list[list[tuple[str, torch.Tensor]]] = []
        self.precisions: set[torch.dtype] = set()

    def begin(self, inputs: Any) -> None:
        """A forward pass of a dry step begins."""
        if not self._handles:
            self.parts = []
            self._handles = [self._model.register_forward_hook(self._leave, always_call=True)]
            for name, layer in self._model.named_modules():
                if layer is not self._model and not any(True for _ in layer.children()):
                    self._handles.append(layer.register_forward_hook(self._note(name)))
                self._rest(layer)
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                self.precisions.add(torch.get_autocast_dtype(device))
        self._inside = True
        found = [one for one in map(_fingerprint, _tensors(inputs)) if one is not None]
        alike = [(number + 1) * one for number, one in enumerate(found) if len(one) == len(found[0])]
        self.parts.append([("", torch.stack(alike).sum(0))] if alike else [])

    def end(self) -> None:
        """The step is over, or was left out: dropout is as it was."""
        for handle in self._handles:
            handle.remove()
        for layer, name, rate in self._rates:
            setattr(layer, name, rate)
        self._handles, self._rates, self._inside = [], [], False

    def _rest(self, layer: nn.Module) -> None:
        if isinstance(layer, _DROPPING):
            name = "p" if isinstance(layer, _DropoutNd) else "dropout"
            self._rates.append((layer, name, getattr(layer, name)))
            setattr(layer, name, 0.0)

    def _leave(self, *_: Any) -> None:
        self._inside = False  # what is worked out anew in the backward pass is not noted again

    def _note(self, name: str) -> Any:
        def note(_: nn.Module, __: Any, output: Any) -> None:
            if self._inside:
                found = (_fingerprint(tensor) for tensor in _tensors(output))
                self.parts[-1] += [(name, one) for one in found if one is not None][:1]

        return note


def _tensors(found: Any) -> Iterator[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, dict):
        for one in found.values():
            yield from _tensors(one)
    elif isinstance(found, list | tuple) and not isinstance(found, nn.utils.rnn.PackedSequence):
        for one in found:
            yield from _tensors(one)


@torch.no_grad()
def _fingerprint(tensor: torch.Tensor) -> torch.Tensor | None:
    """Of every row norm, sum and number of entries, (rows, 3) on the CPU; None of what has no rows."""
    if tensor.dim() == 0 or tensor.layout != torch.strided or tensor.is_complex() or not len(tensor):
        return None
    flat = tensor.detach().reshape(len(tensor), tensor[:1].numel()).float()
    return torch.stack([flat.norm(dim=1), flat.sum(1), flat.new_full((len(flat),), flat.shape[1])], 1).double().cpu()
