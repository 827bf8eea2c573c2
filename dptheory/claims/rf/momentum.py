import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import convergence
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row

# --- Noise under momentum by running the recursion in fractions


def momentum_cases() -> Iterator[tuple[Fraction, int]]:
    """(mu, steps): every pair from a small grid."""
    yield from itertools.product((Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10)), (1, 2, 5, 20))


def noise_weights(mu: Fraction, steps: int) -> tuple[list[Fraction], list[Fraction]]:
    """Weights of the single noises in v_T and in w_0 - w_T (learning rate 1), by running the recursion on unit vectors."""
    velocity, moved = [Fraction(0)] * steps, [Fraction(0)] * steps
    for t in range(steps):
        velocity = [mu * v + (i == t) for i, v in enumerate(velocity)]
        moved = [w + v for w, v in zip(moved, velocity, strict=True)]
    return velocity, moved


def squares(weights: list[Fraction]) -> Fraction:
    """Sum of squares: the variance for independent unit noises."""
    return sum((w * w for w in weights), Fraction(0))


def solve(rows: list[list[Fraction]]) -> list[Fraction]:
    """Gauss-Jordan elimination on an augmented matrix."""
    size = len(rows)
    for i in range(size):
        pivot = next(k for k in range(i, size) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(size):
            if k != i:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def printed_velocity_variance(noise_std: float, mu: float, steps: int) -> float:
    """Variance of (1 + mu + ... + mu^{t-1}) N(0, s^2), the noise of v_t as RF section 3.4 and RS equation 117 have it."""
    return float((noise_std * sum(mu**i for i in range(steps))) ** 2)


def _simulated(rng: np.random.Generator, n: int, mu: float, steps: int, moved: bool) -> Array:
    """Squared noise of v_T, or of w_T - w_0 at learning rate 1, one coordinate."""
    velocity, position = np.zeros((2, n))
    for _ in range(steps):
        velocity = mu * velocity + rng.standard_normal(n)
        position = position - velocity
    return np.asarray(np.square(position if moved else velocity))


def _resting_velocity(mu: Fraction, noise: Fraction) -> Fraction:
    """E v^2 that v <- mu v + noise leaves as it is."""
    return solve([[1 - mu**2, noise**2]])[0]


def _long_run(mu: Fraction, steps: int) -> float:
    """Sum of the squared weights of the noises in w_T - w_0, mu^T left out: far below rounding for these T."""
    memory = -2 * mu / (1 - mu) + mu**2 / (1 - mu**2)
    return float((steps + memory) / (1 - mu) ** 2)


row = new_row(
    id="rf.momentum",
    source=Source("rf", "section 3.4"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_velocity_variance,
    calculators=(convergence.velocity_variance, convergence.displacement_variance),
    figure="momentum_noise",
)


@row.equal(momentum_cases, tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(mu: Fraction, steps: int) -> Sides:
    """velocity, weights of the single noises in fractions"""
    return (
        convergence.velocity_variance(noise_std=1.0, momentum=float(mu), steps=steps),
        lambda: squares(noise_weights(mu, steps)[0]),
        printed_velocity_variance(1.0, float(mu), steps),
    )


@row.equal(momentum_cases, tolerance=1e-13)
def _(mu: Fraction, steps: int) -> Sides:
    """displacement, weights of the single noises in fractions"""
    return (
        convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=float(mu), steps=steps),
        lambda: squares(noise_weights(mu, steps)[1]),
        steps * convergence.velocity_variance(noise_std=1.0, momentum=float(mu), steps=steps),  # as if independent
    )


@row.equal(
    lambda: itertools.product((Fraction(0), Fraction(1, 2), Fraction(99, 100)), (Fraction(1), Fraction(3, 7))),
    tolerance=1e-13,
    kind=Kind.COUNTEREXAMPLE,
)
def _(mu: Fraction, noise: Fraction) -> Sides:
    """velocity at rest, in fractions"""
    return (
        convergence.velocity_variance(noise_std=float(noise), momentum=float(mu)),
        lambda: _resting_velocity(mu, noise),
        float(noise / (1 - mu)) ** 2,  # as printed for many iterations
    )


@row.equal(lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (10**4, 10**6, 10**12)), tolerance=1e-12)
def _(mu: Fraction, steps: int) -> Sides:
    """displacement over long runs, any noise and learning rate"""
    return (
        convergence.displacement_variance(learning_rate=0.05, noise_std=1e-3, momentum=float(mu), steps=steps),
        _long_run(mu, steps) * (0.05 * 1e-3) ** 2,
        (0.05 * 1e-3 / float(1 - mu)) ** 2 * (steps + 100),
    )


@row.mean(
    partial(_simulated, mu=0.9, steps=50, moved=False),
    wrong=lambda: printed_velocity_variance(1.0, 0.9, 50),
    row_bytes=64,
)
def _() -> float:
    """simulated velocity, mu = 0.9, 50 steps"""
    return convergence.velocity_variance(noise_std=1.0, momentum=0.9, steps=50)


@row.mean(partial(_simulated, mu=0.9, steps=50, moved=True), row_bytes=64)
def _() -> float:
    """simulated displacement, mu = 0.9, 50 steps"""
    return convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=0.9, steps=50)


@row.equal(lambda: [(mu,) for mu in (0.0, 0.5, 0.9, 0.99)], tolerance=1e-12)
def _(mu: float) -> Sides:
    """velocity without an end: the weights of 3,000 noises"""
    return (
        convergence.velocity_variance(noise_std=2.0, momentum=mu),
        lambda: 4.0 * math.fsum(mu ** (2 * j) for j in range(3000)),
        4.0 / (1 - mu) ** 2,
    )
