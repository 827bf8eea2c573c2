"""Laws with finitely many atoms: every sample of anchors in turn, with exact ranks, moments and residuals."""

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Row = tuple[Fraction, ...]


def rank(rows: Sequence[Sequence[Fraction | int]]) -> int:
    """Rank of a matrix of fractions, by elimination."""
    left = [[Fraction(x) for x in row] for row in rows]
    found = 0
    for column in range(len(left[0]) if left else 0):
        pivot = next((i for i in range(found, len(left)) if left[i][column]), None)
        if pivot is None:
            continue
        left[found], left[pivot] = left[pivot], left[found]
        for i in range(found + 1, len(left)):
            factor = left[i][column] / left[found][column]
            left[i] = [a - factor * b for a, b in zip(left[i], left[found], strict=True)]
        found += 1
    return found


def moment_curve(count: int, dim: int) -> list[tuple[int, ...]]:
    """(1, t, t^2, ...) for t = 1..count: any ``dim`` of these vectors are independent (Vandermonde)."""
    return [tuple(t**power for power in range(dim)) for t in range(1, count + 1)]


def samples(weights: Sequence[Fraction], size: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every ordered sample of ``size`` atoms with its probability."""
    for picked in itertools.product(range(len(weights)), repeat=size):
        yield picked, math.prod((weights[i] for i in picked), start=Fraction(1))


def counts(weights: Sequence[float], size: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """How often each atom occurs in ``size`` draws, with the multinomial probability."""
    atoms = len(weights)
    for bars in itertools.combinations(range(size + atoms - 1), atoms - 1):
        edges = (-1, *bars, size + atoms - 1)
        often = tuple(b - a - 1 for a, b in itertools.pairwise(edges))
        chance = float(math.factorial(size))
        for weight, times in zip(weights, often, strict=True):
            chance *= weight**times / math.factorial(times)
        yield often, chance


def second_moments(atoms: Array, often: Sequence[float], size: float = 1.0) -> Array:
    """Second moment matrix of atoms that occur so often out of ``size``."""
    return np.asarray(np.einsum("i,ij,ik->jk", np.asarray(often, dtype=float) / size, atoms, atoms))


def leading(matrix: Array, count: int) -> Array:
    """Projection onto the leading eigenvectors."""
    vectors = np.linalg.eigh(matrix)[1][:, ::-1][:, :count]
    return np.asarray(vectors @ vectors.T)


def residuals(atoms: Array, weights: Sequence[float], size: int, count: int) -> Iterator[tuple[float, float]]:
    """E|xi - Pi xi|^2 with the subspace of each possible sample, and the probability of the sample."""
    population = second_moments(atoms, weights)
    for often, chance in counts(weights, size):
        projection = leading(second_moments(atoms, often, size), count)
        yield float(np.trace(population) - np.sum(projection * population)), chance
