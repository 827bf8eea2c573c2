r"""delta(epsilon) of Poisson-subsampled Gaussian steps by the inversion integral on a line, every error bounded.

With :math:`M = \prod_j M_j^{T_j}`, s = c + iu, c > -1, c != 0, and [c < 0] = 1 where c < 0, else 0,

.. math:: \delta(\epsilon) = [c < 0] + \frac1{2\pi}\int_{-\infty}^\infty \frac{M(s)\, e^{-s\epsilon}}{s (s + 1)}\, du .

From below to above:

- **where the line runs**: the saddle point of M(s) exp(-s epsilon) / (s (s + 1)) on the real axis. No bound: a poor point costs width,
  not validity.
- **moments**, M(s) = E_P[exp(s L)] at s = c + iu, u >= 0, as one trapezoid rule for all u. M is the integral of
  :math:`\varphi(z)\,p(z)\,e^{sL(z)}` along Im z = y > 0. There :math:`|e^{iuL}| \le 1` for every u >= 0, so that one rule and one
  bound of its error serve every u: steps 4 to 6 of proofs/privacy/saddle_line.md.
- **measures**: a product of steps, and the difference of two products, the runs in which some output is extreme:
  :math:`\prod_j M_j^{T_j} - \prod_j A_j^{T_j}`, A the moments of P below a cut. Its terms stay small where those of the product are
  much larger than their sum: heavy tails. What is asked of a measure is in :class:`Measure`; steps 4 to 8 and 11.
- **the line**: the trapezoid rule with spacing h is exact but for aliases of one sign, which Chernoff's bound covers. A factor
  exp(V s (s + 1) / 2) smooths delta where M decays slowly: what it adds to delta lies between 0 and :math:`V e^{V/8}` times the
  smoothed density of the loss at epsilon. The proof page bounds each error, and names what is assumed of rounding.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import Steps
from dptheory.privacy.methods._sampled_loss import (
    ELEMENTARY,
    HALF,
    LOG_ROOT_2PI,
    Complexes,
    Moments,
    Reach,
    Reals,
    StepLoss,
    check_size,
    log_cut,
    log_mixture,
    losses,
    reach,
    real_moments,
)

Losses = tuple[StepLoss, ...]
Total = Callable[[float], Moments]
"""The moments of the sum of all losses, at a real s."""

_FARTHEST = 700.0
_CLOSE, _MOST_DOUBLINGS = 1e-3, 200
LEFT_OUT = 30.0
"""Nats below delta at which extreme outputs are left out."""


def step_losses(steps: Steps, direction: Direction) -> Losses:
    return tuple(
        StepLoss(
            noise_multiplier=step.noise_multiplier,
            sampling_rate=step.sampling_rate,
            count=step.count,
            direction=direction,
        )
        for step in steps
    )


def total_of(steps: Losses) -> Total:
    return functools.partial(real_moments, steps)


def log_peak(c: float) -> float:
    """log of the largest value of exp(-c x) times (1 - exp(-x))+, or min(1, exp(-x)) for c <= 0."""
    return c * math.log(c) - (1 + c) * math.log1p(c) if c > 0 else 0.0


@dataclass(frozen=True)
class Saddle:
    """The least point c of log(M(c) exp(-c epsilon) / |c (c + 1)|), and about log delta there (log(1 - delta) for c < 0)."""

    c: float
    epsilon: float
    log_value: float
    width: float
    """Standard deviation of the tilted sum of the losses, with the poles: 1 / sqrt of the second derivative."""


def cut(steps: Losses, log_delta: float, nats: float = LEFT_OUT) -> Losses:
    """The steps without outputs so extreme that they do not matter to a delta of about exp(log_delta)."""
    log_left_out = log_delta - nats - math.log(len(steps))
    return tuple(step.with_cut(log_left_out) for step in steps)


def saddle_at(total: Total, epsilon: float) -> Saddle:
    origin = total(0.0)
    scale = math.sqrt(origin.curvature)
    if origin.slope - epsilon > scale:  # most of the losses are larger
        low, high = -1 + 1e-9, -1e-9
        while high - low > _CLOSE:
            middle = (low + high) / 2
            low, high = (low, middle) if _own_epsilon(total(middle), middle) > epsilon else (middle, high)
        return _saddle(total(low + (high - low) / 2), low + (high - low) / 2, epsilon)
    search = _Search(1.0 / scale)
    while not search.ended:
        moments = total(search.c)
        check_near(moments.value - search.c * epsilon)
        search.next(_own_epsilon(moments, search.c) > epsilon)
    return _saddle(total(search.c), search.c, epsilon)


def saddle_for(total: Total, log_delta: float) -> Saddle:
    """The saddle, c > 0, at which delta is about exp(log_delta); its epsilon may be below 0."""
    search = _Search(1.0 / math.sqrt(total(0.0).curvature))
    while not search.ended:
        search.next(_saddle(total(search.c), search.c).log_value < log_delta)
    return _saddle(total(search.c), search.c)


def check_near(log_value: float) -> None:
    """Deltas below exp(-_FARTHEST) are left to closed forms."""
    if log_value < -_FARTHEST:
        raise Unresolved("epsilon is far beyond the losses that occur")


def _own_epsilon(moments: Moments, c: float) -> float:
    """The epsilon whose saddle point is c."""
    return moments.slope - 1 / c - 1 / (1 + c)


def _saddle(moments: Moments, c: float, epsilon: float | None = None) -> Saddle:
    """At c; for the epsilon whose saddle point it is where none is given."""
    epsilon = _own_epsilon(moments, c) if epsilon is None else epsilon
    curvature = moments.curvature + 1 / c**2 + 1 / (1 + c) ** 2
    log_value = moments.value - c * epsilon - math.log(abs(c)) - math.log1p(c) - 0.5 * math.log(2 * math.pi * curvature)
    # Chernoff, where the law is far from Gaussian
    return Saddle(c, epsilon, min(log_value, moments.value - c * epsilon + log_peak(c)), math.sqrt(curvature))


class _Search:
    """For about the root c > 0 of a rising function, from a guess of its scale: by doubling or halving, then by bisection of log c."""

    def __init__(self, start: float) -> None:
        self.c, self.low, self.high, self.ended, self._turns = start, 0.0, math.inf, False, 0

    def next(self, above: bool) -> None:
        """The next ``c``, from whether the function is above 0 at this one."""
        self.low, self.high = (self.low, self.c) if above else (self.c, self.high)
        self._turns += 1
        if self.high == math.inf:
            if self._turns == _MOST_DOUBLINGS:
                raise Unresolved("no saddle point: epsilon is at the largest loss")
            self.c = 2 * self.low
        elif self.low == 0.0:
            if self._turns == 2 * _MOST_DOUBLINGS:
                raise Unresolved("no saddle point above 0")
            self.c = self.high / 2
        elif self.high - self.low > _CLOSE * self.low:
            self.c = math.sqrt(self.low * self.high)
        else:
            self.c, self.ended = self.low + (self.high - self.low) / 2, True


_MOST_LOG_ERROR = 700.0  # of what a double holds
_SHIFT = 1.6  # y: the rule loses exp(y^2 / 2) = 3.6 to cancellation, and needs fewer nodes the larger y is
_WALL = 0.785  # below pi / 4, of noise_multiplier: at 2 y both moduli are monotone
_CUT_WALL = 0.523  # below pi / 6, over the sharpness: so that the cut's modulus is monotone and falls
_GROWTH = 15.0  # nats by which the integrand may grow up to the line 2 y
_CELL = 0.1
_FAR = 40.0  # beyond the largest exponent's slope


@dataclass(frozen=True)
class Envelope:
    """Upper bounds of the integrand's modulus on Im z = y, over cells of the real part, at u = 0 and so at every u >= 0.

    Attributes:
        edges: of the cells.
        log_cells: log of the bound of each cell's integral.
        log_left, log_right: log of the bound of the modulus at the outer edges; beyond, it is at most that times
            exp(-d (edge - slope)) at distance d.
        log_integral: log of the bound of the whole integral.
    """

    edges: Reals
    log_cells: Reals
    log_left: float
    log_right: float
    reach: Reach
    log_integral: float


@functools.lru_cache(maxsize=256)
def envelope(step: StepLoss, c: float, y: float) -> Envelope:
    """For c > -1 and 0 <= y <= pi noise_multiplier / 2."""
    ends_at = reach(step, c, _FAR)
    check_size((ends_at.right - ends_at.left) / _CELL)
    edges = np.arange(ends_at.left, ends_at.right + _CELL, _CELL)
    nearest = np.where(edges[:-1] * edges[1:] < 0, 0.0, np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])))
    bound = (y * y - nearest**2) / 2 - LOG_ROOT_2PI
    ends = (y * y - edges[[0, -1]] ** 2) / 2 - LOG_ROOT_2PI
    if step.direction != "add":
        up = (1.0 + c) * log_mixture(step, edges + 1j * y).real
        bound, ends = bound + np.maximum(up[:-1], up[1:]), ends + up[[0, -1]]
        kept = log_cut(step, edges + 1j * y).real
        bound, ends = bound + kept[:-1], ends + np.array([0.0, kept[-1]])
        if step.floor > -math.inf:
            # |1 - exp(-w)| is at most |w| and, as Re w >= 0, at most 2
            kept = np.minimum(step.sharpness * (edges - step.floor), math.log(2))
            bound, ends = bound + kept[1:], ends + kept[[0, -1]]
    if step.direction != "remove":
        down = -c * log_mixture(step, -edges - 1j * y).real
        bound, ends = bound + np.maximum(down[:-1], down[1:]), ends + down[[0, -1]]
    log_cells, left, right = bound + math.log(_CELL), float(ends[0]), float(ends[1])
    outer = (
        left - math.log(-float(edges[0]) - ends_at.left_slope),
        right - math.log(float(edges[-1]) - ends_at.right_slope),
    )
    log_integral = float(np.logaddexp.reduce(np.concatenate([log_cells, outer])))
    return Envelope(edges, log_cells, left, right, ends_at, log_integral)


@dataclass(frozen=True)
class MomentRule:
    """A trapezoid rule for M(c + iu), all u >= 0, on Im z = y.

    Attributes:
        losses: L at the nodes, with Im L >= 0.
        weights: the terms of M(c), divided by their sum M(c).
        log_moment: log M(c).
        error: bound of |rule - M(c + iu)| / M(c) from spacing and range, whatever u >= 0.
        moment_error: the same for log M(c), with rounding.
        weight_error, loss_error: rounding, relative and absolute, of each weight and each loss.
    """

    losses: Complexes
    weights: Complexes
    log_moment: float
    error: float
    moment_error: float
    weight_error: Reals
    loss_error: Reals

    @property
    def upper_log_moment(self) -> float:
        return self.log_moment + self.moment_error

    def log_decay(self, u: float) -> float:
        """log of a bound of |M(c + iv)| / M(c) for all v >= u: the moduli of the rule's terms fall with v."""
        moduli = np.abs(self.weights)
        rounding = float(moduli @ self.weight_error) + moduli.size * ELEMENTARY
        loss_rounding = u * (self.loss_error + ELEMENTARY * np.abs(self.losses))
        falls = np.exp(-u * self.losses.imag) * (1 + self.weight_error + loss_rounding)
        return math.log(float(moduli @ falls) + self.error) + 2 * (self.error + rounding)


@functools.lru_cache(maxsize=1024)
def widest_shift(step: StepLoss, c: float) -> float:
    """A height of the line at which the integrand up to twice that height does not grow much."""
    cuts = step.cut < math.inf or step.floor > -math.inf
    y = min(_SHIFT, _WALL * step.noise_multiplier, _CUT_WALL / step.sharpness if cuts else _SHIFT)
    least = envelope(step, c, 0.0).log_integral
    while envelope(step, c, 2 * y).log_integral > least + _GROWTH:
        y /= 2
    return y


@dataclass(frozen=True)
class Nodes:
    """z = k spacing + iy, first <= k <= last."""

    y: float
    spacing: float
    first: int
    last: int

    @property
    def outputs(self) -> Complexes:
        return np.arange(self.first, self.last + 1) * self.spacing + 1j * self.y


@dataclass(frozen=True)
class _Walls:
    """Envelopes at one c: on the real line, on the line of the nodes, and on the one twice as high."""

    real: Envelope
    line: Envelope
    high: Envelope

    @property
    def log_strip(self) -> float:
        """log of the integrals of the integrand's modulus on the outer lines together."""
        return float(np.logaddexp(self.real.log_integral, self.high.log_integral))

    def log_rule_error(self, at: Nodes) -> float:
        """log of a bound of |rule - M(c + iu)| by spacing and by range."""
        exponent = 2 * math.pi * at.y / at.spacing
        log_aliases = self.log_strip - exponent - math.log(-math.expm1(-exponent))
        outer = (at.first * at.spacing, at.last * at.spacing)
        return float(np.logaddexp(log_aliases, log_outside(self.line, at.spacing, outer)))


@functools.lru_cache(maxsize=256)
def nodes(step: StepLoss, c: float, y: float, digits: float) -> Nodes:
    """Nodes on Im z = y, y in (0, pi noise_multiplier / 4], for an error of M(c + iu) of about exp(-digits) / count."""
    walls = _Walls(envelope(step, c, 0.0), envelope(step, c, y), envelope(step, c, 2 * y))
    wanted = -digits - math.log(step.count)
    log_level = walls.real.log_integral
    spacing = 2 * math.pi * y / (walls.log_strip - log_level - wanted + 1.0)
    left, right = _range(walls.line, spacing, log_level + wanted)
    least, most = _range(envelope(step, 0.0, y), spacing, wanted)
    first, last = min(left, least), max(right, most)
    check_size((last - first) / spacing)
    return Nodes(y, spacing, math.floor(first / spacing), math.ceil(last / spacing))


@functools.lru_cache(maxsize=32)
def moment_rule(step: StepLoss, c: float, y: float, *, digits: float = 30.0) -> MomentRule:
    """The rule at c > -1 on Im z = y, y in (0, pi noise_multiplier / 4]; its error is about exp(-digits) / count."""
    walls = _Walls(envelope(step, c, 0.0), envelope(step, c, y), envelope(step, c, 2 * y))
    untilted = _Walls(envelope(step, 0.0, 0.0), envelope(step, 0.0, y), envelope(step, 0.0, 2 * y))
    at = nodes(step, c, y, digits)
    z = at.outputs
    log_error, log_error_at_zero = walls.log_rule_error(at), untilted.log_rule_error(at)

    loss, log_density = losses(step, z)
    log_weights = log_density - z * z / 2 + (math.log(at.spacing) - LOG_ROOT_2PI)
    loss_error = _loss_rounding(step, z, loss)
    exponent = c * loss
    log_terms = log_weights + exponent
    top = float(log_terms.real.max())
    terms: Complexes = np.exp(log_terms - top)
    sizes = 3 * np.abs(z) ** 2 / 2 + 3 * np.abs(exponent) + np.abs(log_weights) + np.abs(log_terms)
    weight_error = ELEMENTARY * (1 + np.abs(log_density)) + HALF * sizes + abs(c) * loss_error
    if step.cut < math.inf:
        weight_error += ELEMENTARY * np.abs(log_cut(step, z)) * (1 + step.sharpness * np.abs(z - step.cut))
    if step.floor > -math.inf:
        weight_error += 4 * ELEMENTARY * (1 + step.sharpness * np.abs(z - step.floor))
    total = math.fsum(terms.real)
    if not total > 0:
        raise Unresolved(f"M({c!r}) is lost to rounding")
    log_moment = top + math.log(total)
    if log_error - log_moment > _MOST_LOG_ERROR:
        raise Unresolved(f"M({c!r}) is lost to the rule's error")
    error = math.exp(log_error - log_moment)
    if step.whole and abs(log_moment) < 0.5:
        # M - 1 = E[exp(c L) - 1]: less rounding; the weights add up to 1 but for the rule's error at s = 0
        weights = np.exp(log_weights)
        small = exponent.real < 1.0
        gains = weights * np.expm1(np.where(small, exponent, 0.0))
        gains = np.where(small, gains, np.exp(log_terms) - weights)
        log_moment = math.log1p(math.fsum(gains.real))
        rounding = float(np.abs(gains) @ weight_error + np.abs(np.exp(log_terms)) @ (abs(c) * loss_error))
        rounding *= math.exp(-log_moment)
        at_zero = math.exp(log_error_at_zero) + (math.exp(step.log_cut_mass) if step.cut < math.inf else 0.0)
        moment_error = error + at_zero * math.exp(-log_moment) + rounding
    else:
        moment_error = error + float(np.abs(terms) @ weight_error) / total + HALF * abs(top)
    moment_error = 1.01 * moment_error + ELEMENTARY * abs(log_moment)
    return MomentRule(loss, terms / total, log_moment, 1.01 * error, moment_error, weight_error, loss_error)


def _range(line: Envelope, spacing: float, log_wanted: float) -> tuple[float, float]:
    """The least range of nodes outside which the terms add up to about exp(log_wanted) only."""
    level = log_wanted - math.log(1 + spacing / _CELL)
    from_left = np.logaddexp.accumulate(line.log_cells)
    from_right = np.logaddexp.accumulate(line.log_cells[::-1])[::-1]
    return (
        float(line.edges[max(int(np.searchsorted(from_left, level)) - 1, 0)]),
        float(line.edges[min(int(np.searchsorted(-from_right, -level)) + 1, line.edges.size - 1)]),
    )


def log_outside(line: Envelope, spacing: float, outer: tuple[float, float]) -> float:
    """log of a bound of the sum of the moduli of the terms left of outer[0] and right of outer[1].

    A cell holds at most 1 + cell / spacing nodes, each of modulus at most spacing times the cell's bound per length.
    """
    beyond = (line.edges[:-1] < outer[0]) | (line.edges[1:] > outer[1])
    cells = math.log(1 + spacing / _CELL) + line.log_cells[beyond]
    left, right = line.edges[0], line.edges[-1]
    far = (
        line.log_left + math.log(spacing + 1 / (-left - line.reach.left_slope)),
        line.log_right + math.log(spacing + 1 / (right - line.reach.right_slope)),
    )
    return float(np.logaddexp.reduce(np.concatenate([cells, far])))


def _loss_rounding(step: StepLoss, z: Complexes, loss: Complexes) -> Reals:
    """Bound of the absolute error of L at the nodes: of its logarithms, and of the exponents t z - t^2 / 2 in them."""
    t, q = step.shift, step.sampling_rate
    error = ELEMENTARY * np.abs(loss)
    for sign in {"remove": (1.0,), "add": (-1.0,), "replace": (1.0, -1.0)}[step.direction]:
        inside = log_mixture(step, sign * z) if step.direction == "replace" else sign * loss
        exponent = sign * t * z - t * t / 2
        gain = np.exp(math.log(q) + (exponent - inside).real)  # q exp(exponent) / Lambda: d log Lambda / d exponent
        added = gain * np.abs(
            np.expm1(-np.maximum(exponent.real, -600.0) - 1j * exponent.imag)
        )  # |Lambda - 1| / |Lambda|
        error += ELEMENTARY * (np.abs(inside) + added) + 4 * HALF * gain * (np.abs(t * z) + t * t / 2)
        if q > 0.5:
            error += ELEMENTARY * 2 * (exponent.real < -0.5)
    return np.asarray(error)


_RUNGS = 2
"""Lower lines lie this many to a halving, so that neighbouring nodes share one."""
_LOWEST = 16  # rungs below the widest shift
_FEW_DIGITS = 5.0  # of a moment that only a bound needs
_MOST_LOWER = 40_000  # nodes of a lower line
_RANGE = (math.log(1e-8), math.log(1e14))
_BLUNT, _SHARP = 1.0, 8.0
_GOLDEN = (math.sqrt(5) - 1) / 2


class AtLine(Protocol):
    """M(c + iu) of a measure for one c, all u >= 0."""

    @property
    def log_moment(self) -> float:
        """log of an upper bound of M(c)."""

    @property
    def size(self) -> int:
        """Nodes of the largest rule."""

    def log_decay(self, u: float) -> float:
        """log of a bound of |M(c + iv)| for all v >= u, less ``log_moment``."""

    def terms(self, h: float, count: int) -> tuple[Complexes, Reals]:
        """log M(c + ikh), k = 0 .. count, and log of the bound of |M| with its error over |M|."""


class Measure(Protocol):
    """A positive measure of the sum of the losses, of mass at most 1."""

    @property
    def left_out(self) -> float:
        """Bound of the probability that the cuts leave out."""

    @property
    def total(self) -> Total:
        """About log M, and its derivatives where the law is that of a sum."""

    def log_bound(self, c: float) -> float:
        """log of an upper bound of M(c)."""

    def at(self, c: float) -> AtLine: ...


@dataclass(frozen=True)
class Product:
    """The law of the sum of independent losses."""

    steps: Losses
    left_out: float

    @property
    def total(self) -> Total:
        return total_of(self.steps)

    def log_bound(self, c: float) -> float:
        if c in (0.0, -1.0):
            return 0.0  # M(0), M(-1) <= 1
        total = 0.0
        for step in self.steps:
            total += step.count * moment_rule(step, c, widest_shift(step, c), digits=_FEW_DIGITS).upper_log_moment
        return total

    def at(self, c: float) -> AtLine:
        rules = []
        for step in self.steps:
            rules.append(moment_rule(step, c, widest_shift(step, c)))
        return _ProductAt(c, self.steps, tuple(rules))


@dataclass(frozen=True)
class Difference:
    """The law of the sum of the losses, less that of the runs without an extreme output: ``usual`` and ``rare`` make up P."""

    usual: Losses
    rare: Losses
    left_out: float

    def total(self, c: float) -> Moments:
        logs = np.array([real_moments((step,), c).value / step.count for step in self.usual + self.rare])
        return Moments(_log_difference(self.usual, logs), math.nan, math.nan)

    def log_bound(self, c: float) -> float:
        steps = self.usual + self.rare
        rules = [moment_rule(step, c, widest_shift(step, c), digits=_FEW_DIGITS) for step in steps]
        return _log_difference(self.usual, np.array([rule.upper_log_moment for rule in rules]))

    def at(self, c: float) -> "AtLine":
        steps = self.usual + self.rare
        return _DifferenceAt(c, steps, tuple(moment_rule(step, c, widest_shift(step, c)) for step in steps))


def split(steps: Losses, floors: list[float]) -> tuple[Product, Difference]:
    """The runs without an output above the floor of its step, and the rest, which together are ``steps``.

    A step that has a cut keeps its sharpness; otherwise it is as sharp as the normal density falls at the floor.
    """
    usual, rare = [], []
    for step, floor in zip(steps, floors, strict=True):
        sharpness = min(max(floor, _BLUNT), _SHARP) if step.cut == math.inf else step.sharpness
        if floor > step.cut - 2.0 / sharpness:
            raise Unresolved("the cut leaves no room above the floor")
        usual.append(replace(step, cut=floor, sharpness=sharpness))
        rare.append(replace(step, floor=floor, sharpness=sharpness))
    return Product(tuple(usual), 0.0), Difference(tuple(usual), tuple(rare), law(steps).left_out)


def bands(steps: Losses, floors: list[list[float]]) -> tuple[Product, list[Difference]]:
    """The runs without an output above the lowest floors, and those whose highest output lies in a band; floors rise."""
    found: list[Difference] = []
    for level in reversed(floors):
        usual, rare = split(steps, level)
        # what is beyond the first cut is left out once
        found.append(replace(rare, left_out=0.0) if found else rare)
        steps = usual.steps
    return usual, found


def law(steps: Losses) -> Product:
    """The law of the sum of the losses of ``steps``, most of whose mass no cut takes."""
    return Product(steps, sum(step.count * math.exp(step.log_cut_mass) for step in steps if step.cut < math.inf))


def least_point(measure: Measure, epsilon: float) -> Saddle:
    """The saddle point c > 0 of M(c) exp(-c epsilon) / (c (c + 1)), by golden section: not a bound."""

    @functools.cache
    def height(log_c: float) -> float:
        c = math.exp(log_c)
        try:
            return measure.total(c).value - c * epsilon - math.log(c) - math.log1p(c)
        except (Unresolved, OverflowError):
            return math.inf

    low, high = _RANGE
    inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    while high - low > 0.02:
        if height(inner) <= height(outer):
            high, outer = outer, inner
            inner = high - _GOLDEN * (high - low)
        else:
            low, inner = inner, outer
            outer = low + _GOLDEN * (high - low)
    log_c, wing = (low + high) / 2, 0.03
    c = math.exp(log_c)
    # d^2 / dc^2 at the least point, where the first derivative is about 0
    bend = (height(log_c + wing) + height(log_c - wing) - 2 * height(log_c)) / (wing * c) ** 2
    if not 0 < bend < math.inf:
        raise Unresolved("no saddle point of the rare part")
    return Saddle(c, epsilon, height(log_c) - 0.5 * math.log(2 * math.pi * bend), math.sqrt(bend))


def log_chernoff(measure: Measure, c: float) -> float:
    """log of an upper bound of M(c) times the kernel's peak: of exp(c epsilon) delta(epsilon)."""
    return measure.log_bound(c) + log_peak(c) + 1e-12


@dataclass(frozen=True)
class _RulesAt:
    """Of kinds of steps with a rule each; how the moments of one step each are put together is what measures differ in."""

    c: float
    steps: Losses
    rules: tuple[MomentRule, ...]

    def together(self, logs: Reals) -> float:
        """log of M's bound, from those of the moments of one step of each kind."""
        return float(np.array([step.count for step in self.steps], dtype=np.float64) @ logs)

    @property
    def log_moment(self) -> float:
        return self.together(np.array([rule.upper_log_moment for rule in self.rules]))

    @property
    def size(self) -> int:
        return max(rule.losses.size for rule in self.rules)

    def log_decay(self, u: float) -> float:
        """On the line of each rule or below it: a lower line loses less to exp(y^2 / 2)."""
        logs = []
        for step, rule in zip(self.steps, self.rules, strict=True):
            decay, y = rule.log_decay(u), lower_shift(step, self.c, u)
            if y is not None:
                decay = min(decay, moment_rule(step, self.c, y, digits=_FEW_DIGITS).log_decay(u))
            logs.append(rule.upper_log_moment + min(decay, 0.0))
        return self.together(np.array(logs)) - self.log_moment


class _ProductAt(_RulesAt):
    def terms(self, h: float, count: int) -> tuple[Complexes, Reals]:
        log_terms, log_errors = np.zeros(count + 1, dtype=np.complex128), np.zeros(count + 1)
        for step, rule in zip(self.steps, self.rules, strict=True):
            log_ratio, error = _ratios(rule, h, count)
            log_terms += step.count * (log_ratio + rule.log_moment)
            log_errors += step.count * (error + rule.moment_error)
        return log_terms, log_errors


class _DifferenceAt(_RulesAt):
    """The usual kinds stand before the rare ones."""

    def together(self, logs: Reals) -> float:
        return _log_difference(self.steps[: len(self.steps) // 2], logs)

    def terms(self, h: float, count: int) -> tuple[Complexes, Reals]:
        """A^T expm1(sum T log1p(D / A)), and its error by monomials D^k A^(T - k), k >= 1, with nonnegative coefficients."""
        base, gain = np.zeros(count + 1, dtype=np.complex128), np.zeros(count + 1, dtype=np.complex128)
        size, gain_size = np.zeros(count + 1), np.zeros(count + 1)  # of the moduli
        grown, gain_grown = np.zeros(count + 1), np.zeros(count + 1)  # and with their errors
        rounding = np.zeros(count + 1)
        half = len(self.steps) // 2
        for step, low, high in zip(self.steps[:half], self.rules[:half], self.rules[half:], strict=True):
            (ratio_a, error_a), (ratio_d, error_d) = _ratios(low, h, count), _ratios(high, h, count)
            log_a, log_d = ratio_a + low.log_moment, ratio_d + high.log_moment
            error_a = error_a + low.moment_error + ELEMENTARY * (8 + np.abs(log_a))
            error_d = error_d + high.moment_error + ELEMENTARY * (8 + np.abs(log_d))
            one = _log1p_exp(log_d - log_a)
            base, gain = base + step.count * log_a, gain + step.count * one
            size, grown = size + step.count * log_a.real, grown + step.count * (log_a.real + error_a)
            gain_size += step.count * _log1p_exp(log_d.real - log_a.real).real
            gain_grown += step.count * _log1p_exp(log_d.real + error_d - log_a.real - error_a).real
            rounding += step.count * 12 * ELEMENTARY * np.abs(one)
        log_terms = base + _log_expm1(gain)
        # the moduli's difference with errors, less the one without
        larger = grown + _log_expm1(gain_grown).real
        smaller = size + _log_expm1(gain_size).real
        log_error = larger + np.log(np.maximum(-np.expm1(np.minimum(smaller - larger, 0.0)), 0.0) + 16 * HALF)
        log_error = np.logaddexp(log_error, base.real + np.maximum(gain.real, 0.0) + np.log(rounding + 1e-300))
        of_logs = ELEMENTARY * (8 + np.abs(base) + np.abs(gain))
        return log_terms, np.logaddexp(0.0, log_error - log_terms.real) + of_logs


def _log_difference(steps: Losses, logs: Reals) -> float:
    """log of prod (a + d)^T - prod a^T, from log a and log d, one after the other."""
    usual, rare = logs[: len(steps)], logs[len(steps) :]
    counts = np.array([step.count for step in steps], dtype=np.float64)
    gain = float(counts @ np.logaddexp(0.0, rare - usual))
    return float(counts @ usual) + (float(_log_expm1(np.array([gain])).real[0]) if gain > 0 else -math.inf)


def _log1p_exp(x: Complexes | Reals) -> Complexes:
    """log(1 + exp(x))."""
    x = np.asarray(x, dtype=np.complex128)
    large = x.real > 0
    small = np.exp(np.where(large, -x, x))
    near = np.abs(small) < 0.5
    real = np.where(
        near,
        0.5 * np.log1p(np.where(near, 2 * small.real + np.abs(small) ** 2, 0.0)),
        np.log(np.maximum(np.abs(1 + small), 1e-300)),
    )
    return np.asarray(real + 1j * np.arctan2(small.imag, 1 + small.real) + np.where(large, x, 0.0))


def _log_expm1(x: Complexes | Reals) -> Complexes:
    """log(exp(x) - 1), Re x > -inf."""
    x = np.asarray(x, dtype=np.complex128)
    large = x.real > 1
    gap = np.where(large, -np.expm1(-np.where(large, x, 1.0)), np.expm1(np.where(large, 0.0, x)))
    return np.asarray(np.log(np.where(gap == 0, 1e-300, gap)) + np.where(large, x, 0.0))


def output(step: StepLoss, loss: float) -> float:
    """About the output whose loss is ``loss`` > 0."""
    log_gain = math.log(math.expm1(loss)) if loss < 30.0 else loss
    log_odds = log_gain - math.log(step.sampling_rate)
    exponent = math.log1p(math.exp(log_odds)) if log_odds < 30.0 else log_odds
    return exponent / step.shift + step.shift / 2


def lower_shift(step: StepLoss, c: float, u: float) -> float | None:
    """The height of a line on which |M(c + iv)|, v >= u, has a closer bound than on the highest; None where none is near.

    The best for a nearly Gaussian loss of deviation w is y = u w.
    """
    widest = widest_shift(step, c)
    wanted = u * math.sqrt(real_moments((step,), c).curvature / step.count)
    rung = round(_RUNGS * math.log2(widest / wanted)) if wanted > 0 else _LOWEST
    # a lower line takes so many more nodes
    at = nodes(step, c, widest, _FEW_DIGITS)
    affordable = math.floor(_RUNGS * math.log2(max(1.0, _MOST_LOWER / (at.last - at.first))))
    rung = min(_LOWEST, rung, affordable)
    return widest / 2 ** (rung / _RUNGS) if rung >= _RUNGS else None


def _ratios(rule: MomentRule, h: float, count: int) -> tuple[Complexes, Reals]:
    """log(M(c + ikh) / M(c)), k = 0 .. count, and by how much the log of the modulus may be larger than that.

    The ratio is 1 + sum_j w_j (exp(iuL_j) - 1). With u = v + v', v a multiple of a block, all nodes are products of two
    matrices: exp(i(v + v')L) - 1 = EE' + E + E', E = exp(ivL) - 1, E' = exp(iv'L) - 1; small terms keep small errors.
    """
    block = math.isqrt(count) + 1
    coarse_u, fine_u = h * block * np.arange(math.ceil((count + 1) / block)), h * np.arange(block)
    coarse, fine = np.expm1(1j * np.outer(coarse_u, rule.losses)), np.expm1(1j * np.outer(rule.losses, fine_u))
    weighted, ones = coarse * rule.weights, np.ones((rule.losses.size, 1))
    by_fine = _product(np.vstack([weighted, rule.weights]), fine)
    ratio = (by_fine[:-1] + (_product(weighted, ones) + by_fine[-1])).ravel()[: count + 1]

    # bounds for a block at once, but for the first, where they fall to 0 with u
    u = h * np.arange(count + 1)
    moduli = np.abs(rule.weights)
    relative = moduli * (rule.weight_error + _inner_roundings(rule.losses.size) * HALF + 4 * ELEMENTARY)
    sizes, fine_sizes = np.abs(coarse) * relative, np.abs(fine)
    largest = fine_sizes.max(axis=1)
    rounding = np.repeat(sizes @ largest + sizes.sum(axis=1) + float(relative @ largest), block)[: count + 1]
    rounding[:block] = (relative @ fine_sizes)[: count + 1]
    of_phase = moduli * (ELEMENTARY * np.abs(rule.losses) + rule.loss_error)
    rounding += u * np.repeat(np.exp(-np.outer(coarse_u, rule.losses.imag)) @ of_phase, block)[: count + 1]

    size = np.abs(1 + ratio)
    small = np.abs(ratio) < 0.5
    log_size = np.where(
        small,
        0.5 * np.log1p(np.where(small, 2 * ratio.real + np.abs(ratio) ** 2, 0.0)),
        np.log(np.maximum(size, 1e-300)),
    )
    error = (2 * rule.error + 1.01 * rounding) * (u > 0)
    return log_size + 1j * np.arctan2(ratio.imag, 1 + ratio.real), np.log1p(error / np.maximum(size, 1e-300))


def _product(left: Complexes | Reals, right: Complexes | Reals) -> Complexes:
    """left @ right, the inner sums taken in blocks and these added up: fewer roundings meet each term."""
    size = math.isqrt(right.shape[0]) + 1
    total: Complexes = np.asarray(left[:, :size] @ right[:size], dtype=np.complex128)
    for k in range(size, right.shape[0], size):
        total = total + left[:, k : k + size] @ right[k : k + size]
    return total


def _inner_roundings(inner: int) -> int:
    """How many roundings of sums meet a term of :func:`_product`, and of the sum of three such."""
    return 2 * (math.isqrt(inner) + 1) + 4


_LARGEST = 600.0
_LOG_WANTED = math.log(1e-12)
"""Each error is made about this small against delta (or 1 - delta where c < 0)."""
MOST = 2**17
_MOST_PRODUCTS = 150_000_000


@dataclass(frozen=True)
class Line:
    """The integral's nodes s = c + ikh, k = 0 .. count, for one direction; serves every epsilon near the one it was made for.

    Attributes:
        c, h: the line and its spacing.
        smoothing: V >= 0.
        log_terms: log of M(s) exp(V s (s + 1) / 2).
        log_moduli_error: log of the bound of |M(s)| with its error over |M(s)|.
        aliases: (c', bound of log M(c') + log peak + V c' (c' + 1) / 2) on both sides of c.
        log_tail, log_density_tail: log of a bound of the sums beyond the last node, without exp(-c epsilon).
        left_out: bound of the probability that the cuts leave out.
        products: how many complex products its nodes took: what it cost.
    """

    c: float
    h: float
    smoothing: float
    log_terms: Complexes
    log_errors: Reals
    aliases: tuple[tuple[float, float], ...]
    log_tail: float
    log_density_tail: float
    left_out: float
    products: int = 0

    def delta_bracket(self, epsilon: float) -> tuple[float, float]:
        """Bounds of delta(epsilon); 0 and 1 where the line is so far from its saddle that its terms overflow."""
        if not self._finite(epsilon):
            return 0.0, 1.0
        value, error = self._sum(epsilon, density=False)
        aliases = self._aliases(epsilon)
        smooth = 0.0
        if self.smoothing > 0:
            density, density_error = self._sum(epsilon, density=True)
            smooth = self.smoothing * math.exp(self.smoothing / 8) * (density + density_error) * (1 + ELEMENTARY)
        low, high = value - error - smooth, value + error
        low, high = (low - aliases, high) if self.c > 0 else (low, high + aliases)
        if self.c < 0:
            low, high = low + 1 - HALF - self.left_out, high + 1 + HALF
        return max(low, 0.0), min(high + self.left_out, 1.0)

    def middle(self, epsilon: float) -> tuple[float, float]:
        """About delta(epsilon) and its derivative; 0 where its terms overflow."""
        if not self._finite(epsilon):
            return 0.0, 0.0
        s, weights = self._nodes
        terms = weights * np.exp(self.log_terms - s * epsilon) / (s * (s + 1))
        value = float(terms.real.sum())
        correction = 0.0
        if self.smoothing > 0:
            correction = self.smoothing / 2 * self._sum(epsilon, density=True)[0]
        return value - correction + (self.c < 0), -float((terms * s).real.sum())

    def _finite(self, epsilon: float) -> bool:
        logs = [float((self.log_terms.real + self.log_errors).max()), self.log_tail]
        if self.smoothing > 0:
            logs.append(self.log_density_tail)
        largest = max(logs) - self.c * epsilon
        for c, log_bound in self.aliases:
            largest = max(largest, log_bound - c * epsilon - abs(c - self.c) * 2 * math.pi / self.h)
        return largest < _LARGEST

    @functools.cached_property
    def _nodes(self) -> tuple[Complexes, Reals]:
        s = self.c + 1j * self.h * np.arange(self.log_terms.size)
        weights = np.full(s.size, self.h / math.pi)
        weights[0] /= 2
        return s, weights

    def _sum(self, epsilon: float, *, density: bool) -> tuple[float, float]:
        """The trapezoid sum and a bound of its error by truncation, by the errors of M, and by rounding."""
        s, weights = self._nodes
        exponent = self.log_terms - s * epsilon
        kernel: Complexes = np.ones_like(s) if density else 1 / (s * (s + 1))
        terms = weights * np.exp(exponent) * kernel
        moduli = np.abs(terms)
        # (|M| + error)^T - |M|^T: by its logarithm, as |M| may be far below its error
        large = self.log_errors > 1.0
        of_moments = moduli * np.expm1(np.where(large, 0.0, self.log_errors))
        of_moments += large * weights * np.exp(exponent.real + self.log_errors) * np.abs(kernel)
        of_terms = ELEMENTARY * (8 + np.abs(self.log_terms) + np.abs(s * epsilon))
        rounding = float((of_moments + moduli * of_terms).sum()) + HALF * s.size * float(moduli.sum())
        tail = math.exp((self.log_density_tail if density else self.log_tail) - self.c * epsilon)
        return float(terms.real.sum()), (rounding + tail) * (1 + s.size * ELEMENTARY)

    def _aliases(self, epsilon: float) -> float:
        period = 2 * math.pi / self.h
        total = 0.0
        for c, log_bound in self.aliases:
            distance = abs(c - self.c) * period
            total += math.exp(log_bound - c * epsilon - distance) / -math.expm1(-distance)
        return total * (1 + 1e-9)


_MOST_SMOOTHING = 1000.0
"""Beyond it the bound of what smoothing changes is not a number."""


@dataclass(frozen=True)
class Plan:
    """Where the nodes lie: s = c + ikh, k = 0 .. count; V; and c' on both sides of c for Chernoff's bound.

    Attributes:
        log_wanted: how small the errors are to be against M(c) exp(-c epsilon).
    """

    measure: Measure
    c: float
    h: float
    count: int
    smoothing: float
    wings: tuple[float, ...]
    moments: AtLine
    log_decay: float
    log_wanted: float


def plan_line(measure: Measure, saddle: Saddle, most: int = MOST) -> Plan:
    """A line through the saddle, fine and long enough for errors of about 1e-12 of delta there."""
    c, epsilon = saddle.c, saddle.epsilon
    if isinstance(measure, Product):
        measure = _uncut(measure, c)
    log_wanted = saddle.log_value + _LOG_WANTED
    # two c' on both sides of c, and the period 2 pi / h at which Chernoff's bound of the aliases is small enough
    low, high = (0.0, math.inf) if c > 0 else (-1.0, 0.0)
    wings, period = [], 0.0
    for side, limit in ((-1.0, c - low), (1.0, high - c)):
        least, chosen, distance = math.inf, c, 0.3 / saddle.width
        while True:
            wing = c + side * distance if distance < limit else (low if side < 0 else high)
            log_bound = measure.total(wing).value + log_peak(wing) - wing * epsilon
            needed = (log_bound - log_wanted + 1.0) / abs(wing - c)
            settled = needed > 0.98 * least
            if needed < least:
                least, chosen = needed, wing
            if settled or distance >= limit:
                break
            distance *= 1.25
        wings.append(chosen)
        period = max(period, least)
    if not 0.0 < period < math.inf:
        raise Unresolved(f"no spacing for the line at {c!r}: its aliases have the bound {period!r}")
    h = 2 * math.pi / period
    moments = measure.at(c)
    log_wanted -= moments.log_moment - c * epsilon
    count = max(4, math.ceil(math.sqrt(2 * max(-_LOG_WANTED, 1.0)) / (saddle.width * h)))
    most = min(most, max(1, most // MOST) * _MOST_PRODUCTS // moments.size)
    while True:
        count = min(count, most)
        log_decay = moments.log_decay((count + 1) * h)
        missing = log_decay - math.log(count * h * math.pi) - log_wanted
        if missing <= 0 or count == most:
            break
        count = math.ceil(1.15 * count) if missing < 5 else 2 * count if missing > 20 else math.ceil(1.4 * count)
    # V costs a width of V c (c + 1) or so: as small as a tail of 1e-8 allows
    smoothing = 0.0 if missing <= 0 else 2 * max(missing - 9.0, 4.0) / ((count + 1) * h) ** 2
    if smoothing > _MOST_SMOOTHING:
        raise Unresolved(f"the line at {c!r} would be smoothed by {smoothing!r}")
    return Plan(measure, c, h, count, smoothing, tuple(wings), moments, log_decay, log_wanted)


def line_at(measure: Measure, saddle: Saddle, most: int = MOST) -> Line:
    return line_of(plan_line(measure, saddle, most))


def line_of(plan: Plan) -> Line:
    measure, c, h, smoothing = plan.measure, plan.c, plan.h, plan.smoothing
    log_tail, log_density_tail = _log_tails(c, h, plan.count, smoothing, plan.moments.log_moment + plan.log_decay)
    s = c + 1j * h * np.arange(plan.count + 1)
    log_terms, log_errors = plan.moments.terms(h, plan.count)
    log_terms = log_terms + smoothing / 2 * s * (s + 1)
    aliases = []
    for wing in plan.wings:
        log_bound = measure.log_bound(wing) + log_peak(wing) + 1e-12
        aliases.append((wing, log_bound + smoothing / 2 * wing * (wing + 1)))
    products = plan.moments.size * (plan.count + 1)
    return Line(
        c, h, smoothing, log_terms, log_errors, tuple(aliases), log_tail, log_density_tail, measure.left_out, products
    )


def _uncut(measure: Product, c: float) -> Product:
    """Without cuts that are so far out that they cost more than they save."""
    steps = measure.steps
    if all(step.whole and (1 + c) * step.shift < step.cut - 6.0 for step in steps):
        return Product(tuple(replace(step, cut=math.inf) for step in steps), 0.0)
    return measure


def _log_tails(c: float, h: float, count: int, smoothing: float, log_modulus: float) -> tuple[float, float]:
    """log of bounds of (h / pi) sum over k > count of the moduli: of delta's terms, and of the density's."""
    u = (count + 1) * h
    damping = smoothing / 2 * (c * (c + 1) - u * u)
    log_tail = log_modulus + damping - math.log(math.pi * count * h)
    if smoothing == 0:
        return log_tail, math.inf
    return log_tail, log_modulus + damping + math.log((h + 1 / (smoothing * u)) / math.pi)
