"""Quadrature for the law of the distortion angle: a grid of panels on which its density is known to rounding."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dptheory._arrays import Array

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_RADII, _RADIUS_WEIGHTS = np.polynomial.legendre.leggauss(56)
TAILS, MOMENTS = 800.0, 60.0
"""Fall of the log density at which the grid ends: where exp is 0 in floats, and where nothing adds to a moment any more."""

_STEP = 12.0  # largest change of the log density over a panel
_CHUNK = 1024
_HUGE = 1e20
"""Beyond this snr the law of snr * angle no longer changes in floats: relative corrections are at most dim / snr^2."""


@dataclass(frozen=True)
class AngleLaw:
    r"""Density :math:`\propto\sin^{d-2}(g)\,\Psi_d(\kappa\cos g)` on [0, pi], relative to a reference angle.

    :math:`\Psi_d(c) = \int_0^\infty r^{d-1} e^{-r^2/2 + rc} dr`. With m = d - 1 and r0 the root of r0 (r0 - c) = m the
    integral is :math:`e^{h(r_0)} r_0 I`, :math:`I = \int_{-1}^\infty e^{-m(u - \log(1 + u)) - r_0^2 u^2/2} du`, and the
    change of the exponent from the reference (marked *) is (d - 2) log(sin / sin*) + m log(1 + x) + r*^2 (x + x^2 / 2) with
    1 + x = r0 / r*: every term is small near the reference, so nothing cancels.
    """

    dim: int
    snr: float
    reference: float
    edges: Array
    offsets: Array
    masses: Array
    total: float

    def log_shape(self, angle: Array) -> Array:
        """Log density up to a constant."""
        return _log_shape(self.dim, self.snr, self.reference, angle, angle - self.reference)

    def below(self, angle: Array) -> Array:
        """Probability of a smaller angle."""
        before = np.concatenate([[0.0], np.cumsum(self.masses.sum(axis=1))])
        panel = self._panel(angle)
        return (before[panel] + self._part(self.edges[panel], angle)) / self.total

    def above(self, angle: Array) -> Array:
        """Probability of a larger angle."""
        after = np.concatenate([np.cumsum(self.masses.sum(axis=1)[::-1])[::-1], [0.0]])
        panel = self._panel(angle)
        return (after[panel + 1] + self._part(angle, self.edges[panel + 1])) / self.total

    def _panel(self, angle: Array) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.edges, angle, side="right") - 1, 0, len(self.edges) - 2)

    def _part(self, low: Array, high: Array) -> Array:
        """Integral of the shape from low to high, each pair within one panel."""
        half = 0.5 * (high - low)
        nodes = low[:, None] + half[:, None] * (_NODES + 1.0)
        return np.asarray(half * (np.exp(self.log_shape(nodes)) @ _WEIGHTS))


@lru_cache(maxsize=64)
def angle_law(dim: int, snr: float, fall: float) -> AngleLaw:
    """The law in ``dim`` >= 2 dimensions at snr <= 1e20 (see :func:`reduced`), to a fall of the log density."""
    reference = math.atan2(math.sqrt(dim - 2), snr)
    left = _march(dim, snr, reference, -1.0, fall)
    right = _march(dim, snr, reference, 1.0, fall)
    steps = np.array([*reversed(left), 0.0, *right])
    half = 0.5 * np.diff(steps)
    offsets = steps[:-1, None] + half[:, None] * (_NODES + 1.0)
    masses = half[:, None] * _WEIGHTS * np.exp(_log_shape(dim, snr, reference, reference + offsets, offsets))
    return AngleLaw(dim, snr, reference, reference + steps, offsets, masses, float(masses.sum()))


def reduced(snr: float) -> tuple[float, float]:
    """(snr', factor) such that the angle at ``snr`` is ``factor`` times that at snr' <= 1e20, to rounding."""
    return (snr, 1.0) if snr <= _HUGE else (_HUGE, _HUGE / snr)


def _march(dim: int, snr: float, reference: float, direction: float, fall: float) -> list[float]:
    """Edges of the panels from the reference to an end of [0, pi], or to where the log density has fallen by ``fall``."""
    end = math.pi - reference if direction > 0 else -reference
    widest = 1 / math.hypot(snr, math.sqrt(dim - 1))
    edges: list[float] = []
    at, fallen = 0.0, 0.0
    while at != end and fallen < fall:
        slope = abs(_slope(dim, snr, reference + at))
        step = min(widest, _STEP / slope) if slope else widest
        following = at + direction * step
        # A last sliver would be lost in the rounding of the angle.
        at = end if abs(end - at) < 1.2 * step or following == at else following
        fallen += step * slope
        edges.append(at)
    return edges


def _slope(dim: int, snr: float, angle: float) -> float:
    """Derivative of the exponent of the density."""
    sine, cosine = math.sin(angle), math.cos(angle)
    rise = (dim - 2) * cosine / sine if dim > 2 else 0.0
    return rise - snr * float(_peak_radius(dim, np.asarray(snr * cosine))) * sine


def _peak_radius(dim: int, c: Array) -> Array:
    """Positive root r of r (r - c) = dim - 1, without cancellation."""
    root = np.hypot(c, 2 * math.sqrt(dim - 1))
    return np.asarray(np.where(c >= 0, (c + root) / 2, 2 * (dim - 1) / (root + np.abs(c))))


def _log_shape(dim: int, snr: float, reference: float, angle: Array, offset: Array) -> Array:
    """Both the angle and its offset from the reference, so that neither loses digits."""
    first = _peak_radius(dim, np.asarray(snr * math.cos(reference)))
    radius = _peak_radius(dim, snr * np.cos(angle))
    change = -2 * snr * np.sin(reference + offset / 2) * np.sin(offset / 2) / first / (1 + (dim - 1) / (radius * first))
    value = (dim - 1) * _log1p(change, radius / first) + first**2 * change * (1 + change / 2)
    if dim > 2:
        sine = np.maximum(np.sin(angle), 1e-300)  # 0 at the ends of [0, pi] by rounding
        rise = np.sin(offset) / math.tan(reference) - 2 * np.sin(offset / 2) ** 2
        value = value + (dim - 2) * _log1p(rise, sine / math.sin(reference))
    return np.asarray(value + np.log(radius / first) + _log_radial(dim, radius))


def _log1p(change: Array, ratio: Array) -> Array:
    """log(1 + change) where ``ratio`` is 1 + change found directly: each from the side where it has its digits."""
    near = np.abs(change) < 0.5
    return np.where(near, np.log1p(np.where(near, change, 0.0)), np.log(ratio))


def _log_radial(dim: int, radius: Array) -> Array:
    """log I (see :class:`AngleLaw`); exp(-45) of the peak and less is left out."""
    flat = radius.ravel()
    parts = [_log_radial_of(dim, flat[i : i + _CHUNK]) for i in range(0, flat.size, _CHUNK)]
    return np.concatenate([np.empty(0), *parts]).reshape(radius.shape)


def _log_radial_of(dim: int, radius: Array) -> Array:
    m = dim - 1
    # u - log(1 + u) >= u^2 / 2 below 0 and >= u^2 / (2 + 2u) above.
    low = -np.minimum(1.0, math.sqrt(90) / np.hypot(radius, math.sqrt(m)))
    high = np.minimum(math.sqrt(90) / radius, 45 / m + math.sqrt((45 / m) ** 2 + 90 / m))
    half = 0.5 * (high - low)
    u = low[:, None] + half[:, None] * (_RADII + 1.0)
    exponent = m * (np.log1p(u) - u) - 0.5 * (radius[:, None] * u) ** 2
    return np.asarray(np.log(half * (np.exp(exponent) @ _RADIUS_WEIGHTS)))
