"""Statistics for a plan: of given per-sample gradients, and of a short DP-SGD run on public images."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from dptheory import _validate
from dptheory.planning import GradientStats, MomentStats
from dptheory.training import _argument_ranges
from dptheory.training.data import NAMES, load, standardised
from dptheory.training.mechanisms import sample_norms
from dptheory.training.networks import loss_hessian, mean_gradient, per_sample_gradients
from dptheory.training.probe._method_moments import FOLDS, Hessian, method_moments
from dptheory.training.runs import DpSgdSettings, build_model, dp_sgd

CLIPS = (0.1, 0.5, 2.0, 8.0)
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
SHARES = (0.001, 0.01, 0.1, 0.5)
DIMENSIONS = (1, 3, 10, 30, 100)
_MOMENTS = ("start", "middle", "end")
_ANCHORS = 200
FITTING = {name: ("small-cnn", "linear-probe", *(("dp-cnn",) if name == "cifar-10" else ())) for name in NAMES}
"""Networks that take the images and whose gradients fit into memory."""
_CLASSES = 10
_CURVED, _OTHERS = 128, 10_000
"""Of the records that are not measured: the curvature is that of the first ones' mean loss, the true gradient that of all."""


def moment_statistics(
    samples: torch.Tensor,
    *,
    name: str,
    step: int,
    layer_sizes: Sequence[int],
    clips: Sequence[float] = CLIPS,
    anchors: torch.Tensor | None = None,
    hessian: Hessian | None = None,
    gradient: torch.Tensor | None = None,
    seed: int = 0,
) -> MomentStats:
    """What a plan needs of the gradients at one moment of a training; the records must be public.

    In one's own Opacus loop, after ``backward()``: ``samples = torch.cat([p.grad_sample.flatten(1) for p in
    model.parameters()], dim=1)``.

    Args:
        samples: per-sample gradients, shape (n, d), n >= 16, finite, in the order of the parameters.
        name: of the moment.
        step: updates made before, >= 0.
        layer_sizes: parameters of each layer, from the input on; their sum is d.
        clips: the clips to measure at, rising, in [1e-12, 1e12].
        anchors: gradients of auxiliary records, shape (m, d), for GEP's subspace; without them it is left out.
        hessian: a function from a vector of shape (d,) to the Hessian of the mean loss times it; without it the curvature is left
            out, and with it a forecast of the learning rate.
        gradient: mean gradient of many other records, shape (d,); without it that of ``samples`` takes its place, unbiased, with
            more scatter.
        seed: of masks, basis and probes.

    Returns:
        The statistics of this moment.

    Raises:
        ValueError: an argument outside its range.

    Source: new, on RF, section 2.2 (rf.mse_criterion).

    Example: statistics at two clips, of two layers.
        >>> import torch
        >>> from dptheory.training.probe import moment_statistics
        >>> samples = torch.randn(32, 6, generator=torch.Generator().manual_seed(0)) + 1.0
        >>> found = moment_statistics(samples, name="start", step=0, layer_sizes=[4, 2], clips=[1.0, 10.0])
        >>> [one.clip_norm for one in found.methods if one.method == "dp-sgd"], round(sum(found.layer_shares), 6)
        ([1.0, 10.0], 1.0)
    """
    samples = _rows("samples", samples)
    sizes = _validate.integers("layer_sizes", layer_sizes, 1, 10**9)
    if sum(sizes) != samples.shape[1]:
        raise ValueError(f"layer_sizes must sum to the {samples.shape[1]} entries of samples, got {sizes}")
    chosen = [_argument_ranges.clip("clips", clip) for clip in clips]
    if not chosen or chosen != sorted(set(chosen)):
        raise ValueError(f"clips must be a rising row of numbers, got {_validate.shown(clips)}")
    if anchors is not None:
        anchors = _rows("anchors", anchors)
    if gradient is not None and (gradient.shape != samples.shape[1:] or not torch.isfinite(gradient).all()):
        raise ValueError(
            f"gradient must be finite, of the shape ({samples.shape[1]},), got {_validate.shown(gradient)}"
        )
    generator = torch.Generator().manual_seed(_argument_ranges.seed("seed", seed))
    norms = sample_norms([samples]).double()
    mean = samples.double().mean(0)
    energy = mean.square()
    count = len(samples)
    total = float(energy.sum())
    unbiased = (total * count - float(norms.square().mean())) / (count - 1)
    ranked = energy.sort(descending=True).values.cumsum(0)
    layers = torch.stack([part.sum() for part in torch.split(energy, sizes)])
    return MomentStats(
        name=_validate.instance("name", name, str),
        step=_validate.integer("step", step, 0),
        grad_norm=max(0.0, unbiased) ** 0.5,
        norm_quantiles=tuple((level, float(torch.quantile(norms, level))) for level in LEVELS),
        clip_probabilities=tuple((clip, float((norms > clip).double().mean())) for clip in chosen),
        entry_shares=tuple((share, float(ranked[_kept(share, len(energy)) - 1] / total)) for share in SHARES),
        layer_shares=tuple((layers / total).tolist()),
        spectrum=() if anchors is None else _spectrum(samples, anchors),
        skewness=_skewness(samples, mean),
        methods=tuple(method_moments(samples, sizes, chosen, anchors, hessian, gradient, generator)),
    )


def _rows(name: str, rows: torch.Tensor) -> torch.Tensor:
    _validate.instance(name, rows, torch.Tensor)
    least = 2 * FOLDS if name == "samples" else 1
    if rows.ndim != 2 or len(rows) < least or rows.shape[1] < 2 or not torch.isfinite(rows).all():
        raise ValueError(f"{name} must be finite, of the shape (n >= {least}, d >= 2), got {_validate.shown(rows)}")
    plain = rows.detach().float().cpu()
    if not plain.any():
        raise ValueError(f"{name} must not all be zero, got {_validate.shown(rows)}")
    return plain


def _kept(share: float, dim: int) -> int:
    return max(1, round(share * dim))


def _spectrum(samples: torch.Tensor, anchors: torch.Tensor) -> tuple[tuple[int, float], ...]:
    """Of the anchors' principal subspaces, by the eigenvectors of their inner products."""
    values, vectors = torch.linalg.eigh((anchors @ anchors.T).double())
    there = values > 1e-6 * values[-1]  # float32 tells no smaller one from rounding
    left = (vectors[:, there] / values[there].sqrt()).flip(1)
    energy = (samples @ (anchors.T @ left.float())).double().square().sum(0).cumsum(0) / samples.double().square().sum()
    return tuple((size, float(energy[size - 1])) for size in DIMENSIONS if size <= len(energy))


def _skewness(samples: torch.Tensor, mean: torch.Tensor) -> float:
    along = samples.double() @ mean
    centred = along - along.mean()
    spread = float(centred.square().mean()) ** 1.5
    return float(centred.pow(3).mean()) / spread if spread > 0.0 else 0.0


def run_statistics(
    *, data: str, model: str = "small-cnn", training: DpSgdSettings, examples: int, device: torch.device
) -> GradientStats:
    """Train a network with DP-SGD and measure gradients of public images at its start, in its middle and at its end.

    Args:
        data: "excerpt", "fashion-mnist", "mnist" or "cifar-10"; they are public, and taken standardised, as a run takes them.
        model: a network of :func:`dptheory.training.runs.build_model` that takes these images and mixes no records.
        training: how to train, three steps or more.
        examples: training images whose gradients are measured, 16 or more.
        device: where to train.

    Returns:
        Statistics, for :func:`dptheory.planning.write_statistics`.

    Raises:
        ValueError: an argument outside its range.
        OSError: the data files are missing and cannot be fetched.

    Source: new, on RF, section 2.2 (rf.mse_criterion).
    """
    _validate.choice("data", data, NAMES)
    _validate.choice("model", model, FITTING[data])
    if training.steps < 3:
        raise ValueError(f"training must have 3 steps or more, got {training.steps}")
    train, test = (standardised(load(name=data, train=part)) for part in (True, False))
    examples = _validate.integer("examples", examples, 2 * FOLDS, len(train))
    network = build_model(model, features=train.pixels[0].numel(), seed=training.stream(0))
    draw = torch.Generator().manual_seed(training.stream(3) % 2**63)
    chosen = torch.randperm(len(train), generator=draw)[:examples]
    pixels, labels = train.pixels[chosen], train.labels[chosen]
    shuffled = torch.randperm(len(train), generator=draw)
    others = shuffled[~torch.isin(shuffled, chosen)][:_OTHERS]
    auxiliary = test.pixels[:_ANCHORS]
    guessed = torch.randint(_CLASSES, (len(auxiliary),), generator=draw)
    sizes = layer_sizes_of(network)
    plain = copy.deepcopy(network)

    def moment(name: str, step: int) -> MomentStats:
        plain.load_state_dict(_weights(network))
        return moment_statistics(
            per_sample_gradients(plain, pixels, labels),
            name=name,
            step=step,
            layer_sizes=sizes,
            anchors=per_sample_gradients(plain, auxiliary, guessed),
            hessian=loss_hessian(plain, train.pixels[others[:_CURVED]], train.labels[others[:_CURVED]]),
            gradient=mean_gradient(plain, train.pixels[others], train.labels[others]),
            seed=training.seed,
        )

    places = dict(zip(_MOMENTS, (0, training.steps // 2, training.steps), strict=True))
    found = [moment("start", 0)]
    for made in dp_sgd(network, train, training, device):
        found += [moment(name, step) for name, step in places.items() if step == made.index + 1]
    return GradientStats(
        name=f"{model}/{data}",
        data=data,
        network=model,
        public=True,
        examples=examples,
        layer_sizes=tuple(sizes),
        moments=tuple(found),
    )


def layer_sizes_of(network: nn.Module) -> list[int]:
    """Parameters of each part that holds some itself, from the input on."""
    owned = [[p.numel() for p in part.parameters(recurse=False)] for part in network.modules()]
    return [sum(numbers) for numbers in owned if numbers]


def _weights(model: nn.Module) -> dict[str, Any]:
    """Of a model under Opacus's hooks, too: the module is the same."""
    return {name: value.detach().cpu() for name, value in model.state_dict().items()}
