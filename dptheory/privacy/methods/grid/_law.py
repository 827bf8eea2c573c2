"""The privacy loss of one step on a grid, from above and from below: Gaussian values with an index set, from one Poisson sample.

The likelihood ratio of the worst pair is X = 1 - q + q r L(y): r that of the index set, on atoms, and L(y) = exp(t y - t^2 / 2),
y ~ N(0, 1), without the record (gip.thm2, step 6). A law whose ratio is replaced by one with the same conditional mean without
the record only grows, in both directions: E (X - gamma)+ and E (1 - gamma X)+ are convex in X. So splitting an atom of the
grid's cells to their ends gives upper bounds, merging gives lower ones. Proof: proofs/privacy/tradeoff_curve.md, "On a grid".
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory.privacy._bounds import Direction, Unresolved

Array = NDArray[np.float64]

_FEWEST_ATOMS, _MOST_ATOMS = 8, 200
_FINE = 0.02
"""Largest distance of atoms that are put together, in units of t: it adds its square / 6 to the variance of t y."""
_TRIM = 90.0  # nats below the largest atom
_MOST_VALUES = 4000
_LARGEST = 600.0


@dataclass(frozen=True, eq=False)
class Atoms:
    """Log likelihood ratio of the index sets of a step, and its law without the record.

    Attributes:
        log_ratio: rising.
        mass: without the record; with it, mass * exp(log_ratio).
        left_out: bound of the mass that is missing, under either law.
    """

    log_ratio: Array
    mass: Array
    left_out: float = 0.0

    @property
    def mass_with(self) -> Array:
        return np.asarray(self.mass * np.exp(self.log_ratio))

    def are(self, other: "Atoms") -> bool:
        """Whether both say the same."""
        return (
            self.left_out == other.left_out
            and np.array_equal(self.log_ratio, other.log_ratio)
            and np.array_equal(self.mass, other.mass)
        )


NO_INDEX = Atoms(np.zeros(1), np.ones(1))


def split_atoms(atoms: Atoms, most: int) -> Atoms:
    """At most ``most`` ratios on an even grid, each atom split to its neighbours with its mean ratio: more is revealed."""
    if atoms.log_ratio.size <= most:
        return atoms
    grid = np.linspace(atoms.log_ratio[0], atoms.log_ratio[-1], most)
    cell = np.clip(np.searchsorted(grid, atoms.log_ratio, side="right") - 1, 0, most - 2)
    step = grid[1] - grid[0]
    up = np.clip(np.expm1(atoms.log_ratio - grid[cell]) / math.expm1(step), 0.0, 1.0) * atoms.mass
    mass = np.bincount(cell, atoms.mass - up, most) + np.bincount(cell + 1, up, most)
    return Atoms(grid, np.asarray(mass, dtype=np.float64), atoms.left_out)


def merged_atoms(atoms: Atoms, most: int) -> Atoms:
    """At most ``most`` ratios, each the mean of neighbouring ones: less is revealed."""
    if atoms.log_ratio.size <= most:
        return atoms
    edges = np.linspace(atoms.log_ratio[0], atoms.log_ratio[-1], most + 1)
    cell = np.clip(np.searchsorted(edges, atoms.log_ratio, side="right") - 1, 0, most - 1)
    mass: Array = np.bincount(cell, atoms.mass, most).astype(np.float64)
    shifted = np.bincount(cell, atoms.mass * np.exp(atoms.log_ratio - edges[cell]), most)
    some = mass > 0
    return Atoms(edges[:-1][some] + np.log(shifted[some] / mass[some]), mass[some], atoms.left_out)


def enough_atoms(atoms: Atoms, shift: float) -> int:
    """How many atoms are fine enough beside values with t = ``shift``."""
    spread = float(atoms.log_ratio[-1] - atoms.log_ratio[0])
    return int(min(max(spread / (_FINE * shift), _FEWEST_ATOMS), _MOST_ATOMS))


def powered_atoms(low: int, pmf: Array, spacing: float, groups: int) -> Atoms:
    """Atoms of ``groups`` independent index sets, from the law of one lattice loss under the law with the record.

    Convolutions of positive numbers keep relative precision; atoms that are too rare are left out and counted.
    """
    law, start = pmf / pmf.sum(), low
    places = low + np.arange(law.size, dtype=np.float64)
    variance = float(law @ np.square(places - float(law @ places)))
    if math.sqrt(8 * _TRIM * groups * variance) > _MOST_VALUES:
        raise Unresolved(f"the index sets of {groups} groups take too many values for a grid")
    result, first = np.ones(1), 0
    left = groups
    while left:
        if left & 1:
            result, first = _trimmed(np.convolve(result, law), first + start, spacing)
        left >>= 1
        if left:
            law, start = _trimmed(np.convolve(law, law), 2 * start, spacing)
        if max(law.size, result.size) > 2 * _MOST_VALUES:
            raise Unresolved(f"the index sets of {groups} groups take too many values for a grid")
    log_ratio = spacing * (first + np.arange(result.size, dtype=np.float64))
    without = _without(result, log_ratio)
    some = (result > 0) & (without > 0)
    if not some.any():
        raise Unresolved(f"the index sets of {groups} groups say too much for a grid")
    # a product of g laws holds what was left out of one g times; at most two trims per doubling
    missing = 8.0 * groups * _MOST_VALUES * math.exp(-_TRIM) + float(result[~some].sum())
    return Atoms(log_ratio[some], without[some], missing)


def _without(law: Array, log_ratio: Array) -> Array:
    """The masses without the record, of those with it."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.log(law) - log_ratio))


def _trimmed(law: Array, start: int, spacing: float) -> tuple[Array, int]:
    """Without the ends that are rare under both laws."""
    without = _without(law, spacing * (start + np.arange(law.size, dtype=np.float64)))
    level = math.exp(-_TRIM)
    kept = np.flatnonzero((law > law.max() * level) | (without > without.max() * level))
    return law[kept[0] : kept[-1] + 1], start + int(kept[0])


@dataclass(frozen=True, eq=False)
class Kind:
    """Steps that are alike.

    Attributes:
        shift: t = 1 / noise multiplier, > 0.
        rate: q.
        share: chance that a step is seen at all, or else reveals nothing: 1 but for masks.
        atoms: of the index sets.
        count: how many.
    """

    shift: float
    rate: float
    atoms: Atoms
    count: int
    share: float = 1.0

    def nodes(self, side: Direction) -> tuple[Array, Array]:
        """Losses, rising, and log weights: about their law, for choosing tilt and window."""
        z = np.linspace(-12.0, 12.0 + (self.shift if side == "remove" else 0.0), 241)
        atoms = self.atoms
        size = max(1, atoms.mass.size // 32)
        ell, mass = atoms.log_ratio[::size], np.add.reduceat(atoms.mass, np.arange(0, atoms.mass.size, size))
        loss = log_ratio(self.shift * z[:, None] - self.shift**2 / 2 + ell[None, :], self.rate)
        with np.errstate(divide="ignore"):
            weights = -(z[:, None] ** 2) / 2 + np.log(mass)[None, :] + math.log((z[1] - z[0]) / math.sqrt(2 * math.pi))
        values, logs = (loss, weights + loss) if side == "remove" else (-loss, weights)
        values, logs = values.ravel(), logs.ravel() + math.log(max(self.share, 1e-300))
        if self.share < 1.0:
            values, logs = np.append(values, 0.0), np.append(logs, math.log1p(-self.share))
        order = np.argsort(values)
        return values[order], logs[order]

    def law(self, side: Direction, spacing: float, low: float, high: float) -> "GridLaw":
        """On multiples of ``spacing``, losses between ``low`` and ``high``: split to the ends of their cells."""
        bottom, top = (low, high) if side == "remove" else (-high, -low)
        first, last = math.floor(bottom / spacing), math.ceil(top / spacing)
        if max(abs(bottom), abs(top)) > _LARGEST:
            raise Unresolved("a step's losses spread too far for a grid")
        edges = spacing * np.arange(first, last + 1, dtype=np.float64)
        without, with_record = self._cells(edges)
        gap = -math.expm1(-spacing)
        if side == "remove":
            main, raised = with_record, (with_record[1:-1] - without[1:-1] * np.exp(edges[:-1])) / gap
            place, ends = first, (with_record[0], with_record[-1])
        else:
            main = without[::-1]
            raised = (main[1:-1] - with_record[::-1][1:-1] * np.exp(-edges[::-1][:-1])) / gap
            place, ends = -last, (without[-1], without[0])
        raised = np.clip(raised, 0.0, main[1:-1])
        pmf = np.zeros(edges.size)
        pmf[:-1] += main[1:-1] - raised
        pmf[1:] += raised
        pmf[0] += ends[0]
        missing = self.share * (float(ends[1]) + self.atoms.left_out)
        pmf *= self.share
        if self.share < 1.0:
            if not place <= 0 < place + pmf.size:
                raise Unresolved("a masked step's grid must hold a loss of 0")
            pmf[-place] += 1.0 - self.share
        return GridLaw(place, pmf, missing, self.share * float(ends[0] + self.atoms.left_out), self.count)

    def _cells(self, edges: Array) -> tuple[Array, Array]:
        """Masses of (-inf, edge 0], the cells, and beyond the last edge: without and with the record."""
        inner = np.expm1(edges) / self.rate
        with np.errstate(divide="ignore", invalid="ignore"):
            w = np.where(inner > -1.0, np.log1p(np.maximum(inner, -1.0)), -np.inf)
        total, moved = np.zeros(edges.size + 1), np.zeros(edges.size + 1)
        for ell, mass, mass_with in zip(self.atoms.log_ratio, self.atoms.mass, self.atoms.mass_with, strict=True):
            z = (w - ell) / self.shift + self.shift / 2
            total += mass * _differences(z)
            moved += mass_with * _differences(z - self.shift)
        return total, (1.0 - self.rate) * total + self.rate * moved


def _differences(z: Array) -> Array:
    """Masses of N(0, 1) between rising places, and outside."""
    below, above = scipy.special.ndtr(z), scipy.special.ndtr(-z)
    inside = np.where(z[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    return np.concatenate([below[:1], np.maximum(inside, 0.0), above[-1:]])


def log_ratio(exponent: Array, rate: float) -> Array:
    """log(1 - q + q e^exponent)."""
    with np.errstate(divide="ignore"):
        rest = np.log1p(-rate) if rate < 1.0 else -np.inf
    return np.asarray(np.logaddexp(rest, math.log(rate) + exponent))


@dataclass(frozen=True, eq=False)
class GridLaw:
    """Masses of the losses ``spacing * (low + k)`` of a step.

    Attributes:
        low: place of the first.
        pmf: masses.
        missing: mass above the grid; it is not in ``pmf``.
        raised: mass from below the grid, or left out, that stands too high.
        count: number of such steps.
    """

    low: int
    pmf: Array
    missing: float
    raised: float
    count: int
