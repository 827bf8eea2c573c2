"""The least squared gradient of a run, in place of the mean."""

import math

from dptheory import _validate
from dptheory.convergence import _ranges as ranges
from dptheory.convergence._terms import batch_second_moment


def least_gradient_bound(
    *,
    objective_gap: float,
    learning_rate: float,
    steps: int,
    smoothness: float,
    deviation_norm: float = 0.0,
    sum_noise_std: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: float = 0.0,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> float:
    r"""Bound on min_t E|grad_t|^2 over the iterates t = 1..T of masked SGD with noise and without clipping.

    With rho and V of :func:`noisy_sgd_bound`, n = T - 1 and u = x (gamma G)^2 V / 4: the least over r in [sqrt(1 - rho), 1] of
    (G Delta + n u (1 + 1/r)) / (1/2 + n (1/2 + rho/4 - (1 - rho)/(4 r) - r/4)), and never more than 2 G Delta. Without noise
    that is G Delta / (1/2 + n (rho/4 + (1 - sqrt(1 - rho))/2)): for long runs a third below the mean at gamma = 1/G without a
    mask. For small steps it is up to 23 % below (at rho T = 1.79), and hardly below where rho T is large. The worst case without
    mask and noise for gamma G <= 1.

    Needs, and cannot check: what :func:`noisy_sgd_bound` needs. Which iterate has the least gradient the run does not tell.

    Args:
        objective_gap, steps, smoothness, deviation_norm, sum_noise_std, dim, batch_size: as for :func:`noisy_sgd_bound`.
        learning_rate: gamma in [1e-70, 2 / ((1 + b) G)).
        drop_rate: share of entries that the mask drops, in [0, 1).
        sampling, sampling_rate: as for :func:`noisy_sgd_bound`.

    Returns:
        The bound, in squared units of the gradient.

    Raises:
        ValueError: an argument outside its range.

    Source: new, on RS, Theorem 3.2; its page says whose result it is without mask and noise (rs.least_gradient).

    Example: by hand: steps of length 1 / G lower the gap by 3/4 of the squared gradient each, the last iterate by half of it.
        >>> from dptheory.convergence import least_gradient_bound, noisy_sgd_bound
        >>> run = dict(objective_gap=1.0, learning_rate=1.0, steps=3, smoothness=1.0, sampling="fixed")
        >>> least_gradient_bound(**run), round(noisy_sgd_bound(**run).value, 4)
        (0.5, 0.6667)
    """
    gap, smoothness = ranges.gap(objective_gap), ranges.positive("smoothness", smoothness)
    deviation_norm, sum_noise_std = (
        ranges.not_negative("deviation_norm", deviation_norm),
        ranges.not_negative("sum_noise_std", sum_noise_std),
    )
    more = _validate.integer("steps", steps, 1, ranges.MAX_COUNT) - 1
    dim = ranges.beside_noise("dim", dim, ranges.MAX_DIM, "sum_noise_std", sum_noise_std)
    batch_size = ranges.beside_noise("batch_size", batch_size, ranges.MAX_COUNT, "sum_noise_std", sum_noise_std)
    growth, spread = (
        batch_second_moment(
            mean_norm=norm, second_moment=1.0, batch_size=batch_size, sampling=sampling, sampling_rate=sampling_rate
        )
        for norm in (1.0, 0.0)
    )
    learning_rate = _validate.real("learning_rate", learning_rate, 1e-70, 2 / (growth * smoothness), ends="[)")
    keep, move = 1 - ranges.drop_rate(drop_rate), learning_rate * smoothness
    rho = min(1.0, keep * move * (2 - growth * move))
    left = 1 - rho
    first = 2 * smoothness * gap
    if more == 0 or gap == 0:
        return first
    kick = more * keep * move**2 * (spread * deviation_norm**2 + dim * (sum_noise_std / batch_size) ** 2) / 4
    still = smoothness * gap + kick
    slope = 1 / 2 + more * (1 / 2 + rho / 4)
    # the least of (still r + kick) / (slope r - more left / 4 - more r^2 / 4), in units of still
    noise, pull = kick / still, left + 4 * slope * (kick / still) / more
    ratio = pull / (noise + math.sqrt(noise**2 + pull)) if pull else 0.0
    ratio = min(1.0, max(math.sqrt(left), ratio))
    if rho > 0.5:
        gain = (2 + rho - (left / ratio if left else 0.0) - ratio) / 4
    else:  # the same without cancellation
        gain = (rho * (1 + 1 / ratio) - (1 - ratio) ** 2 / ratio) / 4
    return min(first, (still + (kick / ratio if kick else 0.0)) / (1 / 2 + more * gain))
