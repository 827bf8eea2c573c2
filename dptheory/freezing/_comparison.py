"""Freezing the first layers: what it does to the others, and to the bound on descent."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory.freezing._bound import FreezingBounds, freezing_bounds
from dptheory.freezing._effects import FreezingEffect, freezing_effect

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
        layer_sizes: parameters of each layer, from the input on, integers >= 1, shape (layers,); sum <= 1e9.
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

    Raises:
        ValueError: an argument outside its range.

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
        _validate.integers("layer_sizes", layer_sizes, 1, 10**9),
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
