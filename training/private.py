"""``make_private``: a plain PyTorch loop becomes one of the papers' algorithms."""

from typing import Any

import torch
from opacus import GradSampleModule
from opacus.data_loader import DPDataLoader
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from opacus.grad_sample.utils import prepare_module
from opacus.validators import ModuleValidator
from torch import nn
from torch.utils.data import DataLoader

from dptheory import _validate
from training.config import GRAD_SAMPLE_MODES
from training.mechanisms._base import Mechanism
from training.optimizer import DistributedMechanismOptimizer, MechanismOptimizer


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
        module: the model; for several processes, Opacus's ``DifferentiallyPrivateDistributedDataParallel`` around it.
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
    distributed = isinstance(module, DifferentiallyPrivateDistributedDataParallel)
    loader = DPDataLoader.from_data_loader(data_loader, distributed=distributed)
    private, wrapped = attach(
        module=module,
        optimizer=optimizer,
        mechanism=mechanism,
        sampling_rate=1 / len(loader),
        examples=len(loader.dataset),
        noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
        grad_sample_mode=grad_sample_mode,
        loss_reduction=loss_reduction,
        noise_generator=noise_generator,
        secure=secure,
    )
    return private, wrapped, loader


def attach(
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    mechanism: Mechanism,
    sampling_rate: float,
    examples: int,
    noise_multiplier: float,
    max_grad_norm: float,
    grad_sample_mode: str = "hooks",
    loss_reduction: str = "mean",
    noise_generator: torch.Generator | None = None,
    secure: bool = False,
) -> tuple[GradSampleModule, MechanismOptimizer]:
    """The same for callers that draw Poisson batches themselves.

    Args:
        sampling_rate: with which each of the ``examples`` is drawn into a step, in (0, 1], whichever process then has it.
        examples: number of training examples of all processes, >= 1. The divisor of a "mean" loss is their product.

    The others, and the errors, are those of :func:`make_private`.
    """
    _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="[)")
    _validate.real("max_grad_norm", max_grad_norm, 0.0, ends="()")
    _validate.choice("grad_sample_mode", grad_sample_mode, GRAD_SAMPLE_MODES)
    _validate.choice("loss_reduction", loss_reduction, ("mean", "sum"))
    expected = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0, ends="(]")
    expected *= _validate.integer("examples", examples, 1)
    if secure and noise_generator is not None:
        raise ValueError("noise_generator must be None with secure=True: cryptographic noise cannot be repeated")
    known = set(module.parameters())
    if any(p not in known for group in optimizer.param_groups for p in group["params"]):
        raise ValueError("optimizer must hold parameters of module only, got others")
    faults = ModuleValidator.validate(module, strict=False)
    if faults:
        raise ValueError(
            f"module must treat samples apart, got layers that do not: {'; '.join(map(str, faults))}; replace batch "
            "normalisation by group normalisation (opacus.validators.ModuleValidator.fix does it)"
        )
    distributed = isinstance(module, DifferentiallyPrivateDistributedDataParallel)
    if distributed:  # Opacus divides by each process's share of the batch, and then by the number of processes
        expected /= torch.distributed.get_world_size()
    private = prepare_module(module, grad_sample_mode=grad_sample_mode, loss_reduction=loss_reduction)
    private.forbid_grad_accumulation()
    wrapped = (DistributedMechanismOptimizer if distributed else MechanismOptimizer)(
        optimizer,
        mechanism=mechanism,
        sampling_rate=sampling_rate,
        names={p: name for name, p in module.named_parameters()},
        noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
        expected_batch_size=expected,
        loss_reduction=loss_reduction,
        generator=noise_generator,
        secure=secure,
    )
    mechanism.attach(private)
    return private, wrapped
