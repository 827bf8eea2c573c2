r"""How much noise the embedding and the residual get, for a given privacy of the pair.

Notation: p = dim, k = subspace_dim, q = p - k, B a k x p matrix with orthonormal rows that does not depend on the private
data, w_i = B G_i the embedding and r_i = G_i - B^T w_i the residual of gradient G_i. What is released is the pair of
sum of clipped w_i + N(0, s1^2 I_k) and sum of clipped r_i + N(0, s2^2 P), P the projection off span(B): the residuals lie in
a space of dimension q, so noise inside span(B) would protect nothing.

Privacy is mu-GDP (Gaussian differential privacy) under add-remove of one example; under replace-one, mu doubles.
"""

import math
from dataclasses import dataclass

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class SplitNoise:
    """Noise of the two releases.

    Attributes:
        embedding_std: s1, standard deviation on each of the k coordinates of the embedding; 0 where k = 0.
        residual_std: s2, standard deviation in each of the q directions outside the subspace; 0 where nothing is released there.
        energy: k s1^2 + q s2^2, the mean squared norm of the noise on the reconstructed sum of gradients.
    """

    embedding_std: float
    residual_std: float
    energy: float


def split_noise(*, dim: int, subspace_dim: int, embedding_clip: float, residual_clip: float, mu: float) -> SplitNoise:
    r"""Least noise for an embedding clipped to S1 and a residual clipped to S2, both at once mu-GDP.

    Minimises k s1^2 + q s2^2 under S1^2/s1^2 + S2^2/s2^2 = mu^2. With H = sqrt(k) S1 + sqrt(q) S2:
    s1^2 = S1 H / (sqrt(k) mu^2), s2^2 = S2 H / (sqrt(q) mu^2), energy H^2 / mu^2. No Gaussian noise does with less energy.

    Args:
        dim: p, in 1..1e12.
        subspace_dim: k, in 0..p.
        embedding_clip: S1, 0 or in [1e-70, 1e70]; 0 says that no embedding is released.
        residual_clip: S2, likewise; it may exceed S1.
        mu: privacy of the pair, in [1e-70, 1e70]; add-remove.

    Returns:
        The standard deviations of both noises, and their energy.

    Source: new, on GEP, Theorem 3.1 (gep.split).

    Example: by hand: both parts of two entries, clipped alike: H = 2 sqrt(2), so that the energy is 8.
        >>> from dptheory.embedding import split_noise
        >>> found = split_noise(dim=4, subspace_dim=2, embedding_clip=1.0, residual_clip=1.0, mu=1.0)
        >>> round(found.embedding_std, 4), round(found.residual_std, 4), round(found.energy, 4)
        (1.4142, 1.4142, 8.0)
    """
    dim, subspace_dim = dimensions(dim, subspace_dim)
    embedding_clip, residual_clip = (
        _validate.size("embedding_clip", embedding_clip, zero=True),
        _validate.size("residual_clip", residual_clip, zero=True),
    )
    mu = _validate.size("mu", mu)
    return _least(dim, subspace_dim, embedding_clip, residual_clip, mu)


def joint_clip(*, dim: int, subspace_dim: int, clip_norm: float, residual_share: float, mu: float) -> SplitNoise:
    r"""Least noise where each gradient is clipped to S first and its residual to r S afterwards.

    Embedding a and residual b of one example then obey a^2 + b^2 <= S^2 and b <= r S. Minimises k s1^2 + q s2^2 under
    max (a^2/s1^2 + b^2/s2^2) = mu^2. Energy (sqrt(k (1 - r^2)) + sqrt(q) r)^2 S^2/mu^2 if r^2 <= q/p, else p S^2/mu^2 with
    s1 = s2 = S/mu: never above that of plain Gaussian perturbation, p S^2/mu^2, and below it if and only if r^2 < q/p.

    Args:
        dim: p, in 1..1e12.
        subspace_dim: k, in 0..p.
        clip_norm: S, in [1e-70, 1e70].
        residual_share: r in [0, 1]; above 1 the second clipping would do nothing.
        mu: privacy of the pair, in [1e-70, 1e70]; add-remove.

    Returns:
        The standard deviations of both noises, and their energy.

    Source: new, on GEP, Algorithm 1 (gep.joint_clip).

    Example: ResNet20: with the residual clipped to S / 5 the noise has a fifteenth of the energy p S^2 / mu^2.
        >>> from dptheory.embedding import joint_clip
        >>> found = joint_clip(dim=269_722, subspace_dim=1000, clip_norm=10.0, residual_share=0.2, mu=1.0)
        >>> round(found.energy / (269_722 * 10.0**2), 3)
        0.067
    """
    dim, subspace_dim = dimensions(dim, subspace_dim)
    clip_norm, mu = _validate.size("clip_norm", clip_norm), _validate.size("mu", mu)
    share = _validate.real("residual_share", residual_share, 0.0, 1.0)
    if share**2 <= (dim - subspace_dim) / dim:
        return _least(dim, subspace_dim, math.sqrt((1 - share) * (1 + share)) * clip_norm, share * clip_norm, mu)
    std = clip_norm / mu
    return SplitNoise(embedding_std=std, residual_std=std if subspace_dim < dim else 0.0, energy=dim * std**2)


def _least(dim: int, subspace_dim: int, embedding_clip: float, residual_clip: float, mu: float) -> SplitNoise:
    roots = math.sqrt(subspace_dim), math.sqrt(dim - subspace_dim)
    total = roots[0] * embedding_clip + roots[1] * residual_clip
    first, second = (
        math.sqrt(clip) * math.sqrt(total / root) / mu if root else 0.0
        for clip, root in zip((embedding_clip, residual_clip), roots, strict=True)
    )
    return SplitNoise(embedding_std=first, residual_std=second, energy=(total / mu) ** 2)


# --- Checked arguments that the embedding calculators share: dimensions, clips, pairs of matrices


_MAX_DIM = 10**12
_LARGEST = 1e70


def dimensions(dim: int, subspace_dim: int) -> tuple[int, int]:
    """``dim`` and ``subspace_dim`` if 1 <= dim <= 1e12 and 0 <= subspace_dim <= dim."""
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    return dim, _validate.integer("subspace_dim", subspace_dim, 0, dim)


def embedding_share(embedding_clip: float, residual_clip: float) -> float:
    """a = S1^2 / (S1^2 + S2^2); 0 where nothing is released of the embedding."""
    return (embedding_clip / math.hypot(embedding_clip, residual_clip)) ** 2 if embedding_clip else 0.0


def pairs(embeddings: ArrayLike, residuals: ArrayLike) -> tuple[Array, Array]:
    """Both as arrays of n rows whose squares do not overflow."""
    found = []
    for name, value in (("embeddings", embeddings), ("residuals", residuals)):
        array = _validate.finite(name, value)
        if array.ndim != 2 or np.abs(array).max(initial=0.0) > _LARGEST:
            allowed = f"shape (n, ...) and entries of at most {_LARGEST:g}"
            raise ArgumentError(name, f"have {allowed}", value)
        found.append(array)
    w, r = found
    if len(w) != len(r):
        raise ArgumentError(
            "residuals", "have as many rows as embeddings", residuals, got=f"shapes {r.shape} and {w.shape}"
        )
    if w.shape[1] + r.shape[1] == 0:
        raise ArgumentError("embeddings", "have a column where residuals have none", embeddings, got=f"shape {w.shape}")
    return w, r
