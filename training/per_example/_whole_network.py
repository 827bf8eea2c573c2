"""Gradients of parameters that no layer's hook can reach: the whole network, once for each example.

A weight used without its layer, a table of relative positions, a layer with buffers or one that sees windows of images in place
of examples: for all of them the gradient of an example is defined, and it is that of the network which sees this example alone, at
the gradient that the loss left at its output. ``torch.func.vmap`` works it out for all examples at once; where it cannot (what
happens depends on the numbers), each example has a pass of its own.

The gradient of an example that comes from here depends on no other example but by the gradient at the output. What the example's
pass gives must be what the batch gave in its row: networks that mix their rows are refused.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.utils import _pytree as tree

from dptheory.training.per_example._other_values import called_with
from dptheory.training.per_example._random_draws import RandomDraws

_log = logging.getLogger("dptheory.training")


@dataclass(eq=False)
class NetworkCall:
    """A forward pass of the whole network.

    Attributes:
        leaves: of its arguments, tensors detached.
        spec: how they go together.
        rows: examples in it.
        number: of the pass.
        draws: its random numbers.
        outputs: by place among the outputs, those whose gradients count, detached.
        autocast: device and precision, where it was on.
        gradients: that have come so far, by place.
        task: the backward pass that they are of.
    """

    leaves: list[Any]
    spec: tree.TreeSpec
    rows: int
    number: int
    draws: list[torch.Tensor] = field(default_factory=list)
    outputs: dict[int, torch.Tensor] = field(default_factory=dict)
    autocast: tuple[str, torch.dtype] | None = None
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    task: int = -1


def examples_in(leaves: Sequence[Any]) -> int:
    """The number of examples in the arguments of a network: rows that most of its tensors have."""
    sizes = [len(one) for one in leaves if isinstance(one, torch.Tensor) and one.dim()]
    return max(sizes, key=sizes.count) if sizes else 0


def called(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    number: int,
    arrived: Callable[[NetworkCall, int, torch.Tensor], None],
) -> Any:
    """The output of a network, with hooks on its tensors; a view of each, as one may be made of another.

    Args:
        module: the network.
        args, kwargs: what it is called with.
        number: of the forward pass.
        arrived: gets the call, the place of an output, and its gradient.
    """
    leaves, spec = tree.tree_flatten((args, kwargs))
    kept = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    call = NetworkCall(leaves=kept, spec=spec, rows=examples_in(leaves), number=number, autocast=_autocast(leaves))
    with RandomDraws() as draws:
        output = module(*args, **kwargs)
    call.draws = draws.drawn
    found, shape = tree.tree_flatten(output)
    for place, leaf in enumerate(found):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            call.outputs[place] = leaf.detach()
            found[place] = leaf.view_as(leaf)
            found[place].register_hook(lambda gradient, place=place: arrived(call, place, gradient))
    return tree.tree_unflatten(found, shape) if call.outputs else output


def gradients(module: nn.Module, names: Sequence[str], call: NetworkCall, *, mean: bool) -> dict[str, torch.Tensor]:
    r"""The gradients of some parameters for each example of a call, at the gradients of its outputs: shapes (n, \*parameter.shape).

    Args:
        module: the network, whose hooks for per-example gradients rest.
        names: of the parameters.
        call: with the gradients of its outputs.
        mean: the loss is a mean over the examples.

    Raises:
        ValueError: an example alone gives another output than in its batch, or cannot be passed alone.
    """
    params = {name: p for name, p in module.named_parameters() if p.requires_grad}
    own = {name: params[name].detach() for name in names}
    if not call.rows:
        return {name: p.new_zeros(0, *p.shape) for name, p in own.items()}
    places = sorted(call.gradients)
    of_rows = [call.outputs[place].dim() > 0 and len(call.outputs[place]) == call.rows for place in places]
    factor = float(call.rows) if mean else 1.0
    slopes = [call.gradients[p] * factor if rows else call.gradients[p] for p, rows in zip(places, of_rows, strict=True)]
    alone = _Alone(module, params, call, places)
    with torch.enable_grad(), _as_it_was(module, call):
        try:
            found, outputs = _at_once(alone, own, slopes, of_rows)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever vmap has no rule for
            _log.debug("one example at a time: %s", error)
            found, outputs = _one_by_one(alone, own, slopes, of_rows)
    for place, rows, output in zip(places, of_rows, outputs, strict=True):
        _check_output(call.outputs[place], output, rows=rows, mean=mean, random=bool(call.draws))
    return found


class _Alone:
    """The network as a function of some parameters and one example."""

    def __init__(
        self, module: nn.Module, params: Mapping[str, nn.Parameter], call: NetworkCall, places: Sequence[int]
    ) -> None:
        self._module, self._params, self._call, self._places = module, params, call, places
        n = call.rows
        self._mapped = [
            i for i, leaf in enumerate(call.leaves) if isinstance(leaf, torch.Tensor) and leaf.dim() and len(leaf) == n
        ]
        self._drawn = [i for i, one in enumerate(call.draws) if one.dim() and len(one) % n == 0]
        # what belongs to one example stands together, as in windows of an image
        self.rows = [call.leaves[i][:, None] for i in self._mapped]
        self.rows += [call.draws[i].unflatten(0, (n, -1)) for i in self._drawn]

    def __call__(self, own: Mapping[str, torch.Tensor], rows: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        leaves, draws = list(self._call.leaves), list(self._call.draws)
        for i, row in zip(self._mapped, rows, strict=False):
            leaves[i] = row
        for i, row in zip(self._drawn, rows[len(self._mapped) :], strict=True):
            draws[i] = row
        args, kwargs = tree.tree_unflatten(leaves, self._call.spec)
        with RandomDraws(draws):
            values = {p: own.get(name, p.detach()) for name, p in self._params.items()}
            given = called_with(self._module, values, args, kwargs)
        outputs = tree.tree_leaves(given)
        return [outputs[place] for place in self._places]


Found = tuple[dict[str, torch.Tensor], list[torch.Tensor]]


def _at_once(
    alone: _Alone, own: Mapping[str, torch.Tensor], slopes: Sequence[torch.Tensor], of_rows: Sequence[bool]
) -> Found:
    def loss(values: Any, rows: Any, slopes: Any) -> tuple[torch.Tensor, list[torch.Tensor]]:
        outputs = alone(values, rows)
        ends = [(o * (s[None] if r else s)).sum() for o, s, r in zip(outputs, slopes, of_rows, strict=True)]
        return torch.stack([end.double() for end in ends]).sum(), outputs

    over = [0 if rows else None for rows in of_rows]
    found, outputs = vmap(grad(loss, has_aux=True), in_dims=(None, 0, over))(dict(own), alone.rows, list(slopes))
    return found, outputs


def _one_by_one(
    alone: _Alone, own: Mapping[str, torch.Tensor], slopes: Sequence[torch.Tensor], of_rows: Sequence[bool]
) -> Found:
    found: dict[str, list[torch.Tensor]] = {name: [] for name in own}
    outputs: list[list[torch.Tensor]] = [[] for _ in slopes]
    for i in range(len(alone.rows[0]) if alone.rows else 0):
        values = {name: p.detach().requires_grad_() for name, p in own.items()}
        given = alone(values, [row[i] for row in alone.rows])
        ends = [s[i : i + 1] if r else s for s, r in zip(slopes, of_rows, strict=True)]
        pairs = [(o, end) for o, end in zip(given, ends, strict=True) if o.requires_grad]
        torch.autograd.backward([o for o, _ in pairs], [end.view_as(o) for o, end in pairs])
        for name, p in values.items():
            found[name].append(torch.zeros_like(p) if p.grad is None else p.grad)
        for kept, output in zip(outputs, given, strict=True):
            kept.append(output.detach())
    return {name: torch.stack(each) for name, each in found.items()}, [torch.stack(each) for each in outputs]


def _check_output(
    batch: torch.Tensor, each: torch.Tensor, *, rows: bool, mean: bool, random: bool
) -> None:
    """See that an example alone gives what it gave in its batch: up to the root of the precision, which deep networks need."""
    kind = torch.float32 if batch.dtype == torch.float64 and each.dtype == torch.float64 else batch.dtype
    unit = torch.finfo(kind).eps  # models work in float32 in places, also where their weights are in float64
    if rows:
        each = each.flatten(0, 1)
    elif mean:
        each = each.mean(0)
    else:
        each = each.sum(0)
    whole = batch.double()
    difference = (each.detach().double() - whole).where(whole.isfinite(), 0.0)
    kept = whole.where(whole.isfinite(), 0.0)
    if difference.shape == kept.shape and float(difference.abs().max()) <= unit**0.5 * float(kept.abs().max()):
        return
    if not rows:
        raise ValueError(
            "a loss worked out within the model must be the mean of what it is for each example alone, got another value: it divides by "
            "tokens or weights of the whole batch; take the model's logits, for each example the mean over its own tokens, and "
            "their mean"
        )
    why = (
        "or its random numbers are not torch's own: set dropout and masks of inputs to zero"
        if random
        else "or it draws random numbers outside of torch"
    )
    raise ValueError(
        "the network must give an example alone what it gives it in a batch, got another output: something in it mixes the rows of the "
        f"batch (statistics of the batch, experts that choose among all tokens), {why}"
    )


def _as_it_was(module: nn.Module, call: NetworkCall) -> AbstractContextManager[Any]:
    """Precision as in the forward pass, and spectral norms with the vectors that it had."""
    stack = ExitStack()
    if call.autocast is not None:
        stack.enter_context(torch.autocast(*call.autocast))
    for layer in module.modules():
        if isinstance(layer, _SpectralNorm) and layer.training:
            layer.eval()
            stack.callback(layer.train)
    return stack


def _autocast(leaves: Sequence[Any]) -> tuple[str, torch.dtype] | None:
    kinds = {one.device.type for one in leaves if isinstance(one, torch.Tensor)}
    return next(((kind, torch.get_autocast_dtype(kind)) for kind in kinds if torch.is_autocast_enabled(kind)), None)
