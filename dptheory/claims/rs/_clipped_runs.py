"""The printed algorithm on quadratics of two entries: masks, deviations and orders of the records in turn, gradients clipped."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from dptheory import convergence
from dptheory._arrays import Array

_BOTH, _ONE = np.ones((1, 2)), np.eye(2)


def phi(lengths: Array, threshold: float) -> Array:
    found: Array = lengths * np.minimum(lengths, threshold)
    return found


def clipped(vectors: Array, clip_norm: float) -> Array:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    found: Array = vectors * np.minimum(1.0, clip_norm / np.maximum(lengths, 1e-300))
    return found


@dataclass
class _Paths:
    """All that can have happened so far, each with its chance."""

    places: Array
    velocities: Array
    chances: Array

    def split(self, chances: Array) -> Array:
        """Every path goes on in as many ways; which way each of them takes."""
        ways = len(chances)
        self.places, self.velocities = np.repeat(self.places, ways, 0), np.repeat(self.velocities, ways, 0)
        self.chances = np.repeat(self.chances, ways) * np.tile(chances, len(self.chances))
        return np.tile(np.arange(ways), len(self.places) // ways)

    def move(self, update: Array, learning_rate: float, momentum: float) -> None:
        self.velocities = momentum * self.velocities + update
        self.places = self.places - learning_rate * self.velocities


def _started(start: Array) -> _Paths:
    return _Paths(start[None, :], np.zeros((1, 2)), np.ones(1))


def _masks(rate: float) -> Array:
    return _BOTH if rate == 0 else _ONE


def drawn_mean(
    hessian: Array,
    start: Array,
    rates: tuple[float, ...],
    steps_per_epoch: int,
    deviations: Array,
    chances: Array,
    learning_rate: float,
    momentum: float,
    clip_norm: float,
    threshold: float,
) -> float:
    """Mean over all steps, weighted by x_e, of E phi(|grad|); batches of one record, whose deviation is drawn from the rows."""
    paths, total = _started(start), 0.0
    for rate in rates:
        masks = _masks(rate)
        kept = masks[paths.split(np.full(len(masks), 1 / len(masks)))]
        for _ in range(steps_per_epoch):
            slopes = paths.places @ hessian
            total += (1 - rate) * float(paths.chances @ phi(np.linalg.norm(slopes, axis=1), threshold))
            slopes, kept = np.repeat(slopes, len(chances), 0), np.repeat(kept, len(chances), 0)
            way = paths.split(chances)
            paths.move(clipped(kept * (slopes + deviations[way]), clip_norm), learning_rate, momentum)
    return total / steps_per_epoch / sum(1 - rate for rate in rates)


@dataclass(frozen=True)
class Records:
    """Losses (w - a)' H (w - a) / 2 of four records, in two pairs with opposite deviations from the mean, H: (4, 2, 2)."""

    hessians: Array
    offsets: Array

    @property
    def smoothness(self) -> float:
        return float(np.abs(np.linalg.eigvalsh(self.hessians)).max())

    def slopes(self, places: Array) -> Array:
        found: Array = np.einsum("ijk,pk->pij", self.hessians, places) + self.offsets
        return found


_HALVES = np.array(list(itertools.product((0, 1), repeat=4)))  # in which of two steps each of four records is used


def allocated_mean(
    records: Records,
    start: Array,
    rates: tuple[float, ...],
    learning_rate: float,
    momentum: float,
    clip_norm: float,
    deviation_share: float,
) -> tuple[float, float, float]:
    """The same for epochs of two steps that use each of four records once, by random allocation.

    Besides it the least P(|xi| < z C) and the longest gradient at the starts of the epochs.
    """
    hessian = records.hessians.mean(axis=0)
    threshold = (1 - deviation_share) * clip_norm
    paths, total, chance, longest = _started(start), 0.0, 1.0, 0.0
    for rate in rates:
        slopes = paths.places @ hessian
        longest = max(longest, float(np.linalg.norm(slopes, axis=1).max()))
        away = np.linalg.norm(records.slopes(paths.places) - slopes[:, None, :], axis=2)
        chance = min(chance, float((away < deviation_share * clip_norm).mean(axis=1).min()))
        masks = _masks(rate)
        kept = masks[paths.split(np.full(len(masks), 1 / len(masks)))]
        kept = np.repeat(kept, len(_HALVES), 0)
        when = _HALVES[paths.split(np.full(len(_HALVES), 1 / len(_HALVES)))]
        for step in (0, 1):
            lengths = np.linalg.norm(paths.places @ hessian, axis=1)
            total += (1 - rate) * float(paths.chances @ phi(lengths, threshold))
            each = clipped(records.slopes(paths.places) * kept[:, None, :], clip_norm)
            paths.move((each * (when == step)[:, :, None]).sum(axis=1) / 2, learning_rate, momentum)
    return total / 2 / sum(1 - rate for rate in rates), chance, longest


def turned(curvature: float, angle: float) -> Array:
    """A Hessian with eigenvalues ``curvature`` and 1."""
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    found: Array = turn @ np.diag([curvature, 1.0]) @ turn.T
    return found


def slack(
    epochs: float, n: float, gamma: float, mu: float, clip: float, spread: float, angle: float, scale: float = 1.0
) -> float:
    """Relative slack of the bound for batches of one record; its deviation is 0 or +-spread in a direction of its own, z = 1/2."""
    epochs, n = round(epochs), round(n)
    hessian = turned(0.2, 2 * angle)
    start = np.array([math.cos(angle), math.sin(3 * angle)])
    rates = tuple(0.0 if e == 0 and angle > 1.5 else 0.5 for e in range(epochs))
    away, still = spread * np.array([[0.0, 0.0], [1.0, 0.5], [-1.0, -0.5]]), 0.4
    probability = 1.0 if math.hypot(spread, spread / 2) < clip / 2 else still
    chances = np.array([still, (1 - still) / 2, (1 - still) / 2])
    exact = drawn_mean(hessian, start, rates, n, away, chances, gamma, mu, clip, clip / 2)
    run = dict(
        objective_gap=float(start @ hessian @ start) / 2,
        learning_rate=gamma,
        momentum=mu,
        epochs=epochs,
        steps_per_epoch=n,
        smoothness=1.0,
        clip_norm=clip,
        drop_rate=rates,
        probability=probability,
        deviation_share=0.5,
        sampling="fixed",
    )
    stated = min(convergence.clipped_mask_bound(**run, bias=bias) for bias in (None, 0.0))  # type: ignore[arg-type]
    return scale * stated / exact - 1


def halved_slack(**point: float) -> float:
    return slack(**point, scale=0.5)


def allocated_slack(
    gamma: float, mu: float, clip: float, bend: float, spread: float, angle: float, scale: float = 1.0
) -> float:
    """Relative slack of the bound for random allocation, two epochs, z = 1/2; 1 where it says nothing."""
    hessian = turned(0.2, 2 * angle)
    bent = bend * np.array([[math.cos(angle), 1.0], [1.0, -math.sin(angle)]])
    first, second = spread * np.array([1.0, 0.5]), spread * np.array([math.sin(angle), -1.0])
    records = Records(
        np.array([hessian + bent, hessian - bent, hessian, hessian]), np.array([first, -first, second, -second])
    )
    start = np.array([math.cos(angle), math.sin(3 * angle)])
    rates = (0.0 if angle > 1.5 else 0.5, 0.5)
    exact, chance, longest = allocated_mean(records, start, rates, gamma, mu, clip, 0.5)
    if chance == 0:
        return 1.0
    stated = convergence.allocated_mask_bound(
        objective_gap=float(start @ hessian @ start) / 2,
        learning_rate=gamma,
        momentum=mu,
        epochs=2,
        steps_per_epoch=2,
        smoothness=1.0,
        clip_norm=clip,
        example_smoothness=max(1.0, records.smoothness),
        largest_gradient=longest,
        batch_size=2,
        drop_rate=rates,
        probability=chance,
        deviation_share=0.5,
    )
    return 1.0 if math.isinf(stated) else scale * stated / exact - 1


def small_allocated_slack(**point: float) -> float:
    return allocated_slack(**point, scale=0.05)
