"""The slope of the variance of the distortion angle for a real dimension d > 1, by quadrature.

With eta = pi / 2 - angle, p ~ cos^{d-2} Psi_d and rho ~ cos^{d-1} Psi_{d-1} in kappa sin(eta), folded at 0 into the even and
odd parts of Psi: dVar / dkappa = -2 Q (E_p eta - E_rho eta) with Q > 0.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, hyp1f1

Array = NDArray[np.float64]


def _even_part(n: float, y: Array) -> Array:
    """int r^{n-1} e^{-r^2/2} cosh(r y) dr over that at y = 0."""
    return np.asarray(hyp1f1(n / 2, 0.5, y**2 / 2))


def _odd_part(n: float, y: Array) -> Array:
    """int r^{n-1} e^{-r^2/2} sinh(r y) dr over the even part at y = 0."""
    mean_norm = math.sqrt(2) * math.exp(gammaln((n + 1) / 2) - gammaln(n / 2))
    return np.asarray(mean_norm * y * hyp1f1((n + 1) / 2, 1.5, y**2 / 2))


def tilt(n: float, y: float) -> float:
    """(Psi_n(y) - Psi_n(-y)) / (Psi_n(y) + Psi_n(-y))."""
    at = np.asarray(y)
    return float(_odd_part(n, at) / _even_part(n, at))


def folded_ratio(dim: float, snr: float, eta: float) -> float:
    """rho(eta) + rho(-eta) over p(eta) + p(-eta), up to a constant."""
    at = np.asarray(snr * math.sin(eta))
    return math.cos(eta) * float(_even_part(dim - 1, at) / _even_part(dim, at))


def folded_means(dim: float, snr: float) -> tuple[float, float]:
    """(E_rho eta, E_p eta), for dim in (1, 100] and snr up to 30.

    sin(eta) = tanh(t) makes the integrands analytic, with exponential decay: the trapezoidal rule is exact to rounding.
    """
    end = 38 / (dim - 1) + math.log(1 + snr) + 3
    t = np.linspace(0.0, end, 1 + math.ceil(end / min(0.1, 0.4 / math.sqrt(dim))))
    eta, y, log_cos = np.arctan(np.sinh(np.minimum(t, 700.0))), snr * np.tanh(t), math.log(2) - np.logaddexp(t, -t)
    trapezoid = np.where(t == 0, 0.5, 1.0)

    def mean(n: float, power: float) -> float:
        weight = trapezoid * np.exp(power * log_cos)
        return float((weight * eta * _odd_part(n, y)).sum() / (weight * _even_part(n, y)).sum())

    # d eta = cos(eta) dt adds one to the powers.
    return mean(dim - 1, dim), mean(dim, dim - 1)
