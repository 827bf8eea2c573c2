"""What the noisy quadratic model asks of a network, measured on public records: curvature, gradient, and what clipping leaves.

Lanczos' method from the gradient gives the curvatures that the gradient lies in, with its energy in each; from random signs it
gives those that noise meets, with how many directions have each, and its first coefficient is Hutchinson's estimate of the trace.
Nothing here is private: the records must be public.
"""

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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

MATRICES = ("gauss-newton", "hessian")
_LEAST_SHARE = 1e-12  # of the largest curvature: below it a curvature counts as none


@dataclass(frozen=True)
class ClippedMoments:
    """Gradients of single records, clipped at one norm.

    Attributes:
        clip_norm: C.
        clip_probability: share of the records whose gradient is longer.
        slope: of the mean clipped gradient along the mean gradient, as a share of that: <mean clipped, mean> / |mean|^2.
        mean: coordinates of the mean clipped gradient in the directions of ``Spectrum.curvature``, shape (k,).
        mean_norm: norm of the mean clipped gradient, all directions together.
        second_moment: mean squared norm of a clipped gradient.
        variances: variance of one clipped gradient in each of those directions, shape (k,).
    """

    clip_norm: float
    clip_probability: float
    slope: float
    mean: Array
    mean_norm: float
    second_moment: float
    variances: Array


@dataclass(frozen=True)
class Spectrum:
    """Curvature and gradients of the mean loss at the present weights.

    Attributes:
        loss: the mean loss.
        dim: d, number of trained parameters.
        examples: n, number of records.
        grad_norm: norm of the mean gradient g; its square is the true gradient's and about the variance of one gradient over n.
        curvature: Ritz values from the start g, falling, shape (k,).
        gradient: coordinates of g in their directions, >= 0, shape (k,); their squares sum to |g|^2.
        noise_curvature: Ritz values from random starts, those of all probes in a row.
        multiplicities: for how many of the d directions each of these stands; their sum is d.
        trace: of the curvature, the mean of Hutchinson's probes.
        trace_error: its standard error; inf for a single probe.
        clipped: the moments at each clip.
    """

    loss: float
    dim: int
    examples: int
    grad_norm: float
    curvature: Array
    gradient: Array
    noise_curvature: Array
    multiplicities: Array
    trace: float
    trace_error: float
    clipped: tuple[ClippedMoments, ...]

    @property
    def gradient_energy(self) -> Array:
        """Squared coordinates of the gradient."""
        energy: Array = self.gradient**2
        return energy


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
    matrix: Literal["gauss-newton", "hessian"] = "gauss-newton",
    seed: int = 0,
) -> Spectrum:
    """Measure curvature, gradient and clipped gradients of a network on public records, all of which go through it at once.

    The model is copied, dropout rests, and only parameters that require gradients count.

    Args:
        model: takes ``features``; its layers keep records apart.
        loss: of outputs and labels, the mean over the records.
        features: public, shape (n, ...), n >= 2, on the model's device.
        labels: shape (n, ...).
        clips: the clip norms to measure at, each in [1e-12, 1e12].
        curved: how many of the records, drawn at random, the curvature is measured on, 1..1e9; all where there are fewer.
        vectors: k, the most Lanczos vectors from the gradient, 1..30; fewer where the gradient lies in fewer directions.
        probes: random starts, 0..100, each with a third as many Lanczos vectors.
        matrix: "gauss-newton", which has no negative curvature and is the Hessian for a linear model with a convex loss; or "hessian".
        seed: of the random starts.

    Returns:
        The measurements.

    Raises:
        ValueError: an argument outside its range, a loss that is no finite number, or a gradient that is zero.

    Example: four records, a line through them; the curvature of its two parameters is known.
        >>> import torch
        >>> from dptheory.training.planning._spectrum import measure_spectrum
        >>> model = torch.nn.Linear(1, 1, dtype=torch.float64)
        >>> x = torch.tensor([[-1.0], [-1.0], [1.0], [1.0]], dtype=torch.float64)
        >>> found = measure_spectrum(model, torch.nn.functional.mse_loss, x, 3 * x + 1, clips=[1.0], probes=1)
        >>> found.dim, round(found.trace, 6), found.curvature.round(6)  # both parameters have curvature 2
        (2, 4.0, array([2.]))
    """
    _validate.instance("model", model, nn.Module)
    _validate.calls("loss", loss)
    _rows(features, labels)
    chosen = _clips(clips)
    vectors = _validate.integer("vectors", vectors, 1, 30)
    curved = _argument_ranges.count("curved", curved)
    probes = _validate.integer("probes", probes, 0, 100)
    _validate.choice("matrix", matrix, MATRICES)
    generator = torch.Generator().manual_seed(_argument_ranges.seed("seed", seed))
    value, gradients = _per_example(model, loss, features, labels)
    ones = torch.ones(len(features), dtype=gradients.dtype, device=features.device)
    mean = _flat(gradients.weighted_sum(ones)) / len(features)
    if not torch.isfinite(mean).all() or not mean.any():
        raise ArgumentError("model", "have a gradient that is finite and not zero at its present weights", model)
    some = torch.randperm(len(features), generator=generator)[:curved].sort().values.to(features.device)
    product = _product(model, loss, features[some], labels[some], matrix)
    precision = 100 * torch.finfo(gradients.dtype).eps
    basis, values, weights = _ritz(mean, product, vectors, precision)
    white = [_ritz(_signs(mean, generator), product, max(1, vectors // 3), precision)[1:] for _ in range(probes)]
    traces = np.array([float(values @ weights) for values, weights in white]) * mean.numel()
    norm = float(mean.norm())
    coordinates = norm * np.sqrt(weights)
    return Spectrum(
        loss=value,
        dim=mean.numel(),
        examples=len(features),
        grad_norm=norm,
        curvature=values,
        gradient=coordinates,
        noise_curvature=np.concatenate([np.empty(0), *(values for values, _ in white)]),
        multiplicities=np.concatenate([np.empty(0), *(mean.numel() * weights / probes for _, weights in white)]),
        trace=float(traces.mean()) if probes else math.nan,
        trace_error=float(traces.std(ddof=1) / math.sqrt(probes)) if probes > 1 else math.inf,
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
    elsewhere = clipped.second_moment - clipped.mean_norm**2 - float(clipped.variances.sum())
    rest = max(0.0, elsewhere) / spectrum.dim
    inside = clipped.variances[own] / size
    outside = np.broadcast_to(rest / size + std**2, (*size.shape[:-1], int(other.sum())))
    return {
        "curvature": np.concatenate([spectrum.curvature[own], spectrum.noise_curvature[other]]),
        "gradient_energy": np.concatenate([spectrum.gradient_energy[own], np.zeros(int(other.sum()))]),
        "multiplicities": np.concatenate([np.ones(int(own.sum())), spectrum.multiplicities[other]]),
        "slope": np.asarray(max(0.0, clipped.slope)),
        "variance": np.concatenate([inside, outside], axis=-1),
    }


def _rows(features: torch.Tensor, labels: torch.Tensor) -> None:
    for name, tensor in (("features", features), ("labels", labels)):
        _validate.instance(name, tensor, torch.Tensor)
    if features.ndim < 1 or len(features) < 2:
        raise ArgumentError("features", "hold two records or more", features, got=f"shape {tuple(features.shape)}")
    if labels.ndim < 1 or len(labels) != len(features):
        raise ArgumentError(
            "labels", f"be as many as the {len(features)} records", labels, got=f"shape {tuple(labels.shape)}"
        )


def _clips(clips: Sequence[float]) -> tuple[float, ...]:
    if not isinstance(clips, list | tuple) or not clips:
        raise ArgumentError("clips", "be a row of one clip norm or more", clips)
    return tuple(_argument_ranges.clip("clips", clip) for clip in clips)


def _copied(model: nn.Module) -> nn.Module:
    """In training mode, in which hooks record; dropout rests."""
    own = copy.deepcopy(model).train()
    for module in own.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.training = False
    return own


def _trained(model: nn.Module) -> list[nn.Parameter]:
    found = [p for p in model.parameters() if p.requires_grad]
    if not found:
        raise ArgumentError("model", "have parameters that require gradients", model, got="none")
    return found


def _value(loss: Loss, outputs: Any, labels: torch.Tensor) -> torch.Tensor:
    value = loss(outputs, labels)
    if not isinstance(value, torch.Tensor) or value.shape != () or not torch.isfinite(value):
        raise ArgumentError("loss", "give one finite number", value)
    return value


def _per_example(
    model: nn.Module, loss: Loss, features: torch.Tensor, labels: torch.Tensor
) -> tuple[float, PerExampleGradients]:
    """The mean loss, and the gradients of the records' own losses."""
    hooked = HookedModule(_copied(model), mode=FACTORS, loss_reduction="mean")
    trained: list[Any] = _trained(hooked)
    with torch.enable_grad():
        value = _value(loss, hooked(features), labels)
        torch.autograd.backward(value)
    return float(value.detach()), as_gradients([p.grad_sample for p in trained])


def _product(model: nn.Module, loss: Loss, features: torch.Tensor, labels: torch.Tensor, matrix: str) -> Product:
    """The product with the curvature of the loss; one forward pass serves all products."""
    own = _copied(model)
    trained = _trained(own)
    with torch.enable_grad():
        outputs = own(features)
        by_parts = (
            _hessian_product(_value(loss, outputs, labels), trained)
            if matrix == "hessian"
            else _gauss_newton_product(outputs, loss, labels, trained)
        )
    shapes, kind = [p.shape for p in trained], trained[0]

    def product(vector: torch.Tensor) -> torch.Tensor:
        parts = torch.split(vector.to(kind), [shape.numel() for shape in shapes])
        return _flat(by_parts([part.view(shape) for part, shape in zip(parts, shapes, strict=True)]))

    return product


def _hessian_product(value: torch.Tensor, trained: Sequence[torch.Tensor]) -> Callable[[Parts], Parts]:
    slopes = torch.autograd.grad(value, trained, create_graph=True, materialize_grads=True)
    return lambda vector: _pulled(slopes, trained, vector)


def _gauss_newton_product(
    outputs: torch.Tensor, loss: Loss, labels: torch.Tensor, trained: Sequence[torch.Tensor]
) -> Callable[[Parts], Parts]:
    """J^T H J with H the loss's Hessian in the outputs; J v is the gradient of <J^T u, v> by u."""
    _validate.instance("outputs", outputs, torch.Tensor)
    leaf = outputs.detach().requires_grad_()
    slope = torch.autograd.grad(loss(leaf, labels), leaf, create_graph=True)
    along = torch.zeros_like(outputs, requires_grad=True)
    back = torch.autograd.grad(outputs, trained, along, create_graph=True, materialize_grads=True)
    return lambda vector: _pulled([outputs], trained, _pulled(slope, [leaf], _pulled(back, [along], vector)))


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
) -> tuple[ClippedMoments, ...]:
    norms = gradients.square_norms().sqrt()
    shapes = gradients.shapes
    parts = torch.split(basis.to(gradients.dtype), [shape.numel() for shape in shapes], dim=1)
    rows = [part.reshape(len(basis), *shape) for part, shape in zip(parts, shapes, strict=True)]
    along = gradients.project(rows).double()
    factors = torch.stack([clip_factors(norms, clip) for clip in clips], dim=1)
    sums = gradients.weighted_sums(factors.to(gradients.dtype))
    means = torch.cat([one.double().flatten(1) for one in sums], dim=1) / len(norms)
    return tuple(_moments_at(clip, factors[:, i], norms, along, means[i], mean) for i, clip in enumerate(clips))


def _moments_at(
    clip: float,
    factors: torch.Tensor,
    norms: torch.Tensor,
    along: torch.Tensor,
    clipped: torch.Tensor,
    mean: torch.Tensor,
) -> ClippedMoments:
    inside = factors[:, None] * along
    return ClippedMoments(
        clip_norm=clip,
        clip_probability=float((norms > clip).double().mean()),
        slope=float(clipped @ mean) / float(mean @ mean),
        mean=inside.mean(0).cpu().numpy(),
        mean_norm=float(clipped.norm()),
        second_moment=float((factors * norms).square().mean()),
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
    clipped = {one.clip_norm: one for one in spectrum.clipped}
    alike: dict[tuple[float, Schedule, float], list[int]] = defaultdict(list)
    for place, point in enumerate(points):
        alike[point.clip_norm, point.schedule, point.average].append(place)
    found = np.empty(len(points))
    for (clip, schedule, average), places in alike.items():
        some = [points[place] for place in places]
        batches = np.array([p.batch_size for p in some], float)
        quadratic = quadratic_of(
            spectrum,
            clipped[clip],
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
