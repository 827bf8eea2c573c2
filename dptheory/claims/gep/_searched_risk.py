"""The risk of noisy gradient descent by search over its steps, and what it is at least at the printed number of steps."""

import math
from fractions import Fraction

import scipy

from dptheory.claims.gep import _noisy_steps as noisy


def excess_at_printed_steps(root_dim: int, steps: int) -> Fraction:
    """Least excess at the printed T in exact arithmetic: beta = D = epsilon = log(1/delta) = 1, k = 1, no residual.

    p = root_dim^2 and n = T root_dim, so that T = n beta epsilon / sqrt p. Every sample has the loss of ``least_risk`` along e_1.
    The mean iterate is at least D - (T + 1) g / (2 beta) whatever the noise, and Jensen's inequality gives the risk there.
    """
    assert Fraction(steps * root_dim, root_dim) == steps  # n beta epsilon / sqrt p
    slope = Fraction(1, steps + 2)
    return Fraction(noisy.value_at(1 - (steps + 1) * slope / 2, 1, slope))


def brute_force_risk(
    dim: int, subspace_dim: int, samples: int, beta: float, distance: float, mu: float, clip: float
) -> float:
    """Smallest risk over T and over how the budget of a step, 1/s1^2 + clip^2/s2^2 = mu^2/T, is shared, both by search."""
    rest = dim - subspace_dim

    def step_energy(steps: int) -> float:
        if clip == 0 or rest == 0:
            return subspace_dim * steps / mu**2
        found = scipy.optimize.minimize_scalar(
            lambda share: steps / mu**2 * (subspace_dim / share + rest * clip**2 / (1 - share)),
            bounds=(1e-9, 1 - 1e-9),
            method="bounded",
            options={"xatol": 1e-12},
        )
        return float(found.fun)

    return min(
        beta * distance**2 / (2 * steps) + step_energy(steps) / samples**2 / (2 * beta) for steps in range(1, 400)
    )


def published_risk(
    dim: int, subspace_dim: int, samples: int, beta: float, distance: float, eps: float, delta: float, clip: float
) -> float:
    """Smallest risk over T with sigma = 2 sqrt(2 T log(1/delta)) / eps on each part, per entry, added up."""

    def at(steps: int) -> float:
        sigma = 2 * math.sqrt(2 * steps * math.log(1 / delta)) / eps
        energy = (subspace_dim * sigma**2 + dim * (sigma * clip) ** 2) / samples**2
        return beta * distance**2 / (2 * steps) + energy / (2 * beta)

    return min(map(at, range(1, 4000)))
