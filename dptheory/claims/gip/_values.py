"""The privacy of the values alone: the curve of one step, points to try it at, and the exact delta without sampling."""

import math

from scipy.special import log_ndtr

from dptheory import privacy

RATES = ((2, 0.01, 1.0), (2, 1.0, 3.0), (5, 0.3, 2.0), (16, 0.1, 4.0), (3, 0.5, 0.7))
"""Order, sampling rate and noise multiplier."""
STEPS = ((2, 0.01, 1.0), (5, 0.3, 2.0), (16, 0.1, 4.0))
"""The same where a case is dear."""


def values_curve(order: float, rate: float, sigma: float) -> float:
    """Renyi curve of one step of DP-SGD at one order."""
    return float(privacy.subsampled_gaussian_rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma)[0])


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """log of the exact delta of the Gaussian mechanism with sensitivity / noise = mu."""
    near, far = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(near + math.log(-math.expm1(far - near)))
