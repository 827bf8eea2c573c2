"""The layers of a private model: which of them treat samples apart, and Opacus's hooks on those that are trained."""

from collections.abc import Iterable

import torch
from opacus import GradSampleModule
from opacus.validators import ModuleValidator
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from dptheory.training.engine._misread_layers import misread_kinds, read_by_functorch
from dptheory.training.per_example import FactoredModule


def check_layers(module: nn.Module) -> None:
    """See that no layer of a model in training mode mixes samples, trained or not.

    Raises:
        ValueError: one does. Opacus looks at layers with trained parameters alone.
    """
    faults = ModuleValidator.validate(module, strict=False)
    if faults:
        raise ValueError(
            f"module must treat samples apart, got layers that do not: {'; '.join(map(str, faults))}; replace batch "
            "normalisation by group normalisation (opacus.validators.ModuleValidator.fix does it)"
        )
    check_statistics(module)


def check_statistics(module: nn.Module) -> None:
    """See that no layer takes statistics over the batch, or of it: frozen batch normalisation in training mode does both.

    Every gradient then depends on the other examples of the batch, and the running statistics are private data without noise.
    So are the rows that an embedding with ``max_norm`` scales down in the forward pass: those of the tokens of the batch.

    Raises:
        ValueError: a layer does.
    """
    for name, m in module.named_modules():
        mixes = isinstance(m, _BatchNorm) and (m.training or m.running_mean is None)
        if mixes or (isinstance(m, _InstanceNorm) and m.training and m.track_running_stats):
            raise ValueError(
                f"module must treat samples apart, got {name or 'a layer'} ({type(m).__name__}) with statistics of the batch: "
                "call its eval() after every train() of the model, or replace it by group normalisation"
            )
        if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.scale_grad_by_freq and m.weight.requires_grad:
            raise ValueError(
                f"module must treat samples apart, got {name or 'a layer'} ({type(m).__name__}) with scale_grad_by_freq=True, "
                "which divides by counts of the whole batch: build it without"
            )
        if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.max_norm is not None:
            raise ValueError(
                f"module must not write to its weights, got {name or 'a layer'} ({type(m).__name__}) with "
                f"max_norm={m.max_norm!r}, which scales down the rows of the tokens of a batch, without noise: build it "
                "without max_norm"
            )


def check_held(module: nn.Module, held: Iterable[torch.Tensor]) -> None:
    """See that the optimizer holds all parameters that are trained.

    ``backward()`` leaves the bare gradient of the batch at any other, for whatever steps it.

    Raises:
        ValueError: it does not.
    """
    known = {id(p) for p in held}
    others = [name for name, p in module.named_parameters() if p.requires_grad and id(p) not in known]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise ValueError(
            f"optimizer must hold every parameter of module that has requires_grad, got none for {others[0]}{more}, where "
            "backward() leaves a gradient without clip and noise: hand them to it, or freeze them with requires_grad_(False)"
        )


class HookedLayers:
    """Keeps Opacus's hooks on the layers that have trained parameters, and forgets passes that came to nothing.

    Opacus decides where hooks go when the model is wrapped: a layer that is unfrozen later has no per-sample gradients, and one
    that is frozen later still costs them.

    Args:
        private: the wrapped model, whose hooks are as ``requires_grad`` says now.
        optimizer: that holds its trained parameters.
    """

    def __init__(self, private: GradSampleModule, optimizer: torch.optim.Optimizer) -> None:
        if misread_kinds(private._module):
            private.remove_hooks()
            _add_hooks(private)
        self._private = private
        self._optimizer = optimizer
        self._parameters = list(private._module.parameters())
        self._trained = self._flags()

    def follow(self) -> bool:
        """Put the hooks on anew where ``requires_grad`` has changed.

        Returns:
            Whether it has.

        Raises:
            ValueError: a layer that is trained now mixes samples, or its per-sample gradients are unknown to Opacus, or the
                optimizer does not hold its parameters.
        """
        check_statistics(self._private._module)
        flags = self._flags()
        if flags == self._trained:
            return False
        check_held(self._private._module, (p for group in self._optimizer.param_groups for p in group["params"]))
        check_layers(self._private._module)
        unknown = GradSampleModule.validate(module=self._private._module, strict=False)
        if unknown:
            raise ValueError(f"module must have layers that Opacus knows, got {'; '.join(map(str, unknown))}")
        for p in self._parameters:
            p.grad_sample, p._forward_counter = None, 0
            p.summed_grad = None
        self._private.remove_hooks()
        _add_hooks(self._private)
        self._trained = flags
        return True

    def forget_passes(self) -> None:
        """Drop gradients, and what is kept of passes whose backward pass has not come, or has failed."""
        if isinstance(self._private, FactoredModule):
            self._private.forget_passes()
        for m in self._private._module.modules():
            for name in ("activations", "max_batch_len"):
                vars(m).pop(name, None)
        for p in self._parameters:
            if hasattr(p, "_forward_counter"):
                p.grad_sample, p._forward_counter = None, 0
            vars(p).pop("_current_grad_sample", None)

    def _flags(self) -> list[bool]:
        return [p.requires_grad for p in self._parameters]


def _add_hooks(private: GradSampleModule) -> None:
    read_by_functorch(private)
    private.add_hooks(
        loss_reduction=private.loss_reduction, batch_first=private.batch_first, force_functorch=private.force_functorch
    )


def without_gradient(optimizer: torch.optim.Optimizer) -> None:
    """Take the gradient from what is not trained: backward() leaves the bare sum of the batch there, which ``step`` would use."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            if not p.requires_grad:
                p.grad = None
