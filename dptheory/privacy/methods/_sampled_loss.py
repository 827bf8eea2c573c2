r"""The privacy loss of one Poisson-subsampled Gaussian step, at real and at complex outputs, and its moments.

With t = 1 / noise_multiplier, q = sampling_rate and noise of standard deviation 1, the step's outputs on two neighbours are
dominated by

- "remove": :math:`P = (1-q) N(0,1) + q N(t,1)` against :math:`Q = N(0,1)`,
- "add": :math:`P = N(0,1)` against :math:`Q = (1-q) N(0,1) + q N(t,1)`,
- "replace": :math:`P = (1-q) N(0,1) + q N(t,1)` against :math:`Q = (1-q) N(0,1) + q N(-t,1)`.

The loss :math:`L = \log dP/dQ` under P is a rising function of one output z, so that its law is that of a Gaussian mixture.
With :math:`\Lambda(z) = 1 - q + q e^{tz - t^2/2}`:

- "remove": P has the density :math:`\varphi(z)\Lambda(z)`, :math:`L = \log\Lambda(z)`;
- "add" (mirrored): P has the density :math:`\varphi(z)`, :math:`L = -\log\Lambda(-z)`;
- "replace": P has the density :math:`\varphi(z)\Lambda(z)`, :math:`L = \log\Lambda(z) - \log\Lambda(-z)`.

:class:`Loss` is that law. :class:`StepLoss` is the same for the saddle line, which needs the moments M(s) = E_P[exp(s L)]: its
``cut`` takes very large outputs from P, for heavy tails, where M would be dominated by outputs that never occur. ``floor`` takes all
others: what is left is the part of P that a lower cut takes away.
"""

import functools
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory.privacy._bounds import Direction, Unresolved

Array = NDArray[np.float64]

_TAIL = 39.0  # N(0, 1) holds no double beyond
_PANEL = 0.25
DELTA_ERROR = 1e-11
"""Relative error of :meth:`Loss.delta`, generously."""
_ULPS = 2.0**-50
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True)
class Loss:
    """Law of the privacy loss of one step; z is the output, mirrored for "add" so that the loss rises with it."""

    direction: Direction
    noise_multiplier: float
    sampling_rate: float

    @property
    def components(self) -> tuple[tuple[float, float], ...]:
        """(weight, mean) of the Gaussians that z is drawn from."""
        if self.direction == "add":
            return ((1.0, 0.0),)
        q = self.sampling_rate
        return ((1.0 - q, 0.0), (q, 1.0 / self.noise_multiplier))

    def at(self, z: Array) -> Array:
        """The loss at output z."""
        if self.direction == "add":
            return -self._log_mixture(-z)
        if self.direction == "remove":
            return self._log_mixture(z)
        return self._log_mixture(z) - self._log_mixture(-z)

    def inverse(self, loss: Array) -> Array:
        """The output at which the loss is ``loss``; -inf below its range and inf above."""
        if self.direction == "add":
            return -self._inverse_log_mixture(-loss)
        return self._inverse_log_mixture(loss) if self.direction == "remove" else self._inverse_replace(loss)

    def probability(self, low: Array, high: Array, outputs: tuple[float, float] = (-math.inf, math.inf)) -> Array:
        """P(low < loss <= high and the output lies within ``outputs``), with small relative error in both tails."""
        left, right = np.clip(self.inverse(low), *outputs), np.clip(self.inverse(high), *outputs)
        return np.asarray(sum(w * interval(left - mean, right - mean) for w, mean in self.components))

    def mean_within(self, left: float, right: float) -> float:
        """E[loss; left < output <= right]."""
        z, weights = self._rule(max(left, -_TAIL), min(right, _TAIL + 1.0 / self.noise_multiplier))
        return float(weights @ self.at(z))

    def outside(self, left: float, right: float) -> float:
        """P(output <= left or output > right)."""
        return float(
            sum(w * (scipy.special.ndtr(left - mean) + scipy.special.ndtr(mean - right)) for w, mean in self.components)
        )

    def delta(self, epsilon: float) -> float:
        """delta(epsilon) of one step, E[(1 - exp(epsilon - loss))+], without cancellation."""
        left = max(float(self.inverse(np.array([epsilon]))[0]), -_TAIL)
        z, weights = self._rule(left, max(left, _TAIL + 1.0 / self.noise_multiplier))
        return float(weights @ -np.expm1(np.minimum(epsilon - self.at(z), 0.0)))

    def rounding(self, epsilon: float) -> float:
        """How far epsilon may be off in :meth:`delta`: near the largest loss, log 1 / (1 - q) of "add", it cancels."""
        if self.direction != "add" or self.sampling_rate == 1.0:
            return 0.0
        return _ULPS * (epsilon - math.log1p(-self.sampling_rate))

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Bounds of :meth:`delta` that allow for its errors."""
        rounding = self.rounding(epsilon)
        low, high = self.delta(epsilon + rounding), self.delta(epsilon - rounding)
        return low * (1 - DELTA_ERROR), high * (1 + DELTA_ERROR)

    def nodes(self) -> tuple[Array, Array, Array]:
        """A quadrature rule for the loss: outputs, losses and log weights."""
        z, weights = self._rule(-_TAIL, _TAIL + 1.0 / self.noise_multiplier)
        z, weights = z[weights > 0], weights[weights > 0]
        return z, self.at(z), np.log(weights)

    def _rule(self, left: float, right: float) -> tuple[Array, Array]:
        if not left < right:
            return np.zeros(1), np.zeros(1)
        edges = np.linspace(left, right, math.ceil((right - left) / _PANEL) + 1)
        half = np.diff(edges)[:, None] / 2
        z = (edges[:-1, None] + half * (1.0 + _NODES)).ravel()
        density = sum(w * np.exp(-((z - mean) ** 2) / 2) for w, mean in self.components) / math.sqrt(2 * math.pi)
        return z, np.asarray((half * _WEIGHTS).ravel() * density)

    def _log_mixture(self, z: Array) -> Array:
        """log((1 - q) + q exp(s z - s^2 / 2)) without cancellation near 0."""
        s, q = 1.0 / self.noise_multiplier, self.sampling_rate
        exponent = s * z - s * s / 2
        if q == 1.0:
            return exponent
        # Where q is large and the exponent negative, 1 - q + q e^x has to be added up from its parts.
        split = (exponent > 600.0) | ((exponent < -0.5) & (q > 0.5))
        whole = np.log1p(q * np.expm1(np.where(split, 0.0, exponent)))
        return np.where(split, np.logaddexp(math.log1p(-q), math.log(q) + exponent), whole)

    def _inverse_log_mixture(self, loss: Array) -> Array:
        s, q = 1.0 / self.noise_multiplier, self.sampling_rate
        if q == 1.0:
            return loss / s + s / 2
        inside = np.expm1(np.minimum(loss, 1.0)) / q
        with np.errstate(divide="ignore"):
            near = np.log1p(np.maximum(inside, -1.0))
        far = loss - math.log(q) + np.log1p(-(1.0 - q) * np.exp(-np.maximum(loss, 0.5)))
        # near log(1 - q), the least loss, e^loss - (1 - q) cancels; the difference of the logarithms does not
        above = np.maximum(loss - math.log1p(-q), 0.0)
        with np.errstate(divide="ignore"):
            deep = np.minimum(loss, 0.0) - math.log(q) + np.log(-np.expm1(-above))
        return np.where(loss < -0.5, deep, np.where(loss < 1.0, near, far)) / s + s / 2

    def _inverse_replace(self, loss: Array) -> Array:
        s, q = 1.0 / self.noise_multiplier, self.sampling_rate
        if q == 1.0:
            return loss / (2 * s)
        half = np.abs(loss) / 2
        log_ratio = math.log1p(-q) - math.log(q) + s * s / 2
        with np.errstate(divide="ignore"):  # log sinh, then asinh(exp(.)) by its logarithm where it is large
            log_argument = log_ratio + half + np.log(-np.expm1(-2 * half)) - math.log(2)
        moderate = np.arcsinh(np.exp(np.minimum(log_argument, 30.0)))
        asinh = np.where(log_argument < 30.0, moderate, log_argument + math.log(2))
        return np.sign(loss) * (half + asinh) / s


def interval(left: Array, right: Array) -> Array:
    """Phi(right) - Phi(left) from the tail that is the smaller."""
    mirrored = left > 0
    a, b = np.where(mirrored, -right, left), np.where(mirrored, -left, right)
    return np.asarray(np.maximum(scipy.special.ndtr(b) - scipy.special.ndtr(a), 0.0))


Reals = NDArray[np.float64]
Complexes = NDArray[np.complexfloating[Any, Any]]

HALF = 2.0**-53
"""Largest relative error of one rounding."""
ELEMENTARY = 2.0**-50
"""Assumed bound of the relative error of NumPy's exp, expm1, log, log1p, sin, cos, arctan2, and of products with them."""


_MOST_NODES = 4_000_000
_MOST_GUESSED = 400_000  # nodes of moments that only choose a line
_SHARED = 8.0  # of the real line, in one cell
LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
_LOG_NOTHING = -40.0
_LOG_TINY = math.log(1e-300)
"""Weights are no smaller: far tilts, where all would be lost, keep away from there."""


@dataclass(frozen=True, kw_only=True)
class StepLoss(Loss):
    """The loss of one step, ``count`` times, with far outputs left out.

    Attributes:
        count: how often, >= 1.
        cut, sharpness: P is multiplied by exp(-exp(sharpness (z - cut))): outputs far above ``cut`` are left out.
        floor: from that factor the one with ``floor`` for ``cut`` is taken away: outputs far below are left out.
    """

    count: int
    cut: float = math.inf
    sharpness: float = 1.0
    floor: float = -math.inf
    shift: float = field(init=False, compare=False)
    log_cut_mass: float = field(init=False, compare=False)
    """log of a bound of what ``cut`` takes from P, E exp(sharpness (z - cut)); of the mixture, not of its larger part."""
    whole: bool = field(init=False, compare=False)
    """Whether P has kept all of its mass but for a share that rounding covers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shift", 1.0 / self.noise_multiplier)
        mass = -math.inf if self.cut == math.inf else self._log_lift(self.sharpness) - self.sharpness * self.cut
        object.__setattr__(self, "log_cut_mass", mass)
        object.__setattr__(self, "whole", self.floor == -math.inf and mass < _LOG_NOTHING)

    def _log_lift(self, sharpness: float) -> float:
        """log E exp(sharpness z) under P."""
        rise, q = sharpness * self.shift, self.sampling_rate
        mixture = math.log1p(math.expm1(rise) * q) if rise < 500.0 else rise + math.log(q)
        return sharpness**2 / 2 + mixture

    def with_cut(self, log_left_out: float) -> "StepLoss":
        """At most exp(log_left_out) is left out in all steps; nothing for "add", whose losses are bounded above."""
        if self.direction == "add":
            return self
        nats = math.log(self.count) - log_left_out

        def cut(sharpness: float) -> float:
            return (self._log_lift(sharpness) + nats) / sharpness

        # the nearest cut where records sampled, or not sampled, decide
        either = [math.sqrt(2 * max(nats + log_share, 1.0)) for log_share in (math.log(self.sampling_rate), 0.0)]
        sharpness = min(either, key=cut)
        return replace(self, cut=cut(sharpness), sharpness=sharpness)


def log_mixture(step: StepLoss, z: Complexes) -> Complexes:
    """log Lambda(z) for t |Im z| <= pi / 2, without cancellation near Lambda = 1."""
    return log_shares(np.array(step.sampling_rate), step.shift * z - step.shift**2 / 2)


def log_shares(q: Reals, exponent: Complexes) -> Complexes:
    """log(1 - q + q exp(exponent)) for |Im exponent| <= pi / 2, of rates that broadcast against the exponents."""
    w = q * np.expm1(np.minimum(exponent.real, 30.0) + 1j * exponent.imag)
    q, exponent = np.broadcast_arrays(q, exponent)
    whole, large = q == 1.0, exponent.real > 30.0
    small = (exponent.real < -0.5) & (q > 0.5) & ~whole
    w[large] = (1.0 - q[large]) / q[large] * np.exp(-exponent[large])
    w[small | whole] = 0.0
    # log(1 + w), Re w > -1, by |1 + w|^2 - 1; NumPy's loses the real part of small w
    excess = 2 * w.real + (w.real**2 + w.imag**2)
    far = excess < -0.5
    real = 0.5 * np.log1p(np.where(far, 0.0, excess))
    real[far] = np.log(np.abs(1 + w[far]))
    found = np.asarray(real + 1j * np.arctan2(w.imag, 1.0 + w.real))
    found[large] += exponent[large] + np.log(q[large])
    found[small] = np.log((1.0 - q[small]) + q[small] * np.exp(exponent[small]))
    found[whole] = exponent[whole]
    return found


def losses(step: StepLoss, z: Complexes) -> tuple[Complexes, Complexes]:
    """L(z), and log of the density of P less that of N(0, 1)."""
    if step.direction == "add":
        return -log_mixture(step, -z), np.zeros_like(z)
    up = log_mixture(step, z)
    density = up + log_cut(step, z)
    if step.floor > -math.inf:
        density = density + _log_floor(step, z)
    return (up if step.direction == "remove" else up - log_mixture(step, -z)), density


def log_cut(step: StepLoss, z: Complexes) -> Complexes:
    with np.errstate(over="ignore"):  # infinity is cut like any number beyond 650
        beyond = np.minimum(step.sharpness * (z.real - step.cut), 650.0)
    return np.asarray(-np.exp(beyond + 1j * step.sharpness * z.imag))


def _log_floor(step: StepLoss, z: Complexes) -> Complexes:
    """log(1 - exp(-w)), w = exp(sharpness (z - floor)) - exp(sharpness (z - cut))."""
    log_w = step.sharpness * (z - step.floor) + math.log(-math.expm1(-step.sharpness * (step.cut - step.floor)))
    w = np.exp(np.minimum(log_w.real, 650.0) + 1j * log_w.imag)
    small = np.abs(w) < 1e-12
    return np.asarray(np.where(small, log_w, np.log(-np.expm1(np.where(small, -1.0, -w)))))


@dataclass(frozen=True)
class Moments:
    """log M and its first two derivatives at a real s: for choosing a line, not for a bound."""

    value: float
    slope: float
    curvature: float


def real_moments(steps: "tuple[StepLoss, ...]", s: float) -> Moments:
    """Of the sum of all losses, by the trapezoid rule on the real line, to some ten digits."""
    total = np.zeros(3)
    for step in steps:
        ends, spacing = reach(step, s, 10.0), min(0.25, step.noise_multiplier / 2)
        if not step.whole:
            spacing = min(spacing, 0.5 / step.sharpness)
        check_size((ends.right - ends.left) / spacing, _MOST_GUESSED)
        # computed outwards to multiples, so that neighbouring s share what they take their nodes from
        share = min(_SHARED, 64 * spacing)
        left, right = share * math.floor(ends.left / share), share * math.ceil(ends.right / share)
        nodes = slice(math.ceil((ends.left - left) / spacing), math.floor((ends.right - left) / spacing) + 1)
        loss, log_weights = (values[nodes] for values in _on_the_real_line(step, left, right, spacing))
        exponent = s * loss
        if step.whole and np.abs(exponent).max() < 0.5:
            weights = np.exp(log_weights)
            excess = float(weights @ np.expm1(exponent))
            value, tilted = math.log1p(excess), weights * np.exp(exponent) / (1 + excess)
        else:
            log_terms = log_weights + exponent
            top = float(log_terms.max())
            tilted = np.exp(log_terms - top)
            mass = float(tilted.sum())
            value, tilted = top + math.log(mass), tilted / mass
        mean = float(tilted @ loss)
        total += step.count * np.array([value, mean, float(tilted @ (loss - mean) ** 2)])
    return Moments(*total.tolist())


@functools.lru_cache(maxsize=64)
def _on_the_real_line(step: StepLoss, left: float, right: float, spacing: float) -> tuple[Reals, Reals]:
    """L at the nodes of the trapezoid rule, and log of P's weights there."""
    z = np.arange(left, right, spacing).astype(np.complex128)
    loss, log_density = losses(step, z)
    log_weights = math.log(spacing) - z.real**2 / 2 - LOG_ROOT_2PI + log_density.real
    return np.asarray(loss.real), np.maximum(log_weights, _LOG_TINY)


@dataclass(frozen=True)
class Reach:
    """Where the integrand's log without the Gaussian rises at most with ``slope``, outwards of ``edge``, on each side."""

    left: float
    left_slope: float
    right: float
    right_slope: float


def reach(step: StepLoss, c: float, margin: float) -> Reach:
    """Edges that lie at least ``margin`` beyond the slopes."""
    t, q = step.shift, step.sampling_rate
    up, down = (1.0 + c) * (step.direction != "add"), c * (step.direction != "remove")
    left_slope = t * max(-down, 0.0)
    odds = q / (1.0 - q) if q < 1.0 else math.inf

    right = margin
    while True:
        # d/dx log|Lambda| <= t; of -log|Lambda(-z)| it is at most t b / a, b / a = q / (1 - q) exp(-t x - t^2 / 2), as well
        right_slope = t * (up + max(down, 0.0) * min(1.0, odds * math.exp(-t * right - t * t / 2)))
        if right >= right_slope + margin:
            break
        right = min(1.2 * right, right_slope + margin)
    # Here the cut outweighs the slope: k exp(k (x - cut)) cos(2 y k) > slope for the sharpness k, the cosine >= 1 / 2.
    fallen = step.cut + math.log1p(2 * right_slope / step.sharpness) / step.sharpness + 1.5
    if fallen < right:
        right, right_slope = fallen, 0.0
    return Reach(-left_slope - margin, left_slope, right, right_slope)


def check_size(nodes: float, most: int = _MOST_NODES) -> None:
    if nodes > most:
        raise Unresolved(f"the moment function needs {nodes:.1e} nodes")
