"""Small masked vectors by enumeration, with masks that depend on them or not: Lemmas 1 and 2, Corollary 1.1."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from dptheory import gradients
from dptheory._arrays import Array

Vector = tuple[int, ...]
Law = list[tuple[Fraction, Vector, Vector, Vector]]
"""Probability, mask, u, v."""

FIRST = (3, -2, 1, 5, -4)
SECOND = (1, 4, -2, 7, 2)


def sizes() -> Iterator[tuple[int, int]]:
    """Dimension up to 5, and number of entries kept."""
    yield from ((dim, keep) for dim in range(1, 6) for keep in range(1, dim + 1))


def inner(mask: Vector, u: Vector, v: Vector) -> int:
    """<m*u, v>."""
    return sum(m * a * b for m, a, b in zip(mask, u, v, strict=True))


def stated(dim: int, keep: int) -> float:
    """The calculator's value for the first ``dim`` entries of FIRST and SECOND."""
    return gradients.expected_masked_inner(FIRST[:dim], SECOND[:dim], drop_rate=1 - keep / dim)


def long_pair(dim: int) -> tuple[Array, Array]:
    """Two vectors for Monte Carlo."""
    j = np.arange(1.0, dim + 1)
    return np.sqrt(j), 1.0 + np.cos(j)


_FULL, _ONE, _TWO = (1, 1), (1, 0), (0, 1)
LAWS: dict[str, Law] = {
    "mask independent of the pair": [
        (Fraction(1, 4), mask, (s, s), (s, 2 * s)) for mask, s in itertools.product((_ONE, _TWO), (1, -1))
    ],
    "independent of u and of v, not of the pair": [
        (Fraction(1, 4), mask, (s, 0), (s if mask == _ONE else -s, 0))
        for mask, s in itertools.product((_ONE, _TWO), (1, -1))
    ],
    "vectors that went through the same mask": [
        (Fraction(1, 2), mask, mask, _FULL) for mask in (_ONE, _TWO)
    ],
    "always the same mask": [(Fraction(1), _ONE, (1, 0), (1, 0))],
}  # fmt: skip


def lemma_holds(name: str) -> bool:
    """E<m*u, v> = E<u, v> / 2 under the law."""
    law = LAWS[name]
    masked = sum((p * inner(mask, u, v) for p, mask, u, v in law), Fraction(0))
    return masked == Fraction(1, 2) * sum((p * inner(_FULL, u, v) for p, _, u, v in law), Fraction(0))


def condition(name: str) -> bool:
    """The mask is independent of the pair and keeps each entry with probability 1 - r = 1/2."""
    uniform = all(sum((p * mask[j] for p, mask, _, _ in LAWS[name]), Fraction(0)) == Fraction(1, 2) for j in range(2))
    return uniform and _independent(name, lambda u, v: (u, v))


def printed_condition(name: str) -> bool:
    """Independent of u and of v, with the right number of ones."""
    return _independent(name, lambda u, v: u) and _independent(name, lambda u, v: v)


def _independent(name: str, other: Callable[[Vector, Vector], object]) -> bool:
    """The mask is independent of ``other(u, v)``."""
    law = LAWS[name]
    joint: dict[tuple[Vector, object], Fraction] = {}
    for p, mask, u, v in law:
        joint[mask, other(u, v)] = joint.get((mask, other(u, v)), Fraction(0)) + p
    of_mask = {m: sum(q for (n, _), q in joint.items() if n == m) for m, _ in joint}
    of_other = {o: sum(q for (_, n), q in joint.items() if n == o) for _, o in joint}
    return all(joint.get((m, o), Fraction(0)) == of_mask[m] * of_other[o] for m in of_mask for o in of_other)


# Clipping in fractions, for gradients whose masked norms are whole.


Point = tuple[int, ...]


def clipped(g: Point, mask: Point, bound: int) -> tuple[Fraction, ...]:
    """clip(m*g).

    Raises:
        ValueError: the masked norm is not whole.
    """
    kept = tuple(a * m for a, m in zip(g, mask, strict=True))
    size = math.isqrt(sum(a * a for a in kept))
    if size**2 != sum(a * a for a in kept):
        raise ValueError(f"g must have whole masked norms, got {g!r}")
    return tuple(Fraction(a) * min(Fraction(1), Fraction(bound, max(size, 1))) for a in kept)
