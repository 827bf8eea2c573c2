"""``make_private``: a plain PyTorch loop becomes one of the papers' algorithms."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.optimizers.ddpoptimizer import DistributedDPOptimizer
from opacus.validators.errors import UnsupportedModuleError
from torch import nn
from torch.utils.data import DataLoader

from dptheory import _validate
from training.mechanisms._base import Mechanism
from training.optimizer import DistributedMechanismOptimizer, MechanismOptimizer

GRAD_SAMPLE_MODES = ("hooks", "functorch")


def make_private(
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data_loader: DataLoader[Any],
    mechanism: Mechanism,
    noise_multiplier: float,
    max_grad_norm: float,
    grad_sample_mode: str = "hooks",
    loss_reduction: str = "mean",
    noise_generator: torch.Generator | None = None,
    secure: bool = False,
) -> tuple[GradSampleModule, MechanismOptimizer, DataLoader[Any]]:
    """As Opacus's ``PrivacyEngine.make_private``, with an algorithm of choice; batches are Poisson-sampled.

    Args:
        module: the model, or a ``DistributedDataParallel``-like wrapper of it (``DifferentiallyPrivateDistributedDataParallel``).
        optimizer: any torch optimizer over its parameters.
        data_loader: its batch size is the expected one; the divisor of a "mean" loss is that expectation, not the drawn size.
        mechanism: see :mod:`training.mechanisms`; seeded alike in every process of a distributed run.
        noise_multiplier: sigma >= 0.
        max_grad_norm: clip C > 0.
        grad_sample_mode: "hooks" or "functorch".
        loss_reduction: "mean" or "sum", as the loss does it.
        noise_generator: on the model's device; for runs that can be repeated.
        secure: noise from the operating system's cryptographic generator.

    Returns:
        The module that computes per-sample gradients, the optimizer (``optimizer.epsilon(delta)`` says what is spent), and the
        Poisson-sampling loader.

    Raises:
        ValueError: a bad argument, a layer that mixes samples (batch normalisation), or a generator together with ``secure``.
    """
    _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="[)")
    _validate.real("max_grad_norm", max_grad_norm, 0.0, ends="()")
    _validate.choice("grad_sample_mode", grad_sample_mode, GRAD_SAMPLE_MODES)
    if secure and noise_generator is not None:
        raise ValueError("noise_generator must be None with secure=True: cryptographic noise cannot be repeated")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Secure RNG turned off")
        engine = PrivacyEngine(accountant="rdp")
    try:
        private, opacus, loader = engine.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=data_loader,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            loss_reduction=loss_reduction,
            noise_generator=noise_generator,
            grad_sample_mode="functorch" if grad_sample_mode == "functorch" else "hooks",
        )
    except UnsupportedModuleError as error:
        raise ValueError(
            f"module must treat samples apart, got one with layers that do not: {error}; replace batch normalisation by group "
            "normalisation (opacus.validators.ModuleValidator.fix does it)"
        ) from error
    distributed = isinstance(opacus, DistributedDPOptimizer)
    build: Callable[..., MechanismOptimizer] = DistributedMechanismOptimizer if distributed else MechanismOptimizer
    wrapped = build(
        opacus.original_optimizer,
        mechanism=mechanism,
        sampling_rate=1 / len(loader),
        names={p: name for name, p in module.named_parameters()},
        noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
        expected_batch_size=opacus.expected_batch_size,
        loss_reduction=loss_reduction,
        generator=noise_generator,
        secure=secure,
    )
    mechanism.attach(private)
    return private, wrapped, loader
