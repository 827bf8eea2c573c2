import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import convergence
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.rf.noisy_quadratic import MOMENTUM, noise_weights, printed_velocity_variance, squares


def printed_adam_variance(noise_std: float, mu: float, steps: int) -> float:
    """Variance of (1 + mu + ... + mu^{t-1}) (1 - mu) N(0, s^2), equation 121; tends to s^2."""
    return (1 - mu) ** 2 * printed_velocity_variance(noise_std, mu, steps)


row = new_row(
    id="rs.appH",
    source=Source("rs", "Appendix H", tuple(range(117, 124))),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_adam_variance,
    calculators=(
        convergence.velocity_variance,
        convergence.displacement_variance,
        convergence.adam_velocity_variance,
        convergence.adam_corrected_variance,
    ),
    figure="momentum_noise",
)


@row.equal(*MOMENTUM, tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(mu: Fraction, steps: int) -> Sides:
    """Adam's velocity, weights of the single noises in fractions"""
    return (
        convergence.adam_velocity_variance(noise_std=1.0, momentum=float(mu), steps=steps),
        lambda: (1 - mu) ** 2 * squares(noise_weights(mu, steps)[0]),
        printed_adam_variance(1.0, float(mu), steps),
    )


@row.equal(*MOMENTUM, tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(mu: Fraction, steps: int) -> Sides:
    """after bias correction, in fractions"""
    return (
        convergence.adam_corrected_variance(noise_std=1.0, momentum=float(mu), steps=steps),
        lambda: (1 - mu) ** 2 * squares(noise_weights(mu, steps)[0]) / (1 - mu**steps) ** 2,
        1.0,
    )


@row.equal(
    lambda: itertools.product((Fraction(0), Fraction(1, 2), Fraction(9, 10)), (False, True)),
    tolerance=1e-13,
    kind=Kind.COUNTEREXAMPLE,
)
def _(mu: Fraction, corrected: bool) -> Sides:
    """Adam at rest, with and without bias correction, in fractions"""
    # E v^2 = mu^2 E v^2 + (1 - mu)^2 s^2, s = 3/7; the correction is gone in the end
    return (
        (convergence.adam_corrected_variance if corrected else convergence.adam_velocity_variance)(
            noise_std=3 / 7, momentum=float(mu)
        ),
        (1 - mu) ** 2 * Fraction(9, 49) / (1 - mu**2),
        9 / 49,  # as printed
    )


def _adam_noise(rng: np.random.Generator, n: int, mu: float, steps: int) -> Array:
    velocity = np.zeros(n)
    for _ in range(steps):
        velocity = mu * velocity + (1 - mu) * rng.standard_normal(n)
    return np.asarray(np.square(velocity / (1 - mu**steps)))


@row.mean(partial(_adam_noise, mu=0.9, steps=20), wrong=lambda: 1.0, row_bytes=64)
def _() -> float:
    """simulated Adam, mu = 0.9, 20 steps"""
    return convergence.adam_corrected_variance(noise_std=1.0, momentum=0.9, steps=20)


@row.equal((Fraction(9, 10), 0), (Fraction(9, 10), 1), tolerance=1e-13)
def _(mu: Fraction, which: int) -> Sides:
    """SGD: velocity and displacement over 20 steps, in fractions"""
    return (
        convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=float(mu), steps=20)
        if which
        else convergence.velocity_variance(noise_std=1.0, momentum=float(mu), steps=20),
        lambda: squares(noise_weights(mu, 20)[which]),
        None if which else printed_velocity_variance(1.0, float(mu), 20),
    )


def _stationary_weights(mu: float, what: str) -> float:
    """4 (1, mu, mu^2, ...) squared and added; with Adam each noise enters with the weight 1 - mu."""
    share = 1.0 if what == "velocity" else 1 - mu
    return 4.0 * math.fsum((share * mu**j) ** 2 for j in range(3000))


@row.equal(lambda: itertools.product((0.0, 0.5, 0.9, 0.99), ("velocity", "adam", "corrected")), tolerance=1e-12)
def _(mu: float, what: str) -> Sides:
    """without an end: the weights of 3,000 noises"""
    return (
        {
            "velocity": convergence.velocity_variance,
            "adam": convergence.adam_velocity_variance,
            "corrected": convergence.adam_corrected_variance,
        }[what](noise_std=2.0, momentum=mu),
        lambda: _stationary_weights(mu, what),
        4.0 / (1 - mu) ** 2,
    )
