"""What clipping takes away from the sums of embeddings and residuals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.embedding import _sizes
from dptheory.gradients import clip as clip_rows


@dataclass(frozen=True, kw_only=True)
class ClippingBias:
    """Mean released sum minus true sum, in the subspace and off it.

    Attributes:
        embedding: bias of the sum of embeddings, shape (k,).
        residual: bias of the sum of residuals, shape (q,).
        square: squared norm of both together, the bias term of the squared error.
    """

    embedding: Array
    residual: Array
    square: float


def clipping_bias(
    embeddings: ArrayLike, *, residuals: ArrayLike, embedding_clip: float, residual_clip: float
) -> ClippingBias:
    r"""Bias of GEP's release with embeddings clipped to S1 and residuals to S2.

    Sums of (min(1, S1/|w_i|) - 1) w_i and (min(1, S2/|r_i|) - 1) r_i. Noise has mean 0 and adds nothing. The bias
    is 0 where no row exceeds its clip.

    Args:
        embeddings: w_i, shape (n, k), entries of at most 1e70.
        residuals: r_i, shape (n, q), in any orthonormal coordinates.
        embedding_clip: S1, 0 or in [1e-70, 1e70].
        residual_clip: S2, likewise; 0 drops the residual: the bias is then minus its sum, as for B-GEP.

    Returns:
        The biases of the two sums, and the squared norm of both together.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: GEP, Remark 1, equation 4 (gep.rem1).

    Example: by hand: (3, 4) is clipped from 5 to 1, which takes (2.4, 3.2); the residual is not clipped.
        >>> from dptheory.embedding import clipping_bias
        >>> bias = clipping_bias([[3.0, 4.0]], residuals=[[0.5]], embedding_clip=1.0, residual_clip=1.0)
        >>> bias.embedding.round(4), float(bias.residual[0]), round(bias.square, 4)
        (array([-2.4, -3.2]), 0.0, 16.0)
    """
    w, r = _sizes.pairs(embeddings, residuals)
    first, second = (
        _validate.size("embedding_clip", embedding_clip, zero=True),
        _validate.size("residual_clip", residual_clip, zero=True),
    )
    return _bias(w, r, _clipped(w, first), _clipped(r, second))


def joint_clipping_bias(
    embeddings: ArrayLike, *, residuals: ArrayLike, clip_norm: float, residual_share: float
) -> ClippingBias:
    r"""Bias where the gradient (w_i, r_i) is clipped to S first and its residual to r S afterwards.

    With c_i = min(1, S / |(w_i, r_i)|): sums of (c_i - 1) w_i and (min(c_i, r S/|r_i|) - 1) r_i. With r = 1 it is the bias of
    plain clipping.

    Args:
        embeddings: w_i, shape (n, k), entries of at most 1e70.
        residuals: r_i, shape (n, q), in any orthonormal coordinates.
        clip_norm: S, in [1e-70, 1e70].
        residual_share: r in [0, 1].

    Returns:
        The biases of the two sums, and the squared norm of both together.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: new, on GEP, Remark 1 (gep.rem1, gep.versus).

    Example: by hand: (3, 4) is clipped from 5 to 1, which takes 4/5 of the embedding and of the residual.
        >>> from dptheory.embedding import joint_clipping_bias
        >>> bias = joint_clipping_bias([[3.0]], residuals=[[4.0]], clip_norm=1.0, residual_share=1.0)
        >>> bias.embedding.round(4), bias.residual.round(4)
        (array([-2.4]), array([-3.2]))
    """
    w, r = _sizes.pairs(embeddings, residuals)
    clip_norm = _validate.size("clip_norm", clip_norm)
    share = _validate.real("residual_share", residual_share, 0.0, 1.0)
    both = clip_rows(np.hstack([w, r]), clip_norm=clip_norm)
    kept = both[:, w.shape[1] :]
    return _bias(w, r, both[:, : w.shape[1]], _clipped(kept, share * clip_norm) if share < 1 else kept)


def _clipped(rows: Array, bound: float) -> Array:
    return clip_rows(rows, clip_norm=bound) if bound else np.zeros_like(rows)


def _bias(w: Array, r: Array, kept_w: Array, kept_r: Array) -> ClippingBias:
    embedding, residual = (kept_w - w).sum(axis=0), (kept_r - r).sum(axis=0)
    return ClippingBias(
        embedding=embedding, residual=residual, square=float(np.square(embedding).sum() + np.square(residual).sum())
    )
