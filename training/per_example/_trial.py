"""Which layers keep examples apart in their rows: two and three rows of a batch, passed before the first step, tell.

A layer's hook takes its rows for the examples. That is right for a layer with two rows for two examples and three for three, and
never for one whose number of rows is another: one row for all (position embeddings), one for each place (relative positions), or
several for each example (windows of an image, tokens behind one another). Equal numbers in one batch tell nothing: a prompt may
have as many tokens as the batch has examples.

Nor do they tell whose a row is: a network may sort its examples by length and put them back. A loss that holds some examples alone
leaves gradients in their rows and in no other, or the rows are not theirs; no gradient is no evidence.
"""

import itertools
import math
import random
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.utils import parametrize
from torch.utils import _pytree as tree

from dptheory.training._randomness import RandomStates
from dptheory.training.per_example._formed import Formed
from dptheory.training.per_example._layer_gradients import attributes_of
from dptheory.training.per_example._representation import Representation
from dptheory.training.per_example._whole_network import spectral_norms_at_rest

FEW, MORE, EACH = 2, 3, 7
"""Examples of the two passes, and of those for each example by itself."""
PLACES = 4
"""Passes of a batch that have looks of their own, the later ones those of the last: a batch may be taken in hundreds."""
OF_HALF_ROWS, _OF_ROWS = 3e-2, 3e-3
"""Largest difference between a gradient and its rows' sum, as a share of the rows' norms: in half precision, and in any other
(models compute in float32 in places)."""
_GOLDEN = (5**0.5 - 1) / 2
_PLAIN, _TABLES = {bool, int, float, str, set, type(None)}, {dict, OrderedDict}
"""Kinds of attributes in which a tree has no tensor, and those in which it has none where they are empty."""
_NUMBERS = itertools.count(-1, -1)
"""Of passes of trials, which none of the loop has."""


@dataclass(eq=False)
class Watch:
    """What the hooks note in a pass of the trial: the rows and outputs of each call, and hooks without a rule for their layer."""

    rows: dict[Any, list[int]] = field(default_factory=dict)
    outputs: list[torch.Tensor] = field(default_factory=list)
    failed: set[Any] = field(default_factory=set)


@dataclass(eq=False)
class Looks:
    """Before which passes it is seen whose the rows of the batch are: the 1st, 4th, 16th, ..., and those of more examples than ever.

    What sorts by length has done nothing to examples of one length, and what acts on many nothing to the few of the trial. The
    second pass of a batch may be of other inputs than the first: all passes have these, and so have those of each place in a batch.
    """

    passes: int = 0
    next: int = 4
    largest: int = 1
    anew: bool = True

    def due(self, examples: int) -> list[tuple[int, list[int]]]:
        """Before a pass: how many examples passes have, and which of them they hold; one example tells nothing.

        Each of few, or of the first few where hooks were put on anew; then half, drawn at random: two that change places are on two
        sides of it half of the time, and many hardly ever all on one.
        """
        self.passes += examples > 1
        if examples < 2 or not (self.anew or examples > self.largest or self.passes >= self.next):
            return []
        first = min(EACH, examples) if self.anew or examples <= EACH else 0
        self.anew, self.largest = False, max(self.largest, examples)
        self.next *= 4 if self.passes >= self.next else 1
        half = random.Random(self.passes).sample(range(examples), examples // 2)
        return [*((first, [held]) for held in range(first)), (examples, half)]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Of a pass.

    Attributes:
        watch: what the hooks noted.
        outputs: of the network.
        unlike: parameters whose per-example gradients do not add up to the gradient, or are not there; none where examples are held.
        astray: parameters with gradients in rows of examples that the loss does not hold.
        unproven: those, and parameters without a gradient in the row of one that it holds.
        seen: something has rows that show whose they are, or none is needed.
    """

    watch: Watch
    outputs: list[torch.Tensor]
    unlike: list[nn.Parameter]
    astray: list[nn.Parameter]
    unproven: list[nn.Parameter]
    seen: bool = True


def passed(
    private: Any,
    leaves: Sequence[Any],
    spec: tree.TreeSpec,
    count: int,
    *,
    held: Collection[int] | None = None,
    places: Collection[int] = (),
    within: bool = False,
    inputs: bool = False,
) -> Outcome:
    """A pass forward and back of the first ``count`` examples with all of their rows, of fewer again and again.

    Nothing of it stays, but in what hooks of the loop keep: a backward pass through that is refused. The loss is one of all outputs,
    and of what layers keep as attributes, where a loss may read it.

    Args:
        held: examples that the loss is of, by the outputs that have their rows (``places``).
        within: it is one of the outputs of layers with hooks, too: all must have one order. Which is the batch's is not known where no
            output of the network has rows, and all parameters are astray where one is.
        inputs: what the network takes must have that order, too; otherwise all are astray.
    """
    arguments, views = private.passes.arguments, private.passes.views
    rows = count * views
    taken, at, given_in = torch.arange(rows) % arguments.examples(leaves), arguments.places(leaves), []
    rest = {i: one.detach().clone() for i, one in enumerate(leaves) if isinstance(one, torch.Tensor) and i not in at}
    parts = [rest.get(i, one) for i, one in enumerate(leaves)]
    for place in at:
        parts[place] = parts[place].detach()[taken.to(parts[place].device)]
        if inputs and parts[place].is_floating_point():
            given_in.append(parts[place].requires_grad_())
            parts[place] = parts[place].clone()  # it may be written in place
    args, kwargs = tree.tree_unflatten(parts, spec)
    params = [p for p in private._module.parameters() if p.requires_grad]
    kept = [
        (p, p.grad, getattr(p, "grad_sample", None), p._backward_hooks, p._post_accumulate_grad_hooks) for p in params
    ]
    old, filled, put_back = _attributes(private._module), dict(private.passes.filled), attributes_of(private._module)
    before, states, watch = (private.passes.rows, private.passes.number), RandomStates.now(), Watch()
    try:
        private.passes.watch, private.passes.rows, private.passes.number = watch, rows, next(_NUMBERS)
        for p in params:
            p.grad = p.grad_sample = None
            if p._backward_hooks:
                p._backward_hooks = None
            if p._post_accumulate_grad_hooks:  # they are for gradients of the loop, and may step an optimizer
                p._post_accumulate_grad_hooks = {}  # None leaves them
        with torch.enable_grad(), spectral_norms_at_rest(private._module):
            with saved_tensors_hooks(_as_it_is, _as_it_is):
                given = private._module(*args, **kwargs)
            outputs = [one for one in tree.tree_leaves(given) if isinstance(one, torch.Tensor)]
            outputs += [one for one in _attributes(private._module) if not any(one is other for other in old)]
            ends = {at: one for at, one in enumerate(outputs) if one.requires_grad}
            own = [example * views + view for example in held or () for view in range(views)]
            of_held = {at: one for at, one in ends.items() if at in places and one.shape[:1] == (rows,)}
            layers = [one for one in watch.outputs if within and one.shape[:1] == (rows,)]
            if held is None:
                _back(list(ends.values()), [_slope(one, at) for at, one in ends.items()])
            else:
                slopes = [_of_rows_alone(_slope(one[0], 0), one, own) for one in of_held.values()]
                _back([*of_held.values(), *layers], slopes + [_held_slope(one, own) for one in layers])
        hooked = private.passes.of_hooks(params)
        seen = [one.detach() for one in outputs]
        if held is None:
            unlike = _unlike(hooked, count if private.loss_reduction == "mean" else 1 / views)
            return Outcome(watch, seen, unlike, [], [])
        astray, unproven = _astray(hooked, set(held))
        if (not places) if astray else any(_others(one, own) for one in given_in):
            astray = hooked
        unproven = unproven if of_held.keys() == ends.keys() else hooked
        return Outcome(watch, seen, [], astray, unproven, bool(of_held or layers or not hooked))
    finally:
        states.restore()
        private.passes.watch, (private.passes.rows, private.passes.number) = None, before
        private.passes.put_back()
        put_back()
        private.passes.filled = filled  # a checkpoint repeats passes while gradients come
        watch.outputs.clear()
        for p, gradient, samples, hooks, after in kept:
            p.grad, p.grad_sample, p._post_accumulate_grad_hooks = gradient, samples, after
            if hooks:
                p._backward_hooks = hooks


def _back(ends: list[torch.Tensor], slopes: list[torch.Tensor]) -> None:
    if ends:
        torch.autograd.backward(ends, slopes)


def _others(tensor: torch.Tensor, own: list[int]) -> bool:
    """Whether other rows have a gradient."""
    if tensor.grad is None:
        return False
    norms = tensor.grad.flatten(1).norm(dim=1) if tensor.dim() > 1 else tensor.grad.abs()
    norms[own] = 0.0
    return bool((norms.isfinite() & (norms != 0.0)).any())


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    """What a pass saves is its own: a checkpoint around the model counts what is saved."""
    return tensor


def _attributes(model: nn.Module) -> list[torch.Tensor]:
    """What the layers keep of a pass."""
    values = (value for layer in model.modules() for value in vars(layer).values() if type(value) not in _PLAIN)
    held = (one for value in values if type(value) not in _TABLES or value for one in tree.tree_leaves(value))
    return [one for one in held if isinstance(one, torch.Tensor) and one.grad_fn is not None]


@contextmanager
def without_zeros(params: Iterable[nn.Parameter]) -> Iterator[None]:
    """Within it parameters that are zero are not: a head, a gate or a second factor that starts at zero hides whose the rows are."""
    zeros = [(p, p.data) for p in params if p.requires_grad and p.is_floating_point() and not p.any()]
    cached = parametrize._cache_enabled
    try:
        parametrize._cache_enabled = 0
        torch.clear_autocast_cache()
        for number, (p, data) in enumerate(zeros):
            p.data = (_slope(data, number) - 1.0) / 8.0
        yield
    finally:
        for p, data in zeros:
            p.data = data
        parametrize._cache_enabled = cached
        torch.clear_autocast_cache()  # the pass to come would have the trial's weights in half precision, zeros that are none


def _slope(output: torch.Tensor, number: int) -> torch.Tensor:
    """Some gradient for an output: numbers in [1/2, 3/2), which no symmetry of a network cancels."""
    places = torch.arange(1, output.numel() + 1, dtype=torch.float64).mul_(_GOLDEN).add_(number / 7)
    return places.frac_().add_(0.5).view(output.shape).to(output.device, output.dtype)


def _held_slope(output: torch.Tensor, own: list[int]) -> torch.Tensor:
    """Such a gradient in some rows alone, alike in all dimensions between: of many layers it takes no memory of their outputs' size."""
    last = _slope(output[0] if output.dim() == 1 else output.new_zeros(output.shape[-1]), 0)
    return _of_rows_alone(last, output.new_empty(len(output), *[1] * (output.dim() - 2), *last.shape), own).expand_as(
        output
    )


def _of_rows_alone(slope: torch.Tensor, output: torch.Tensor, own: list[int]) -> torch.Tensor:
    """That gradient in some rows of what has the shape of an output, and zeros in the others."""
    found = torch.zeros_like(output)
    found[own] = slope
    return found


def _astray(params: Sequence[Any], held: set[int]) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Parameters with gradients in other rows than those of some examples, and those not seen to have them in theirs alone."""
    astray, unproven = [], []
    for p in params:
        rows = _rows(p)
        norms = [] if rows is None else rows.square_norms().tolist()
        moved = {at for at, norm in enumerate(norms) if norm != 0.0}
        if any(math.isfinite(norms[at]) for at in moved - held):  # zero times infinite is not another's
            astray.append(p)
        if moved != held:
            unproven.append(p)
    return astray, unproven


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


def off_the_sum(rows: Representation, gradient: torch.Tensor, divisor: float) -> tuple[torch.Tensor, bool]:
    """How far the rows are from adding up to a gradient, and whether the one or the other was worked out in half precision."""
    total = rows.weighted_sum(torch.ones(len(rows), device=gradient.device)) / divisor
    # autocast has rows in half precision, weights not
    half = min(torch.finfo(rows.computed_in).bits, torch.finfo(gradient.dtype).bits) < 32
    return (total - gradient).norm(), half


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


def of_rows(few: Outcome, more: Outcome, *, views: int = 1) -> tuple[set[int], dict[int, int]]:
    """Which outputs have a row for each example, and which of these have a column too, with its dimension: scores of pairs."""
    whole = FEW * views, MORE * views
    sizes = [list(zip(a.shape, b.shape, strict=False)) for a, b in zip(few.outputs, more.outputs, strict=False)]
    pairs = {at: one.index(whole, 1) for at, one in enumerate(sizes) if whole in one[:1] and whole in one[1:]}
    return {at for at, one in enumerate(sizes) if whole in one[:1]} - pairs.keys(), pairs


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
