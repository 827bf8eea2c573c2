"""Masked, clipped and noised SGD on L(w) = G |w|^2 / 2 in two dimensions, by enumeration of everything random.

A step draws one of the masks, ``batch_size`` deviations and one of four noise vectors (+-s, +-s), which have the mean and the
variance of Gaussian noise; nothing else of the noise enters a descent inequality on a quadratic. All outcomes of all steps are kept,
each with its probability, so every expectation is a finite sum.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Law = tuple[tuple[float, tuple[float, float]], ...]
"""Outcomes as (probability, vector)."""

ONE_OF_TWO: tuple[tuple[int, int], ...] = ((1, 0), (0, 1))
BOTH: tuple[tuple[int, int], ...] = ((1, 1),)


@dataclass(frozen=True)
class Settings:
    """A run: ``masks`` are equally likely; ``z`` is the share of the clipping norm in P(|xi| < z C)."""

    start: tuple[float, float]
    deviations: Law
    smoothness: float = 1.0
    clip: float = 1.0
    learning_rate: float = 0.5
    steps: int = 2
    batch_size: int = 1
    noise_std: float = 0.0
    masks: tuple[tuple[int, int], ...] = ONE_OF_TWO
    z: float = 0.75

    def __str__(self) -> str:
        mask = f"{len(self.masks)} mask{'s' if len(self.masks) > 1 else ''}"
        return f"w_1 = {self.start}, B = {self.batch_size}, T = {self.steps}, {mask}"


@dataclass(frozen=True)
class Run:
    """Expectations, those of steps averaged over the steps.

    Attributes:
        alignment: E<grad, update>.
        second_moment: E|update without noise|^2.
        single_mean_square: E|E[u | iterate, mask]|^2 for the clipped update u of one example.
        single_square: E|u|^2.
        measure: E[P h |grad|], the left side of the theorems, P under the symmetrised law.
        masked_measure: E[P' h' |mask * grad|].
        bias: mean of E<mask * grad, update> under the law minus that under the symmetrised law.
        gap: L(w_1), the least value of L being 0.
        decrease: L(w_1) - E L(w_{T+1}).
    """

    alignment: float
    second_moment: float
    single_mean_square: float
    single_square: float
    measure: float
    masked_measure: float
    bias: float
    gap: float
    decrease: float


def two_point(first: float, second: float, weight: float = 0.5) -> Law:
    """v with probability ``weight``, else the multiple of -v that makes the mean zero; symmetric for weight 1/2."""
    return ((weight, (first, second)), (1 - weight, (-first * weight / (1 - weight), -second * weight / (1 - weight))))


def symmetrised(law: Law) -> Law:
    """The law of +-xi with a fair sign."""
    return tuple((p / 2, (sign * v[0], sign * v[1])) for p, v in law for sign in (1, -1))


def clip(vectors: Array, norm: float) -> Array:
    """Rows scaled to at most ``norm``."""
    lengths = np.sqrt(_dot(vectors, vectors))
    return np.asarray(vectors * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))[:, None])


def _dot(first: Array, second: Array) -> Array:
    """Inner product of the rows."""
    return np.asarray(np.einsum("ij,ij->i", first, second))


def run(settings: Settings) -> Run:
    """Enumerate the run; the masks are drawn afresh at every step."""
    s = settings
    states, chances = np.array([s.start]), np.ones(1)
    totals = np.zeros(7)
    for _ in range(s.steps):
        moved: list[Array] = []
        weights: list[Array] = []
        gradient = s.smoothness * states
        totals[3] += chances @ _measure(gradient, s, (1, 1))
        for mask in s.masks:
            share = chances / len(s.masks)
            masked = gradient * mask
            totals[4] += share @ _measure(gradient, s, mask)
            aligned, mean, square = _one_example(masked, s, s.deviations, mask)
            proxy = _one_example(masked, s, symmetrised(s.deviations), mask)[0]
            totals[5] += share @ (aligned - proxy)
            totals[2] += share @ _dot(mean, mean)
            totals[6] += share @ square
            for outcome in itertools.product(s.deviations, repeat=s.batch_size):
                chance = share * math.prod(p for p, _ in outcome)
                update = np.asarray(sum(clip(masked + np.multiply(v, mask), s.clip) for _, v in outcome) / s.batch_size)
                totals[0] += chance @ _dot(gradient, update)
                totals[1] += chance @ _dot(update, update)
                noisy = update[:, None, :] + _noises(s.noise_std, mask)
                moved.append((states[:, None, :] - s.learning_rate * noisy).reshape(-1, 2))
                weights.append(np.repeat(chance / noisy.shape[1], noisy.shape[1]))
        states, chances = np.concatenate(moved), np.concatenate(weights)
    totals /= s.steps
    first = s.smoothness / 2 * (s.start[0] ** 2 + s.start[1] ** 2)
    last = s.smoothness / 2 * float(chances @ _dot(states, states))
    return Run(
        alignment=float(totals[0]),
        second_moment=float(totals[1]),
        single_mean_square=float(totals[2]),
        single_square=float(totals[6]),
        measure=float(totals[3]),
        masked_measure=float(totals[4]),
        bias=float(totals[5]),
        gap=first,
        decrease=first - last,
    )


def _noises(std: float, mask: Sequence[int]) -> Array:
    """Equally likely noise vectors under the mask."""
    signs = itertools.product((1.0, -1.0), repeat=2) if std else [(0.0, 0.0)]
    return np.array([(std * a * mask[0], std * b * mask[1]) for a, b in signs])


def _measure(gradient: Array, s: Settings, mask: Sequence[int]) -> Array:
    """P(|mask * xi| < z C) min(|mask * grad|, (1 - z) C) |mask * grad| under the symmetrised law."""
    masked = gradient * mask
    norm = np.sqrt(_dot(masked, masked))
    chance = sum(p for p, v in s.deviations if math.hypot(v[0] * mask[0], v[1] * mask[1]) < s.z * s.clip)
    return np.asarray(chance * np.minimum(norm, (1 - s.z) * s.clip) * norm)


def _one_example(masked: Array, s: Settings, law: Law, mask: Sequence[int]) -> tuple[Array, Array, Array]:
    """E<grad, u>, E u and E|u|^2 of one example's clipped update u, given iterate and mask."""
    updates = [(p, clip(masked + np.multiply(v, mask), s.clip)) for p, v in law]
    mean = np.asarray(sum(p * u for p, u in updates))
    square = np.asarray(sum(p * _dot(u, u) for p, u in updates))
    return _dot(masked, mean), mean, square
