r"""The largest Kullback-Leibler divergence of a Gaussian step on a batch of a fixed size, replace-one.

One record g against g' in place of the same other record, all three of norm at most 1. Over three unit vectors at the
corners of a triangle without an obtuse angle,

.. math:: KL = A(|g|) + B(|g'|, \langle g, g'\rangle)

rises with both norms and falls with the inner product, so that a box of angles has a bound by its corners. Boxes are cut in
two until the bound is near the divergence of the pair "remove", or there are too many: proofs/privacy/fixed_size_batches.md,
step 8.
"""

import functools
import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NEAR = 1e-3  # relative: a box whose bound is as near to "remove" as this is left
_MOST_BOXES = 3000
_REACH = 10.0
_ROUNDING = 1e-9


@functools.lru_cache(maxsize=256)
def largest_divergence(noise_multiplier: float, sampling_rate: float) -> float:
    """An upper bound of the divergence, near that of (1-q) N(0,1) + q N(s,1) against N(0,1), s = 1 / noise_multiplier.

    Args:
        noise_multiplier: standard deviation of the noise over the largest distance of two records.
        sampling_rate: q, in (0, 1).
    """
    step = _Step(1.0 / noise_multiplier, sampling_rate)
    target = float(step.first(np.ones(1))[0]) * (1 + _NEAR)
    boxes, largest = np.array([[0.0, math.pi / 2, 0.0, math.pi / 2]]), target
    while boxes.size:
        bounds = step.bound(boxes)
        boxes, bounds = boxes[bounds > target], bounds[bounds > target]
        if len(boxes) > _MOST_BOXES:
            largest = max(largest, float(bounds.max()))
            break
        boxes = _halved(boxes)
    return largest * (1 + _ROUNDING)


class _Step:
    def __init__(self, shift: float, rate: float) -> None:
        self.shift, self.rate = shift, rate
        spacing = min(0.2, 0.3 / shift)
        self.z = np.arange(-_REACH, _REACH + spacing, spacing)
        self.weights = spacing * np.exp(-(self.z**2) / 2) / math.sqrt(2 * math.pi)

    def first(self, norm: Array) -> Array:
        """A: E_P log p, with the norm of g in units of the shift."""
        s = (self.shift * norm)[:, None]
        return self._mean(s * self.z - s * s / 2, s * self.z + s * s / 2)

    def second(self, norm: Array, along: Array) -> Array:
        """B: E_P[-log r], with the norm of g' and the part of g along g', both in units of the shift."""
        s, moved = (self.shift * norm)[:, None], (self.shift * along)[:, None]
        return -self._mean(s * self.z - s * s / 2, s * (self.z + moved) - s * s / 2)

    def bound(self, boxes: Array) -> Array:
        """Upper bounds over boxes of the angles at x' (opposite of g) and at x (opposite of g')."""
        first, second = np.sin(boxes[:, 1]), np.sin(boxes[:, 3])
        angles = np.clip(boxes[:, 0] + boxes[:, 2], math.pi / 2, math.pi)
        inner = -np.sin(boxes[:, 0]) * np.sin(boxes[:, 2]) * np.cos(angles)
        return self.first(first) + self.second(second, np.maximum(inner, 0.0) / np.maximum(second, 1e-300))

    def _mean(self, without: Array, with_: Array) -> Array:
        q = self.rate
        return np.asarray(
            (1 - q) * (self._log_mixture(without) @ self.weights) + q * (self._log_mixture(with_) @ self.weights)
        )

    def _log_mixture(self, exponent: Array) -> Array:
        q = self.rate
        far = math.log(q) + exponent + np.log1p((1 - q) / q * np.exp(-np.maximum(exponent, 1.0)))
        return np.asarray(np.where(exponent > 1.0, far, np.log1p(q * np.expm1(np.minimum(exponent, 1.0)))))


def _halved(boxes: Array) -> Array:
    """Both halves across the longer side, without those that hold no triangle: the angles add up to at least pi / 2."""
    first = boxes[:, 1] - boxes[:, 0] > boxes[:, 3] - boxes[:, 2]
    middles = np.where(first, boxes[:, 0] + boxes[:, 1], boxes[:, 2] + boxes[:, 3]) / 2
    low, high = boxes.copy(), boxes.copy()
    low[first, 1] = high[first, 0] = middles[first]
    low[~first, 3] = high[~first, 2] = middles[~first]
    both = np.concatenate([low, high])
    return np.asarray(both[both[:, 1] + both[:, 3] >= math.pi / 2])
