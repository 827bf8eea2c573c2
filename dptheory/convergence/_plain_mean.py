"""The descent bound for the plain mean where step sizes and masks change."""

from numpy.typing import ArrayLike

from dptheory.convergence._held_masks import held_epochs
from dptheory.convergence._terms import DescentBound

_MAX_EPOCHS = 10**6  # they are gone through one by one


def plain_mean_bound(
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
    r"""Bound on the plain mean (1/E) sum_e E|grad_e|^2 over the first iterates of E epochs that hold one mask for n steps.

    With rho_e as in :func:`held_mask_bound` and q_e = q_{e+1} + max(0, 1 - rho_e q_{e+1}), q_{E+1} = 0, the bound is
    (2 G Delta q_1 + n sum_e (gamma_e G)^2 (y_e s^2 / B + x_e d sigma^2 / B^2) q_{e+1}) / E, y_e = x_e for n = 1 and 1 for n > 1.

    Where rho_e never falls (a mask that is relaxed at a fixed step size) it is the worst case for n = 1, and without deviation
    and noise for gamma_e G <= 1. Where rho_e falls (gradual cooling, a decaying step) early epochs can count for nothing, as if
    the run had begun later: a function can save its gap for the epochs that use little of it. For n > 1 the least deviation or
    noise lifts it, as it does :func:`held_mask_bound`.

    Needs, and cannot check: what :func:`held_mask_bound` needs.

    Args:
        objective_gap: Delta in [0, 1e140].
        learning_rate: gamma_e in [1e-70, 2 / G), a number or shape (epochs,).
        epochs: E, 1..1e6; with fresh masks the number of steps.
        steps_per_epoch: n, 1..1e12; 1 for fresh masks.
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

    Source: RS and RF, gradual cooling, without clipping and momentum; our own (rs.cooled_masks).

    Example: 1000 fresh masks: from none to 90 % dropped, the other way round, and 90 % all the time.
        >>> import numpy as np
        >>> from dptheory.convergence import plain_mean_bound
        >>> run = dict(objective_gap=1.0, learning_rate=0.1, epochs=1000, steps_per_epoch=1, smoothness=1.0)
        >>> cooling = np.linspace(0.0, 0.9, 1000)
        >>> [round(plain_mean_bound(drop_rate=rate, **run).value, 3) for rate in (cooling, cooling[::-1], 0.9)]
        [0.062, 0.081, 0.105]
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
    counted = [0.0]  # q_e from the last epoch on: what a gap at the start of epoch e can add to the sum, over 2 G
    for descent in run.descents[::-1].tolist():
        counted.append(counted[-1] + max(0.0, 1 - descent * counted[-1]))
    kicks = run.steps_per_epoch * run.moves**2 * counted[-2::-1]
    reached = run.keeps if run.steps_per_epoch == 1 else 1.0  # a held mask acts on the deviations through the iterate
    return DescentBound(
        optimization=run.gap * counted[-1] / len(run.descents),
        clipping=float((kicks * reached).mean()) * run.sampled,
        noise=float((kicks * run.keeps).mean()) * run.noise,
        bias=0.0,
    )
