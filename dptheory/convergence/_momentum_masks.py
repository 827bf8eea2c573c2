"""The descent bound for masked SGD with momentum, masks fresh or held through an epoch, over all steps."""

import math

import numpy as np
from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory.convergence import _ranges as ranges

_MAX_EPOCHS = 10**7


def momentum_mask_bound(
    *,
    objective_gap: float,
    learning_rate: float,
    momentum: float,
    epochs: int,
    steps_per_epoch: int,
    smoothness: float,
    deviation_norm: float = 0.0,
    sum_noise_std: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: ArrayLike = 0.0,
) -> float:
    r"""Bound on the mean of E|grad_t|^2 over all steps t, weighted by x_t, of masked SGD with momentum.

    With g = gamma G / (1 - mu), k = g mu / (1 - mu), P = 2 - g, V the mean second moment of deviation and noise on the kept
    entries, N = (1 - mu) V, T steps, R = 2 Delta (1 - mu) / (gamma T) + g V:

    K = (P R + 2 k^2 N + 2 k sqrt(R^2 + P R N + k^2 N^2)) / (P^2 - 4 k^2)

    bounds the mean of E|m * grad|^2 for any masks. With fresh masks (n = 1) the bound is K over the mean of x_e. With masks
    held for n steps it is (sqrt(K) + sqrt(W))^2 over the mean of x_e, with
    sqrt(W) = g sqrt(n (n - 1) / 2) (sqrt(K) + sqrt(V / n)) + k sqrt(K + N). Where it is less, what holds
    at every step is taken: (sqrt(2 G Delta + g^2 (1 + mu) (T - 1) U) + k sqrt((1 - mu) (T K + U)))^2, U the largest second
    moment of a step.

    Within a factor of two of the worst case over long runs with fresh masks of one ``drop_rate`` where
    gamma G <= 0.4 (1 - mu)^2 / (1 + mu); further from it in short runs.

    Needs, and cannot check: L is G-smooth and bounded below; momentum as torch.optim.SGD has it (velocity 0 at first,
    no dampening, no Nesterov), never reset; a mask uniform given the past at the start of each epoch; fresh noise and fresh
    batches of B independent draws, their deviations of mean zero given iterate and mask.

    Args:
        objective_gap: Delta in [0, 1e140].
        learning_rate: gamma in [1e-70, 2 (1 - 1e-9) (1 - mu)^2 / ((1 + mu) G)].
        momentum: mu in [0, 1 - 1e-6].
        epochs: 1..1e7; with fresh masks the number of steps.
        steps_per_epoch: n, 1..1e12; 1 for fresh masks.
        smoothness: G in [1e-35, 1e35].
        deviation_norm: s with E|g_i - grad|^2 <= s^2, 0 or in [1e-35, 1e35].
        sum_noise_std: standard deviation sigma of an entry of the noise on the sum of the batch, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise; needed there.
        batch_size: B, 1..1e12, the number that the sum is divided by; needed where there is noise. Without noise None takes 1,
            whose bound holds for every B.
        drop_rate: share of entries that the mask of an epoch drops, 1 - x_e in [0, 1), a number or shape (epochs,).

    Returns:
        The bound, in squared units of the gradient. With one ``drop_rate`` for all epochs it bounds the plain mean.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Algorithm 1 without clipping; our own (rs.momentum_masks, rs.held_steps).

    Example: by hand: half of the entries, no noise: 2 Delta / (x gamma T (2 - gamma G)); at n gamma G = 1 nearly 3 times that.
        >>> from dptheory.convergence import momentum_mask_bound
        >>> run = dict(objective_gap=1.0, learning_rate=0.001, momentum=0.0, smoothness=1.0, drop_rate=0.5)
        >>> [round(momentum_mask_bound(epochs=10**6 // n, steps_per_epoch=n, **run), 5) for n in (1, 1000)]
        [0.002, 0.00583]
    """
    objective_gap, smoothness = ranges.gap(objective_gap), ranges.positive("smoothness", smoothness)
    deviation_norm, sum_noise_std = (
        ranges.not_negative("deviation_norm", deviation_norm),
        ranges.not_negative("sum_noise_std", sum_noise_std),
    )
    momentum = _validate.real("momentum", momentum, 0.0, 1 - 1e-6)
    rest = 1 - momentum
    longest = 2 * (1 - 1e-9) * rest**2 / ((1 + momentum) * smoothness)
    learning_rate = _validate.real("learning_rate", learning_rate, 1e-70, longest)
    epochs = _validate.integer("epochs", epochs, 1, _MAX_EPOCHS)
    held = _validate.integer("steps_per_epoch", steps_per_epoch, 1, ranges.MAX_COUNT)
    dim = ranges.beside_noise("dim", dim, ranges.MAX_DIM, "sum_noise_std", sum_noise_std)
    batch_size = ranges.beside_noise("batch_size", batch_size, ranges.MAX_COUNT, "sum_noise_std", sum_noise_std)
    rates = _validate.per_step("drop_rate", drop_rate, epochs, 0.0, 1.0, ends="[)", each="epochs")
    keeps = 1 - np.atleast_1d(rates)
    share = float(keeps.mean())
    variance, largest = (
        # a fresh mask is independent of the deviations; a held one acts on them through the iterate
        (kept_share if held == 1 else 1.0) * deviation_norm**2 / batch_size
        + kept_share * dim * (sum_noise_std / batch_size) ** 2
        for kept_share in (share, float(keeps.max()))
    )
    move = learning_rate / rest * smoothness
    steps, lag, restless = epochs * held, move * momentum / rest, rest * variance
    kept = _kept_mean(move, momentum, 2 * objective_gap * (rest / learning_rate) / steps + move * variance, restless)
    height = 2 * smoothness * objective_gap + move**2 * (1 + momentum) * (steps - 1) * largest
    at_every_step = math.sqrt(height) + lag * math.sqrt(rest * (steps * kept + largest))
    over_the_run = math.sqrt(kept)
    if held > 1 and (keeps < 1).any():
        drift = move * math.sqrt(held * (held - 1) / 2) * (math.sqrt(kept) + math.sqrt(variance / held))
        over_the_run += drift + lag * math.sqrt(kept + restless)
    return min(at_every_step**2, over_the_run**2 / share)


def _kept_mean(move: float, momentum: float, fixed: float, restless: float) -> float:
    """The positive root K of (2 - g) K - 2 k sqrt(K (K + N)) = R, k = g mu / (1 - mu); R = fixed, N = restless."""
    unit = max(fixed, restless)
    if unit == 0:
        return 0.0
    fixed, restless = fixed / unit, restless / unit  # their squares neither over- nor underflow
    lag = move * momentum / (1 - momentum)
    most = 2 - move
    slack = 2 - move * (1 + momentum) / (1 - momentum)  # most - 2 lag, without its rounding
    root = math.sqrt(fixed**2 + most * fixed * restless + (lag * restless) ** 2)
    return unit * (most * fixed + 2 * lag**2 * restless + 2 * lag * root) / (slack * (most + 2 * lag))
