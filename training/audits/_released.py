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
_LARGEST = 2**24
"""Entries of the gradients that are formed at a time."""
_SOME = 64
"""Canaries that are compared with all others before their products are formed."""
_MOST_PAIRS, _MOST_ENTRIES = 2_500**2, 10**8
"""Of canaries, and of entries of their gradients, up to which what they have in common is taken out."""
_ORTHOGONAL, _TINY = 1e-3, 1e-30
_ALIKE = 16
"""Canaries of a label from which their mean is taken for what is common to them."""


class _Rows:
    """Counts the rows whose gradients a model was asked for; a class, so that the model can still be copied and saved."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        if isinstance(outputs, Tensor) and outputs.requires_grad and outputs.ndim:
            outputs.register_hook(self._add)  # type: ignore[no-untyped-call]

    def _add(self, gradient: Tensor) -> None:
        self.count += len(gradient)


class Steps:
    """All gradients that a loop releases, and the weights before every step; what ``train`` returns where gradients are seen.

    Call :meth:`add` after every ``optimizer.step()``: Opacus leaves the noisy gradient in ``p.grad`` then. Everything is copied. The
    rows that went backward through the model are counted, too.

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
        self.rows: list[int] = []
        self._counter = _Rows()
        plain.register_forward_hook(self._counter)
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
        self.rows.append(self._counter.count)
        self._counter.count = 0
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
        along: the gradient along that of the canary, less what all canaries of its label have in common; in the tensors that are
            large enough for a direction of each.
        size: how far a canary that was drawn moves that: the norm of its gradient there, clipped, over C.
        sharp: the estimate of membership, without what other canaries would leave there: 1 for a canary that was drawn.
        variance: of ``sharp``, where the noise is what was stated.
        parts: of every tensor, ``along`` and ``size`` of it alone, added up over the steps; shape (2, canaries).
    """

    along: Array
    size: Array
    sharp: Array
    variance: Array
    parts: dict[str, Array]


def seen(
    steps: Steps,
    records: Any,
    *,
    clip: float,
    unit: float,
    noise: float,
    share: float,
    done: Callable[[int], None],
) -> Seen:
    """What every step shows of each canary.

    The canaries' clipped gradients u over C at the weights of a step are not quite orthogonal. With noise of variance sigma^2 and each
    canary in the batch with variance v, the estimate of membership with the least error is (K + sigma^2 / v)^-1 U g with K = U U^T;
    scaled to 1 for its own canary it has the variance v (1 - r) / r, r = [(K + sigma^2 / v)^-1 K]_ii.

    Args:
        clip: C; infinite where it is not known, and no canary is taken to be shorter.
        unit: of a released gradient, C / B where it was stated.
        share: v, q / 2 where it was stated; as large is the mean of what a canary leaves.
    """
    features, labels = _stacked(records)
    of_each = _gradients_of(steps.model)
    names = list(steps.gradients[0])
    empty = (len(steps), len(features))
    along, size, sharp, variance = np.zeros(empty), np.ones(empty), np.zeros(empty), np.ones(empty)
    parts = np.zeros((len(names), 2, len(features)))
    # a smaller tensor cannot hold a direction of its own for every canary: what it says of one is mostly of all others
    kept = [i for i, name in enumerate(names) if steps.gradients[0][name].numel() >= len(features)] or [
        *range(len(names))
    ]
    groups = [group for label in set(labels.tolist()) if len(group := np.flatnonzero(labels == label)) >= _ALIKE]
    chunk = max(1, min(1024, _LARGEST // _entries(steps)))
    together = len(features) ** 2 <= _MOST_PAIRS and len(features) * _entries(steps) <= _MOST_ENTRIES
    for step, (weights, released) in enumerate(zip(steps.weights, steps.gradients, strict=True)):
        pieces = []
        for start in range(0, len(features), chunk):
            rows = slice(start, start + chunk)
            try:
                own = of_each(weights, features[rows], labels[rows])
            except RuntimeError as error:
                raise ArgumentError(
                    "score",
                    "be given for a model whose per-sample gradients torch.func.vmap cannot form",
                    None,
                    then=f": {error}",
                ) from None
            flat = [own[name].flatten(1) for name in names]
            norms = torch.stack([torch.linalg.vector_norm(one, dim=1) for one in flat])
            products = torch.stack([one @ released[name].flatten() for one, name in zip(flat, names, strict=True)])
            whole = torch.linalg.vector_norm(norms, dim=0).clamp(min=_TINY)
            short = (whole / clip).clamp(max=1.0) if math.isfinite(clip) else torch.ones_like(whole)
            own_norm = torch.linalg.vector_norm(norms[kept], dim=0)
            along[step, rows] = (products[kept].sum(0) / own_norm.clamp(min=_TINY) / unit).numpy()
            size[step, rows] = (own_norm / whole * short).numpy()
            parts[:, 0, rows] += (products / norms.clamp(min=_TINY) / unit).numpy()
            parts[:, 1, rows] += (norms / whole * short).numpy()
            if together:
                pieces.append(torch.cat([flat[i] for i in kept], dim=1) * (short / whole)[:, None])
        for group in groups:  # records of a label push all its canaries alike, which tells of none of them
            along[step, group] -= along[step, group].mean() - share * size[step, group].mean()
        shift = np.maximum(size[step], 1e-6)
        sharp[step], variance[step] = along[step] / shift, (noise / shift) ** 2
        if together:
            directions = torch.cat(pieces)
            if not _orthogonal(directions):
                sharp[step], variance[step] = _sharpened(directions, along[step] * shift, noise, share)
        done(step + 1)
    return Seen(along, size, sharp, variance, dict(zip(names, parts, strict=True)))


def _orthogonal(directions: Tensor) -> bool:
    some = (directions[:_SOME] @ directions.T).numpy()
    return bool(np.abs(some - np.eye(*some.shape) * some).max() < _ORTHOGONAL)


def _sharpened(directions: Tensor, along: Array, noise: float, share: float) -> tuple[Array, Array]:
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
