"""The layers of a private model: which treat samples apart, Opacus's hooks, and that a forward pass in training writes to none."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from opacus.utils.module_utils import trainable_modules
from opacus.validators import ModuleValidator
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.utils.parametrizations import _SpectralNorm

from dptheory.errors import ArgumentError
from dptheory.training.per_example import HookedModule

_WITH_STATISTICS = (_BatchNorm, _InstanceNorm, nn.Embedding, nn.EmbeddingBag)


def check_layers(module: nn.Module) -> None:
    """See that no layer of a model in training mode mixes samples, trained or not, and that each has per-sample gradients.

    Opacus looks at layers with trained parameters alone.
    """
    if not module.training:
        raise ArgumentError(
            "module", "be in training mode", module, got="one in evaluation mode: call its train() first"
        )
    trained = list(trainable_modules(module))
    faults = [(name, m) for name, m in trained if type(m) in ModuleValidator.VALIDATORS and _faulty(m)]
    if faults:
        name, layer = faults[0]
        more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        raise ArgumentError(
            "module",
            "treat samples apart",
            module,
            got=f"{_label(name, layer)}{more}, which {_why_faulty(layer)}: opacus.validators.ModuleValidator.fix(model) gives a "
            "model without; return that from the function that builds it, or build the optimizer over its parameters",
        )
    check_statistics(module)
    for name, layer in trained:
        _check_parameters(name, layer)


def _faulty(layer: nn.Module) -> bool:
    return bool(ModuleValidator.VALIDATORS[type(layer)](layer))


def _why_faulty(layer: nn.Module) -> str:
    if isinstance(layer, _BatchNorm | _InstanceNorm):
        return "takes statistics of the batch, as torch.nn.GroupNorm does not"
    return "hides the layers inside it from the hooks for per-sample gradients"


def _label(name: str, layer: nn.Module) -> str:
    return f"{f'layer {name}' if name else 'the model itself'} ({type(layer).__name__})"


def _check_parameters(name: str, layer: nn.Module) -> None:
    """See that hooks can reach what a layer with trained parameters is made of."""
    for must, fault in _out_of_reach(layer):
        raise ArgumentError("module", must, _label(name, layer), got=_label(name, layer) + fault)


def _out_of_reach(layer: nn.Module) -> Iterator[tuple[str, str]]:
    """What a layer must, and why it does not."""
    held = ((key, vars(layer).get(key)) for key in ("weight", "bias"))
    for key, value in held:
        if isinstance(value, torch.Tensor):  # a plain one, that a hook of old weight_norm works out
            yield (
                "have layers whose weights are parameters",
                f", whose {key} is worked out before every call: take torch.nn.utils.parametrizations.weight_norm for the old "
                "weight_norm; leave out spectral norms and pruning hooks, which keep buffers",
            )
    if isinstance(layer, nn.EmbeddingBag) and layer.mode == "max":
        yield (
            "have layers with per-sample gradients",
            " with mode='max': take 'sum' or 'mean', or an nn.Embedding and the maximum over its tokens",
        )
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.sparse:
        yield "have dense gradients", " with sparse=True: noise falls on every row; build it without"
    for key, p in layer.named_parameters(recurse=False):
        if isinstance(p, nn.UninitializedParameter):
            yield (
                "have parameters with a shape",
                f", whose {key} has none yet: call the model on a batch of public shape first, and build the optimizer after it",
            )


def check_statistics(module: nn.Module) -> None:
    """See that no layer takes statistics over the batch, or of it: frozen batch normalisation in training mode does both.

    Every gradient then depends on the other examples of the batch, and the running statistics are private data without noise.
    So are the rows that an embedding with ``max_norm`` scales down in the forward pass: those of the tokens of the batch.
    """
    if not any(isinstance(m, _WITH_STATISTICS) for m in every_layer(module)):
        return  # before every step
    for name, m in module.named_modules():
        for must, fault in _of_the_batch(m):
            raise ArgumentError("module", must, module, got=f"{_label(name, m)} with {fault}")


def _of_the_batch(m: nn.Module) -> Iterator[tuple[str, str]]:
    mixes = isinstance(m, _BatchNorm) and (m.training or m.running_mean is None)
    if mixes or (isinstance(m, _InstanceNorm) and m.training and m.track_running_stats):
        yield (
            "treat samples apart",
            "statistics of the batch: call its eval() after every train() of the model, or replace it by group normalisation",
        )
    if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.scale_grad_by_freq and m.weight.requires_grad:
        yield (
            "treat samples apart",
            "scale_grad_by_freq=True, which divides by counts of the whole batch: build it without",
        )
    if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.max_norm is not None:
        yield (
            "not write to its weights",
            f"max_norm={m.max_norm!r}, which scales down the rows of the tokens of a batch, without noise: build it without max_norm",
        )


def check_held(module: nn.Module, held: Iterable[torch.Tensor]) -> None:
    """See that the optimizer holds all parameters that are trained.

    ``backward()`` leaves the bare gradient of the batch at any other, for whatever steps it.
    """
    known = {id(p) for p in held}
    others = [name for name, p in module.named_parameters() if p.requires_grad and id(p) not in known]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise ArgumentError(
            "optimizer",
            "hold every parameter of module that has requires_grad",
            None,
            got=f"none for {others[0]}{more}, where backward() leaves a gradient without clip and noise: "
            "hand them to it, or freeze them with requires_grad_(False)",
        )


def every_layer(module: nn.Module) -> list[nn.Module]:
    """The module and all layers in it, each once, in no order that matters; faster than ``modules()``, which makes names."""
    found, seen = [module], {id(module)}
    for one in found:
        for layer in one._modules.values():
            if layer is not None and id(layer) not in seen:
                seen.add(id(layer))
                found.append(layer)
    return found


class HookedLayers:
    """Keeps Opacus's hooks on the layers that have trained parameters, and forgets passes that came to nothing.

    Opacus decides where hooks go when the model is wrapped: a layer that is unfrozen later has no per-sample gradients, and one
    that is frozen later still costs them.
    """

    def __init__(self, private: HookedModule, optimizer: torch.optim.Optimizer) -> None:
        self._private = private
        self._optimizer = optimizer
        self._parameters = list(private._module.parameters())
        self._trained = self._flags()

    @property
    def private(self) -> bool:
        """Whether the model still is: until ``to_standard_module()`` takes its hooks off, or a call that fails puts it back."""
        name = "autograd_grad_sample_hooks"
        held = vars(self._private).get(name)  # of the wrapper itself, which hands on what its model has
        return held is not None and vars(self._private._module).get(name) is held

    def parameters(self) -> set[nn.Parameter]:
        """Those that the model has now, of layers that came later, too."""
        return {p for m in every_layer(self._private._module) for p in m._parameters.values() if p is not None}

    def follow(self) -> bool:
        """Put the hooks on anew where ``requires_grad`` has changed, if the model still passes the checks; whether it has."""
        check_statistics(self._private._module)
        self._private.passes.put_back()
        flags = self._flags()
        if flags == self._trained:
            _guard_statistics(self._private)  # hooks that did not fit the model were put on anew in its first pass
            return False
        check_held(self._private._module, (p for group in self._optimizer.param_groups for p in group["params"]))
        check_layers(self._private._module)
        for p in self._parameters:
            p.grad_sample = p.summed_grad = None
        self._private.remove_hooks()
        self._private.add_hooks(
            loss_reduction=self._private.loss_reduction,
            batch_first=self._private.batch_first,
            force_functorch=self._private.force_functorch,
        )
        _guard_statistics(self._private)
        self._trained = flags
        return True

    def begin(self, sizes: Iterable[int]) -> None:
        """A forward pass comes, of a batch of one of these sizes."""
        passes = self._private.passes
        passes.arguments.drawn = [size * passes.views for size in sizes]

    def strays(self, p: torch.Tensor) -> bool:
        """Whether a gradient came to a parameter past its layer."""
        return self._private.passes.strays(p)

    def forget_passes(self) -> None:
        """Drop gradients, and what is known of forward passes whose backward pass has not come."""
        self.leave_out_passes()
        for p in self._parameters:
            if hasattr(p, "grad_sample"):
                p.grad_sample = None

    def leave_out_passes(self) -> None:
        """Refuse the backward passes of the forward passes so far."""
        self._private.passes.forget()

    def why_missing(self) -> str | None:
        """Why no parameter has per-sample gradients, as far as the last forward pass tells; None where it does not."""
        return _MISSING.get(self._private.passes.last)

    def _flags(self) -> list[bool]:
        return [p.requires_grad for p in self._parameters]


_MISSING = {
    None: "no forward pass went through the model since the last batch: call the module that make_private returned",
    "eval": "the forward pass was one in evaluation mode: call train() on the model before the loop",
    "no_grad": "the forward pass was under torch.no_grad(): leave it out in training",
}


def without_gradient(optimizer: torch.optim.Optimizer) -> None:
    """Take the gradient from what is not trained: backward() leaves the bare sum of the batch there, which ``step`` would use."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            if not p.requires_grad:
                p.grad = None


def refuse_writes(private: HookedModule) -> None:
    """Have every forward pass in training mode raise a ValueError where it writes to a parameter or buffer, or replaces one.

    Running statistics, observers of quantisation and embeddings that renormalise the rows of a batch do so. The error comes
    before the step: nothing of the batch is released by the optimizer. Layers with running statistics refuse to take them
    themselves too: ``torch.optim.swa_utils.update_bn`` calls the model that is wrapped, or a copy of it.
    """
    writes = _Writes()
    private.register_forward_pre_hook(writes.note)
    private.register_forward_hook(writes.check)
    _guard_statistics(private)


def _guard_statistics(private: HookedModule) -> None:
    """Have the layers with running statistics refuse to take them, until ``to_standard_module()`` takes the hooks away."""
    handles = getattr(private, "autograd_grad_sample_hooks", None)
    if handles is None:
        return
    for layer in every_layer(private._module):
        if (
            isinstance(layer, _BatchNorm | _InstanceNorm)
            and _refuse_statistics not in layer._forward_pre_hooks.values()
        ):
            handles.append(layer.register_forward_pre_hook(_refuse_statistics))


def _refuse_statistics(layer: nn.Module, _: object) -> None:
    if layer.training and layer.track_running_stats:
        raise ArgumentError(
            "module",
            "take no running statistics while a private run is on",
            type(layer).__name__,
            got=f"{type(layer).__name__} in training mode, which keeps the mean of what it is given without noise: call its "
            "eval(), and leave out swa_utils.update_bn; to_standard_module() ends the run",
        )


class _Held(NamedTuple):
    """What stands under a name in a layer: a parameter or buffer, with the number of writes to it so far, or a layer."""

    names: dict[str, Any]
    name: str
    value: Any
    writes: int

    def stays(self) -> bool:
        return self.names.get(self.name) is self.value and self.writes == _writes(self.value)


class _Writes:
    """Between the beginning and the end of a forward pass."""

    def __init__(self) -> None:
        self._before: list[_Held] = []

    def __reduce__(self) -> tuple[type["_Writes"], tuple[()]]:
        return _Writes, ()

    def note(self, module: nn.Module, _: object) -> None:
        self._before = list(_held(module)) if module.training else []

    def check(self, module: nn.Module, _: object, __: object) -> None:
        for one in self._before:
            if not one.stays() and not _holds_nothing(one.value):
                raise ArgumentError(
                    "module",
                    "leave its parameters and buffers as they are in a forward pass of training",
                    module,
                    got=f"one that writes to {_held_label(module, one)}: what it holds of the batch has no noise; put "
                    "that layer into eval(), or keep the value outside the model",
                )


def _held(module: nn.Module) -> Iterator[_Held]:
    for layer in every_layer(module):
        if isinstance(layer, _SpectralNorm):
            continue  # its vectors follow from the weight alone
        for names in (layer._modules, layer._parameters, layer._buffers):
            for name, value in names.items():
                if value is not None:
                    yield _Held(names, name, value, _writes(value))


def _writes(value: Any) -> int:
    return 0 if isinstance(value, nn.Module) or value.is_inference() else value._version


def _holds_nothing(value: torch.Tensor | nn.Module) -> bool:
    """A layer without parameters and buffers, which may be replaced."""
    return isinstance(value, nn.Module) and not any(True for _ in (*value.parameters(), *value.buffers()))


def _held_label(module: nn.Module, held: _Held) -> str:
    """The name of what was written to, from the model on."""
    for path, layer in module.named_modules():
        if any(held.names is names for names in (layer._modules, layer._parameters, layer._buffers)):
            return f"{path}.{held.name}".removeprefix("_module.").removeprefix(".")
    return held.name
