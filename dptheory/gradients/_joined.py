"""Numbers that lie near each other joined, from below and from above, for functions of so many that each has its cost.

Let f be a symmetric convex function of its arguments, as f(l) = E phi(l_1 Z_1 + ... + l_d Z_d) is for convex phi and exchangeable
Z. Such an f is Schur-convex: it does not fall where its arguments are spread at a fixed sum. Of the numbers of a cell [a, b] the
vector with their mean in all places is majorised by them; and it majorises them that has b in as many places as the sum allows, a
in the others, and what is left of the sum in one. So f lies between its values at the two.
Proof: proofs/rf/thm1.md, "Joined eigenvalues".
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dptheory._arrays import Array

Counts = NDArray[np.intp]


class Levels(NamedTuple):
    """Numbers in rising order, and how often each of them stands."""

    levels: Array
    counts: Counts


def joined(numbers: Levels, cells: int, bends: float = math.inf) -> tuple[Levels, Levels]:
    """The numbers, at least two different ones, in about so many cells: their means, and the two ends.

    Cells are as wide as makes the sum of their squared widths times the function's curvature small: the cube root of the product
    of the numbers' density and of that is the cells' density. ``bends``: the curvature falls as 1 / (number + bends)^3.
    """
    levels, counts = numbers
    gaps = np.diff(levels) ** (2 / 3)
    place = np.concatenate([[0.0], np.cumsum(gaps if bends == math.inf else gaps / (levels[1:] + bends))])
    first = np.flatnonzero(np.diff(np.floor(place * (cells * (1 - 1e-12) / place[-1])), prepend=-1.0))
    size, total = np.add.reduceat(counts, first), np.add.reduceat(counts * levels, first)
    low, high = levels[first], levels[np.append(first[1:], levels.size) - 1]
    wide = high > low
    room = np.where(wide, high - low, 1.0)
    tops = np.where(wide, np.clip(np.floor((total - size * low) / room), 0, size - 1), 0).astype(np.intp)
    rest = np.clip(total - tops * high - (size - 1 - tops) * low, low, high)
    mean = np.clip(total / size, low, high)
    ends = np.concatenate([low, rest, high]), np.concatenate([size - wide - tops, wide, tops]).astype(np.intp)
    return Levels(mean, size), _sorted(*ends)


def _sorted(levels: Array, counts: Counts) -> Levels:
    found, place = np.unique(levels[counts > 0], return_inverse=True)
    return Levels(found, np.bincount(place, counts[counts > 0]).astype(np.intp))
