"""Losses that are divided by the weights of the whole batch: how far one record then moves the clipped sum."""

from dptheory import _validate
from dptheory._adjacency import ADJACENCIES

_LARGEST_BATCH = 10**9


def weighted_mean_sensitivity(
    *, batch_size: int, clip_norm: float, weight_ratio: float, adjacency: str = "add-remove"
) -> float:
    r"""Sensitivity of the clipped sum where the loss is a weighted mean over the batch, divided by the sum of the weights.

    With weights between :math:`w_{\min}` and :math:`w_{\max} = Rw_{\min}` and n records in a batch, of which each contributes
    :math:`\mathrm{clip}(nw_i\nabla\ell_i/\sum_jw_j)`, it is, for m records in the larger of the two batches,

    .. math:: \Delta = C\Big(o + \frac{(m-1)(R-1)}{m-1+R}\Big),\qquad o = 1 \;\text{(add-remove)},\quad 2 \;\text{(replace-one)}

    Attained for every m and finite R. Mechanism and accountant count on oC alone: divide the noise multiplier by
    :math:`\Delta/(oC)` to see what it is worth.

    Args:
        batch_size: m in 1..10^9, records in a batch, with the record in question.
        clip_norm: C in [1e-70, 1e70].
        weight_ratio: R in [1, inf], the largest weight over the smallest: of numbers of tokens, of class weights. 1 where the
            mean is one over records; inf where weights may come as close to 0 as they like.
        adjacency: "add-remove" or "replace-one".

    Returns:
        The sensitivity, in units of the gradient; at R = inf what is approached.

    Raises:
        ValueError: an argument outside its range.

    Source: our own result, on RS, Algorithm 1, lines 3 to 6 (rs.loss_divisor).

    Example: by hand: two records of one token; one becomes a record of three. The other falls from C to C / 2.
        >>> from dptheory.privacy import weighted_mean_sensitivity
        >>> weighted_mean_sensitivity(batch_size=2, clip_norm=1.0, weight_ratio=3.0, adjacency="replace-one")
        2.5
    """
    others = _validate.integer("batch_size", batch_size, 1, _LARGEST_BATCH) - 1
    clip = _validate.size("clip_norm", clip_norm)
    ratio = _validate.real("weight_ratio", weight_ratio, 1.0)
    own = 1.0 if _validate.choice("adjacency", adjacency, ADJACENCIES) == "add-remove" else 2.0
    # (R - 1) / (m - 1 + R), without inf / inf
    fall = 1.0 / (1.0 + (others + 1.0) / (ratio - 1.0)) if ratio > 1.0 else 0.0
    return clip * (own + others * fall)
