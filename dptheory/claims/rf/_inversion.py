r"""Epsilon of subsampled Gaussian steps by inverting the moments of the loss: no grid of losses, no convolution.

With M(s) = E_P e^(sL) and any c > 0,

.. math:: \delta(\epsilon) = \frac1{2\pi}\int M(c + iu)^T \frac{e^{-(c+iu)\epsilon}}{(c+iu)(c+1+iu)}\,du,

as (1 - e^-x)^+ has the two-sided Laplace transform 1/(s(s+1)). The trapezoid rule converges faster than any power of its step.
"""

import functools
import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NODES = np.linspace(-13.0, 13.0, 651)


@functools.cache
def _loss(sigma: float, rate: float, sign: int) -> tuple[Array, Array]:
    """Losses and weights: "remove" (the mixture against N(0, 1)) for sign 1, "add" for -1."""
    z = np.concatenate([_NODES, _NODES + 1 / sigma]) if sign > 0 else _NODES
    step = _NODES[1] - _NODES[0]
    density = np.exp(-(_NODES**2) / 2) / math.sqrt(2 * math.pi) * step
    weights = np.concatenate([(1 - rate) * density, rate * density]) if sign > 0 else density
    return sign * np.log1p(rate * np.expm1(z / sigma - 0.5 / sigma**2)), weights


def delta(sigma: float, rate: float, steps: int, epsilon: float, sign: int) -> float:
    """delta(epsilon) of ``steps`` steps in one direction."""
    losses, weights = _loss(sigma, rate, sign)

    def log_moment(s: float) -> float:
        return steps * math.log(float(weights @ np.exp(s * losses))) - s * epsilon

    points = np.geomspace(0.5, min(200.0, 600.0 / float(np.abs(losses).max())), 60)
    saddle = float(points[np.argmin([log_moment(s) - math.log(s * (s + 1)) for s in points])])
    mean = float(weights @ losses)
    spread = math.sqrt(steps * float(weights @ np.square(losses - mean)))
    u = np.arange(0.0, 9.0 / spread, min(0.1 / spread, 0.2 * saddle))
    s = saddle + 1j * u
    moments = np.array([np.log(weights @ np.exp(one * losses)) for one in s])  # the argument stays small for every node
    terms = np.exp(steps * moments - s * epsilon) / (s * (s + 1))
    return float((terms.real.sum() - terms.real[0] / 2) * (u[1] - u[0]) / math.pi)


def worst_delta(sigma: float, rate: float, steps: int, epsilon: float) -> float:
    """The larger of both directions."""
    return max(delta(sigma, rate, steps, epsilon, sign) for sign in (1, -1))
