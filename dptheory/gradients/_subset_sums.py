"""Means over the sum X of a uniformly random subset of given size, drawn from given numbers >= 0.

E[e^(-tX)] is a ratio of elementary symmetric polynomials, e_K(e^(-t a)) / e_K(1), and a coefficient of prod (1 + z e^(-t a_j)).
The coefficient is read off on the circle through the saddle point of the product over z^K, where it is a probability of
independent coin tosses: no overflow, no cancellation.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.errors import ArgumentError
from dptheory.gradients._joined import Levels, joined

_STEP = (
    0.28  # of the trapezoidal rule in log t: relative error 2 |Gamma(1 + 2 pi i / step)| < 1e-13 for every exponential
)
_SMALL = 1e-3  # below t = _SMALL / max X the series of E[e^(-tX)] to second order is exact to 1e-13
_CUT = 40.0  # e^-40 is nothing
_MOST_DIFFERENT, _CELLS, _JOINED = 2000, (700, 2800, 11_200), 1e-8
"""Of more different values near ones are joined, to bounds that differ by so much of the mean at most."""
_NARROW = 1e-290  # beside the largest number: a smaller one would let t overflow


def mean_reciprocal(*, values: Array, keep: int, shift: float = 0.0) -> float:
    r"""E[1 / (shift + X)] for shift > 0, E[1/X; X > 0] for shift = 0, X the sum of keep of the values drawn without replacement.

    .. math:: \int_{-\infty}^\infty e^u\,E[e^{-(shift + X) e^u}]\,du

    Args:
        values: 0 or in [1e-280, 1e140], not all zero, shape (dim,); without a shift within a factor of 1e290 of each other.
        keep: size of the subset, 1..dim.
        shift: 0 or in [1e-290, 1e140], and at least 1e-290 of the largest value.

    Returns:
        The mean, in units of 1 / values.

    Source: RS, Theorem 5.1 (rs.thm5.1).

    Example: by hand: the mean of 1, 1/2 and 1/3.
        >>> import numpy as np
        >>> from dptheory.gradients import mean_reciprocal
        >>> round(mean_reciprocal(values=np.array([1.0, 2.0, 3.0]), keep=1), 4)
        0.6111
    """
    values = _validate.nonnegative("values", values)
    if values.ndim != 1 or not values.any() or values.max() > 1e140 or values[values > 0].min() < 1e-280:
        raise ArgumentError("values", "have shape (dim,) and hold 0 or numbers in [1e-280, 1e140], not all 0", values)
    keep = _validate.integer("keep", keep, 1, values.size)
    shift = _validate.size("shift", shift, _NARROW, 1e140, zero=True)
    scale = max(shift, float(values.max()))
    if 0.0 < shift < _NARROW * scale:
        raise ArgumentError("shift", f"be 0 or at least {_NARROW:g} of the largest of values, {scale:g}", shift)
    if shift == 0.0 and values[values > 0].min() < _NARROW * scale:
        raise ArgumentError("values", f"be 0 or at least {_NARROW:g} of the largest", values)
    return _mean_reciprocal(values / scale, keep, shift / scale) / scale


def _mean_reciprocal(values: Array, keep: int, shift: float) -> float:
    """The mean where the largest of ``values`` and ``shift`` is 1."""
    levels, counts = np.unique(values, return_counts=True)
    if keep == values.size:
        return 1.0 / (shift + float(values.sum()))
    if keep == 1:
        totals = shift + levels
        return float(np.sum(counts[totals > 0] / totals[totals > 0])) / values.size
    zeros = int(levels[0] == 0.0)  # a number of their own: 1/X is no convex function of a number that may be 0
    others = shift + (keep - 2) * float(values.mean())
    for cells in _CELLS:
        if levels.size <= max(_MOST_DIFFERENT, 4 * cells):
            break
        found = joined(Levels(levels[zeros:], counts[zeros:]), cells, others)
        lower, upper = (
            _of_levels(
                Levels(np.concatenate([levels[:zeros], one.levels]), np.concatenate([counts[:zeros], one.counts])),
                keep,
                shift,
            )
            for one in found
        )
        if upper - lower <= _JOINED * upper:
            return (lower + upper) / 2
    return _of_levels(Levels(levels, counts), keep, shift)


def _of_levels(numbers: Levels, keep: int, shift: float) -> float:
    levels, counts = numbers
    law = _SubsetSum(levels, counts, keep, drop_zero=shift == 0.0 and levels[0] == 0.0 and int(counts[0]) >= keep)
    smallest = shift + (float(levels[1]) if law.drop_zero else _first(levels, counts, keep))
    largest = shift + _first(levels[::-1], counts[::-1], keep)
    first, last = math.log(_SMALL / largest), math.log(_CUT / smallest)
    points = np.exp(first + _STEP * np.arange(math.ceil((last - first) / _STEP) + 1))
    total = float(sum(t * math.exp(-t * shift) * law.transform(t) for t in points))
    return _STEP * (total + _left_of(float(points[0]), law.moments(shift)))


def _first(levels: Array, counts: NDArray[np.intp], keep: int) -> float:
    """The sum of the first numbers."""
    before = np.cumsum(counts) - counts
    return float(np.clip(keep - before, 0, counts) @ levels)


def _left_of(first: float, moments: tuple[float, float, float]) -> float:
    """Sum of t (m0 - m1 t + m2 t^2 / 2) over t = first e^(-j step), j = 1, 2, ..."""
    m0, m1, m2 = moments
    geometric = [first**p / math.expm1(p * _STEP) for p in (1, 2, 3)]
    return m0 * geometric[0] - m1 * geometric[1] + m2 * geometric[2] / 2


@dataclass(frozen=True)
class _SubsetSum:
    """The law of X: ``counts`` copies of each of the ``levels`` in rising order, 2 <= keep < dim; X = 0 left out on demand."""

    levels: Array
    counts: NDArray[np.intp]
    keep: int
    drop_zero: bool

    @property
    def dim(self) -> int:
        return int(self.counts.sum())

    def moments(self, shift: float) -> tuple[float, float, float]:
        """E[(shift + X)^p], p = 0, 1, 2; only X > 0 where zero is left out (which is asked for with shift 0 alone)."""
        dim, keep = self.dim, self.keep
        total, squares = float(self.counts @ self.levels), float(self.counts @ self.levels**2)
        mean = keep / dim * total
        second = keep / dim * (squares + (keep - 1) / (dim - 1) * (total**2 - squares))
        return self.transform(0.0), shift + mean, shift**2 + 2 * shift * mean + second

    def transform(self, t: float) -> float:
        """E[e^(-tX)], or E[e^(-tX); X > 0] where zero is left out."""
        s, s0 = self._saddle(t), math.log(self.keep / (self.dim - self.keep))
        change = np.logaddexp(0.0, s - t * self.levels) - np.logaddexp(0.0, s0)
        log_ratio = float(self.counts @ change) - self.keep * (s - s0)
        at_zero = _tossed(np.array([self.dim]), np.array([self.keep / self.dim]), self.keep, 0.0)
        empty = self._all_tails(s, t) if self.drop_zero else 0.0
        return (
            math.exp(log_ratio)
            * _tossed(self.counts, scipy.special.expit(s - t * self.levels), self.keep, empty)
            / at_zero
        )

    def _all_tails(self, s: float, t: float) -> float:
        """Minus the logarithm of the probability that no non-zero level is tossed."""
        return float(self.counts[1:] @ np.logaddexp(0.0, s - t * self.levels[1:]))

    def _saddle(self, t: float) -> float:
        """s = log z at which the mean number of heads (given one of a non-zero level, where zero is left out) is keep."""

        def excess(s: float) -> float:
            heads = scipy.special.expit(s - t * self.levels) * self.counts
            if not self.drop_zero:
                return float(heads.sum()) - self.keep
            tails = self._all_tails(s, t)
            given = float(heads[1:].sum()) / -math.expm1(-tails) if tails > 0 else 1.0
            return float(heads[0]) + given - self.keep

        low = math.log((self.keep - self.drop_zero) / (self.dim - self.keep + self.drop_zero))
        # Beyond this the keep smallest are heads almost surely, and a larger s would only lose digits.
        reached = float(self.levels[np.searchsorted(np.cumsum(self.counts), self.keep)])
        high = math.log(self.keep / (self.dim - self.keep)) + t * float(self.levels[-1])
        high = min(high, max(low, t * reached) + _CUT)
        if high <= low or excess(low) >= 0.0:
            return low
        return float(scipy.optimize.brentq(excess, low, high)) if excess(high) > 0.0 else high


def _tossed(counts: NDArray[np.intp], heads: Array, keep: int, tails: float) -> float:
    """P(keep heads in all, of which one beyond the first level unless tails = 0), by a discrete Fourier transform.

    ``counts`` coins fall on heads with the chances ``heads``; e^-tails is the chance of no head beyond the first level. A
    circle of n points is exact up to the chance of keep +- n heads (Bernstein: nothing beyond n); the characteristic
    function is bounded by exp(-variance (1 - cos angle)), which cuts the circle short where the variance is large.
    """
    spread = counts * heads * (1 - heads)
    variance = float(spread.sum())
    points = min(int(counts.sum()) + 1, math.ceil(_CUT / 3 + math.sqrt(_CUT**2 / 9 + 2 * _CUT * variance)) + 2)
    damping = float(spread[0]) if tails else variance
    total = 0.0
    for n in range(points // 2 + 1):
        angle = 2 * math.pi * n / points
        if damping * 2 * math.sin(angle / 2) ** 2 > _CUT:
            break
        logs = counts * np.log1p(heads * np.expm1(1j * angle))
        if tails:
            value = complex(np.exp(logs[0] - 1j * keep * angle))
            value *= complex(np.expm1(logs[1:].sum())) - math.expm1(-tails)
        else:
            value = complex(np.exp(logs.sum() - 1j * keep * angle))
        total += value.real * (1 if n in (0, points / 2) else 2)
    return total / points
