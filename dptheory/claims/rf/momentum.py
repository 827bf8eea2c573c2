import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import convergence
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row

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


momentum = new_row(
    id="rf.momentum",
    source=Source("rf", "section 3.4"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_velocity_variance,
    calculators=(convergence.velocity_variance, convergence.displacement_variance),
    figure="momentum_noise",
)


@momentum.equal(momentum_cases, tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(mu: Fraction, steps: int) -> Sides:
    """velocity, weights of the single noises in fractions"""
    return (
        convergence.velocity_variance(noise_std=1.0, momentum=float(mu), steps=steps),
        lambda: squares(noise_weights(mu, steps)[0]),
        printed_velocity_variance(1.0, float(mu), steps),
    )


@momentum.equal(momentum_cases, tolerance=1e-13)
def _(mu: Fraction, steps: int) -> Sides:
    """displacement, weights of the single noises in fractions"""
    return (
        convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=float(mu), steps=steps),
        lambda: squares(noise_weights(mu, steps)[1]),
        steps * convergence.velocity_variance(noise_std=1.0, momentum=float(mu), steps=steps),  # as if independent
    )


@momentum.equal(
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


@momentum.equal(lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (10**4, 10**6, 10**12)), tolerance=1e-12)
def _(mu: Fraction, steps: int) -> Sides:
    """displacement over long runs, any noise and learning rate"""
    return (
        convergence.displacement_variance(learning_rate=0.05, noise_std=1e-3, momentum=float(mu), steps=steps),
        _long_run(mu, steps) * (0.05 * 1e-3) ** 2,
        (0.05 * 1e-3 / float(1 - mu)) ** 2 * (steps + 100),
    )


@momentum.mean(
    partial(_simulated, mu=0.9, steps=50, moved=False),
    wrong=lambda: printed_velocity_variance(1.0, 0.9, 50),
    row_bytes=64,
)
def _() -> float:
    """simulated velocity, mu = 0.9, 50 steps"""
    return convergence.velocity_variance(noise_std=1.0, momentum=0.9, steps=50)


@momentum.mean(partial(_simulated, mu=0.9, steps=50, moved=True), row_bytes=64)
def _() -> float:
    """simulated displacement, mu = 0.9, 50 steps"""
    return convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=0.9, steps=50)


@momentum.equal(lambda: [(mu,) for mu in (0.0, 0.5, 0.9, 0.99)], tolerance=1e-12)
def _(mu: float) -> Sides:
    """velocity without an end: the weights of 3,000 noises"""
    return (
        convergence.velocity_variance(noise_std=2.0, momentum=mu),
        lambda: 4.0 * math.fsum(mu ** (2 * j) for j in range(3000)),
        4.0 / (1 - mu) ** 2,
    )


def _clipped_slack(mu: float, steps: float, deficit: float) -> float:
    """Mean and variance of the displacement at C = 1 - mu, against momentum-free ones at C = 1: 1 - deficit <= ratio <= 1."""
    size = round(steps)
    clip = 1 - mu
    mean = convergence.displacement_mean(
        learning_rate=1.0, force=clip, momentum=mu, steps=size
    ) / convergence.displacement_mean(learning_rate=1.0, force=1.0, momentum=0.0, steps=size)
    variance = convergence.displacement_variance(
        learning_rate=1.0, noise_std=clip, momentum=mu, steps=size
    ) / convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=0.0, steps=size)
    lost = deficit * mu / ((1 - mu) * size)
    return min(1 - mean, 1 - variance, mean - 1 + lost, variance - 1 + lost)


def excess_by_lyapunov(rate: Fraction, mu: Fraction, curvature: Fraction, noise: Fraction) -> Fraction:
    """curvature E w^2 / 2 at rest: solves for the second moments of (w, v) that one step leaves as they are."""
    step = [[1 - rate * curvature, -rate * mu], [curvature, mu]]  # w' = w - rate v', v' = mu v + curvature w + noise
    kick = [-rate, Fraction(1)]
    pairs = [(0, 0), (0, 1), (1, 1)]
    rows = []
    for i, j in pairs:
        row = [Fraction((i, j) == pair) for pair in pairs]
        for k, m in itertools.product(range(2), repeat=2):
            row[pairs.index((min(k, m), max(k, m)))] -= step[i][k] * step[j][m]
        rows.append([*row, kick[i] * kick[j] * noise**2])
    return curvature * solve(rows)[0] / 2


def _quadratic_cases() -> Iterator[tuple[Fraction, Fraction, Fraction, Fraction]]:
    """(learning rate, mu, curvature, clip), the last pair the papers' (0.9, 0.1) and (0, 1)."""
    yield from itertools.product(
        (Fraction(1, 10), Fraction(1)),
        (Fraction(1, 2), Fraction(9, 10)),
        (Fraction(1, 20), Fraction(1)),
        (Fraction(1, 10), 1),
    )
    yield Fraction(1, 10), Fraction(0), Fraction(1), Fraction(1)


scaling = new_row(
    id="rf.scaling",
    source=Source("rf", "section 3.4, Appendix F; RS, Appendix H"),
    verdict=Verdict.CONDITIONAL,
    calculators=(convergence.displacement_mean, convergence.displacement_variance, convergence.stationary_excess),
)


@scaling.inequality(
    {"mu": Range(0.0, 0.999), "steps": Range(1, 1e6, log=True)}, wrong=lambda mu, steps: _clipped_slack(mu, steps, 1.0)
)
def _twice_the_memory_slack(mu: float, steps: float) -> float:
    """clipped: within a share 2 mu / ((1 - mu) T)"""
    return _clipped_slack(mu, steps, 2.0)


@scaling.equal(momentum_cases, tolerance=1e-13)
def _(mu: Fraction, steps: int) -> Sides:
    """clipped: drift, weights of the steps in fractions"""
    return (
        convergence.displacement_mean(learning_rate=1.0, force=1.0, momentum=float(mu), steps=steps),
        lambda: sum(noise_weights(mu, steps)[1], Fraction(0)),
        convergence.displacement_mean(learning_rate=1.0, force=1 / (1 - float(mu)), momentum=0.0, steps=steps),
    )


@scaling.equal(lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (10**4, 10**6, 10**12)), tolerance=1e-12)
def _(mu: Fraction, steps: int) -> Sides:
    """clipped: drift over long runs, any force and learning rate"""
    return (
        convergence.displacement_mean(learning_rate=0.05, force=-0.03, momentum=float(mu), steps=steps),
        (steps - mu / (1 - mu)) / (1 - mu) * Fraction(-3, 2000),
        float((steps + 100) / (1 - mu) * Fraction(-3, 2000)),
    )


@scaling.equal(_quadratic_cases, tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(rate: Fraction, mu: Fraction, curvature: Fraction, clip: Fraction) -> Sides:
    """unclipped: excess on a quadratic, second moments in fractions"""
    return (
        convergence.stationary_excess(
            learning_rate=float(rate), noise_std=float(clip), momentum=float(mu), curvature=float(curvature)
        ),
        lambda: excess_by_lyapunov(rate, mu, curvature, clip),
        convergence.stationary_excess(
            learning_rate=float(rate), noise_std=float(clip / (1 - mu)), momentum=0.0, curvature=float(curvature)
        ),
    )
