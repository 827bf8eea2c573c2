r"""Mean squared error of gradient embedding perturbation beside plain Gaussian perturbation, at one and the same privacy.

The error is that of the released sum of n gradients, E|released sum - sum of G_i|^2 = n^2 times the error of their mean; the
expectation is over the noise. Notation as in :mod:`dptheory.embedding`; S is the clip of plain perturbation.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory.embedding import _clipping_bias as clipping
from dptheory.embedding import _release, _sizes


@dataclass(frozen=True, kw_only=True)
class GepMse:
    """n^2 MSE of the ways to release the sum of n gradients.

    Attributes:
        plain: GP, the gradients clipped to S, noise in all p directions.
        embedding_only: B-GEP, the embeddings alone; the residuals are lost.
        published: GEP with equal noise ratios and residual noise in all p directions, its noise chosen for the pair of releases.
        published_sum: the same with its noise chosen for the sum of the two releases, which is all that the algorithm returns.
        optimal: GEP with the best split, residual noise off span(B); pair and sum then cost the same.
        joint: GEP with the gradients clipped to S before the residuals are clipped to S2.
    """

    plain: float
    embedding_only: float
    published: float
    published_sum: float
    optimal: float
    joint: float


def gep_mse(
    *,
    dim: int,
    subspace_dim: int,
    clip_norm: float,
    residual_clip: float,
    mu: float,
    residual_norm: float = 0.0,
    embedding_clip: float | None = None,
) -> GepMse:
    r"""n^2 MSE where no gradient is clipped: the noise, and the lost residual for B-GEP, for every way of GEP if S2 = 0.

    plain p S^2/mu^2; embedding_only k S1^2/mu^2 + |r|^2; published 2 (k S1^2 + p S2^2)/mu^2; published_sum
    (1 + a) (k S1^2 + p S2^2)/mu^2 with a = S1^2/(S1^2 + S2^2); optimal and joint as in
    :func:`dptheory.embedding.split_noise` and :func:`~dptheory.embedding.joint_clip` at r = min(1, S2/S).

    Args:
        dim: p, in 1..1e12.
        subspace_dim: k, in 0..p.
        clip_norm: S, in [1e-70, 1e70].
        residual_clip: S2, 0 or in [1e-70, 1e70]; 0 drops the residual, and every way but plain loses it.
        mu: privacy of everything released in a step, in [1e-70, 1e70]; add-remove.
        residual_norm: |r|, norm of the sum of the residuals.
        embedding_clip: S1; S where it is not given.

    Returns:
        The mean squared error of each way, times n^2.

    Raises:
        ValueError: an argument outside its range.

    Source: new, on GEP, section 3 (gep.versus).

    Example: ResNet20 with GEP's clips 10 and 2. The published noise is 9 % of plain perturbation's.
        >>> from dptheory.embedding import gep_mse
        >>> found = gep_mse(dim=269_722, subspace_dim=1000, clip_norm=10.0, residual_clip=2.0, mu=1.0)
        >>> round(found.published / found.plain, 3), round(found.optimal / found.plain, 3), round(found.joint / found.plain, 3)
        (0.087, 0.068, 0.067)
    """
    dim, subspace_dim = _sizes.dimensions(dim, subspace_dim)
    clip_norm, residual_clip = (
        _validate.size("clip_norm", clip_norm),
        _validate.size("residual_clip", residual_clip, zero=True),
    )
    mu, lost = _validate.size("mu", mu), _validate.size("residual_norm", residual_norm, zero=True)
    first = clip_norm if embedding_clip is None else _validate.size("embedding_clip", embedding_clip, zero=True)
    embedding, residual = subspace_dim * (first / mu) ** 2, dim * (residual_clip / mu) ** 2
    dropped = 0.0 if residual_clip else lost**2
    return GepMse(
        plain=dim * (clip_norm / mu) ** 2,
        embedding_only=embedding + lost**2,
        published=2 * (embedding + residual) + dropped,
        published_sum=(1 + _sizes.embedding_share(first, residual_clip)) * (embedding + residual) + dropped,
        optimal=_release.split_noise(
            dim=dim, subspace_dim=subspace_dim, embedding_clip=first, residual_clip=residual_clip, mu=mu
        ).energy
        + dropped,
        joint=_release.joint_clip(
            dim=dim,
            subspace_dim=subspace_dim,
            clip_norm=clip_norm,
            residual_share=min(1.0, residual_clip / clip_norm),
            mu=mu,
        ).energy
        + dropped,
    )


def clipped_gep_mse(
    embeddings: ArrayLike,
    *,
    residuals: ArrayLike,
    clip_norm: float,
    residual_clip: float,
    mu: float,
    embedding_clip: float | None = None,
) -> GepMse:
    r"""n^2 MSE for given gradients: :func:`gep_mse` plus the squared norm of the clipping bias of each way.

    Args:
        embeddings: w_i, shape (n, k).
        residuals: r_i in any orthonormal coordinates of the space off span(B), shape (n, q).
        clip_norm, residual_clip, mu, embedding_clip: as in :func:`gep_mse`.

    Returns:
        The mean squared error of each way, times n^2.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: new, on GEP, Remark 1 (gep.versus, gep.rem1).

    Example: by hand: plain noise on 3 entries; without the residual noise on 2, and 0.8^2 that is lost.
        >>> from dptheory.embedding import clipped_gep_mse
        >>> found = clipped_gep_mse([[0.6, 0.0]], residuals=[[0.8]], clip_norm=1.0, residual_clip=1.0, mu=1.0)
        >>> round(found.plain, 4), round(found.embedding_only, 4)
        (3.0, 2.64)
    """
    w, r = _sizes.pairs(embeddings, residuals)
    dim, subspace_dim = w.shape[1] + r.shape[1], w.shape[1]
    clip_norm, residual_clip = (
        _validate.size("clip_norm", clip_norm),
        _validate.size("residual_clip", residual_clip, zero=True),
    )
    first = clip_norm if embedding_clip is None else embedding_clip
    noise = gep_mse(
        dim=dim,
        subspace_dim=subspace_dim,
        clip_norm=clip_norm,
        residual_clip=residual_clip,
        mu=mu,
        embedding_clip=embedding_clip,
    )
    apart = clipping.clipping_bias(w, residuals=r, embedding_clip=first, residual_clip=residual_clip)
    together = clipping.joint_clipping_bias(
        w, residuals=r, clip_norm=clip_norm, residual_share=min(1.0, residual_clip / clip_norm)
    )
    return GepMse(
        plain=noise.plain
        + clipping.joint_clipping_bias(w, residuals=r, clip_norm=clip_norm, residual_share=1.0).square,
        embedding_only=noise.embedding_only + float(np.square(apart.embedding).sum() + np.square(r.sum(axis=0)).sum()),
        published=noise.published + apart.square,
        published_sum=noise.published_sum + apart.square,
        optimal=noise.optimal + apart.square,
        joint=noise.joint + together.square,
    )


@dataclass(frozen=True, kw_only=True)
class LargestRatios:
    """Ratio S2/S below which a release beats plain perturbation; 0 where none does.

    Attributes:
        published, published_sum, optimal, joint: as in :class:`GepMse`.
    """

    published: float
    published_sum: float
    optimal: float
    joint: float


def largest_residual_ratio(*, dim: int, subspace_dim: int) -> LargestRatios:
    r"""Ratio S2/S below which the noise of GEP is the smaller one, with S1 = S and the same mu.

    published sqrt(max(0, 1/2 - c)) with c = k/p; published_sum sqrt(max(0, (sqrt((1 - c)(5 - c)) - 1 - c)/2)); optimal
    sqrt((sqrt p - sqrt k)/(sqrt p + sqrt k)); joint sqrt(1 - c). Above its ratio joint clipping has the noise of plain
    perturbation, the others have more.

    Args:
        dim: p, in 1..1e12.
        subspace_dim: k, in 0..p.

    Returns:
        The ratio for each way of releasing.

    Raises:
        ValueError: an argument outside its range.

    Source: new, on GEP, section 3 (gep.versus).

    Example: ResNet20: the published noise is smaller for residual clips up to 0.7 S, joint clipping's up to S.
        >>> from dptheory.embedding import largest_residual_ratio
        >>> found = largest_residual_ratio(dim=269_722, subspace_dim=1000)
        >>> round(found.published, 3), round(found.optimal, 3), round(found.joint, 3)
        (0.704, 0.941, 0.998)
    """
    dim, subspace_dim = _sizes.dimensions(dim, subspace_dim)
    outside, share = dim - subspace_dim, subspace_dim / dim
    # (root - 1 - c) / 2 = 2 (1 - 2 c) / (root + 1 + c), without the difference
    root = math.sqrt((1 - share) * (5 - share))
    return LargestRatios(
        published=math.sqrt(max(0, dim - 2 * subspace_dim) / (2 * dim)),
        published_sum=math.sqrt(max(0, dim - 2 * subspace_dim) / dim * 2 / (root + 1 + share)),
        # (sqrt p - sqrt k) / (sqrt p + sqrt k) = q / (sqrt p + sqrt k)^2
        optimal=math.sqrt(outside) / (math.sqrt(dim) + math.sqrt(subspace_dim)),
        joint=math.sqrt(outside / dim),
    )


@dataclass(frozen=True, kw_only=True)
class SmallResidual:
    """Squared norm |r|^2 of the summed residual below which dropping it (B-GEP) has the smaller error.

    Attributes:
        plain, published, published_sum, optimal, joint: what B-GEP is compared with, as in :class:`GepMse`.
    """

    plain: float
    published: float
    published_sum: float
    optimal: float
    joint: float


def least_residual_energy(
    *, dim: int, subspace_dim: int, clip_norm: float, residual_clip: float, mu: float
) -> SmallResidual:
    r"""|r|^2 from which on releasing the residual pays, with S1 = S, nothing clipped and the same mu.

    In units of S^2/mu^2, with rho = S2/S: plain q; published k + 2 p rho^2; published_sum a k + (1 + a) p rho^2 with
    a = 1/(1 + rho^2); optimal 2 sqrt(k q) rho + q rho^2; joint (q - k) rho^2 + 2 rho sqrt(k q (1 - rho^2)) if rho^2 <= q/p,
    else q.

    Args:
        dim: p, in 1..1e12.
        subspace_dim: k, in 0..p.
        clip_norm: S = S1, in [1e-70, 1e70].
        residual_clip: S2 in [1e-70, 1e70]; 0 would release no residual.
        mu: in [1e-70, 1e70]; add-remove.

    Returns:
        The energy for each way of releasing, in squared units of the gradients.

    Raises:
        ValueError: an argument outside its range.

    Source: new, on GEP, Remark 1 (gep.versus).

    Example: ResNet20 with GEP's clips: the residuals' sum has to be 1500 long for its release to pay, 1300 with joint clipping.
        >>> from dptheory.embedding import least_residual_energy
        >>> found = least_residual_energy(dim=269_722, subspace_dim=1000, clip_norm=10.0, residual_clip=2.0, mu=1.0)
        >>> round(found.published**0.5), round(found.joint**0.5)
        (1503, 1309)
    """
    dim, k = _sizes.dimensions(dim, subspace_dim)
    clip_norm, residual_clip = _validate.size("clip_norm", clip_norm), _validate.size("residual_clip", residual_clip)
    unit, ratio, q = (clip_norm / _validate.size("mu", mu)) ** 2, residual_clip / clip_norm, dim - k
    share = _sizes.embedding_share(clip_norm, residual_clip)
    cross = 2 * ratio * math.sqrt(k) * math.sqrt(q)
    joint = (q - k) * ratio**2 + cross * math.sqrt((1 - ratio) * (1 + ratio)) if ratio**2 <= q / dim else q
    return SmallResidual(
        plain=q * unit,
        published=(k + 2 * dim * ratio**2) * unit,
        published_sum=(share * k + (1 + share) * dim * ratio**2) * unit,
        optimal=(cross + q * ratio**2) * unit,
        joint=max(0.0, joint) * unit,
    )
