"""What freezing the first layers does to the clipped gradients of the layers that are still trained.

Notation: g' = trainable part of one sample's gradient, f = norm of its frozen part, C = clip_norm. Before freezing the whole
gradient is clipped, |g|^2 = |g'|^2 + f^2; after freezing only g' is. s = mean of the clipped g' over the batch, the biased
signal; u = true gradient of the trainable part; tau = noise_multiplier C / batch_size, standard deviation of the noise in one
entry.
"""

import math
from dataclasses import dataclass

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.freezing._bias_turn import expected_angle
from dptheory.gradients import DistortionAngle

_MAX_DIM = 10**12
_MAX_BATCH = 10**9


def norm_growth(*, trainable_norms: ArrayLike, frozen_norms: ArrayLike, clip_norm: float) -> Array:
    r"""By what factor freezing lengthens the clipped trainable part of each sample.

    .. math:: r = \frac{\max(C, \sqrt{|g'|^2 + f^2})}{\max(C, |g'|)} \in \Big[1, \sqrt{1 + f^2/|g'|^2}\Big]

    1 where the whole gradient was not clipped.

    Args:
        trainable_norms: \|g'\|, 0 or in [1e-70, 1e70]; broadcasts against frozen_norms.
        frozen_norms: f, 0 or in [1e-70, 1e70].
        clip_norm: C, in [1e-70, 1e70].

    Returns:
        Array of the broadcast shape.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Lemma 3.2 (lf.lem3.2a).

    Example: by hand: clipped to 1 together, the two parts are 2 long; alone, the trainable one is not clipped.
        >>> import math
        >>> from dptheory.freezing import norm_growth
        >>> round(float(norm_growth(trainable_norms=1.0, frozen_norms=math.sqrt(3.0), clip_norm=1.0)), 6)
        2.0
    """
    kept, frozen = _validate.scale("trainable_norms", trainable_norms), _validate.scale("frozen_norms", frozen_norms)
    clip_norm = _validate.size("clip_norm", clip_norm)
    _match("frozen_norms", frozen, "trainable_norms", kept)
    return _growth(kept, frozen, clip_norm)


def _growth(kept: Array, frozen: Array, clip: float) -> Array:
    return np.asarray(np.maximum(clip, np.hypot(kept, frozen)) / np.maximum(clip, kept))


def biased_signal(trainable_gradients: ArrayLike, *, frozen_norms: ArrayLike, clip_norm: float) -> Array:
    r"""Mean over the batch of the trainable part of the clipped gradients.

    .. math:: s = \frac1B \sum_i g'_i \min\Big(1, \frac{C}{\sqrt{|g'_i|^2 + f_i^2}}\Big)

    With the norms f_i of the layers to be frozen this is the signal before freezing, with ``frozen_norms=0`` the one after.

    Args:
        trainable_gradients: g'_i, shape (samples, dim), entries of size at most 1e70.
        frozen_norms: f_i, shape (samples,), or one number for all.
        clip_norm: C, in [1e-70, 1e70].

    Returns:
        Array of shape (dim,).

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Definition 3.1 and Lemma 3.2 (lf.lem3.2b).

    Example: by hand: both gradients are 5 long with the layers to be frozen, and are clipped to a fifth.
        >>> from dptheory.freezing import biased_signal
        >>> biased_signal([[3.0, 0.0], [0.0, 4.0]], frozen_norms=[4.0, 3.0], clip_norm=1.0).round(4)
        array([0.3, 0.4])
    """
    samples, frozen, clip_norm = _batch(trainable_gradients, frozen_norms, clip_norm)
    whole = np.hypot(np.linalg.norm(samples, axis=1), frozen)
    return np.asarray(samples.T @ (clip_norm / np.maximum(clip_norm, whole)) / len(samples))


@dataclass(frozen=True, kw_only=True)
class SignalGrowth:
    """Norm of the biased signal of the trainable part.

    Attributes:
        before: \\|s\\| before freezing.
        after: \\|s\\| after freezing.
        lower: ``after`` is at least ``lower`` times ``before``, by the conditions met; 0 where none is.
        upper: ``after`` is at most ``upper`` times ``before``; inf where no condition is met.
    """

    before: float
    after: float
    lower: float
    upper: float


def signal_growth(trainable_gradients: ArrayLike, *, frozen_norms: ArrayLike, clip_norm: float) -> SignalGrowth:
    r"""Does freezing lengthen the biased signal? What it does for this batch, and what the conditions guarantee.

    .. math:: \min_i r_i \le |s^a| / |s^b| \le \max_i r_i

    with r_i from :func:`norm_growth`, if <g'_i, g'_j> >= 0 for all pairs; and \|s^a| >= \|s^b| if <g'_i, s^b> >= 0 wherever
    r_i > 1. Otherwise gradients can cancel, and the signal can shrink to nothing. Signs of inner products are those of float64.

    Args:
        trainable_gradients: g'_i, shape (samples, dim), entries of size at most 1e70; memory samples^2.
        frozen_norms: f_i, shape (samples,), or one number for all.
        clip_norm: C, in [1e-70, 1e70].

    Returns:
        The norms of the signal before and after, and the bounds of their ratio.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Lemma 3.2 (lf.lem3.2b).

    Example: by hand: from (0.3, 0.4) to (0.5, 0.5); no gradient grows by less than 5/4 or more than 5/3.
        >>> from dptheory.freezing import signal_growth
        >>> found = signal_growth([[3.0, 0.0], [0.0, 4.0]], frozen_norms=[4.0, 3.0], clip_norm=1.0)
        >>> [round(norm, 3) for norm in (found.before, found.after, found.lower, found.upper)]
        [0.5, 0.707, 1.25, 1.667]
    """
    samples, frozen, clip_norm = _batch(trainable_gradients, frozen_norms, clip_norm)
    signal = biased_signal(samples, frozen_norms=frozen, clip_norm=clip_norm)
    growth = _growth(np.linalg.norm(samples, axis=1), frozen, clip_norm)
    lower, upper = 0.0, math.inf
    if (samples @ samples.T >= 0).all():
        lower, upper = float(growth.min()), float(growth.max())
    elif (samples[growth > 1] @ signal >= 0).all():
        lower = 1.0
    after = biased_signal(samples, frozen_norms=0.0, clip_norm=clip_norm)
    return SignalGrowth(
        before=float(np.linalg.norm(signal)), after=float(np.linalg.norm(after)), lower=lower, upper=upper
    )


@dataclass(frozen=True, kw_only=True)
class TrainablePart:
    """The layers that go on being trained, under one clipping.

    Attributes:
        dim: number of their parameters d.
        clipped_norm: mean over the samples of the norm of their part of the clipped gradient.
        snr: \\|s\\| / tau, with \\|s\\| = alignment x clipped_norm.
        noise_cos: expected cosine between s and s + z.
        noise_angle: expected angle between them, in radians.
        noise_energy: E|z|^2 = d tau^2 on these layers.
        update_noise: E|z|^2 over everything that is updated: all layers before freezing, these alone after it.
    """

    dim: int
    clipped_norm: float
    snr: float
    noise_cos: float
    noise_angle: float
    noise_energy: float
    update_noise: float


@dataclass(frozen=True, kw_only=True)
class FreezingEffect:
    """The trainable part before and after freezing.

    Attributes:
        before: while all layers are trained.
        after: once the first ones are frozen.
        growth: the factor that freezing puts on its clipped norm and snr.
    """

    before: TrainablePart
    after: TrainablePart
    growth: float


def freezing_effect(
    layer_sizes: ArrayLike,
    *,
    layer_norms: ArrayLike,
    frozen_layers: int,
    clip_norm: float,
    noise_multiplier: float,
    batch_size: int,
    alignment: float = 1.0,
) -> FreezingEffect:
    r"""Forecast of freezing the first layers: norm, signal-to-noise ratio and noise of the layers that remain.

    Per-sample clipped norms are exact. The norm of their mean also depends on the angles between samples, which norms do not
    tell: ``alignment`` = \|mean of the clipped trainable parts| / mean of their norms stands for them, and is taken to be the
    same before and after (:func:`signal_growth` says when the signal grows). It is 1 for gradients of one direction, about
    1 / sqrt(batch_size) for unrelated ones of equal norms. The angles are those that noise alone adds; clipping bias is not
    forecast.

    Args:
        layer_sizes: parameters of each layer, from the input on, integers >= 1, shape (layers,); sum <= 1e12.
        layer_norms: gradient norms, one per layer: of one typical sample, shape (layers,), or of several, (samples, layers).
        frozen_layers: how many layers to freeze, 0..layers - 1.
        clip_norm: C, in [1e-70, 1e70].
        noise_multiplier: sigma, in [1e-70, 1e70].
        batch_size: B, 1..1e9; tau = sigma C / B.
        alignment: see above, in (0, 1].

    Returns:
        The layers that remain, before and after, and the growth of their signal.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Lemma 3.2 and Proposition 3.1 (lf.prop3.1.3).

    Example: most of a sample's gradient lies in the first layer; freezing it triples the signal of the second.
        >>> from dptheory.freezing import freezing_effect
        >>> effect = freezing_effect([300, 100], layer_norms=[3.0, 1.0], frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0,
        ...                          batch_size=20)
        >>> round(effect.growth, 3), round(effect.before.noise_cos, 3), round(effect.after.noise_cos, 3)
        (3.162, 0.534, 0.895)
    """
    sizes = _sizes(layer_sizes)
    norms = np.atleast_2d(_validate.scale("layer_norms", layer_norms))
    if norms.ndim != 2 or not norms.size or norms.shape[1] != len(sizes):
        raise ArgumentError("layer_norms", f"have the shape (samples, {len(sizes)})", np.shape(layer_norms))
    frozen_layers = frozen_count(frozen_layers, len(sizes))
    clip_norm = _validate.size("clip_norm", clip_norm)
    batch_size = _validate.integer("batch_size", batch_size, 1, _MAX_BATCH)
    noise = _validate.size("noise_multiplier", noise_multiplier) * clip_norm / batch_size
    alignment = _validate.real("alignment", alignment, 0.0, 1.0, ends="(]")
    kept = np.linalg.norm(norms[:, frozen_layers:], axis=1)
    frozen = np.linalg.norm(norms[:, :frozen_layers], axis=1)
    after = float(np.minimum(kept, clip_norm).mean())
    before = float((np.minimum(kept, clip_norm) / _growth(kept, frozen, clip_norm)).mean())
    dim, total = sum(sizes[frozen_layers:]), sum(sizes)
    return FreezingEffect(
        before=_part(dim, before, alignment, noise, total),
        after=_part(dim, after, alignment, noise, dim),
        growth=after / before if before else 1.0,
    )


def _part(dim: int, clipped_norm: float, alignment: float, noise: float, updated: int) -> TrainablePart:
    snr = alignment * clipped_norm / noise
    return TrainablePart(
        dim=dim,
        clipped_norm=clipped_norm,
        snr=snr,
        noise_cos=DistortionAngle(dim, snr=snr).expected_cos(),
        noise_angle=expected_angle(dim, snr=snr),
        noise_energy=dim * noise**2,
        update_noise=updated * noise**2,
    )


def frozen_count(frozen_layers: int, layers: int) -> int:
    """``frozen_layers``, which leave one to train."""
    if layers == 1 and _validate.integer("frozen_layers", frozen_layers, 0):
        raise ArgumentError(
            "layer_sizes", "have two layers or more where frozen_layers is above 0", layers, got="one layer"
        )
    return _validate.integer("frozen_layers", frozen_layers, 0, layers - 1)


def _sizes(layer_sizes: ArrayLike) -> list[int]:
    found = _validate.integers("layer_sizes", layer_sizes, 1, _MAX_DIM)
    if sum(found) > _MAX_DIM:
        raise ArgumentError("layer_sizes", f"sum to at most {_MAX_DIM}", layer_sizes)
    return found


def _batch(trainable: ArrayLike, frozen_norms: ArrayLike, clip: float) -> tuple[Array, Array, float]:
    samples = _validate.bounded("trainable_gradients", trainable)
    if samples.ndim != 2 or not samples.size:
        raise ArgumentError("trainable_gradients", "have the shape (samples, dim)", np.shape(trainable))
    frozen = _validate.scale("frozen_norms", frozen_norms)
    if frozen.shape not in ((), (len(samples),)):
        raise ArgumentError("frozen_norms", f"have the shape ({len(samples)},)", frozen.shape)
    return samples, frozen, _validate.size("clip_norm", clip)


def _match(name: str, value: Array, other: str, reference: Array) -> None:
    try:
        np.broadcast_shapes(value.shape, reference.shape)
    except ValueError:
        raise ArgumentError(
            name, f"have a shape that matches that of {other}, {reference.shape}", value.shape
        ) from None
