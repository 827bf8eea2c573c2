r"""The privacy loss of one Poisson-subsampled Gaussian step, in one dimension, with noise of standard deviation 1.

With s = 1 / noise_multiplier and q = sampling_rate, the step's outputs on two neighbours are dominated by

- "remove": :math:`P = (1-q) N(0,1) + q N(s,1)` against :math:`Q = N(0,1)`,
- "add": :math:`P = N(0,1)` against :math:`Q = (1-q) N(0,1) + q N(s,1)`,
- "replace": :math:`P = (1-q) N(0,1) + q N(s,1)` against :math:`Q = (1-q) N(0,1) + q N(-s,1)`,

and the loss is :math:`Y = \log dP/dQ` under P. It is monotone in the output, so its law is that of a Gaussian mixture.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory.privacy._bounds import Direction

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
        return np.asarray(sum(w * _interval(left - mean, right - mean) for w, mean in self.components))

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


def _interval(left: Array, right: Array) -> Array:
    """Phi(right) - Phi(left) from the tail that is the smaller."""
    mirrored = left > 0
    a, b = np.where(mirrored, -right, left), np.where(mirrored, -left, right)
    return np.asarray(np.maximum(scipy.special.ndtr(b) - scipy.special.ndtr(a), 0.0))
