r"""The moment function M(s) = E_P[exp(s L)] of a Poisson-subsampled Gaussian step at complex s, with bounds of its errors.

With t = 1 / noise_multiplier, q = sampling_rate and :math:`\Lambda(z) = 1 - q + q e^{tz - t^2/2}`, the loss L = log dP/dQ
under P is a rising function of one output z:

- "remove": P has the density :math:`\varphi(z)\Lambda(z)`, :math:`L = \log\Lambda(z)`;
- "add" (mirrored): P has the density :math:`\varphi(z)`, :math:`L = -\log\Lambda(-z)`;
- "replace": P has the density :math:`\varphi(z)\Lambda(z)`, :math:`L = \log\Lambda(z) - \log\Lambda(-z)`.

M is the integral along Im z = y > 0, by the trapezoid rule. There :math:`|e^{iuL}| \le 1` for every u >= 0, so that one rule
and one bound of its error serve all u: proofs/privacy/saddle_line.md, steps 5 to 7.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Direction = Literal["remove", "add", "replace"]
Reals = NDArray[np.float64]
Complexes = NDArray[np.complex128]

HALF = 2.0**-53
"""Largest relative error of one rounding."""
ELEMENTARY = 2.0**-50
"""Assumed bound of the relative error of NumPy's exp, expm1, log, log1p, sin, cos, arctan2, and of products with them."""

SHARPNESS = 6.0

_SHIFT = 1.6  # y: the rule loses exp(y^2 / 2) = 3.6 to cancellation, and needs fewer nodes the larger y is
_WALL = math.pi / 4  # of noise_multiplier: at 2 y both moduli are monotone
_CUT_WALL = math.pi / 6 / SHARPNESS  # so that the cut's modulus is monotone and falls
_GROWTH = 15.0  # nats by which the integrand may grow up to the line 2 y
_CELL = 0.1
_FAR = 40.0  # beyond the largest exponent's slope
_MOST_NODES = 4_000_000
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
_TINY = 1e-300


@dataclass(frozen=True, kw_only=True)
class StepLoss:
    """The loss of one step, ``count`` times.

    Attributes:
        noise_multiplier: standard deviation of the noise over the clipping norm, > 0.
        sampling_rate: in (0, 1].
        count: how often, >= 1.
        direction: which law is P.
        cut: P is multiplied by exp(-exp(SHARPNESS (z - cut))): outputs far above ``cut`` are left out.
    """

    noise_multiplier: float
    sampling_rate: float
    count: int
    direction: Direction
    cut: float = math.inf

    @property
    def shift(self) -> float:
        return 1.0 / self.noise_multiplier

    @property
    def log_cut_mass(self) -> float:
        """log of a bound of what ``cut`` takes from P, by E exp(SHARPNESS (z - cut))."""
        return SHARPNESS * (SHARPNESS / 2 + self.shift - self.cut)

    def with_cut(self, log_left_out: float) -> "StepLoss":
        """At most exp(log_left_out) is left out in all steps; nothing for "add", whose losses are bounded above."""
        cut = self.shift + SHARPNESS / 2 + (math.log(self.count) - log_left_out) / SHARPNESS
        return replace(self, cut=cut) if self.direction != "add" else self


class Unresolved(ArithmeticError):
    """The integral cannot be evaluated to the promised width.

    Attributes:
        lower, upper: bounds that hold all the same, of what was asked for.
    """

    def __init__(self, message: str, lower: float = 0.0, upper: float = math.inf) -> None:
        super().__init__(message)
        self.lower, self.upper = lower, upper


def log_mixture(step: StepLoss, z: Complexes) -> Complexes:
    """log Lambda(z) for t |Im z| <= pi / 2, without cancellation near Lambda = 1."""
    q = step.sampling_rate
    exponent = step.shift * z - step.shift**2 / 2
    if q == 1.0:
        return exponent
    large = exponent.real > 30.0
    apart = large | ((exponent.real < -0.5) & (q > 0.5))
    whole = _log1p(q * np.expm1(np.where(apart, 0.0, exponent)))
    far = exponent + math.log(q) + _log1p((1.0 - q) / q * np.exp(-np.where(large, exponent, 40.0)))
    near = np.log((1.0 - q) + q * np.exp(np.where(large, 0.0, exponent)))
    return np.where(large, far, np.where(apart, near, whole))


def _log1p(w: Complexes) -> Complexes:
    """log(1 + w), Re w > -1; NumPy's loses the real part of small w."""
    real = np.where(
        np.abs(w) < 0.5, 0.5 * np.log1p(np.where(np.abs(w) < 0.5, 2 * w.real + np.abs(w) ** 2, 0.0)), np.log(np.abs(1 + w))
    )
    return np.asarray(real + 1j * np.arctan2(w.imag, 1.0 + w.real))


def losses(step: StepLoss, z: Complexes) -> tuple[Complexes, Complexes]:
    """L(z), and log of the density of P less that of N(0, 1)."""
    if step.direction == "add":
        return -log_mixture(step, -z), np.zeros_like(z)
    up = log_mixture(step, z)
    return (up if step.direction == "remove" else up - log_mixture(step, -z)), up + log_cut(step, z)


def log_cut(step: StepLoss, z: Complexes) -> Complexes:
    return np.asarray(-np.exp(np.minimum(SHARPNESS * (z.real - step.cut), 650.0) + 1j * SHARPNESS * z.imag))


@dataclass(frozen=True)
class Moments:
    """log M and its first two derivatives at a real s: for choosing a line, not for a bound."""

    value: float
    slope: float
    curvature: float


def real_moments(step: StepLoss, s: float) -> Moments:
    """By the trapezoid rule on the real line, to some ten digits."""
    reach = _reach(step, s, 10.0)
    spacing = min(0.25, step.noise_multiplier / 2)
    _fits((reach.right - reach.left) / spacing)
    z = np.arange(reach.left, reach.right, spacing).astype(np.complex128)
    loss, log_density = losses(step, z)
    loss, weights = loss.real, spacing * np.exp(-(z.real**2) / 2 - _LOG_ROOT_2PI + log_density.real)
    exponent = s * loss
    if np.abs(exponent).max() < 0.5:
        excess = float(weights @ np.expm1(exponent))
        value, tilted = math.log1p(excess), weights * np.exp(exponent) / (1 + excess)
    else:
        log_terms = np.log(np.maximum(weights, _TINY)) + exponent
        top = float(log_terms.max())
        tilted = np.exp(log_terms - top)
        total = float(tilted.sum())
        value, tilted = top + math.log(total), tilted / total
    mean = float(tilted @ loss)
    return Moments(value, mean, float(tilted @ (loss - mean) ** 2))


@dataclass(frozen=True)
class _Reach:
    """Where the integrand's log without the Gaussian rises at most with ``slope``, outwards of ``edge``, on each side."""

    left: float
    left_slope: float
    right: float
    right_slope: float


def _reach(step: StepLoss, c: float, margin: float) -> _Reach:
    """Edges that lie at least ``margin`` beyond the slopes."""
    t, q = step.shift, step.sampling_rate
    up, down = (1.0 + c) * (step.direction != "add"), c * (step.direction != "remove")
    left_slope = t * max(-down, 0.0)
    odds = q / (1.0 - q) if q < 1.0 else math.inf

    def slope(edge: float) -> float:
        # d/dx log|Lambda| <= t; of -log|Lambda(-z)| it is at most t b / a, b / a = q / (1 - q) exp(-t x - t^2 / 2), as well
        return t * (up + max(down, 0.0) * min(1.0, odds * math.exp(-t * edge - t * t / 2)))

    right = margin
    while right < slope(right) + margin:
        right = min(1.2 * right, slope(right) + margin)
    right_slope = slope(right)
    # Here the cut outweighs the slope: SHARPNESS exp(SHARPNESS (x - cut)) cos(2 y SHARPNESS) > slope, the cosine >= 1 / 2.
    fallen = step.cut + math.log1p(2 * right_slope / SHARPNESS) / SHARPNESS + 1.5
    if fallen < right:
        right, right_slope = fallen, 0.0
    return _Reach(-left_slope - margin, left_slope, right, right_slope)


def _fits(nodes: float) -> None:
    if nodes > _MOST_NODES:
        raise Unresolved(f"the moment function needs {nodes:.1e} nodes")


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
    reach: _Reach

    @property
    def log_integral(self) -> float:
        left, right = self.edges[0], self.edges[-1]
        outer = (
            self.log_left - math.log(-left - self.reach.left_slope),
            self.log_right - math.log(right - self.reach.right_slope),
        )
        return float(np.logaddexp.reduce(np.concatenate([self.log_cells, outer])))


def envelope(step: StepLoss, c: float, y: float) -> Envelope:
    """For c > -1 and 0 <= y <= pi noise_multiplier / 2."""
    reach = _reach(step, c, _FAR)
    _fits((reach.right - reach.left) / _CELL)
    edges = np.arange(reach.left, reach.right + _CELL, _CELL)
    nearest = np.where(edges[:-1] * edges[1:] < 0, 0.0, np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])))
    bound = (y * y - nearest**2) / 2 - _LOG_ROOT_2PI
    ends = (y * y - edges[[0, -1]] ** 2) / 2 - _LOG_ROOT_2PI
    if step.direction != "add":
        up = (1.0 + c) * log_mixture(step, edges + 1j * y).real
        bound, ends = bound + np.maximum(up[:-1], up[1:]), ends + up[[0, -1]]
        kept = log_cut(step, edges + 1j * y).real
        bound, ends = bound + kept[:-1], ends + kept[[0, -1]]
    if step.direction != "remove":
        down = -c * log_mixture(step, -edges - 1j * y).real
        bound, ends = bound + np.maximum(down[:-1], down[1:]), ends + down[[0, -1]]
    return Envelope(edges, bound + math.log(_CELL), float(ends[0]), float(ends[1]), reach)


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
        moduli = np.abs(self.weights) * np.exp(-u * self.losses.imag)
        return math.log(float(moduli.sum()) * (1 + moduli.size * ELEMENTARY) + self.error)


def widest_shift(step: StepLoss, c: float) -> float:
    """A height of the line at which the integrand up to twice that height does not grow much."""
    y = min(_SHIFT, _WALL * step.noise_multiplier, _CUT_WALL if step.cut < math.inf else _SHIFT)
    least = envelope(step, c, 0.0).log_integral
    while envelope(step, c, 2 * y).log_integral > least + _GROWTH:
        y /= 2
    return y


def moment_rule(
    step: StepLoss, c: float, y: float, *, digits: float = 30.0
) -> MomentRule:
    """The rule at c > -1 on Im z = y, y in (0, pi noise_multiplier / 4]; its error is about exp(-digits) / count."""
    wanted = -digits - math.log(step.count)
    walls = {s: _walls(step, s, y) for s in (c, 0.0)}
    log_level, log_strip = walls[c]
    spacing = 2 * math.pi * y / (log_strip - log_level - wanted + 1.0)
    middle = {s: envelope(step, s, y) for s in (c, 0.0)}
    ends = [_range(middle[c], spacing, log_level + wanted), _range(middle[0.0], spacing, wanted)]
    first, last = min(end[0] for end in ends), max(end[1] for end in ends)
    _fits((last - first) / spacing)
    z = np.arange(math.floor(first / spacing), math.ceil(last / spacing) + 1) * spacing + 1j * y
    outer = (float(z[0].real), float(z[-1].real))
    log_errors = {
        s: float(np.logaddexp(_log_aliases(walls[s][1], y, spacing), log_outside(middle[s], spacing, outer)))
        for s in (c, 0.0)
    }

    loss, log_density = losses(step, z)
    log_weights = log_density - z * z / 2 + (math.log(spacing) - _LOG_ROOT_2PI)
    loss_error = _loss_rounding(step, z, loss)
    exponent = c * loss
    log_terms = log_weights + exponent
    top = float(log_terms.real.max())
    terms = np.exp(log_terms - top)
    sizes = 3 * np.abs(z) ** 2 / 2 + 3 * np.abs(exponent) + np.abs(log_weights) + np.abs(log_terms)
    weight_error = ELEMENTARY * (1 + np.abs(log_density)) + HALF * sizes + abs(c) * loss_error
    if step.cut < math.inf:
        weight_error += ELEMENTARY * np.abs(log_cut(step, z)) * (1 + SHARPNESS * np.abs(z - step.cut))
    total = math.fsum(terms.real)
    log_moment = top + math.log(total)
    error = math.exp(log_errors[c] - log_moment)
    if abs(log_moment) < 0.5:
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


def _log_aliases(log_strip: float, y: float, spacing: float) -> float:
    exponent = 2 * math.pi * y / spacing
    return log_strip - exponent - math.log(-math.expm1(-exponent))


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
        inside = log_mixture(step, sign * z)
        exponent = sign * t * z - t * t / 2
        gain = np.exp(math.log(q) + (exponent - inside).real)  # q exp(exponent) / Lambda: d log Lambda / d exponent
        added = gain * np.abs(np.expm1(-np.maximum(exponent.real, -600.0) - 1j * exponent.imag))  # |Lambda - 1| / |Lambda|
        error += ELEMENTARY * (np.abs(inside) + added) + 4 * HALF * gain * (np.abs(t * z) + t * t / 2)
        if q > 0.5:
            error += ELEMENTARY * 2 * (exponent.real < -0.5)
    return np.asarray(error)
