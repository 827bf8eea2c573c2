"""Masks without the calculators, for the checks of the papers on masks: drawn at random, or all of them."""

import itertools

import numpy as np

from dptheory._arrays import Array


def drawn_masks(rng: np.random.Generator, n: int, dim: int, keep: int) -> Array:
    """Uniform masks with ``keep`` ones, by shuffling each row."""
    rows: Array = np.tile(np.where(np.arange(dim) < keep, 1.0, 0.0), (n, 1))
    return rng.permuted(rows, axis=1)


def all_masks(dim: int, keep: int) -> list[tuple[int, ...]]:
    """Every mask with ``keep`` ones, entries 0 and 1."""
    return [tuple(int(j in kept) for j in range(dim)) for kept in itertools.combinations(range(dim), keep)]
