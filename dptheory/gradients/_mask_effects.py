"""What a random mask does to the noise, and to clipped gradients when it comes before or after the clipping."""

from dataclasses import dataclass

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.gradients._angles import small_snr_slope
from dptheory.gradients._clipping import clip

_MAX_DIM = 10**12
_LARGEST_NORM, _LARGEST_ENTRY = 1e140, 1e300


def noise_norm_ratio(dim: int, keep: int) -> float:
    r"""E(|m * xi| / |xi|) for isotropic Gaussian noise and a mask with keep ones, a little below sqrt(keep / dim).

    .. math:: \frac{\Gamma(\frac{K+1}2)\Gamma(\frac d2)}{\Gamma(\frac K2)\Gamma(\frac{d+1}2)}

    The mean of the squared ratio is exactly keep / dim.

    Args:
        dim, keep: 1 <= keep <= dim <= 1e12.

    Returns:
        The mean ratio, in (0, 1].

    Source: RS, Fig. 1c (rs.fig1).

    Example: a mask that keeps half of the entries keeps almost sqrt(1/2) = 0.7071 of the length of the noise.
        >>> from dptheory.gradients import noise_norm_ratio
        >>> [round(noise_norm_ratio(dim, dim // 2), 4) for dim in (10, 1_000_000)]
        [0.6898, 0.7071]
    """
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    keep = _validate.integer("keep", keep, 1, dim)
    return (keep / dim) * (small_snr_slope(keep) / small_snr_slope(dim))


def relaxed_gradient_ratio(*, grad_norm: ArrayLike, masked_norm: ArrayLike, clip_norm: float) -> Array:
    r"""Kept entries of one example's clipped gradient, masked before the clipping over masked after it.

    .. math:: \frac{|\mathrm{clip}(m \odot g)|}{|m \odot \mathrm{clip}(g)|} = \frac{\max(|g|, C)}{\max(|m \odot g|, C)}

    Args:
        grad_norm: |g| in [0, 1e140]; any shape, not empty.
        masked_norm: |m * g| in [0, grad_norm]; broadcast with grad_norm. The ratio is a limit where it is 0.
        clip_norm: clipping norm C in [1e-70, 1e70].

    Returns:
        A number from 1 (nothing was clipped) to |g| / |m * g| (both were).

    Source: RS, Fig. 1d, and RF, Appendix G, for one example (rs.fig1, rf.posterior).

    Example: masked to 1.5 before clipping to 1, the example keeps 1; clipped first, it keeps 1.5 / 2.
        >>> from dptheory.gradients import relaxed_gradient_ratio
        >>> round(float(relaxed_gradient_ratio(grad_norm=2.0, masked_norm=1.5, clip_norm=1.0)), 4)
        1.3333
    """
    full, masked = _validate.nonnegative("grad_norm", grad_norm), _validate.nonnegative("masked_norm", masked_norm)
    clip_norm = _validate.size("clip_norm", clip_norm)
    for name, array in (("grad_norm", full), ("masked_norm", masked)):
        if not array.size or array.max() > _LARGEST_NORM:
            raise ArgumentError(name, f"hold numbers in [0, {_LARGEST_NORM:g}]", array)
    _validate.broadcast(masked_norm=masked, grad_norm=full)
    if (masked > full).any():
        raise ArgumentError(
            "masked_norm",
            "be at most grad_norm",
            masked_norm,
            got=f"{_validate.shown(masked_norm)} above {_validate.shown(grad_norm)}",
        )
    return np.maximum(full, clip_norm) / np.maximum(masked, clip_norm)


@dataclass(frozen=True, kw_only=True)
class PosteriorFreeze:
    """Moments of a batch gradient that is clipped first and masked afterwards.

    Attributes:
        mean: its expectation over the mask, shape (dim,).
        mean_square: expectation of its squared norm.
    """

    mean: Array
    mean_square: float


def posterior_freeze(gradients: ArrayLike, *, clip_norm: float, keep: int) -> PosteriorFreeze:
    r"""Clip every example, average, then apply a uniformly random mask with keep ones that does not depend on the data.

    With x = keep / dim and g_C the averaged clipped gradient the mean is x g_C and the mean square x |g_C|^2, so
    E<w, .> = x <w, g_C>.

    Args:
        gradients: per-example gradients, shape (batch, dim), both >= 1; entries in [-1e300, 1e300].
        clip_norm: clipping norm C in [1e-70, 1e70].
        keep: number of ones in the mask, 1..dim.

    Returns:
        Mean, shape (dim,), and mean square of the masked average.

    Source: RF, Appendix G (rf.posterior).

    Example: (3, 4) is clipped to (0.6, 0.8); a mask that keeps one of both entries halves its mean and its square.
        >>> from dptheory.gradients import posterior_freeze
        >>> found = posterior_freeze([[3.0, 4.0]], clip_norm=1.0, keep=1)
        >>> found.mean.round(6), round(found.mean_square, 6)
        (array([0.3, 0.4]), 0.5)
    """
    gradients = _validate.finite("gradients", gradients)
    if gradients.ndim != 2 or gradients.size == 0:
        raise ArgumentError(
            "gradients", "have shape (batch, dim), both >= 1", gradients, got=f"shape {gradients.shape}"
        )
    if np.abs(gradients).max() > _LARGEST_ENTRY:
        raise ArgumentError("gradients", f"hold numbers in [-{_LARGEST_ENTRY:g}, {_LARGEST_ENTRY:g}]", gradients)
    clip_norm = _validate.size("clip_norm", clip_norm)
    share = _validate.integer("keep", keep, 1, gradients.shape[1]) / gradients.shape[1]
    clipped = clip(gradients, clip_norm=clip_norm).mean(axis=0)
    return PosteriorFreeze(mean=share * clipped, mean_square=share * float(clipped @ clipped))
