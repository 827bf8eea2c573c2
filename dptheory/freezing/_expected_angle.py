"""The mean angle between a true direction and a noisy signal that is itself at an angle to it."""

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.errors import ArgumentError

Array = NDArray[np.float64]

_MAX_DIM = 10**9
_INNER = np.polynomial.legendre.leggauss(48)
_OUTER = np.polynomial.legendre.leggauss(400)
_WIDTHS = 9.0  # ndtr(-9) < 2e-19
_SHORTEST = 1e-17  # radii R below it hold at most this share of the integral, at any signal-to-noise ratio


def expected_angle(dim: int, *, snr: float, bias_angle: float = 0.0) -> float:
    r"""Mean angle between u and the noisy signal s + z, z ~ N(0, tau^2 I), for a signal at the angle ``bias_angle`` to u.

    .. math:: E\gamma = \gamma^B + 2\int_{\gamma^B}^{\pi/2} E\,\Phi(-\kappa\rho\sin t)\,dt

    with kappa = snr and rho the length of the projection of a uniform unit vector of R^dim onto a plane,
    P(rho^2 > x) = (1 - x)^(dim/2 - 1). It rises with ``bias_angle``, and falls with snr if ``bias_angle`` <= pi/2. It is
    pi/2 for ``bias_angle`` = pi/2 and for snr = 0.

    Args:
        dim: number of entries, 1..1e9; in one dimension ``bias_angle`` is 0 or pi.
        snr: kappa = |s| / tau, in [0, inf].
        bias_angle: angle between u and s in radians, in [0, pi].

    Returns:
        The mean angle in radians, in [0, pi].

    Raises:
        ValueError: an argument outside its range.

    Source: LF, Proposition 3.1 (lf.prop3.1.3).

    Example: half a radian of bias adds little once the noise is much longer than the signal.
        >>> from dptheory.freezing import expected_angle
        >>> [round(expected_angle(10_000, snr=30.0, bias_angle=bias), 3) for bias in (0.0, 0.5)]
        [1.279, 1.316]
    """
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    snr = _validate.real("snr", snr, 0.0)
    bias_angle = _validate.real("bias_angle", bias_angle, 0.0, math.pi)
    if dim == 1 and bias_angle not in (0.0, math.pi):
        raise ArgumentError("bias_angle", "be 0 or pi in one dimension", bias_angle)
    if bias_angle > math.pi / 2:
        return math.pi - expected_angle(dim, snr=snr, bias_angle=math.pi - bias_angle)
    if dim == 1:
        return math.pi * float(scipy.special.ndtr(-snr))
    if math.isinf(snr):
        return bias_angle
    if dim == 2:
        return bias_angle + 2.0 * float(_tail_integral(np.array([snr]), bias_angle)[0])
    # rho^2 = 1 - exp(-R^2 / (dim - 2)) with R of density R exp(-R^2 / 2), integrated over log R
    nodes, weights = _OUTER
    half = 0.5 * math.log(_WIDTHS / _SHORTEST)
    radius = _SHORTEST * np.exp(half * (nodes + 1.0))
    rho = np.sqrt(-np.expm1(-(radius**2) / (dim - 2)))
    density = weights * radius**2 * np.exp(-0.5 * radius**2)
    return bias_angle + 2.0 * float(density @ _tail_integral(snr * rho, bias_angle) / density.sum())


def _tail_integral(scale: Array, start: float) -> Array:
    """Integral of ndtr(-scale sin t) over t from start to pi/2, cut where nothing of it is left."""
    nodes, weights = _INNER
    reach = np.hypot(math.sin(start), _WIDTHS / np.maximum(scale, 1e-300))
    half = 0.5 * (np.arcsin(np.minimum(reach, 1.0)) - start)
    t = start + half[:, None] * (nodes + 1.0)
    return np.asarray(np.maximum(half, 0.0) * (scipy.special.ndtr(-scale[:, None] * np.sin(t)) @ weights))
