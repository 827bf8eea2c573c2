r"""Exact second moments of masked SGD on a quadratic, to hold bounds against.

L(w) = sum_j lambda_j w_j^2 / 2; a step is w <- w - gamma m * (lambda * w + zeta) with zeta of mean zero, independent of the past,
variance V_j in entry j. The mask m keeps each entry with probability x = 1 - rate.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptheory import _validate

Array = NDArray[np.float64]


def fresh_mask_moments(
    curvature: ArrayLike, start: ArrayLike, steps: int, learning_rate: float, rate: float, variance: ArrayLike = 0.0
) -> Array:
    r"""E w_{t,j}^2 for t = 0..T when the mask is drawn afresh at every step.

    E w_j^2 <- E w_j^2 [1 - x (2 gamma lambda_j - gamma^2 lambda_j^2)] + x gamma^2 V_j.

    Args:
        curvature: lambda, finite, shape (d,) or a number for all entries.
        start: w_0, finite, shape (d,).
        steps: T >= 0.
        learning_rate: gamma > 0.
        rate: share of entries that the mask drops, in [0, 1].
        variance: V >= 0, shape (d,) or a number for all entries.

    Returns:
        Array of shape (T + 1, d).

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: RS, the algorithm of Theorem 3.2 on a quadratic (rs.thm3.2).
    """
    steps = _validate.integer("steps", steps, 0)
    return epoch_mask_moments(curvature, start, steps, 1, learning_rate, rate, variance)


def epoch_mask_moments(
    curvature: ArrayLike,
    start: ArrayLike,
    epochs: int,
    steps_per_epoch: int,
    learning_rate: float,
    rate: float,
    variance: ArrayLike = 0.0,
) -> Array:
    r"""E w_{t,j}^2 for t = 0..epochs * steps_per_epoch when the mask is drawn once an epoch and held through it.

    n steps into an epoch that began with second moment e_j: x a_j(n) + (1 - x) e_j, where a_j follows the unmasked
    a_j <- (1 - gamma lambda_j)^2 a_j + gamma^2 V_j from a_j(0) = e_j.

    Args:
        curvature, start, learning_rate, rate, variance: as :func:`fresh_mask_moments`.
        epochs: >= 0.
        steps_per_epoch: >= 1.

    Returns:
        Array of shape (epochs * steps_per_epoch + 1, d).

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: RS, the algorithm of Theorem 3.2 with a mask held through an epoch, as Algorithm 1 does (rs.thm3.2).
    """
    start = _validate.finite("start", start)
    if start.ndim != 1:
        raise ValueError(f"start must have shape (d,), got shape {start.shape}")
    curvature = _of_shape("curvature", _validate.finite("curvature", curvature), start.shape)
    variance = _of_shape("variance", _validate.nonnegative("variance", variance), start.shape)
    epochs = _validate.integer("epochs", epochs, 0)
    steps_per_epoch = _validate.integer("steps_per_epoch", steps_per_epoch, 1)
    learning_rate = _validate.real("learning_rate", learning_rate, 0.0, ends="()")
    keep = 1 - _validate.real("rate", rate, 0.0, 1.0)
    shrink, gain = (1 - learning_rate * curvature) ** 2, learning_rate**2 * variance
    moments = np.empty((epochs * steps_per_epoch + 1, start.size))
    moments[0] = start**2
    for epoch in range(epochs):
        first = epoch * steps_per_epoch
        active = moments[first]
        for step in range(first + 1, first + steps_per_epoch + 1):
            active = shrink * active + gain
            moments[step] = keep * active + (1 - keep) * moments[first]
    return moments


def _of_shape(name: str, value: Array, shape: tuple[int, ...]) -> Array:
    if value.shape not in ((), shape):
        raise ValueError(f"{name} must be a number or have shape {shape}, got shape {value.shape}")
    return np.broadcast_to(value, shape)
