r"""The Gaussian mechanism exactly: mu = sensitivity / standard deviation of the noise against (epsilon, delta).

With R(x) = Phi(-x) / phi(x) (Mills' ratio) and x = epsilon / mu - mu / 2,

.. math:: \delta = \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon\,\Phi(-\mu/2 - \epsilon/\mu) = \phi(x) (R(x) - R(x + \mu)),

where nothing overflows. Where the two terms are close, their difference is taken as
:math:`\int_0^\infty e^{-xt - t^2/2} (1 - e^{-\mu t})\,dt`, which has no cancellation.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy

from dptheory import _validate

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
# The integrand is below exp(-40) = 4e-18 beyond x t + t^2 / 2 = 40.
_DROP = 40.0
_FAR = 1e150  # x^2 overflows beyond: delta is 0 in every format
_PRECISION = 1e-15


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    r"""log delta of the Gaussian mechanism, exactly; finite where delta itself underflows.

    Args:
        mu: sensitivity over standard deviation of the noise, >= 0; 0 says that nothing depends on the data.
        epsilon: >= 0; at 0 delta is the total variation distance 2 Phi(mu / 2) - 1.

    Returns:
        log delta <= 0, -inf where mu = 0. For mu <= 1e4 its error is below 1e-10 + 1e-15 abs(log delta).

    Source: Dong, Roth, Su, Gaussian differential privacy, Corollary 2.13; for GEP, Theorem 3.1 (gep.thm3.1).

    Example: far beyond what a delta as a floating-point number can say.
        >>> from dptheory.privacy import gaussian_log_delta
        >>> round(gaussian_log_delta(0.01, 8.0))
        -320015
    """
    mu = _validate.real("mu", mu, 0.0, ends="[)")
    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="[)")
    return -math.inf if mu == 0.0 else log_delta_at(mu, epsilon / mu - mu / 2)


def gaussian_delta(mu: float, epsilon: float) -> float:
    r"""The smallest delta for which the Gaussian mechanism is (epsilon, delta)-differentially private.

    .. math:: \delta = \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon\,\Phi(-\mu/2 - \epsilon/\mu)

    Rises with mu, falls with epsilon.

    Args:
        mu: sensitivity over standard deviation of the noise, >= 0.
        epsilon: >= 0.

    Returns:
        delta, in [0, 1].

    Source: Dong, Roth, Su, Gaussian differential privacy, Corollary 2.13; for GEP, Theorem 3.1 (gep.thm3.1).

    Example: at epsilon 0 it is the total variation distance of two normal laws, 2 Phi(1/2) - 1.
        >>> from dptheory.privacy import gaussian_delta
        >>> round(gaussian_delta(1.0, 0.0), 4), round(gaussian_delta(1.0, 3.0), 4)
        (0.3829, 0.0015)
    """
    return math.exp(gaussian_log_delta(mu, epsilon))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 for which the Gaussian mechanism is (epsilon, delta)-differentially private.

    Args:
        mu: sensitivity over standard deviation of the noise, in [0, 1e100].
        delta: in (0, 1).

    Returns:
        0 where delta is at least the total variation distance 2 Phi(mu / 2) - 1.

    Source: inverse of :func:`gaussian_delta`; for GEP, Theorem 3.1 (gep.thm3.1).

    Example: noise as large as the sensitivity.
        >>> from dptheory.privacy import gaussian_epsilon
        >>> round(gaussian_epsilon(1.0, 1e-5), 4)
        4.3772
    """
    mu = _validate.real("mu", mu, 0.0, 1e100)
    log_delta = math.log(_delta(delta))
    if mu == 0.0 or log_delta_at(mu, -mu / 2) <= log_delta:
        return 0.0
    far = math.sqrt(-2 * log_delta) + 1.0  # where the conversion of gaussian_rdp_epsilon has x, and a step more
    # Beyond 40 widths below 0 delta is 1 to every digit.
    near = max(-mu / 2, -40.0)
    x = _root(lambda x: log_delta_at(mu, x) - log_delta, near, far)
    return max(0.0, mu * (x + mu / 2))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which a Gaussian mechanism is (epsilon, delta)-differentially private.

    Noise of standard deviation sensitivity / mu is the least that does it.

    Args:
        epsilon: in [0, 1e100].
        delta: in (0, 1).

    Returns:
        mu, >= 0.

    Source: inverse of :func:`gaussian_delta`; for GEP, Theorem 3.1 (gep.thm3.1).

    Example: an epsilon of 1 asks for noise 3.73 times as large as the sensitivity.
        >>> from dptheory.privacy import gaussian_mu
        >>> round(1 / gaussian_mu(1.0, 1e-5), 3)
        3.731
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, 1e100)
    delta = _delta(delta)
    log_delta = math.log(delta)
    low = max(
        gaussian_rdp_mu(epsilon, delta), 2 * math.sqrt(2) * float(scipy.special.erfinv(delta))
    )  # mu rises with epsilon
    high = low
    while log_delta_at(high, epsilon / high - high / 2) <= log_delta:
        high *= 1.5

    def excess(log_ratio: float) -> float:
        mu = low * math.exp(log_ratio)
        return log_delta_at(mu, epsilon / mu - mu / 2) - log_delta

    return low * math.exp(_root(excess, -0.1, math.log(high / low) + 0.1))


def gaussian_rdp_epsilon(mu: float, delta: float) -> float:
    r"""The epsilon that Renyi differential privacy gives at its best order: mu^2 / 2 + mu sqrt(2 log(1 / delta)).

    The least over the order a > 1 of a mu^2 / 2 + log(1 / delta) / (a - 1); larger than :func:`gaussian_epsilon`.

    Args:
        mu: sensitivity over standard deviation of the noise, in [0, 1e100].
        delta: in (0, 1).

    Returns:
        Epsilon, >= 0.

    Source: Mironov, Renyi differential privacy, Proposition 3; GEP, Theorem 3.1, equation 5 (gep.thm3.1).

    Example: by hand: 1/2 + sqrt(2 * 11.51); the exact value is 4.38.
        >>> from dptheory.privacy import gaussian_rdp_epsilon
        >>> round(gaussian_rdp_epsilon(1.0, 1e-5), 4)
        5.2985
    """
    mu = _validate.real("mu", mu, 0.0, 1e100)
    return mu * (mu / 2 + math.sqrt(-2 * math.log(_delta(delta))))


def gaussian_rdp_mu(epsilon: float, delta: float) -> float:
    r"""The largest mu that the conversion of :func:`gaussian_rdp_epsilon` accepts.

    .. math:: \mu = \frac{\sqrt2\,\epsilon}{\sqrt{L + \epsilon} + \sqrt L}, \qquad L = \log(1/\delta)

    Args:
        epsilon: in [0, 1e100].
        delta: in (0, 1).

    Returns:
        mu, >= 0.

    Source: GEP, Theorem 3.1, equation 5 at its best order (gep.thm3.1).

    Example: an epsilon of 1 asks for noise 4.9 times as large as the sensitivity, exact accounting for 3.7.
        >>> from dptheory.privacy import gaussian_rdp_mu
        >>> round(1 / gaussian_rdp_mu(1.0, 1e-5), 2)
        4.9
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, 1e100)
    log_inverse = -math.log(_delta(delta))
    return math.sqrt(2) * epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))


def _delta(delta: float) -> float:
    return _validate.real("delta", delta, 0.0, 1.0, ends="()")


def log_delta_at(mu: float, x: float) -> float:
    """log(phi(x) (R(x) - R(x + mu))) for mu > 0, x >= -mu / 2: log E[e^(-x z) (1 - e^(-mu z)); z > 0] - x^2 / 2, z normal."""
    if x > _FAR:
        return -math.inf
    if x < -1.0:  # most of the mass: 1 - delta = Phi(x) + phi(x) R(x + mu)
        return math.log1p(-math.exp(-x * x / 2 - _LOG_ROOT_2PI) * (_mills(-x) + _mills(x + mu)))
    gap = _mills(x) - _mills(x + mu) if mu >= 1.0 + x else _mills_gap(x, mu)
    return min(0.0, -x * x / 2 - _LOG_ROOT_2PI + math.log(gap)) if gap > 0.0 else -math.inf


def _mills(x: float) -> float:
    return math.sqrt(math.pi / 2) * float(scipy.special.erfcx(x / math.sqrt(2)))


def _mills_gap(x: float, mu: float) -> float:
    """R(x) - R(x + mu) for x >= -1 and mu <= 1 + x, by Gauss-Legendre where the integrand is not negligible."""
    root = math.sqrt(x * x + 2 * _DROP)
    end = 2 * _DROP / (x + root) if x > 0 else root - x
    t = 0.5 * end * (_NODES + 1.0)
    return float(0.5 * end * (_WEIGHTS @ (np.exp(-t * (x + t / 2)) * -np.expm1(-mu * t))))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(scipy.optimize.brentq(function, low, high, xtol=_PRECISION, rtol=4 * _PRECISION, maxiter=500))
