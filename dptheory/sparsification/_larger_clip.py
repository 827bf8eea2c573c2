"""What a mask leaves of the descent of given per-example gradients: that of a larger clip, up to how few entries they sit in."""

import math
from dataclasses import dataclass

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.gradients import kept_entries


@dataclass(frozen=True, kw_only=True)
class MaskedDescent:
    """What is left of the descent of a clipped step under fresh random masks, over what it is without.

    Attributes:
        lower, upper: bounds on kappa* = E_m E<w, clip_C(m * g)> / E<w, clip_C(g)>, for the examples given.
        larger_clip: x E<w, clip_{C / sqrt x}(g)> / E<w, clip_C(g)>: what the clip C / sqrt(x) has at x times the learning rate;
            kappa* tends to it as the gradients spread over more and more entries.
        participation: harmonic mean of the numbers of entries that the examples' gradients sit in, |g|^4 / sum_j g_j^4.
    """

    lower: float
    upper: float
    larger_clip: float
    participation: float


def masked_descent(
    gradients: ArrayLike, *, clip_norm: float, drop_rate: float, true_gradient: ArrayLike | None = None
) -> MaskedDescent:
    r"""Bounds on kappa*, the share of a clipped step's descent that fresh random masks keep, for any law of the gradients.

    A mask acts as the clip C / sqrt(x) at x times the learning rate, exactly where gradients are flat; what is left is bounded by
    the variance v = (r / x) (d sum_j p_j^2 - 1) / (d - 1) of |m * g|^2 over its mean, p_j = g_j^2 / |g|^2. For each example
    E_m<w, clip(m * g)> lies in x t I +- sqrt(x r d / (d - 1) sum_j w_j^2 g_j^2 (L^2 v + P)), t = <w, g>, where I bounds
    E_m min(1, a / sqrt(Z)), Z = |m * g|^2 / (x |g|^2), a = C / (sqrt(x) |g|) (rs.mask_is_clip has them).

    At a tuned learning rate a mask lowers the bound on the exact descent if and only if kappa* is above
    :func:`least_kappa_tuned`; the clip C / sqrt(x) at its own best rate then lowers it more, unless kappa* exceeds
    ``larger_clip`` by the factor sqrt((A + x D) / (x (A + D))).

    Args:
        gradients: g, a row for each example, shape (n, d), entries 0 or of size in [1e-70, 1e70].
        clip_norm: C, in [1e-70, 1e70].
        drop_rate: r in [0, 1) with (1 - r) d whole.
        true_gradient: w, shape (d,), entries likewise; None takes the mean of the rows.

    Returns:
        The bounds and the limit. Where they are far apart the gradients sit in few entries, and draws of masks say more.

    Raises:
        ValueError: an argument outside its range, a row that is 0, or gradients whose clipped mean does not point downhill.

    Source: RS, Lemma 3.3 and Theorem 3.5; our own (rs.mask_is_clip).

    Example: 2,000 entries, deviations that fall like 1 / j: half of the entries keep 70 to 72 % of the descent.
        >>> import numpy as np
        >>> from dptheory.sparsification import masked_descent
        >>> rng, scale = np.random.default_rng(0), np.arange(1, 2001) ** -0.5
        >>> rows = 0.1 + scale * rng.standard_normal((100, 2000))
        >>> found = masked_descent(rows, clip_norm=0.1, drop_rate=0.5)
        >>> round(found.lower, 3), round(found.upper, 3), round(found.larger_clip, 3)
        (0.703, 0.721, 0.707)
    """
    rows = _validate.signed_scale("gradients", gradients)
    if rows.ndim != 2 or not rows.size:
        raise ArgumentError("gradients", "have shape (n, d), n and d at least 1", gradients, got=f"shape {rows.shape}")
    if not rows.any(axis=1).all():
        raise ArgumentError("gradients", "hold no row that is 0", gradients)
    clip_norm = _validate.size("clip_norm", clip_norm)
    dim = rows.shape[1]
    keep = kept_entries(dim=dim, drop_rate=drop_rate)
    true = rows.mean(axis=0) if true_gradient is None else _validate.signed_scale("true_gradient", true_gradient)
    if true.shape != (dim,):
        raise ArgumentError("true_gradient", f"have shape ({dim},)", true_gradient, got=f"shape {true.shape}")
    largest = float(np.abs(true).max())
    if largest == 0:
        raise ArgumentError("true_gradient", "not be 0", true_gradient)
    direction = true / largest
    direction /= float(np.linalg.norm(direction))
    found = _descent(*np.array([_sums(direction, row) for row in rows]).T, clip=clip_norm, keep=keep, dim=dim)
    if found is None:
        raise ArgumentError("gradients", "have a clipped mean that points downhill: <w, E clip(g)> > 0", gradients)
    return found


def _sums(true: Array, row: Array) -> tuple[float, float, float, float]:
    """|g|, <u, g> / |g|, sum p_j^2 and sum u_j^2 p_j, u the direction of the true gradient."""
    largest = float(np.abs(row).max())
    row = row / largest
    squares = row**2
    energy = float(squares.sum())
    return (
        largest * math.sqrt(energy),
        float(true @ row) / math.sqrt(energy),
        float(squares @ squares) / energy**2,
        float(true**2 @ squares) / energy,
    )


def _descent(
    lengths: Array, cosines: Array, crowding: Array, shared: Array, *, clip: float, keep: int, dim: int
) -> MaskedDescent | None:
    """In units of C |w|, in which a step's descent is cos min(|g| / C, 1); None where the mean of that is not above 0."""
    x = keep / dim
    relative = lengths / clip
    plain = float(np.mean(cosines * np.minimum(relative, 1.0)))
    if plain <= 0:
        return None
    limit = float(np.mean(x * cosines * np.minimum(relative, 1 / math.sqrt(x))))
    lower = upper = limit
    if keep < dim:
        variance = np.maximum(0.0, (1 - x) / x * (dim * crowding - 1) / (dim - 1))
        low, high, slope, tail = _clipped_share(1 / (math.sqrt(x) * relative), variance, crowding, x)
        spread = np.sqrt(x * (1 - x) * dim / (dim - 1) * shared * (slope**2 * variance + tail))
        ends = x * cosines * low, x * cosines * high
        lower = float(np.mean(relative * (np.minimum(*ends) - spread)))
        upper = float(np.mean(relative * (np.maximum(*ends) + spread)))
    return MaskedDescent(
        lower=lower / plain,
        upper=upper / plain,
        larger_clip=limit / plain,
        participation=float(1 / np.mean(crowding)),
    )


def _clipped_share(a: Array, variance: Array, crowding: Array, x: float) -> tuple[Array, Array, Array, Array]:
    """Bounds on E min(1, a / sqrt Z), EZ = 1; how far it is from Z = 1, over |Z - 1|, for Z >= 1/4; the chance of less."""
    deviation = np.sqrt(variance)
    with np.errstate(divide="ignore", over="ignore"):
        tail = np.minimum(variance / (variance + 9 / 16), np.exp(-9 / 32 * x / crowding))
        above, below = a**2 - 1, 2 * (1 / a - 1)  # how far off Z has to be where a sharp corner counts
        flat = 1 - np.minimum(deviation / 4, np.where(above > 0, variance / (8 * a**2 * above), np.inf))
        steep = a - a / 2 * np.minimum(deviation / 2, np.where(below > 0, variance / (4 * below), np.inf))
    low = np.where(a >= 1, flat, steep)
    high = np.minimum(1.0, a * (1 + _CURVE * variance) + tail)
    slope = np.where(a <= 0.5, 4 / 3 * a, np.where(a < 1, 1 / (1 + a), 1 / (2 * a**2)))
    return low, high, slope, tail


_CURVE = 10 / 9
"""Z^(-1/2) <= 1 - (Z - 1) / 2 + 10/9 (Z - 1)^2 for Z >= 1/4, with equality there."""
