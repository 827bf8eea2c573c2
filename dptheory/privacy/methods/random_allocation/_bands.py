"""Laws of sums on a lattice that is fine about a centre and coarser, octave by octave, away from it.

Level k is a lattice of spacing unit * 2^k / n with the indices -2n..2n. Level 0 holds what lies within 2 units of the centre,
level k what lies between 2^k and 2^(k + 1) units. Levels are nested, and a sum of two points lies on the coarser of their levels'
lattices once the finer point has been put there: an odd index in halves on its neighbours, which keeps the mean. All masses are
>= 0, and they are only added and multiplied: every mass keeps its relative precision, however small it is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Where masses may stand: ``per_octave`` = n points to the octave, on both sides of the centre."""

    unit: float
    per_octave: int

    def spacing(self, level: int) -> float:
        return self.unit * 2.0**level / self.per_octave

    def points(self, low: float, high: float) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Levels, indices and places of the points from the last at or below ``low`` to the first at or above ``high``, ascending."""
        n, farthest, levels = self.per_octave, max(abs(low), abs(high)), 1
        while 2 * self.unit * 2.0 ** (levels - 1) < farthest:
            levels += 1
        one_side = [np.arange(1, 2 * n + 1), *(np.arange(n + 1, 2 * n + 1) for _ in range(levels - 1))]
        index = np.concatenate(one_side)
        level = np.repeat(np.arange(levels), [part.size for part in one_side])
        index = np.concatenate([-index[::-1], [0], index])
        level = np.concatenate([level[::-1], [0], level])
        place = self.spacing(0) * index * 2.0**level
        first = max(int(np.searchsorted(place, low, side="right")) - 1, 0)
        last = min(int(np.searchsorted(place, high)), place.size - 1)
        return level[first : last + 1], index[first : last + 1], place[first : last + 1]


@dataclass(frozen=True, eq=False)
class Bands:
    """Masses on a grid: row k those of level k."""

    grid: Grid
    masses: Array  # (levels, 4 n + 1)

    @property
    def places(self) -> Array:
        """The place of every entry of ``masses``, from the centre."""
        half = 2 * self.grid.per_octave
        spacings = np.array([self.grid.spacing(level) for level in range(self.masses.shape[0])])
        return np.asarray(np.multiply.outer(spacings, np.arange(-half, half + 1, dtype=np.float64)))

    @property
    def levels(self) -> int:
        return int(self.masses.shape[0])

    def on(self, levels: int) -> "Bands":
        """The same with empty levels up to this number."""
        return self if levels == self.levels else Bands(self.grid, _padded(self.masses, levels))

    def times(self, share: float) -> "Bands":
        return self if share == 1.0 else Bands(self.grid, share * self.masses)

    def plus(self, other: "Bands") -> "Bands":
        """Both measures together."""
        levels = max(self.levels, other.levels)
        return Bands(self.grid, self.on(levels).masses + other.on(levels).masses)

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        total = float(self.masses.sum())
        mean = float((self.masses * self.places).sum()) / total
        return mean, float(np.sqrt((self.masses * np.square(self.places - mean)).sum() / total))

    def coarser(self) -> "Bands":
        """The same on a grid with twice the unit."""
        first = halved(self.masses[0])
        rest = self.masses[1:].copy() if self.masses.shape[0] > 1 else np.zeros((1, first.size))
        rest[0] += first
        return Bands(Grid(2 * self.grid.unit, self.grid.per_octave), rest)


def placed(grid: Grid, level: NDArray[np.int64], index: NDArray[np.int64], masses: Array) -> Bands:
    """Masses on points of a grid."""
    half = 2 * grid.per_octave
    levels, width = int(level.max()) + 1, 2 * half + 1
    found = np.asarray(np.bincount(level * width + index + half, masses, levels * width), dtype=np.float64)
    return Bands(grid, found.reshape(levels, width))


def deposited(grid: Grid, places: Array, masses: Array) -> Bands:
    """Masses anywhere, each put on the two grid points about its place so that its mean is kept."""
    level, index, points = grid.points(float(places.min()), float(places.max()))
    right = np.clip(np.searchsorted(points, places), 1, points.size - 1)
    share = np.clip((places - points[right - 1]) / (points[right] - points[right - 1]), 0.0, 1.0)
    found = np.bincount(np.append(right, right - 1), np.append(share * masses, (1.0 - share) * masses), points.size)
    return placed(grid, level, index, np.asarray(found, dtype=np.float64))


def halved(row: Array) -> Array:
    """A lattice's masses on the lattice of twice its spacing: of odd indices half to either side."""
    size = (row.size - 1) // 2
    found = np.zeros(row.size)
    middle = found[size // 2 : size // 2 + size + 1]
    middle += row[::2]
    middle[:-1] += 0.5 * row[1::2]
    middle[1:] += 0.5 * row[1::2]
    return found


def convolved(one: Bands, other: Bands) -> Bands:
    """The law of the sum of two independent ones on the same grid."""
    n = one.grid.per_octave
    half, levels = 2 * n, max(one.masses.shape[0], other.masses.shape[0])
    mine, theirs = _padded(one.masses, levels), _padded(other.masses, levels)
    squared = one is other
    occupied = np.asarray(mine.any(axis=1) | theirs.any(axis=1))
    found = np.zeros((levels + 1, 2 * half + 1))
    below, their_below = np.zeros(2 * half + 1), np.zeros(2 * half + 1)
    nothing = True
    for level in range(levels):
        if not occupied[level] and nothing:
            continue
        if squared:
            wide = _product(mine[level], 2.0 * below + mine[level])
        else:
            wide = _product(mine[level], their_below + theirs[level]) + _product(below, theirs[level])
        found[level] += wide[half:-half]  # wide has the indices -4n..4n
        found[level + 1] += _outer(wide, half)
        nothing = False
        below = halved(below + mine[level])
        their_below = below if squared else halved(their_below + theirs[level])
    for level in range(levels, 0, -1):  # what lies further in, on the finer level: a point of both lattices
        inner = found[level, n + 1 : 3 * n]  # indices -(n - 1)..n - 1
        if inner.any():
            found[level - 1, 2 : 4 * n - 1 : 2] += inner
            inner[:] = 0.0
    while found.shape[0] > 1 and not found[-1].any():
        found = found[:-1]
    return Bands(one.grid, found)


def _product(one: Array, other: Array) -> Array:
    """Full convolution, of the parts that are not 0."""
    size = one.size + other.size - 1
    found = np.zeros(size)
    mine, theirs = np.flatnonzero(one), np.flatnonzero(other)
    if mine.size == 0 or theirs.size == 0:
        return found
    a, b = one[mine[0] : mine[-1] + 1], other[theirs[0] : theirs[-1] + 1]
    start = int(mine[0] + theirs[0])
    found[start : start + a.size + b.size - 1] = np.convolve(a, b)
    return found


def _outer(wide: Array, half: int) -> Array:
    """What has indices beyond -2n..2n, of -4n..4n, on the lattice of twice the spacing."""
    outer = wide.copy()
    outer[half:-half] = 0.0
    found = outer[::2].copy()
    found[:-1] += 0.5 * outer[1::2]
    found[1:] += 0.5 * outer[1::2]
    return found


def _padded(masses: Array, levels: int) -> Array:
    found = np.zeros((levels, masses.shape[1]))
    found[: masses.shape[0]] = masses
    return found
