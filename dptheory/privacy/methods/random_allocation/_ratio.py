"""The two laws of an epoch of random allocation, as masses on common labels: proofs/privacy/random_allocation.md.

With x = exp(s z - s^2 / 2) of a standard normal z, the likelihood ratio of an epoch in which the record takes part in one of t
steps is the mean of t such numbers. Labels are places of their sum on a lattice; which outputs are put on a label does not depend
on whether the record is there.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import scipy

from dptheory.privacy._bounds import Unresolved
from dptheory.privacy.methods.random_allocation._bands import Array, Bands, Grid, convolved, deposited, placed

_NARROW = 0.3
"""Deviation of a mean of ratios below which the lattice is fine about 1, and no longer about 0."""
PER_OCTAVE = 256
_WIDE = 1.5
"""Shift from which on half as many points to the octave are enough as long as the grid is about 0."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_WIDEST_PIECE = 0.25
ROUNDING = 1e-12
"""Relative, of a mass, for each of the steps of an epoch: sums of up to some thousand products of numbers >= 0."""
_LEAST_PLACE = 0.02
"""Of a mean of ratios, where the lattice changes: what lies below has next to no probability, and is left out."""


@dataclass(frozen=True, eq=False)
class EpochLaw:
    """An epoch on labels.

    Attributes:
        ratios: places of the labels, ascending and > 0: where the record takes part once, a mean-preserving spread of the
            likelihood ratio.
        without, taking_part: probabilities of the labels without the record and with it; with what is left out they add up to 1.
        left_out: bound of the probability of what is left out, without the record and with it.
        rounding: relative error of the probabilities.
    """

    ratios: Array
    without: Array
    taking_part: Array
    left_out: float
    rounding: float


@dataclass(frozen=True, eq=False)
class _Sum:
    """The sum of ``count`` ratios, less ``count`` where the grid is about 1, in the order in which they were added.

    ``laws[j]``: the label's probabilities where the record takes part in j of these steps, drawn uniformly. ``left_out``: bound of the
    probability, under each of them, of what has no label.
    """

    count: int
    laws: tuple[Bands, ...]
    left_out: float

    @property
    def grid(self) -> Grid:
        return self.laws[0].grid

    def plus(self, other: "_Sum", most: int) -> "_Sum":
        """Of participations 0..``most``: how many of them fall to either side is hypergeometric."""
        count = self.count + other.count
        found: list[Bands] = []
        for j in range(min(most, count) + 1):
            total: Bands | None = None
            for i in range(max(0, j - other.count), min(j, self.count) + 1):
                if other is self and 2 * i > j:
                    break  # the same again
                share = math.comb(self.count, i) * math.comb(other.count, j - i) / math.comb(count, j)
                share *= 2.0 if other is self and 2 * i < j else 1.0
                part = convolved(self.laws[i], other.laws[j - i])
                total = part.times(share) if total is None else total.plus(part.times(share))
            assert total is not None
            found.append(total)
        return _Sum(count, tuple(found), self.left_out + other.left_out)

    def trimmed(self, most: float, *, low: bool) -> "_Sum":
        """Without the outermost levels (``low``: and without the lowest), as long as next to nothing is on them."""
        levels = max(law.levels for law in self.laws)
        masses = np.max([law.on(levels).masses.sum(axis=1) for law in self.laws], axis=0)
        above, below = np.cumsum(masses[::-1]), np.cumsum(masses)
        last = levels - int(np.searchsorted(above, most, side="right"))
        first = int(np.searchsorted(below, most, side="right")) if low else 0
        laws = []
        for law in self.laws:
            kept = law.on(levels).masses[:last].copy()
            kept[:first] = 0.0
            laws.append(Bands(law.grid, kept))
        return _Sum(self.count, tuple(laws), self.left_out + 2 * most)

    def fitting(self) -> "_Sum":
        """On a grid whose unit is about the deviation without the record."""
        laws = self.laws
        while laws[0].moments()[1] > 1.4 * laws[0].grid.unit:
            laws = tuple(law.coarser() for law in laws)
        return _Sum(self.count, laws, self.left_out)


@functools.lru_cache(maxsize=32)
def epoch_law(shift: float, steps: int, participations: int, reach: float, per_octave: int = PER_OCTAVE) -> EpochLaw:
    """Of an epoch of ``steps`` steps, of which outputs farther than ``reach`` deviations are left out.

    Args:
        shift: s = 1 / noise multiplier.
        steps, participations: t >= k >= 1.
        reach: of z: from -reach to shift + reach.
        per_octave: points of the lattice.
    """
    tail = 1.0001 * float(scipy.special.ndtr(-reach))
    span = -reach, shift + reach
    deviation = math.sqrt(math.expm1(shift * shift))
    centre = 1.0 if deviation <= _NARROW else 0.0
    grid = Grid(deviation, per_octave) if centre else _about_zero(shift, span, per_octave)
    one = total = _one_step(grid, shift, span, centre, tail)
    for bit in bin(steps)[3:]:
        total = total.plus(total, participations).trimmed(tail, low=not centre)
        if centre:
            total = total.fitting()
            one = _one_step(total.grid, shift, span, centre, tail) if bit == "1" else one
        if bit == "1":
            total = total.plus(one, participations).trimmed(tail, low=not centre)
        if not centre and deviation <= _NARROW * math.sqrt(total.count):
            total, centre = _about_mean(total, deviation, per_octave), 1.0
            one = _one_step(total.grid, shift, span, centre, tail)
    without, taking_part = total.laws[0], total.laws[participations]
    levels = max(without.levels, taking_part.levels)
    ratios = (without.on(levels).places / steps + centre).ravel()
    q, p = without.on(levels).masses.ravel(), taking_part.on(levels).masses.ravel()
    kept = (q > 0.0) | (p > 0.0)
    ratios, q, p = ratios[kept], q[kept], p[kept]
    if ratios.min() <= 0.0:
        raise Unresolved("an output has no likelihood ratio on this lattice")
    order = np.argsort(ratios, kind="stable")
    return EpochLaw(ratios[order], q[order], p[order], total.left_out, ROUNDING * steps)


def _about_mean(total: _Sum, deviation: float, per_octave: int) -> _Sum:
    """The same on a grid about the mean, without what lies so low that it has next to no probability."""
    grid, less = Grid(deviation * math.sqrt(total.count), per_octave), 0.0
    found = []
    for law in total.laws:
        places, masses = law.places.ravel(), law.masses.ravel()
        low = places < _LEAST_PLACE * total.count
        taken = (masses > 0.0) & ~low
        found.append(deposited(grid, places[taken] - total.count, masses[taken]))
        less = max(less, float(masses[low].sum()))
    return _Sum(total.count, tuple(found), total.left_out + less)


def _one_step(grid: Grid, shift: float, span: tuple[float, float], centre: float, tail: float) -> _Sum:
    laws = tuple(_one(grid, shift, span, centre, taking_part) for taking_part in (False, True))
    return _Sum(1, laws, 2 * tail)


def _about_zero(shift: float, span: tuple[float, float], per_octave: int) -> Grid:
    points = per_octave if shift < _WIDE else per_octave // 2
    return Grid(2.0 ** math.floor((shift * span[0] - shift * shift / 2) / math.log(2)), points)


def _one(grid: Grid, shift: float, span: tuple[float, float], centre: float, taking_part: bool) -> Bands:
    """One step's ratio less the centre on a grid, each outcome in shares on the points about it, whatever the record does."""
    low, high = (math.exp(shift * z - shift * shift / 2) for z in span)
    level, index, places = grid.points(low - centre, high - centre)
    x, gaps = places[:-1] + centre, np.diff(places)
    # from one edge of a cell to the other in z; the outermost cells are cut off at the ends of the span
    start = np.concatenate([[span[0]], np.log(x[1:]) / shift + shift / 2])
    width = np.concatenate(
        [[math.log(places[1] + centre) / shift + shift / 2 - span[0]], np.log1p(gaps[1:] / x[1:]) / shift]
    )
    taken = np.minimum(width, np.maximum(span[1] - start, 0.0))
    pieces = np.maximum(np.ceil(taken / _WIDEST_PIECE), 1.0).astype(np.int64)
    cell = np.repeat(np.arange(x.size), pieces)
    which = np.arange(cell.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    size = (taken / pieces)[cell]
    along = size[:, None] * (which[:, None] + (_NODES + 1) / 2)
    z = start[cell, None] + along
    right = (places[1:] + centre)[cell, None]
    to_right = np.clip(-np.expm1(shift * (along - width[cell, None])) * right / gaps[cell, None], 0.0, 1.0)
    mean = shift if taking_part else 0.0
    density = np.exp(-np.square(z - mean) / 2) * (_WEIGHTS / 2) * (size[:, None] / math.sqrt(2 * math.pi))
    on_left = np.bincount(cell, (density * to_right).sum(axis=1), x.size)
    on_right = np.bincount(cell, (density * (1.0 - to_right)).sum(axis=1), x.size)
    masses = np.zeros(places.size)
    masses[:-1] += on_left
    masses[1:] += on_right
    return placed(grid, level, index, masses)
