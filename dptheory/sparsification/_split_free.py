"""kappa without a split of the clipping norm: its largest value, from norms alone."""

import math

from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory.gradients import symmetric_clip_lower_bound


def largest_split_free_kappa(
    *, grad_norm: float, clip_norm: float, deviation_norms: ArrayLike, drop_rate: float
) -> float:
    r"""min(x, sqrt(x) C / |w|) / H with H = E min(1, (C - |xi|)_+ / |w|): no kappa without a split is larger; none is below x.

    kappa without a split is E_m E[|m*w| min(|m*w|, (C - |m*xi|)_+)] / E[|w| min(|w|, (C - |xi|)_+)]. Where this bound is at most
    sqrt(x), no mask that keeps the share x lowers the bound of Theorem 3.5 (``bias=0.0``) at a tuned learning rate.

    Args:
        grad_norm: \|w|, in [1e-70, 1e70].
        clip_norm: C, in [1e-70, 1e70].
        deviation_norms: equally likely values of |xi|, for instance measured ones; >= 0, shape (samples,).
        drop_rate: r = 1 - x, in [0, 1).

    Returns:
        The bound, 1 for rate 0; inf where H is 0, because every deviation is at least C.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Lemma 3.3; our own (rs.split_free).

    Example: half of the deviations leave no room, so H = 1/2: a mask that keeps a quarter or less cannot pay.
        >>> from dptheory.sparsification import largest_split_free_kappa
        >>> norms = dict(grad_norm=0.5, clip_norm=1.0, deviation_norms=[0.1, 2.0])
        >>> [round(largest_split_free_kappa(drop_rate=r, **norms) / (1 - r) ** 0.5, 3) for r in (0.5, 0.75, 0.9)]
        [1.414, 1.0, 0.632]
    """
    grad_norm, clip_norm = _validate.size("grad_norm", grad_norm), _validate.size("clip_norm", clip_norm)
    kept = 1 - _validate.real("drop_rate", drop_rate, 0.0, 1.0, ends="[)")
    norms = _validate.nonnegative("deviation_norms", deviation_norms)
    found = symmetric_clip_lower_bound(grad_norm=grad_norm, clip_norm=clip_norm, deviation_norms=norms)
    if kept == 1:
        return 1.0
    share = found.integral / grad_norm / grad_norm
    return min(kept, math.sqrt(kept) * (clip_norm / grad_norm)) / share if share > 0 else math.inf
