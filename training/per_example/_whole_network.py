"""Gradients of parameters that no layer's hook can reach: the whole network, once for each example.

A weight used without its layer, a table of relative positions, a layer with buffers or one that sees windows of images in place
of examples: for all of them the gradient of an example is defined, and it is that of the network which sees this example alone, at
the gradient that the loss left at its output. ``torch.func.vmap`` works it out for all examples at once; where it cannot (what
happens depends on the numbers), each example has a pass of its own.

The gradient of an example that comes from here depends on no other example but by the gradient at the output. What the example's
pass gives must be what the batch gave in its row: networks that mix their rows are refused.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn import functional as F
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as tree

from dptheory.errors import ArgumentError
from dptheory.training.per_example._layer_gradients import called_with

# --- The random numbers of a forward pass, kept, and given out again where it is repeated for one example
#
# A gradient of one example belongs to the dropout that its output had: a second pass with other masks would be the gradient of
# another function than the one whose output the loss saw.


_MULTIPLY: set[Any] = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, torch.dropout, torch.feature_dropout}
"""Functions whose result is their input times random numbers: what they make of ones."""
_DRAW: set[Any] = {
    torch.bernoulli, torch.multinomial, torch.normal, torch.poisson, torch.rand, torch.rand_like, torch.randint, torch.randint_like,
    torch.randn, torch.randn_like, torch.randperm,
}  # fmt: skip
_FILL: set[Any] = {
    torch.Tensor.bernoulli_, torch.Tensor.exponential_, torch.Tensor.normal_, torch.Tensor.random_, torch.Tensor.uniform_,
}  # fmt: skip


class RandomDraws(TorchFunctionMode):
    """Within it random numbers are kept in ``drawn``, or those that are given take their place, in the same order."""

    def __init__(self, given: Sequence[torch.Tensor] | None = None) -> None:
        super().__init__()
        self.drawn: list[torch.Tensor] = []
        self._given = None if given is None else list(given)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in _MULTIPLY:
            return self._multiplied(function, *args, **kwargs)
        if function is F.scaled_dot_product_attention and _rate_of_attention(args, kwargs) > 0.0:
            return self._attention(*args, **kwargs)
        if function in _DRAW:
            return self._next(lambda: function(*args, **kwargs))
        if function in _FILL:
            return args[0].copy_(self._next(lambda: function(torch.empty_like(args[0]), *args[1:], **kwargs)))
        return function(*args, **kwargs)

    def _next(self, draw: Callable[[], torch.Tensor]) -> torch.Tensor:
        if self._given is None:
            self.drawn.append(draw().detach().clone())
            return self.drawn[-1].clone()
        if not self._given:
            raise ValueError("the pass of an example alone draws more random numbers than that of its batch")
        return self._given.pop(0).clone()

    def _multiplied(
        self, function: Any, input: torch.Tensor, p: float = 0.5, *others: Any, **options: Any
    ) -> torch.Tensor:
        train = others[0] if others else options.get("training", options.get("train", True))
        inplace = (others[1] if len(others) > 1 else options.get("inplace", False)) is True
        if not train or p == 0.0:
            return input
        factors = self._next(lambda: function(torch.ones_like(input), p, True))
        return input.mul_(factors) if inplace else input * factors

    def _attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """torch's own, written out, so that the factors of its dropout are there."""
        if enable_gqa:
            key, value = (one.repeat_interleave(query.shape[-3] // one.shape[-3], -3) for one in (key, value))
        scores = query @ key.mT * (1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
        if is_causal:
            scores = scores.masked_fill(scores.new_ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        return self._multiplied(F.dropout, scores.softmax(-1), dropout_p, True) @ value


def _rate_of_attention(args: Sequence[Any], kwargs: dict[str, Any]) -> float:
    return float(args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0))


_log = logging.getLogger("dptheory.training")


@dataclass(eq=False)
class NetworkCall:
    """A forward pass of the whole network.

    Attributes:
        leaves: of its arguments, tensors detached.
        mapped: those with a row for each example.
        spec: how they go together.
        outputs: by place among the outputs, those whose gradients count, detached.
        autocast: device and precision, where it was on.
        default: the device of new tensors.
        task: the backward pass of the gradients that have come.
    """

    leaves: list[Any]
    mapped: list[int]
    spec: tree.TreeSpec
    rows: int
    number: int
    views: int = 1
    draws: list[torch.Tensor] = field(default_factory=list)
    outputs: dict[int, torch.Tensor] = field(default_factory=dict)
    autocast: tuple[str, torch.dtype] | None = None
    default: torch.device = field(default_factory=torch.get_default_device)
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    task: int = -1


class Arguments:
    """Which arguments of a network hold a row for each example: in all batches so far they had as many rows as it has examples.

    A mask of places may by chance have as many rows as one batch has examples; in another one it has not.
    """

    def __init__(self) -> None:
        self._constant, self._refuted = set[tuple[int, int]](), set[tuple[int, int]]()
        self.drawn: list[int] = []
        """Rows of the batches of which one comes next, the likeliest first, where that is known."""

    def examples(self, leaves: Sequence[Any]) -> int:
        """The number of examples: the rows of the batch that was drawn, or those that most tensors have which may be of examples."""
        sizes = {i: len(one) for i, one in _tensors_of(leaves).items()}
        kept = [rows for i, rows in sizes.items() if (i, len(leaves)) not in self._constant]
        if self.drawn:
            fitting = [rows for rows in self.drawn if rows in sizes.values()]
            if not fitting and self._stand_elsewhere(leaves):
                return self.drawn[0]  # and what has other rows may have those of examples next time
            kept = fitting[:1] or kept
        if not kept:
            return 0
        found = max(kept, key=kept.count)
        self._constant |= {(i, len(leaves)) for i, rows in sizes.items() if rows != found}
        return found

    def _stand_elsewhere(self, leaves: Sequence[Any]) -> bool:
        """Whether the drawn examples can be in a list, in another dimension, or in what is no tensor.

        A loop that hands the model fewer rows than were drawn must not have its rows taken for something beside the examples.
        """
        if len(self.drawn) != 1:
            return False
        (rows,), tensors = self.drawn, _tensors_of(leaves).values()
        return not tensors or len(tensors) >= rows or any(rows in one.shape for one in tensors)

    def leave_out(self, leaves: Sequence[Any]) -> bool:
        """Take the arguments that were taken for examples for none, where nothing else says that they are; whether others are left."""
        found, count = {(i, len(leaves)) for i in self.places(leaves)}, len(leaves)
        rest = {(i, count) for i in _tensors_of(leaves)} - found - self._refuted
        if self.drawn or not rest:
            return False
        self._refuted |= found
        self._constant = self._constant - rest | found
        return True

    def places(self, leaves: Sequence[Any]) -> list[int]:
        """The arguments with a row for each example."""
        rows = self.examples(leaves)
        return [
            i for i, one in _tensors_of(leaves).items() if len(one) == rows and (i, len(leaves)) not in self._constant
        ]


def _tensors_of(leaves: Sequence[Any]) -> dict[int, torch.Tensor]:
    """The arguments that have rows, by place."""
    return {i: one for i, one in enumerate(leaves) if isinstance(one, torch.Tensor) and one.dim()}


def called(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    arguments: Arguments,
    number: int,
    views: int = 1,
    arrived: Callable[[NetworkCall, int, torch.Tensor], None],
) -> Any:
    """The output of a network, with hooks on its tensors; a view of each, as one may be made of another.

    ``arrived`` gets the call, the place of an output, and its gradient.
    """
    leaves, spec = tree.tree_flatten((args, kwargs))
    kept = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    call = NetworkCall(
        leaves=kept,
        mapped=arguments.places(leaves),
        spec=spec,
        rows=arguments.examples(leaves),
        number=number,
        views=views,
        autocast=_autocast(leaves),
    )
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


class WholeNetwork:
    """The passes for each example; whether ``torch.func.vmap`` does them is seen once, against one example that is passed by itself.

    Not all that it gives is right: through a checkpoint that enters autograd anew, for one, it gives zeros without a word.
    """

    def __init__(self) -> None:
        self._at_once: bool | None = None

    def gradients(
        self, module: nn.Module, names: Sequence[str], call: NetworkCall, *, mean: bool
    ) -> dict[str, torch.Tensor]:
        r"""The gradients of some parameters for each example of a call, at the gradients of its outputs: (n, \*parameter.shape)."""
        params = {name: p for name, p in module.named_parameters() if p.requires_grad}
        own = {name: params[name].detach() for name in names}
        if not call.rows:
            return {name: p.new_zeros(0, *p.shape) for name, p in own.items()}
        outputs_rows = {len(one) for one in call.outputs.values() if one.dim()} - {call.rows}
        beside = {len(one) for i, one in _tensors_of(call.leaves).items() if i not in call.mapped}
        if not call.mapped or outputs_rows & beside:  # each pass would have all examples
            raise ArgumentError(
                "module",
                "get the examples of the drawn batch as rows of its tensors, for passes of one example",
                [tuple(one.shape) for one in _tensors_of(call.leaves).values()],
                got=f"a batch of {call.rows // call.views} examples and arguments of other numbers of rows",
                then=": hand it all of them in the first dimension",
            )
        places = sorted(call.gradients)
        of_rows = [call.outputs[place].dim() > 0 and len(call.outputs[place]) == call.rows for place in places]
        count = examples_of(call.rows, call.views, "the model")
        # the mean over the rows of an example: a loss within the model that is a mean has it already
        of_row, of_loss = (float(count), 1.0) if mean else (1.0 / call.views, 1.0 / call.views)
        slopes = [
            _by_example(call.gradients[p] * of_row, count) if rows else call.gradients[p] * of_loss
            for p, rows in zip(places, of_rows, strict=True)
        ]
        alone = _Alone(module, params, call, places)
        with torch.enable_grad(), _as_it_was(module, call):
            found, outputs = self._passed(alone, own, slopes, of_rows)
        for place, rows, output in zip(places, of_rows, outputs, strict=True):
            _check_output(call.outputs[place], output, rows=rows, mean=mean, random=bool(call.draws), label=names[0])
        return found

    def _passed(
        self, alone: "_Alone", own: Mapping[str, torch.Tensor], slopes: Sequence[torch.Tensor], of_rows: Sequence[bool]
    ) -> "Found":
        if self._at_once is not False:
            try:
                found = _at_once(alone, own, slopes, of_rows)
                if self._at_once is None:
                    self._at_once = _agrees(found, alone, own, slopes, of_rows)
                if self._at_once:
                    return found
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # whatever vmap has no rule for
                _log.debug("one example at a time: %s", error)
                self._at_once = False
        try:
            return _one_by_one(alone, own, slopes, of_rows, range(alone.count))
        except (ArgumentError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            name, cause = next(iter(own)), str(error).strip().split("\n")[0][:120]
            raise ArgumentError.about(
                name,
                None,
                f"the network must take an example alone, so that {name} has gradients of single examples, got {cause}: it counts on "
                "the rows of the batch (a random order of them, a batch of one size)",
            ) from error


class _Alone:
    """The network as a function of some parameters and one example."""

    def __init__(
        self, module: nn.Module, params: Mapping[str, nn.Parameter], call: NetworkCall, places: Sequence[int]
    ) -> None:
        self._module, self._params, self._call, self._places = module, params, call, places
        self.count = n = call.rows // call.views
        self._drawn = [i for i, one in enumerate(call.draws) if one.dim() and len(one) % n == 0]
        # what belongs to one example stands together, as in windows of an image
        self.rows = [_by_example(call.leaves[i], n) for i in call.mapped]
        self.rows += [call.draws[i].view(n, -1, *call.draws[i].shape[1:]) for i in self._drawn]

    def __call__(
        self,
        own: Mapping[str, torch.Tensor],
        rows: Sequence[torch.Tensor],
        then: Callable[[list[torch.Tensor]], list[torch.Tensor]],
    ) -> list[torch.Tensor]:
        """What ``then`` makes of the outputs, while the network still has these parameters: a checkpoint reads them on the way back."""
        leaves, draws = list(self._call.leaves), list(self._call.draws)
        mapped = self._call.mapped
        for i, row in zip(mapped, rows[: len(mapped)], strict=True):
            leaves[i] = row
        for i, row in zip(self._drawn, rows[len(mapped) :], strict=True):
            draws[i] = row
        args, kwargs = tree.tree_unflatten(leaves, self._call.spec)
        with RandomDraws(draws):
            values: dict[torch.Tensor, torch.Tensor] = {
                p: own.get(name, p.detach()) for name, p in self._params.items()
            }
            ends = _Ends(self._module, self._places, then)
            found: list[torch.Tensor] = called_with(ends, values, args, kwargs)
        return found


class _Ends(nn.Module):
    """A network up to what is made of its outputs."""

    def __init__(
        self, module: nn.Module, places: Sequence[int], then: Callable[[list[torch.Tensor]], list[torch.Tensor]]
    ) -> None:
        super().__init__()
        self.module, self._places, self._then = module, places, then

    def forward(self, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        outputs = tree.tree_leaves(self.module(*args, **kwargs))
        if self._places[-1] >= len(outputs):
            raise ArgumentError.about(
                "module",
                len(outputs),
                f"module must give an example alone as many outputs as a batch, got {len(outputs)} and more than {self._places[-1]}: "
                "give one tensor with a row for each example in place of a list of them",
            )
        return self._then([outputs[place] for place in self._places])


def _by_example(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """Shape (n, rows of an example, ...), of the rows of a batch."""
    return tensor.reshape(count, len(tensor) // count, *tensor.shape[1:])


def examples_of(rows: int, views: int, label: str) -> int:
    """The number of examples that so many rows of a batch are of; rows that are left over are refused."""
    if rows % views:
        raise ArgumentError(
            "views",
            "be the number of rows that every example of a batch has",
            views,
            got=f"views={views} and {rows} rows at {label}: hand the model all rows of an example, one "
            "behind the other",
        )
    return rows // views


Found = tuple[dict[str, torch.Tensor], list[torch.Tensor]]


def _at_once(
    alone: _Alone, own: Mapping[str, torch.Tensor], slopes: Sequence[torch.Tensor], of_rows: Sequence[bool]
) -> Found:
    def loss(values: Any, rows: Any, slopes: Any) -> tuple[torch.Tensor, list[torch.Tensor]]:
        outputs = alone(values, rows, lambda given: given)
        ends = [(o * s).sum() for o, s in zip(outputs, slopes, strict=True)]
        return torch.stack([end.double() for end in ends]).sum(), outputs

    over = [0 if rows else None for rows in of_rows]
    found, outputs = vmap(grad(loss, has_aux=True), in_dims=(None, 0, over))(dict(own), alone.rows, list(slopes))
    return found, outputs


def _one_by_one(
    alone: _Alone,
    own: Mapping[str, torch.Tensor],
    slopes: Sequence[torch.Tensor],
    of_rows: Sequence[bool],
    examples: Sequence[int],
) -> Found:
    found: dict[str, list[torch.Tensor]] = {name: [] for name in own}
    outputs: list[list[torch.Tensor]] = [[] for _ in slopes]
    for i in examples:
        values = {name: p.detach().requires_grad_() for name, p in own.items()}
        ends = [s[i] if r else s for s, r in zip(slopes, of_rows, strict=True)]

        def back(given: list[torch.Tensor], ends: list[torch.Tensor] = ends) -> list[torch.Tensor]:
            pairs = [(o, end) for o, end in zip(given, ends, strict=True) if o.requires_grad]
            torch.autograd.backward([o for o, _ in pairs], [end.view_as(o) for o, end in pairs])
            return given

        given = alone(values, [row[i] for row in alone.rows], back)
        for name, p in values.items():
            found[name].append(torch.zeros_like(p) if p.grad is None else p.grad)
        for kept, output in zip(outputs, given, strict=True):
            kept.append(output.detach())
    return {name: torch.stack(each) for name, each in found.items()}, [torch.stack(each) for each in outputs]


def _agrees(
    found: Found,
    alone: _Alone,
    own: Mapping[str, torch.Tensor],
    slopes: Sequence[torch.Tensor],
    of_rows: Sequence[bool],
) -> bool | None:
    """Whether the example with the largest gradient at the output has the same gradients when it is passed by itself.

    None where that says nothing: they are zero or not finite.
    """
    sizes = [
        s.detach().flatten(1).norm(dim=1) for s, rows in zip(slopes, of_rows, strict=True) if rows and s[0].numel()
    ]
    largest = int(torch.stack(sizes).nan_to_num(0.0, 0.0, 0.0).sum(0).argmax()) if sizes else 0
    single, _ = _one_by_one(alone, own, slopes, of_rows, [largest])
    pairs = [(found[0][name][largest].double(), single[name][0].double()) for name in own]
    size = sum(float(one.norm()) for _, one in pairs)
    if not math.isfinite(size) or size == 0.0:
        return None
    return (
        sum(float((one - other).norm()) for one, other in pairs)
        <= _rounding(*(one.dtype for one in own.values())) * size
    )


def _rounding(*kinds: torch.dtype) -> float:
    """The root of the precision, which deep networks need; models work in float32 in places, also where weights are in float64."""
    return math.sqrt(max(torch.finfo(kind).eps for kind in (torch.float32, *kinds)))


def _check_output(batch: torch.Tensor, each: torch.Tensor, *, rows: bool, mean: bool, random: bool, label: str) -> None:
    """See that an example alone gives what it gave in its batch, up to rounding."""
    if rows:
        each = each.flatten(0, 1)
    elif mean:
        each = each.mean(0)
    else:
        each = each.sum(0)
    whole = batch.double()
    difference = (each.detach().double() - whole).where(whole.isfinite(), 0.0)
    kept = whole.where(whole.isfinite(), 0.0)
    if difference.shape == kept.shape and (
        not kept.numel() or float(difference.abs().max()) <= _rounding(batch.dtype) * float(kept.abs().max())
    ):
        return
    if not rows:
        raise ArgumentError.about(
            "loss",
            label,
            "a loss worked out within the model must be the mean of what it is for each example alone, got another value: it divides "
            "by tokens or weights of the whole batch; take the model's logits, for each example the mean over its own tokens, and "
            "their mean",
        )
    numbers = "numbers" if random else "numbers that are not torch's"
    raise ArgumentError.about(
        label,
        None,
        f"the network must give an example alone what it gives it in a batch, so that {label} has gradients of single examples, got "
        "another output: something mixes the rows of the batch (examples that do not stand first: batch_first=True; statistics of the "
        f"batch; experts that choose among all tokens), or random {numbers} differ (set dropout to 0)",
    )


def _as_it_was(module: nn.Module, call: NetworkCall) -> AbstractContextManager[Any]:
    """Precision and default device as in the forward pass, and spectral norms with the vectors that it had.

    On a GPU gradients come in a thread of autograd's own, which knows neither.
    """
    stack = spectral_norms_at_rest(module)
    if call.default.type != "cpu":
        stack.enter_context(call.default)
    if call.autocast is not None:
        stack.enter_context(torch.autocast(*call.autocast))
    return stack


def spectral_norms_at_rest(module: nn.Module) -> ExitStack:
    """Within it no pass moves their vectors on."""
    stack = ExitStack()
    for layer in module.modules():
        if isinstance(layer, _SpectralNorm) and layer.training:
            layer.eval()
            stack.callback(layer.train)
    return stack


def _autocast(leaves: Sequence[Any]) -> tuple[str, torch.dtype] | None:
    kinds = {one.device.type for one in leaves if isinstance(one, torch.Tensor)}
    return next(((kind, torch.get_autocast_dtype(kind)) for kind in kinds if torch.is_autocast_enabled(kind)), None)
