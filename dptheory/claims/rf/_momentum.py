"""Noise under momentum by running the recursion in fractions."""

import itertools
from collections.abc import Iterator
from fractions import Fraction


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
