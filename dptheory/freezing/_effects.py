"""What freezing the first layers does to the clipped gradients of the layers that are still trained.

Notation: g' = trainable part of one sample's gradient, f = norm of its frozen part, C = clip. Before freezing the whole
gradient is clipped, |g|^2 = |g'|^2 + f^2; after freezing only g' is. s = mean of the clipped g' over the batch, the biased
signal; u = true gradient of the trainable part; tau = noise_multiplier C / batch_size, standard deviation of the noise in one
entry.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptheory import _validate
from dptheory.freezing._expected_angle import expected_angle
from dptheory.gradients import DistortionAngle

Array = NDArray[np.float64]

_MAX_DIM = _MAX_BATCH = 10**9
_LARGEST = 1e70
_PARALLEL = 1e-15  # unit vectors this close to parallel are parallel but for rounding
_ROUNDING = 4e-16  # margins below it are rounding


def norm_growth(*, trainable_norms: ArrayLike, frozen_norms: ArrayLike, clip_norm: float) -> Array:
    r"""By what factor freezing lengthens the clipped trainable part of each sample.

    .. math:: r = \frac{\max(C, \sqrt{|g'|^2 + f^2})}{\max(C, |g'|)} \in \Big[1, \sqrt{1 + f^2/|g'|^2}\Big]

    1 where the whole gradient was not clipped.

    Args:
        trainable_norms: \|g'\|, 0 or in [1e-70, 1e70]; broadcasts against frozen_norms.
        frozen_norms: f, 0 or in [1e-70, 1e70].
        clip_norm: C, in [1e-70, 1e70].

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Lemma 3.2 (lf.lem3.2a).
    """
    kept, frozen = _validate.scale("trainable_norms", trainable_norms), _validate.scale("frozen_norms", frozen_norms)
    clip_norm = _clip(clip_norm)
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

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Lemma 3.2 (lf.lem3.2b).
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


def bias_angle(*, direction: ArrayLike, signal: ArrayLike) -> float:
    r"""Angle between the true direction and the biased signal, in [0, pi]; accurate also near 0 and pi.

    Args:
        direction: u, shape (dim,), its largest entry of size in [1e-70, 1e70].
        signal: s, the same.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Definition 3.2 and Appendix C (lf.appC.cos, lf.prop3.1.1).
    """
    (u, _), (s, _) = _unit("direction", direction), _unit("signal", signal)
    _same_shape("signal", s, "direction", u)
    return 2.0 * math.atan2(float(np.linalg.norm(u - s)), float(np.linalg.norm(u + s)))


@dataclass(frozen=True, kw_only=True)
class BiasAngleChange:
    """What adding t w to the signal x does to its angle with u.

    Attributes:
        margin: cos(u, w) - cos(u, x) cos(x, w): the angle falls at first if > 0, rises if < 0.
        limit: the angle does not rise from t = 0 up to here; 0 where it rises at once, inf where it never does.
    """

    margin: float
    limit: float


def bias_turn(*, direction: ArrayLike, signal: ArrayLike, added: ArrayLike) -> BiasAngleChange:
    r"""Does the angle between u and x + t w fall as t grows from 0, and for how long?

    The derivative of cos(u, x + t w) has the sign of N(0) + t N', which is linear in t:

    .. math:: N(0) = \langle u, w\rangle |x|^2 - \langle u, x\rangle\langle x, w\rangle, \quad
        N' = \langle u, w\rangle\langle x, w\rangle - \langle u, x\rangle |w|^2

    so that the angle falls at first if cos(u, w) > cos(u, x) cos(x, w), and until t = -N(0) / N'. For freezing, x = signal before
    and w = signal after - x: a limit >= 1 says that the bias angle falls all the way. A margin of size below 4e-16 counts as 0:
    the limit is then inf if N' >= 0, as for x opposite to u, and 0 if N' < 0, as for x along u. Where w is opposite to x, the
    angle turns into its supplement as x + t w passes 0: the limit is there if that is a rise.

    Args:
        direction: u, shape (dim,), its largest entry of size in [1e-70, 1e70].
        signal: x, the same.
        added: w, the same.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Proposition 3.1 (lf.prop3.1.1).
    """
    u, _ = _unit("direction", direction)
    x, length = _unit("signal", signal)
    w, step = _unit("added", added)
    _same_shape("signal", x, "direction", u)
    _same_shape("added", w, "direction", u)
    across = _rest(x, w)
    if np.linalg.norm(across) < _PARALLEL:
        opposite = float(x @ w) < 0 < float(u @ x)
        return BiasAngleChange(margin=0.0, limit=length / step if opposite else math.inf)
    margin, fall = float(u @ _rest(w, x)), float(u @ across)  # N(0) and -N' for vectors of length 1
    if abs(margin) < _ROUNDING:
        return BiasAngleChange(margin=0.0, limit=0.0 if fall > 0 else math.inf)
    if margin < 0:
        return BiasAngleChange(margin=margin, limit=0.0)
    return BiasAngleChange(margin=margin, limit=length / step * margin / fall if fall > 0 else math.inf)


def _rest(vector: Array, unit: Array) -> Array:
    """The part of a vector at right angles to a unit vector; the second pass takes off what rounding left of the first."""
    once = vector - (vector @ unit) * unit
    return np.asarray(once - (once @ unit) * unit)


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
    """The trainable part before and after freezing; ``growth`` is the factor that freezing puts on its clipped norm and snr."""

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
        layer_sizes: parameters of each layer, from the input on, integers >= 1, shape (layers,); sum <= 1e9.
        layer_norms: gradient norms, one per layer: of one typical sample, shape (layers,), or of several, (samples, layers).
        frozen_layers: how many layers to freeze, 0..layers - 1.
        clip_norm: C, in [1e-70, 1e70].
        noise_multiplier: sigma, in [1e-70, 1e70].
        batch_size: B, 1..1e9; tau = sigma C / B.
        alignment: see above, in (0, 1].

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Lemma 3.2 and Proposition 3.1 (lf.prop3.1.3).
    """
    sizes = _sizes(layer_sizes)
    norms = np.atleast_2d(_validate.scale("layer_norms", layer_norms))
    if norms.ndim != 2 or not norms.size or norms.shape[1] != len(sizes):
        raise ValueError(f"layer_norms must have the shape (samples, {len(sizes)}), got {np.shape(layer_norms)}")
    frozen_layers = _validate.integer("frozen_layers", frozen_layers, 0, len(sizes) - 1)
    clip_norm = _clip(clip_norm)
    batch_size = _validate.integer("batch_size", batch_size, 1, _MAX_BATCH)
    noise = _positive("noise_multiplier", noise_multiplier) * clip_norm / batch_size
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
        noise_cos=DistortionAngle(dim, snr).expected_cos(),
        noise_angle=expected_angle(dim, snr),
        noise_energy=dim * noise**2,
        update_noise=updated * noise**2,
    )


def _sizes(layer_sizes: ArrayLike) -> list[int]:
    found = _validate.integers("layer_sizes", layer_sizes, 1, _MAX_DIM)
    if sum(found) > _MAX_DIM:
        raise ValueError(f"layer_sizes must sum to at most {_MAX_DIM}, got {_validate.shown(layer_sizes)}")
    return found


def _positive(name: str, value: float) -> float:
    return float(_validate.scale(name, _validate.real(name, value, 0.0, ends="()")))


def _clip(clip: float) -> float:
    return _positive("clip_norm", clip)


def _batch(trainable: ArrayLike, frozen_norms: ArrayLike, clip: float) -> tuple[Array, Array, float]:
    samples = _bounded("trainable_gradients", trainable)
    if samples.ndim != 2 or not samples.size:
        raise ValueError(f"trainable_gradients must have the shape (samples, dim), got {np.shape(trainable)}")
    frozen = _validate.scale("frozen_norms", frozen_norms)
    if frozen.shape not in ((), (len(samples),)):
        raise ValueError(f"frozen_norms must have the shape ({len(samples)},), got {frozen.shape}")
    return samples, frozen, _clip(clip)


def _bounded(name: str, value: ArrayLike) -> Array:
    """A float array whose squares do not overflow."""
    array = _validate.finite(name, value)
    if (np.abs(array) > _LARGEST).any():
        raise ValueError(f"{name} must hold numbers of size at most {_LARGEST:g}, got {_validate.shown(value)}")
    return array


def _unit(name: str, value: ArrayLike) -> tuple[Array, float]:
    """The direction of a vector, and its norm."""
    vector = _bounded(name, value)
    largest = float(np.abs(vector).max(initial=0.0))
    if vector.ndim != 1 or largest < 1 / _LARGEST:
        raise ValueError(
            f"{name} must be a vector with an entry of size >= {1 / _LARGEST:g}, got {_validate.shown(value)}"
        )
    scaled = vector / largest
    norm = float(np.linalg.norm(scaled))
    return np.asarray(scaled / norm), largest * norm


def _same_shape(name: str, value: Array, other: str, reference: Array) -> None:
    if value.shape != reference.shape:
        raise ValueError(f"{name} must have the shape of {other}, {reference.shape}, got {value.shape}")


def _match(name: str, value: Array, other: str, reference: Array) -> None:
    try:
        np.broadcast_shapes(value.shape, reference.shape)
    except ValueError:
        raise ValueError(
            f"{name} must have a shape that matches that of {other}, {reference.shape}, got {value.shape}"
        ) from None
