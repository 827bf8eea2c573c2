r"""The measures whose inversion integral gives delta: a product of steps, and the difference of two products.

The difference holds the runs in which some output is extreme: :math:`\prod_j M_j^{T_j} - \prod_j A_j^{T_j}`, A the moments
of P below a cut. Its terms stay small where those of the product are much larger than their sum: heavy tails. What is asked
of a measure is in :class:`Measure`; proofs/privacy/saddle_line.md, steps 4 to 8 and 11.
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dptheory.privacy._bounds import Unresolved
from dptheory.privacy.methods.saddle._moment_rule import MomentRule, moment_rule, nodes, widest_shift
from dptheory.privacy.methods.saddle._moments import ELEMENTARY, HALF, Complexes, Reals, StepLoss, real_moments
from dptheory.privacy.methods.saddle._points import Losses, Saddle, log_peak, total_of

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

    def about(self, c: float) -> float:
        """About log M(c)."""

    def log_bound(self, c: float) -> float:
        """log of an upper bound of M(c)."""

    def at(self, c: float) -> AtLine: ...


@dataclass(frozen=True)
class Product:
    """The law of the sum of independent losses."""

    steps: Losses
    left_out: float

    def about(self, c: float) -> float:
        return total_of(self.steps)(c).value

    def log_bound(self, c: float) -> float:
        if c in (0.0, -1.0):
            return 0.0  # M(0), M(-1) <= 1
        return sum(step.count * _quick(step, c).upper_log_moment for step in self.steps)

    def at(self, c: float) -> AtLine:
        return _ProductAt(self.steps, c, _rules(self.steps, c))


@dataclass(frozen=True)
class Difference:
    """The law of the sum of the losses, less that of the runs without an extreme output: ``usual`` and ``rare`` make up P."""

    usual: Losses
    rare: Losses
    left_out: float

    def about(self, c: float) -> float:
        return self._log([real_moments(step, c).value for step in self.usual + self.rare])

    def log_bound(self, c: float) -> float:
        return self._log([_quick(step, c).upper_log_moment for step in self.usual + self.rare])

    def at(self, c: float) -> AtLine:
        return _DifferenceAt(self.usual, self.rare, c, _rules(self.usual, c), _rules(self.rare, c))

    def _log(self, values: list[float]) -> float:
        half = len(self.usual)
        return _log_difference(self.usual, np.array(values[:half]), np.array(values[half:]))


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
            return measure.about(c) - c * epsilon - math.log(c) - math.log1p(c)
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
class _ProductAt:
    steps: Losses
    c: float
    rules: tuple[MomentRule, ...]

    @property
    def log_moment(self) -> float:
        return sum(step.count * rule.upper_log_moment for step, rule in zip(self.steps, self.rules, strict=True))

    @property
    def size(self) -> int:
        return max(rule.losses.size for rule in self.rules)

    def log_decay(self, u: float) -> float:
        return sum(
            step.count * _log_decay(step, rule, self.c, u) for step, rule in zip(self.steps, self.rules, strict=True)
        )

    def terms(self, h: float, count: int) -> tuple[Complexes, Reals]:
        log_terms, log_errors = np.zeros(count + 1, dtype=np.complex128), np.zeros(count + 1)
        for step, rule in zip(self.steps, self.rules, strict=True):
            log_ratio, error = _ratios(rule, h, count)
            log_terms += step.count * (log_ratio + rule.log_moment)
            log_errors += step.count * (error + rule.moment_error)
        return log_terms, log_errors


@dataclass(frozen=True)
class _DifferenceAt:
    usual: Losses
    rare: Losses
    c: float
    usual_rules: tuple[MomentRule, ...]
    rare_rules: tuple[MomentRule, ...]

    @property
    def log_moment(self) -> float:
        return _log_difference(
            self.usual,
            np.array([rule.upper_log_moment for rule in self.usual_rules]),
            np.array([rule.upper_log_moment for rule in self.rare_rules]),
        )

    @property
    def size(self) -> int:
        return max(rule.losses.size for rule in self.usual_rules + self.rare_rules)

    def log_decay(self, u: float) -> float:
        bounds = [
            np.array([rule.upper_log_moment + _log_decay(step, rule, self.c, u) for step, rule in pairs])
            for pairs in (
                zip(self.usual, self.usual_rules, strict=True),
                zip(self.rare, self.rare_rules, strict=True),
            )
        ]
        return _log_difference(self.usual, *bounds) - self.log_moment

    def terms(self, h: float, count: int) -> tuple[Complexes, Reals]:
        """A^T expm1(sum T log1p(D / A)), and its error by monomials D^k A^(T - k), k >= 1, with nonnegative coefficients."""
        base, gain = np.zeros(count + 1, dtype=np.complex128), np.zeros(count + 1, dtype=np.complex128)
        size, gain_size = np.zeros(count + 1), np.zeros(count + 1)  # of the moduli
        grown, gain_grown = np.zeros(count + 1), np.zeros(count + 1)  # and with their errors
        rounding = np.zeros(count + 1)
        for step, low, high in zip(self.usual, self.usual_rules, self.rare_rules, strict=True):
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


def _log_difference(steps: Losses, usual: Reals, rare: Reals) -> float:
    """log of prod (a + d)^T - prod a^T, from log a and log d."""
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


def _rules(steps: Losses, c: float) -> tuple[MomentRule, ...]:
    return tuple(moment_rule(step, c, widest_shift(step, c)) for step in steps)


def _quick(step: StepLoss, c: float) -> MomentRule:
    return moment_rule(step, c, widest_shift(step, c), digits=_FEW_DIGITS)


def _log_decay(step: StepLoss, rule: MomentRule, c: float, u: float) -> float:
    """log of a bound of |M(c + iv)| / M(c) for all v >= u, on the line of the rule or below it.

    A lower line loses less to exp(y^2 / 2); the best for a nearly Gaussian loss of deviation w is y = u w.
    """
    decay = rule.log_decay(u)
    y = lower_shift(step, c, u)
    if y is not None:
        decay = min(decay, _lower_rule(step, c, y).log_decay(u))
    return min(decay, 0.0)


def lower_shift(step: StepLoss, c: float, u: float) -> float | None:
    """The height of a line on which |M(c + iv)|, v >= u, has a closer bound than on the highest; None where none is near."""
    wanted = u * _spread(step, c)
    widest = widest_shift(step, c)
    rung = min(_LOWEST, round(_RUNGS * math.log2(widest / wanted)) if wanted > 0 else _LOWEST, _affordable(step, c))
    return widest / 2 ** (rung / _RUNGS) if rung >= _RUNGS else None


@functools.lru_cache(maxsize=256)
def _affordable(step: StepLoss, c: float) -> int:
    """The lowest rung whose line has not too many nodes: they grow as its height falls."""
    at = nodes(step, c, widest_shift(step, c), _FEW_DIGITS)
    return math.floor(_RUNGS * math.log2(max(1.0, _MOST_LOWER / (at.last - at.first))))


@functools.lru_cache(maxsize=32)
def _lower_rule(step: StepLoss, c: float, y: float) -> MomentRule:
    return moment_rule(step, c, y, digits=_FEW_DIGITS)


@functools.lru_cache(maxsize=1024)
def _spread(step: StepLoss, c: float) -> float:
    return math.sqrt(real_moments(step, c).curvature)


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
