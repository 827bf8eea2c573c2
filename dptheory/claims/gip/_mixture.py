"""Renyi divergences of a Poisson-sampled release by enumeration and quadrature, without the formulas under test."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import scipy

from dptheory import privacy
from dptheory.claims.gip import _finite

_STEP = (
    0.04  # in a strip of width pi / mu the integrand is analytic: the trapezoid rule errs by e^(-2 pi^2 / (mu step))
)
NO_INDEX = {1.0: 1.0}
"""Ratios of a release without an index part."""


def ratios(dim: int, keep: int, weight: Fraction, pairs: int | None = None) -> dict[float, float]:
    """Law of r = P_B(I) / P_A(I) under P_A for two references ``pairs`` swaps apart (None: the most), weight = e^-theta."""
    moved = min(keep, dim - keep) if pairs is None else pairs
    first = tuple(j < keep for j in range(dim))
    second = tuple(moved <= j < keep + moved for j in range(dim))
    law, other = _finite.mallows(first, weight), _finite.mallows(second, weight)
    found: dict[float, float] = {}
    for out, p in law.items():
        ratio = float(other[out] / p)
        found[ratio] = found.get(ratio, 0.0) + float(p)
    return found


def divergence(
    order: float, rate: float, sigma: float, shift: float = 1.0, index: Mapping[float, float] = NO_INDEX, sign: int = 1
) -> float:
    """D_order(mixture, base) for sign = 1, D_order(base, mixture) for sign = -1.

    base: index ratio 1 and N(0, sigma^2); with probability ``rate`` the ratio is drawn and the mean is ``shift``.
    """
    mu = shift / sigma
    top = (order if sign > 0 else 1.0) * mu
    y, step = np.arange(-14.0 - (mu * order if sign < 0 else 0.0), 14.0 + top, _STEP), _STEP
    logs = []
    for ratio, p in index.items():
        log_mixed = np.logaddexp(
            math.log1p(-rate) if rate < 1 else -math.inf, math.log(rate) + math.log(ratio) + mu * y - mu * mu / 2
        )
        power = order if sign > 0 else 1.0 - order
        logs.append(math.log(p) + power * log_mixed - y * y / 2 - 0.5 * math.log(2 * math.pi))
    return (float(np.logaddexp.reduce(np.array(logs).ravel())) + math.log(step)) / (order - 1.0)


def masked_divergence(
    order: float, rate: float, sigma: float, example: Sequence[float], keep: int, sign: int = 1
) -> float:
    """The same for g + Z seen through a uniform mask with ``keep`` ones, which is released too."""
    masks = _finite.subsets(len(example), keep)
    terms = []
    for mask in masks:
        shift = math.sqrt(sum(x * x for x, stays in zip(example, mask, strict=True) if stays))
        terms.append(math.exp((order - 1.0) * divergence(order, rate, sigma, shift, sign=sign)))
    return math.log(math.fsum(terms) / len(terms)) / (order - 1.0)


# The privacy of the values alone: the curve of one step, points to try it at, and the exact delta without sampling.


RATES = ((2, 0.01, 1.0), (2, 1.0, 3.0), (5, 0.3, 2.0), (16, 0.1, 4.0), (3, 0.5, 0.7))
"""Order, sampling rate and noise multiplier."""
STEPS = ((2, 0.01, 1.0), (5, 0.3, 2.0), (16, 0.1, 4.0))
"""The same where a case is dear."""


def values_curve(order: float, rate: float, sigma: float) -> float:
    """Renyi curve of one step of DP-SGD at one order."""
    return float(privacy.subsampled_gaussian_rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma)[0])


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """log of the exact delta of the Gaussian mechanism with sensitivity / noise = mu."""
    near, far = scipy.special.log_ndtr(mu / 2 - epsilon / mu), epsilon + scipy.special.log_ndtr(-mu / 2 - epsilon / mu)
    return float(near + math.log(-math.expm1(far - near)))
