r"""Exact second moments of masked SGD on a quadratic, to hold bounds against.

L(w) = sum_j lambda_j w_j^2 / 2; a step is w <- w - gamma m * (lambda * w + zeta) with zeta of mean zero, independent of the past,
variance V_j in entry j. The mask m keeps each entry with probability x = 1 - rate.
"""

import numpy as np
from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.errors import ArgumentError

_MAX_ENTRIES = 10**8  # of the array of moments
_LARGEST = 1e70


def fresh_mask_moments(
    curvature: ArrayLike,
    *,
    start: ArrayLike,
    steps: int,
    learning_rate: float,
    drop_rate: float,
    variance: ArrayLike = 0.0,
) -> Array:
    r"""E w_{t,j}^2 for t = 0..T when the mask is drawn afresh at every step.

    E w_j^2 <- E w_j^2 [1 - x (2 gamma lambda_j - gamma^2 lambda_j^2)] + x gamma^2 V_j.

    Args:
        curvature: lambda, of size at most 1e70, shape (d,) or a number for all entries.
        start: w_0, of size at most 1e70, shape (d,).
        steps: T >= 0; (T + 1) d at most 1e8.
        learning_rate: gamma in [1e-70, 1e70].
        drop_rate: share of entries that the mask drops, in [0, 1].
        variance: V in [0, 1e140], shape (d,) or a number for all entries.

    Returns:
        Array of shape (T + 1, d).

    Raises:
        ValueError: an argument outside its range, shapes that do not match, or moments that grow beyond 1e300.

    Source: RS, the algorithm of Theorem 3.2 on a quadratic (rs.thm3.2); RF, section 3.2 (rf.averaged_out).

    Example: by hand: a step quarters the square of half the entries, so that 1/2 + 1/8 of it is left.
        >>> from dptheory.convergence import fresh_mask_moments
        >>> fresh_mask_moments(1.0, start=[1.0], steps=2, learning_rate=0.5, drop_rate=0.5).ravel().round(3)
        array([1.   , 0.625, 0.391])
    """
    start = _vector(start)
    steps = _validate.integer("steps", steps, 0, _MAX_ENTRIES // max(start.size, 1) - 1)
    return epoch_mask_moments(
        curvature,
        start=start,
        epochs=steps,
        steps_per_epoch=1,
        learning_rate=learning_rate,
        drop_rate=drop_rate,
        variance=variance,
    )


def epoch_mask_moments(
    curvature: ArrayLike,
    *,
    start: ArrayLike,
    epochs: int,
    steps_per_epoch: int,
    learning_rate: float,
    drop_rate: float,
    variance: ArrayLike = 0.0,
) -> Array:
    r"""E w_{t,j}^2 for t = 0..epochs * steps_per_epoch when the mask is drawn once an epoch and held through it.

    n steps into an epoch that began with second moment e_j: x a_j(n) + (1 - x) e_j, where a_j follows the unmasked
    a_j <- (1 - gamma lambda_j)^2 a_j + gamma^2 V_j from a_j(0) = e_j.

    Args:
        curvature, start, learning_rate, drop_rate, variance: as :func:`fresh_mask_moments`.
        epochs: >= 0; (epochs * steps_per_epoch + 1) d at most 1e8.
        steps_per_epoch: 1..1e8.

    Returns:
        Array of shape (epochs * steps_per_epoch + 1, d).

    Raises:
        ValueError: an argument outside its range, shapes that do not match, or moments that grow beyond 1e300.

    Source: RS, the algorithm of Theorem 3.2 with a mask held through an epoch, as Algorithm 1 does (rs.thm3.2); RF, section 3.2
    (rf.averaged_out).

    Example: half the entries stand still for both steps: 0.5 + 0.5 / 16, more than the 0.39 of a fresh mask.
        >>> from dptheory.convergence import epoch_mask_moments
        >>> moments = epoch_mask_moments(1.0, start=[1.0], epochs=1, steps_per_epoch=2, learning_rate=0.5, drop_rate=0.5)
        >>> moments.ravel().round(3)
        array([1.   , 0.625, 0.531])
    """
    start = _vector(start)
    curvature = _of_shape("curvature", _sized("curvature", curvature, _LARGEST), start.shape)
    variance = _of_shape("variance", _validate.nonnegative("variance", variance), start.shape)
    _sized("variance", variance, _LARGEST**2)
    most = _MAX_ENTRIES // max(start.size, 1) - 1
    steps_per_epoch = _validate.integer("steps_per_epoch", steps_per_epoch, 1, _MAX_ENTRIES)
    epochs = _validate.integer("epochs", epochs, 0, most // steps_per_epoch)
    learning_rate = _validate.size("learning_rate", learning_rate)
    keep = 1 - _validate.real("drop_rate", drop_rate, 0.0, 1.0)
    if keep == 0.0:  # nothing moves, whatever a step would make of it
        return np.tile(start**2, (epochs * steps_per_epoch + 1, 1))
    shrink, gain = (1 - learning_rate * curvature) ** 2, learning_rate**2 * variance
    moments = np.empty((epochs * steps_per_epoch + 1, start.size))
    moments[0] = start**2
    with np.errstate(over="ignore", invalid="ignore"):  # looked at below
        for epoch in range(epochs):
            first = epoch * steps_per_epoch
            active = moments[first]
            for step in range(first + 1, first + steps_per_epoch + 1):
                active = shrink * active + gain
                moments[step] = keep * active + (1 - keep) * moments[first]
    if not (moments <= 1e300).all():
        raise ArgumentError("learning_rate", "keep the moments below 1e300 over all steps", learning_rate)
    return moments


def _vector(start: ArrayLike) -> Array:
    vector = _sized("start", start, _LARGEST)
    if vector.ndim != 1 or vector.size > _MAX_ENTRIES:
        raise ArgumentError(
            "start", f"have shape (d,) with d at most {_MAX_ENTRIES}", start, got=f"shape {vector.shape}"
        )
    return vector


def _sized(name: str, value: ArrayLike, largest: float) -> Array:
    array = _validate.finite(name, value)
    if (np.abs(array) > largest).any():
        raise ArgumentError(name, f"hold numbers of size at most {largest:g}", value)
    return array


def _of_shape(name: str, value: Array, shape: tuple[int, ...]) -> Array:
    if value.shape not in ((), shape):
        raise ArgumentError(name, f"be a number or have shape {shape}", value, got=f"shape {value.shape}")
    return np.broadcast_to(value, shape)
