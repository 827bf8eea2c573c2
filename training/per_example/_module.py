"""The private model whose dense, convolution and embedding layers leave factors of per-example gradients at their parameters.

Per-example gradients of such a layer follow from what it took in and the gradient of what it gave out. Both are there in any
backward pass; so the gradient of its weight, which plain training needs, is left out where nothing looks at it, and nothing as
large as the model times the batch is formed. All other layers keep Opacus's hooks, which form the tensors.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from opacus import GradSampleModule
from opacus.layers.dp_rnn import RNNLinear
from torch import nn

from dptheory.training.per_example._convolution import Convolution, Geometry
from dptheory.training.per_example._dense import Dense
from dptheory.training.per_example._formed import Formed
from dptheory.training.per_example._mixed import Mixed
from dptheory.training.per_example._representation import Representation
from dptheory.training.per_example._table import Table

_DENSE = (nn.Linear, RNNLinear)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True, eq=False)
class Use:
    """One use of a layer in a forward pass, with the gradient that came back to it.

    Attributes:
        layer: which one.
        inputs: what it took in.
        output_gradients: of what it gave out.
        rows: examples of the batch; those behind the last row of the inputs took no part, as in packed sequences.
    """

    layer: nn.Module
    inputs: torch.Tensor
    output_gradients: torch.Tensor
    rows: int


def has_factors(layer: nn.Module) -> bool:
    """Whether the gradients of a layer's parameters follow from its input and output gradients by the rules of this module.

    Subclasses may do something else with their parameters, and reparametrised weights are no parameters; Opacus's hooks or
    functorch take those.
    """
    if not isinstance(layer._parameters.get("weight"), nn.Parameter):
        return False
    if type(layer) in _CONVOLUTIONS:
        return layer.padding_mode == "zeros"
    if type(layer) is nn.Embedding:
        return not (layer.scale_grad_by_freq or layer.sparse or layer.max_norm is not None)
    return type(layer) in _DENSE


class FactoredModule(GradSampleModule):  # type: ignore[misc]
    """Opacus's ``GradSampleModule`` with factors at the parameters of dense, convolution and embedding layers.

    ``p.grad_sample`` is a :class:`dptheory.training.per_example.Representation` there, which acts as the tensor where one is
    wanted.

    Attributes:
        looked_at: says of a parameter whether ``backward()`` is to leave its gradient in ``p.grad``, too.
    """

    def __init__(self, m: nn.Module, **arguments: Any) -> None:
        self.__dict__.update(_nothing())
        super().__init__(m, **arguments)

    looked_at: Callable[[torch.Tensor], bool]
    _uses: dict[int, dict[nn.Parameter, list[Use]]]
    """By backward pass and parameter."""
    _forgotten: int
    """How often what passes left was dropped: a backward pass of a forward pass from before comes too late."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | _nothing()

    def add_hooks(self, **arguments: Any) -> None:
        """Opacus's hooks where a layer has no factors, and others where it has."""
        self.__dict__["_factored"] = set()
        found = list(super().iterate_submodules(self._module))
        elsewhere = {id(p) for m in found if not has_factors(m) for p in _own(m, alone=type(m) in self.GRAD_SAMPLERS)}
        chosen = [m for m in found if has_factors(m) and not any(id(p) in elsewhere for p in m.parameters())]
        self.__dict__["_factored"] = {id(m) for m in chosen}
        super().add_hooks(**arguments)
        handles = self._module.autograd_grad_sample_hooks
        for layer in chosen:
            handles.append(layer.register_forward_pre_hook(self._before))
            handles.append(layer.register_forward_hook(self._after, with_kwargs=True, always_call=True))

    def iterate_submodules(self, module: nn.Module) -> Iterable[nn.Module]:
        """The layers that get Opacus's hooks."""
        left_out = self.__dict__.get("_factored", set())
        return (m for m in super().iterate_submodules(module) if id(m) not in left_out)

    def forget_passes(self) -> None:
        """Drop what is left of passes that came to nothing; their backward passes are refused from now on."""
        self._uses.clear()
        self.__dict__["_forgotten"] = self._forgotten + 1

    # --- forward ------------------------------------------------------------------------------------------------------

    def _before(self, layer: nn.Module, _: object) -> None:
        """Have the layer compute with parameters that need no gradient, where nothing looks at it."""
        trained = [p for p in layer._parameters.values() if p is not None and p.requires_grad]
        if not (trained and layer.training and torch.is_grad_enabled() and self.hooks_enabled):
            return
        left_out = [p for p in trained if not self.looked_at(p)]
        for p in left_out:
            p.requires_grad_(False)
        vars(layer)["_of_this_pass"] = (trained, left_out)

    def _after(self, layer: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
        trained, left_out = vars(layer).pop("_of_this_pass", ((), ()))
        for p in left_out:
            p.requires_grad_(True)
        if not trained or not isinstance(output, torch.Tensor):  # no output: the layer has failed
            return None
        taken = inputs[0] if inputs else named["input"]
        rows = vars(layer).get("max_batch_len", _rows(layer, taken))  # Opacus's word for packed sequences
        if not output.requires_grad:
            output = _watched(output, torch.empty(0, requires_grad=True, device=output.device))
        weight_trained = any(p is layer.weight for p in trained)
        kept = taken.detach() if weight_trained else taken.detach()[..., :0]
        version, forgotten = taken._version, self._forgotten

        def came_back(gradient: torch.Tensor) -> None:
            if not self.hooks_enabled:
                return
            if forgotten != self._forgotten:
                raise ValueError(
                    "backward() must come before the next batch, part or zero_grad() with a new forward pass, got one of a forward "
                    "pass from before: its gradients would be taken for those of other examples"
                )
            if weight_trained and taken._version != version:
                raise ValueError(
                    f"the input of {self._name_of(layer)} ({type(layer).__name__}) must stay as it is until backward(), got one "
                    "that is written to in place behind the layer: take the operation that makes a new tensor (inplace=False)"
                )
            self._note(trained, Use(layer, kept, gradient.detach(), rows))

        output.register_hook(came_back)
        return output

    def _name_of(self, layer: nn.Module) -> str:
        return next((name for name, m in self._module.named_modules() if m is layer), "a layer")

    # --- backward -----------------------------------------------------------------------------------------------------

    def _note(self, trained: list[nn.Parameter], use: Use) -> None:
        task: int = torch._C._current_graph_task_id()
        if task not in self._uses:
            self._uses[task] = {}
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self._finish(task))
        for p in trained:
            self._uses[task].setdefault(p, []).append(use)

    def _finish(self, task: int) -> None:
        """At the end of a backward pass: hand each parameter what all of its uses gave."""
        found = self._uses.pop(task, {})
        for use in {id(use): use for uses in found.values() for use in uses}.values():
            vars(use.layer).pop("max_batch_len", None)
        for p, uses in found.items():
            rows = max(use.rows for use in uses)
            scale = rows if self.loss_reduction == "mean" else 1
            gradients: Any = of_parameter(p, uses, rows=rows, scale=scale)
            before = vars(p)["grad_sample"]
            if before is not None:  # of an earlier backward pass, which the optimizer will not take
                gradients = [*before, gradients] if isinstance(before, list) else [before, gradients]
            vars(p)["grad_sample"] = gradients


def _nothing() -> dict[str, Any]:
    """What a module holds of a run before its first pass, and what a copy of it begins with."""
    return {"looked_at": _always, "_uses": {}, "_forgotten": 0}


def _always(_: torch.Tensor) -> bool:
    return True


class _Watched(torch.autograd.Function):
    """The output of a layer with a place in the graph, though no gradient goes on to what it came from."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, _anchor: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(_ctx: Any, _gradient: torch.Tensor) -> tuple[None, None]:
        return None, None


def _watched(output: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = _Watched.apply(output, anchor)  # type: ignore[no-untyped-call]
    return found


def _rows(layer: nn.Module, taken: torch.Tensor) -> int:
    """Examples among the inputs of a layer; one where the input has no dimension for them."""
    if isinstance(layer, _CONVOLUTIONS):
        alone = taken.dim() == len(layer.kernel_size) + 1
    else:
        alone = taken.dim() < (1 if isinstance(layer, nn.Embedding) else 2)
    return 1 if alone else len(taken)


def _own(layer: nn.Module, *, alone: bool) -> Iterable[nn.Parameter]:
    """The parameters whose gradients a layer's hook works out: its own, or also those of its children."""
    return layer.parameters(recurse=not alone)


def of_parameter(p: nn.Parameter, uses: list[Use], *, rows: int, scale: int) -> Representation:
    """The per-example gradients of a parameter from all of its uses in one pass.

    Args:
        p: weight or bias of the layers.
        uses: in any order.
        rows: examples of the batch.
        scale: by which the gradients are multiplied, as the loss is a mean over the batch.
    """
    parts: list[Representation] = []
    for kind in dict.fromkeys(_kind(p, use.layer) for use in uses):
        parts += kind(p, [use for use in uses if _kind(p, use.layer) is kind], rows, scale)
    return parts[0] if len(parts) == 1 else Mixed(parts)


def _kind(p: nn.Parameter, layer: Any) -> Callable[[nn.Parameter, list[Use], int, int], list[Representation]]:
    if layer.weight is not p:
        return _bias
    if isinstance(layer, nn.Embedding):
        return _table
    return _convolution if isinstance(layer, _CONVOLUTIONS) else _dense


def _bias(_: nn.Parameter, uses: list[Use], rows: int, scale: int) -> list[Representation]:
    """Output gradients, added up over sequence or space: as small as the output."""
    total = None
    for use in uses:
        b = use.output_gradients
        if isinstance(use.layer, _CONVOLUTIONS):
            own = _batched(use)[1].flatten(2).sum(2)
        else:
            own = b.reshape(-1, b.shape[-1]) if b.dim() < 3 else b.flatten(1, -2).sum(1)
        own = filled(own, rows)
        total = own if total is None else total + own
    assert total is not None
    return [Formed(total * scale)]


def _dense(_: nn.Parameter, uses: list[Use], rows: int, scale: int) -> list[Representation]:
    """Factors, or the gradient formed at once where that is smaller than they are: with long sequences on narrow layers."""
    factors = [(filled(_sequence(use.output_gradients), rows), filled(_sequence(use.inputs), rows)) for use in uses]
    b, a = factors[0] if len(factors) == 1 else (torch.cat(one, dim=1) for one in zip(*factors, strict=True))
    found = Dense(b * scale, a)
    return [_smaller(found, length=b.shape[1], wide=a.shape[2], out=b.shape[2])]


def _convolution(p: nn.Parameter, uses: list[Use], rows: int, scale: int) -> list[Representation]:
    parts: list[Representation] = []
    for use in uses:
        a, b = _batched(use)
        found = Convolution(filled(b, rows) * scale, filled(a, rows), Geometry.of(use.layer))  # type: ignore[arg-type]
        parts.append(_smaller(found, length=b.shape[2:].numel(), wide=p.shape[1:].numel(), out=p.shape[0]))
    return parts


def _table(p: nn.Parameter, uses: list[Use], rows: int, scale: int) -> list[Representation]:
    found = None
    for use in uses:
        indices = use.inputs.reshape(len(use.inputs), -1) if use.inputs.dim() else use.inputs.view(1, 1)
        b = use.output_gradients.reshape(*indices.shape, p.shape[1])
        one = Table(filled(indices, rows), filled(b, rows) * scale, rows=p.shape[0], padding=use.layer.padding_idx)  # type: ignore[arg-type]
        found = one if found is None else found.joined(one)
    assert found is not None
    return [found]


def _smaller(found: Dense | Convolution, *, length: int, wide: int, out: int) -> Representation:
    """The one place that decides whether gradients are formed: they are where they take less memory than their factors.

    Forming costs length * wide * out products an example, and then norms and sums, masked or not, cost next to nothing. Factors
    of one example have length * (wide + out) entries, and their Gram matrices cost length^2 * (wide + out) products: less than
    forming where the gradient is the larger of both.
    """
    if length > 1 and wide * out <= length * (wide + out):
        return Formed(found.formed())
    return found


def _batched(use: Use) -> tuple[torch.Tensor, torch.Tensor]:
    """Input and output gradient of a convolution; of a single example without a batch, with one."""
    alone = use.inputs.dim() == len(use.layer.kernel_size) + 1  # type: ignore[arg-type]
    return (use.inputs[None], use.output_gradients[None]) if alone else (use.inputs, use.output_gradients)


def _sequence(tensor: torch.Tensor) -> torch.Tensor:
    """Shape (n, T, entries) of (entries), (n, entries) or (n, ..., entries)."""
    if tensor.dim() < 3:
        return tensor.reshape(-1, 1, tensor.shape[-1])
    return tensor.flatten(1, -2)


def filled(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """The tensor with rows of zeros for the examples that took no part."""
    lacking = rows - len(tensor)
    return tensor if lacking <= 0 else torch.cat([tensor, tensor.new_zeros(lacking, *tensor.shape[1:])])
