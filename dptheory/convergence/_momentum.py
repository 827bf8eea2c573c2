"""What momentum does to independent noise: the velocity, the parameters after T steps, Adam, and a quadratic at rest.

Notation: mu = momentum, s = noise_std, the standard deviation of one coordinate of one step's noise (C sigma for a sum of
clipped gradients, C sigma / B for their average), v_{t+1} = mu v_t + noise_t, w_{t+1} = w_t - learning_rate v_{t+1}, v_0 = 0.
"""

import math

from dptheory import _validate

_MAX_STEPS = 10**12
_LARGEST = 1e70


def velocity_variance(*, noise_std: float, momentum: float, steps: float = math.inf) -> float:
    r"""Variance of one coordinate of the noise in the velocity after ``steps`` steps, s^2 (1 - mu^{2t}) / (1 - mu^2).

    Args:
        noise_std: standard deviation s of one step's noise, 0 or in [1e-70, 1e70].
        momentum: mu in [0, 1).
        steps: t, an integer 0..1e12, or inf for the stationary value s^2 / (1 - mu^2).

    Returns:
        The variance, in squared units of the gradient.

    Source: RF, section 3.4 and RS, Appendix H, equations 117 and 118, corrected (rf.momentum, rs.appH).

    Example: by hand: 1 / (1 - 0.81), more than five times the noise of a step.
        >>> from dptheory.convergence import velocity_variance
        >>> round(velocity_variance(noise_std=1.0, momentum=0.9), 4)
        5.2632
    """
    noise_std = _noise(noise_std)
    momentum = _momentum(momentum)
    return noise_std**2 * _one_minus_power(momentum, 2 * _steps(steps)) / ((1 - momentum) * (1 + momentum))


def adam_velocity_variance(*, noise_std: float, momentum: float, steps: float = math.inf) -> float:
    r"""Variance of one coordinate of the noise in v_{t+1} = mu v_t + (1 - mu) noise_t, s^2 (1 - mu) (1 - mu^{2t}) / (1 + mu).

    Args:
        noise_std, momentum, steps: as for :func:`velocity_variance`.

    Returns:
        The variance, in squared units of the gradient.

    Source: RS, Appendix H, equations 119 and 121 to 123, corrected (rs.appH).

    Example: by hand: (1 - 0.9) / (1 + 0.9), 100 times less than the velocity without the factor 1 - mu.
        >>> from dptheory.convergence import adam_velocity_variance
        >>> round(adam_velocity_variance(noise_std=1.0, momentum=0.9), 4)
        0.0526
    """
    return (1 - _momentum(momentum)) ** 2 * velocity_variance(noise_std=noise_std, momentum=momentum, steps=steps)


def adam_corrected_variance(*, noise_std: float, momentum: float, steps: float = math.inf) -> float:
    r"""The same after Adam's bias correction v_t / (1 - mu^t): s^2 (1 - mu) (1 + mu^t) / ((1 + mu) (1 - mu^t)).

    Args:
        noise_std, momentum, steps: as for :func:`velocity_variance`, but ``steps`` >= 1 (the correction divides by 0 before).

    Returns:
        The variance, in squared units of the gradient.

    Source: RS, Appendix H, equation 120, corrected (rs.appH).

    Example: after one step the corrected velocity is the noise itself; in the long run it is averaged to 1 / 19.
        >>> import math
        >>> from dptheory.convergence import adam_corrected_variance
        >>> [round(adam_corrected_variance(noise_std=1.0, momentum=0.9, steps=steps), 4) for steps in (1, math.inf)]
        [1.0, 0.0526]
    """
    noise_std = _noise(noise_std)
    momentum = _momentum(momentum)
    steps = _steps(steps, 1)
    share = _one_minus_power(momentum, steps)
    return noise_std**2 * (1 - momentum) / (1 + momentum) * (2 - share) / share


def displacement_mean(*, learning_rate: float, force: float, momentum: float, steps: int) -> float:
    r"""How far a constant gradient moves a parameter in ``steps`` steps from rest, with momentum.

    .. math:: \frac{\gamma f}{1-\mu}\Big[T - \frac{\mu(1-\mu^T)}{1-\mu}\Big]

    Args:
        learning_rate: gamma, in [1e-35, 1e35].
        force: the constant gradient f, of size at most 1e70; the move is against it, and its size is returned with the sign of f.
        momentum: mu in [0, 1).
        steps: T, an integer 0..1e12.

    Returns:
        The distance, in units of the parameter, with the sign of ``force``.

    Source: RF, section 3.4, the scaling rule (rf.scaling).

    Example: momentum 0.9 moves ten times as far, less the 9 steps that it takes to gain speed.
        >>> from dptheory.convergence import displacement_mean
        >>> [round(displacement_mean(learning_rate=0.1, force=1.0, momentum=mu, steps=1000), 6) for mu in (0.0, 0.9)]
        [100.0, 991.0]
    """
    learning_rate = _learning_rate(learning_rate)
    force = _signed("force", force)
    return learning_rate * force * _weight_sums(_momentum(momentum), steps)[0]


def displacement_variance(*, learning_rate: float, noise_std: float, momentum: float, steps: int) -> float:
    r"""Variance of one coordinate of w_T - w_0 that the noise of ``steps`` steps causes, with momentum from rest.

    .. math:: \frac{\gamma^2s^2}{(1-\mu)^2}\Big[T - \frac{2\mu(1-\mu^T)}{1-\mu} + \frac{\mu^2(1-\mu^{2T})}{1-\mu^2}\Big]

    It is evaluated as a sum of positive terms (by doubling T), so nothing cancels when T (1 - mu) is small.

    Args:
        learning_rate: gamma, in [1e-35, 1e35].
        noise_std: standard deviation s of one step's noise, 0 or in [1e-70, 1e70].
        momentum: mu in [0, 1).
        steps: T, an integer 0..1e12.

    Returns:
        The variance, in squared units of the parameter.

    Source: RF, section 3.4 and RS, Appendix H, corrected (rf.momentum, rs.appH, rf.scaling).

    Example: momentum 0.9 makes the noise of 1000 steps almost 100 times as large, as a learning rate 10 times as large would.
        >>> from dptheory.convergence import displacement_variance
        >>> [round(displacement_variance(learning_rate=0.1, noise_std=1.0, momentum=mu, steps=1000), 2) for mu in (0.0, 0.9)]
        [10.0, 986.26]
    """
    learning_rate = _learning_rate(learning_rate)
    return (learning_rate * _noise(noise_std)) ** 2 * _weight_sums(_momentum(momentum), steps)[1]


def coasting_distance(*, learning_rate: float, velocity: float, momentum: float, steps: int) -> float:
    r"""How far a frozen parameter still moves in ``steps`` steps on the velocity left over, gamma v mu (1 - mu^T) / (1 - mu).

    Args:
        learning_rate: gamma, in [1e-35, 1e35].
        velocity: v when the parameter is frozen, of size at most 1e70.
        momentum: mu in [0, 1).
        steps: T, an integer 0..1e12, or inf.

    Returns:
        The move, with the sign of the velocity (the parameter goes the other way).

    Source: RS, section 4.2 and RF, section 3.2 (rs.epoch_mask).

    Example: at momentum 0.9 a frozen parameter goes on as far as nine more steps would have moved it.
        >>> from dptheory.convergence import coasting_distance
        >>> round(coasting_distance(learning_rate=0.1, velocity=1.0, momentum=0.9, steps=1000), 6)
        0.9
    """
    learning_rate = _learning_rate(learning_rate)
    velocity = _signed("velocity", velocity)
    momentum = _momentum(momentum)
    return learning_rate * velocity * momentum * _one_minus_power(momentum, _steps(steps)) / (1 - momentum)


def stationary_excess(*, learning_rate: float, noise_std: float, momentum: float, curvature: float) -> float:
    r"""Stationary expected loss of one coordinate of the quadratic l w^2 / 2 under noisy, unclipped SGD with momentum.

    .. math:: \frac{\gamma s^2(1+\mu)}{2(1-\mu)(2(1+\mu)-\gamma l)}\approx\frac{\gamma s^2}{4(1-\mu)}

    Args:
        learning_rate: gamma, in [1e-35, 1e35].
        noise_std: standard deviation s of one step's noise, 0 or in [1e-70, 1e70].
        momentum: mu in [0, 1).
        curvature: l, in [1e-70, 1e70].

    Returns:
        The excess loss; inf where the iteration is unstable, gamma l >= 2 (1 + mu), and there is noise.

    Source: RF, section 3.4, the scaling rule (rf.scaling).

    Example: at momentum 0.9 the noise keeps the loss ten times as far from its least value.
        >>> from dptheory.convergence import stationary_excess
        >>> [round(stationary_excess(learning_rate=0.01, noise_std=1.0, momentum=mu, curvature=1.0), 4) for mu in (0.0, 0.9)]
        [0.0025, 0.0251]
    """
    learning_rate = _learning_rate(learning_rate)
    noise_std = _noise(noise_std)
    momentum = _momentum(momentum)
    curvature = _validate.size("curvature", curvature)
    if noise_std == 0.0:
        return 0.0
    margin = 2 * (1 + momentum) - learning_rate * curvature
    if margin <= 0:
        return math.inf
    return learning_rate * noise_std**2 * (1 + momentum) / (2 * (1 - momentum) * margin)


def _weight_sums(momentum: float, steps: int) -> tuple[float, float]:
    """Sum and sum of squares of a_j = (1 - mu^j) / (1 - mu), j = 1..T, by doubling: a_{T+j} = a_T + mu^T a_j."""
    steps = _validate.integer("steps", steps, 0, _MAX_STEPS)
    total = squares = 0.0
    done = 0
    for bit in bin(steps)[2:]:
        last, decay = _one_minus_power(momentum, done) / (1 - momentum), _power(momentum, done)
        squares += done * last**2 + 2 * decay * last * total + decay**2 * squares
        total += done * last + decay * total
        done *= 2
        if bit == "1":
            done += 1
            step = _one_minus_power(momentum, done) / (1 - momentum)
            total, squares = total + step, squares + step**2
    return total, squares


def _power(base: float, exponent: float) -> float:
    """base^exponent with 0^0 = 1."""
    return 1.0 - _one_minus_power(base, exponent) if exponent == 0 or base == 0 else math.exp(exponent * math.log(base))


def _one_minus_power(base: float, exponent: float) -> float:
    """1 - base^exponent without cancellation, base in [0, 1)."""
    if exponent == 0:
        return 0.0
    return 1.0 if base == 0 else -math.expm1(exponent * math.log(base))


def _learning_rate(value: float) -> float:
    return _validate.size("learning_rate", value, 1e-35, 1e35)


def _noise(value: float) -> float:
    return _validate.size("noise_std", value, zero=True)


def _signed(name: str, value: float) -> float:
    return _validate.real(name, value, -_LARGEST, _LARGEST)


def _momentum(value: float) -> float:
    return _validate.real("momentum", value, 0.0, 1.0, ends="[)")


def _steps(value: float, low: int = 0) -> float:
    return _validate.integer_or_infinity("steps", value, low, _MAX_STEPS)
