"""Errors of clipped, masked, noised batch gradients: by enumeration in fractions, and for Gaussian gradients."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._draws import all_masks, drawn_masks

Vector = tuple[int, ...]

# Every norm that clipping with C = 5 meets is a whole number, with and without a mask of one or two entries.
BATCHES: tuple[tuple[Vector, ...], ...] = (((3, 4), (6, 8), (0, -9)), ((5, 12), (-8, 6)), ((0, 0), (20, -21)))
_BOUND = 5


def _clipped(gradient: Sequence[int]) -> list[Fraction]:
    square = sum(x * x for x in gradient)
    norm = math.isqrt(square)
    if norm * norm != square:
        raise ValueError(f"the norm of {gradient} is not whole")
    return [Fraction(x) * min(Fraction(1), Fraction(_BOUND, norm or 1)) for x in gradient]


def _batch_mean(batch: Sequence[Vector], mask: Sequence[int]) -> list[Fraction]:
    rows = [_clipped([x * b for x, b in zip(g, mask, strict=True)]) for g in batch]
    return [sum(column, Fraction(0)) / len(batch) for column in zip(*rows, strict=True)]


def _mean(batch: Sequence[Vector]) -> list[Fraction]:
    return [Fraction(sum(column), len(batch)) for column in zip(*batch, strict=True)]


def _square(vector: Sequence[Fraction]) -> Fraction:
    return sum((x * x for x in vector), Fraction(0))


def enumerated_mse(batch: Sequence[Vector], kept: int, size: int) -> Fraction:
    """E|w - (g + m * noise)|^2 over masks and noise entries +-C size / B, w the mean of the batch's gradients."""
    w, dim = _mean(batch), len(batch[0])
    errors = []
    for mask in all_masks(dim, kept):
        g = _batch_mean(batch, mask)
        for signs in itertools.product((-1, 1), repeat=dim):
            noise = [Fraction(_BOUND * size * s * b, len(batch)) for s, b in zip(signs, mask, strict=True)]
            errors.append(_square([a - b - c for a, b, c in zip(w, g, noise, strict=True)]))
    return sum(errors, Fraction(0)) / len(errors)


def split_mse(batch: Sequence[Vector], kept: int, size: int, divisor: int) -> Fraction:
    """Signal loss plus kept C^2 size^2 / B^divisor."""
    w, dim = _mean(batch), len(batch[0])
    masks = all_masks(dim, kept)
    loss = sum(
        (_square([a - b for a, b in zip(w, _batch_mean(batch, mask), strict=True)]) for mask in masks), Fraction(0)
    )
    return loss / len(masks) + Fraction(kept * (_BOUND * size) ** 2, len(batch) ** divisor)


def gaussian_errors(
    rng: np.random.Generator,
    n: int,
    w: tuple[float, ...],
    kept: int,
    deviation: float,
    bound: float,
    sigma: float,
    batch: int,
) -> Array:
    """|w - released|^2 for a batch of Gaussian gradients under one random mask, clipped with plain NumPy."""
    center = np.array(w)
    mask = drawn_masks(rng, n, center.size, kept)
    gradients = (center + deviation * rng.standard_normal((n, batch, center.size))) * mask[:, None]
    norms = np.linalg.norm(gradients, axis=2, keepdims=True)
    mean = (gradients * np.minimum(1.0, bound / np.maximum(norms, 1e-300))).mean(axis=1)
    noise = rng.standard_normal((n, center.size)) * (bound * sigma / batch) * mask
    return np.asarray(np.square(center - mean - noise).sum(axis=1))


FLAT = (0.25,) * 16


def flat_breakdown() -> gradients.MseBreakdown:
    """Errors of flat Gaussian gradients, d = 16, with 4 entries kept and without a mask, in batches of 4."""
    return gradients.clipped_gradient_mse(
        grad_norm=1.0, dim=16, deviation=0.2, clip_norm=0.9, noise_multiplier=1.5, batch_size=4, drop_rate=0.75
    )
