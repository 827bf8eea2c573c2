"""The comparisons: what each mechanism adds to the step that it changes."""

from collections.abc import Callable
from dataclasses import replace

import torch

from dptheory.training import networks
from dptheory.training.benchmarks import _arms
from dptheory.training.benchmarks._networks import NETWORKS, Timed
from dptheory.training.benchmarks._timing import Case, Work
from dptheory.training.engine import generator_noise
from dptheory.training.mechanisms import AnchorSource, Constant, GepOptimal, IndexPruning, RandomSparsification, Tensors
from dptheory.training.runs import parameter_groups

_LOGICAL_BATCH = 4096
"""GIP's and De et al.'s, on WRN-16-4."""
_CNN = Timed(name="dp-cnn", build=networks.dp_cnn, shape=(3, 32, 32), batch=32)


def _step(arm: str, timed: Timed, device: torch.device) -> Work:
    return _arms.build(arm, timed, *(one.to(device) for one in timed.examples(timed.batch)))


def random_sparsification(device: torch.device) -> Case:
    """A step with random sparsification against Opacus's own, on the end-to-end CNN."""
    return Case(
        "random sparsification / Opacus DP-SGD, step of dp-cnn",
        work=_step(_arms.MASK, _CNN, device),
        against=_step(_arms.OPACUS, _CNN, device),
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


def layer_freezing(device: torch.device) -> Case:
    """A step with the lower half of the layers frozen against one without."""
    return Case(
        "lower half frozen / not, step of dp-cnn",
        work=_step(_arms.FROZEN, _CNN, device),
        against=_step(_arms.DP_SGD, _CNN, device),
        target=1.0,
    )


def index_sampling(device: torch.device, batch: int = 8) -> Case:
    """GIP's choice of indices against a whole step of WRN-16-4, of which one physical batch is run."""
    timed = replace(NETWORKS["WRN-16-4"], batch=batch)
    total = [torch.randn(sum(p.numel() for p in timed.model().parameters()), device=device)]
    noise = generator_noise(torch.Generator(device).manual_seed(0))
    mechanism = IndexPruning(1e-3, Constant(0.1))
    mechanism.begin_step(total)
    return Case(
        f"choice of indices / step of wrn-16-4 on {_LOGICAL_BATCH} images",
        work=lambda: mechanism.release(total, noise_multiplier=1.0, clip_norm=1.0, noise=noise),
        against=_step(_arms.DP_SGD, timed, device),
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


class _FixedAnchors(AnchorSource):
    """Some gradients as anchors."""

    def __init__(self, gradients: Tensors) -> None:
        self._gradients = gradients

    def __call__(self) -> Tensors:
        return self._gradients
