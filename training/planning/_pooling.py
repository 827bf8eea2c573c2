"""Neighbouring points share evidence: a Gaussian process over the points, from the noisy scores of some of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_NOISES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Standard deviations of a score, in those of all scores, among which the likelihood chooses."""
_JITTER = 1e-8


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """What the scores say of every place.

    Attributes:
        mean: expected score, shape (places,).
        deviation: its standard deviation, shape (places,).
        noise: estimated standard deviation of one score.
    """

    mean: Array
    deviation: Array
    noise: float


def pooled(places: Array, scores: Array, everywhere: Array) -> Pooled:
    r"""The posterior of a Gaussian process with covariance :math:`s^2\exp(-|x-y|^2/2)` and noise of a variance to be found.

    s is the standard deviation of the scores, their mean the prior mean, and the variance of the noise the likeliest of six.

    Args:
        places: where scores are known, shape (scores, coordinates), scaled so that 1 is a step after which scores may differ.
        scores: shape (scores,), finite; two at least.
        everywhere: where they are asked for, shape (places, coordinates).

    Returns:
        Mean and deviation at every place.
    """
    middle = float(scores.mean())
    scale = float(scores.std())
    if scale == 0:
        return Pooled(mean=np.full(len(everywhere), middle), deviation=np.zeros(len(everywhere)), noise=0.0)
    values = (scores - middle) / scale
    alike = _covariance(places, places)
    noise, lower = max(
        ((noise, _factor(alike, noise)) for noise in _NOISES), key=lambda one: _log_likelihood(one[1], values)
    )
    weights = np.linalg.solve(lower.T, np.linalg.solve(lower, values))
    across = _covariance(everywhere, places)
    spread = np.linalg.solve(lower, across.T)
    variance = np.maximum(1.0 - (spread**2).sum(0), 0.0)
    return Pooled(mean=middle + scale * (across @ weights), deviation=scale * np.sqrt(variance), noise=noise * scale)


def _covariance(some: Array, others: Array) -> Array:
    squares = (some**2).sum(1)[:, None] + (others**2).sum(1)[None] - 2.0 * some @ others.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / 2.0))


def _factor(alike: Array, noise: float) -> Array:
    return np.asarray(np.linalg.cholesky(alike + (noise**2 + _JITTER) * np.eye(len(alike))), float)


def _log_likelihood(lower: Array, values: Array) -> float:
    rest = np.linalg.solve(lower, values)
    return float(-0.5 * rest @ rest - np.log(np.diag(lower)).sum())
