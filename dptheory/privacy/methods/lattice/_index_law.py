"""The law of the privacy loss of the index mechanism, on a lattice: as a table, and of large groups by its moments."""

import decimal
import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import expit

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import double_above, total_loss
from dptheory.privacy.methods.lattice._loss import (
    ROUNDED,
    ROUNDING,
    LatticeLoss,
    Tilted,
    delta_bounds,
    epsilon_bounds,
    renyi_curve,
    table_bounds,
    table_of,
)
from dptheory.pruning import SubsetMallows

Array = NDArray[np.float64]
Reals = NDArray[np.float64]
Complexes = NDArray[np.complex128]

_CUT = 230.0  # nats: three factors of e^-230 do not underflow
_MOST_ENTRIES, SMALL_GROUP = 10**7, 10**5
POINT_MASS = 300.0  # dispersion above which the mechanism returns its reference, up to e^-500


def loss_law(*, mechanism: SubsetMallows, distance: int | None = None) -> LatticeLoss:
    r"""Law of the privacy loss of two references at Hamming distance ``distance``, on the lattice of step 2 theta.

    With A, B the references, m = distance / 2 = |A \\ B| and I drawn around A, the loss is
    :math:`2\theta(X - Y)`, X = \|I ∩ (A \\ B)\|, Y = \|I ∩ (B \\ A)\|, and

    .. math:: P(x, y) \propto \binom mx\binom my e^{2\theta x}\; [t^{K-x-y}]\,(1 + e^{2\theta}t)^{K-m}(1+t)^{d-K-m} .

    The two orders of the pair have the same law. The pair at the largest distance dominates all others, so its law is the
    one to compose; releases compose as in :meth:`dptheory.privacy.index_sets.LatticeLoss.delta`.

    The counts of X, Y, of the other members and of the other entries of I have binomial weights. Those below e^-230 of their
    largest are left out; ``log_omitted`` is then log(d^3 e^-230 / Z), Z the sum of all products of the four weights, each
    relative to its largest, with the odds tilted so that the mean size of I is K. Where nothing is left out it is -inf.

    Args:
        mechanism: the mechanism.
        distance: even integer in 2..2 max_swaps; None for the largest.

    Returns:
        The law.

    Raises:
        ValueError: an argument outside its range, or a group of more than 1e7 entries: of those
            :class:`dptheory.privacy.Composition` of :class:`dptheory.privacy.IndexSteps` bounds epsilon and delta.

    Source: GIP, Theorems 1 and 2 (gip.tight).

    Example: by hand: keep one of two at odds 3 : 1. The loss is log 3 three times in four, else -log 3.
        >>> import math
        >>> from dptheory.privacy.index_sets import loss_law
        >>> from dptheory.pruning import SubsetMallows
        >>> law = loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2))
        >>> round(law.spacing, 4), law.low, [round(math.exp(log), 4) for log in law.log_pmf]
        (1.0986, -1, [0.25, 0.0, 0.75])
    """
    _validate.instance("mechanism", mechanism, SubsetMallows)
    if mechanism.dim > _MOST_ENTRIES and mechanism.theta <= POINT_MASS:
        raise ArgumentError(
            "dim",
            f"be at most {_MOST_ENTRIES} for a table of losses; Composition([IndexSteps(...)]) bounds epsilon and delta beyond",
            mechanism.dim,
        )
    if distance is None:
        distance = 2 * mechanism.max_swaps
    distance = _validate.integer("distance", distance, 2, 2 * mechanism.max_swaps)
    mechanism.epsilon(distance)  # an odd distance is an error
    m, theta = distance // 2, mechanism.theta
    if theta > POINT_MASS:
        return LatticeLoss(spacing=2.0 * theta, low=m, log_pmf=np.zeros(1), top=m)
    # A tilt tau of all sizes changes nothing, as |I| is fixed; this one makes K the mean size of independent choices.
    others = math.exp(_log_size_tilt(mechanism))
    members = others * math.exp(2.0 * theta)
    x_low, x_weight, x_cut = _binomial(m, members)
    y_low, y_weight, y_cut = _binomial(m, others)
    in_low, inside, in_cut = _binomial(mechanism.keep - m, members)
    out_low, outside, out_cut = _binomial(mechanism.dim - mechanism.keep - m, others)
    rest_low, rest = in_low + out_low, np.convolve(inside, outside)

    low = x_low - (y_low + y_weight.size - 1)
    law = np.zeros(x_weight.size + y_weight.size - 1)
    for y, weight in enumerate(y_weight, start=y_low):
        # x from x_low on; the rest of I has K - x - y members, which falls as x rises
        first = max(x_low, mechanism.keep - y - (rest_low + rest.size - 1))
        last = min(x_low + x_weight.size - 1, mechanism.keep - y - rest_low)
        if first > last:
            continue
        sizes = rest[mechanism.keep - y - last - rest_low : mechanism.keep - y - first - rest_low + 1][::-1]
        law[first - y - low : last - y - low + 1] += weight * x_weight[first - x_low : last - x_low + 1] * sizes
    total = float(law.sum())
    cut = x_cut or y_cut or in_cut or out_cut
    omitted = 3.0 * math.log(mechanism.dim) - _CUT - math.log(total) if cut else -math.inf
    with np.errstate(divide="ignore"):
        log_pmf = np.log(law / total)
    # of at most 16 roundings each, twice: tight.md, step 15
    steps = x_weight.size + y_weight.size + inside.size + outside.size
    found = LatticeLoss(spacing=2.0 * theta, low=low, log_pmf=log_pmf, top=m, log_omitted=omitted)
    _validate.store(found, _error=2.0**-48 * (steps + 4))
    return found


def _log_size_tilt(model: SubsetMallows) -> float:
    """log tau with K p(tau e^(2 theta)) + (d - K) p(tau) = K, p(o) = o / (1 + o)."""
    excess = float(model.dim - 2 * model.keep)
    product = 4.0 * model.keep * (model.dim - model.keep) * math.exp(2.0 * model.theta)
    root = math.sqrt(excess**2 + product)
    if excess >= 0:
        return math.log(2.0 * model.keep / (excess + root))
    return math.log((root - excess) / (2.0 * (model.dim - model.keep))) - 2.0 * model.theta


def _binomial(trials: int, odds: float) -> tuple[int, Array, bool]:
    """First value, weights relative to the mode, and whether weights below e^-230 were left out."""
    x = np.arange(trials, dtype=np.float64)
    ratios = (trials - x) / (x + 1.0) * odds
    mode = int(np.count_nonzero(ratios > 1.0))
    left, right = np.cumprod(1.0 / ratios[:mode][::-1])[::-1], np.cumprod(ratios[mode:])
    weights = np.concatenate([left, [1.0], right])
    kept = np.flatnonzero(weights > math.exp(-_CUT))
    return int(kept[0]), weights[kept], kept.size < weights.size


@dataclass(frozen=True)
class IndexLoss:
    """The loss of the farthest two references by a table or the contour, whichever has the smaller errors."""

    mechanism: SubsetMallows

    def delta(self, *, epsilon: float, count: int) -> float:
        return self.delta_bounds(epsilon=epsilon, count=count)[1]

    def epsilon(self, *, delta: float, count: int) -> float:
        return self.epsilon_bounds(delta=delta, count=count)[1]

    def delta_bounds(self, *, epsilon: float, count: int) -> tuple[float, float]:
        if self.mechanism.theta > POINT_MASS:
            return 0.0, self._table.delta(epsilon=epsilon, count=count)
        if self.mechanism.theta > 0.0 and self._is_small(count):
            lower, upper = table_bounds(self._table, epsilon=epsilon, count=count)
            if count * table_of(self._table).omitted <= ROUNDED * upper:
                return lower, upper
        return ContourLoss(self.mechanism).delta_bounds(epsilon=epsilon, count=count)

    def epsilon_bounds(self, *, delta: float, count: int) -> tuple[float, float]:
        if self.mechanism.theta > POINT_MASS:
            return 0.0, self._table.epsilon(delta=delta, count=count)
        law = table_of(self._table) if self._is_small(count) else ContourLoss(self.mechanism)
        return epsilon_bounds(law, functools.partial(self.delta_bounds, count=count), delta=delta, count=count)

    def _is_small(self, count: int) -> bool:
        """The table's errors grow with the group, the contour's with the releases."""
        return self.mechanism.dim <= max(_ALWAYS_TABLE, min(count, _MOST_TABLE))

    @property
    def _table(self) -> LatticeLoss:
        return _loss_law(self.mechanism)


@functools.lru_cache(maxsize=16)
def _loss_law(mechanism: SubsetMallows) -> LatticeLoss:
    return loss_law(mechanism=mechanism)


def index_renyi(mechanism: SubsetMallows, orders: Reals) -> Reals:
    """Renyi divergences of one release at orders in (1, 1e9], a vector: exact, or upper bounds next to that."""
    large = mechanism.dim > SMALL_GROUP and mechanism.theta <= POINT_MASS
    found = ContourLoss(mechanism).renyi(orders=orders) if large else renyi_curve(loss_law(mechanism=mechanism), orders)
    return np.asarray(found * (1.0 + ROUNDING))


# --- Groups too large for a table: by moments on a contour (proofs/gip/tight.md, steps 11 to 14)


_DIGITS = decimal.Context(prec=36)
_NATS = 75.0  # a rule for one release leaves out e^-75
_FARTHEST = 600.0  # most of it for a Renyi divergence
_BENT = 0.1  # phase up to which its argument is summed as a series
_ALWAYS_TABLE, _MOST_TABLE = 500, 10**4
"""Entries of groups for which a table has the smaller errors; up to the second where releases are as many."""
_MOST_ORDERS = 300
_LEAST_VARIANCE = 1e-200


@dataclass(frozen=True)
class ContourLoss:
    r"""Law of the privacy loss :math:`2\theta S` of the farthest two references, for a group of any size.

    Bounds of delta and epsilon of ``count`` adaptive releases, each with a pair of references as far apart as they can be; proved
    but for rounding. Where nodes would be too many, or delta is below e^-650, they are 0 and Chernoff's bound.
    """

    mechanism: SubsetMallows

    @property
    def spacing(self) -> float:
        return 2.0 * self.mechanism.theta

    @property
    def top(self) -> int:
        return self.mechanism.max_swaps

    def delta(self, *, epsilon: float, count: int = 1) -> float:
        return self.delta_bounds(epsilon=epsilon, count=count)[1]

    def epsilon(self, *, delta: float, count: int = 1) -> float:
        return self.epsilon_bounds(delta=delta, count=count)[1]

    def delta_bounds(self, *, epsilon: float, count: int = 1) -> tuple[float, float]:
        return delta_bounds(self, epsilon=epsilon, count=count)

    def epsilon_bounds(self, *, delta: float, count: int = 1) -> tuple[float, float]:
        return epsilon_bounds(self, functools.partial(self.delta_bounds, count=count), delta=delta, count=count)

    @property
    def origin(self) -> int:
        return 0

    def log_moment(self, tilt: float) -> tuple[float, float]:
        return _log_moment(self.mechanism, tilt)

    def tilted(self, tilt: float) -> "_Tilted":
        return _tilted(self.mechanism, tilt)

    def renyi(self, *, orders: Reals) -> Reals:
        """Upper bounds of the Renyi divergences of orders > 1; of very many, all but some by the convexity of log moments."""
        largest = total_loss(self.spacing, self.top)
        knots = orders
        if orders.size > _MOST_ORDERS:
            knots = np.unique(np.geomspace(orders.min(), orders.max(), _MOST_ORDERS).round())
            knots[[0, -1]] = orders.min(), orders.max()
        logs = np.array([self._log_moment_above(order) for order in knots])
        found = np.interp(orders, knots, logs) / (orders - 1.0) if knots is not orders else logs / (orders - 1.0)
        return np.minimum(np.minimum(largest, 0.5 * orders * self.spacing * largest), np.maximum(found, 0.0))

    def _log_moment_above(self, order: float) -> float:
        tilt = double_above(Fraction(self.spacing) * (Fraction(order) - 1))
        log_moment, error = _log_moment(self.mechanism, tilt) if tilt <= _FARTHEST else (tilt * self.top, 0.0)
        return log_moment + error


def _log_radius(mechanism: SubsetMallows, tilt: float) -> float:
    """log r at which B2 + B3 - B1 has mean 0 (but for rounding)."""
    pairs, step = mechanism.max_swaps, 2.0 * mechanism.theta
    rest = mechanism.dim - 2 * pairs

    def drift(x: float) -> float:
        return float(pairs * expit(x - tilt) + rest * expit(x) - pairs * expit(-step - tilt - x))

    reach = 60.0 + step + tilt
    return float(scipy.optimize.brentq(drift, -reach, reach, xtol=1e-15, rtol=1e-15, maxiter=300))


@functools.lru_cache(maxsize=256)
def _log_moment(mechanism: SubsetMallows, tilt: float) -> tuple[float, float]:
    """log E e^(tilt S), and a bound of its error."""
    at, base = _tilted(mechanism, tilt), _tilted(mechanism, 0.0)
    (log_top, top_error), (log_bottom, bottom_error) = at.log_chance, base.log_chance
    found = float(at.log_weight - base.log_weight) + (log_top - log_bottom)
    return found, top_error + bottom_error + ROUNDED * (abs(log_top) + abs(log_bottom) + abs(found))


@functools.lru_cache(maxsize=256)
def _tilted(mechanism: SubsetMallows, tilt: float) -> "_Tilted":
    pairs = mechanism.max_swaps
    sizes = (pairs, pairs, mechanism.dim - 2 * pairs)
    with decimal.localcontext(_DIGITS):
        radius = decimal.Decimal(_log_radius(mechanism, tilt)).exp()
        lowered, step = (-decimal.Decimal(tilt)).exp(), 2 * decimal.Decimal(mechanism.theta)
        odds = ((-step).exp() * lowered / radius, lowered * radius, radius)
        log_weight = pairs * decimal.Decimal(tilt)
        for size, one in zip(sizes, odds, strict=True):
            log_weight += size * (1 + one).ln()
        chances, others = [one / (1 + one) for one in odds], [1 / (1 + one) for one in odds]
        means = [size * chance for size, chance in zip(sizes, chances, strict=True)]
        return _Tilted(
            tilt,
            sizes,
            tuple(float(chance) for chance in chances),
            tuple(float(other) for other in others),
            tuple(float(mean * other) for mean, other in zip(means, others, strict=True)),
            mean=float(pairs - means[0] - means[1]),
            drift=float(means[1] + means[2] - means[0]),
            half_turn=math.pi * float(means[2] % 2),
            log_weight=log_weight,
        )


Three = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class _Tilted(Tilted):
    """Independent binomials B1, B2, B3; given D = B2 + B3 - B1 = 0, S = m - B1 - B2 has the law tilted by e^(tilt S)."""

    tilt: float
    sizes: tuple[int, int, int]
    chances: Three
    others: Three
    """1 - chances."""
    variances: Three
    mean: float
    """m - E B1 - E B2."""
    drift: float
    """E D: 0 but for rounding."""
    half_turn: float
    """pi E B3, modulo 2 pi."""
    log_weight: decimal.Decimal

    @property
    def top(self) -> int:  # type: ignore[override]
        return self.sizes[0]

    @property
    def variance(self) -> float:  # type: ignore[override]
        """About that of S."""
        v1, v2, v3 = self.variances
        return v1 + v2 - (v1 - v2) ** 2 / (v1 + v2 + v3 + _LEAST_VARIANCE) + _LEAST_VARIANCE

    @functools.cached_property
    def most_variance(self) -> float:  # type: ignore[override]
        """An upper bound of that of S given D = 0."""
        near = 0.5 / self.sizes[0]
        logs, errors = self.log_ratios(np.array([near]), 0)
        return -math.expm1(2.0 * float(logs[0].real - errors[0])) / (near * near * (1.0 - 1.0 / 12.0))

    @functools.cached_property
    def log_chance(self) -> tuple[float, float]:
        """log P(D = 0), and a bound of its error."""
        values, wrong = self._rule(np.zeros(1), 0)
        value, error = float(values[0].real), float(wrong[0])
        if not error < value / 2:
            return -math.inf, math.inf
        return math.log(value), -math.log1p(-error / value)

    def log_ratios(self, angle: Reals, turn: int) -> tuple[Complexes, Reals]:
        """log of E[e^(i psi (S - mean)) | D = 0], psi = angle + pi turn and the sign left out, and the error of its modulus's log."""
        values, wrong = self._rule(angle, turn)
        log_chance, error = self.log_chance
        sizes = np.maximum(np.abs(values), 1e-300)
        logs = np.asarray(np.log(np.where(values == 0, 1e-300, values)), dtype=np.complex128) - log_chance
        return logs, np.log1p(wrong / sizes) + error

    def _rule(self, angle: Reals, turn: int) -> tuple[Complexes, Reals]:
        """P(D = 0) E[e^(i psi (S - mean)) | D = 0] by the trapezoid rule in omega, and a bound of its error."""
        v1, v2, v3 = self.variances
        total = v1 + v2 + v3
        turned = v1 * np.exp(1j * angle) + v2 * np.exp(-1j * angle) + (-v3 if turn else v3)
        number = math.ceil(_NATS / 3.0 + math.sqrt((_NATS / 3.0) ** 2 + 2.0 * _NATS * total) + abs(self.drift)) + 1
        least, reach = float(np.abs(turned).min()), number
        if least > _NATS / 2.0:
            reach = math.ceil(math.asin(math.sqrt(_NATS / (2.0 * least))) * number / math.pi)
        k = np.arange(max(-reach, -(number // 2)), min(reach, (number - 1) // 2) + 1)
        psi, omega = angle[:, None], -np.angle(turned)[:, None] + 2.0 * math.pi / number * k
        log = 1j * (omega * self.drift + turn * self.half_turn)
        reached = np.abs(psi) + np.abs(omega)
        share = np.abs(omega * self.drift) + k.size / 8.0 + 1.0
        lost = np.zeros_like(reached)
        for index, phase in enumerate((-psi - omega, omega - psi, omega + math.pi * turn)):
            if self.sizes[index]:
                found, its_share, its_lost = self._log_characteristic(index, phase, reached)
                log, share, lost = log + found, share + its_share, lost + its_lost
        terms = np.exp(log) / number
        error = ROUNDED * (np.abs(terms) * share + lost / number).sum(axis=1)
        return terms.sum(axis=1), error + 3.0 * math.exp(-_NATS)

    def _log_characteristic(self, index: int, phase: Reals, reached: Reals) -> tuple[Complexes, Reals, Reals]:
        """log E e^(i phase (B - E B)), and the error of its exponential in units of 2^-50: a share of it, and what is added."""
        size, chance, other, variance = (
            values[index] for values in (self.sizes, self.chances, self.others, self.variances)
        )
        turns = np.round(phase / (2.0 * math.pi))
        phase = phase - 2.0 * math.pi * turns
        sign, rarer = (1.0, chance) if chance <= 0.5 else (-1.0, other)
        sine, cosine = np.sin(phase / 2.0), np.cos(phase / 2.0)
        fallen = 4.0 * chance * other * sine * sine  # 1 less the square of the modulus of one of ``size`` factors
        small = fallen > 0.5
        square = np.where(small, cosine**2 + ((1.0 - 2.0 * rarer) * sine) ** 2, 1.0)
        log_modulus = 0.5 * size * np.where(small, np.log(np.maximum(square, 1e-300)), np.log1p(-fallen * ~small))
        argument = size * _bend(rarer, phase)
        far = np.abs(phase) > _BENT
        share = np.abs(log_modulus) + np.abs(argument) + 4.0 * math.pi * variance * np.abs(turns)
        share += 2.0 * variance * np.abs(phase) * (reached + far)
        return (
            log_modulus + 1j * sign * (argument - 2.0 * math.pi * size * rarer * turns),
            share,
            small * (1.0 + reached),
        )

    def _arcs(self, count: int, nats: float) -> tuple[float, float, float]:
        """Angles from 0 on, and from pi on, outside which ratios to ``count`` are small, with the log of their bound."""
        v1, v2, v3 = self.variances
        total, (log_chance, error) = v1 + v2 + v3, self.log_chance
        whole = log_chance - error

        def omitted(short: float) -> float:
            return count * (_log_bessel(total - short) - short - whole)

        if omitted(total) > -nats:
            return math.pi, 0.0, -math.inf
        short = float(scipy.optimize.brentq(lambda one: omitted(one) + nats, 0.0, total, xtol=1e-300, rtol=1e-9))
        turned = _reach(v1, v2, -v3, short - 2.0 * v3) if short > 2.0 * v3 and v3 < v1 + v2 else 0.0
        return _reach(v1, v2, v3, short), turned, omitted(short)


def _log_bessel(x: float) -> float:
    """log of e^-x I0(x)."""
    return math.log(float(scipy.special.i0e(x)))


def _reach(v1: float, v2: float, v3: float, short: float) -> float:
    """The angle at which |v1 e^(i psi) + v2 e^(-i psi) + v3| has fallen by ``short``, from angle 0 on; pi where it never has."""
    total = v1 + v2 + v3
    fall = short * (2.0 * total - short)
    linear = 2.0 * v3 * (v1 + v2) + 8.0 * v1 * v2
    square = linear * linear - 16.0 * v1 * v2 * fall
    if square < 0.0 or linear <= 0.0:
        return math.pi
    return 2.0 * math.asin(math.sqrt(min(fall / (linear + math.sqrt(square)), 1.0)))


def _bend(chance: float, phase: Reals) -> Reals:
    """arg(1 - p + p e^(i phase)) - p phase for p <= 1/2, |phase| <= pi."""
    tangent, slope = np.tan(phase / 2.0), 1.0 - 2.0 * chance
    near = np.abs(phase) <= _BENT
    x = np.where(near, tangent, 0.0)
    total, powers, power = np.zeros_like(x), 0.0, x
    for k in range(1, 9):
        powers, power = powers + slope ** (2 * k - 2), -power * x * x
        total = total + power * (powers / (2 * k + 1))
    half = np.sin(phase / 2.0)
    far = np.arctan2(chance * np.sin(phase), 1.0 - 2.0 * chance * half * half) - chance * phase
    return np.asarray(np.where(near, 4.0 * chance * (1.0 - chance) * slope * total, far))
