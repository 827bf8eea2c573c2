r"""Expected loss of noisy SGD with momentum on a quadratic after T steps: the noisy quadratic model, exact in two moments.

In a direction of curvature h a step is v' = mu v + a h w + n, w' = w - gamma s_t v', with w measured from the minimum, n of mean 0
and variance S, independent of the past. With u = gamma v and z = gamma a h this is u' = mu u + z w + gamma n, w' = w - s_t u'. So
E w_T^2 = A w_0^2 + gamma^2 S N, where A and N, the responses to a start and to unit noise, depend on z, mu, the schedule and T alone.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.convergence import _ranges as ranges
from dptheory.errors import ArgumentError

Schedule = Literal["constant", "linear", "cosine"]
Responses = tuple[Array, Array]
"""The mean of the weights from a unit start, and their variance under unit noise."""

MAX_STEPS = 10**7
_MAX_SIZE = 10**8  # runs times directions
_BLOCK = 4096  # pairs (z, mu) followed at once, which a cache holds
_SMALLEST_RATE, _LARGEST_RATE, _MOST_ALIKE = 1e-35, 1e35, 1e18

SCHEDULES: Mapping[str, Callable[[ArrayLike], Array]] = MappingProxyType(
    {
        "constant": lambda done: np.ones_like(done, dtype=float),
        "linear": lambda done: 1 - np.asarray(done),
        "cosine": lambda done: (1 + np.cos(math.pi * np.asarray(done))) / 2,
    }
)
"""Learning rate over the first one, when a share of the steps, in [0, 1), is done; by the schedule's name."""


def noisy_quadratic_loss(
    curvature: ArrayLike,
    *,
    gradient_energy: ArrayLike,
    learning_rate: ArrayLike,
    steps: ArrayLike,
    momentum: ArrayLike = 0.0,
    variance: ArrayLike = 0.0,
    noise_std: ArrayLike = 0.0,
    slope: ArrayLike = 1.0,
    multiplicities: ArrayLike = 1.0,
    schedule: Schedule = "constant",
    average: float = 0.0,
) -> Array:
    r"""Expected loss above the minimum after T noisy steps with momentum on a quadratic, for many runs at once.

    On the quadratic with curvatures h_i: v_{t+1} = mu v_t + a_i h_i w_t + n_t, w_{t+1} = w_t - gamma s_t v_{t+1}, v_0 = 0 (momentum
    as in PyTorch), noise n_t independent of the past, of mean 0 and variance S_i = variance + noise_std^2 in each coordinate. The
    result is E sum_i h_i w_i^2 / 2 of the last weights, or of an average of the last ones. Nothing is approximated.

    Runs are described by ``learning_rate``, ``steps``, ``momentum`` and ``noise_std``, whose shapes are broadcast to a shape R.
    Time grows with the number of runs that differ in T and in gamma a h; where the rate is constant with log T, else with T.

    Args:
        curvature: eigenvalues h of the Hessian, each 0 or in [1e-70, 1e70], shape (k,).
        gradient_energy: squared norm of the gradient at the start, in the directions of each curvature together; in [0, 1e140], 0
            where the curvature is 0 (there is no minimum otherwise); shape (k,) or a number for all.
        learning_rate: gamma of the first step, in [1e-35, 1e35].
        steps: T, integers 1..1e7.
        momentum: mu in [0, 1).
        variance: variance of one coordinate of a step's mean gradient that the drawing of the batch causes, in [0, 1e140]; its shape
            is broadcast to (*R, k).
        noise_std: standard deviation of the private noise on one coordinate of the mean gradient (sigma C / B), 0 or in
            [1e-70, 1e70].
        slope: mean clipped gradient over the true one, a, 0 or in [1e-70, 1e70] (in [0, 1] where clipping only shortens); its shape
            is broadcast to (*R, k).
        multiplicities: how many eigenvalues each curvature stands for, in [0, 1e18], estimates that are no whole numbers too; shape
            (k,) or a number for all.
        schedule: "constant"; "linear", s_t = 1 - t / T; "cosine", s_t = (1 + cos(pi t / T)) / 2, t = 0..T-1.
        average: share of the steps, in [0, 1], whose weights are averaged: those of the last round(average T), but at least of one.

    Returns:
        The expected losses, in units of the loss, shape R; inf where a moment passes 1e308 on the way (the run diverges).

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: our own result, on RF, section 3.4 (rf.noisy_quadratic).

    Example: by hand: the first step takes half of the weight, and the second half of the rest and of the noise.
        >>> from dptheory.convergence import noisy_quadratic_loss
        >>> run = {"gradient_energy": [1.0], "learning_rate": 0.5, "noise_std": [0.0, 1.0]}
        >>> noisy_quadratic_loss([1.0], steps=2, **run)  # (1/4)^2 / 2, and 1/2 (1/4 + 1/4 * 1/4) more
        array([0.03125, 0.1875 ])
        >>> noisy_quadratic_loss([1.0], steps=10_000, schedule="linear", **run).round(6)
        array([0.      , 0.001571])
    """
    spectrum = _spectrum(curvature, gradient_energy, multiplicities)
    runs = _runs(learning_rate, steps, momentum, noise_std, variance, slope, spectrum.curvature.size)
    _validate.choice("schedule", schedule, tuple(SCHEDULES))
    average = _validate.real("average", average, 0.0, 1.0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # what is not a number became too large before
        z = runs.learning_rate * runs.slope * spectrum.curvature
        mean, noise = _responses(z, runs.momentum, runs.steps, schedule, average)
        kicks = 0.5 * spectrum.curvature * spectrum.multiplicities * runs.learning_rate**2 * runs.variance
        left = _times(spectrum.start_loss, mean**2) + _times(kicks, noise)
        found: Array = left.sum(axis=-1)
    return found


@dataclass(frozen=True)
class _Spectrum:
    curvature: Array
    multiplicities: Array
    start_loss: Array


@dataclass(frozen=True)
class _Runs:
    """Each of shape (*R, 1) or (*R, k)."""

    learning_rate: Array
    steps: NDArray[np.int64]
    momentum: Array
    variance: Array
    slope: Array


def _spectrum(curvature: ArrayLike, gradient_energy: ArrayLike, multiplicities: ArrayLike) -> _Spectrum:
    h = _validate.scale("curvature", curvature)
    if h.ndim != 1 or not h.size:
        raise ArgumentError("curvature", "have shape (k,) with k at least 1", curvature, got=f"shape {h.shape}")
    energy = _of_shape("gradient_energy", _within("gradient_energy", gradient_energy, 1e140), h.shape)
    if (energy[h == 0] > 0).any():
        raise ArgumentError("gradient_energy", "be 0 where curvature is 0", gradient_energy)
    alike = _of_shape("multiplicities", _within("multiplicities", multiplicities, _MOST_ALIKE), h.shape)
    return _Spectrum(h, alike, np.divide(energy, 2 * h, out=np.zeros(h.shape), where=h > 0))


def _runs(
    learning_rate: ArrayLike,
    steps: ArrayLike,
    momentum: ArrayLike,
    noise_std: ArrayLike,
    variance: ArrayLike,
    slope: ArrayLike,
    directions: int,
) -> _Runs:
    own = {
        "learning_rate": _between("learning_rate", learning_rate, _SMALLEST_RATE, _LARGEST_RATE),
        "steps": _whole("steps", steps),
        "momentum": _between("momentum", momentum, 0.0, 1.0, ends="[)"),
        "noise_std": _validate.scale("noise_std", noise_std),
    }
    for name, array, given in zip(own, own.values(), (learning_rate, steps, momentum, noise_std), strict=True):
        if not array.size:
            raise ArgumentError(name, "hold at least one number", given)
    _validate.broadcast(**own)
    shape = (*np.broadcast_shapes(*(array.shape for array in own.values())), directions)
    if math.prod(shape) > _MAX_SIZE:
        raise ArgumentError(
            "learning_rate",
            f"make at most {_MAX_SIZE} runs times curvatures, with steps, momentum and noise_std",
            learning_rate,
            got=f"shape {shape}",
        )
    rate, count, mu, noise = (array[..., None] for array in own.values())
    variances = _fitting("variance", _within("variance", variance, 1e140), shape)
    slopes = _fitting("slope", _validate.scale("slope", slope), shape)
    return _Runs(rate, count.astype(np.int64), mu, variances + noise**2, slopes)


def _responses(z: Array, momentum: Array, steps: NDArray[np.int64], schedule: str, average: float) -> Responses:
    """Both responses in the shape of all arguments together, each different triple computed once."""
    shape = np.broadcast_shapes(z.shape, momentum.shape, steps.shape)
    pairs, counts = np.broadcast_to(z + 1j * momentum, shape).ravel(), np.broadcast_to(steps, shape).ravel()
    mean, noise = np.empty(pairs.size), np.empty(pairs.size)
    for count in np.unique(counts):
        chosen = np.flatnonzero(counts == count)
        different, place = np.unique(pairs[chosen], return_inverse=True)
        found = [
            _response(block.real, block.imag, int(count), schedule, _averaged(average, int(count)))
            for block in (different[i : i + _BLOCK] for i in range(0, different.size, _BLOCK))
        ]
        mean[chosen] = np.concatenate([one for one, _ in found])[place]
        noise[chosen] = np.concatenate([other for _, other in found])[place]
    return mean.reshape(shape), noise.reshape(shape)


def _averaged(average: float, steps: int) -> int:
    """How many of the last weights are averaged."""
    return max(1, round(average * steps))


def _response(z: Array, momentum: Array, steps: int, schedule: str, averaged: int) -> Responses:
    """What is not a number passed the range of doubles before: infinite."""
    if schedule == "constant":
        mean, noise = _at_constant_rate(z, momentum, steps, averaged)
    else:
        mean, noise = _step_by_step(z, momentum, SCHEDULES[schedule](np.arange(steps) / steps), averaged)
    return np.where(np.isnan(mean), np.inf, mean), np.where(np.isnan(noise), np.inf, np.maximum(noise, 0.0))


def _at_constant_rate(z: Array, momentum: Array, steps: int, averaged: int) -> Responses:
    """By doubling: a stretch of steps is a matrix on (w, u, sum of w) and the covariance that its noise adds."""
    zero, one = np.zeros_like(z), np.ones_like(z)
    alone = np.array([[1 - z, -momentum, zero], [z, momentum, zero], [zero, zero, one]])
    summed = np.array([[1 - z, -momentum, zero], [z, momentum, zero], [1 - z, -momentum, one]])
    before = _stretch(alone, np.array([-1.0, 1.0, 0.0]), steps - averaged)
    moved, spread = _joined(before, _stretch(summed, np.array([-1.0, 1.0, -1.0]), averaged))
    return moved[2, 0] / averaged, spread[2, 2] / averaged**2


def _stretch(step: Array, kick: Array, count: int) -> tuple[Array, Array]:
    """Matrix and covariance of ``count`` alike steps."""
    done = np.broadcast_to(np.eye(3)[..., None], step.shape), np.zeros(step.shape)
    doubled = step, np.broadcast_to(np.outer(kick, kick)[..., None], step.shape)
    while count:
        if count % 2:
            done = _joined(done, doubled)
        count //= 2
        if count:
            doubled = _joined(doubled, doubled)
    return done


def _joined(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """One stretch of steps, then another."""
    (early, spread), (late, more) = first, second
    carried = np.einsum("ijz,jkz->ikz", late, spread)
    return np.einsum("ijz,jkz->ikz", late, early), np.einsum("ijz,kjz->ikz", carried, late) + more


def _step_by_step(z: Array, momentum: Array, rates: Array, averaged: int) -> Responses:
    """Backwards: what the average gains per unit of w_t and of u_t, hence per unit of each step's noise."""
    of_w, of_u, noise = np.zeros_like(z), np.zeros_like(z), np.zeros_like(z)
    first = rates.size - averaged
    for t in range(rates.size - 1, -1, -1):
        if t >= first:
            of_w = of_w + 1 / averaged  # w_{t+1} is in the average
        of_noise = of_u - rates[t] * of_w
        noise += of_noise**2
        of_w, of_u = of_w + z * of_noise, momentum * of_noise
    return of_w, noise


def _times(size: Array, response: Array) -> Array:
    """The product; 0 where the size is 0, also times infinity."""
    return np.multiply(size, response, out=np.zeros(np.broadcast_shapes(size.shape, response.shape)), where=size > 0)


def _within(name: str, value: ArrayLike, high: float) -> Array:
    return _between(name, value, 0.0, high)


def _between(name: str, value: ArrayLike, low: float, high: float, *, ends: str = "[]") -> Array:
    array = _validate.finite(name, value)
    below = array <= high if ends[1] == "]" else array < high
    if not ((array >= low) & below).all():
        raise ArgumentError(name, f"hold numbers in [{low:g}, {high:g}{ends[1]}", value)
    return array


def _whole(name: str, value: ArrayLike) -> Array:
    array = _validate.finite(name, value)
    if np.asarray(value).dtype.kind not in "iu" or not ((array >= 1) & (array <= MAX_STEPS)).all():
        raise ArgumentError(name, f"hold integers in 1..{MAX_STEPS}", value)
    return array


def _of_shape(name: str, value: Array, shape: tuple[int, ...]) -> Array:
    if value.shape not in ((), shape):
        raise ArgumentError(name, f"be a number or have shape {shape}", value, got=f"shape {value.shape}")
    return np.broadcast_to(value, shape)


def _fitting(name: str, value: Array, shape: tuple[int, ...]) -> Array:
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise ArgumentError(
            name, f"have a shape that broadcasts to {shape}", value, got=f"shape {value.shape}"
        ) from None


# --- First two moments of the weights after T steps on a quadratic with Poisson batches, momentum and noise: exact


_LARGEST_VALUE = 1e35


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

    Source: our own result, on RF, section 3.4 (rf.poisson_quadratic).

    Example: by hand: a batch of mean size 1 that is empty or doubles as often as it fits: (1 - 1/2)^2 + (1/2)^2 after one step.
        >>> from dptheory.convergence import poisson_quadratic_moments
        >>> poisson_quadratic_moments(1.0, start=1.0, learning_rate=0.5, steps=1, batch_size=1)
        array([0.5, 0.5])
    """
    h = _validate.real("curvature", curvature, 0.0, _LARGEST_VALUE)
    start = _validate.real("start", start, -_LARGEST_VALUE, _LARGEST_VALUE)
    gamma = _validate.real("learning_rate", learning_rate, 1 / _LARGEST_VALUE, _LARGEST_VALUE)
    steps = _validate.integer("steps", steps, 0, 10**7)
    batch_size = _validate.integer("batch_size", batch_size, 1, ranges.MAX_COUNT)
    mu = _validate.real("momentum", momentum, 0.0, 1.0, ends="[)")
    rate = 0.0 if sampling_rate is None else _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    least = h**2
    squared = least if curvature_square is None else _validate.real("curvature_square", curvature_square, least, 1e70)
    offset = _validate.real("offset_square", offset_square, 0.0, 1e70)
    cross = _validate.real("curvature_offset", curvature_offset, -1e70, 1e70)
    noise = _validate.real("noise_std", noise_std, 0.0, _LARGEST_VALUE)
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


# --- Exact second moments of masked SGD on a quadratic, to hold bounds against


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
