"""One step of ranked sparsification by enumeration, with noise on whole numbers, and the printed step in fractions."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import ndtr

from dptheory.checks import EqualityCheck, Kind, Sides
from dptheory.privacy import combined_multiplier

Vector = tuple[int, ...]
Law = dict[tuple[Vector, ...], Fraction]
Ranking = Callable[[Vector, Vector, Vector], Iterator[tuple[Vector, Fraction]]]
"""Laws of the ranked vector, from the sum, the mask and what was released of it."""

_NOISE = {z: Fraction(weight, 10) for z, weight in ((-2, 1), (-1, 2), (0, 4), (1, 2), (2, 1))}


@dataclass(frozen=True)
class Step:
    """A step of two entries: the mask in use, and the clipped sums with and without one example."""

    mask: Vector
    joined: Vector
    without: Vector


def cases() -> Iterator[tuple[Step, Fraction]]:
    """Steps and weights e^epsilon."""
    for mask, joined, without in (
        ((1, 1), (1, 0), (0, 0)),
        ((1, 1), (2, 1), (1, 1)),
        ((1, 0), (1, 0), (0, 0)),
        ((1, 1), (0, -1), (0, 1)),
    ):
        for weight in (Fraction(1), Fraction(3, 2), Fraction(3)):
            yield Step(mask, joined, without), weight


def released_sum(total: Vector, mask: Vector, released: Vector) -> Iterator[tuple[Vector, Fraction]]:
    """The ranked vector of RS: what was released, and noise alone where the mask is 0."""
    for noise, chance in _noises(tuple(1 - m for m in mask)):
        yield tuple(r + n for r, n in zip(released, noise, strict=True)), chance


def second_draw(total: Vector, mask: Vector, released: Vector) -> Iterator[tuple[Vector, Fraction]]:
    """That of RF with fresh noise on the sum."""
    for noise, chance in _noises((1,) * len(total)):
        yield tuple(t + n for t, n in zip(total, noise, strict=True)), chance


def privacy(step: Step, weight: Fraction, ranking: Ranking | None) -> Fraction:
    """delta at e^epsilon = weight of the release and the next mask (None: of the release alone), worst direction."""
    first, second = (_law(total, step.mask, ranking) for total in (step.joined, step.without))
    return max(_excess(first, second, weight), _excess(second, first, weight))


def _noises(mask: Vector) -> Iterator[tuple[Vector, Fraction]]:
    """Noise where the mask is 1, with its probability."""
    for noise in itertools.product(*[_NOISE if m else (0,) for m in mask]):
        chance = Fraction(1)
        for m, z in zip(mask, noise, strict=True):
            chance *= _NOISE[z] if m else 1
        yield noise, chance


def _law(total: Vector, mask: Vector, ranking: Ranking | None) -> Law:
    law: Law = {}
    for noise, chance in _noises(mask):
        released = tuple(t + n for t, n in zip(total, noise, strict=True))
        if ranking is None:
            law[(released,)] = law.get((released,), Fraction(0)) + chance
            continue
        for ranked, more in ranking(total, mask, released):
            outcome = (released, _largest(ranked))
            law[outcome] = law.get(outcome, Fraction(0)) + chance * more
    return law


def _largest(ranked: Vector) -> Vector:
    """Mask of the entry of largest magnitude, the first of equal ones."""
    best = max(range(len(ranked)), key=lambda j: (abs(ranked[j]), -j))
    return tuple(int(j == best) for j in range(len(ranked)))


def _excess(first: Law, second: Law, weight: Fraction) -> Fraction:
    return sum((max(p - weight * second.get(o, Fraction(0)), Fraction(0)) for o, p in first.items()), Fraction(0))


# --- the printed step -----------------------------------------------------------------------------------------------------


def runs() -> list[tuple[tuple[Fraction, ...], Fraction, float]]:
    """Data of a model of one weight, the example that joins, and a noise multiplier."""
    data = (Fraction(1), Fraction(-1, 2))
    return [(data, Fraction(3), 1.0), (data, Fraction(1, 100), 50.0), ((), Fraction(1), 1e6)]


def distance_after_printed_step(data: tuple[Fraction, ...], extra: Fraction) -> float:
    """Total variation distance of w_1 with and without an example, for v = g_t and loss sum (w - x)^2 / 2 from w_0 = 0."""
    return float(_printed_step(data) != _printed_step((*data, extra)))


def _printed_step(data: tuple[Fraction, ...]) -> Fraction:
    """w_1 by the printed velocity: no noise enters. The sum over the batch, divided by a fixed B = 2."""
    return -Fraction(1, 10) * sum((0 - x for x in data), Fraction(0)) / 2


def largest_distance(noise_multiplier: float) -> float:
    """The total variation distance that a Gaussian mechanism of this multiplier may have, delta(0)."""
    return float(2 * ndtr(0.5 / noise_multiplier) - 1) if noise_multiplier else 1.0


# --- checks that the two papers share ---


def mask_adds_nothing(name: str) -> EqualityCheck:
    """The mask of the next epoch and the release tell two data sets apart as well as the release alone."""

    def compare(step: Step, weight: Fraction) -> Sides:
        return (
            privacy(step, weight, None),
            lambda: privacy(step, weight, released_sum),
            lambda: privacy(step, weight, second_draw),
        )

    return EqualityCheck(name, cases, compare)


def printed_velocity(name: str) -> EqualityCheck:
    """A step whose velocity takes the un-noised gradient is as private as two releases of which one has no noise."""

    def compare(data: tuple[Fraction, ...], extra: Fraction, sigma: float) -> Sides:
        return (
            largest_distance(combined_multiplier(noise_multipliers=(sigma, 0.0))),
            distance_after_printed_step(data, extra),
            largest_distance(combined_multiplier(noise_multipliers=(sigma,))),
        )

    return EqualityCheck(name, runs, compare, kind=Kind.COUNTEREXAMPLE)
