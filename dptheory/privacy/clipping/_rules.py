"""What one record adds to a sum whose gradients are clipped by another rule, or divided by the weights of the whole batch."""

import math
from dataclasses import dataclass

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError

# --- Losses that are divided by the weights of the whole batch: how far one record then moves the clipped sum


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

    Source: our own result, on RS, Algorithm 1, lines 3 to 6 (rs.loss_divisor).

    Example: by hand: two records of one token; one becomes a record of three. The other falls from C to C / 2.
        >>> from dptheory.privacy.clipping import weighted_mean_sensitivity
        >>> weighted_mean_sensitivity(batch_size=2, clip_norm=1.0, weight_ratio=3.0, adjacency="replace-one")
        2.5
    """
    others = _validate.integer("batch_size", batch_size, 1, _LARGEST_BATCH) - 1
    clip = _validate.size("clip_norm", clip_norm)
    ratio = _validate.real("weight_ratio", weight_ratio, 1.0)
    own = 1.0 if _validate.adjacency(adjacency) == "add-remove" else 2.0
    # (R - 1) / (m - 1 + R), without inf / inf
    fall = 1.0 / (1.0 + (others + 1.0) / (ratio - 1.0)) if ratio > 1.0 else 0.0
    return clip * (own + others * fall)


COUNT_SHARE = (1e-6, 0.5)
"""Share of a step's budget that a count may take."""
_LARGEST_NOISE = 1e15


def layer_clip_sensitivity(*, layer_clips: ArrayLike, adjacency: str = "add-remove") -> float:
    r"""Sensitivity of the sum of gradients each layer of which is clipped to a clip of its own.

    .. math:: \Delta = o\Big(\sum_lC_l^2\Big)^{1/2},\qquad o = 1 \;\text{(add-remove)},\quad 2 \;\text{(replace-one)}

    Attained. Clips with :math:`\sum_lC_l^2 = C^2` cost what one clip C of the whole does.

    Args:
        layer_clips: C_l, each in [1e-70, 1e70]; the unit of the gradient.
        adjacency: "add-remove" or "replace-one".

    Returns:
        The sensitivity, in units of the gradient.

    Source: our own result, on RS, Algorithm 1, line 5 (rs.layer_clip).

    Example: by hand, layers of clips 3 and 4.
        >>> from dptheory.privacy.clipping import layer_clip_sensitivity
        >>> layer_clip_sensitivity(layer_clips=[3.0, 4.0])
        5.0
    """
    clips = _validate.scale("layer_clips", layer_clips).ravel().tolist()
    if not clips:
        raise ArgumentError("layer_clips", "hold a clip for each layer", layer_clips)
    return _own(adjacency) * math.hypot(*clips)


def automatic_clip_sensitivity(
    *, clip_norm: float, gamma: float, largest_norm: float = math.inf, adjacency: str = "add-remove"
) -> float:
    r"""Sensitivity of the sum of gradients each of which is normalised: :math:`C g/(|g|+\gamma)`.

    .. math:: \Delta = oC\frac{R}{R+\gamma}

    for gradients of norm R at most; o = 1 under add-remove, 2 under replace-one. Attained for a finite R; without a bound of the norms
    oC is the least upper bound, and not attained.

    Args:
        clip_norm: C, in [1e-70, 1e70].
        gamma: in [1e-70, 1e70], in the unit of the gradient.
        largest_norm: R, in [0, inf]; a bound that holds for every record that there could be, not for those at hand.
        adjacency: "add-remove" or "replace-one".

    Returns:
        The sensitivity, in units of C.

    Source: our own result, on RS, Algorithm 1, line 5 (rs.automatic_clip).

    Example: gradients as long as gamma at most count half of C.
        >>> from dptheory.privacy.clipping import automatic_clip_sensitivity
        >>> automatic_clip_sensitivity(clip_norm=1.0, gamma=0.5, largest_norm=0.5)
        0.5
    """
    clip, small = _validate.size("clip_norm", clip_norm), _validate.size("gamma", gamma)
    longest = _validate.real("largest_norm", largest_norm, 0.0)
    share = 1.0 / (1.0 + small / longest) if longest > 0 else 0.0
    return _own(adjacency) * clip * share


@dataclass(frozen=True, kw_only=True)
class CountedNoise:
    """Noise of a step that releases a count of its examples beside the sum of their gradients.

    Attributes:
        gradient_multiplier: noise multiplier of the sum: noise over clip.
        count_std: standard deviation of the noise on the count.

    Example: nearly all of the budget is the sum's.
        >>> from dptheory.privacy.clipping import counted_noise
        >>> round(counted_noise(noise_multiplier=1.0, count_share=0.01).gradient_multiplier, 3)
        1.005
    """

    gradient_multiplier: float
    count_std: float


def counted_noise(*, noise_multiplier: float, count_share: float) -> CountedNoise:
    r"""Noise of a clipped sum and of a count of votes that cost together what the sum does at noise multiplier sigma.

    Every example votes 1/2, -1/2 or 0, and the count is the sum of the votes. With the share c of the budget

    .. math:: \sigma_g = \frac\sigma{\sqrt{1-c}},\qquad \sigma_b = \frac\sigma{2\sqrt c},\qquad
        \frac1{\sigma_g^2}+\frac1{(2\sigma_b)^2} = \frac1{\sigma^2}

    Sum and count are one Gaussian release; it has the sensitivity of the sum alone at sigma under add-remove and under replace-one,
    both attained. Votes of 1 and 0 would have needed :math:`2\sigma_b` under add-remove.

    Args:
        noise_multiplier: sigma, in [0, 1e15].
        count_share: c, in [1e-6, 0.5]. With :math:`\sigma_b` = B/20 for batches of B it is :math:`100\sigma^2/B^2`.

    Returns:
        Noise multiplier of the sum, and standard deviation of the noise on the count.

    Source: our own result, on RS, Algorithm 1, line 5 (rs.adaptive_clip).

    Example: by hand, 4 and 3 are to 5 what the shares 0.36 and 0.64 are to 1.
        >>> from dptheory.privacy.clipping import counted_noise
        >>> counted_noise(noise_multiplier=12.0, count_share=0.36)
        CountedNoise(gradient_multiplier=15.0, count_std=10.0)
    """
    sigma = _validate.real("noise_multiplier", noise_multiplier, 0.0, _LARGEST_NOISE)
    share = _validate.real("count_share", count_share, *COUNT_SHARE)
    return CountedNoise(gradient_multiplier=sigma / math.sqrt(1.0 - share), count_std=sigma / (2.0 * math.sqrt(share)))


def _own(adjacency: str) -> float:
    return 1.0 if _validate.adjacency(adjacency) == "add-remove" else 2.0
