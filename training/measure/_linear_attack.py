"""The closed-form reconstruction attack on the real gradient of a linear layer: measured error against the prediction.

For logits W p + b of an image p (n pixels) and a loss with derivative k = d loss / d logits, the gradient of W is the outer
product k p': the row of output i is k_i times the image. So every pixel x = p_j is one unknown in g_ij = k_i x, the setting of
RS, Theorem 5.1, with the constraint vector k. A mask on the whole gradient keeps a random subset of all its entries; for one
pixel that is a constraint vector that holds k in its ten places and is zero elsewhere.
"""

import dataclasses
import time
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dptheory import _validate, sparsification
from dptheory._arrays import Array
from dptheory.checks import Evidence, Kind, MeanCheck
from dptheory.claims.rs.thm5_1 import printed_error_bound
from dptheory.training._randomness import seeded
from dptheory.training.data import Images, load

_CLASSES = 10


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


def linear_gradient(images: Images, *, index: int, seed: int) -> LinearGradient:
    """Gradient of the cross-entropy of a fresh linear classifier on one image, by automatic differentiation in float64.

    Args:
        images: where the image comes from.
        index: which image, 0..len(images) - 1.
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The gradient of the weights, that of the bias (which is k, as each output's bias enters its logit alone), and the image.

    Source: RS, Theorem 5.1 (rs.thm5.1).

    Example: the gradient of a linear layer is the outer product of loss derivatives and pixels.
        >>> import numpy as np
        >>> from dptheory.training.data import load
        >>> from dptheory.training.measure import linear_gradient
        >>> found = linear_gradient(load(name="excerpt", train=False), index=0, seed=0)
        >>> bool(np.allclose(found.weights, np.outer(found.outputs, found.pixels)))
        True
    """
    _validate.instance("images", images, Images)
    index = _validate.integer("index", index, 0, len(images) - 1)
    pixels = images.pixels[index].flatten().double()
    layer = seeded(seed, lambda: nn.Linear(pixels.numel(), _CLASSES, dtype=torch.float64))
    nn.functional.cross_entropy(layer(pixels)[None], images.labels[index : index + 1]).backward()  # type: ignore[no-untyped-call]
    assert layer.weight.grad is not None and layer.bias.grad is not None
    return LinearGradient(layer.weight.grad.numpy(), layer.bias.grad.numpy(), pixels.numpy())


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


def _attacked(rng: np.random.Generator, n: int, gradient: LinearGradient, keep: int, noise_std: float) -> Array:
    """Mean over the pixels of the squared error, 0 for a pixel that the mask hides, in n independent attacks."""
    return np.array([np.nan_to_num(attack_errors(rng, gradient, keep, noise_std), nan=0.0).mean() for _ in range(n)])


def _hidden(rng: np.random.Generator, n: int, gradient: LinearGradient, keep: int) -> Array:
    """Share of the pixels that the mask hides, in n independent masks."""
    return np.array([np.isnan(attack_errors(rng, gradient, keep, 0.0)).mean() for _ in range(n)])


def attack_errors(rng: np.random.Generator, gradient: LinearGradient, keep: int, noise_std: float) -> Array:
    """Squared error of each pixel, NaN where it is hidden, under a fresh mask and fresh noise."""
    mask = np.zeros(gradient.weights.size, dtype=np.bool_)
    mask[rng.permutation(mask.size)[:keep]] = True
    noisy = gradient.weights + noise_std * rng.standard_normal(gradient.weights.shape)
    return np.square(attack(noisy, mask.reshape(noisy.shape), gradient.outputs) - gradient.pixels)


def linear_attack(
    *, drop_rate: float = 0.8, noise_std: float = 0.05, index: int = 0, seed: int = 0, budget: float = 30.0
) -> tuple[Evidence, ...]:
    """Attack the masked, noisy gradient of a linear layer on an image of the embedded excerpt, and compare with the theory.

    Three pieces of evidence of kind REAL_DATA: the rows of the gradient are multiples of the image (the largest deviation over
    the largest entry); the mean squared error of the pixels that the mask does not hide, against
    :func:`dptheory.sparsification.expected_error`, which must differ from the printed bound; the share of hidden pixels.

    Args:
        drop_rate: sparsification rate in [0.7, 1) of the whole gradient of 10 x 784 entries, so that enough pixels are hidden
            to be counted; 7840 * (1 - drop_rate) must be an integer.
        noise_std: standard deviation of the noise on one entry of the gradient, > 0.
        index: which training image, 0..1999.
        seed: of the starting weights, masks and noise, 0 to 2^64 - 1.
        budget: seconds for each of the two measurements; with too few a measurement fails for want of draws.

    Returns:
        The three, in this order.

    Source: RS, Theorem 5.1 (rs.thm5.1).
    """
    drop_rate = _validate.real("drop_rate", drop_rate, 0.7, 1.0, ends="[)")
    noise_std = _validate.real("noise_std", noise_std, 0.0, ends="()")
    gradient = linear_gradient(load(name="excerpt", train=True), index=index, seed=seed)
    embedded = constraint_vector(gradient)
    predicted = sparsification.expected_error(embedded, drop_rate=drop_rate, noise_std=noise_std)
    keep = round(embedded.size * (1 - drop_rate))
    seen = 1.0 - predicted.lost_probability
    measured = (
        MeanCheck(
            name="pixel error where not hidden, times the share of such pixels",
            sampler=partial(_attacked, gradient=gradient, keep=keep, noise_std=noise_std),
            claimed=lambda: seen * predicted.given_recoverable,
            wrong=lambda: seen * printed_error_bound(embedded.tolist(), drop_rate, noise_std),
            row_bytes=embedded.size * 8,
        ),
        MeanCheck(
            name="share of hidden pixels",
            sampler=partial(_hidden, gradient=gradient, keep=keep),
            claimed=lambda: predicted.lost_probability,
            row_bytes=embedded.size * 8,
            resolution=0.02,
        ),
    )
    found = [dataclasses.replace(check.run(budget, seed), kind=Kind.REAL_DATA) for check in measured]
    return (_rank_one(gradient, seed), *found)


def _rank_one(gradient: LinearGradient, seed: int) -> Evidence:
    """The gradient against the outer product k p', and against one with the outputs in another order."""
    start = time.perf_counter()
    scale = float(np.abs(gradient.weights).max())
    off, wrong = (
        float(np.abs(gradient.weights - np.outer(outputs, gradient.pixels)).max()) / scale
        for outputs in (gradient.outputs, np.roll(gradient.outputs, 1))
    )
    tolerance = 1e-12
    return Evidence(
        check="rows of the gradient are multiples of the image",
        kind=Kind.REAL_DATA,
        passed=off <= tolerance < wrong,
        claimed=0.0,
        observed=off,
        standard_error=None,
        detectable=tolerance,
        samples=gradient.weights.size,
        seconds=time.perf_counter() - start,
        seed=seed,
        detail=f"outputs in another order are off by {wrong:.3g}",
    )
