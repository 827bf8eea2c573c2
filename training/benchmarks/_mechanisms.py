"""The comparisons: what each mechanism adds to the step that it changes."""

from collections.abc import Callable

import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import nn

from dptheory.training import networks
from dptheory.training.benchmarks._timing import Case, Work
from dptheory.training.engine import attach, generator_noise
from dptheory.training.mechanisms import (
    Constant,
    DpSgd,
    GepOptimal,
    IndexPruning,
    LayerFreezing,
    Mechanism,
    RandomSparsification,
    Tensors,
    layers,
)
from dptheory.training.runs import parameter_groups

_LOGICAL_BATCH = 4096
"""GIP's and De et al.'s, on WRN-16-4."""


def random_sparsification(device: torch.device, batch: int = 32) -> Case:
    """A step with random sparsification against Opacus's own, on the end-to-end CNN."""
    return Case(
        "random sparsification / Opacus DP-SGD, step of dp-cnn",
        work=_step(networks.dp_cnn(0), RandomSparsification(Constant(0.5), 0), batch, device),
        against=_opacus_step(networks.dp_cnn(0), batch, device),
        target=1.1,
    )


def masking(device: torch.device, batch: int = 256) -> Case:
    """Masking, clipping and summing all samples at once against one by one."""
    params = [p.detach().to(device) for p in networks.scattering_cnn(0).parameters()]
    samples = [torch.randn(batch, *p.shape, device=device) for p in params]
    mechanism = RandomSparsification(Constant(0.5), 0)
    mechanism.begin_step(params)

    def one_by_one() -> Tensors:
        total = [torch.zeros_like(p) for p in params]
        for i in range(batch):
            kept = [s[i] * m for s, m in zip(samples, mechanism.mask, strict=True)]
            norm = torch.cat([k.flatten() for k in kept]).norm()
            factor = (1.0 / norm).clamp_max(1.0)
            total = [t + factor * k for t, k in zip(total, kept, strict=True)]
        return total

    return Case(
        f"masks of {batch} samples at once / one by one",
        work=lambda: mechanism.contribute(samples, 1.0),
        against=one_by_one,
        target=1 / 3,
    )


def layer_freezing(device: torch.device, batch: int = 32) -> Case:
    """A step with the lower half of the layers frozen against one without."""
    half = len(layers(networks.dp_cnn(0))) // 2
    return Case(
        "lower half frozen / not, step of dp-cnn",
        work=_step(networks.dp_cnn(0), LayerFreezing(DpSgd(), frozen_layers=half, from_step=0), batch, device),
        against=_step(networks.dp_cnn(0), DpSgd(), batch, device),
        target=1.0,
    )


def index_sampling(device: torch.device, batch: int = 8) -> Case:
    """GIP's choice of indices against a whole step of WRN-16-4, of which one physical batch is run."""
    model = networks.wrn_16_4(0)
    dim = sum(p.numel() for p in model.parameters())
    total = [torch.randn(dim, device=device)]
    noise = generator_noise(torch.Generator(device).manual_seed(0))
    mechanism = IndexPruning(1e-3, Constant(0.1))
    mechanism.begin_step(total)
    return Case(
        f"choice of indices / step of wrn-16-4 on {_LOGICAL_BATCH} images",
        work=lambda: mechanism.release(total, noise_multiplier=1.0, clip_norm=1.0, noise=noise),
        against=_step(model, DpSgd(), batch, device),
        target=0.1,
        against_times=_LOGICAL_BATCH / batch,
    )


def projection(device: torch.device, batch: int = 64, subspace_dim: int = 400) -> Case:
    """GEP's projection, clipping and summing against its matrix products alone."""
    model = networks.resnet20(0)
    params = [p.detach().to(device) for p in model.parameters()]
    samples = [torch.randn(batch, *p.shape, device=device) for p in params]
    groups = parameter_groups(model, "blocks")
    anchors = _FixedAnchors([torch.randn(subspace_dim, *p.shape, device=device) for p in params])
    mechanism = GepOptimal(anchors, subspace_dim=subspace_dim, residual_clip=1.0, groups=groups, seed=0)
    mechanism.begin_step(params)
    joined = [torch.cat([samples[i].flatten(1) for i in group], 1) for group in groups]
    weights = torch.rand(batch, device=device)

    def products() -> Tensors:
        embeddings = [g @ b.T for g, b in zip(joined, mechanism.bases, strict=True)]
        return [weights @ (e @ b) for e, b in zip(embeddings, mechanism.bases, strict=True)]

    return Case(
        "GEP's projection / its matrix products, resnet20",
        work=lambda: mechanism.contribute(samples, 1.0),
        against=products,
        target=1.5,
    )


CASES: tuple[Callable[[torch.device], Case], ...] = (
    random_sparsification,
    masking,
    layer_freezing,
    index_sampling,
    projection,
)


class _FixedAnchors:
    """Some gradients as anchors."""

    def __init__(self, gradients: Tensors) -> None:
        self._gradients = gradients

    def __call__(self) -> Tensors:
        return self._gradients

    def state_dict(self) -> dict[str, object]:
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """There is nothing to take over."""


def _step(model: nn.Module, mechanism: Mechanism, batch: int, device: torch.device) -> Work:
    private, optimizer = attach(
        module=model.to(device),
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-3),
        mechanism=mechanism,
        sampling_rate=0.01,
        train_size=100 * batch,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        noise_generator=torch.Generator(device).manual_seed(0),
    )
    return _passes(private, optimizer, batch, device)


def _opacus_step(model: nn.Module, batch: int, device: torch.device) -> Work:
    private = GradSampleModule(model.to(device))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=1e-3),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=batch,
        generator=torch.Generator(device).manual_seed(0),
    )
    return _passes(private, optimizer, batch, device)


def _passes(private: GradSampleModule, optimizer: DPOptimizer, batch: int, device: torch.device) -> Work:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(batch, 3, 32, 32, generator=generator).to(device)
    labels = (torch.arange(batch) % 10).to(device)

    def work() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(private(pixels), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return work
