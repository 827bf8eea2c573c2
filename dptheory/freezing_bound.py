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

_MAX_DIM, _MAX_BATCH = 10**18, 10**12
_LARGEST, _LARGEST_SQUARE = 1e35, 1e140


def private_second_moment(
    second_moment: float, clip: float, noise_multiplier: float, dim: int, batch_size: int
) -> float:
    r"""E|s^P|^2 = E|s^B|^2 + d (sigma C / B)^2: exact, for noise of mean zero that is independent of the batch.

    Args:
        second_moment: E|s^B|^2 in [0, 1e140].
        clip: C in (0, 1e35].
        noise_multiplier: sigma in [0, 1e35].
        dim: number of parameters trained, d, 1..1e18.
        batch_size: B, 1..1e12.

    Raises:
        ValueError: an argument outside its range.

    Source: LF, appendix A, with what is dropped there put back (lf.appA.moment).
    """
    second_moment = _validate.real("second_moment", second_moment, 0.0, _LARGEST_SQUARE)
    clip = _validate.real("clip", clip, 0.0, _LARGEST, ends="(]")
    noise_multiplier = _validate.real("noise_multiplier", noise_multiplier, 0.0, _LARGEST)
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    batch_size = _validate.integer("batch_size", batch_size, 1, _MAX_BATCH)
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
        layer_sizes: numbers of parameters of the layers, >= 1, those closest to the input first; sum <= 1e18.
        frozen: number of layers frozen, in 0..len(layer_sizes) - 1.
        objective_gap: f - inf f now, in [0, 1e140]; it bounds the gap of the layers still trained.
        learning_rate, steps, smoothness, clip, noise_multiplier, batch_size: as :func:`.layer_freezing_bound`.
        second_moment, bias: there too, with all layers trained; None takes C^2.
        frozen_second_moment, frozen_bias: the same for the layers still trained, the others being frozen.

    Raises:
        ValueError: an argument outside its range.

    Source: LF, Lemma 3.1 corrected, before and after freezing (lf.freeze_bound).
    """
    sizes = _sizes(layer_sizes)
    frozen = _validate.integer("frozen", frozen, 0, len(sizes) - 1)
    gap = _validate.real("objective_gap", objective_gap, 0.0, _LARGEST_SQUARE)
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


def _sizes(layer_sizes: Sequence[int]) -> list[int]:
    try:
        sizes = [_validate.integer("layer_sizes", size, 1, _MAX_DIM) for size in layer_sizes]
    except TypeError:
        raise ValueError(f"layer_sizes must be a list of integers, got {layer_sizes!r}") from None
    if not sizes or sum(sizes) > _MAX_DIM:
        raise ValueError(f"layer_sizes must hold at least one layer and sum to at most {_MAX_DIM}, got {layer_sizes!r}")
    return sizes
