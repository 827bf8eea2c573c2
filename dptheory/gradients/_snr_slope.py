"""How much of a direction survives: the mean cosine over the signal-to-noise ratio."""

import math

import numpy as np

from dptheory import _validate

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)
# exp(-0.4 * 16**2 / 2) < 1e-22: beyond 16 widths nothing of the integrand is left (see slope).
_WIDTHS = 16.0


def small_snr_slope(dim: int) -> float:
    r"""Limit of E cos / snr as snr -> 0: :math:`\Gamma(\frac{d+1}2)/(\sqrt2\,\Gamma(\frac d2 + 1)) \approx 1/\sqrt d`.

    This is how much of the direction survives noise that is much larger than the signal.

    Args:
        dim: number of entries, 1..1e9.

    Returns:
        The slope, about 1 / sqrt(dim).

    Raises:
        ValueError: dim outside its range.

    Source: GIP, section 5 (gip.criterion).

    Example: under large noise a gradient of 10,000 entries keeps a hundredth of its signal-to-noise ratio as cosine.
        >>> from dptheory.gradients import small_snr_slope
        >>> round(small_snr_slope(10_000), 5)
        0.01
    """
    return slope(_validate.integer("dim", dim, 1, 10**9), 0.0)


def slope(dim: int, snr: float) -> float:
    """E cos / snr by Gauss-Legendre over the part of [0, pi/2] where the integrand is not negligible.

    sin(phi)^2 >= 0.4 phi^2 and -log cos(phi) >= phi^2 / 2 bound the exponent by -0.4 (snr^2 + dim) phi^2 / 2.
    """
    end = min(math.pi / 2, _WIDTHS / math.hypot(snr, math.sqrt(dim)))
    phi = 0.5 * end * (_NODES + 1.0)
    exponent = -0.5 * (snr * np.sin(phi)) ** 2 + dim * 0.5 * np.log1p(-(np.sin(phi) ** 2))
    return float(math.sqrt(2 / math.pi) * 0.5 * end * (_WEIGHTS @ np.exp(exponent)))
