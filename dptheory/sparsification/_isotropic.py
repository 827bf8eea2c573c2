"""kappa without any bound between: the share of the exact descent that a mask keeps, for isotropic Gaussian deviation."""

import math

from dptheory import _validate
from dptheory.gradients import gaussian_clip_moments, kept_entries

_MAX_DIM = 10**9


def isotropic_kappa(*, grad_norm: float, dim: int, clip_norm: float, drop_rate: float, deviation: float = 0.0) -> float:
    r"""E_m E<w, clip(m * g)> / E<w, clip(g)> for g ~ N(w, s^2 I) and entries of w that are all of one size: exact.

    No gradient of the same norm has more. With k = x d and the noncentral chi laws R of
    :func:`dptheory.gradients.gaussian_clip_moments`

    .. math:: \kappa^* = x\, \frac{E \min(1, C / s R_{k+2}(x|w|^2/s^2))}{E \min(1, C / s R_{d+2}(|w|^2/s^2))}

    It is the ratio of the descents themselves; :func:`kappa` is that of the lower bounds on them that the papers use, and can be
    far above it where these say little.

    Args:
        grad_norm: \|w|, in [1e-70, 1e70].
        dim: number of entries d, 1..1e9.
        clip_norm: clipping norm C, in [1e-70, 1e70].
        drop_rate: r in [0, 1) with (1 - r) d whole.
        deviation: s, standard deviation of one entry of one example's gradient, in [0, 1e70].

    Returns:
        The ratio, to about nine digits, at least 1 - r.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Lemma 3.3 and Theorem 3.5; our own (rs.phase).

    Example: clipped to a tenth of the gradient's length, with deviations twice as long as it: sqrt(1 - r) is not reached.
        >>> from dptheory.sparsification import isotropic_kappa
        >>> round(isotropic_kappa(grad_norm=1.0, dim=100, clip_norm=0.1, drop_rate=0.75, deviation=0.2), 4)
        0.4987
    """
    grad_norm = _validate.size("grad_norm", grad_norm)
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    keep = kept_entries(dim=dim, drop_rate=drop_rate)
    share = keep / dim

    def slope(length: float, entries: int) -> float:
        return gaussian_clip_moments(grad_norm=length, dim=entries, deviation=deviation, clip_norm=clip_norm).slope

    return share * (slope(math.sqrt(share) * grad_norm, keep) / slope(grad_norm, dim))


def largest_isotropic_kappa(*, dim: int, drop_rate: float) -> float:
    r"""sqrt(x (1 + r / (6 k - 1))), k = x d: the exact kappa of isotropic Gaussian deviation is never larger.

    Whatever the gradient, C and the size of the deviation; also for mixtures of Gaussians of several sizes, heavy tails included.
    With this kappa a mask lowers the bound of Theorem 3.5 at a tuned learning rate only above :func:`least_kappa_tuned`, so only
    where (sigma / B)^2 > 6 - 1/k - 1/d.

    Args:
        dim: number of entries d, 1..1e9.
        drop_rate: r in [0, 1) with (1 - r) d whole.

    Returns:
        The bound, 1 for rate 0.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Lemma 3.3 and Theorem 3.5; our own (rs.phase).

    Example: sqrt(1 - r) can be exceeded by 10 % where one entry is kept, by next to nothing where many are.
        >>> from dptheory.sparsification import largest_isotropic_kappa
        >>> [round(largest_isotropic_kappa(dim=d, drop_rate=0.9) / 0.1**0.5, 6) for d in (10, 100, 10_000)]
        [1.086278, 1.007598, 1.000075]
    """
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    keep = kept_entries(dim=dim, drop_rate=drop_rate)
    share = keep / dim
    return math.sqrt(share * (1.0 + (1.0 - share) / (6.0 * keep - 1.0)))
