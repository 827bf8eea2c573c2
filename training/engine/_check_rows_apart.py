"""Whether a model and its loss keep the records of a batch apart: for loops of plain Opacus."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from opacus import GradSampleModule
from torch import nn

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training._randomness import RandomStates, fresh_generator
from dptheory.training.engine._dry_steps import DryForward
from dptheory.training.engine._hooked_layers import check_layers
from dptheory.training.engine._rows_apart import (
    CANDIDATES,
    Passed,
    Rounding,
    by_example,
    fingerprint,
    mixed,
    read,
    replacements,
    still,
)
from dptheory.training.engine._sample_gradients import of_one_batch
from dptheory.training.per_example import FACTORS, HookedModule


def check_rows_apart(
    model: nn.Module,
    batch: Sequence[torch.Tensor] | Mapping[str, torch.Tensor],
    loss: Callable[[nn.Module, Any], torch.Tensor],
    *,
    views: int = 1,
) -> None:
    """See that no record of a batch changes another one's gradient, as DP-SGD needs it and Opacus does not check.

    The gradients of a batch are compared with those of the same batch in which a record is replaced by another of its records,
    the most different ones first. Random states are the same for both and as before afterwards, and dropout rests. What no
    record of the batch shows is not seen: give it records of all kinds, lengths and labels.

    Args:
        model: in training mode; of Opacus (``GradSampleModule``), or a plain one, of which a copy is wrapped.
        batch: tensors with the records first, in a tuple, a list or a dictionary; two records or more.
        loss: of the model and a batch, a scalar: what the loop does up to ``backward()``.
        views: rows of a record in the batch, which lie together; its gradient is the mean over them. At least 1, and for a model of
            Opacus 1: it takes every row for a record.

    Raises:
        ValueError: a record changes another one's gradient: the layer is named, or the loss, and what to write instead. Or the
            batch cannot be compared: it has fewer than two records, gives other gradients each time, or goes through a layer
            without per-sample gradients.

    Example: a mean over the tokens of all records makes one record's gradient depend on the others' lengths.
        >>> import torch
        >>> from dptheory.training import check_rows_apart
        >>> model = torch.nn.Linear(3, 5)
        >>> labels = torch.tensor([[0, 1, 2, 3], [4, -100, -100, -100], [1, 0, -100, -100]])
        >>> def loss(model, batch, reduction):
        ...     scores = model(batch[0]).transpose(1, 2)
        ...     return torch.nn.functional.cross_entropy(scores, batch[1], ignore_index=-100, reduction=reduction)
        >>> def by_record(model, batch):
        ...     return (loss(model, batch, "none").sum(1) / (batch[1] != -100).sum(1)).mean()
        >>> check_rows_apart(model, (torch.rand(3, 4, 3), labels), by_record)
        >>> by_token = lambda model, batch: loss(model, batch, "mean")
        >>> check_rows_apart(model, (torch.rand(3, 4, 3), labels), by_token)  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
            ...
        ArgumentError: records must stay apart
    """
    _validate.instance("model", model, nn.Module)
    if not callable(loss):
        raise ArgumentError("loss", "be a function of the model and a batch", loss)
    if not model.training:
        raise ArgumentError("model", "be in training mode", model, got="one after eval(): call model.train()")
    views = _validate.integer("views", views, 1)
    rows = _records(batch, views)
    private = model
    if not isinstance(model, GradSampleModule):
        check_layers(model)  # what the hooks do not reach would not be compared
        private = HookedModule(
            copy.deepcopy(model), mode=FACTORS, views=views, looks=False
        )  # with rows as Opacus takes them
    held_as = private.passes.views if isinstance(private, HookedModule) else 1
    if held_as != views:
        raise ArgumentError("views", f"be those that the model was made private with, {held_as}", views)
    names: dict[Any, str] = {p: name for name, p in private.named_parameters() if p.requires_grad}
    states, forward = RandomStates.now(), DryForward(private)
    held = [(p, p.grad) for p in names]
    rng = np.random.default_rng(fresh_generator().initial_seed())
    seed = int(rng.integers(2**62))

    def passed(sources: list[int]) -> tuple[Passed, Rounding]:
        states.restore()
        for p in names:
            p.grad_sample = p.grad = None
        handle = private.register_forward_pre_hook(lambda _, *inputs: forward.begin(inputs), with_kwargs=True)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings(
                    "ignore", "Full backward hook"
                )  # of inputs without a gradient, as all inputs are
                torch.autograd.backward(loss(private, _taken(batch, sources, views)))
        finally:
            handle.remove()
            forward.end()
        samples = of_one_batch(list(names), names)
        found = [(name, by_example(one, views)) for name, one in forward.parts[0]] if len(forward.parts) == 1 else []
        rows = fingerprint(samples, seed)
        return Passed(rows, found, torch.full((len(rows),), float(len(rows)))), Rounding.of(
            samples, *forward.precisions
        )

    try:
        plain = list(range(rows))
        (first, rounding), (again, _) = passed(plain), passed(plain)
        if not still(first.rows, again.rows, rounding):
            raise ArgumentError(
                "loss", "give a batch the same gradients each time", loss, got="others: leave out what is random"
            )
        for swaps in _swaps(batch, rows, views, rng):
            other, _ = passed([swaps.get(row, row) for row in plain])
            if other.rows.shape != again.rows.shape:
                raise ArgumentError(
                    "loss", "give a batch one gradient for each record", loss, got="another number of gradients"
                )
            if fault := mixed(again, other, swaps.keys(), list(names.values()), rounding):
                raise fault
    finally:
        states.restore()
        for p, gradient in held:
            p.grad_sample, p.grad = None, gradient


def _swaps(batch: Any, rows: int, views: int, rng: np.random.Generator) -> list[dict[int, int]]:
    """Which record takes whose place, drawn twice: the farthest one, and in half of the batch, then in the rest, those of one label."""
    found = []
    for _ in range(2):
        own = rng.permutation(rows)[:CANDIDATES].tolist()
        parts = read([_taken(batch, [row], views, squeeze=True) for row in range(rows)], own)  # type: ignore[arg-type]
        for taken in replacements(parts, parts, np.eye(len(own), dtype=bool), rng):
            found.append({own[row]: own[source] for row, source in taken.items()})
    return found


def _records(batch: Any, views: int) -> int:
    tensors = (
        list(batch.values()) if isinstance(batch, Mapping) else list(batch) if isinstance(batch, list | tuple) else []
    )
    sizes = {len(one) for one in tensors if isinstance(one, torch.Tensor) and one.dim()}
    if len(sizes) != 1 or max(sizes) < 2 * views or max(sizes) % views:
        number = "2 or more" if views == 1 else f"{views} for each of 2 records or more"
        raise ArgumentError(
            "batch", f"be a tuple or a dictionary of tensors that all have the same number of rows, {number}", batch
        )
    return int(max(sizes)) // views


def _taken(batch: Any, sources: list[int], views: int, *, squeeze: bool = False) -> Any:
    rows = [source * views + view for source in sources for view in range(views)]

    def taken(one: Any) -> Any:
        if not isinstance(one, torch.Tensor) or not one.dim():
            return one
        return one[rows[0]] if squeeze else one[torch.tensor(rows, device=one.device)]

    if isinstance(batch, Mapping):
        return {name: taken(one) for name, one in batch.items()}
    return type(batch)(taken(one) for one in batch)
