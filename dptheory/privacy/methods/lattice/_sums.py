r"""Expectations of a sum of many independent losses on a lattice, by a tilted Fourier transform, with bounds of the error.

With masses p_j at the losses jh, :math:`M = \sum_j p_j e^{\theta jh}` and S the sum of T of them,
:math:`E\,g(S) = M^T\,\tilde E\,e^{-\theta S} g(S)`, the tilted masses being :math:`p_j e^{\theta jh} / M`. Tilted so that S is
mostly near the place that matters, what the periodic convolution wraps around and what it rounds off stay small against
the result: proofs/privacy/fixed_size_batches.md, step 9.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROUNDING = 1e-15
"""Assumed bound of the error of an entry of the T-fold periodic convolution of masses that add up to 1, over T."""
_LOG_WRAPPED = -36.0
_SHIFTS = np.geomspace(0.02, 16.0, 25)  # in units of one over the deviation of the tilted sum
_OVERFLOW = 600.0
_REACH = 60.0  # over the tilt: e^-60 of what stands at the kernel's beginning


@dataclass(frozen=True, eq=False)
class LatticeMasses:
    """Masses >= 0 at the losses ``spacing * (low + k)``, k = 0, 1, ...; they need not add up to 1."""

    spacing: float
    low: int
    masses: Array

    @property
    def losses(self) -> Array:
        return np.asarray(self.spacing * (self.low + np.arange(self.masses.size, dtype=np.float64)))

    @functools.cached_property
    def taken(self) -> tuple[NDArray[np.intp], Array, Array]:
        """The losses that occur: k, the loss, and the logarithm of its mass."""
        places = np.flatnonzero(self.masses > 0.0)
        return places, self.losses[places], np.log(self.masses[places])

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """log M, and mean and variance of the tilted law."""
        _, losses, log_masses = self.taken
        logs = log_masses + tilt * losses
        top = float(logs.max())
        weights = np.exp(logs - top)
        total = float(weights.sum())
        mean = float(weights @ losses) / total
        return top + math.log(total), mean, float(weights @ (losses - mean) ** 2) / total


class Cumulants(Protocol):
    """A law on a lattice as far as tilts and windows ask."""

    @property
    def spacing(self) -> float:
        """Of the lattice."""

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """log M, and mean and variance of the tilted law."""


@dataclass(frozen=True, eq=False)
class LatticeSum:
    """The sum of independent losses on one lattice: of each law its number."""

    pieces: tuple[tuple[LatticeMasses, int], ...]

    @property
    def spacing(self) -> float:
        return self.pieces[0][0].spacing

    @property
    def count(self) -> int:
        return sum(count for _, count in self.pieces)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        of_each = np.array([law.cumulants(tilt) for law, _ in self.pieces])
        log_moment, mean, variance = np.array([count for _, count in self.pieces], dtype=np.float64) @ of_each
        return float(log_moment), float(mean), float(variance)


Kernel = Callable[[Array], Array]
"""g as a function of S - epsilon: >= 0, 0 below some place, growing at most linearly."""


@dataclass(frozen=True, eq=False)
class TiltedSum:
    """Law of the sum of ``count`` losses, tilted; ``wrapped``: bound of the tilted mass outside the window."""

    spacing: float
    count: int
    tilt: float
    log_moment: float  # of all losses
    low: int
    tilted: Array
    wrapped: float

    def expectation(self, kernel: Kernel, start: float, epsilon: float) -> tuple[float, float]:
        """E[kernel(S - epsilon)], and by how much it may be wrong; the kernel is 0 below ``start``."""
        h = self.spacing
        # a point more below the kernel's beginning: its place may be rounded either way
        beyond = float(self.low + self.tilted.size + 2)  # where there is nothing any more; an epsilon may be 1e308
        first = max(math.floor(min((epsilon + start) / h, beyond)) - 1 - self.low, 0)
        reached = math.ceil(min((epsilon + start + _REACH / self.tilt) / h, beyond))
        last = max(min(reached + 1 - self.low, self.tilted.size), first)
        over = h * (self.low + np.arange(first, last, dtype=np.float64)) - epsilon
        heights = kernel(over) * np.exp(-self.tilt * np.maximum(over - start, 0.0))  # below start the kernel is 0
        tail = np.linspace(0.0, _REACH / self.tilt, 2000)
        # from one place to the next exp(-tilt x) falls by exp(-0.0301)
        highest = 1.04 * float((kernel(start + tail) * np.exp(-self.tilt * tail)).max())
        log_scale = self.log_moment - self.tilt * (epsilon + start)
        if log_scale > _OVERFLOW:
            return 0.0, math.inf
        scale = math.exp(log_scale)
        value = float(self.tilted[first:last] @ heights)
        wrong = self.wrapped * highest + ROUNDING * self.count * (float(heights.sum()) + highest)
        return scale * value, scale * wrong


def power(law: LatticeMasses, count: int) -> LatticeMasses:
    """The law of the sum of ``count`` losses, by convolution: of masses >= 0 it keeps relative precision, however small they are."""
    total, doubled, left = np.ones(1), law.masses, count
    while left:
        if left & 1:
            total = np.convolve(total, doubled)
        left >>= 1
        if left:
            doubled = np.convolve(doubled, doubled)
    return LatticeMasses(law.spacing, count * law.low, total)


def tilt_for(law: Cumulants, count: int, log_level: float) -> float:
    """The tilt at which Chernoff's bound of P(S >= its tilted mean) is about exp(log_level)."""

    def nats(tilt: float) -> float:
        log_moment, mean, _ = law.cumulants(tilt)
        return count * (log_moment - tilt * mean)

    low, high = 1e-6, 1e-3
    while nats(high) > log_level and high < 1e5:
        low, high = high, 2 * high
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if nats(middle) > log_level else (low, middle)
    return high


def radius(law: Cumulants, count: int, tilt: float, rough: Cumulants | None = None) -> float:
    """How far from its mean the tilted sum has all but exp(-36) of its mass, by Chernoff's bound.

    ``rough``: about the same law, cheap to ask; it chooses where Chernoff's bound is taken, at any place of which it holds.
    """

    def bound(law: Cumulants, at: tuple[float, float, float], shift: float) -> float:
        gain = count * (law.cumulants(tilt + shift)[0] - at[0] - shift * at[1])
        return (gain - _LOG_WRAPPED + math.log(2)) / abs(shift)

    own, guide = law.cumulants(tilt), law if rough is None else rough
    at = guide.cumulants(tilt)
    unit = 1 / math.sqrt(count * max(at[2], guide.spacing**2))
    best = [min((sign * unit * _SHIFTS).tolist(), key=functools.partial(bound, guide, at)) for sign in (1.0, -1.0)]
    return max(bound(law, own, shift) for shift in best)


def tilted_sum(law: LatticeMasses, count: int, tilt: float) -> TiltedSum:
    """The sum of ``count`` losses that are alike: :func:`tilted_sum_of`."""
    return tilted_sum_of(LatticeSum(((law, count),)), tilt)


def tilted_sum_of(total: LatticeSum, tilt: float, rough: LatticeSum | None = None) -> TiltedSum:
    """A sum by a periodic convolution on a window that holds all but exp(-36) of the tilted mass; ``rough`` as for ``radius``."""
    h, reach = total.spacing, radius(total, 1, tilt, rough)
    length = scipy.fft.next_fast_len(2 * math.ceil(reach / h) + 3, real=True)
    transform, start, rest = np.ones(length // 2 + 1, dtype=np.complex128), 0, 0.0
    for law, count in total.pieces:
        log_moment, mean, _ = law.cumulants(tilt)
        places, losses, log_masses = law.taken
        whole = round(mean / h)  # counted from the mean, so that phases stay small
        tilted = np.exp(log_masses + tilt * losses - log_moment)
        folded = np.bincount((law.low + places - whole) % length, weights=tilted, minlength=length)
        transform *= scipy.fft.rfft(folded) ** count
        start, rest = start + count * whole, rest + count * (mean / h - whole)
    low = round(rest) - length // 2
    return TiltedSum(
        spacing=h,
        count=total.count,
        tilt=tilt,
        log_moment=total.cumulants(tilt)[0],
        low=start + low,
        tilted=np.maximum(np.roll(scipy.fft.irfft(transform, n=length), -(low % length)), 0.0),
        wrapped=math.exp(_LOG_WRAPPED),
    )
