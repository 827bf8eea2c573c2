r"""When to freeze which layers: the expected loss of DP-SGD on a quadratic, by exact recursion over the steps.

f = sum_j lambda_j theta_j^2 / 2. Where layers are trained, theta_j <- theta_j - eta (s lambda_j theta_j + zeta_j) with zeta of
mean zero given the past and s the share of the gradient that clipping leaves. For a part of n entries of one curvature lambda,
Q = E|gradient|^2 follows Q <- (1 - eta s lambda)^2 Q + (eta lambda)^2 (n tau^2 + s^2 v / B), and its loss is Q / (2 lambda).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike, run_around
from dptheory.errors import ArgumentError

_MAX_STEPS = 10**5
_MAX_WORK = 5 * 10**7
_SMALL, _LARGE = 1e-35, 1e35
_ROUNDING = 1e-12  # a layer that has settled is not frozen for a gain of this share


@dataclass(frozen=True, kw_only=True)
class LayerSteps:
    """When to freeze each layer, with the losses above their least values.

    Attributes:
        frozen_after_step: of each layer, the number of steps after which it is best frozen: 0 is never trained. ``steps``,
            never frozen, where freezing takes off no more than rounding.
        first_step, last_step: the ends of the run of steps around it whose losses rounding cannot tell from the least.
        value: expected loss of each layer at the end, if it is frozen then.
        all_trained: expected loss of each layer at the end, if it is never frozen.
    """

    frozen_after_step: tuple[int, ...]
    first_step: tuple[int, ...]
    last_step: tuple[int, ...]
    value: tuple[float, ...]
    all_trained: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class BestFreezing:
    """How many of the first layers to freeze, and when, with the losses above their least values.

    Attributes:
        frozen_layers: 0 where freezing does not pay.
        frozen_after_step: the number of steps before they are frozen; the steps of the run where none is.
        first_step, last_step: the ends of the run of steps around it whose losses rounding cannot tell from the least.
        value: expected loss at the end, of all layers together.
        all_trained: the same if nothing is frozen.
    """

    frozen_layers: int
    frozen_after_step: int
    first_step: int
    last_step: int
    value: float
    all_trained: float

    @property
    def gain(self) -> float:
        """What freezing takes off the expected loss."""
        return self.all_trained - self.value


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """Parts of layers, shape (layers, parts), and the step sizes, shape (steps,)."""

    sizes: Array
    squares: Array
    curvature: Array
    deviation_norm: Array
    rates: Array
    batch_size: int

    def factors(self, step: int, share: Array, variance: Array) -> tuple[Array, Array]:
        """What a step multiplies Q by, and what it adds."""
        moved = self.rates[step] * self.curvature
        added = self.sizes * variance + share**2 * self.deviation_norm**2 / self.batch_size
        return (1 - share * moved) ** 2, moved**2 * added

    def walked(self, share: float, variance: float) -> Array:
        """Q after 0..T steps with all layers trained."""
        found = np.empty((len(self.rates) + 1, *self.squares.shape))
        found[0] = self.squares
        for step in range(len(self.rates)):
            shrink, added = self.factors(step, np.asarray(share), np.asarray(variance))
            found[step + 1] = shrink * found[step] + added
        return found


def best_layer_steps(
    layer_sizes: ArrayLike,
    *,
    gradient_norms: ArrayLike,
    curvature: ArrayLike,
    learning_rate: ArrayLike,
    steps: int,
    clip_norm: float,
    noise_multiplier: float,
    batch_size: int,
    deviation_norm: ArrayLike = 0.0,
) -> LayerSteps:
    r"""The best step to freeze each layer at, where the clip norm stays and nothing is clipped: each layer for itself.

    Exact on a quadratic, whose curvature is lambda in each part of a layer:

    .. math:: Q \leftarrow (1 - \eta\lambda)^2 Q + (\eta\lambda)^2 \Big(n\tau^2 + \frac{v}{B}\Big), \qquad \tau = \frac{\sigma C}B

    is E|gradient|^2 of a part of n entries, sum Q / (2 lambda) the loss of the layer, and the best step is where that is least.
    With one curvature per layer and step sizes that do not rise this is 0 or ``steps``.

    Args:
        layer_sizes: numbers of parameters, integers of 0..1e12, shape (layers,), or (layers, parts) where a layer has parts of
            different curvature (0 fills up rows); one above 0.
        gradient_norms: norm of the gradient now, 0 or in [1e-35, 1e35], the same shape; 0 where the size is 0.
        curvature: lambda of each part in [1e-35, 1e35], the same shape.
        learning_rate: eta in [1e-70, 2 / largest curvature of a part of size above 0), a number or shape (steps,).
        steps: T, 1..1e5; steps x layers x parts x layers at most 5e7.
        clip_norm: C in [1e-35, 1e35].
        noise_multiplier: sigma, 0 or in [1e-35, 1e35].
        batch_size: B, 1..1e12.
        deviation_norm: root of v, the mean squared deviation of an example's gradient in each part, of independent draws, 0 or in
            [1e-35, 1e35]; the same shape, 0 where the size is 0, or a number for all parts of size above 0.

    Returns:
        The best steps and the losses with and without freezing, layer by layer.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Algorithm 1 on a quadratic; our own (lf.when_to_freeze).

    Example: the first layer is below its noise floor; the second learns in its steep part, then its flat part collects noise.
        >>> from dptheory.freezing import best_layer_steps
        >>> found = best_layer_steps([[400, 0], [100, 900]], gradient_norms=[[0.1, 0.0], [3.0, 0.0]],
        ...                          curvature=[[1.0, 1.0], [1.0, 0.05]], learning_rate=0.2, steps=100, clip_norm=1.0,
        ...                          noise_multiplier=1.0, batch_size=20)
        >>> found.frozen_after_step
        (0, 16)
        >>> [round(loss, 3) for loss in found.value], [round(loss, 3) for loss in found.all_trained]
        ([0.005, 0.049], [0.056, 0.112])
    """
    parts = _parts(layer_sizes, gradient_norms, curvature, learning_rate, steps, batch_size, deviation_norm)
    clip_norm = _validate.size("clip_norm", clip_norm, _SMALL, _LARGE)
    tau = _validate.size("noise_multiplier", noise_multiplier, _SMALL, _LARGE, zero=True) * clip_norm / parts.batch_size
    losses = (parts.walked(1.0, tau**2) / (2 * parts.curvature)).sum(axis=2)
    never = losses[-1] <= losses.min(axis=0) * (1 + _ROUNDING)
    best = np.where(never, len(parts.rates), losses.argmin(axis=0))
    ends = [_indistinguishable(losses[:, layer], int(best[layer]), parts) for layer in range(len(best))]
    return LayerSteps(
        frozen_after_step=tuple(best.tolist()),
        first_step=tuple(first for first, _ in ends),
        last_step=tuple(last for _, last in ends),
        value=tuple(np.where(never, losses[-1], losses.min(axis=0)).tolist()),
        all_trained=tuple(losses[-1].tolist()),
    )


def best_freezing(
    layer_sizes: ArrayLike,
    *,
    gradient_norms: ArrayLike,
    curvature: ArrayLike,
    learning_rate: ArrayLike,
    steps: int,
    clip_norm: ArrayLike,
    noise_multiplier: float,
    batch_size: int,
    deviation_norm: ArrayLike = 0.0,
    layer_norms: ArrayLike | None = None,
) -> BestFreezing:
    r"""How many of the first layers to freeze and after which step, by the expected loss at the end: all choices are compared.

    The recursion of :func:`best_layer_steps`, with a clip norm that may change where layers are frozen, and with the share that
    clipping leaves while m layers are frozen, c_l being the norm of an example's gradient in layer l at every step:

    .. math:: s_m = \min\Big(1, \frac{C_m}{(\sum_{l\ge m} c_l^2)^{1/2}}\Big), \qquad \tau_m = \frac{\sigma C_m}B

    The noise multiplier stays: what it costs does not depend on how many entries are trained.

    Args:
        layer_sizes, gradient_norms, curvature, learning_rate, steps, noise_multiplier, batch_size, deviation_norm: as
            :func:`best_layer_steps`, layers from the input on.
        clip_norm: C in [1e-35, 1e35], a number, or shape (layers,): C_m while the first m layers are frozen.
        layer_norms: c_l, 0 or in [1e-35, 1e35], shape (layers,); without it nothing is clipped.

    Returns:
        The best choice; freezing 0 layers where none is better.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: LF, Algorithm 1 on a quadratic; our own (lf.when_to_freeze).

    Example: with half the clip norm for the second layer alone, the first is frozen once it has learnt.
        >>> from dptheory.freezing import best_freezing
        >>> best_freezing([500, 500], gradient_norms=[3.0, 1.0], curvature=[1.0, 0.2], learning_rate=0.1, steps=200,
        ...               clip_norm=[1.0, 0.5], noise_multiplier=1.0, batch_size=20).frozen_after_step
        60
    """
    parts = _parts(layer_sizes, gradient_norms, curvature, learning_rate, steps, batch_size, deviation_norm)
    layers, steps = len(parts.sizes), len(parts.rates)
    clips = _validate.scale("clip_norm", clip_norm)
    if clips.shape not in ((), (layers,)) or not ((clips >= _SMALL) & (clips <= _LARGE)).all():
        raise ArgumentError(
            "clip_norm", f"be a number in [{_SMALL:g}, {_LARGE:g}], or one for each of {layers} layers", clip_norm
        )
    clips = np.broadcast_to(clips, layers)
    sigma = _validate.size("noise_multiplier", noise_multiplier, _SMALL, _LARGE, zero=True)
    variances = (sigma * clips / parts.batch_size) ** 2
    shares = _shares(clips, layer_norms)
    walked = parts.walked(float(shares[0]), float(variances[0]))
    now = (walked / (2 * parts.curvature)).sum(axis=2)
    trained = np.arange(layers) >= np.arange(1, layers)[:, None]
    kept, added = np.ones((layers - 1, *parts.sizes.shape)), np.zeros((layers - 1, *parts.sizes.shape))
    values = np.empty((steps + 1, layers - 1))
    share, variance = shares[1:, None, None], variances[1:, None, None]
    for step in range(steps, -1, -1):  # kept, added: what the steps from here on make of Q
        if step < steps:
            shrink, noise = parts.factors(step, share, variance)
            kept, added = kept * shrink, added + kept * noise
        at_end = ((walked[step] * kept + added) / (2 * parts.curvature)).sum(axis=2)
        values[step] = np.where(trained, at_end, now[step]).sum(axis=1)
    all_trained = float(now[-1].sum())
    if not values.size or values.min() * (1 + _ROUNDING) >= all_trained:
        return BestFreezing(
            frozen_layers=0,
            frozen_after_step=steps,
            first_step=steps,
            last_step=steps,
            value=all_trained,
            all_trained=all_trained,
        )
    after, layer = divmod(int(values.argmin()), layers - 1)
    first, last = _indistinguishable(values[:, layer], after, parts)
    return BestFreezing(
        frozen_layers=layer + 1,
        frozen_after_step=after,
        first_step=first,
        last_step=last,
        value=float(values.min()),
        all_trained=all_trained,
    )


def _indistinguishable(losses: Array, best: int, parts: _Parts) -> tuple[int, int]:
    """The ends of the run of steps around the best one whose losses could be the least, had they not been rounded.

    No term is negative, so that the relative error of a loss is at most its roundings: eight for a step of the recursion and one
    for each part that is added. Two losses that differ by less than both their errors cannot be told apart.
    """
    roundings = 8 * len(parts.rates) + parts.sizes.size
    return run_around(losses <= losses[best] * (1 + 2 * roundings * np.finfo(float).eps), best)


def _shares(clips: Array, layer_norms: ArrayLike | None) -> Array:
    """What clipping leaves while 0, 1, ... layers are frozen."""
    if layer_norms is None:
        return np.ones(len(clips))
    norms = _sized("layer_norms", layer_norms)
    if norms.shape != clips.shape:
        raise ArgumentError("layer_norms", f"have shape {clips.shape}", layer_norms, got=f"shape {norms.shape}")
    left = np.array([math.hypot(*norms[first:]) for first in range(len(norms))])
    return np.asarray(clips / np.maximum(clips, left))


def _parts(
    layer_sizes: ArrayLike,
    gradient_norms: ArrayLike,
    curvature: ArrayLike,
    learning_rate: ArrayLike,
    steps: int,
    batch_size: int,
    deviation_norm: ArrayLike,
) -> _Parts:
    sizes = _validate.nonnegative("layer_sizes", layer_sizes)
    if sizes.ndim not in (1, 2) or not sizes.size or (sizes > 1e12).any() or (sizes % 1).any():
        raise ArgumentError(
            "layer_sizes", "hold integers in 0..10^12, with shape (layers,) or (layers, parts)", layer_sizes
        )
    sizes = sizes.reshape(len(sizes), -1)
    shape = sizes.shape
    most = min(_MAX_STEPS, _MAX_WORK // (sizes.size * len(sizes)))
    if most < 1:
        raise ArgumentError(
            "layer_sizes", f"have layers x layers x parts at most {_MAX_WORK}", layer_sizes, got=f"shape {shape}"
        )
    real = sizes > 0
    if not real.any():
        raise ArgumentError("layer_sizes", "hold a size above 0", layer_sizes)
    norms = _of_parts("gradient_norms", gradient_norms, layer_sizes, real)
    curved = _of_shape("curvature", curvature, layer_sizes, shape)
    if not (curved > 0).all():
        raise ArgumentError("curvature", f"hold numbers in [{_SMALL:g}, {_LARGE:g}]", curvature)
    spread = _sized("deviation_norm", deviation_norm)
    deviations = spread * real if not spread.ndim else _of_parts("deviation_norm", deviation_norm, layer_sizes, real)
    steps = _validate.integer("steps", steps, 1, most)
    largest = float(curved[real].max())
    rates = _validate.per_step("learning_rate", learning_rate, steps, 1e-70, 2 / largest, ends="[)")
    return _Parts(
        sizes=sizes,
        squares=norms**2,
        curvature=np.where(real, curved, largest),
        deviation_norm=deviations,
        rates=np.broadcast_to(rates, steps),
        batch_size=_validate.integer("batch_size", batch_size, 1, 10**12),
    )


def _sized(name: str, value: ArrayLike) -> Array:
    array = _validate.scale(name, value)
    if not ((array == 0) | ((array >= _SMALL) & (array <= _LARGE))).all():
        raise ArgumentError(name, f"hold 0 or numbers in [{_SMALL:g}, {_LARGE:g}]", value)
    return array


def _of_shape(name: str, value: ArrayLike, like: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = _sized(name, value)
    if array.shape != np.shape(like):
        raise ArgumentError(name, f"have the shape of layer_sizes, {np.shape(like)}", value, got=f"shape {array.shape}")
    return array.reshape(shape)


def _of_parts(name: str, value: ArrayLike, like: ArrayLike, real: NDArray[np.bool_]) -> Array:
    """What only parts with entries have."""
    array = _of_shape(name, value, like, real.shape)
    if array[~real].any():
        raise ArgumentError(name, "be 0 where layer_sizes is 0", value)
    return array
