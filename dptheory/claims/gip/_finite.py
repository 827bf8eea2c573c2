"""Small cases in exact arithmetic: subsets, the Mallows law, noise and pruning errors by enumeration."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

Subset = tuple[bool, ...]

SIZES = tuple((dim, keep) for dim in range(2, 9) for keep in range(1, dim))
"""Every (dim, keep) with dim <= 8 for which there is something to choose."""

VECTORS = {dim: tuple((-1) ** j * (j * j + 1) for j in range(dim)) for dim in range(2, 9)}
"""A fixed gradient without ties for each dim."""


def sizes(dim: float, keep_share: float) -> tuple[int, int]:
    """(dim, keep) with 1 <= keep < dim for a point of a search box."""
    size = round(dim)
    return size, min(max(round(keep_share * size), 1), size - 1)


def subsets(dim: int, keep: int) -> list[Subset]:
    """All subsets of ``dim`` entries with ``keep`` members."""
    return [tuple(j in chosen for j in range(dim)) for chosen in itertools.combinations(range(dim), keep)]


def hamming(first: Sequence[bool], second: Sequence[bool]) -> int:
    """Number of places in which two subsets differ, the L1 distance of the paper."""
    return sum(a != b for a, b in zip(first, second, strict=True))


def diameter(dim: int, keep: int) -> int:
    """The largest distance of two subsets."""
    first = subsets(dim, keep)[0]  # any other subset is a relabelling of this one
    return max(hamming(first, other) for other in subsets(dim, keep))


def mallows(reference: Subset, weight: Fraction) -> dict[Subset, Fraction]:
    """The Mallows law around ``reference`` over the subsets of its size, weight = e^-theta."""
    weights = {s: weight ** hamming(s, reference) for s in subsets(len(reference), sum(reference))}
    total = sum(weights.values())
    return {s: w / total for s, w in weights.items()}


def top_subset(gradient: Sequence[Fraction | int], keep: int) -> Subset:
    """The ``keep`` entries of largest absolute value, ties to the lower index."""
    order = sorted(range(len(gradient)), key=lambda j: (-abs(gradient[j]), j))
    return tuple(j in order[:keep] for j in range(len(gradient)))


def lost_energy(gradient: Sequence[Fraction | int], kept: Subset) -> Fraction:
    """|g - g*I|^2."""
    return sum((Fraction(x) ** 2 for x, stays in zip(gradient, kept, strict=True) if not stays), Fraction(0))


def perturbed_loss(gradient: Sequence[Fraction | int], keep: int, weight: Fraction) -> Fraction:
    """E|g - g*I|^2 for the Mallows-perturbed top-k subset of a fixed gradient; weight 1 is random-k."""
    law = mallows(top_subset(gradient, keep), weight)
    return sum((p * lost_energy(gradient, kept) for kept, p in law.items()), Fraction(0))


def swap_law(dim: int, keep: int, weight: Fraction) -> list[Fraction]:
    """P(i swapped pairs), i = 0..min(keep, dim - keep), by summing the Mallows law over the subsets."""
    reference = tuple(j < keep for j in range(dim))
    law = [Fraction(0)] * (min(keep, dim - keep) + 1)
    for subset, probability in mallows(reference, weight).items():
        law[hamming(subset, reference) // 2] += probability
    return law


def two_point_noise(dim: int, size: int) -> list[tuple[int, ...]]:
    """Every outcome of entries that are +-size with equal chances."""
    return list(itertools.product((-size, size), repeat=dim))
