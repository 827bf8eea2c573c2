"""What the noisy quadratic model asks of a network, measured on public records: curvature, gradient, and what clipping leaves.

Lanczos' method from the gradient gives the curvatures that the gradient lies in, with its energy in each; from random signs it
gives those that noise meets, with how many directions have each: Hutchinson's estimate of the trace is their sum. Curvature is
Gauss-Newton's, which has no negative one for a convex loss. Nothing here is private: the records must be public.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from opacus import GradSampleModule
from torch import nn

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.convergence import noisy_quadratic_loss
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training._streams import simulation
from dptheory.training.engine import attach
from dptheory.training.mechanisms import DpSgd, clip_factors, sample_norms
from dptheory.training.per_example import FACTORS, HookedModule, PerExampleGradients, as_gradients
from dptheory.training.planning._pilot import Problem
from dptheory.training.planning._point import Point, Schedule

_NORM_RECORDS = 256


def hooked(model: nn.Module) -> GradSampleModule:
    """A copy that computes per-sample gradients as a run does, attention adapted.

    Raises:
        ValueError: the engine does not take it.
    """
    network = copy.deepcopy(model).train()
    with simulation():
        private, _ = attach(
            module=network,
            optimizer=torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=1.0),
            mechanism=DpSgd(),
            sampling_rate=1.0,
            expected_batch_size=1.0,
            noise_multiplier=0.0,
            max_grad_norm=1.0,
            grad_sample_mode="hooks",
        )
    return private


def median_norm(problem: Problem) -> float:
    """The median over public records of the norm of the loss's gradient, at the starting weights; 1 where that is 0."""
    private = hooked(problem.model)
    features, labels = problem.features[:_NORM_RECORDS], problem.labels[:_NORM_RECORDS]
    problem.loss(private(features), labels).backward()  # type: ignore[no-untyped-call]
    samples = [
        p.grad_sample for p in private.parameters() if p.requires_grad and getattr(p, "grad_sample", None) is not None
    ]
    norms = sample_norms(as_gradients(samples))
    found = float(norms[torch.isfinite(norms)].median()) if torch.isfinite(norms).any() else 0.0
    return found or 1.0


Array = NDArray[np.float64]
Loss = Callable[[Any, torch.Tensor], torch.Tensor]
Parts = Sequence[torch.Tensor]
Product = Callable[[torch.Tensor], torch.Tensor]
"""From a vector of shape (d,), float64, to the matrix times it."""

_LEAST_SHARE = 1e-12  # of the largest curvature: below it a curvature counts as none


@dataclass(frozen=True)
class ClippedMoments:
    """Gradients of single records, clipped at one norm.

    Attributes:
        slope: of the mean clipped gradient along the mean gradient, as a share of that: <mean clipped, mean> / |mean|^2.
        spread: mean squared distance of a clipped gradient from their mean, all directions together.
        variances: its part in each of the directions of ``Spectrum.curvature``, shape (k,).
    """

    slope: float
    spread: float
    variances: Array


@dataclass(frozen=True)
class Spectrum:
    """Curvature and gradients of the mean loss at the present weights.

    Attributes:
        dim: d, number of trained parameters.
        curvature: Ritz values from the start g, the mean gradient, falling, shape (k,).
        gradient_energy: squared coordinates of g in their directions, shape (k,); their sum is |g|^2.
        noise_curvature: Ritz values from random starts, those of all probes in a row.
        multiplicities: for how many of the d directions each of these stands; their sum is d.
        clipped: the moments at each clip norm.
    """

    dim: int
    curvature: Array
    gradient_energy: Array
    noise_curvature: Array
    multiplicities: Array
    clipped: Mapping[float, ClippedMoments]


def measure_spectrum(
    model: nn.Module,
    loss: Loss,
    features: torch.Tensor,
    labels: torch.Tensor,
    *,
    clips: Sequence[float],
    curved: int = 256,
    vectors: int = 12,
    probes: int = 2,
) -> Spectrum:
    """Measure curvature, gradient and clipped gradients of a network on public records, all of which go through it at once.

    The model is copied, dropout rests, and only parameters that require gradients count. Of ``curved`` records, drawn at random, the
    curvature is taken; from the gradient go ``vectors`` steps of Lanczos at most, from each of ``probes`` random starts a third of it.

    Raises:
        ValueError: a loss that is no finite number, or a gradient that is zero.
    """
    chosen = [_argument_ranges.clip("clips", clip) for clip in clips]
    generator = torch.Generator().manual_seed(0)
    gradients = _per_example(model, loss, features, labels)
    ones = torch.ones(len(features), dtype=gradients.dtype, device=features.device)
    mean = _flat(gradients.weighted_sum(ones)) / len(features)
    if not torch.isfinite(mean).all() or not mean.any():
        raise ArgumentError("model", "have a gradient that is finite and not zero at its present weights", model)
    some = torch.randperm(len(features), generator=generator)[:curved].sort().values.to(features.device)
    product = _product(model, loss, features[some], labels[some])
    precision = 100 * torch.finfo(gradients.dtype).eps
    basis, values, weights = _ritz(mean, product, vectors, precision)
    white = [_ritz(_signs(mean, generator), product, max(1, vectors // 3), precision)[1:] for _ in range(probes)]
    return Spectrum(
        dim=mean.numel(),
        curvature=values,
        gradient_energy=(float(mean.norm()) * np.sqrt(weights)) ** 2,
        noise_curvature=np.concatenate([values for values, _ in white]),
        multiplicities=np.concatenate([mean.numel() * weights / probes for _, weights in white]),
        clipped=_clipped_moments(gradients, mean, basis, chosen),
    )


def quadratic_of(
    spectrum: Spectrum, clipped: ClippedMoments, *, batch_size: ArrayLike, noise_std: ArrayLike
) -> dict[str, Array]:
    """The arguments of :func:`dptheory.convergence.noisy_quadratic_loss` that stand for this network at one clip.

    The gradient and the noise of the batch lie in the directions found from the gradient, the private noise in those found from
    random starts, and there, too, what the batch's noise has outside of the former. Negative curvature is left out, with what lies
    in it. Private noise is in ``variance``, so that no ``noise_std`` is to be given besides.

    Args:
        spectrum: of the network.
        clipped: its moments at the clip.
        batch_size: B, > 0, a number or an array of the shape of the runs.
        noise_std: sigma C / B, >= 0, alike.

    Returns:
        ``curvature``, ``gradient_energy``, ``multiplicities``, ``slope`` and ``variance``.
    """
    size, std = np.broadcast_arrays(np.asarray(batch_size, float)[..., None], np.asarray(noise_std, float)[..., None])
    largest = max(spectrum.curvature.max(), spectrum.noise_curvature.max(initial=0.0))
    own, other = (values > _LEAST_SHARE * largest for values in (spectrum.curvature, spectrum.noise_curvature))
    rest = max(0.0, clipped.spread - float(clipped.variances.sum())) / spectrum.dim
    inside = clipped.variances[own] / size
    outside = np.broadcast_to(rest / size + std**2, (*size.shape[:-1], int(other.sum())))
    return {
        "curvature": np.concatenate([spectrum.curvature[own], spectrum.noise_curvature[other]]),
        "gradient_energy": np.concatenate([spectrum.gradient_energy[own], np.zeros(int(other.sum()))]),
        "multiplicities": np.concatenate([np.ones(int(own.sum())), spectrum.multiplicities[other]]),
        "slope": np.asarray(max(0.0, clipped.slope)),
        "variance": np.concatenate([inside, outside], axis=-1),
    }


def _copied(model: nn.Module) -> nn.Module:
    """In training mode, in which hooks record; dropout rests."""
    own = copy.deepcopy(model).train()
    for module in own.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.training = False
    return own


def _trained(model: nn.Module) -> list[Any]:
    return [p for p in model.parameters() if p.requires_grad]


def _value(loss: Loss, outputs: Any, labels: torch.Tensor) -> torch.Tensor:
    value = loss(outputs, labels)
    if not isinstance(value, torch.Tensor) or value.shape != () or not torch.isfinite(value):
        raise ArgumentError("loss", "give one finite number", value)
    return value


def _per_example(model: nn.Module, loss: Loss, features: torch.Tensor, labels: torch.Tensor) -> PerExampleGradients:
    """The gradients of the records' own losses."""
    hooked = HookedModule(_copied(model), mode=FACTORS, loss_reduction="mean")
    with torch.enable_grad():
        torch.autograd.backward(_value(loss, hooked(features), labels))
    return as_gradients([p.grad_sample for p in _trained(hooked)])


def _product(model: nn.Module, loss: Loss, features: torch.Tensor, labels: torch.Tensor) -> Product:
    """J^T H J with H the loss's Hessian in the outputs; J v is the gradient of <J^T u, v> by u. One forward pass serves all."""
    own = _copied(model)
    trained = _trained(own)
    with torch.enable_grad():
        outputs = _validate.instance("outputs", own(features), torch.Tensor)
        leaf = outputs.detach().requires_grad_()
        slope = torch.autograd.grad(loss(leaf, labels), leaf, create_graph=True)
        along = torch.zeros_like(outputs, requires_grad=True)
        back = torch.autograd.grad(outputs, trained, along, create_graph=True, materialize_grads=True)
    shapes, kind = [p.shape for p in trained], trained[0]

    def product(vector: torch.Tensor) -> torch.Tensor:
        parts = torch.split(vector.to(kind), [shape.numel() for shape in shapes])
        own_parts = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        return _flat(_pulled([outputs], trained, _pulled(slope, [leaf], _pulled(back, [along], own_parts))))

    return product


def _pulled(results: Parts, arguments: Parts, vector: Parts) -> Parts:
    """Gradient of <results, vector> by the arguments; the graph stays."""
    used = [(one, own) for one, own in zip(results, vector, strict=True) if one.requires_grad]
    if not used:
        return [torch.zeros_like(one) for one in arguments]
    return torch.autograd.grad(
        [one for one, _ in used], arguments, [own for _, own in used], retain_graph=True, materialize_grads=True
    )


def _flat(parts: Parts) -> torch.Tensor:
    return torch.cat([part.detach().double().flatten() for part in parts])


def _signs(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return (2 * torch.randint(2, (like.numel(),), generator=generator).double() - 1).to(like.device)


def _ritz(start: torch.Tensor, product: Product, vectors: int, precision: float) -> tuple[torch.Tensor, Array, Array]:
    """Ritz vectors (as rows), their values, falling, and the shares of the start's squared norm in them."""
    basis, diagonal, beside = _lanczos(start, product, min(vectors, start.numel()), precision)
    tridiagonal = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    values, states = np.linalg.eigh(tridiagonal)
    values, states = values[::-1].copy(), states[:, ::-1] * np.where(states[0, ::-1] < 0, -1.0, 1.0)
    return torch.as_tensor(states.T.copy(), device=basis.device) @ basis, values, states[0] ** 2


def _lanczos(
    start: torch.Tensor, product: Product, vectors: int, precision: float
) -> tuple[torch.Tensor, list[float], list[float]]:
    """Orthonormal basis of the Krylov space as rows, and the matrix in it; it ends where the space is exhausted but for rounding."""
    basis = (start / start.norm())[None]
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        image = product(basis[-1])
        diagonal.append(float(image @ basis[-1]))
        if len(diagonal) == vectors:
            return basis, diagonal, beside
        for _ in range(2):  # once more takes off what rounding left
            image = image - basis.T @ (basis @ image)
        left = float(image.norm())
        if left <= precision * max(map(abs, (*diagonal, *beside))):
            return basis, diagonal, beside
        beside.append(left)
        basis = torch.cat([basis, image[None] / left])


def _clipped_moments(
    gradients: PerExampleGradients, mean: torch.Tensor, basis: torch.Tensor, clips: Sequence[float]
) -> dict[float, ClippedMoments]:
    norms = gradients.square_norms().sqrt()
    shapes = gradients.shapes
    parts = torch.split(basis.to(gradients.dtype), [shape.numel() for shape in shapes], dim=1)
    rows = [part.reshape(len(basis), *shape) for part, shape in zip(parts, shapes, strict=True)]
    along = gradients.project(rows).double()
    factors = torch.stack([clip_factors(norms, clip) for clip in clips], dim=1)
    sums = gradients.weighted_sums(factors.to(gradients.dtype))
    means = torch.cat([one.double().flatten(1) for one in sums], dim=1) / len(norms)
    return {clip: _moments_at(factors[:, i], norms, along, means[i], mean) for i, clip in enumerate(clips)}


def _moments_at(
    factors: torch.Tensor, norms: torch.Tensor, along: torch.Tensor, clipped: torch.Tensor, mean: torch.Tensor
) -> ClippedMoments:
    inside = factors[:, None] * along
    return ClippedMoments(
        slope=float(clipped @ mean) / float(mean @ mean),
        spread=float((factors * norms).square().mean()) - float(clipped.norm()) ** 2,
        variances=inside.var(0, unbiased=False).cpu().numpy(),
    )


# --- What the noisy quadratic model expects of every point, before any pilot


_RECORDS = 512


def spectrum_of(problem: Problem, clips: Sequence[float]) -> Spectrum:
    """Curvature, gradient and clipped gradients at the starting weights, on public records."""
    return measure_spectrum(
        problem.model, problem.loss, problem.features[:_RECORDS], problem.labels[:_RECORDS], clips=clips
    )


def predicted_losses(points: Sequence[Point], spectrum: Spectrum) -> NDArray[np.float64]:
    """Expected loss above the quadratic's minimum after the steps of each point; inf where the model diverges."""
    alike: dict[tuple[float, Schedule, float], list[int]] = defaultdict(list)
    for place, point in enumerate(points):
        alike[point.clip_norm, point.schedule, point.average].append(place)
    found = np.empty(len(points))
    for (clip, schedule, average), places in alike.items():
        some = [points[place] for place in places]
        batches = np.array([p.batch_size for p in some], float)
        quadratic = quadratic_of(
            spectrum,
            spectrum.clipped[clip],
            batch_size=batches,
            noise_std=np.array([p.noise_multiplier * clip for p in some]) / batches,
        )
        found[places] = noisy_quadratic_loss(
            learning_rate=np.array([p.learning_rate for p in some]),
            steps=np.array([p.steps for p in some]),
            momentum=np.array([p.momentum for p in some]),
            schedule=schedule,
            average=average,
            **quadratic,
        )
    return found
