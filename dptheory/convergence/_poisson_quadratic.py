r"""First two moments of the weights after T steps on a quadratic with Poisson batches, momentum and noise: exact.

In one direction record i has the gradient h_i w - c_i, its minimum's mean at w = 0. A batch over qN has, given w, the mean h w and
the variance ((1 - q) / B) mean (h_i w - c_i)^2: it changes with w, also where all h_i are equal, because the batch's size is drawn.
"""

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.convergence import _ranges as ranges

_LARGEST = 1e35


def poisson_quadratic_moments(
    curvature: float,
    *,
    start: float,
    learning_rate: float,
    steps: int,
    batch_size: int,
    momentum: float = 0.0,
    sampling_rate: float | None = None,
    curvature_square: float | None = None,
    offset_square: float = 0.0,
    curvature_offset: float = 0.0,
    noise_std: float = 0.0,
) -> Array:
    r"""E w_T and E w_T^2 in one direction of a quadratic, from Poisson batches over qN, with momentum and noise.

    v_{t+1} = mu v_t + (1/B) sum_{i in batch} (h_i w_t - c_i) + n_t, w_{t+1} = w_t - gamma v_{t+1}, v_0 = 0, mean c_i = 0. Nothing is
    approximated: the moments (1, w, v, w^2, w v, v^2) go through a matrix. No clipping; how far clipping can carry the weights from
    this is on the page of rf.poisson_quadratic.

    Args:
        curvature: h, mean of the h_i, in [0, 1e35].
        start: w_0, of size at most 1e35.
        learning_rate: gamma in [1e-35, 1e35].
        steps: T, 0..1e7.
        batch_size: B = qN, 1..1e12.
        momentum: mu in [0, 1).
        sampling_rate: q in [0, 1]; None takes 0.
        curvature_square: mean of h_i^2, in [h^2, 1e70]; None takes h^2, curvatures that are all equal.
        offset_square: mean of c_i^2, in [0, 1e70].
        curvature_offset: mean of h_i c_i, of size at most 1e70.
        noise_std: standard deviation of n_t, in [0, 1e35].

    Returns:
        E w_T and E w_T^2; inf where the second passes 1e308 on the way.

    Raises:
        ValueError: an argument outside its range.

    Source: our own result, on RF, section 3.4 (rf.poisson_quadratic).

    Example: by hand: a batch of mean size 1 that is empty or doubles as often as it fits: (1 - 1/2)^2 + (1/2)^2 after one step.
        >>> from dptheory.convergence import poisson_quadratic_moments
        >>> poisson_quadratic_moments(1.0, start=1.0, learning_rate=0.5, steps=1, batch_size=1)
        array([0.5, 0.5])
    """
    h = _validate.real("curvature", curvature, 0.0, _LARGEST)
    start = _validate.real("start", start, -_LARGEST, _LARGEST)
    gamma = _validate.real("learning_rate", learning_rate, 1 / _LARGEST, _LARGEST)
    steps = _validate.integer("steps", steps, 0, 10**7)
    batch_size = _validate.integer("batch_size", batch_size, 1, ranges.MAX_COUNT)
    mu = _validate.real("momentum", momentum, 0.0, 1.0, ends="[)")
    rate = 0.0 if sampling_rate is None else _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    least = h**2
    squared = least if curvature_square is None else _validate.real("curvature_square", curvature_square, least, 1e70)
    offset = _validate.real("offset_square", offset_square, 0.0, 1e70)
    cross = _validate.real("curvature_offset", curvature_offset, -1e70, 1e70)
    noise = _validate.real("noise_std", noise_std, 0.0, _LARGEST)
    spread = (1 - rate) / batch_size
    # rows of (1, w, u, w^2, w u, u^2), u = gamma v
    pushed = np.array([0.0, gamma * h, mu, 0.0, 0.0, 0.0])
    crossed = np.array([0.0, 0.0, 0.0, gamma * h, mu, 0.0])
    squares = np.array(
        [
            gamma**2 * (spread * offset + noise**2),
            -2 * gamma**2 * spread * cross,
            0.0,
            gamma**2 * (h**2 + spread * squared),
            2 * mu * gamma * h,
            mu**2,
        ]
    )
    unit = np.eye(6)
    step = np.array(
        [unit[0], unit[1] - pushed, pushed, unit[3] - 2 * crossed + squares, crossed - squares, squares]
    )  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.linalg.matrix_power(step, steps) @ np.array([1.0, start, 0.0, start**2, 0.0, 0.0])
        moments: Array = found[[1, 3]]
    return np.where(np.isnan(moments), np.inf, moments) if not np.isfinite(moments[1]) else moments
