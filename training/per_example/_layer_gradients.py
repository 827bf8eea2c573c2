"""Gradients of a layer's parameters for each example: Opacus's formulas where they are right, otherwise the layer's own forward."""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from opacus import GradSampleModule
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.conv import _ConvNd
from torch.utils import _pytree as tree

from dptheory.training.per_example._representation import CHUNK, over_views


def places_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Every place that holds a parameter, once, also where several layers hold one: name and parameter.

    A layer that stands in a model under several names has the first of them alone: ``torch.func.functional_call`` puts values into it
    once for each name, and takes out what it has put in itself.
    """
    return {
        f"{path}.{name}" if path else name: p
        for path, layer in module.named_modules()
        for name, p in layer._parameters.items()
        if p is not None
    }


def called_with(
    module: nn.Module, values: Mapping[torch.Tensor, torch.Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """What a module gives with other values in place of some of its parameters, wherever it holds them; it has its own again then."""
    taken = {name: values[p] for name, p in places_of(module).items() if p in values}
    return functional_call(module, taken, args, dict(kwargs), tie_weights=False)


_HOLDING = {list, set, deque, dict, OrderedDict, defaultdict, tuple}
"""Kinds of others' making may refuse to be written to."""


def attributes_of(module: nn.Module) -> Callable[[], None]:
    """What gives the layers of a module back their attributes of now, and what was in lists, sets and tables among these."""
    kept = [(layer, dict(vars(layer))) for layer in module.modules()]
    held: dict[int, tuple[Any, Any]] = {}
    for _, own in kept:
        _copy_containers(own, held)

    def put_back() -> None:
        for layer, own in kept:
            vars(layer).clear()
            vars(layer).update(own)
        for one, before in held.values():
            if not isinstance(one, tuple):
                one.clear()
                (one.update if isinstance(one, dict | set) else one.extend)(before)

    return put_back


def _copy_containers(value: Any, held: dict[int, tuple[Any, Any]]) -> None:
    """Copies of the containers in a table or the like, and of those in these."""
    for one in value.values() if isinstance(value, dict) else value:
        if type(one) in _HOLDING and id(one) not in held:
            held[id(one)] = one, one if isinstance(one, tuple) else one.copy()
            _copy_containers(one, held)


# --- Layers as they are set that Opacus's own formulas get wrong, without an error


def misread(layer: nn.Module) -> bool:
    """Whether Opacus's formula for the kind is not that of the layer as it is set.

    Opacus 1.6 pads every convolution with zeros, whatever its ``padding_mode``, gives the row of an embedding's ``padding_idx`` a
    gradient, and fails at a layer norm without a bias.
    """
    if isinstance(layer, _ConvNd):
        return layer.padding_mode != "zeros"
    if isinstance(layer, nn.LayerNorm):
        return layer.bias is None
    return isinstance(layer, nn.Embedding) and layer.padding_idx is not None


Rows = dict[torch.Tensor, torch.Tensor]
"""By parameter: a tensor of its shape for each example."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """What a layer was called with: detached tensors, numbers, None and the like, flattened, and the way to put them together."""

    leaves: list[Any]
    spec: tree.TreeSpec
    rows: int
    """Examples in it."""
    beside: frozenset[int]
    """Leaves that stand beside the examples, whatever their number of rows in this call: a table of as many rows is not theirs."""

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]


Place = tuple[int, int, int]
"""Of a tensor among what a layer is called with: number, how many there are, dimensions."""


class Places:
    """Which places of a layer's calls have rows of examples: those with as many as its output in two calls of different numbers.

    What has other rows before stands beside the examples, and no longer is theirs in a batch of as many. One row may stand for all.
    """

    def __init__(self) -> None:
        self._alike: dict[Place, set[int]] = {}
        self._beside = set[Place]()

    def beside(self, given: Mapping[Place, int], rows: int | None) -> frozenset[int]:
        """The numbers of those that are beside the examples in a call; learns from it."""
        for place, own in given.items():
            sizes = self._alike.setdefault(place, set())
            if len(sizes) < 2 and own == rows:
                sizes.add(own)
            elif len(sizes) < 2 and own != 1:
                self._beside.add(place)
        return frozenset(place[0] for place in given if place in self._beside)


def call_of(
    layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: torch.Tensor, places: Places
) -> Call:
    """The call of a layer, with the number of rows: those of its input where Opacus has a formula, otherwise of its output."""
    leaves, spec = tree.tree_flatten((args, kwargs))
    kept = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    first = next((leaf for leaf in kept if isinstance(leaf, torch.Tensor) and leaf.dim()), output)
    by_formula = type(layer) in GradSampleModule.GRAD_SAMPLERS and not isinstance(layer, nn.EmbeddingBag)
    shaped = first if by_formula else output
    tensors = ((i, leaf) for i, leaf in enumerate(kept) if isinstance(leaf, torch.Tensor) and leaf.dim())
    given = {(i, len(kept), leaf.dim()): leaf.shape[0] for i, leaf in tensors}
    return Call(
        leaves=kept,
        spec=spec,
        rows=len(shaped) if shaped.dim() else 0,
        beside=places.beside(given, len(output) if output.dim() else None),
    )


def trained(layer: nn.Module) -> list[nn.Parameter]:
    """The parameters whose gradients belong to a layer: of one that Opacus does not know those of the layers in it, too."""
    own = type(layer) in GradSampleModule.GRAD_SAMPLERS
    return [p for p in layer.parameters(recurse=not own) if p.requires_grad]


def of_a_call(
    layer: nn.Module, call: Call, place: int, gradient: torch.Tensor, *, by_forward: bool, views: int = 1
) -> Rows:
    """Per-example gradients of a layer's trained parameters, by the gradient of the loss for an output of a call.

    Args:
        layer: none of its forward hooks is called.
        place: of the output among the tensors that it gave; the gradients of several outputs add up.
        by_forward: leave Opacus's formula aside.
    """
    if views == 1 or not len(gradient):
        return _of_rows(layer, call, place, gradient, by_forward=by_forward)
    found: Rows = {}
    for part in _parts(layer, call, gradient, views):
        rows = replace(call, leaves=[_cut(leaf, len(gradient), part) for leaf in call.leaves])
        for p, samples in _of_rows(layer, rows, place, gradient[part], by_forward=by_forward).items():
            own = samples if part.step == views else over_views(samples, views)
            found[p] = found[p].add_(own) if p in found else own
    return found


def _parts(layer: nn.Module, call: Call, gradient: torch.Tensor, views: int) -> list[slice]:
    """All rows at once; or one row of each example after the other, so that no more gradients are held than there are examples."""
    sizes = {len(leaf) for leaf in call.tensors if leaf.dim()}
    most = max((p.numel() for p in trained(layer)), default=0)
    if len(gradient) * most <= CHUNK or sizes != {len(gradient)} or call.beside:
        return [slice(None)]
    return [slice(view, None, views) for view in range(views)]


def _cut(leaf: Any, rows: int, part: slice) -> Any:
    return leaf[part] if isinstance(leaf, torch.Tensor) and leaf.dim() and len(leaf) == rows else leaf


def _of_rows(layer: nn.Module, call: Call, place: int, gradient: torch.Tensor, *, by_forward: bool) -> Rows:
    """The gradients of every row by itself."""
    if isinstance(layer, nn.EmbeddingBag):
        return {layer.weight: _of_bags(layer, call, gradient)}
    if not by_forward and type(layer) in GradSampleModule.GRAD_SAMPLERS and not misread(layer):
        # Opacus 1.6 unfolds images as if each channel lay row by row in memory: of others gradients are wrong without an error, and
        # where examples lie innermost, that of one is made of pixels of others.
        tensors = [one.contiguous() for one in call.tensors] if isinstance(layer, nn.Conv2d) else call.tensors
        found: Rows = GradSampleModule.GRAD_SAMPLERS[type(layer)](layer, tensors, gradient)
        return found
    return _by_forward(layer, call, place, gradient)


class _Bare(nn.Module):
    """A layer without its hooks."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.layer.forward(*args, **kwargs)


def _by_forward(layer: nn.Module, call: Call, place: int, gradient: torch.Tensor) -> Rows:
    """Differentiate the layer's forward once for each example: tensors with its row alone, all else as it was."""
    params = {name: p for name, p in layer.named_parameters() if p.requires_grad}
    size = len(gradient)
    tensors = [i for i, leaf in enumerate(call.leaves) if isinstance(leaf, torch.Tensor) and leaf.dim()]
    mapped = [i for i in tensors if len(call.leaves[i]) == size and i not in call.beside]
    if not size:
        return {p: p.new_zeros(0, *p.shape) for p in params.values()}
    if not mapped:
        raise ValueError(
            f"none of its arguments has a row for each of the {size} rows of its output: hand it the examples of the batch"
        )
    bare = _Bare(layer)

    def loss(values: dict[str, torch.Tensor], rows: Sequence[torch.Tensor], one: torch.Tensor) -> torch.Tensor:
        parts = list(call.leaves)
        for i, row in zip(mapped, rows, strict=True):
            parts[i] = row.unsqueeze(0)
        args, kwargs = tree.tree_unflatten(parts, call.spec)
        given = called_with(bare, {params[name]: value for name, value in values.items()}, args, kwargs)
        outputs = [leaf for leaf in tree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]
        product: torch.Tensor = outputs[place] * one.unsqueeze(0)
        return product.sum()

    values = {name: p.detach() for name, p in params.items()}
    rows = [call.leaves[i] for i in mapped]
    first = next(iter(values.values()))
    mixed = gradient.dtype != first.dtype and gradient.dtype in (torch.float16, torch.bfloat16)
    with torch.autocast(gradient.device.type, gradient.dtype) if mixed else nullcontext():
        found = _for_each(loss, values, rows, gradient)
    return {params[name]: samples for name, samples in found.items()}


def _for_each(loss: Any, values: dict[str, torch.Tensor], rows: list[torch.Tensor], gradient: torch.Tensor) -> Any:
    try:
        return vmap(grad(loss), in_dims=(None, 0, 0))(values, rows, gradient)
    except RuntimeError as error:
        if "random" in str(error):
            raise ValueError(
                "it draws random numbers and has parameters of its own: make its dropout a layer by itself, outside of it"
            ) from error
    each = [grad(loss)(values, [row[i] for row in rows], gradient[i]) for i in range(len(gradient))]
    return {name: torch.stack([one[name] for one in each]) for name in values}


def _of_bags(layer: nn.EmbeddingBag, call: Call, gradient: torch.Tensor) -> torch.Tensor:
    """Opacus counts a token that is twice in a bag once, and knows neither a matrix of bags nor weights of tokens."""
    args, kwargs = tree.tree_unflatten(call.leaves, call.spec)
    given = dict(zip(("input", "offsets", "per_sample_weights"), args, strict=False)) | kwargs
    tokens, offsets, weights = given["input"], given.get("offsets"), given.get("per_sample_weights")
    size = len(gradient)
    if tokens.dim() == 2:
        bags = torch.arange(size, device=tokens.device).repeat_interleave(tokens.shape[1])
    else:
        ends = torch.cat([offsets[:size].to(tokens.device), torch.tensor([len(tokens)], device=tokens.device)])
        ends = offsets.to(tokens.device) if layer.include_last_offset else ends
        bags = torch.arange(size, device=tokens.device).repeat_interleave(ends.diff())
    tokens = tokens.reshape(-1).long()
    kept = torch.ones_like(tokens, dtype=torch.bool) if layer.padding_idx is None else tokens != layer.padding_idx
    bags, tokens = bags[kept], tokens[kept]
    values = gradient[bags]
    if layer.mode == "mean":
        values = values / torch.bincount(bags, minlength=size)[bags].unsqueeze(1)
    if weights is not None:
        values = values * weights.reshape(-1)[kept].unsqueeze(1)
    found = gradient.new_zeros(size, *layer.weight.shape)
    return found.index_put_((bags, tokens), values.to(found.dtype), accumulate=True)
