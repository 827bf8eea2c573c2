r"""Mean squared error of gradient embedding perturbation beside plain Gaussian perturbation, at one and the same privacy.

The error is that of the released sum of n gradients, E|released sum - sum of G_i|^2 = n^2 times the error of their mean; the
expectation is over the noise. Notation as in :mod:`dptheory.embedding`; S is the clip of plain perturbation.
"""

import math
from dataclasses import dataclass

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.embedding import _release
from dptheory.embedding._release import SplitNoise, dimensions, embedding_share, joint_clip, pairs, split_noise
from dptheory.errors import ArgumentError
from dptheory.gradients import clip as clip_rows
from dptheory.privacy import gaussian_mu


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

    Source: new, on GEP, section 3 (gep.versus).

    Example: ResNet20 with GEP's clips 10 and 2. The published noise is 9 % of plain perturbation's.
        >>> from dptheory.embedding import gep_mse
        >>> found = gep_mse(dim=269_722, subspace_dim=1000, clip_norm=10.0, residual_clip=2.0, mu=1.0)
        >>> round(found.published / found.plain, 3), round(found.optimal / found.plain, 3), round(found.joint / found.plain, 3)
        (0.087, 0.068, 0.067)
    """
    dim, subspace_dim = dimensions(dim, subspace_dim)
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
        published_sum=(1 + embedding_share(first, residual_clip)) * (embedding + residual) + dropped,
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
    w, r = pairs(embeddings, residuals)
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
    apart = clipping_bias(w, residuals=r, embedding_clip=first, residual_clip=residual_clip)
    together = joint_clipping_bias(
        w, residuals=r, clip_norm=clip_norm, residual_share=min(1.0, residual_clip / clip_norm)
    )
    return GepMse(
        plain=noise.plain + joint_clipping_bias(w, residuals=r, clip_norm=clip_norm, residual_share=1.0).square,
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

    Source: new, on GEP, section 3 (gep.versus).

    Example: ResNet20: the published noise is smaller for residual clips up to 0.7 S, joint clipping's up to S.
        >>> from dptheory.embedding import largest_residual_ratio
        >>> found = largest_residual_ratio(dim=269_722, subspace_dim=1000)
        >>> round(found.published, 3), round(found.optimal, 3), round(found.joint, 3)
        (0.704, 0.941, 0.998)
    """
    dim, subspace_dim = dimensions(dim, subspace_dim)
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

    Source: new, on GEP, Remark 1 (gep.versus).

    Example: ResNet20 with GEP's clips: the residuals' sum has to be 1500 long for its release to pay, 1300 with joint clipping.
        >>> from dptheory.embedding import least_residual_energy
        >>> found = least_residual_energy(dim=269_722, subspace_dim=1000, clip_norm=10.0, residual_clip=2.0, mu=1.0)
        >>> round(found.published**0.5), round(found.joint**0.5)
        (1503, 1309)
    """
    dim, k = dimensions(dim, subspace_dim)
    clip_norm, residual_clip = _validate.size("clip_norm", clip_norm), _validate.size("residual_clip", residual_clip)
    unit, ratio, q = (clip_norm / _validate.size("mu", mu)) ** 2, residual_clip / clip_norm, dim - k
    share = embedding_share(clip_norm, residual_clip)
    cross = 2 * ratio * math.sqrt(k) * math.sqrt(q)
    joint = (q - k) * ratio**2 + cross * math.sqrt((1 - ratio) * (1 + ratio)) if ratio**2 <= q / dim else q
    return SmallResidual(
        plain=q * unit,
        published=(k + 2 * dim * ratio**2) * unit,
        published_sum=(share * k + (1 + share) * dim * ratio**2) * unit,
        optimal=(cross + q * ratio**2) * unit,
        joint=max(0.0, joint) * unit,
    )


# --- What clipping takes away from the sums of embeddings and residuals


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
    w, r = pairs(embeddings, residuals)
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
    w, r = pairs(embeddings, residuals)
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


# --- Gradient embedding perturbation beside plain perturbation, of one release and at the same privacy


@dataclass(frozen=True, kw_only=True)
class ReleaseComparison:
    """The ways to release a sum of gradients at one privacy; biases of clipping come on top.

    Attributes:
        mu: privacy of everything that is released in a step.
        mse: squared error of the sum for each way.
        best_split: noise of the two releases where embedding and residual are clipped apart.
        joint_clip: the same where the gradient is clipped first.
        largest_residual_ratio: S2/S below which a way has less noise than plain perturbation.
        least_residual_energy: squared norm of the summed residual above which a way beats dropping it.
    """

    mu: float
    mse: GepMse
    best_split: SplitNoise
    joint_clip: SplitNoise
    largest_residual_ratio: LargestRatios
    least_residual_energy: SmallResidual


def compare_releases(
    *,
    dim: int,
    subspace_dim: int,
    clip_norm: float,
    residual_clip: float,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    residual_norm: float = 0.0,
) -> ReleaseComparison:
    r"""Error, noise and break-even points of gradient embedding perturbation beside plain perturbation.

    :func:`dptheory.embedding.gep_mse`, :func:`~dptheory.embedding.split_noise`, :func:`~dptheory.embedding.joint_clip`,
    :func:`~dptheory.embedding.largest_residual_ratio` and :func:`~dptheory.embedding.least_residual_energy` for one setting
    with S1 = S. The privacy is ``mu``, or the mu of one Gaussian release that is (epsilon, delta)-private.

    Args:
        dim: p, in 1..1e12.
        subspace_dim: k, in 0..p.
        clip_norm: S of the gradients, and of the embeddings, in [1e-70, 1e70].
        residual_clip: S2 in [1e-70, 1e70].
        mu: privacy of one release, in [1e-70, 1e70]; add-remove.
        epsilon: in place of ``mu``, with ``delta``; >= 0, with a mu in its range.
        delta: in place of ``mu``, with ``epsilon``; in (0, 1).
        residual_norm: \|r|, norm of the summed residual, which the embedding alone loses.

    Returns:
        The errors, the best split of the noise, the variant with joint clipping and the break-even points.

    Raises:
        ValueError: an argument outside its range; ``mu`` and one of ``epsilon`` and ``delta``, or neither mu nor both of them.

    Source: new, on GEP, section 3 (gep.versus, gep.split).

    Example: in GEP's setting the best split beats the published one, and both beat plain noise.
        >>> from dptheory.embedding import compare_releases
        >>> found = compare_releases(dim=270_000, subspace_dim=1000, clip_norm=10.0, residual_clip=2.0, mu=1.0)
        >>> found.mse.optimal < found.mse.published < found.mse.plain
        True
    """
    mu = _privacy(mu, epsilon, delta)
    clip_norm = _validate.size("clip_norm", clip_norm)
    residual_clip = _validate.size("residual_clip", residual_clip)
    return ReleaseComparison(
        mu=mu,
        mse=gep_mse(
            dim=dim,
            subspace_dim=subspace_dim,
            clip_norm=clip_norm,
            residual_clip=residual_clip,
            mu=mu,
            residual_norm=residual_norm,
        ),
        best_split=split_noise(
            dim=dim, subspace_dim=subspace_dim, embedding_clip=clip_norm, residual_clip=residual_clip, mu=mu
        ),
        joint_clip=joint_clip(
            dim=dim,
            subspace_dim=subspace_dim,
            clip_norm=clip_norm,
            residual_share=min(1.0, residual_clip / clip_norm),
            mu=mu,
        ),
        largest_residual_ratio=largest_residual_ratio(dim=dim, subspace_dim=subspace_dim),
        least_residual_energy=least_residual_energy(
            dim=dim, subspace_dim=subspace_dim, clip_norm=clip_norm, residual_clip=residual_clip, mu=mu
        ),
    )


def _privacy(mu: float | None, epsilon: float | None, delta: float | None) -> float:
    """``mu``, or the mu that (epsilon, delta) allows for."""
    if mu is not None and epsilon is None and delta is None:
        return _validate.size("mu", mu)
    if mu is not None or epsilon is None or delta is None:
        given = f"mu={mu!r}, epsilon={epsilon!r} and delta={delta!r}"
        raise ArgumentError("mu", "be given, or epsilon and delta in its place", mu, got=f"{given}")
    found = gaussian_mu(epsilon, delta)
    if not _validate.SMALLEST <= found <= _validate.LARGEST:
        raise ArgumentError(
            "epsilon and delta",
            f"allow for a mu in [{_validate.SMALLEST:g}, {_validate.LARGEST:g}]",
            epsilon,
            got=f"{epsilon!r} and {delta!r}: mu = {found:g}",
        )
    return found
