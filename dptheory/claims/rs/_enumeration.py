"""Masked, clipped and noised SGD on L(w) = G |w|^2 / 2 in two dimensions, by enumeration of everything random.

A step draws one of the masks, ``batch_size`` deviations and one of four noise vectors (+-s, +-s), which have the mean and the
variance of Gaussian noise; nothing else of the noise enters a descent inequality on a quadratic. All outcomes of all steps are kept,
each with its probability, so every expectation is a finite sum.
"""

import itertools
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
    lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
    return np.asarray(vectors * np.minimum(1.0, norm / np.maximum(lengths, 1e-300)))


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
            totals[2] += share @ np.square(mean).sum(axis=1)
            totals[6] += share @ square
            for outcome in itertools.product(s.deviations, repeat=s.batch_size):
                chance = share * np.prod([p for p, _ in outcome])
                raw = [masked + np.array(v) * mask for _, v in outcome]
                update = np.asarray(sum(clip(r, s.clip) for r in raw) / s.batch_size)
                totals[0] += chance @ (gradient * update).sum(axis=1)
                totals[1] += chance @ np.square(update).sum(axis=1)
                for noise in _noises(s.noise_std, mask):
                    moved.append(states - s.learning_rate * (update + noise[1]))
                    weights.append(chance * noise[0])
        states, chances = np.concatenate(moved), np.concatenate(weights)
    totals /= s.steps
    first, last = (
        s.smoothness / 2 * e for e in (float(np.square(s.start).sum()), chances @ np.square(states).sum(axis=1))
    )
    return Run(
        alignment=float(totals[0]),
        second_moment=float(totals[1]),
        single_mean_square=float(totals[2]),
        single_square=float(totals[6]),
        measure=float(totals[3]),
        masked_measure=float(totals[4]),
        bias=float(totals[5]),
        gap=first,
        decrease=first - float(last),
    )


def _noises(std: float, mask: Sequence[int]) -> list[tuple[float, Array]]:
    if std == 0:
        return [(1.0, np.zeros(2))]
    return [(0.25, std * np.array(signs) * mask) for signs in itertools.product((1.0, -1.0), repeat=2)]


def _measure(gradient: Array, s: Settings, mask: Sequence[int]) -> Array:
    """P(|mask * xi| < z C) min(|mask * grad|, (1 - z) C) |mask * grad| under the symmetrised law."""
    norm = np.sqrt(np.square(gradient * mask).sum(axis=1))
    chance = sum(p for p, v in symmetrised(s.deviations) if np.hypot(*(np.array(v) * mask)) < s.z * s.clip)
    return np.asarray(chance * np.minimum(norm, (1 - s.z) * s.clip) * norm)


def _one_example(masked: Array, s: Settings, law: Law, mask: Sequence[int]) -> tuple[Array, Array, Array]:
    """E<grad, u>, E u and E|u|^2 of one example's clipped update u, given iterate and mask."""
    updates = [(p, clip(masked + np.array(v) * mask, s.clip)) for p, v in law]
    mean = np.asarray(sum(p * u for p, u in updates))
    square = np.asarray(sum(p * np.square(u).sum(axis=1) for p, u in updates))
    return (masked * mean).sum(axis=1), mean, square
