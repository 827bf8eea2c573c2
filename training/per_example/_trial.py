"""Which layers keep examples apart in their rows: two and three rows of a batch, passed before the first step, tell.

A layer's hook takes its rows for the examples. That is right for a layer with two rows for two examples and three for three, and
never for one whose number of rows is another: one row for all (position embeddings), one for each place (relative positions), or
several for each example (windows of an image, tokens behind one another). Equal numbers in one batch tell nothing: a prompt may
have as many tokens as the batch has examples.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as tree

from dptheory.training._randomness import RandomStates
from dptheory.training.per_example._formed import Formed
from dptheory.training.per_example._representation import Representation

FEW, MORE, EACH = 2, 3, 7
"""Examples of the two passes, and of those for each example by itself."""
OF_HALF_ROWS, _OF_ROWS = 3e-2, 3e-3
"""Largest difference between a gradient and its rows' sum, as a share of the rows' norms: in half precision, and in any other
(models compute in float32 in places)."""
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(eq=False)
class Watch:
    """What the hooks note in a pass of the trial: the rows of each call, and hooks without a rule for what their layer did."""

    rows: dict[Any, list[int]] = field(default_factory=dict)
    failed: set[Any] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Of a pass.

    Attributes:
        watch: what the hooks noted.
        outputs: of the network.
        unlike: parameters whose per-example gradients do not add up to the gradient, or are not there.
        astray: parameters with gradients of examples that the loss does not hold, or none of the one that it holds.
    """

    watch: Watch
    outputs: list[torch.Tensor]
    unlike: list[nn.Parameter]
    astray: list[nn.Parameter]


def passed(private: Any, leaves: Sequence[Any], spec: tree.TreeSpec, count: int, *, held: int | None = None) -> Outcome:
    """A pass forward and back of the first ``count`` examples with all of their rows, of fewer again and again; nothing of it stays.

    The loss is one of all outputs, or of example ``held`` alone: where every output has its rows.
    """
    arguments, views = private.passes.arguments, private.passes.views
    rows = count * views
    taken, parts = torch.arange(rows) % arguments.examples(leaves), list(leaves)
    for place in arguments.places(leaves):
        parts[place] = parts[place].detach()[taken.to(parts[place].device)]
    args, kwargs = tree.tree_unflatten(parts, spec)
    params = [p for p in private._module.parameters() if p.requires_grad]
    kept = [(p, p.grad, getattr(p, "grad_sample", None)) for p in params]
    before, states = private.passes.rows, RandomStates.now()
    private.passes.watch, private.passes.rows = Watch(), rows
    for p in params:
        p.grad = p.grad_sample = None
    try:
        with torch.enable_grad():
            with saved_tensors_hooks(_as_it_is, _as_it_is):
                given = private._module(*args, **kwargs)
            outputs = [one for one in tree.tree_leaves(given) if isinstance(one, torch.Tensor)]
            ends = [one for one in outputs if one.requires_grad]
            own = slice(None) if held is None else slice(held * views, (held + 1) * views)
            by_example = held is None or all(one.dim() and len(one) == rows for one in ends)
            if ends and by_example:
                torch.autograd.backward(ends, [_slope(one, at, own) for at, one in enumerate(ends)])
        hooked = private.passes.of_hooks(params)
        unlike = _unlike(hooked, count if private.loss_reduction == "mean" else 1 / views)
        astray = [] if held is None else _astray(hooked, held) if by_example else hooked
        return Outcome(private.passes.watch, [one.detach() for one in outputs], unlike, astray)
    finally:
        states.restore()
        private.passes.watch, private.passes.rows = None, before
        private.passes.put_back()
        private.passes.filled.clear()
        for p, gradient, samples in kept:
            p.grad, p.grad_sample = gradient, samples


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    """What a pass saves is its own: a checkpoint around the model counts what is saved."""
    return tensor


def _slope(output: torch.Tensor, number: int, own: slice) -> torch.Tensor:
    """Some gradient for an output, 0 outside of ``own`` rows; in them numbers in [1/2, 3/2), which no symmetry of a network cancels."""
    places = torch.arange(1, output.numel() + 1, dtype=torch.float64) * _GOLDEN + number / 7
    slope = places.frac().add_(0.5).view(output.shape).to(output.device, output.dtype)
    if own == slice(None):
        return slope
    found = torch.zeros_like(slope)
    found[own] = slope[own]
    return found


def _astray(params: Sequence[Any], held: int) -> list[nn.Parameter]:
    """No gradient is no evidence: a head that starts at zero hides whose it is."""

    def moved(p: Any) -> list[int]:
        rows = _rows(p)
        return [] if rows is None else [at for at, norm in enumerate(rows.square_norms().tolist()) if norm != 0.0]

    return [p for p in params if moved(p) != [held]]


def _rows(p: Any) -> Representation | None:
    """The per-example gradients at a parameter."""
    found = getattr(p, "grad_sample", None)
    return found if found is None or isinstance(found, Representation) else Formed(found)


def _unlike(params: Sequence[Any], divisor: float) -> list[nn.Parameter]:
    held = [(p, _rows(p)) for p in params if p.grad is not None]
    there = [(p, one) for p, one in held if one is not None]
    largest = max((size_of(rows, divisor) for _, rows in there), default=0.0)
    found = [p for p, one in held if one is None]
    for p, rows in there:
        off, half = off_the_sum(rows, p.grad, divisor)
        if off > (OF_HALF_ROWS if half else _OF_ROWS) * largest:
            found.append(p)
    return found


def size_of(rows: Representation, divisor: float) -> float:
    """Sum of the norms of the rows, which their rounding goes with, in the scale of the gradient."""
    return float(rows.square_norms().sqrt().sum()) / divisor


def off_the_sum(rows: Representation, gradient: torch.Tensor, divisor: float) -> tuple[float, bool]:
    """How far the rows are from adding up to a gradient, and whether the one or the other was worked out in half precision."""
    total = rows.weighted_sum(torch.ones(len(rows), device=gradient.device)) / divisor
    # autocast has rows in half precision, weights not
    half = min(torch.finfo(rows.computed_in).bits, torch.finfo(gradient.dtype).bits) < 32
    return float((total - gradient).norm()), half


def of_examples(few: Outcome, more: Outcome, *, views: int = 1) -> bool:
    """Whether the first dimension of what the network takes is one of examples: some of what it gives has as many rows."""
    rows = {(len(a), len(b)) for a, b in zip(few.outputs, more.outputs, strict=False) if a.dim() and b.dim()}
    rows |= {
        pair
        for hook, first in few.watch.rows.items()
        for pair in zip(first, more.watch.rows.get(hook, []), strict=False)
    }
    return (
        FEW * views,
        MORE * views,
    ) in rows or not rows  # a loss worked out within the network, and no layer with a hook


def not_apart(few: Watch, more: Watch, *, views: int = 1) -> tuple[set[Any], set[Any]]:
    """Hooks whose layers have one row for all in some of their calls, and those whose rows are no examples."""
    one, other = set(), set()
    whole = FEW * views, MORE * views
    for hook in few.rows | more.rows:
        first, second = few.rows.get(hook, []), more.rows.get(hook, [])
        pairs = set(zip(first, second, strict=False))
        if (max(first, default=0), max(second, default=0)) == whole and hook.of_packed:
            continue  # ever fewer sequences, each in its row
        if len(first) != len(second) or not pairs <= {whole, (1, 1)}:
            other.add(hook)
        elif (1, 1) in pairs:
            one.add(hook)
    return one, other


def same(before: Sequence[Outcome], after: Sequence[Outcome]) -> bool:
    """Whether passes of the same rows gave the same outputs."""
    return all(_alike(one, other) for one, other in zip(before, after, strict=True))


def _alike(one: Outcome, other: Outcome) -> bool:
    """Whether two passes of the same rows gave the same."""
    if [a.shape for a in one.outputs] != [b.shape for b in other.outputs]:
        return False
    for a, b in zip(one.outputs, other.outputs, strict=True):
        if not a.is_floating_point():
            continue
        unit = max(torch.finfo(a.dtype).eps, torch.finfo(torch.float32).eps)
        scale, gap = a.double().nan_to_num(), (a.double() - b.double()).nan_to_num()
        if float(gap.abs().max() if gap.numel() else 0.0) > unit**0.5 * float(
            scale.abs().max() if scale.numel() else 0.0
        ):
            return False
    return True
