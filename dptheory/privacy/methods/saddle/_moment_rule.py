r"""M(s) = E_P[exp(s L)] at s = c + iu, u >= 0, as one trapezoid rule for all u, with bounds of its errors.

M is the integral of :math:`\varphi(z)\,p(z)\,e^{sL(z)}` along Im z = y > 0. There :math:`|e^{iuL}| \le 1` for every
u >= 0, so that one rule and one bound of its error serve every u: proofs/privacy/saddle_line.md, steps 4 to 6.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from dptheory.privacy._bounds import Unresolved
from dptheory.privacy.methods.saddle._moments import (
    ELEMENTARY,
    HALF,
    LOG_ROOT_2PI,
    Complexes,
    Reach,
    Reals,
    StepLoss,
    check_size,
    log_cut,
    log_mixture,
    losses,
    reach,
)

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
    """

    edges: Reals
    log_cells: Reals
    log_left: float
    log_right: float
    reach: Reach

    @property
    def log_integral(self) -> float:
        left, right = self.edges[0], self.edges[-1]
        outer = (
            self.log_left - math.log(-left - self.reach.left_slope),
            self.log_right - math.log(right - self.reach.right_slope),
        )
        return float(np.logaddexp.reduce(np.concatenate([self.log_cells, outer])))


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
    return Envelope(edges, bound + math.log(_CELL), float(ends[0]), float(ends[1]), ends_at)


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
        falls = np.exp(-u * self.losses.imag) * (1 + u * (self.loss_error + ELEMENTARY * np.abs(self.losses)))
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


def nodes(step: StepLoss, c: float, y: float, digits: float) -> Nodes:
    """Nodes on Im z = y, y in (0, pi noise_multiplier / 4], for an error of M(c + iu) of about exp(-digits) / count."""
    wanted = -digits - math.log(step.count)
    log_level, log_strip = _walls(step, c, y)
    spacing = 2 * math.pi * y / (log_strip - log_level - wanted + 1.0)
    ends = [_range(envelope(step, s, y), spacing, level + wanted) for s, level in ((c, log_level), (0.0, 0.0))]
    first, last = min(end[0] for end in ends), max(end[1] for end in ends)
    check_size((last - first) / spacing)
    return Nodes(y, spacing, math.floor(first / spacing), math.ceil(last / spacing))


def _log_rule_error(step: StepLoss, c: float, at: Nodes) -> float:
    """log of a bound of |rule - M(c + iu)| by spacing and by range."""
    exponent = 2 * math.pi * at.y / at.spacing
    log_aliases = _walls(step, c, at.y)[1] - exponent - math.log(-math.expm1(-exponent))
    outer = (at.first * at.spacing, at.last * at.spacing)
    return float(np.logaddexp(log_aliases, log_outside(envelope(step, c, at.y), at.spacing, outer)))


def moment_rule(step: StepLoss, c: float, y: float, *, digits: float = 30.0) -> MomentRule:
    """The rule at c > -1 on Im z = y, y in (0, pi noise_multiplier / 4]; its error is about exp(-digits) / count."""
    at = nodes(step, c, y, digits)
    z = at.outputs
    log_errors = {s: _log_rule_error(step, s, at) for s in (c, 0.0)}

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
    if log_errors[c] - log_moment > _MOST_LOG_ERROR:
        raise Unresolved(f"M({c!r}) is lost to the rule's error")
    error = math.exp(log_errors[c] - log_moment)
    if step.whole and abs(log_moment) < 0.5:
        # M - 1 = E[exp(c L) - 1]: less rounding; the weights add up to 1 but for the rule's error at s = 0
        weights = np.exp(log_weights)
        small = exponent.real < 1.0
        gains = weights * np.expm1(np.where(small, exponent, 0.0))
        gains = np.where(small, gains, np.exp(log_terms) - weights)
        log_moment = math.log1p(math.fsum(gains.real))
        rounding = float(np.abs(gains) @ weight_error + np.abs(np.exp(log_terms)) @ (abs(c) * loss_error))
        rounding *= math.exp(-log_moment)
        at_zero = math.exp(log_errors[0.0]) + (math.exp(step.log_cut_mass) if step.cut < math.inf else 0.0)
        moment_error = error + at_zero * math.exp(-log_moment) + rounding
    else:
        moment_error = error + float(np.abs(terms) @ weight_error) / total + HALF * abs(top)
    moment_error = 1.01 * moment_error + ELEMENTARY * abs(log_moment)
    return MomentRule(loss, terms / total, log_moment, 1.01 * error, moment_error, weight_error, loss_error)


def _walls(step: StepLoss, c: float, y: float) -> tuple[float, float]:
    """log of bounds of M(c), and of the integrals of the integrand's modulus on Im z = 0 and 2 y together."""
    real, high = (envelope(step, c, height).log_integral for height in (0.0, 2 * y))
    return real, float(np.logaddexp(real, high))


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
