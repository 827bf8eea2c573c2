r"""The loss of a Poisson-subsampled Gaussian step at complex outputs, and its moments M(s) = E_P[exp(s L)] at real s.

With t = 1 / noise_multiplier, q = sampling_rate and :math:`\Lambda(z) = 1 - q + q e^{tz - t^2/2}`, the loss L = log dP/dQ
under P is a rising function of one output z:

- "remove": P has the density :math:`\varphi(z)\Lambda(z)`, :math:`L = \log\Lambda(z)`;
- "add" (mirrored): P has the density :math:`\varphi(z)`, :math:`L = -\log\Lambda(-z)`;
- "replace": P has the density :math:`\varphi(z)\Lambda(z)`, :math:`L = \log\Lambda(z) - \log\Lambda(-z)`.

``cut`` takes very large outputs from P: for heavy tails, where M would be dominated by outputs that never occur. ``floor``
takes all others: what is left is the part of P that a lower cut takes away.
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptheory.privacy._bounds import Unresolved
from dptheory.privacy.methods._sampled_loss import Loss

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

    @property
    def shift(self) -> float:
        return 1.0 / self.noise_multiplier

    @property
    def log_cut_mass(self) -> float:
        """log of a bound of what ``cut`` takes from P, E exp(sharpness (z - cut)); of the mixture, not of its larger part."""
        return self._log_lift(self.sharpness) - self.sharpness * self.cut

    def _log_lift(self, sharpness: float) -> float:
        """log E exp(sharpness z) under P."""
        rise, q = sharpness * self.shift, self.sampling_rate
        mixture = math.log1p(math.expm1(rise) * q) if rise < 500.0 else rise + math.log(q)
        return sharpness**2 / 2 + mixture

    @property
    def whole(self) -> bool:
        """Whether P has kept all of its mass but for a share that rounding covers."""
        return self.floor == -math.inf and (self.cut == math.inf or self.log_cut_mass < _LOG_NOTHING)

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
    """log Lambda(z) for t |Im z| <= pi / 2."""
    return log_mixed(step.sampling_rate, step.shift * z - step.shift**2 / 2)


def log_mixed(rate: float | Reals, exponent: Complexes) -> Complexes:
    """log(1 - q + q exp(exponent)) for |Im exponent| <= pi / 2, without cancellation near 0; rates are broadcast."""
    exponent = np.broadcast_to(exponent, np.broadcast_shapes(np.shape(rate), exponent.shape))
    if np.all(rate == 1.0):
        return exponent
    large = exponent.real > 30.0
    whole = rate == np.ones_like(exponent.real)
    small = (exponent.real < -0.5) & (rate > 0.5) & ~whole
    found = _log1p(np.asarray(rate * np.expm1(np.where(large | small | whole, 0.0, exponent))))
    if large.any():
        q, beyond = np.broadcast_to(rate, exponent.shape)[large], exponent[large]
        found[large] = beyond + (np.log(q) + _log1p(np.asarray((1.0 - q) / q * np.exp(-beyond))))
    if small.any():
        q = np.broadcast_to(rate, exponent.shape)[small]
        found[small] = np.log((1.0 - q) + q * np.exp(exponent[small]))
    return np.where(whole, exponent, found)


def _log1p(w: Complexes) -> Complexes:
    """log(1 + w), Re w > -1; NumPy's loses the real part of small w."""
    modulus = np.abs(w)
    near = modulus < 0.5
    real = np.where(near, 0.5 * np.log1p(np.where(near, 2 * w.real + modulus**2, 0.0)), np.log(np.abs(1 + w)))
    return np.asarray(real + 1j * np.arctan2(w.imag, 1.0 + w.real))


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


def real_moments(step: StepLoss, s: float) -> Moments:
    """By the trapezoid rule on the real line, to some ten digits."""
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
        total = float(tilted.sum())
        value, tilted = top + math.log(total), tilted / total
    mean = float(tilted @ loss)
    return Moments(value, mean, float(tilted @ (loss - mean) ** 2))


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

    def slope(edge: float) -> float:
        # d/dx log|Lambda| <= t; of -log|Lambda(-z)| it is at most t b / a, b / a = q / (1 - q) exp(-t x - t^2 / 2), as well
        return t * (up + max(down, 0.0) * min(1.0, odds * math.exp(-t * edge - t * t / 2)))

    right = margin
    while right < slope(right) + margin:
        right = min(1.2 * right, slope(right) + margin)
    right_slope = slope(right)
    # Here the cut outweighs the slope: k exp(k (x - cut)) cos(2 y k) > slope for the sharpness k, the cosine >= 1 / 2.
    fallen = step.cut + math.log1p(2 * right_slope / step.sharpness) / step.sharpness + 1.5
    if fallen < right:
        right, right_slope = fallen, 0.0
    return Reach(-left_slope - margin, left_slope, right, right_slope)


def check_size(nodes: float, most: int = _MOST_NODES) -> None:
    if nodes > most:
        raise Unresolved(f"the moment function needs {nodes:.1e} nodes")
