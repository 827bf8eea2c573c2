"""Two neighbouring runs of GEP, from the definitions: how far a record moves the sums, and how well the outputs tell."""

import itertools
import math
from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pair = tuple[float, float]

_BASIS = np.array([[0.6, 0.8, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]])
_EMBEDDING = np.array([0.28, 0.96])
_RESIDUAL = np.array([-0.48, 0.36, 0.0, 0.8, 0.0])
"""An orthonormal basis of k = 2 rows, a unit embedding, and a unit vector orthogonal to the basis."""


def hockey_stick(mu: float, epsilon: float) -> float:
    """delta of N(mu, 1) against N(0, 1): E (1 - e^(epsilon - loss))_+ under the first, by quadrature."""
    start = epsilon / mu - mu / 2
    value, _ = scipy.integrate.quad(
        lambda t: -math.expm1(-mu * t) * math.exp(-((start + t) ** 2) / 2) / math.sqrt(2 * math.pi),
        0.0,
        max(0.0, -start) + 12.0,
        epsabs=0.0,
        epsrel=1e-11,
        limit=200,
    )
    return float(value)


def least_noise_ratio(epsilon: float, delta: float, steps: int = 1) -> float:
    """sigma_i / S_i at which ``steps`` pairs of releases just meet delta, by root finding on :func:`hockey_stick`."""
    guess = math.sqrt(2 * steps * math.log(1 / delta)) / epsilon
    return float(
        scipy.optimize.brentq(
            lambda s: math.log(hockey_stick(math.sqrt(2 * steps) / s, epsilon) / delta), guess / 5, guess * 5
        )
    )


def best_order_ratio(epsilon: float, delta: float) -> float:
    """Least sigma / S over the order a: a / sigma^2 + log(1 / delta) / (a - 1) = epsilon."""
    log_inverse = math.log(1 / delta)

    def ratio(log_extra: float) -> float:
        above = log_inverse / epsilon + math.exp(log_extra)  # a - 1
        return math.sqrt((1 + above) / (epsilon - log_inverse / above))

    found = scipy.optimize.minimize_scalar(ratio, bounds=(-15.0, 15.0), method="bounded", options={"xatol": 1e-10})
    return float(found.fun)


def hockey_stick_of_pair(rng: np.random.Generator, n: int, clips: Pair, sigmas: Pair, epsilon: float) -> Array:
    """(1 - e^(epsilon - loss))_+ at the noisy embedding and residual of a record of both clips, which the neighbour lacks."""
    moved = np.concatenate([clips[0] * _EMBEDDING, clips[1] * _RESIDUAL])
    spread = np.repeat(sigmas, [len(_EMBEDDING), len(_RESIDUAL)])
    released = moved + spread * rng.standard_normal((n, len(moved)))
    loss = (np.square(released / spread) - np.square((released - moved) / spread)).sum(axis=1) / 2
    return np.asarray(-np.expm1(np.minimum(epsilon - loss, 0.0)))


def hockey_stick_of_output(
    rng: np.random.Generator, n: int, clips: Pair, sigmas: Pair, epsilon: float, steps: int
) -> Array:
    """The same at the sum of ``steps`` noisy gradients w B + r: the last iterate where the loss is linear."""
    embedding, residual = clips[0] * _EMBEDDING, clips[1] * _RESIDUAL
    total = np.zeros((n, _BASIS.shape[1]))
    for _ in range(steps):
        noisy = embedding + sigmas[0] * rng.standard_normal((n, len(embedding)))
        total += noisy @ _BASIS + residual + sigmas[1] * rng.standard_normal(total.shape)
    moved = steps * (embedding @ _BASIS + residual)
    covariance = steps * (sigmas[0] ** 2 * _BASIS.T @ _BASIS + sigmas[1] ** 2 * np.eye(len(moved)))
    direction = np.linalg.solve(covariance, moved)
    loss = total @ direction - moved @ direction / 2
    return np.asarray(-np.expm1(np.minimum(epsilon - loss, 0.0)))


def normalised_move(w1: float, w2: float, r1: float, r2: float, clip: float, residual_clip: float) -> float:
    """How far one record with embedding w and residual r, both clipped, moves the concatenated sum."""
    parts = ((math.hypot(w1, w2), clip), (math.hypot(r1, r2), residual_clip))
    return math.hypot(*(min(size, most) / most for size, most in parts))


def most_concatenated(adjacency: str) -> Fraction:
    """Largest squared change of the concatenated, normalised sums over records with rational norms, in fractions."""
    triples = [
        (x, y, Fraction(z)) for x, y, z in ((0, 0, 0), (3, 4, 5), (-3, -4, 5), (8, 15, 17), (-8, -15, 17), (0, 1, 1))
    ]
    clip, residual_clip = Fraction(6), Fraction(2)

    def normalised(vector: tuple[int, int, Fraction], most: Fraction) -> tuple[Fraction, Fraction]:
        x, y, size = vector
        scale = min(Fraction(1), most / size) / most if size else Fraction(0)
        return x * scale, y * scale

    records = [(*normalised(w, clip), *normalised(r, residual_clip)) for w, r in itertools.product(triples, repeat=2)]
    none = (Fraction(0),) * 4
    others = records if adjacency == "replace-one" else [none]
    return max(
        sum(((a - b) ** 2 for a, b in zip(mine, theirs, strict=True)), Fraction(0))
        for mine in records
        for theirs in others
    )
