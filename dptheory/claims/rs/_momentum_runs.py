"""Masked SGD with momentum on quadratics: every mask and sign of the noise in turn, entry by entry, and long runs in closed form."""

import itertools
import math
from fractions import Fraction
from typing import TypeVar

from dptheory import convergence

Number = TypeVar("Number", float, Fraction)


def second_moments(
    curvature: Number, gamma: Number, mu: Number, keep: Number, epochs: int, n: int, variance: Number
) -> list[Number]:
    """E w^2 of one entry at every step from w = 1 at rest; a mask keeps the entry with probability ``keep`` for n steps."""
    zero = curvature - curvature
    start = (zero + 1, zero, zero)  # E w^2, E w v, E v^2
    found = []
    for _ in range(epochs):
        kept = frozen = start
        for _ in range(n):
            found.append(keep * kept[0] + (1 - keep) * frozen[0])
            kept = _after_step(kept, curvature, gamma, mu, variance)
            frozen = _after_step(frozen, zero, gamma, mu, zero)
        start = (
            keep * kept[0] + (1 - keep) * frozen[0],
            keep * kept[1] + (1 - keep) * frozen[1],
            keep * kept[2] + (1 - keep) * frozen[2],
        )
    return found


def _after_step(
    moments: tuple[Number, Number, Number], curvature: Number, gamma: Number, mu: Number, variance: Number
) -> tuple[Number, Number, Number]:
    square, cross, energy = moments
    energy = mu * mu * energy + 2 * mu * curvature * cross + curvature * curvature * square + variance
    cross = mu * cross + curvature * square
    return square - 2 * gamma * cross + gamma * gamma * energy, cross - gamma * energy, energy


def enumerated_moments(
    curvature: Fraction, gamma: Fraction, mu: Fraction, dim: int, keep: int, epochs: int, n: int, noise: Fraction
) -> list[Fraction]:
    """The same, the mean over d entries that share a mask with ``keep`` ones, noise +-``noise`` in each; all paths in turn."""
    masks = [tuple(int(j in kept) for j in range(dim)) for kept in itertools.combinations(range(dim), keep)]
    signs = list(itertools.product((1, -1), repeat=dim)) if noise else [(0,) * dim]
    zeros = (Fraction(0),) * dim
    law = {((Fraction(1),) * dim, zeros): Fraction(1)}
    found = []
    for _ in range(epochs):
        after: dict[tuple[tuple[Fraction, ...], tuple[Fraction, ...]], Fraction] = {}
        spent = [Fraction(0)] * n
        for mask in masks:
            held = {state: chance / len(masks) for state, chance in law.items()}
            for step in range(n):
                spent[step] += sum((p * sum(x * x for x in w) for (w, _), p in held.items()), Fraction(0)) / dim
                moved: dict[tuple[tuple[Fraction, ...], tuple[Fraction, ...]], Fraction] = {}
                for ((w, v), p), sign in itertools.product(held.items(), signs):
                    fast = tuple(
                        mu * b + m * (curvature * a + s * noise) for a, b, m, s in zip(w, v, mask, sign, strict=True)
                    )
                    state = tuple(a - gamma * b for a, b in zip(w, fast, strict=True)), fast
                    moved[state] = moved.get(state, Fraction(0)) + p / len(signs)
                held = moved
            for state, p in held.items():
                after[state] = after.get(state, Fraction(0)) + p
        found += spent
        law = after
    return found


def endless_sum(x: float, mu: float, move: float) -> float:
    """Sum over all t of E w_t^2, fresh masks, curvature 1 from w = 1 at rest, no noise; move = gamma G."""
    share = (1 - mu) ** 2 * (1 + mu) + 2 * move * mu * x
    return share / (move * x * (2 * (1 - mu**2) - move * (1 + mu - 2 * mu * x)))


def resting_square(x: float, mu: float, move: float) -> float:
    """E w^2 in the long run, curvature 1, noise of variance 1 before the mask."""
    return move * (1 + mu) / (2 * (1 - mu**2) - move * (1 + mu - 2 * mu * x))


def longest_step(mu: float) -> float:
    """(1 - mu)^2 / (1 + mu): the unit of gamma G in which the bound is stated; it needs less than 2."""
    return (1 - mu) ** 2 / (1 + mu)


def bound(
    gamma: float, G: float, mu: float, rate: float, epochs: int, n: int, gap: float = 1.0, energy: float = 0.0
) -> float:
    """By the calculator; ``energy`` is the second moment of the noise before the mask."""
    return convergence.momentum_mask_bound(
        objective_gap=gap,
        learning_rate=gamma,
        momentum=mu,
        epochs=epochs,
        steps_per_epoch=n,
        smoothness=G,
        sum_noise_std=math.sqrt(energy),
        dim=1,
        batch_size=1,
        drop_rate=rate,
    )


def quadratic_mean(gamma: float, G: float, mu: float, rate: float, epochs: int, n: int) -> float:
    """Mean of E|grad|^2 over all steps on G |w|^2 / 2 from gap 1, no noise."""
    squares = second_moments(float(G), float(gamma), float(mu), 1.0 - rate, epochs, n, 0.0)
    return 2 * G * sum(squares) / len(squares)


def slack(
    epochs: float,
    share: float,
    mu: float,
    rate: float,
    spread: float,
    curvature: float,
    weight: float,
    n: float = 1.0,
    scale: float = 1.0,
) -> float:
    """Relative slack on a quadratic of curvature <= 1 = G; gamma = share (1 - mu)^2 / (1 + mu), noise ``spread``.

    ``weight`` is the square of the start: 0 is noise alone.
    """
    epochs, n = round(epochs), round(n)
    gamma = share * longest_step(mu)
    noise = second_moments(curvature, gamma, mu, 1 - rate, epochs, n, spread)
    still = second_moments(curvature, gamma, mu, 1 - rate, epochs, n, 0.0)
    squares = [both - (1 - weight) * start for both, start in zip(noise, still, strict=True)]
    exact = curvature**2 * sum(squares) / len(squares)
    stated = bound(gamma, 1.0, mu, rate, epochs, n, weight * curvature / 2, spread)
    return scale * stated / exact - 1


def halved_slack(**point: float) -> float:
    return slack(**point, scale=0.5)
