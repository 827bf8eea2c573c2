"""GEP: what its subspace captures, and the error of its variants."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from dptheory import embedding
from dptheory.training.engine import generator_noise
from dptheory.training.measure._rows import Labels, Row
from dptheory.training.measure._settings import ValidateSettings
from dptheory.training.measure._snapshot import Snapshot
from dptheory.training.mechanisms import BiasedGep, Gep, GepJoint, GepOptimal, Tensors, power_iteration

INDEPENDENT = "gep.jl: basis uniformly random"
RESIDUAL_SHARE = 0.2  # residual clip over clip
_BASES = 20
_VARIANTS: dict[str, Callable[..., Gep | GepOptimal | GepJoint | BiasedGep]] = {
    "published": Gep,
    "optimal": GepOptimal,
    "joint": GepJoint,
    "embedding_only": BiasedGep,
}


@dataclasses.dataclass(frozen=True)
class _Given:
    """Anchor gradients that are there already."""

    gradients: torch.Tensor

    def __call__(self) -> Tensors:
        return [self.gradients]

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def projection_rows(snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    """Root mean square of |residual| / |gradient| over the batch: sqrt(1 - k/p) for a random basis, less for GEP's."""
    norms = snapshot.batch.norm(dim=1, keepdim=True)
    units = (snapshot.batch / norms)[norms[:, 0] > 0]
    dim, most = units.shape[1], max(settings.subspace_dims)
    captured = np.empty((_BASES, len(settings.subspace_dims)))
    for i in range(_BASES):
        basis = _random_basis(dim, most, generator)
        energy = (units @ basis.T).double().square().mean(0).cumsum(0).numpy()
        captured[i] = energy[np.array(settings.subspace_dims) - 1]
    labels = Labels(group="projection", claims="gep.jl")
    rows = []
    for k, shares in zip(settings.subspace_dims, captured.T, strict=True):
        error = embedding.random_basis_error(dim=dim, subspace_dim=k)
        found = power_iteration(snapshot.anchors, dim=k, iterations=1, generator=generator)
        measured = float((1.0 - (units @ found.T).double().square().sum(1).mean()).sqrt())
        rows += [
            labels.mean("captured, random basis", f"k = {k}", 1.0 - error**2, shares),
            labels.mean("error, random basis", f"k = {k}", error, np.sqrt(1.0 - shares)),
            labels.fixed("error, GEP's basis", f"k = {k}", error, measured, INDEPENDENT),
        ]
    return rows


def _random_basis(dim: int, rows: int, generator: torch.Generator) -> torch.Tensor:
    """Uniformly random orthonormal rows, each first few of them too; by Cholesky, many times faster than QR."""
    normal = torch.randn(rows, dim, generator=generator)
    lower = torch.linalg.cholesky(normal @ normal.T)
    basis: torch.Tensor = torch.linalg.solve_triangular(lower, normal, upper=False)
    return basis


def embedding_rows(snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    """Noise energy and squared error of the released sum of the batch, for the four variants; the residual clip is C / 5."""
    k = sorted(settings.subspace_dims)[len(settings.subspace_dims) // 2]
    dim, sigma = snapshot.true.size, settings.training.noise_multiplier
    noise, parameter = generator_noise(generator), torch.zeros(dim)
    true_sum = snapshot.batch.double().sum(0)
    labels = Labels(group="embedding", claims="gep.versus, gep.rem1")
    rows = []
    for name, variant in _VARIANTS.items():
        mechanism = variant(
            _Given(snapshot.anchors),
            subspace_dim=k,
            residual_clip=RESIDUAL_SHARE * settings.clip_norm,
            groups=[[0]],
            seed=settings.training.seed,
        )
        mechanism.begin_step([parameter])
        total = mechanism.contribute([snapshot.batch], settings.clip_norm).total
        (clean,) = mechanism.release(total, noise_multiplier=0.0, clip_norm=settings.clip_norm, noise=noise)
        energies, errors = [], []
        for _ in range(settings.draws):
            (released,) = mechanism.release(total, noise_multiplier=sigma, clip_norm=settings.clip_norm, noise=noise)
            energies.append(float((released - clean).double().square().sum()))
            errors.append(float((released.double() - true_sum).square().sum()))
        energy, error = _predicted(name, snapshot, mechanism.bases[0], settings)
        rows += [
            labels.mean("noise energy", f"{name}, k = {k}", energy, energies),
            labels.mean("mse", f"{name}, k = {k}", error, errors),
        ]
    return rows


def _predicted(name: str, snapshot: Snapshot, basis: torch.Tensor, settings: ValidateSettings) -> tuple[float, float]:
    """Noise energy and squared error: the noise, the lost residual and the squared clipping bias."""
    gradients, rows = snapshot.batch.double(), basis.double()
    w = gradients @ rows.T
    r = gradients - w @ rows
    clip, residual_clip, mu = (
        settings.clip_norm,
        RESIDUAL_SHARE * settings.clip_norm,
        1.0 / settings.training.noise_multiplier,
    )
    noise = embedding.gep_mse(
        dim=gradients.shape[1], subspace_dim=len(rows), clip_norm=clip, residual_clip=residual_clip, mu=mu
    )
    lossy = embedding.gep_mse(
        dim=gradients.shape[1],
        subspace_dim=len(rows),
        clip_norm=clip,
        residual_clip=residual_clip,
        mu=mu,
        residual_norm=float(r.sum(0).norm()),
    )
    if name == "joint":
        bias = embedding.joint_clipping_bias(
            w.numpy(), residuals=r.numpy(), clip_norm=clip, residual_share=RESIDUAL_SHARE
        ).square
    else:
        apart = embedding.clipping_bias(
            w.numpy(), residuals=r.numpy(), embedding_clip=clip, residual_clip=residual_clip
        )
        # B-GEP has no residual to clip
        bias = float(np.square(apart.embedding).sum()) if name == "embedding_only" else apart.square
    return float(getattr(noise, name)), float(getattr(lossy, name)) + bias
