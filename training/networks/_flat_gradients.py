"""Gradients of the cross-entropy loss as flat vectors: of every example, and of the mean."""

from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from dptheory import _validate
from dptheory.errors import ArgumentError

_MEAN_CHUNK = 1000

Weights = Mapping[str, torch.Tensor]


def sample_loss(model: nn.Module) -> Callable[[Weights, torch.Tensor, torch.Tensor], torch.Tensor]:
    """Cross-entropy of one picture at weights that are given by name, for :func:`torch.func.grad`.

    Args:
        model: takes pictures, returns class scores; no part of it may mix examples.

    Returns:
        From the weights, a picture and its label to the loss.

    Raises:
        ValueError: ``model`` is no module.

    Example: without weights two classes are equally likely.
        >>> import torch
        >>> from dptheory.training.networks import sample_loss
        >>> model = torch.nn.Linear(3, 2)
        >>> nothing = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
        >>> round(float(sample_loss(model)(nothing, torch.ones(3), torch.tensor(0)).exp()), 6)
        2.0
    """
    _validate.instance("model", model, nn.Module)

    def loss(weights: Weights, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(functional_call(model, dict(weights), (image[None],)), label[None])

    return loss


def per_sample_gradients(
    model: nn.Module, pixels: torch.Tensor, labels: torch.Tensor, *, physical_batch_size: int = 128
) -> torch.Tensor:
    """Gradients of the cross-entropy loss of every example, by functorch; the model must have no Opacus hooks.

    Args:
        model: takes pictures, returns class scores; no part of it may mix examples.
        pixels: shape (n, ...).
        labels: shape (n,).
        physical_batch_size: most examples computed at once, 1..1e9.

    Returns:
        Shape (n, d), in the order of ``parameters()``, on the CPU.

    Example: five gradients of eight entries each.
        >>> import torch
        >>> from dptheory.training.networks import per_sample_gradients
        >>> per_sample_gradients(torch.nn.Linear(3, 2), torch.ones(5, 3), torch.zeros(5, dtype=torch.long)).shape
        torch.Size([5, 8])
    """
    size = _validate.integer("physical_batch_size", physical_batch_size, 1, 10**9)
    _alike(pixels, labels)
    each = vmap(grad(sample_loss(model)), in_dims=(None, 0, 0))
    weights = {name: value.detach() for name, value in model.named_parameters()}
    parts = []
    for some, their in zip(torch.split(pixels, size), torch.split(labels, size), strict=True):
        found = each(weights, some, their)
        parts.append(torch.cat([found[name].flatten(1) for name in weights], dim=1).cpu())
    return torch.cat(parts)


def mean_gradient(model: nn.Module, pixels: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Gradient of the mean cross-entropy loss.

    Args:
        model: takes pictures, returns class scores.
        pixels: shape (n, ...).
        labels: shape (n,).

    Returns:
        Shape (d,), in the order of ``parameters()``, on the CPU.

    Raises:
        ValueError: another number of labels than of pictures.

    Example: at equal scores half of the picture for the wrong class, and minus half of it for the right one.
        >>> import torch
        >>> from dptheory.training.networks import mean_gradient
        >>> model = torch.nn.Linear(1, 2, bias=False)
        >>> _ = torch.nn.init.zeros_(model.weight)
        >>> mean_gradient(model, torch.ones(4, 1), torch.zeros(4, dtype=torch.long))
        tensor([-0.5000,  0.5000])
    """
    _alike(pixels, labels)
    parameters = list(model.parameters())
    total = torch.cat([torch.zeros_like(value).flatten() for value in parameters])
    for some, their in zip(torch.split(pixels, _MEAN_CHUNK), torch.split(labels, _MEAN_CHUNK), strict=True):
        loss = nn.functional.cross_entropy(model(some), their, reduction="sum")
        total += torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
    return (total / len(labels)).detach().cpu()


def _alike(pixels: torch.Tensor, labels: torch.Tensor) -> None:
    if len(pixels) != len(labels):
        raise ArgumentError("labels", f"be as many as the {len(pixels)} pixels", len(labels))
