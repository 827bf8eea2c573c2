"""The angle between a vector and its noisy self."""

import math
from dataclasses import dataclass

import numpy as np

from dptheory import _validate

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)
# exp(-0.4 * 16**2 / 2) < 1e-22: beyond 16 widths nothing of the integrand is left (see _slope).
_WIDTHS = 16.0


@dataclass(frozen=True)
class DistortionAngle:
    r"""Angle between a fixed vector s of R^dim and s + z, z ~ N(0, tau^2 I), at signal-to-noise ratio snr = |s| / tau.

    Args:
        dim: number of entries of s, 1..1e9.
        snr: |s| / tau, in [0, inf]; inf means no noise.

    Source: GIP, Fig. 1 (gip.fig1).
    """

    dim: int
    snr: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 1, 10**9))
        object.__setattr__(self, "snr", _validate.real("snr", self.snr, 0.0))

    def expected_cos(self) -> float:
        r"""E cos of the angle, exactly.

        .. math:: E\cos = \kappa \sqrt{2/\pi} \int_0^{\pi/2} e^{-\kappa^2 \sin^2(\phi) / 2} \cos^d(\phi)\, d\phi

        with kappa = snr and d = dim. It rises with snr and falls with dim; about kappa / sqrt(d) for kappa^2 << d.

        Source: GIP, Fig. 1 (gip.fig1).
        """
        if math.isinf(self.snr):
            return 1.0
        return min(1.0, self.snr * _slope(self.dim, self.snr))


def small_snr_slope(dim: int) -> float:
    r"""Limit of E cos / snr as snr -> 0: :math:`\Gamma(\frac{d+1}2)/(\sqrt2\,\Gamma(\frac d2 + 1)) \approx 1/\sqrt d`.

    This is how much of the direction survives noise that is much larger than the signal.

    Source: GIP, section 5 (gip.criterion).
    """
    return _slope(_validate.integer("dim", dim, 1, 10**9), 0.0)


def _slope(dim: int, snr: float) -> float:
    """E cos / snr by Gauss-Legendre over the part of [0, pi/2] where the integrand is not negligible.

    sin(phi)^2 >= 0.4 phi^2 and -log cos(phi) >= phi^2 / 2 bound the exponent by -0.4 (snr^2 + dim) phi^2 / 2.
    """
    end = min(math.pi / 2, _WIDTHS / math.hypot(snr, math.sqrt(dim)))
    phi = 0.5 * end * (_NODES + 1.0)
    exponent = -0.5 * (snr * np.sin(phi)) ** 2 + dim * 0.5 * np.log1p(-(np.sin(phi) ** 2))
    return float(math.sqrt(2 / math.pi) * 0.5 * end * (_WEIGHTS @ np.exp(exponent)))
