r"""What freezing layers does to the convergence bound of DP-SGD.

Notation as in :mod:`dptheory.convergence`; s^B the mean of the clipped gradients of a batch, s^P = s^B + noise, tau = sigma C / B
the standard deviation of an entry of the noise, d the number of parameters that are trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dptheory import _validate, convergence
from dptheory.convergence import DescentBound


def private_second_moment(
    second_moment: float, clip: float, noise_multiplier: float, dim: int, batch_size: int
) -> float:
    r"""E|s^P|^2 = E|s^B|^2 + d (sigma C / B)^2: exact, for noise of mean zero that is independent of the batch.

    Args:
        second_moment: E|s^B|^2 >= 0.
        clip: C > 0.
        noise_multiplier: sigma >= 0.
        dim: number of parameters trained, d >= 1.
        batch_size: B >= 1.

    Raises:
        ValueError: an argument outside its range.

    Source: LF, appendix A, with what is dropped there put back (lf.appA.moment).
    """
    second_moment = _validate.real("second_moment", second_moment, 0.0, ends="[)")
    # the noise energy of a step is the noise term at smoothness 2
    return second_moment + convergence.noise_term(2.0, clip, noise_multiplier, dim, batch_size)


@dataclass(frozen=True)
class FreezingBounds:
    """The convergence bound with all layers trained and with the first ones frozen.

    Attributes:
        full: bound on the weighted mean of E|grad|^2 with all layers trained.
        frozen: the same for the gradient of the layers still trained, the others being frozen.
        dim: number of parameters.
        trainable_dim: number of parameters still trained.
    """

    full: DescentBound
    frozen: DescentBound
    dim: int
    trainable_dim: int

    @property
    def largest_frozen_gradient(self) -> float:
        """Freezing lowers the bound on the whole gradient if the mean of E|grad of frozen layers|^2 stays below this."""
        return self.full.value - self.frozen.value


def freezing_bounds(
    layer_sizes: Sequence[int],
    frozen: int,
    objective_gap: float,
    learning_rate: ArrayLike,
    steps: int,
    smoothness: float,
    clip: float,
    noise_multiplier: float,
    batch_size: int,
    second_moment: ArrayLike | None = None,
    frozen_second_moment: ArrayLike | None = None,
    bias: ArrayLike = 0.0,
    frozen_bias: ArrayLike = 0.0,
) -> FreezingBounds:
    r"""Convergence bounds for the next ``steps`` steps with all layers trained and with the first ``frozen`` ones frozen.

    Freezing lowers the noise from d to d' parameters, G d' tau^2 / 2 in place of G d tau^2 / 2, and the bound is then one on the
    gradient of the d' parameters still trained. Their gradients are clipped less, so E|s^B|^2 may rise, up to C^2.

    Args:
        layer_sizes: numbers of parameters of the layers, >= 1, those closest to the input first.
        frozen: number of layers frozen, in 0..len(layer_sizes) - 1.
        objective_gap: f - inf f now, >= 0; it bounds the gap of the layers still trained.
        learning_rate, steps, smoothness, clip, noise_multiplier, batch_size: as :func:`.layer_freezing_bound`.
        second_moment, bias: there too, with all layers trained; None takes C^2.
        frozen_second_moment, frozen_bias: the same for the layers still trained, the others being frozen.

    Raises:
        ValueError: an argument outside its range.

    Source: LF, Lemma 3.1 corrected, before and after freezing (lf.freeze_bound).
    """
    sizes = [_validate.integer("layer_sizes", size, 1) for size in layer_sizes]
    if not sizes:
        raise ValueError(f"layer_sizes must hold at least one layer, got {layer_sizes!r}")
    frozen = _validate.integer("frozen", frozen, 0, len(sizes) - 1)
    gap = _validate.real("objective_gap", objective_gap, 0.0, ends="[)")
    dim, trainable = sum(sizes), sum(sizes[frozen:])

    def bound(size: int, moment: ArrayLike | None, lost: ArrayLike) -> DescentBound:
        return convergence.layer_freezing_bound(
            gap, learning_rate, steps, smoothness, clip, noise_multiplier, np.int64(size), batch_size, moment, lost
        )

    return FreezingBounds(
        full=bound(dim, second_moment, bias),
        frozen=bound(trainable, frozen_second_moment, frozen_bias),
        dim=dim,
        trainable_dim=trainable,
    )
