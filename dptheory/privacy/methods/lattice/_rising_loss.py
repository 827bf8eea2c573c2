r"""Two mixtures of Gaussians in one dimension whose loss rises with the output, as laws on a lattice from above.

P has the density :math:`\sum_i w_i \varphi(z - m_i)`, Q the same with other weights, all on the same means.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods.lattice._sums import LatticeMasses

Array = NDArray[np.float64]

_CELLS = 2**16
_OVERFLOW = 700.0
_LOSS_ERROR = 1e-11  # of a loss: its exponents go to some thousands
_BELOW = math.log(1e-18)  # probability below the lowest output, whose losses are taken for larger than they are


@dataclass(frozen=True, eq=False)
class RisingLoss:
    """The loss log dP/dQ under P, rising with the output z.

    Attributes:
        means: m, ascending.
        by_p, by_q: weights, each with the sum 1.
    """

    means: Array
    by_p: Array
    by_q: Array

    def at(self, z: Array) -> Array:
        exponents = np.multiply.outer(z, self.means) - self.means**2 / 2
        with np.errstate(divide="ignore"):
            return np.asarray(
                scipy.special.logsumexp(exponents + np.log(self.by_p), axis=1)
                - scipy.special.logsumexp(exponents + np.log(self.by_q), axis=1)
            )

    def reversed(self) -> "RisingLoss":
        """Q against P, with the output mirrored so that the loss rises."""
        return RisingLoss(-self.means[::-1], self.by_q[::-1], self.by_p[::-1])

    def outputs(self, log_above: float) -> tuple[float, float]:
        """z such that P(below) is next to nothing, and P(above) at most exp(log_above)."""
        z = np.linspace(float(self.means[0]) - 39.0, float(self.means[-1]) + 39.0, 8001)
        with np.errstate(divide="ignore"):
            above = scipy.special.logsumexp(scipy.special.log_ndtr(self.means - z[:, None]) + np.log(self.by_p), axis=1)
            below = scipy.special.logsumexp(scipy.special.log_ndtr(z[:, None] - self.means) + np.log(self.by_p), axis=1)
        return float(z[max(int(np.argmax(below > _BELOW)) - 1, 0)]), float(z[int(np.argmax(above <= log_above))])

    def cells(self, log_above: float, number: int = _CELLS) -> "LossCells":
        """Its outputs but for the largest, of probability exp(log_above), in cells."""
        edges = np.linspace(*self.outputs(log_above), number + 1)
        by_p, by_q = (self._probabilities(weights, edges) for weights in (self.by_p, self.by_q))
        by_p[0] += float(
            self.by_p @ scipy.special.ndtr(edges[0] - self.means)
        )  # what lies below, with too large a loss
        return LossCells(self.at(edges), by_p, by_q)

    def _probabilities(self, weights: Array, edges: Array) -> Array:
        found = np.zeros(edges.size - 1)
        for weight, mean in zip(weights, self.means, strict=True):
            if weight > 0.0:
                left, right = edges[:-1] - mean, edges[1:] - mean
                mirrored = left > 0  # from the tail that is the smaller
                a, b = np.where(mirrored, -right, left), np.where(mirrored, -left, right)
                found += weight * np.maximum(scipy.special.ndtr(b) - scipy.special.ndtr(a), 0.0)
        return found


def sampled_loss(noise_multiplier: float, sampling_rate: float, direction: Direction) -> RisingLoss:
    """Of one Poisson-subsampled Gaussian step."""
    shift, rate = 1.0 / noise_multiplier, sampling_rate
    if direction == "replace":
        means = np.array([-shift, 0.0, shift])
        return RisingLoss(means, np.array([0.0, 1 - rate, rate]), np.array([rate, 1 - rate, 0.0]))
    removed = RisingLoss(np.array([0.0, shift]), np.array([1 - rate, rate]), np.array([1.0, 0.0]))
    return removed if direction == "remove" else removed.reversed()


@dataclass(frozen=True, eq=False)
class LossCells:
    """Cells of outputs: the loss at their edges, rising, and their probabilities by P and by Q."""

    losses: Array
    by_p: Array
    by_q: Array

    def from_above(self, spacing: float) -> LatticeMasses:
        """A law on the lattice with no smaller divergence at any gamma: each cell put on two points about it."""
        low, high = np.floor(self.losses[:-1] / spacing), np.ceil(self.losses[1:] / spacing)
        high = np.maximum(high, low + 1)
        scaled = self.by_q * np.exp(np.minimum(low * spacing, _OVERFLOW))  # too small at most: more on the upper point
        upper = (self.by_p - scaled) / -np.expm1(-(high - low) * spacing)
        upper = np.clip(upper, 0.0, self.by_p)
        first = int(low[0])
        places, size = (low - first).astype(np.intp), int(high[-1]) - first + 1
        masses = np.bincount(places, self.by_p - upper, size)
        masses += np.bincount(places + (high - low).astype(np.intp), upper, size)
        return LatticeMasses(spacing, first, np.asarray(masses, dtype=np.float64))

    def from_below(self, spacing: float) -> LatticeMasses:
        """Each cell's probability by P at a loss that none of its outputs goes below, without the lowest cell: never more."""
        places = np.floor((self.losses[1:-1] - _LOSS_ERROR) / spacing).astype(np.intp)
        low = int(places.min())
        return LatticeMasses(spacing, low, np.asarray(np.bincount(places - low, self.by_p[1:]), dtype=np.float64))


def mixed(parts: list[tuple[float, LatticeMasses]]) -> LatticeMasses:
    """One of several laws on one lattice, drawn with these probabilities, and told."""
    spacing = parts[0][1].spacing
    low = min(law.low for _, law in parts)
    masses = np.zeros(max(law.low + law.masses.size for _, law in parts) - low)
    for share, law in parts:
        masses[law.low - low : law.low - low + law.masses.size] += share * law.masses
    return LatticeMasses(spacing, low, masses)
