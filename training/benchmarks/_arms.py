"""One step of training of a network, by every way that is compared: plain torch, the mechanisms here, Opacus, JAX-Privacy."""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from opacus import GradSampleModule
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dptheory.training.benchmarks._networks import CLASSES, Timed
from dptheory.training.benchmarks._timing import Work
from dptheory.training.engine import attach
from dptheory.training.mechanisms import (
    AnchorGradients,
    Constant,
    DpSgd,
    GepOptimal,
    IndexPruning,
    LayerFreezing,
    Mechanism,
    RandomSparsification,
    layers,
)

PLAIN, DP_SGD, MASK, FROZEN, GEP = "plain torch", "DP-SGD", "masks at .5", "lower half frozen", "GEP, 20 directions"
INDEX = "GIP, a tenth of every group"
SECURE, HOOKS = "DP-SGD, secure noise", "DP-SGD, hooks"
OPACUS, GHOST, JAX = "Opacus hooks", "Opacus ghost", "JAX-Privacy"
ARMS = (PLAIN, DP_SGD, MASK, FROZEN, GEP, INDEX, SECURE, HOOKS, OPACUS, GHOST, JAX)

_RATE, _CLIP, _SIGMA, _LEARNING_RATE = 0.01, 1.0, 1.0, 1e-3
_ANCHORS, _DIRECTIONS = 128, 20


class SkippedError(Exception):
    """An arm that this network or this machine does not have; says why."""


def build(arm: str, timed: Timed, inputs: Tensor, labels: Tensor) -> Work:
    """A step of ``arm`` on a batch, which changes the arm's own copy of the network; SkippedError where there is none."""
    model = timed.model().to(inputs.device)
    if arm in _OTHERS:
        return _OTHERS[arm](model, inputs, labels)
    mechanism, mode = _MECHANISMS[arm](model, timed), "hooks" if arm == HOOKS else "factors"
    return _private(model, mechanism, inputs, labels, mode=mode, secure=arm == SECURE, views=timed.views)


def _dp_sgd(model: nn.Module, timed: Timed) -> Mechanism:
    return DpSgd()


def _mask(model: nn.Module, timed: Timed) -> Mechanism:
    return RandomSparsification(Constant(0.5), 0)


def _frozen(model: nn.Module, timed: Timed) -> Mechanism:
    count = len(layers(model))
    if count < 2:
        raise SkippedError("one layer has no lower half")
    return LayerFreezing(DpSgd(), frozen_layers=count // 2, from_step=0)


def _gep(model: nn.Module, timed: Timed) -> Mechanism:
    """With one group of all parameters, and anchors whose gradients are taken anew in every step, as GEP does."""
    anchors = AnchorGradients(model, timed.examples(_ANCHORS, seed=1)[0], classes=CLASSES, seed=0)
    everything = list(range(len(list(model.parameters()))))
    return GepOptimal(
        anchors,  # type: ignore[arg-type]
        subspace_dim=_DIRECTIONS,
        residual_clip=0.5,
        groups=[everything],
        seed=0,
    )


def _index(model: nn.Module, timed: Timed) -> Mechanism:
    return IndexPruning(1e-3, Constant(0.1))


_MECHANISMS: dict[str, Callable[[nn.Module, Timed], Mechanism]] = {
    DP_SGD: _dp_sgd,
    MASK: _mask,
    FROZEN: _frozen,
    GEP: _gep,
    INDEX: _index,
    SECURE: _dp_sgd,
    HOOKS: _dp_sgd,
}


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=_LEARNING_RATE)


def _plain(model: nn.Module, inputs: Tensor, labels: Tensor) -> Work:
    optimizer = _sgd(model)

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _private(
    model: nn.Module, mechanism: Mechanism, inputs: Tensor, labels: Tensor, *, mode: str, secure: bool, views: int
) -> Work:
    examples = len(labels) // views
    private, optimizer = attach(
        module=model,
        optimizer=_sgd(model),
        mechanism=mechanism,
        sampling_rate=_RATE,
        expected_batch_size=examples,
        noise_multiplier=_SIGMA,
        max_grad_norm=_CLIP,
        grad_sample_mode=mode,
        secure=secure,
        views=views,
    )

    def step() -> None:
        optimizer.begin_batch(examples)
        optimizer.zero_grad()
        cross_entropy(private(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _opacus(model: nn.Module, inputs: Tensor, labels: Tensor) -> Work:
    private = GradSampleModule(model)
    optimizer = DPOptimizer(_sgd(model), noise_multiplier=_SIGMA, max_grad_norm=_CLIP, expected_batch_size=len(labels))

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(private(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _ghost(model: nn.Module, inputs: Tensor, labels: Tensor) -> Work:
    private = GradSampleModuleFastGradientClipping(model, max_grad_norm=_CLIP, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        _sgd(model), noise_multiplier=_SIGMA, max_grad_norm=_CLIP, expected_batch_size=len(labels)
    )
    criterion = DPLossFastGradientClipping(private, optimizer, nn.CrossEntropyLoss())

    def step() -> None:
        optimizer.zero_grad()
        criterion(private(inputs), labels).backward()
        optimizer.step()

    return step


def _jax(model: nn.Module, inputs: Tensor, labels: Tensor) -> Work:
    """JAX-Privacy's clipped sum of the same network, compiled, for networks of linear layers with ReLU between them."""
    if not all(importlib.util.find_spec(name) for name in ("jax", "jax_privacy")):
        raise SkippedError("not installed")
    dense = [layer for layer in model if isinstance(layer, nn.Linear)] if isinstance(model, nn.Sequential) else []
    if not dense or any(not isinstance(one, nn.Linear | nn.Flatten | nn.ReLU) for one in model.children()):
        raise SkippedError("written for linear layers only")
    jax, clipping = (importlib.import_module(name) for name in ("jax", "jax_privacy.clipping"))
    np = jax.numpy
    weights = [(np.array(one.weight.detach().numpy()), np.array(one.bias.detach().numpy())) for one in dense]
    x, y = np.array(inputs.flatten(1).numpy()), np.array(labels.numpy())

    def loss(weights: Any, batch: Any) -> Any:
        hidden, targets = batch
        for number, (weight, bias) in enumerate(weights):
            hidden = (hidden if number == 0 else np.maximum(hidden, 0)) @ weight.T + bias
        return -np.take_along_axis(jax.nn.log_softmax(hidden), targets[:, None], axis=1).mean()

    summed = clipping.clipped_grad(loss, l2_clip_norm=_CLIP, batch_argnums=1)

    @jax.jit  # type: ignore[untyped-decorator]
    def updated(weights: Any, key: Any) -> Any:
        leaves, tree = jax.tree.flatten(weights)
        sums = jax.tree.leaves(summed(weights, (x, y)))
        keys = jax.random.split(key, len(leaves))
        noise = [_SIGMA * _CLIP * jax.random.normal(k, one.shape) for k, one in zip(keys, leaves, strict=True)]
        moved = [w - _LEARNING_RATE * (s + z) / len(y) for w, s, z in zip(leaves, sums, noise, strict=True)]
        return jax.tree.unflatten(tree, moved)

    state = {"weights": weights, "key": jax.random.key(0)}

    def step() -> None:
        state["key"], key = jax.random.split(state["key"])
        state["weights"] = jax.block_until_ready(updated(state["weights"], key))

    return step


_OTHERS: dict[str, Callable[[nn.Module, Tensor, Tensor], Work]] = {
    PLAIN: _plain,
    OPACUS: _opacus,
    GHOST: _ghost,
    JAX: _jax,
}
