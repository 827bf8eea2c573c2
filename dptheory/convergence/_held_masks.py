"""The descent bound for masks that are held through an epoch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.convergence import _ranges as ranges
from dptheory.convergence._power_sums import changing_sums
from dptheory.convergence._terms import DescentBound

# --- The arguments of the bounds for masks that are held through epochs, and what an epoch is sure to gain


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


_MAX_EPOCHS = 10**7


def held_mask_bound(
    *,
    objective_gap: float,
    learning_rate: ArrayLike,
    epochs: int,
    steps_per_epoch: int,
    smoothness: float,
    deviation_norm: float = 0.0,
    sum_noise_std: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: ArrayLike = 0.0,
) -> DescentBound:
    r"""Bound on sum_e rho_e E|grad_e|^2 / sum_e rho_e over the first iterates of epochs that hold one mask for n steps.

    Without deviations and noise, and gamma_e G <= 1: rho_e = x_e (1 - (1 - gamma_e G)^{2n}), and with
    p_e = 1 - prod_{i>=e} (1 - rho_i) the bound is 2 G Delta p_1 / sum_e rho_e: the worst case, attained by L = G |w|^2 / 2.
    Otherwise rho_e = x_e gamma_e G (2 - gamma_e G), what the first step of an epoch is sure to gain, and the bound is
    (2 G Delta p_1 + n sum_e (gamma_e G)^2 (s^2 / B + x_e d sigma^2 / B^2) p_{e+1}) / sum_e rho_e. It is not sharp for n > 1: with
    the least deviation or noise it jumps up, in the example from 0.400 to 1.329. At n = 1 it counts the deviations in full, of
    which a fresh mask passes the share x_e: :func:`plain_mean_bound` and :func:`noisy_sgd_bound` with ``sampling="fixed"`` count
    that share. Where step size and mask are the same in all epochs it bounds the plain mean.

    Needs, and cannot check: L is G-smooth and bounded below; no momentum; at every epoch a fresh mask, independent of the
    iterate; fresh noise and fresh batches of B independent draws, their deviations of mean zero given iterate and mask.

    Args:
        objective_gap: Delta in [0, 1e140].
        learning_rate: gamma_e in [1e-70, 2 / G), a number or shape (epochs,).
        epochs: 1..1e7.
        steps_per_epoch: n, 1..1e12.
        smoothness: G in [1e-35, 1e35].
        deviation_norm: s with E|g_i - grad|^2 <= s^2, 0 or in [1e-35, 1e35].
        sum_noise_std: standard deviation sigma of an entry of the noise on the sum of the batch, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise; needed there.
        batch_size: B, 1..1e12, the number that the sum is divided by; needed where there is noise. Without noise None takes 1,
            whose bound holds for every B.
        drop_rate: share of entries that the mask of an epoch drops, in [0, 1), a number or shape (epochs,).

    Returns:
        The terms; ``clipping`` is the part of the sampling deviation, ``bias`` is 0.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Algorithm 1 without clipping and momentum; our own (rs.held_masks).

    Example: half of the entries, 10 epochs of 100 steps: little better than 10 steps with fresh masks, far from 1000.
        >>> from dptheory.convergence import held_mask_bound, noisy_sgd_bound
        >>> run = dict(objective_gap=1.0, learning_rate=0.1, smoothness=1.0, drop_rate=0.5)
        >>> round(held_mask_bound(epochs=10, steps_per_epoch=100, **run).value, 3)
        0.4
        >>> round(noisy_sgd_bound(steps=1000, **run).value, 3)
        0.022
    """
    run = held_epochs(
        objective_gap=objective_gap,
        learning_rate=learning_rate,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        smoothness=smoothness,
        deviation_norm=deviation_norm,
        sum_noise_std=sum_noise_std,
        dim=dim,
        batch_size=batch_size,
        drop_rate=drop_rate,
        most=_MAX_EPOCHS,
    )
    per_gap, per_deviation = changing_sums(run.descents, run.steps_per_epoch * run.moves**2)
    _, per_noise = changing_sums(run.descents, run.steps_per_epoch * run.keeps * run.moves**2)
    return DescentBound(
        optimization=run.gap * per_gap,
        clipping=per_deviation * run.sampled,
        noise=per_noise * run.noise,
        bias=0.0,
    )
