"""The arguments of the bounds for masks that are held through epochs, and what an epoch is sure to gain."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptheory import _validate
from dptheory.convergence import _ranges as ranges

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class HeldEpochs:
    """Epochs that hold one mask each; rows have shape (epochs,).

    Attributes:
        gap: 2 G Delta.
        steps_per_epoch: n.
        moves: gamma_e G.
        keeps: x_e, the share of entries that the mask keeps.
        descents: rho_e, the share of the gap that an epoch is sure to gain.
        sampled: s^2 / B.
        noise: d sigma^2 / B^2.
    """

    gap: float
    steps_per_epoch: int
    moves: Array
    keeps: Array
    descents: Array
    sampled: float
    noise: float


def held_epochs(
    *,
    objective_gap: float,
    learning_rate: ArrayLike,
    epochs: int,
    steps_per_epoch: int,
    smoothness: float,
    deviation_norm: float,
    sum_noise_std: float,
    dim: int | None,
    batch_size: int | None,
    drop_rate: ArrayLike,
    most: int,
) -> HeldEpochs:
    """The arguments within their ranges; ``most`` epochs."""
    objective_gap, smoothness = ranges.gap(objective_gap), ranges.positive("smoothness", smoothness)
    deviation_norm, sum_noise_std = (
        ranges.not_negative("deviation_norm", deviation_norm),
        ranges.not_negative("sum_noise_std", sum_noise_std),
    )
    epochs = _validate.integer("epochs", epochs, 1, most)
    steps_per_epoch = _validate.integer("steps_per_epoch", steps_per_epoch, 1, ranges.MAX_COUNT)
    dim = ranges.beside_noise("dim", dim, ranges.MAX_DIM, "sum_noise_std", sum_noise_std)
    batch_size = ranges.beside_noise("batch_size", batch_size, ranges.MAX_COUNT, "sum_noise_std", sum_noise_std)
    rates = _validate.per_step("learning_rate", learning_rate, epochs, 1e-70, 2 / smoothness, ends="[)", each="epochs")
    moves = smoothness * rates
    keeps = 1 - _validate.per_step("drop_rate", drop_rate, epochs, 0.0, 1.0, ends="[)", each="epochs")
    moves, keeps = np.broadcast_to(moves, epochs), np.broadcast_to(keeps, epochs)
    return HeldEpochs(
        gap=2 * smoothness * objective_gap,
        steps_per_epoch=steps_per_epoch,
        moves=moves,
        keeps=keeps,
        descents=_descents(moves, keeps, steps_per_epoch, bool(deviation_norm or sum_noise_std)),
        sampled=deviation_norm**2 / batch_size,
        noise=dim * (sum_noise_std / batch_size) ** 2,
    )


def _descents(moves: Array, keeps: Array, steps_per_epoch: int, noisy: bool) -> Array:
    if noisy or (moves > 1).any():
        return keeps * moves * (2 - moves)
    with np.errstate(divide="ignore"):  # one step of length 1 / G leaves nothing
        return np.asarray(keeps * -np.expm1(2 * steps_per_epoch * np.log1p(-moves)))
