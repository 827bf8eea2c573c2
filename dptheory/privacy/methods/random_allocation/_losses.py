"""The loss of one part of a run as a law on a lattice, from above and from below, both to second order in the spacing.

From above each loss is put on the two lattice points about it so that its probabilities under both laws are kept: a spread of
the likelihood ratio. From below the divergence H(gamma) = sum (p - gamma q)+ is replaced by a convex function that is at most it,
and linear between the lattice's points: proofs/privacy/random_allocation.md, step 6.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy.methods.lattice._rising_loss import LossCells
from dptheory.privacy.methods.lattice._sums import LatticeMasses
from dptheory.privacy.methods.random_allocation._ratio import EpochLaw

Array = NDArray[np.float64]

_TURNS = 60
_ROUNDS = 100
"""In which places are dropped all at once."""
_LARGEST_EXPONENT = 700.0
_MARGIN = 1e-11
"""Relative, taken off a divergence that has to be at most another one: both are sums and differences of some thousand numbers."""

_LEAST_MASS = 1e-280
"""What is less likely is left out from below: it has no relative precision."""


class PartLoss(Protocol):
    """The loss of one part of a run, once.

    ``left_out``: bound of the probability of what has no loss here. ``rounding``: relative error of the probabilities.
    """

    @property
    def left_out(self) -> float: ...

    @property
    def rounding(self) -> float: ...

    @property
    def spread(self) -> tuple[float, float]:
        """Largest loss in size, and standard deviation."""

    def above(self, spacing: float) -> LatticeMasses:
        """No smaller divergence at any gamma."""

    def below(self, spacing: float) -> LatticeMasses:
        """No larger divergence at any gamma."""

    def deltas(self, epsilon: float) -> tuple[float, float]:
        """Lower and upper bound of the divergence at e^epsilon, but for what is left out."""


@dataclass(frozen=True, eq=False)
class EpochLoss:
    """The loss of an epoch of random allocation, by labels in the order of the loss.

    Attributes:
        losses: of a pair that dominates the epoch, with the probabilities ``masses`` under its first law.
        first, second: the epoch's own probabilities of the labels.
    """

    losses: Array
    masses: Array
    first: Array
    second: Array
    left_out: float
    rounding: float

    @property
    def spread(self) -> tuple[float, float]:
        total = float(self.masses.sum())
        mean = float(self.masses @ self.losses) / total
        return float(np.abs(self.losses).max()), math.sqrt(float(self.masses @ (self.losses - mean) ** 2) / total)

    def above(self, spacing: float) -> LatticeMasses:
        low = np.floor(self.losses / spacing)
        share = np.expm1(-(self.losses - low * spacing)) / math.expm1(-spacing)
        upper = np.clip(share, 0.0, 1.0) * self.masses
        first = int(low[0])
        places = (low - first).astype(np.intp)
        masses = np.bincount(places, self.masses - upper, int(places[-1]) + 2)
        masses[1:] += np.bincount(places, upper, masses.size - 1)
        return LatticeMasses(spacing, first, np.asarray(masses))

    def below(self, spacing: float) -> LatticeMasses:
        return contracted(self.first, self.second, spacing)

    def deltas(self, epsilon: float) -> tuple[float, float]:
        lower = _divergence(self.first, self.second, epsilon)
        upper = float(self.masses @ -np.expm1(np.minimum(epsilon - self.losses, 0.0)))
        return lower, upper


def epoch_loss(law: EpochLaw, direction: Direction, share: float = 1.0) -> EpochLoss:
    """Of "remove" and "add"; ``share``: probability with which the record is in the steps of the law at all."""
    ratios = (1.0 - share) + share * law.ratios
    taking_part = (1.0 - share) * law.without + share * law.taking_part
    losses = np.log(ratios)
    if direction == "remove":
        return EpochLoss(losses, ratios * law.without, taking_part, law.without, law.left_out, law.rounding)
    backwards = slice(None, None, -1)
    return EpochLoss(
        -losses[backwards],
        law.without[backwards],
        law.without[backwards],
        taking_part[backwards],
        law.left_out,
        law.rounding,
    )


@dataclass(frozen=True, eq=False)
class StepLoss:
    """The loss of one Poisson-sampled step, by cells of outputs."""

    cells: LossCells
    left_out: float
    rounding: float = 1e-11

    @property
    def spread(self) -> tuple[float, float]:
        losses, masses = self.cells.losses[1:], self.cells.by_p
        mean = float(masses @ losses)
        return float(np.abs(self.cells.losses).max()), math.sqrt(float(masses @ (losses - mean) ** 2))

    def above(self, spacing: float) -> LatticeMasses:
        return self.cells.from_above(spacing)

    def below(self, spacing: float) -> LatticeMasses:
        return contracted(self.cells.by_p[1:], self.cells.by_q[1:], spacing)  # the first holds what lies below

    def deltas(self, epsilon: float) -> tuple[float, float]:
        lower = _divergence(self.cells.by_p[1:], self.cells.by_q[1:], epsilon)
        upper = float(self.cells.by_p @ -np.expm1(np.minimum(epsilon - self.cells.losses[1:], 0.0)))
        return lower, upper


def _divergence(first: Array, second: Array, epsilon: float) -> float:
    """Lower bound of sum (first - e^epsilon second)+: 0 beyond what a double holds, and without what has no relative precision."""
    if epsilon > _LARGEST_EXPONENT:
        return 0.0
    taken = (first > _LEAST_MASS) & (second > _LEAST_MASS)
    return float(np.maximum(first[taken] - math.exp(epsilon) * second[taken], 0.0).sum())


def contracted(first: Array, second: Array, spacing: float) -> LatticeMasses:
    """A pair on the lattice whose divergences are at most those of the pair (first, second), by its losses under its first law."""
    taken = (first > _LEAST_MASS) & (second > _LEAST_MASS)
    ratios = first[taken] / second[taken]
    order = np.argsort(ratios, kind="stable")
    ratios, q = ratios[order], second[taken][order]  # the first law's probability is their product
    lowest = min(math.floor(math.log(ratios[0]) / spacing) - 1, -2)
    highest = max(math.ceil(math.log(ratios[-1]) / spacing) + 1, 2)
    gammas = np.exp(spacing * np.arange(lowest, highest + 1, dtype=np.float64))
    at_one = -lowest
    # calls sum (p - gamma q)+ from gamma = 1 on, puts sum (gamma q - p)+ up to it: of numbers >= 0, precise where they are small
    calls = _Half(gammas[at_one:], ratios, _above(ratios, q), _suffix(q), 0)
    puts = _Half(gammas[: at_one + 1], ratios, _below(ratios, q), _prefix(q), -1)
    common = max(calls.above_chord[0], puts.above_chord[-1]) + _MARGIN * max(calls.values[0], puts.values[-1])
    for _ in range(_TURNS):
        masses, convex = _slopes(
            gammas[at_one:], calls.lowered(0, common), gammas[: at_one + 1], puts.lowered(-1, common), q
        )
        if convex <= 0.0:
            break
        common += 1.001 * convex
    else:
        raise Unresolved("a pair that is not smaller on the lattice")
    masses = np.maximum(masses, 0.0)  # below 0 by rounding alone, which is checked
    if not (calls.hold(_above(gammas, masses)[at_one:]) and puts.hold(_below(gammas, masses)[: at_one + 1])):
        raise Unresolved("a pair that is not smaller on the lattice")
    return LatticeMasses(spacing, lowest, np.asarray(masses * gammas))


def _slopes(right: Array, calls: Array, left: Array, puts: Array, q: Array) -> tuple[Array, float]:
    """The second law's masses, by how much the slope rises; and how much lower the value at 1 must be for it to rise there too."""
    masses = np.zeros(left.size + right.size - 1)
    corners = convex_corners(right, calls)
    falling = np.diff(calls[corners]) / np.diff(right[corners])
    masses[left.size - 1 + corners[1:]] = np.diff(falling, append=0.0)
    after = float(right[corners[1]]) - 1.0
    corners = convex_corners(left, puts)
    rising = np.diff(puts[corners]) / np.diff(left[corners])
    masses[corners[:-1]] = np.diff(rising, prepend=0.0)
    before = 1.0 - float(left[corners[-2]])
    at_one = float(falling[0] - rising[-1]) + float(q.sum())
    masses[left.size - 1] = at_one
    return masses, -at_one * after * before / (after + before)


def _above(gammas: Array, masses: Array) -> Array:
    """sum over larger gammas of mass times excess, by sums of numbers >= 0 alone."""
    heavier = _suffix(masses)[1:-1]
    return np.concatenate([np.cumsum((np.diff(gammas) * heavier)[::-1])[::-1], [0.0]])


def _below(gammas: Array, masses: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(np.diff(gammas) * np.cumsum(masses)[:-1])])


class _Half:
    """Divergences at the lattice's gammas, and by how much the chord between two of them exceeds the divergence at most."""

    def __init__(self, gammas: Array, ratios: Array, at_ratios: Array, slopes: Array, side: int) -> None:
        def at(gamma: Array) -> Array:
            place = np.searchsorted(ratios, gamma)
            beyond = np.clip(
                place + side, 0, ratios.size - 1
            )  # the next ratio towards the side where the function is 0
            reached = (place + side >= 0) & (place + side < ratios.size)
            return np.where(reached, at_ratios[beyond] + slopes[place] * np.abs(ratios[beyond] - gamma), 0.0)

        self.values = at(gammas)
        inside = ratios[(ratios > gammas[0]) & (ratios < gammas[-1])]
        over = np.zeros(gammas.size - 1)  # of each cell
        cell = np.searchsorted(gammas, inside) - 1
        np.maximum.at(over, cell, np.interp(inside, gammas, self.values) - at(inside))
        self.above_chord = np.maximum(np.append(over, 0.0), np.append(0.0, over))
        self._nothing = self._ends(over)

    def _ends(self, over: Array) -> NDArray[np.bool_]:
        """Where the lowered function is 0: at both ends of a cell that has too little at one of them to be lowered there."""
        least = self.values * (1.0 - _MARGIN)
        nothing = np.zeros(least.size, dtype=np.bool_)
        low = (over > 0.0) & ((least[:-1] < over) | (least[1:] < over))
        nothing[:-1] |= low
        nothing[1:] |= low
        return nothing

    def lowered(self, end: int, common: float) -> Array:
        """Values so low that chords between them are at most the divergence; at gamma = 1 the same is taken off calls and puts."""
        less = self.above_chord + _MARGIN * self.values
        less[end] = common
        return np.where(self._nothing, 0.0, self.values - less)

    def hold(self, values: Array) -> bool:
        """Whether a function with these values, linear in between, is at most the divergence."""
        most = np.where(self._nothing, 0.0, self.values * (1.0 - _MARGIN / 2) - self.above_chord)
        return bool((values <= most).all())


def _suffix(masses: Array) -> Array:
    return np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])


def _prefix(masses: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(masses)])


def convex_corners(x: Array, y: Array) -> NDArray[np.int64]:
    """Where the largest convex function that is at most y at the places x has its corners, with both ends.

    A place above the chord of its neighbours is no corner: all such are dropped at once, and again, until none is left. Where one
    goes at a time, the places are taken from left to right, and each drops those before it that it shows to be none.
    """
    kept = np.arange(x.size)
    for _ in range(_ROUNDS):
        convex = np.diff(np.diff(y[kept]) / np.diff(x[kept])) >= 0.0
        if convex.all():
            return kept
        kept = kept[np.concatenate([[True], convex, [True]])]
    corners: list[int] = []
    slopes = [-math.inf]  # up to each corner
    for place in kept.tolist():
        while corners:
            slope = float((y[place] - y[corners[-1]]) / (x[place] - x[corners[-1]]))
            if slope >= slopes[-1]:
                slopes.append(slope)
                break
            corners.pop()
            slopes.pop()
        corners.append(place)
    return np.array(corners)
