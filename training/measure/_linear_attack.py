"""The closed-form reconstruction attack on the real gradient of a linear layer: measured error against the prediction.

For logits W p + b of an image p (n pixels) and a loss with derivative k = d loss / d logits, the gradient of W is the outer
product k p': the row of output i is k_i times the image. So every pixel x = p_j is one unknown in g_ij = k_i x, the setting of
RS, Theorem 5.1, with the constraint vector k. A mask on the whole gradient keeps a random subset of all its entries; for one
pixel that is a constraint vector that holds k in its ten places and is zero elsewhere.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptheory._arrays import Array


@dataclass(frozen=True)
class LinearGradient:
    r"""A real gradient of one image: the rows of ``weights`` are :math:`k_i p^\top`.

    Attributes:
        weights: shape (10, n).
        outputs: the loss derivative k, shape (10,).
        pixels: the image p, shape (n,).

    Source: RS, Theorem 5.1 (rs.thm5.1).
    """

    weights: Array
    outputs: Array
    pixels: Array


def constraint_vector(gradient: LinearGradient) -> Array:
    """The constraint vector of one pixel in all entries of the gradient: k in the pixel's places, 0 in the others."""
    return np.concatenate([gradient.outputs, np.zeros(gradient.weights.size - len(gradient.outputs))])


def attack(noisy: Array, mask: NDArray[np.bool_], outputs: Array) -> Array:
    r"""Least-squares estimate of every pixel from the masked gradient.

    :math:`\hat p_j = \sum_i k_i m_{ij} g_{ij} / \sum_i k_i^2 m_{ij}`.

    Args:
        noisy: gradient of the weights plus noise g, shape (10, n); entries that are masked are not looked at.
        mask: True where an entry was kept, same shape.
        outputs: k, shape (10,).

    Returns:
        Estimates, shape (n,); NaN where the mask leaves no entry with k_i != 0.

    Source: RS, equation 100 (rs.thm5.1).

    Example: the mask hides the second pixel; the first is found exactly, as there is no noise.
        >>> import numpy as np
        >>> from dptheory.training.measure import attack
        >>> outputs, pixels = np.array([0.5, -0.5]), np.array([0.2, 0.8])
        >>> mask = np.array([[True, False], [True, False]])
        >>> attack(np.outer(outputs, pixels), mask, outputs)
        array([0.2, nan])
    """
    energy = outputs**2 @ mask
    with np.errstate(invalid="ignore"):
        return np.asarray((outputs @ np.where(mask, noisy, 0.0)) / np.where(energy > 0, energy, np.nan))


def attack_errors(rng: np.random.Generator, gradient: LinearGradient, keep: int, noise_std: float) -> Array:
    """Squared error of each pixel, NaN where it is hidden, under a fresh mask and fresh noise."""
    mask = np.zeros(gradient.weights.size, dtype=np.bool_)
    mask[rng.permutation(mask.size)[:keep]] = True
    noisy = gradient.weights + noise_std * rng.standard_normal(gradient.weights.shape)
    return np.square(attack(noisy, mask.reshape(noisy.shape), gradient.outputs) - gradient.pixels)
