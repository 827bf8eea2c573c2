"""Privacy of masked DP-SGD: sensitivity under a mask, several releases of one sum."""

import math

import numpy as np

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError
from dptheory.gradients import clip as clip_vector


def masked_sensitivity(
    *, gradients: ArrayLike, clip_norm: float, mask: ArrayLike | None = None, adjacency: str = "add-remove"
) -> float:
    r"""Sensitivity of the sum of clip(m * g), where an example may have any of the gradients given.

    .. math:: \Delta = \max_g \lVert\mathrm{clip}(m\odot g)\rVert \;\text{(add-remove)},\qquad
        \max_{g, g'} \lVert\mathrm{clip}(m\odot g) - \mathrm{clip}(m\odot g')\rVert \;\text{(replace-one)}

    At most C and 2C, whatever the mask; both are attained. Under add-remove it never exceeds that without the mask; under
    replace-one it can.

    Args:
        gradients: shape (n, d), n >= 1, entries 0 or of magnitude in [1e-70, 1e70].
        clip_norm: C in [1e-70, 1e70].
        mask: zeros and ones, shape (d,), drawn apart from the data; None keeps all entries.
        adjacency: "add-remove" or "replace-one".

    Returns:
        The sensitivity, in units of the gradient.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: RS, Theorem 3.1 (rs.thm3.1).

    Example: by hand: (3, 4) masked to (3, 0) is still clipped to 1; the second example keeps 0.5.
        >>> from dptheory.privacy import masked_sensitivity
        >>> masked_sensitivity(gradients=[[3.0, 4.0], [-0.5, 0.0]], clip_norm=1.0, mask=[1, 0])
        1.0
        >>> masked_sensitivity(gradients=[[3.0, 4.0], [-0.5, 0.0]], clip_norm=1.0, mask=[1, 0], adjacency="replace-one")
        1.5
    """
    rows = _validate.signed_scale("gradients", gradients)
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ArgumentError("gradients", "have shape (n, d) with n, d >= 1", rows.shape)
    bound = _validate.real("clip_norm", clip_norm, 1e-70, 1e70)
    kept = np.ones(rows.shape[1]) if mask is None else _validate.zeros_and_ones("mask", mask)
    if kept.shape != rows.shape[1:]:
        raise ArgumentError("mask", f"hold zeros and ones in shape {rows.shape[1:]}", mask, got=f"shape {kept.shape}")
    _validate.adjacency(adjacency)
    clipped = np.stack([clip_vector(row, clip_norm=bound) for row in rows * kept])
    if adjacency == "add-remove":
        return float(np.linalg.norm(clipped, axis=1).max())
    return float(max(np.linalg.norm(clipped - one, axis=1).max() for one in clipped))


def combined_multiplier(*, noise_multipliers: ArrayLike) -> float:
    r"""Noise multiplier of the one Gaussian release that is exactly as private as several of the same sum.

    .. math:: \sigma = \Big(\sum_i \sigma_i^{-2}\Big)^{-1/2}

    Two releases with independent noise of the same multiplier: sigma / sqrt 2.

    Args:
        noise_multipliers: shape (n,), n >= 1, each in [0, inf]; 0 is a release without noise, inf none.

    Returns:
        The noise multiplier; inf where nothing is released.

    Source: RF, Algorithm 2; RS, Algorithm 4 (rf.alg2, rs.alg4).

    Example: by hand: two releases at 1.54 are as private as one at 1.54 / sqrt(2).
        >>> from dptheory.privacy import combined_multiplier
        >>> round(combined_multiplier(noise_multipliers=[1.54, 1.54]), 4)
        1.0889
    """
    sigmas = _validate.extended("noise_multipliers", noise_multipliers)
    if sigmas.ndim != 1 or sigmas.size == 0:
        raise ArgumentError(
            "noise_multipliers", "hold one or more numbers in [0, inf]", noise_multipliers, got=f"shape {sigmas.shape}"
        )
    least = float(sigmas.min())
    if least == 0.0 or math.isinf(least):
        return least
    return least / math.sqrt(float(np.sum((least / sigmas) ** 2)))
