"""What each method would release of given per-sample gradients, noise apart: unbiased moments, with folds left out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from dptheory.embedding import joint_clip
from dptheory.planning import MethodMoments
from dptheory.training.mechanisms import clip_factors, power_iteration, sample_norms

FOLDS = 8
"""Of the records; each is left out once."""
MASKS = 4
"""Drawn for each rate; a moment is the mean over them."""
RATES = (0.1, 0.5, 0.9)
_CURVED_RATE = 0.5
"""A product with the Hessian costs as much as the gradients of a batch."""
SUBSPACES = (10, 50)
RESIDUAL_SHARE = 0.2
_PROBES, _FEW = 8, 3

Hessian = Callable[[torch.Tensor], torch.Tensor]
"""A vector of all parameters to the Hessian of the mean loss times it."""


@dataclass(frozen=True)
class Moments:
    """Sums over pairs of different records, all records and each fold left out: shape (folds + 1,) each."""

    alignment: torch.Tensor
    mean_square: torch.Tensor
    second_moment: torch.Tensor


def pair_moments(samples: torch.Tensor, contributions: torch.Tensor, gradient: torch.Tensor | None) -> Moments:
    """Of gradients g_i and contributions c_i: means over i != j of <g_i, c_j> and <c_i, c_j>, and the mean of |c_i|^2.

    With the mean gradient of other records, the first is its inner product with the mean of c_i, far less scattered.
    """
    member = torch.nn.functional.one_hot(torch.arange(len(samples)) * FOLDS // len(samples), FOLDS).T
    ours, theirs = ((member.to(rows) @ rows).double() for rows in (samples, contributions))
    own = torch.stack([torch.linalg.vecdot(one, contributions) for one in (samples, contributions)]).double()
    scalars = member.double() @ torch.cat([own, torch.ones(1, len(samples), dtype=torch.float64)]).T
    found = []
    for left_out in (None, *range(FOLDS)):
        kept = [i for i in range(FOLDS) if i != left_out]
        first, second = ours[kept].sum(0), theirs[kept].sum(0)
        both, square, count = scalars[kept].sum(0)
        pairs = count * (count - 1)
        alignment = (first @ second - both) / pairs if gradient is None else gradient.double() @ second / count
        found.append(torch.stack([alignment, (second @ second - square) / pairs, square / count]))
    return Moments(*torch.stack(found).T)


def method_moments(
    samples: torch.Tensor,
    layer_sizes: Sequence[int],
    clips: Sequence[float],
    anchors: torch.Tensor | None,
    hessian: Hessian | None,
    gradient: torch.Tensor | None,
    generator: torch.Generator,
) -> Iterator[MethodMoments]:
    """Every method at every clip; the embedding ones only with anchors, the curvature only with a Hessian."""
    dim = samples.shape[1]
    diagonal = _diagonal(dim, hessian, generator)
    masks = {rate: _masks(dim, rate, generator) for rate in RATES}
    bases = {} if anchors is None else _bases(anchors, generator)
    inside = {size: _trace(basis, hessian) for size, basis in bases.items()}
    ends = torch.tensor(list(layer_sizes)).cumsum(0).tolist()
    for clip in clips:
        plain = [_clipped(samples, clip)]
        whole = None if diagonal is None else float(diagonal.sum())
        yield _row("dp-sgd", 0.0, clip, samples, gradient, plain, float(dim), hessian, whole)
        for rate, drawn in masks.items():
            released = [_clipped(samples * mask, clip) for mask in drawn]
            kept = float(drawn[0].sum())
            trace = None if diagonal is None or rate != _CURVED_RATE else float(diagonal @ drawn[0].double())
            yield _row("random-sparsification", rate, clip, samples, gradient, released, kept, hessian, trace)
        for layers, end in enumerate(ends[:-1], start=1):
            mask = (torch.arange(dim) >= end).to(samples)
            released = [_clipped(samples * mask, clip)]
            rest = float(dim - end)
            trace = None if diagonal is None else float(diagonal[end:].sum())
            yield _row("layer-freezing", layers, clip, samples, gradient, released, rest, hessian, trace)
        for size, basis in bases.items():
            best = joint_clip(dim=dim, subspace_dim=size, clip_norm=1.0, residual_share=RESIDUAL_SHARE, mu=1.0)
            embedding = plain[0] @ basis.T @ basis
            residual = _clipped(plain[0] - embedding, RESIDUAL_SHARE * clip)
            joint = [embedding + residual]
            along = inside[size]
            trace = None
            if whole is not None and along is not None:
                trace = best.embedding_std**2 * along + best.residual_std**2 * (whole - along)
            yield _row("gep-joint", size, clip, samples, gradient, joint, best.energy, hessian, trace)
            alone = _clipped(samples @ basis.T, clip) @ basis
            yield _row("biased-gep", size, clip, samples, gradient, [alone], float(size), hessian, along)


def _clipped(samples: torch.Tensor, clip: float) -> torch.Tensor:
    return samples * clip_factors(sample_norms([samples]), clip)[:, None].to(samples)


def _masks(dim: int, rate: float, generator: torch.Generator) -> list[torch.Tensor]:
    keep = max(1, round((1.0 - rate) * dim))
    masks = []
    for _ in range(MASKS):
        mask = torch.zeros(dim)
        mask[torch.randperm(dim, generator=generator)[:keep]] = 1.0
        masks.append(mask)
    return masks


def _bases(anchors: torch.Tensor, generator: torch.Generator) -> dict[int, torch.Tensor]:
    sizes = [size for size in SUBSPACES if size <= min(anchors.shape)]
    return {size: power_iteration(anchors, dim=size, iterations=1, generator=generator) for size in sizes}


def _trace(basis: torch.Tensor, hessian: Hessian | None) -> float | None:
    """Of the Hessian on a subspace."""
    return None if hessian is None else sum(float(row.double() @ hessian(row).double()) for row in basis)


def _diagonal(dim: int, hessian: Hessian | None, generator: torch.Generator) -> torch.Tensor | None:
    """Diagonal of the Hessian, estimated by signs z: the mean of z * H z."""
    if hessian is None:
        return None
    total = torch.zeros(dim, dtype=torch.float64)
    for _ in range(_PROBES):
        signs = torch.randint(2, (dim,), generator=generator) * 2.0 - 1.0
        total += (signs * hessian(signs)).double()
    return total / _PROBES


def _row(
    method: str,
    setting: float,
    clip: float,
    samples: torch.Tensor,
    gradient: torch.Tensor | None,
    released: Sequence[torch.Tensor],
    noise_dim: float,
    hessian: Hessian | None,
    trace: float | None,
) -> MethodMoments:
    """Moments averaged over what is drawn (masks), curvatures under the first; ``released`` are the contributions under each.

    ``trace``: of the Hessian, weighted by the noise's squares at sigma C = 1; None leaves the curvatures out.
    """
    found = [pair_moments(samples, one, gradient) for one in released]
    alignment, mean_square, second = (
        torch.stack([getattr(one, name) for one in found]).mean(0).tolist()
        for name in ("alignment", "mean_square", "second_moment")
    )
    curvatures = None
    if hessian is not None and trace is not None:
        curvatures = (*_curvatures(released[0], hessian), clip**2 * trace)
    return MethodMoments(
        method=method,
        setting=float(setting),
        clip_norm=clip,
        alignments=tuple(alignment),
        mean_squares=tuple(mean_square),
        second_moments=tuple(second),
        noise_dim=noise_dim,
        curvatures=curvatures,
    )


def _curvatures(released: torch.Tensor, hessian: Hessian) -> tuple[float, float]:
    """c_i' H c_j over pairs of records, and c' H c over a few of them."""
    mean = released.mean(0)
    few = released[:: len(released) // _FEW][:_FEW]
    along = sum(float(one.double() @ hessian(one).double()) for one in few) / len(few)
    count = len(released)
    return (float(mean.double() @ hessian(mean).double()) - along / count) * count / (count - 1), along
