"""Index sets and values from one sample, and index sets for given batches: their losses as laws on a lattice, from both sides.

The likelihood ratio of the worst pair is X = 1 - q + q r L(y): r that of the index set, on atoms, and L(y) = exp(t y - t^2 / 2),
y ~ N(0, 1), without the record (gip.thm2, step 6). A law whose ratio is replaced by one with the same conditional mean without
the record only grows, in both directions: E (X - gamma)+ and E (1 - gamma X)+ are convex in X. So atoms that are split to the ends
of cells give upper bounds, merged ones lower bounds. With z = y + log(r) / t the ratio is 1 - q + q exp(t z - t^2 / 2) again: z is
all that counts, a mixture of Gaussians. Proof: proofs/privacy/tradeoff_curve.md, "On a lattice".
"""

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import JointStep, MaskedStep
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.lattice._index_law import loss_law
from dptheory.privacy.methods.lattice._loss import DIRECT_GRID, LatticeLoss, Sums, Trimmed
from dptheory.privacy.methods.lattice._rising_loss import LossCells, RisingLoss, sampled_loss
from dptheory.privacy.methods.random_allocation._losses import EpochLoss
from dptheory.pruning import SubsetMallows

Array = NDArray[np.float64]

_LARGEST_THETA = 100.0
_LARGEST_WINDOW = 2**20
_FEWEST_CELLS, _MOST_CELLS, _MOST_PRODUCTS = 2**12, 2**16, 2**24
"""Of the outputs of a step; and cells times atoms of all kinds: a second or two."""
_APART = 4.0
"""Deviations between the means of tilted sums: a value is taken from the sum whose mean it is within two deviations of."""
_HELD = 30.0
"""Nats below the largest of a tilted sum at which a transform still has some digits."""

_FEWEST_ATOMS, _MOST_ATOMS = 8, 200
_FINE = 0.02
"""Largest distance of atoms that are put together, in units of t: it adds its square / 6 to the variance of t y."""
_TRIM = 90.0  # nats below the largest atom
_MOST_VALUES = 4000


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


@functools.lru_cache(maxsize=64)
def _atoms(mechanism: SubsetMallows, groups: int, shift: float, above: bool) -> Atoms:
    law = _lattice(mechanism)
    whole = powered_atoms(law.low, np.exp(law.log_pmf), law.spacing, groups)
    most = enough_atoms(whole, shift)
    reduced = split_atoms(whole, most) if above else merged_atoms(whole, most)
    return Atoms(reduced.log_ratio, reduced.mass, reduced.left_out + groups * math.exp(law.log_omitted))


def _lattice(mechanism: SubsetMallows) -> LatticeLoss:
    if mechanism.theta > _LARGEST_THETA:
        raise Unresolved("the index sets are as good as revealed")
    return loss_law(mechanism=mechanism)


@dataclass(frozen=True, eq=False)
class _JointLoss(RisingLoss):
    """The loss of a mixture whose ratio is that of the values alone."""

    values: Loss

    def at(self, z: Array) -> Array:
        return self.values.at(z)


def joint_cells(
    step: JointStep, direction: Direction, log_above: float, above: bool, kinds: int
) -> tuple[LossCells, float]:
    """The outputs of one of some kinds in cells, and what is left out beside the largest."""
    shift, rate = 1.0 / step.noise_multiplier, step.sampling_rate
    atoms = _atoms(step.mechanism, step.groups, shift, above)
    places, nothing = atoms.log_ratio / shift, np.zeros(atoms.mass.size)
    means = np.concatenate([places, places + shift])
    with_record = np.concatenate([(1.0 - rate) * atoms.mass, rate * atoms.mass_with])
    without = np.concatenate([atoms.mass, nothing])
    values = Loss(direction, step.noise_multiplier, rate)
    if direction == "remove":
        order = np.argsort(means)
        loss = _JointLoss(means[order], with_record[order], without[order], values)
    else:
        order = np.argsort(-means)
        loss = _JointLoss(-means[order], without[order], with_record[order], values)
    cells = min(_MOST_CELLS, _MOST_PRODUCTS // (kinds * means.size))
    if cells < _FEWEST_CELLS:
        raise Unresolved("the index sets take too many values, or are of too many kinds, for a lattice")
    return loss.cells(log_above, cells), atoms.left_out


def masked_cells(step: MaskedStep, direction: Direction, log_above: float, cells: int) -> LossCells:
    """From below: of an example whose gradient has one entry, which the mask shows or hides; hidden it is a cell of loss 0."""
    share = step.mask.keep / step.mask.dim
    shown = sampled_loss(step.noise_multiplier, step.sampling_rate, direction).cells(log_above, cells)
    place = int(np.searchsorted(shown.losses, 0.0))
    return LossCells(
        np.insert(shown.losses, place, [0.0, 0.0]),
        np.insert(share * shown.by_p, place, [1.0 - share, 0.0]),
        np.insert(share * shown.by_q, place, [1.0 - share, 0.0]),
    )


def composed_loss(mechanism: SubsetMallows, count: int, nats: float) -> EpochLoss:
    """The sum of the losses of ``count`` index sets for given batches, but for what has a probability of about exp(-nats).

    A transform is precise near its tilted mean: some tilts give each place from the sum whose mean is nearest.
    """
    loss = _lattice(mechanism)
    law = Trimmed.of(loss)
    if (law.j.size - 1) * count < DIRECT_GRID:
        pieces, missing = [(law.sums(count, 0.0), 0.0, -math.inf, math.inf)], 0.0
    else:
        pieces = _pieces(law, count, nats)
        missing = sum(
            math.exp(-_spent(law, count, tilt) - _HELD) * _LARGEST_WINDOW for _, tilt, *_ in (pieces[0], pieces[-1])
        )
        if missing > math.exp(-nats):
            raise Unresolved("the index sets nearly always say the same")
    places, logs = [], []
    for sums, tilt, low, high in pieces:
        place = sums.low + np.arange(sums.log_pmf.size, dtype=np.float64)
        tilted = sums.log_pmf + tilt * place
        kept = (place >= low) & (place < high) & (tilted > (tilted.max() - _HELD if missing > 0.0 else -math.inf))
        places.append(place[kept])
        logs.append(sums.log_pmf[kept])
    losses, log_masses = loss.spacing * np.concatenate(places), np.concatenate(logs)
    first = np.exp(log_masses)
    left_out = count * law.left_out + missing
    return EpochLoss(losses, first, first, np.exp(log_masses - losses), left_out, 1e-12 + 1e-15 * count)


def _pieces(law: Trimmed, count: int, nats: float) -> list[tuple[Sums, float, float, float]]:
    """Sums at some tilts, and the places that each is taken for."""
    tilts = _tilts(law, count, nats)
    if max(law.window(count, tilt) for tilt in tilts) > _LARGEST_WINDOW:
        raise Unresolved("the index sets take too many values for a lattice")
    means = [count * float(law.tilted(tilt) @ law.j) for tilt in tilts]
    edges = [-math.inf, *((a + b) / 2 for a, b in itertools.pairwise(means)), math.inf]
    return [(law.sums(count, tilt), tilt, *ends) for tilt, ends in zip(tilts, itertools.pairwise(edges), strict=True)]


def _tilts(law: Trimmed, count: int, nats: float) -> list[float]:
    """From one to the next the mean of the sum moves by some deviations, up to where Chernoff's bound is exp(-nats)."""
    found = [0.0]
    for sign in (-1.0, 1.0):
        tilt = 0.0
        while (deviation := _deviation(law, count, tilt)) > 1.0 and _spent(law, count, tilt) < nats:
            tilt += sign * _APART / deviation
            found.append(tilt)
    return sorted(found)


def _deviation(law: Trimmed, count: int, tilt: float) -> float:
    tilted = law.tilted(tilt)
    return math.sqrt(count * float(tilted @ np.square(law.j - float(tilted @ law.j))))


def _spent(law: Trimmed, count: int, tilt: float) -> float:
    """Nats of Chernoff's bound at the mean of the tilted sum."""
    return count * (tilt * float(law.tilted(tilt) @ law.j) - law.cumulant(tilt))
