r"""Renyi divergence of one Poisson-subsampled Gaussian step, at every real order above 1, by one quadrature.

With the loss L under P and s = order - 1, :math:`e^{sD} = E_P\,e^{sL}`. As :math:`E_P\,e^{-L} = 1`,

.. math:: e^{sD} - 1 = E_P\left[(e^{sL} - 1 - sL) + s\,(e^{-L} - 1 + L)\right]:

two terms that are never negative. So nothing cancels, however small the divergence is and however close the order to 1,
where D tends to the Kullback-Leibler divergence :math:`E_P[e^{-L} - 1 + L]`.

The integrand is analytic near the real line and falls like a Gaussian: the trapezoid rule converges geometrically. The
spacing is halved until nothing changes; nodes are left out only where a bound says that they add nothing.
"""

import decimal
import functools
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from dptheory.privacy.methods._log_sum import expm1_minus
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.renyi._conversion import least_epsilon

Array = NDArray[np.float64]
Whole = NDArray[np.intp]

MAX_ORDER = 1e7
RELATIVE_ERROR = 1e-11
"""Ten times what tests hold it to; for upper bounds."""
_APART = 100.0  # shifts from here on: what the Gaussians with and without the record have in common is below e^(-800)
_NEGLIGIBLE = 45.0  # nats below the largest term
_CELL = 0.5
_FIRST_CELLS = 32
_SETTLED = 1e-14
_HALVINGS = 30
_ROUNDING = 2e-15
_MOST_NODES = 8_000_000
_SMALL, _TINY = 1e-100, 1e-300
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


def sampled_renyi_epsilon(loss: Loss, steps: int, delta: float) -> float:
    """The least epsilon that the Renyi divergences of ``steps`` steps prove at delta, over all real orders."""

    def curve(orders: Array) -> Array:
        return steps * (1.0 + RELATIVE_ERROR) * renyi_divergences(loss, orders)

    return least_epsilon(curve, delta, MAX_ORDER)


def renyi_divergences(loss: Loss, orders: Array) -> Array:
    """D_order(P || Q) of one step at a row of orders in (1, MAX_ORDER]; inf where it overflows. Relative error below 1e-12."""
    rate, shift = loss.sampling_rate, 1.0 / loss.noise_multiplier
    if rate == 0.0 or shift == 0.0:
        return np.zeros(orders.shape)
    with np.errstate(over="ignore"):
        if rate == 1.0:
            return np.asarray(orders * np.square(2.0 * shift if loss.direction == "replace" else shift) / 2.0)
        log_gain = _log_gain_apart(loss, orders) if shift > _APART else _Integrand(loss, orders - 1.0).log_integral()
    return np.asarray(np.logaddexp(0.0, log_gain) / (orders - 1.0))


def _log_gain_apart(loss: Loss, orders: Array) -> Array:
    """log(e^(sD) - 1) where every output shows whether the record was drawn; rate in (0, 1)."""
    rate, excess = loss.sampling_rate, orders - 1.0
    drawn, left_out = math.log(rate), math.log1p(-rate)
    if loss.direction == "add":
        return _log_expm1(-excess * left_out)
    jump = drawn - (loss.direction == "replace") * left_out + orders * np.square(1.0 / loss.noise_multiplier) / 2.0
    gain = _log_expm1(excess * jump)
    if loss.direction == "replace":
        return drawn + gain
    return np.asarray(drawn + gain + np.log1p((1.0 - rate) / rate * np.expm1(excess * left_out) * np.exp(-gain)))


def _log_expm1(x: Array) -> Array:
    return np.asarray(x + np.log(-np.expm1(-x)))


@dataclass(frozen=True)
class _Points:
    """Outputs z, in the order of the numbers ``which`` of the orders that they belong to."""

    which: Whole
    z: Array

    @functools.cached_property
    def starts(self) -> Whole:
        """The first point of each order."""
        return np.append(0, 1 + np.flatnonzero(self.which[1:] != self.which[:-1]))


@dataclass(frozen=True)
class _Integrand:
    """sqrt(2 pi) times the density of P times both terms of e^(sD) - 1 for a row of s, as functions of the output."""

    loss: Loss
    excess: Array

    def log_integral(self) -> Array:
        """log(e^(sD) - 1)."""
        cells, spacing, top = self._cells()
        reference = np.array([self._exact(s, z) for s, z in zip(self.excess.tolist(), top.tolist(), strict=True)])
        found = self._log_sums(cells, top, reference, np.full(self.excess.size, -np.inf)) + math.log(spacing)
        before = np.full(found.size, _SETTLED)
        for _ in range(_HALVINGS):
            spacing /= 2
            between = _Points(cells.which, cells.z + spacing)
            finer = self._log_sums(between, top, reference, found - math.log(2 * spacing)) + math.log(spacing)
            present = np.zeros(found.size, dtype=bool)
            present[cells.which] = True
            change = np.abs(finer - found)
            # The change is about the error of the coarser sum; that of the finer one is smaller by more than this ratio, as
            # errors fall like r^(1 / spacing). Rounding is that of the exponents.
            left = change * np.minimum(1.0, change / before)
            moves = (
                present & (left > _SETTLED * np.maximum(1.0, np.abs(finer))) & (change > _ROUNDING * (1 + np.abs(top)))
            )
            found, before = np.where(present, finer, found), np.maximum(change, _SETTLED)
            if not moves.any():
                return found - _LOG_ROOT_2PI
            still = moves[cells.which]
            cells = _Points(np.repeat(cells.which[still], 2), _halves(cells.z[still], spacing))
            if cells.z.size > _MOST_NODES:
                break
        raise ArithmeticError(f"a Renyi divergence does not settle: please report {self.loss} and {1 + self.excess!r}")

    def _log_mixture(self, z: Array) -> Array:
        """log(1 - q + q e^(tz - t^2 / 2)), t the shift."""
        return Loss("remove", self.loss.noise_multiplier, self.loss.sampling_rate).at(z)

    @property
    def _powers(self) -> tuple[tuple[float, Array], ...]:
        """In the density of P times e^(sL): the mixture at z (sign 1) or -z (sign -1), and its exponent."""
        return {
            "remove": ((1.0, 1.0 + self.excess),),
            "add": ((-1.0, -self.excess),),
            "replace": ((1.0, 1.0 + self.excess), (-1.0, -self.excess)),
        }[self.loss.direction]

    def _losses(self, z: Array) -> tuple[Array, Array]:
        """The loss, and log of the density of P over that of N(0, 1)."""
        if self.loss.direction == "add":
            return -self._log_mixture(-z), np.zeros(z.shape)
        up = self._log_mixture(z)
        return (up if self.loss.direction == "remove" else up - self._log_mixture(-z)), up

    def _cells(self) -> tuple[_Points, float, Array]:
        """Left ends of the cells that matter, their width, and an output where the integrand is about the largest.

        On a cell each factor is largest at an end: the normal density at the end nearer to 0, that of P over it at the right
        end, both terms, which fall with the loss below 0 and rise above, at either end. Both together are at most
        s (s + 1) / 2 L^2 max(e^(sL), e^(-L), 1).
        """
        count = self.excess.size
        reach = 2.0 ** math.ceil(math.log2((2.0 * self.excess.max() + 4.0) / self.loss.noise_multiplier + 14.0))
        width = max(reach / _FIRST_CELLS, _CELL)
        first = np.arange(-reach, reach, width)
        points = _Points(np.repeat(np.arange(count), first.size), np.tile(first, count))
        largest, top = np.full(count, -np.inf), np.zeros(count)
        while True:
            s, ends = self.excess[points.which], np.stack([points.z, points.z + width])
            loss, density = self._losses(ends)
            terms = _log_square(s, loss) + np.maximum(s * loss, -np.minimum(loss, 0.0))
            left = terms[0] + density[0] - points.z * points.z / 2
            largest, top = self._larger(points, left, largest, top)
            near = np.abs(ends).min(axis=0) * (ends[0] * ends[1] > 0)
            kept = terms.max(axis=0) + density[1] - near * near / 2 > largest[points.which] - _NEGLIGIBLE
            points = _Points(points.which[kept], points.z[kept])
            if width <= _CELL:
                return points, width, top
            width /= 2
            points = _Points(np.repeat(points.which, 2), _halves(points.z, width))

    def _larger(self, points: _Points, bounds: Array, largest: Array, top: Array) -> tuple[Array, Array]:
        """The largest value of each integrand so far and its output: the value itself where its bound is largest."""
        highest = np.full(self.excess.size, -np.inf)
        highest[points.which[points.starts]] = np.maximum.reduceat(bounds, points.starts)
        at = np.flatnonzero(bounds == highest[points.which])
        best = _Points(points.which[at], points.z[at])
        values = self._log_values(best)
        order = np.lexsort((values, best.which))  # the last of every order has its largest value
        ends = np.append(np.flatnonzero(np.diff(best.which[order])), order.size - 1)
        chosen = order[ends]
        number, value, z = best.which[chosen], values[chosen], best.z[chosen]
        better = value > largest[number]
        largest, top = largest.copy(), top.copy()
        largest[number[better]], top[number[better]] = value[better], z[better]
        return largest, top

    def _log_values(self, points: _Points, powered: Array | None = None) -> Array:
        """log of the integrand; ``powered``: of sqrt(2 pi) times the density of P times e^(sL), where it is known better."""
        loss, density = self._losses(points.z)
        density = density - points.z**2 / 2
        s = self.excess[points.which]
        x = s * loss
        high, low = x > 1.0, loss < -1.0
        # the larger of both terms grows like e^(sL), e^(-L) or 1: this is taken out
        fall, rise = np.exp(-np.where(high, x, 0.0)), np.exp(np.where(low, loss, 0.0))
        first = np.where(high, 1.0 - (1.0 + x) * fall, expm1_minus(np.where(high, 0.0, x)) * rise)
        second = np.where(low, 1.0 - (1.0 - loss) * rise, expm1_minus(np.where(low, 0.0, -loss)) * fall)
        both = np.where(np.abs(loss) < _SMALL, _log_square(s, loss), np.log(np.maximum(first + s * second, _TINY)))
        return np.asarray(
            both + np.where(high, density + x if powered is None else powered, density - np.where(low, loss, 0.0))
        )

    def _log_sums(self, points: _Points, top: Array, reference: Array, known: Array) -> Array:
        """log of the sum over the points of each order and of ``known``'s exponential."""
        at = top[points.which]
        moved = points.z - at
        powered = reference[points.which] - moved * (points.z + at) / 2
        for sign, power in self._powers:
            powered = powered + power[points.which] * self._rise(sign * at, sign * moved)
        logs = self._log_values(points, powered)
        numbers = points.which[points.starts]
        largest = known.copy()
        largest[numbers] = np.maximum(known[numbers], np.maximum.reduceat(logs, points.starts))
        sums = np.exp(known - largest)
        sums[numbers] += np.add.reduceat(np.exp(logs - largest[points.which]), points.starts)
        return np.asarray(largest + np.log(sums))

    def _rise(self, top: Array, moved: Array) -> Array:
        """log mixture at top + moved less that at top; by its increment where this is small, as a power may magnify it."""
        t, q = 1.0 / self.loss.noise_multiplier, self.loss.sampling_rate
        log_odds = math.log1p(-q) - math.log(q) + t * t / 2 - t * top
        share = 1.0 / (1.0 + np.exp(np.minimum(log_odds, 700.0)))
        near = np.abs(t * moved) < 1.0
        small = np.log1p(share * np.expm1(np.where(near, t * moved, 0.0)))
        return np.where(near, small, self._log_mixture(top + moved) - self._log_mixture(top))

    def _exact(self, excess: float, z: float) -> float:
        """log of sqrt(2 pi) times the density of P times e^(sL) at z: its parts, which may be in the millions, may cancel."""
        with decimal.localcontext(prec=50, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
            q, t, output = Decimal(self.loss.sampling_rate), 1 / Decimal(self.loss.noise_multiplier), Decimal(z)
            total = -output * output / 2
            for sign, _ in self._powers:
                power = 1 + Decimal(excess) if sign > 0 else -Decimal(excess)
                total += power * (1 - q + q * (t * int(sign) * output - t * t / 2).exp()).ln()
            return float(total)


def _log_square(s: Array, loss: Array) -> Array:
    """log of both terms where the loss is small: s (s + 1) L^2 / 2."""
    return np.asarray(np.log(s * (s + 1.0) / 2.0) + 2.0 * np.log(np.maximum(np.abs(loss), _TINY)))


def _halves(left: Array, width: float) -> Array:
    return np.asarray(np.repeat(left, 2) + np.tile((0.0, width), left.size))
