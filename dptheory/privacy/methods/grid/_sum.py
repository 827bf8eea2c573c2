"""Sums of losses on one grid: bounds of delta(epsilon) for compositions whose steps are not all of one kind.

Splitting moves the sum of T losses up, by at most T h^2 / 8 + h sqrt(T log(1/eta) / 2) but with probability eta (Hoeffding);
sums outside the window wrap around, which Chernoff's bound covers; rounding is bounded under the assumption
that a transform of length n errs by log2(n) units in the last place. Proof: proofs/privacy/tradeoff_curve.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy.methods._closed_forms import LEAST
from dptheory.privacy.methods._log_sum import log_sum
from dptheory.privacy.methods.grid._law import Array, GridLaw, Kind
from dptheory.privacy.methods.saddle._line import log_peak

_LEFT_OUT = 1e-8  # of delta: mass beyond the grid
_WRAP = 34.0  # nats: tilted mass outside the window
_FEWEST, _MOST = 2**15, 2**21
_CELLS = 30_000.0
_FINEST = 1e-300
_MOST_PRODUCTS = 20_000_000  # cells times atoms of all kinds: some seconds
_DEEPEST = -300.0
_EXTRA_TILTS = (math.log(1e-2), math.log(1e4))  # logs, over the window
_ROUNDED = 2.0**-50  # a step's loss, in its mean: differences of masses are rounded, and a cell's split with them
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class TiltedLaw:
    """A loss on multiples of a spacing, tilted.

    Attributes:
        places: rising whole numbers.
        weights: tilted masses, of sum 1.
        log_moment: log of the sum of mass times exp(tilt loss).
        missing, raised: masses above the grid, and from below it.
        wrong: bound of the tilted mass that may stand elsewhere.
        count: number of such losses.
    """

    places: Array
    weights: Array
    log_moment: float
    missing: float
    raised: float
    wrong: float
    count: int

    @classmethod
    def of(cls, law: GridLaw, spacing: float, tilt: float) -> "TiltedLaw":
        places = law.low + np.arange(law.pmf.size, dtype=np.float64)
        with np.errstate(divide="ignore"):
            logs = np.log(law.pmf) + tilt * spacing * places
        log_moment = log_sum(logs)
        if log_moment == -math.inf:
            raise Unresolved("a step's losses lie beyond the grid")
        return cls(places, np.exp(logs - log_moment), log_moment, law.missing, law.raised, 0.0, law.count)

    @classmethod
    def split(
        cls, losses: Array, log_tilted: Array, spacing: float, tilt: float, *, left_out: float, wrong: float
    ) -> "TiltedLaw":
        """One loss on places of its own, given by the logs of its tilted masses: split to the ends of the grid's cells."""
        if tilt * spacing > _LARGEST_EXPONENT:
            raise Unresolved("the tilt is too large for a grid")
        cell = np.floor(losses / spacing)
        from_low = losses - cell * spacing
        up = np.clip(-np.expm1(-from_low) / -math.expm1(-spacing), 0.0, 1.0)
        top = float(log_tilted.max())
        mass = np.exp(log_tilted - top)
        offset = (cell - cell[0]).astype(np.int64)
        size = int(offset[-1]) + 2
        weights = np.bincount(offset, mass * (1 - up) * np.exp(-tilt * from_low), size)
        weights += np.bincount(offset + 1, mass * up * np.exp(tilt * (spacing - from_low)), size)
        total = float(weights.sum())
        places = cell[0] + np.arange(size, dtype=np.float64)
        return cls(places, weights / total, top + math.log(total), left_out, left_out, wrong, 1)


@dataclass(frozen=True, eq=False)
class IndexLaw:
    """All index sets that are released for given batches: one loss, the sum of all, on a lattice of its own.

    Attributes:
        cumulants: log moment, mean and variance at a tilt.
        tilted: the law on multiples of a spacing, at a tilt.
    """

    cumulants: Callable[[float], tuple[float, float, float]]
    tilted: Callable[[float, float], TiltedLaw]


@dataclass(frozen=True, eq=False)
class GridSum:
    """The law of the sum, tilted.

    Attributes:
        losses, tilted: places and tilted masses.
        tilt: c.
        log_moment: log of the sum of exp(c loss).
        wrong: bound of the tilted mass that may stand elsewhere.
        missing, raised: masses above the grid, and from below it.
        steps, spacing: number of split losses, and h.
    """

    losses: Array
    tilted: Array
    tilt: float
    log_moment: float
    wrong: float
    missing: float
    raised: float
    steps: int
    spacing: float

    def upper(self, epsilon: float) -> float:
        """At least delta(epsilon)."""
        value, error = self._value(epsilon - self.steps * _ROUNDED)
        return min(1.0, max(value + error + self.missing, LEAST))

    def lower(self, epsilon: float, eta: float) -> float:
        """At most delta(epsilon); ``eta`` is given away."""
        most = self.steps * self.spacing
        moved = self.spacing * (self.steps * self.spacing / 8 + math.sqrt(self.steps * math.log(1 / eta) / 2))
        if moved >= most:
            moved, eta = most, 0.0
        value, error = self._value(epsilon + moved + self.steps * _ROUNDED)
        return max(0.0, value - error - self.raised - eta)

    def _value(self, epsilon: float) -> tuple[float, float]:
        first = int(np.searchsorted(self.losses, epsilon, side="right"))
        scale = self.log_moment - self.tilt * epsilon
        if scale > _LARGEST_EXPONENT:
            return 0.0, 1.0
        x = self.losses[first:] - epsilon
        kernel = np.exp(-self.tilt * x) * -np.expm1(-x)
        value = math.exp(scale) * float(self.tilted[first:] @ kernel)
        return value, math.exp(scale + log_peak(self.tilt)) * self.wrong + 1e-11 * value


def grid_sum(
    kinds: Sequence[Kind], indices: Sequence[IndexLaw], side: Direction, *, epsilon: float | None = None, delta: float
) -> GridSum:
    """The sum of the losses, precise about ``epsilon``, or where delta(epsilon) is about ``delta``.

    Args:
        kinds: steps; may be empty where there is an index law.
        indices: index sets that are released for given batches.
        side: which of both neighbours has the record.
        epsilon: where the sum is wanted; None for where delta is about ``delta``.
        delta: its size there; masses far below it are left out.
    """
    cumulants = _Cumulants(kinds, indices, side, math.log(delta * _LEFT_OUT))
    tilt = cumulants.tilt_to(epsilon) if epsilon is not None else cumulants.tilt_for(math.log(delta))
    low, high = cumulants.window(tilt)
    steps = sum(kind.count for kind in kinds) + len(indices)
    size = scipy.fft.next_fast_len(int(min(max(_FEWEST, _CELLS * math.sqrt(steps)), _MOST)), real=True)
    spacing = (high - low) / (size - 4)
    if not _FINEST <= spacing < math.inf:
        raise Unresolved("the losses are too small or too large for a grid")
    products = sum(
        (top - bottom) / spacing * k.atoms.mass.size for k, (bottom, top) in zip(kinds, cumulants.ends, strict=True)
    )
    if products > _MOST_PRODUCTS:
        raise Unresolved("the losses of the steps spread too far, or are of too many kinds, for a grid")
    laws = [
        TiltedLaw.of(kind.law(side, spacing, *ends), spacing, tilt)
        for kind, ends in zip(kinds, cumulants.ends, strict=True)
    ]
    laws += [one.tilted(spacing, tilt) for one in indices]
    return _summed(laws, tilt, spacing, size, low)


def _summed(laws: list[TiltedLaw], tilt: float, spacing: float, size: int, low: float) -> GridSum:
    start = math.floor(low / spacing) + 1
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    unit = 2.0**-52 * math.log2(size)
    errors = np.full(spectrum.size, unit)
    shift = 0
    for law in laws:
        middle = round(float(law.weights @ law.places))
        shift += law.count * middle
        one = scipy.fft.rfft(np.bincount((law.places - middle).astype(np.int64) % size, law.weights, size))
        spectrum *= one**law.count
        errors += law.count * unit / np.maximum(np.abs(one), unit)
    moduli = np.abs(spectrum)
    rounding = 4 * math.sqrt(2 * float(np.square(np.minimum(moduli * errors + unit, 1.0)).sum()))
    masses = np.roll(np.maximum(scipy.fft.irfft(spectrum, size), 0.0), (shift - start) % size)
    wrong = _outside(laws, spacing, start, size) + rounding + math.fsum(law.count * law.wrong for law in laws)
    return GridSum(
        losses=spacing * (start + np.arange(size, dtype=np.float64)),
        tilted=masses,
        tilt=tilt,
        log_moment=math.fsum(law.count * law.log_moment for law in laws),
        wrong=wrong,
        missing=math.fsum(law.count * law.missing for law in laws),
        raised=math.fsum(law.count * law.raised for law in laws),
        steps=sum(law.count for law in laws),
        spacing=spacing,
    )


def _outside(laws: list[TiltedLaw], spacing: float, start: int, size: int) -> float:
    """Chernoff's bound of the tilted mass outside the window."""
    kept = [(law.count, np.log(law.weights[some]), law.places[some]) for law in laws for some in [law.weights > 0]]
    total = 0.0
    for sign, edge in ((1.0, spacing * (start + size - 1)), (-1.0, spacing * start)):

        def exponent(log_extra: float, sign: float = sign, edge: float = edge) -> float:
            extra = sign * math.exp(log_extra) / (spacing * size)
            moments = (count * log_sum(logs + extra * spacing * places) for count, logs, places in kept)
            return math.fsum(moments) - extra * edge

        # convex in the extra tilt; any serves for a bound
        best = scipy.optimize.minimize_scalar(exponent, bounds=_EXTRA_TILTS, method="bounded", options={"maxiter": 16})
        total += math.exp(min(0.0, float(best.fun)))
    return total


class _Cumulants:
    """About the log moments of the sum, without the rarest losses: for choosing where to compute, not for a bound."""

    def __init__(
        self, kinds: Sequence[Kind], indices: Sequence[IndexLaw], side: Direction, log_left_out: float
    ) -> None:
        self._indices = indices
        steps = sum(kind.count for kind in kinds) + 1
        level = log_left_out - math.log(2 * steps)
        self._kept: list[tuple[int, Array, Array]] = []
        self.ends: list[tuple[float, float]] = []
        for kind in kinds:
            values, logs = kind.nodes(side)
            first = int(np.searchsorted(np.logaddexp.accumulate(logs), level))
            last = values.size - int(np.searchsorted(np.logaddexp.accumulate(logs[::-1]), level))
            inside = slice(max(0, first - 1), min(values.size, last + 1))
            values, logs = values[inside], logs[inside]
            if values.size == 0 or not np.isfinite(values).all():
                raise Unresolved("a step's losses cannot be put on a grid")
            self._kept.append((kind.count, values, logs))
            ends = (float(values[0]), float(values[-1]))
            if kind.share < 1.0:
                ends = (min(ends[0], 0.0), max(ends[1], 0.0))
            self.ends.append(ends)

    def at(self, tilt: float) -> tuple[float, float, float]:
        """Log moment, mean and variance at a tilt."""
        totals = np.zeros(3)
        for count, values, logs in self._kept:
            exponents = logs + tilt * values
            top = float(exponents.max())
            weights = np.exp(exponents - top)
            total = float(weights.sum())
            mean = float(weights @ values) / total
            variance = float(weights @ (values - mean) ** 2) / total
            totals += count * np.array([top + math.log(total), mean, variance])
        for one in self._indices:
            totals += one.cumulants(tilt)
        return float(totals[0]), float(totals[1]), float(totals[2])

    def tilt_to(self, epsilon: float) -> float:
        """The tilt whose mean is epsilon; at least one over the standard deviation, at which delta is no longer flat."""
        least = 1.0 / math.sqrt(max(self.at(0.0)[2], 1e-300))

        def too_small(tilt: float) -> bool:
            value, mean, _ = self.at(tilt)
            return mean < epsilon and value - tilt * mean > _DEEPEST

        return self._solve(least, too_small)

    def tilt_for(self, log_delta: float) -> float:
        """The tilt to the epsilon where the saddle point estimate of delta is exp(log_delta)."""

        def too_small(tilt: float) -> bool:
            value, mean, variance = self.at(tilt)
            return (
                value - tilt * mean - math.log(max(1.0, tilt * (tilt + 1) * math.sqrt(2 * math.pi * variance)))
                > log_delta
            )

        return self._solve(1.0 / math.sqrt(max(self.at(0.0)[2], 1e-300)), too_small)

    def _solve(self, least: float, too_small: Callable[[float], bool]) -> float:
        low, high = math.log(least), math.log(max(least, 1.0) * 1e6)
        if not too_small(least):
            return least
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if too_small(math.exp(middle)) else (low, middle)
        return math.exp(low)

    def window(self, tilt: float) -> tuple[float, float]:
        """Where the tilted sum lies but for e^-_WRAP, about."""
        value, mean, variance = self.at(tilt)
        deviation = math.sqrt(max(variance, 1e-300))
        if value - tilt * mean < 2 * _DEEPEST:
            raise Unresolved("delta is too small for a grid")
        ends = []
        for sign in (-1.0, 1.0):
            bounds = [
                (self.at(tilt + sign * s)[0] - value + _WRAP) / s for s in np.geomspace(0.2, 12.0, 12) / deviation
            ]
            ends.append(sign * min(bounds))
        widest = ends[1] - ends[0]
        return ends[0] - 0.02 * widest, ends[1] + 0.02 * widest
