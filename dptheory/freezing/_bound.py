r"""What freezing layers does to the convergence bound of DP-SGD.

Notation as in :mod:`dptheory.convergence`; s^B the mean of the clipped gradients of a batch, s^P = s^B + noise, tau = sigma C / B
the standard deviation of an entry of the noise, d the number of parameters that are trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dptheory import _validate, convergence
from dptheory._arrays import ArrayLike
from dptheory.convergence import DescentBound
from dptheory.errors import ArgumentError
from dptheory.freezing._effects import FreezingEffect, freezing_effect, frozen_count

_MAX_DIM = 10**18
_LARGEST_SQUARE = 1e140


def private_second_moment(
    *, second_moment: float, clip_norm: float, noise_multiplier: float, dim: int, batch_size: int
) -> float:
    r"""E|s^P|^2 = E|s^B|^2 + d (sigma C / B)^2: exact, for noise of mean zero that is independent of the batch.

    Args:
        second_moment: E|s^B|^2 in [0, 1e140].
        clip_norm: C in [1e-35, 1e35].
        noise_multiplier: sigma, 0 or in [1e-35, 1e35].
        dim: number of parameters trained, d, 1..1e18.
        batch_size: B, 1..1e12.

    Returns:
        The second moment, in squared units of the gradient.

    Source: LF, appendix A, with what is dropped there put back (lf.appA.moment).

    Example: by hand: 1 of the signal and 400 / 20^2 of the noise.
        >>> from dptheory.freezing import private_second_moment
        >>> private_second_moment(second_moment=1.0, clip_norm=1.0, noise_multiplier=1.0, dim=400, batch_size=20)
        2.0
    """
    second_moment = _validate.real("second_moment", second_moment, 0.0, _LARGEST_SQUARE)
    # the noise energy of a step is the noise term at smoothness 2
    return second_moment + convergence.noise_term(
        smoothness=2.0, clip_norm=clip_norm, noise_multiplier=noise_multiplier, dim=dim, batch_size=batch_size
    )


@dataclass(frozen=True, kw_only=True)
class FreezingBounds:
    """The convergence bound with all layers trained and with the first ones frozen.

    Attributes:
        full: with all layers trained, bound on the weighted mean of E<grad, s^B>, or of E|grad|^2 where its ``bias`` was given.
        frozen: the same for the layers still trained, the others being frozen: E<P grad, s^B>, or E|P grad|^2.
        dim: number of parameters.
        trainable_dim: number of parameters still trained.
    """

    full: DescentBound
    frozen: DescentBound
    dim: int
    trainable_dim: int

    @property
    def largest_frozen_gradient(self) -> float:
        """What freezing takes off the bound.

        With both biases given: freezing lowers the bound on the whole gradient if the mean of E|grad of frozen layers|^2 stays
        below this.
        """
        return self.full.value - self.frozen.value


def freezing_bounds(
    layer_sizes: Sequence[int],
    *,
    frozen_layers: int,
    objective_gap: float,
    learning_rate: ArrayLike,
    steps: int,
    smoothness: float,
    clip_norm: float,
    noise_multiplier: float,
    batch_size: int,
    second_moment: ArrayLike | None = None,
    frozen_second_moment: ArrayLike | None = None,
    bias: ArrayLike = 0.0,
    frozen_bias: ArrayLike = 0.0,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> FreezingBounds:
    r"""Convergence bounds for the next ``steps`` steps with all layers trained and with the first ``frozen_layers`` ones frozen.

    Freezing lowers the noise from d to d' parameters, G d' tau^2 / 2 in place of G d tau^2 / 2, and the bound is then one on the
    gradient of the d' parameters still trained. Their gradients are clipped less, so E|s^B|^2 may rise, up to its largest value.
    Both bound E<gradient, s^B>. That is E|gradient|^2 where nothing is clipped; where gradients are clipped, E|gradient|^2 can be
    larger without limit, and only ``bias`` and ``frozen_bias`` make the bounds hold for it.

    Args:
        layer_sizes: numbers of parameters of the layers, >= 1, those closest to the input first; sum <= 1e18.
        frozen_layers: number of layers frozen, in 0..len(layer_sizes) - 1.
        objective_gap: f - inf f now, in [0, 1e140]; it bounds the gap of the layers still trained.
        learning_rate, steps, smoothness, clip_norm, noise_multiplier, batch_size: as :func:`.layer_freezing_bound`.
        second_moment, bias, sampling, sampling_rate: there too; the first two with all layers trained.
        frozen_second_moment, frozen_bias: the same for the layers still trained, the others being frozen.

    Returns:
        Both bounds, with the numbers of parameters that they count.

    Source: LF, Lemma 3.1 corrected, before and after freezing (lf.freeze_bound).

    Example: three quarters of the parameters frozen save three quarters of the noise, by hand 0.1 / 2 * 400 / 20^2.
        >>> from dptheory.freezing import freezing_bounds
        >>> bounds = freezing_bounds([300, 100], frozen_layers=1, objective_gap=1.0, learning_rate=0.1, steps=100, smoothness=1.0,
        ...                          clip_norm=1.0, noise_multiplier=1.0, batch_size=20)
        >>> round(bounds.full.noise, 4), round(bounds.frozen.noise, 4)
        (0.05, 0.0125)
    """
    sizes = _sizes(layer_sizes)
    frozen_layers = frozen_count(frozen_layers, len(sizes))
    clip_norm = _validate.size("clip_norm", clip_norm, 1e-35, 1e35)
    gap = _validate.real("objective_gap", objective_gap, 0.0, _LARGEST_SQUARE)
    dim, trainable = sum(sizes), sum(sizes[frozen_layers:])

    def bound(size: int, moment: ArrayLike | None, lost: ArrayLike) -> DescentBound:
        return convergence.layer_freezing_bound(
            decrease=gap,
            learning_rate=learning_rate,
            steps=steps,
            smoothness=smoothness,
            clip_norm=clip_norm,
            noise_multiplier=noise_multiplier,
            dim=np.int64(size),
            batch_size=batch_size,
            second_moment=moment,
            bias=lost,
            sampling=sampling,
            sampling_rate=sampling_rate,
        )

    full = bound(dim, second_moment, bias)
    # only these two are not checked yet, and layer_freezing_bound would call them second_moment and bias
    largest = convergence.batch_second_moment(
        mean_norm=clip_norm,
        second_moment=clip_norm**2,
        batch_size=batch_size,
        sampling=sampling,
        sampling_rate=sampling_rate,
    ) * (1 + 1e-12)
    if frozen_second_moment is not None:
        _validate.per_step("frozen_second_moment", frozen_second_moment, steps, 0.0, largest)
    _validate.per_step("frozen_bias", frozen_bias, steps, -_LARGEST_SQUARE, _LARGEST_SQUARE)
    return FreezingBounds(
        full=full, frozen=bound(trainable, frozen_second_moment, frozen_bias), dim=dim, trainable_dim=trainable
    )


def _sizes(layer_sizes: Sequence[int]) -> list[int]:
    sizes = _validate.integers("layer_sizes", layer_sizes, 1, _MAX_DIM)
    if sum(sizes) > _MAX_DIM:
        raise ArgumentError("layer_sizes", f"sum to at most {_MAX_DIM:.0e}", layer_sizes)
    return sizes


# --- Freezing the first layers: what it does to the others, and to the bound on descent


_NOISE = (1e-35, 1e35)


@dataclass(frozen=True, kw_only=True)
class FreezingComparison:
    """Training all layers beside freezing the first ones.

    Attributes:
        effect: norm, signal-to-noise ratio and noise of the layers that remain, before and after.
        bounds: on the mean of E<gradient, clipped gradient> over the steps that are left, full and frozen.
    """

    effect: FreezingEffect
    bounds: FreezingBounds


def compare_freezing(
    layer_sizes: ArrayLike,
    *,
    layer_norms: ArrayLike,
    frozen_layers: int,
    clip_norm: float,
    noise_multiplier: float,
    batch_size: int,
    objective_gap: float,
    learning_rate: ArrayLike,
    steps: int,
    smoothness: float,
    alignment: float = 1.0,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> FreezingComparison:
    r"""What freezing the first layers does to the layers that remain, and to the convergence bound.

    :func:`dptheory.freezing.freezing_effect` and :func:`~dptheory.freezing.freezing_bounds` for one setting. The bound is on
    the mean of E<gradient, clipped gradient>, which is E|gradient|^2 where no gradient is clipped.

    Args:
        layer_sizes: parameters of each layer, from the input on, integers >= 1, shape (layers,); sum <= 1e12.
        layer_norms: gradient norms, one per layer: of one typical sample, shape (layers,), or of several, (samples, layers).
        frozen_layers: how many layers to freeze, 0..layers - 1.
        clip_norm: C, in [1e-35, 1e35].
        noise_multiplier: sigma, in [1e-35, 1e35].
        batch_size: B, 1..1e9; the expected one of Poisson batches.
        objective_gap: f - inf f now, in [0, 1e140].
        learning_rate: of the steps that are left, as :func:`dptheory.convergence.layer_freezing_bound`.
        steps: how many are left, there too.
        smoothness: Lipschitz constant of the gradient, there too.
        alignment: norm of the mean clipped gradient over the mean of the norms; 1 where all have one direction.
        sampling: "poisson" or "fixed".
        sampling_rate: of Poisson batches; without it the bounds hold for every rate.

    Returns:
        The effect on norms and angles, and both bounds.

    Source: LF, Proposition 3.1 and Lemma 3.1 corrected (lf.prop3.1.1, lf.freeze_bound).

    Example: freezing the smallest of three layers lowers the bound, as fewer entries are noised.
        >>> from dptheory.freezing import compare_freezing
        >>> found = compare_freezing(
        ...     [100, 200, 300], layer_norms=[1.0, 2.0, 3.0], frozen_layers=1, clip_norm=1.0, noise_multiplier=1.5,
        ...     batch_size=256, objective_gap=1.0, learning_rate=0.1, steps=1000, smoothness=1.0,
        ... )
        >>> found.bounds.trainable_dim, round(found.effect.growth, 3), found.bounds.frozen.value < found.bounds.full.value
        (500, 1.038, True)
    """
    noise_multiplier = _validate.size("noise_multiplier", noise_multiplier, *_NOISE)
    effect = freezing_effect(
        layer_sizes,
        layer_norms=layer_norms,
        frozen_layers=frozen_layers,
        clip_norm=clip_norm,
        noise_multiplier=noise_multiplier,
        batch_size=batch_size,
        alignment=alignment,
    )
    bounds = freezing_bounds(
        _validate.integers("layer_sizes", layer_sizes, 1, 10**12),
        frozen_layers=frozen_layers,
        objective_gap=objective_gap,
        learning_rate=learning_rate,
        steps=steps,
        smoothness=smoothness,
        clip_norm=clip_norm,
        noise_multiplier=noise_multiplier,
        batch_size=batch_size,
        sampling=sampling,
        sampling_rate=sampling_rate,
    )
    return FreezingComparison(effect=effect, bounds=bounds)
