"""Gradients of auxiliary images with random labels, for GEP's anchor subspace."""

import copy
from typing import Any

import torch
from torch import nn

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training._streams import LABELS, Stream
from dptheory.training.per_example import FACTORS, HookedModule, PerExampleGradients, as_gradients

_OTHERWISE_IN_EVAL = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase)


class AnchorGradients:
    r"""Per-sample gradients of a model on auxiliary images; without labels, these are drawn afresh at every call.

    :math:`\nabla\ell(f(x_j), y_j)` for images x_j and labels y_j, random ones unless they are given, l the
    cross-entropy. They are taken at the model's present weights. Only trainable parameters count, in the order of
    ``model.parameters()``. A call returns the gradients of all m images, as factors where the layer has them.

    Args:
        model: the plain model, before ``make_private``: Opacus's hooks would see these images too.
        pixels: the images, shape (m, ...), m >= 1; nothing about them is protected.
        classes: number of classes, 2..1e9.
        seed: of the labels, which are public; 0 to 2^64 - 1.
        chunk: images at a time, 1..1e9: with more than that, gradients are formed, and memory is that of all of them and of the
            pass of one chunk.
        labels: int64, shape (m,), 0 to ``classes`` - 1, in place of random ones; nothing about them is protected either.

    Raises:
        ValueError: an argument outside its range, pixels that are not images, or unknown labels.

    Source: GEP, section 3.1 (gep.random_labels); true labels: Appendix C (gep.table5).

    Example: twenty images give twenty gradients of each parameter.
        >>> import torch
        >>> from dptheory.training.mechanisms import AnchorGradients
        >>> anchors = AnchorGradients(torch.nn.Linear(6, 2), torch.ones(20, 6), classes=2, seed=0)
        >>> [tuple(gradients.shape) for gradients in anchors()]
        [(20, 2, 6), (20, 2)]
    """

    def __init__(
        self,
        model: nn.Module,
        pixels: torch.Tensor,
        *,
        classes: int,
        seed: int,
        chunk: int = 256,
        labels: torch.Tensor | None = None,
    ) -> None:
        _validate.instance("model", model, nn.Module)
        if not isinstance(pixels, torch.Tensor) or pixels.ndim < 2 or not len(pixels):
            raise ArgumentError("pixels", "be a tensor with at least one auxiliary image", pixels)
        self._model = model
        self._copy = HookedModule(_recording(copy.deepcopy(model)), mode=FACTORS, loss_reduction="sum", strict=False)
        self._pixels = pixels
        self._classes = _validate.integer("classes", classes, 2, 10**9)
        self._stream = Stream(_argument_ranges.stream("seed", seed), LABELS)
        self._chunk = _validate.integer("chunk", chunk, 1, 10**9)
        self._labels = None if labels is None else _whole_labels(labels, len(pixels), self._classes)

    def __call__(self) -> PerExampleGradients:
        own = dict(self._copy._module.named_parameters())
        for name, p in self._model.named_parameters():
            own[name].data.copy_(p.data)
            own[name].requires_grad_(p.requires_grad)
        device = next(iter(own.values())).device
        labels = self._labels
        if labels is None:
            labels = torch.randint(self._classes, (len(self._pixels),), generator=self._stream.on("cpu"))
        parts = zip(torch.split(self._pixels, self._chunk), torch.split(labels, self._chunk), strict=True)
        found = [self._gradients(images.to(device), known.to(device)) for images, known in parts]
        if len(found) == 1:
            return found[0]
        return as_gradients([torch.cat(one) for one in zip(*found, strict=True)])

    def _gradients(self, images: torch.Tensor, labels: torch.Tensor) -> PerExampleGradients:
        with torch.enable_grad():
            torch.autograd.backward(nn.functional.cross_entropy(self._copy(images), labels, reduction="sum"))
        trained: list[Any] = [p for p in self._copy.parameters() if p.requires_grad]
        found = as_gradients([p.grad_sample for p in trained])
        self._copy.zero_grad(set_to_none=True)
        return found

    def streams(self) -> list[Stream]:
        """The random numbers of the labels."""
        return [self._stream]

    def state_dict(self) -> dict[str, Any]:
        """State of the labels in a simulation; otherwise they are drawn afresh."""
        return {"generator": self._stream.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self._stream.load(state["generator"])


def _whole_labels(labels: torch.Tensor, count: int, classes: int) -> torch.Tensor:
    whole = isinstance(labels, torch.Tensor) and labels.dtype == torch.int64 and labels.shape == (count,)
    if not whole or bool(((labels < 0) | (labels >= classes)).any()):
        raise ArgumentError(
            "labels", f"be an int64 tensor of shape ({count},) with entries in 0..{classes - 1}", labels
        )
    return labels


def _recording(model: nn.Module) -> nn.Module:
    """In training mode, in which layers leave per-example gradients, but for those that do something else in ``eval()``."""
    for module in model.modules():
        if not isinstance(module, _OTHERWISE_IN_EVAL):
            module.training = True
    return model
