"""One release of gradient embedding perturbation, simulated step by step for the checks: basis, projection, clipping, noise."""

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dptheory import embedding

Array = NDArray[np.float64]
Way = Literal["plain", "embedding_only", "published", "published_sum", "optimal", "joint"]

DIM, SUBSPACE = 12, 3
EXAMPLES = 5


@functools.cache
def basis(dim: int = DIM, subspace_dim: int = SUBSPACE) -> Array:
    """B: orthonormal rows that are no coordinate axes."""
    return np.asarray(np.linalg.qr(np.random.default_rng(5).standard_normal((dim, subspace_dim)))[0].T)


@functools.cache
def gradients() -> Array:
    """G, shape (n, p): most of each row in the subspace, rows of different length, all leaning to one side."""
    rng = np.random.default_rng(6)
    inside = (rng.standard_normal((EXAMPLES, SUBSPACE)) + 1.5) @ basis()
    outside = 0.4 * (rng.standard_normal((EXAMPLES, DIM)) + 0.7)
    return np.asarray((inside + outside) * np.array([0.3, 0.7, 1.0, 1.4, 2.0])[:, None])


def embeddings() -> Array:
    """W = G B^T."""
    return np.asarray(gradients() @ basis().T)


def residuals() -> Array:
    """R = G - W B in the coordinates of :func:`complement`, shape (n, q)."""
    return np.asarray(gradients() @ complement().T)


@functools.cache
def complement(dim: int = DIM, subspace_dim: int = SUBSPACE) -> Array:
    """Orthonormal rows that span the space off span(B), shape (q, p)."""
    whole = np.linalg.qr(np.vstack([basis(dim, subspace_dim), np.eye(dim)]).T)[0].T
    return np.asarray(whole[subspace_dim:dim])


def _clip(rows: Array, bound: float) -> Array:
    return np.asarray(rows * np.minimum(1.0, bound / np.linalg.norm(rows, axis=1, keepdims=True)))


def _noise(rng: np.random.Generator, count: int, first: float, second: float, projected: bool) -> Array:
    """z1 B + z2, the latter projected off span(B) or not."""
    b = basis()
    z2 = second * rng.standard_normal((count, DIM))
    if projected:
        z2 -= (z2 @ b.T) @ b
    return np.asarray(first * rng.standard_normal((count, SUBSPACE)) @ b + z2)


def mu_of_sum(first: float, second: float, embedding_std: float, residual_std: float) -> float:
    """mu of z1 B + z2 plus what one example adds, S1 along B and S2 off it: a Mahalanobis norm, from the covariance in R^p."""
    b, off = basis(), complement()
    covariance = embedding_std**2 * b.T @ b + residual_std**2 * np.eye(DIM)
    moved = first * b[0] + second * off[0]
    return float(np.sqrt(moved @ np.linalg.solve(covariance, moved)))


def _sum_ratio(first: float, second: float, mu: float) -> float:
    """sigma_i / S_i at which the sum is mu-GDP: mu of the sum is inversely proportional to it."""
    return mu_of_sum(first, second, first, second) / mu


@dataclass(frozen=True)
class Release:
    """Draws of the released sum of the gradients above, minus their true sum, shape (count, p)."""

    way: Way
    clip: float
    residual_clip: float
    mu: float

    def errors(self, rng: np.random.Generator, count: int) -> Array:
        g, b, mu = gradients(), basis(), self.mu
        if self.way == "plain":
            noise = self.clip / mu * rng.standard_normal((count, DIM))
            return np.asarray(_clip(g, self.clip).sum(axis=0) + noise - g.sum(axis=0))
        source = _clip(g, self.clip) if self.way == "joint" else g
        w = source @ b.T
        kept = _clip(w, self.clip).sum(axis=0) @ b
        if self.way == "embedding_only":
            return np.asarray(kept + _noise(rng, count, self.clip / mu, 0.0, True) - g.sum(axis=0))
        kept = kept + _clip(source - w @ b, self.residual_clip).sum(axis=0)
        if self.way in ("published", "published_sum"):
            ratio = 2**0.5 / mu if self.way == "published" else _sum_ratio(self.clip, self.residual_clip, mu)
            noise = _noise(rng, count, ratio * self.clip, ratio * self.residual_clip, False)
        else:
            noise = _noise(rng, count, *self._stds(), True)
        return np.asarray(kept + noise - g.sum(axis=0))

    def _stds(self) -> tuple[float, float]:
        if self.way == "optimal":
            split = embedding.split_noise(
                dim=DIM, subspace_dim=SUBSPACE, embedding_clip=self.clip, residual_clip=self.residual_clip, mu=self.mu
            )
        else:
            split = embedding.joint_clip(
                dim=DIM,
                subspace_dim=SUBSPACE,
                clip_norm=self.clip,
                residual_share=self.residual_clip / self.clip,
                mu=self.mu,
            )
        return split.embedding_std, split.residual_std


@dataclass(frozen=True)
class SquaredError(Release):
    """Squared norm of the error."""

    def __call__(self, rng: np.random.Generator, count: int) -> Array:
        return np.asarray(np.square(self.errors(rng, count)).sum(axis=1))


@dataclass(frozen=True)
class EntrySum(Release):
    """Sum of the entries of the released sum."""

    def __call__(self, rng: np.random.Generator, count: int) -> Array:
        return np.asarray(self.errors(rng, count).sum(axis=1) + gradients().sum())


@dataclass(frozen=True)
class NoiseEnergy:
    """Squared norm of z1 B + P z2."""

    embedding_std: float
    residual_std: float

    def __call__(self, rng: np.random.Generator, count: int) -> Array:
        return np.asarray(np.square(_noise(rng, count, self.embedding_std, self.residual_std, True)).sum(axis=1))
