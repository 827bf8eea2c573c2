"""What a loop lets an auditor see: the gradients of all its steps with the weights at which they were taken, or models."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dptheory import _validate
from dptheory.errors import ArgumentError

Array = NDArray[np.float64]
_CHUNK = 64
"""Canaries whose gradients are formed at a time."""
_MOST_PAIRS, _MOST_ENTRIES = 2_500**2, 10**8
"""Of canaries, and of entries of their gradients, up to which what they have in common is taken out."""
_ORTHOGONAL = 1e-3


class Steps:
    """All gradients that a loop releases, and the weights before every step; what ``train`` returns where gradients are seen.

    Call :meth:`add` after every ``optimizer.step()``: Opacus leaves the noisy gradient in ``p.grad`` then. Everything is copied.

    Args:
        model: before the first step, plain or wrapped by Opacus.

    Raises:
        ValueError: something else.

    Example: one step of plain SGD.
        >>> import torch
        >>> from dptheory.training.audits import Steps
        >>> model = torch.nn.Linear(2, 1)
        >>> steps = Steps(model)
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> steps.add()
        >>> len(steps), steps.gradients[0]["weight"]
        (1, tensor([[1., 1.]]))
    """

    def __init__(self, model: nn.Module) -> None:
        _validate.instance("model", model, nn.Module)
        self._live = model
        plain = getattr(model, "_module", model)
        self._names = [name for name, weight in plain.named_parameters() if weight.requires_grad]
        self._weights = self._now()
        self.model = _copied(plain)
        self.weights: list[dict[str, Tensor]] = []
        self.gradients: list[dict[str, Tensor]] = []

    def add(self) -> None:
        """Take what stands in the gradients as released by this step.

        Raises:
            ValueError: no gradient.
        """
        own = dict(getattr(self._live, "_module", self._live).named_parameters())
        missing = [name for name in self._names if own[name].grad is None]
        if missing:
            raise ArgumentError("model", "have a gradient of every tensor after the step", missing)
        self.gradients.append({name: own[name].grad.detach().cpu().clone() for name in self._names})
        self.weights.append(self._weights)
        self._weights = self._now()

    def __len__(self) -> int:
        return len(self.gradients)

    def _now(self) -> dict[str, Tensor]:
        own = dict(getattr(self._live, "_module", self._live).named_parameters())
        return {name: own[name].detach().cpu().clone() for name in self._names}


def loss_of(model: Callable[[Tensor], Tensor], features: Tensor, labels: Tensor) -> Tensor:
    """The loss of each record: cross-entropy for whole labels with more than one output, else half the squared error."""
    outputs = model(features)
    if outputs.ndim == 2 and outputs.shape[1] > 1 and not labels.is_floating_point():
        return nn.functional.cross_entropy(outputs, labels, reduction="none")
    wanted = labels.to(outputs.dtype).reshape(outputs.shape) if labels.numel() == outputs.numel() else labels
    return (0.5 * (outputs - wanted) ** 2).flatten(1).sum(1)


def model_scores(models: list[nn.Module], records: Any, score: Callable[[Any, Any], Any] | None) -> Array:
    """Mean over the models of the score of each record: minus the loss where none is given."""
    total = np.zeros(len(records))
    for model in models:
        total += (
            [_number(score(model, records[i])) for i in range(len(records))] if score else _minus_loss(model, records)
        )
    return np.asarray(total / len(models))


@dataclass(frozen=True)
class Seen:
    """Of every released gradient, in the unit of C / B, and every canary, arrays of shape (steps, canaries).

    Attributes:
        along: the gradient along that of the canary.
        sharp: the same without what other canaries would leave there, 1 for a canary that was drawn.
        variance: of ``sharp``, where the noise is what was stated.
    """

    along: Array
    sharp: Array
    variance: Array


def seen(
    steps: Steps,
    records: Any,
    *,
    unit: float,
    noise: float,
    share: float,
    done: Callable[[int], None],
) -> Seen:
    """What every step shows of each canary.

    The canaries' gradients u at the weights of a step are not quite orthogonal. With noise of variance sigma^2 and each canary in the
    batch with variance v, the estimate of membership with the least error is (K + sigma^2 / v)^-1 U g with K = U U^T; scaled to 1 for
    its own canary it has the variance v (1 - r) / r, r = [(K + sigma^2 / v)^-1 K]_ii.

    Args:
        steps: what was released.
        records: the canaries.
        unit: of a released gradient, C / B where it was stated.
        noise: sigma.
        share: v, q / 2 where it was stated.
        done: called after every step.
    """
    features, labels = _stacked(records)
    of_each = _gradients_of(steps.model)
    size = (len(steps), len(features))
    along, sharp, variance = np.zeros(size), np.zeros(size), np.full(size, noise**2)
    together = len(features) ** 2 <= _MOST_PAIRS and len(features) * _entries(steps) <= _MOST_ENTRIES
    for step, (weights, released) in enumerate(zip(steps.weights, steps.gradients, strict=True)):
        pieces = []
        flat = torch.cat([released[name].flatten() for name in weights]) / unit
        for start in range(0, len(features), _CHUNK):
            rows = slice(start, start + _CHUNK)
            try:
                own = of_each(weights, features[rows], labels[rows])
            except RuntimeError as error:
                raise ArgumentError(
                    "score",
                    "be given for a model whose per-sample gradients torch.func.vmap cannot form",
                    None,
                    then=f": {error}",
                ) from None
            directions = torch.cat([own[name].flatten(1) for name in weights], dim=1)
            directions = directions / torch.linalg.vector_norm(directions, dim=1, keepdim=True).clamp(min=1e-30)
            along[step, rows] = (directions @ flat).numpy()
            if together:
                pieces.append(directions)
        sharp[step] = along[step]
        if together:
            sharp[step], variance[step] = _sharpened(torch.cat(pieces), along[step], noise, share)
        done(step + 1)
    return Seen(along, sharp, variance)


def _sharpened(directions: Tensor, along: Array, noise: float, share: float) -> tuple[Array, Array]:
    some = (directions[:_CHUNK] @ directions.T).numpy()
    if np.abs(some - np.eye(*some.shape) * some).max() < _ORTHOGONAL:
        return along, np.full(along.size, noise**2)
    shared = (directions @ directions.T).double().numpy()
    solved = np.linalg.solve(shared + np.eye(along.size) * noise**2 / share, np.column_stack([shared, along]))
    own = np.clip(np.diag(solved[:, :-1]), 1e-12, 1.0 - 1e-12)
    return solved[:, -1] / own, share * (1.0 - own) / own


def _gradients_of(plain: nn.Module) -> Callable[..., dict[str, Tensor]]:
    def loss(weights: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        def call(inputs: Tensor) -> Tensor:
            return cast(Tensor, torch.func.functional_call(plain, weights, (inputs,)))

        return loss_of(call, one[None], label[None])[0]

    return cast(
        Callable[..., dict[str, Tensor]],
        torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), randomness="same"),
    )


def _entries(steps: Steps) -> int:
    return sum(one.numel() for one in steps.gradients[0].values())


def likelihood(found: Seen, sampling_rate: float) -> Array:
    """Log-likelihood ratios of in and out over all steps."""
    exponent = (2.0 * found.sharp - 1.0) / (2.0 * np.maximum(found.variance, 1e-12))
    with np.errstate(divide="ignore"):
        joined = np.logaddexp(math.log(sampling_rate) + exponent, np.log1p(-sampling_rate))
    return np.asarray(joined.sum(axis=0))


def records_of(records: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and labels as tensors, in chunks."""
    for start in range(0, len(records), 256):
        rows = [records[i] for i in range(start, min(start + 256, len(records)))]
        try:
            yield torch.stack([row[0] for row in rows]), torch.stack([torch.as_tensor(row[1]) for row in rows])
        except (TypeError, RuntimeError, IndexError):
            raise ArgumentError(
                "score", "be given where records are no pairs of tensors of one shape", rows[0]
            ) from None


def _stacked(records: Any) -> tuple[Tensor, Tensor]:
    pieces = list(records_of(records))
    return torch.cat([one for one, _ in pieces]), torch.cat([label for _, label in pieces])


def _minus_loss(model: nn.Module, records: Any) -> Array:
    plain = getattr(model, "_module", model)
    training, device = plain.training, next((p.device for p in plain.parameters()), torch.device("cpu"))
    plain.eval()
    try:
        with torch.no_grad():
            found = [
                loss_of(plain, one.to(device), label.to(device)).double().cpu() for one, label in records_of(records)
            ]
    finally:
        plain.train(training)
    # a loss that is not a number says nothing
    return np.asarray(-torch.nan_to_num(torch.cat(found), nan=0.0, posinf=1e300).numpy())


def _number(value: Any) -> float:
    found = float(value)
    return 0.0 if math.isnan(found) else found


def _copied(plain: nn.Module) -> nn.Module:
    """Without the hooks of Opacus, and in evaluation mode: no dropout, no statistics of a batch."""
    other = copy.deepcopy(plain)
    vars(other).pop("autograd_grad_sample_hooks", None)  # by which Opacus knows a model that has its hooks
    for module in other.modules():
        module._forward_hooks.clear()
        module._backward_hooks.clear()
        module._forward_pre_hooks.clear()
    for weight in other.parameters():
        weight.grad = None
        if hasattr(weight, "grad_sample"):
            weight.grad_sample = None
    return other.eval().cpu()
