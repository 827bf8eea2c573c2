"""What share of the top-k gain a private selection by the sum of a batch can retain."""

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.pruning._error import top_k_gain

Array = NDArray[np.float64]

_SPREAD = 1.0 - 2.0 / math.pi  # variance of |x|, x standard normal
_FAR = 12.0  # standard deviations that hold all of a normal law
_STEEPEST = 30.0  # in units of 1 / min(1, a^2), a the threshold of top-k; every slope gives a bound
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def selection_gain_bound(
    *, zcdp_rho: float, dim: int, keep: int, groups: int, sigma_g: float, clip_norm: float
) -> float:
    r"""Share of the top-k gain that no selection by the sum of a batch can exceed at a zCDP budget, whatever its mechanism.

    With D = dim groups, k = keep / dim and x standard normal, the selection learns at most
    :math:`R = \frac\rho D\big(\sqrt{(1 - 2/\pi)D}\thinspace\frac{\sigma_g}C + 1\big)^2` nats on an entry, and

    .. math:: \text{share} \le \min_{s > 0,\thinspace\nu} \frac{R + E c(s(x^2 - 1) - \nu)}s \Big/
        \frac{E[\text{top-}k\text{ energy}] - keep}{dim}, \qquad c(u) = \log(1 - k + ke^u) - ku .

    On average over gradients with independent N(0, sigma_g^2) entries, for every batch with that sum; a selection that sees the
    examples is held to it on one batch of every sum, the same for all selections, and can retain more on others. Not for a batch
    drawn at random with its drawing kept secret. Relative error about 1e-12, or 1e-16 / (1 - k) where that is more.

    Args:
        zcdp_rho: zCDP budget of the indices in one step, one example added or removed, in [1e-70, 1e70].
        dim, keep: size of one group and number kept in it (on average), 1 <= keep < dim <= 1e9.
        groups: number of groups, 1..1e12.
        sigma_g: standard deviation of an entry of the summed gradient, in [1e-70, 1e70].
        clip_norm: clipping norm C, in [1e-70, 1e70].

    Returns:
        The bound, in (0, 1].

    Raises:
        ValueError: an argument outside its range.

    Source: new, on GIP, section 4.2 (gip.selection_limit).

    Example: the setting of :func:`dptheory.pruning.selection_gains`: noisy magnitudes have .002 of at most .004.
        >>> from dptheory.pruning import selection_gain_bound
        >>> bound = selection_gain_bound(zcdp_rho=1e-3, dim=256, keep=26, groups=10_547, sigma_g=0.11, clip_norm=1.0)
        >>> round(bound, 4)
        0.0038
    """
    zcdp_rho = _validate.size("zcdp_rho", zcdp_rho)
    dim = _validate.integer("dim", dim, 2, 10**9)
    keep = _validate.integer("keep", keep, 1, dim - 1)
    groups = _validate.integer("groups", groups, 1, 10**12)
    ratio = _validate.size("sigma_g", sigma_g) / _validate.size("clip_norm", clip_norm)
    root = math.sqrt(_SPREAD) * ratio + 1.0 / math.sqrt(dim * groups)
    return min(1.0, _most_gain(keep / dim, zcdp_rho * root * root) / top_k_gain(dim, keep, "exact"))


def _most_gain(share: float, nats: float) -> float:
    """At most E[(x^2 - 1) p(x)] for p with E p = k and information R: by duality, the minimum over s and nu."""
    middle = float(scipy.stats.norm.isf(share / 2))
    if nats >= -share * math.log(share) - (1.0 - share) * math.log1p(-share):  # enough to know the choice of top-k
        return math.inf
    edges = np.unique(np.r_[np.linspace(0.0, _FAR, 25), middle * np.linspace(0.0, 1.5, 31)])
    half = np.diff(edges)[:, None] / 2.0
    x = (edges[:-1, None] + half * (1.0 + _NODES)).ravel()
    weights = (half * _WEIGHTS).ravel() * 2.0 * scipy.stats.norm.pdf(x)
    excess = x * x - 1.0

    def bound(log_slope: float) -> float:
        slope = math.exp(log_slope)
        reach = slope * _FAR**2
        offset = scipy.optimize.brentq(
            lambda nu: weights @ _tilted(slope * excess - nu, share), -reach, reach, xtol=1e-14 * slope
        )
        return float(nats + weights @ _cumulant(slope * excess - offset, share)) / slope

    least = min(0.1, 1e-2 * math.sqrt(nats / (share * (1.0 - share))))
    most = _STEEPEST / min(1.0, middle**2)
    found = scipy.optimize.minimize_scalar(
        bound, bounds=(math.log(least), math.log(most)), method="bounded", options={"xatol": 1e-6}
    )
    return float(found.fun)


def _cumulant(u: Array, share: float) -> Array:
    """log(1 - k + k e^u) - k u, by its series where the difference would cancel."""
    variance = share * (1.0 - share)
    series = variance * u * u * (1.0 / 2.0 + (1.0 - 2.0 * share) * u / 6.0 + (1.0 - 6.0 * variance) * u * u / 24.0)
    direct = np.logaddexp(math.log1p(-share), math.log(share) + u)
    middle = np.log1p(share * np.expm1(np.clip(u, -700.0, 1.0)))
    return np.asarray(np.where(np.abs(u) < 1e-3, series, np.where(u > 1.0, direct, middle) - share * u))


def _tilted(u: Array, share: float) -> Array:
    """The derivative: k e^u / (1 - k + k e^u) - k."""
    grown = np.expm1(np.minimum(u, 700.0))
    return np.asarray(share * (1.0 - share) * grown / (1.0 + share * grown))
