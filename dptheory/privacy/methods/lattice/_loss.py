"""The privacy loss of the index mechanism lives on a lattice: exact composition, for delta of 1e-15 and below."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import MAX_RELEASES, total_loss
from dptheory.privacy.methods._closed_forms import log_delta_at
from dptheory.privacy.methods._log_sum import log_moments, log_sum

Array = NDArray[np.float64]

_MAX_GRID = 2**26
_DIRECT_GRID = 8_000  # up to this size the powers are convolved directly: every entry keeps its relative precision
_TRIM = 200.0  # nats: entries rarer than e^-200 take no part in a composition, their mass is added to delta
_WINDOW = 60.0  # nats: mass of the tilted sum outside the Fourier window is below 2 e^-60
_FOURIER_GRID = 2**20  # a wider sum is bounded by a normal law instead: milliseconds, where a transform takes minutes
_BERRY_ESSEEN = 0.4748  # Shevtsova (2011), for independent summands of one law
_NORMAL_ROUNDING = 1e-13  # relative error of delta over sqrt(count), generously
ROUNDING = 2e-12  # relative, of a table's moments and deltas: twice what was measured, with 2e-15 a release
_ROUNDS = 6
_FINEST = 4.0 * np.finfo(np.float64).eps  # brentq takes no smaller tolerance
_TOP = 5.0  # expected distance from the largest sum below which the tilt goes no further


@dataclass(frozen=True, eq=False, kw_only=True)
class LatticeLoss:
    """Law of the privacy loss ``spacing * j``, j = low, low + 1, ..., of two references of the index mechanism.

    Args:
        spacing: step of the lattice, 2 theta; inf where the two output laws have no common support.
        low: j of the first entry.
        log_pmf: log P(j), normalised; -inf where the loss does not take that value.
        top: largest j that the loss can take, where the entries beyond are left out.
        log_omitted: log of a bound on the mass left out.

    Source: GIP, Theorems 1 and 2 (gip.tight).
    """

    spacing: float
    low: int
    log_pmf: Array
    top: int
    log_omitted: float = -math.inf

    def delta(self, *, epsilon: float, count: int = 1) -> float:
        r"""Smallest delta with which ``count`` adaptive releases are (epsilon, delta)-private for this pair.

        .. math:: \delta(\epsilon) = E[(1 - e^{\epsilon - L})^+], \quad L \text{ the sum of count independent losses}

        The lattice makes the sum exact; what is left is rounding (relative error about 1e-12 + 1e-15 count). Losses rarer
        than e^-200 take no part in the sum; their mass, at most about 1e-80 count, is added, so delta is never too small.
        Sums that spread over more than 2^20 lattice points (from about 1e9 releases on) are tilted to epsilon and replaced
        by a normal law; the error of that, by the theorem of Berry and Esseen, is added: delta is then an upper bound.

        Args:
            epsilon: >= 0.
            count: number of releases, 1..1e12.

        Returns:
            delta, in [0, 1].

        Source: GIP, Theorem 2 (gip.tight).

        Example: by hand: at epsilon 0 the total variation distance of (3/4, 1/4) and (1/4, 3/4).
            >>> import math
            >>> from dptheory.privacy.index_sets import loss_law
            >>> from dptheory.pruning import SubsetMallows
            >>> law = loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2))
            >>> round(law.delta(epsilon=0.0), 6)
            0.5
        """
        epsilon = _validate.real("epsilon", epsilon, 0.0)
        count = _validate.integer("count", count, 1, MAX_RELEASES)
        if self.spacing == 0.0 or epsilon >= total_loss(self.spacing, self.top * count):
            return 0.0
        if math.isinf(self.spacing):
            return 1.0
        law = _Trimmed.of(self)
        tilt = law.tilt(epsilon / self.spacing, count)
        if law.window(count, tilt) > _FOURIER_GRID:
            log_delta = self._wide_log_delta(law, epsilon, count)
        else:
            log_delta = _log_delta(law.sums(count, tilt), epsilon, self.spacing)
        return min(1.0, math.exp(min(0.0, log_delta)) + count * law.left_out)

    def epsilon(self, *, delta: float, count: int = 1) -> float:
        """Smallest epsilon >= 0 at which :meth:`delta` is at most ``delta``, rounded up: ``delta`` of it is at most ``delta``.

        The largest loss where ``delta`` is below the mass of the losses that take no part in the sum, or so small that no number
        next below the largest loss keeps it.

        Args:
            delta: in [0, 1); 0 gives the pure epsilon, the largest loss.
            count: number of releases, 1..1e12.

        Returns:
            Epsilon in nats, >= 0.

        Raises:
            ValueError: as :meth:`delta`.

        Source: GIP, Theorem 2 (gip.tight).

        Example: 100 releases of pure epsilon log 3 each: far from 110 at any delta above 0.
            >>> import math
            >>> from dptheory.privacy.index_sets import loss_law
            >>> from dptheory.pruning import SubsetMallows
            >>> law = loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2))
            >>> [round(law.epsilon(delta=delta, count=100), 2) for delta in (0.0, 1e-5)]
            [109.86, 90.78]
        """
        delta = _validate.real("delta", delta, 0.0, 1.0, ends="[)")
        count = _validate.integer("count", count, 1, MAX_RELEASES)
        largest = total_loss(self.spacing, self.top * count)
        if delta == 0.0 or largest == 0.0 or math.isinf(largest):
            return largest
        if self.delta(epsilon=0.0, count=count) <= delta:
            return 0.0
        law = _Trimmed.of(self)
        if delta <= count * law.left_out:
            return largest
        target = math.log(delta - count * law.left_out)
        if law.window(count, 0.0) > _FOURIER_GRID:
            return self._kept(self._wide_epsilon(law, target, count), delta, count)
        tilt = law.chernoff_tilt(-target, count)
        found = math.inf
        for _ in range(
            _ROUNDS
        ):  # a sum is most precise where its tilt puts the mass, so tilt to the epsilon just found
            sums, before = law.sums(count, tilt), found
            found = _solve(sums, target, self.spacing, largest)
            if abs(found - before) <= 1e-9 * found:
                break
            tilt = law.tilt(found / self.spacing, count)
        return self._kept(found, delta, count)

    def _kept(self, epsilon: float, delta: float, count: int) -> float:
        """``epsilon``, or the first larger one, in growing steps, that keeps ``delta``; the largest loss keeps every delta."""
        largest = total_loss(self.spacing, self.top * count)
        step = max(4.0 * math.ulp(epsilon), 1e-15 * self.spacing)
        while epsilon < largest and self.delta(epsilon=epsilon, count=count) > delta:
            epsilon, step = epsilon + step, 4.0 * step
        return min(epsilon, largest)

    def renyi(self, *, order: float) -> float:
        """Renyi divergence of this order; an upper bound, at most the zCDP one, where entries were left out, else exact.

        Args:
            order: in (1, inf]; above 1e9 the largest loss, which is what inf gives.

        Returns:
            The divergence in nats.

        Source: GIP, Theorem 2 (gip.tight).

        Example: by hand, at order 2: log((3/4)^2 / (1/4) + (1/4)^2 / (3/4)) = log(7/3).
            >>> import math
            >>> from dptheory.privacy.index_sets import loss_law
            >>> from dptheory.pruning import SubsetMallows
            >>> law = loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2))
            >>> round(law.renyi(order=2.0), 4)
            0.8473
        """
        order = _validate.real("order", order, 1.0, ends="(]")
        return self.spacing * self.top if order > 1e9 else float(renyi_curve(self, np.array([order]))[0])

    def _wide_log_delta(self, law: "_Trimmed", epsilon: float, count: int) -> float:
        r"""Upper bound of log delta for a sum that spreads over very many lattice points.

        With the summands tilted by :math:`e^{\lambda L}`, K their log moment, and g(x) = e^(-lambda x) (1 - e^-x) for x > 0,

        .. math:: \delta(\epsilon) = e^{nK(\lambda) - \lambda\epsilon}\, E_\lambda\,g(L - \epsilon) .

        The normal law of the same mean and variance has that expectation in closed form; the error is at most the
        variation of g times Berry and Esseen's bound on the distance of the distribution functions. That error is small
        for any lambda from about one over the standard deviation on, best where the tilted mean is epsilon.
        """
        plain = law.tilted(0.0)
        deviation = math.sqrt(float(plain @ np.square(law.j - float(plain @ law.j))))
        tilt = max(law.tilt(epsilon / self.spacing, count), 1.0 / (deviation * math.sqrt(count)))
        rate = tilt / self.spacing
        tilted = law.tilted(tilt)
        mean = float(tilted @ law.j)
        square = np.square(law.j - mean)
        variance = float(tilted @ square)
        spread = self.spacing * math.sqrt(count * variance)
        third = float(tilted @ (square * np.abs(law.j - mean))) / variance**1.5
        far = (count * self.spacing * mean - epsilon) / spread  # 0 where the tilt moves the mean to epsilon
        x = rate * spread - far
        log_normal = log_delta_at(spread, x) + (x * x - far * far) / 2
        log_variation = math.log(2.0) - rate * math.log1p(1.0 / rate) - math.log1p(rate)
        log_error = math.log(_BERRY_ESSEEN * third / math.sqrt(count)) + log_variation
        log_moment = count * float(log_moments(int(law.j[0]), law.log_pmf, self.spacing, np.array([rate]))[0])
        rounding = _NORMAL_ROUNDING * math.sqrt(count) * (1.0 + abs(x))
        return float(log_moment - rate * epsilon + np.logaddexp(log_normal, log_error) + rounding)

    def _wide_epsilon(self, law: "_Trimmed", target: float, count: int) -> float:
        """epsilon at which the bound of :meth:`_wide_log_delta` is ``target``."""

        def excess(epsilon: float) -> float:
            return max(self._wide_log_delta(law, epsilon, count), -1e6) - target

        largest = total_loss(self.spacing, self.top * count)
        high = min(largest, self.spacing * math.sqrt(count))
        while high < largest and excess(high) > 0.0:
            high = min(largest, 2.0 * high)
        return _root(excess, high)


def rounding(loss: LatticeLoss, epsilon: float, count: int) -> float:
    """By how much delta may be too small, relatively; that of a sum bounded by a normal law is not."""
    if loss.spacing == 0.0 or math.isinf(loss.spacing):
        return 0.0
    law = _Trimmed.of(loss)
    wide = law.window(count, law.tilt(epsilon / loss.spacing, count)) > _FOURIER_GRID
    return 0.0 if wide else ROUNDING * (1.0 + 1e-3 * count)


def renyi_curve(loss: LatticeLoss, orders: Array) -> Array:
    """:meth:`LatticeLoss.renyi` at several orders in (1, 1e9], a vector."""
    largest = loss.spacing * loss.top
    if largest == 0.0 or math.isinf(largest):
        return np.full(orders.shape, largest)
    excess = orders - 1.0
    main = log_moments(loss.low, loss.log_pmf, loss.spacing, excess)
    found = np.logaddexp(main, loss.log_omitted + excess * largest) / excess
    return np.minimum(np.minimum(largest, 0.5 * orders * loss.spacing * largest), np.maximum(found, 0.0))


def composed(*, loss: LatticeLoss, count: int) -> tuple[int, Array]:
    """First lattice point and log P of the sum of ``count`` losses; absolute error of the probabilities about 1e-16 count.

    Args:
        loss: one loss, of finite positive spacing.
        count: 1..1e12.

    Returns:
        The first point, and the log probabilities from there on.

    Raises:
        ValueError: count outside its range, or a sum too wide for 2^26 grid points.

    Source: GIP, Theorem 2 (gip.tight).

    Example: by hand: two losses of log 3 or -log 3 sum to -2, 0 or 2 steps with 1, 6 and 9 of 16 parts.
        >>> import math
        >>> import numpy as np
        >>> from dptheory.privacy.index_sets import composed, loss_law
        >>> from dptheory.pruning import SubsetMallows
        >>> low, log_pmf = composed(loss=loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2)), count=2)
        >>> low, (16 * np.exp(log_pmf)).round(4) + 0.0
        (-2, array([1., 0., 6., 0., 9.]))
    """
    sums = _Trimmed.of(loss).sums(_validate.integer("count", count, 1, MAX_RELEASES), 0.0)
    return sums.low, sums.log_pmf


@dataclass(frozen=True)
class _Sums:
    """log P(S) for S = low, low + 1, ..."""

    low: int
    log_pmf: Array


def _log_delta(sums: _Sums, epsilon: float, spacing: float) -> float:
    first = max(math.floor(Fraction(epsilon) / Fraction(spacing)) + 1, sums.low)
    tail = sums.log_pmf[first - sums.low :]
    if tail.size == 0:
        return -math.inf
    beyond = float(first * Fraction(spacing) - Fraction(epsilon))
    with np.errstate(divide="ignore"):
        return log_sum(tail + np.log(-np.expm1(-beyond - spacing * np.arange(tail.size, dtype=np.float64))))


def _solve(sums: _Sums, target: float, spacing: float, largest: float) -> float:
    """epsilon in [0, largest] with log delta(epsilon) = target."""

    def excess(epsilon: float) -> float:
        return max(_log_delta(sums, epsilon, spacing), -1e6) - target

    return _root(excess, largest)


def _root(excess: Callable[[float], float], high: float) -> float:
    """Where a falling function of epsilon crosses 0 in [0, high]; the end that is nearer to that where it does not."""
    if excess(0.0) <= 0.0:
        return 0.0
    return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-300, rtol=_FINEST)) if excess(high) < 0.0 else high


@dataclass(frozen=True)
class _Trimmed:
    """A loss without its rarest entries, with the sums that composition needs."""

    j: Array
    log_pmf: Array
    left_out: float
    """Mass of the entries that are missing."""

    @classmethod
    def of(cls, loss: LatticeLoss) -> "_Trimmed":
        likely = np.flatnonzero(loss.log_pmf > loss.log_pmf.max() - _TRIM)
        kept = loss.log_pmf[likely[0] : likely[-1] + 1]
        j = loss.low + np.arange(likely[0], likely[-1] + 1, dtype=np.float64)
        rare = np.concatenate([loss.log_pmf[: likely[0]], loss.log_pmf[likely[-1] + 1 :]])
        return cls(j, kept - log_sum(kept), float(np.exp(rare).sum()) + math.exp(loss.log_omitted))

    def cumulant(self, tilt: float) -> float:
        return log_sum(self.log_pmf + tilt * self.j)

    def tilted(self, tilt: float) -> Array:
        law = np.exp(self.log_pmf + tilt * self.j - self.cumulant(tilt))
        return np.asarray(law / law.sum())

    def shortfall(self, tilt: float) -> float:
        """Largest value minus the mean under the tilted law, without cancellation."""
        return float(self.tilted(tilt) @ (self.j[-1] - self.j))

    def tilt(self, target: float, count: int) -> float:
        """Tilt >= 0 whose mean sum is ``target``, or close to the largest sum."""
        wanted = max(self.j[-1] - target / count, _TOP / count)
        if self.shortfall(0.0) <= wanted:
            return 0.0
        return float(scipy.optimize.brentq(lambda t: self.shortfall(t) - wanted, 0.0, self._steep(wanted)))

    def chernoff_tilt(self, nats: float, count: int) -> float:
        """Tilt of the Chernoff bound on the tail that weighs e^-nats."""
        steep = self.tilt(math.inf, count)

        def gap(tilt: float) -> float:
            mean = float(self.tilted(tilt) @ self.j)
            return count * (tilt * mean - self.cumulant(tilt)) - nats

        if gap(0.0) >= 0.0:  # by the rounding of the cumulant, where next to nothing is asked
            return 0.0
        return steep if gap(steep) <= 0.0 else float(scipy.optimize.brentq(gap, 0.0, steep))

    def _steep(self, wanted: float) -> float:
        tilt = 1e-6
        while self.shortfall(tilt) > wanted:
            tilt *= 2.0
        return tilt

    def sums(self, count: int, tilt: float) -> _Sums:
        """Law of the sum of ``count`` losses where the tilted law has its mass."""
        width = self.j.size - 1
        if width * count < _DIRECT_GRID:
            with np.errstate(divide="ignore"):
                return _Sums(int(self.j[0]) * count, np.log(_power(self.tilted(0.0), count)))
        law = self.tilted(tilt)
        return self._fourier(law, float(law @ self.j), count, tilt, self.window(count, tilt))

    def window(self, count: int, tilt: float) -> int:
        """Lattice points that hold all but 2 e^-_WINDOW of the tilted sum, by Bernstein's inequality, or all of them."""
        law, width = self.tilted(tilt), self.j.size - 1
        spread = count * float(law @ np.square(self.j - float(law @ self.j)))
        reach = width * _WINDOW / 3.0 + math.sqrt((width * _WINDOW / 3.0) ** 2 + 2.0 * spread * _WINDOW)
        return min(2 * math.ceil(reach) + 3, count * width + 1)

    def _fourier(self, law: Array, mean: float, count: int, tilt: float, size: int) -> _Sums:
        if size > _MAX_GRID:
            raise ArgumentError(
                "count", f"leave a grid of at most {_MAX_GRID} points", count, got=f"{size} points for count={count}"
            )
        length = scipy.fft.next_fast_len(max(size, law.size), real=True)
        # Count from the whole number next to the mean, so that phases stay small; place the rest of the mean at the end.
        whole = round(mean)
        padded = np.zeros(length)
        padded[: law.size] = law
        shifted = np.roll(padded, int(self.j[0]) - whole)
        power = scipy.fft.irfft(scipy.fft.rfft(shifted) ** count, n=length)
        centre = round(count * (mean - whole))
        low = centre - length // 2
        power = np.roll(power, -low)
        start = count * whole + low
        s = start + np.arange(length, dtype=np.float64)
        inside = (s >= count * self.j[0]) & (s <= count * self.j[-1])
        with np.errstate(divide="ignore"):
            log_pmf = np.log(np.maximum(power, 0.0)) + count * self.cumulant(tilt) - tilt * s
        return _Sums(start, np.where(inside, log_pmf, -np.inf))


def _power(law: Array, count: int) -> Array:
    """count-fold convolution by repeated squaring; all terms are >= 0, so nothing cancels."""
    result, square = np.ones(1), law
    while count:
        if count & 1:
            result = np.convolve(result, square)
        count >>= 1
        if count:
            square = np.convolve(square, square)
    return np.asarray(result)
