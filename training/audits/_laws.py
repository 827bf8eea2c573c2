"""What a mechanism's release must be, given the data of the step and what is public: a mean, and noise of a known law.

Written apart from the mechanisms, in double precision, from their statements. A law turns a release into scores, one for each
entry: independent and N(0, 1) if the mechanism does as it says, and NaN where it says that nothing is released. Of a release with few
values (a sign) draw the score within the probability of what was released: the inverse normal law of a uniform number there.
"""

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from dptheory.training.audits._board import Array, Step

LawOf = Callable[[Step, Array, float, float], "Law"]
"""From (a step, the gradients of its examples of shape (n, d), clip norm, noise multiplier) to the law of its release."""


class Law(abc.ABC):
    """The law of one release of d entries."""

    @abc.abstractmethod
    def scores(self, released: Array) -> Array:
        """Shape (d,): N(0, 1), or NaN."""

    @abc.abstractmethod
    def silent(self, released: Array) -> float:
        """Largest magnitude of what is released where nothing should be."""


@dataclass(frozen=True)
class Gaussian(Law):
    """Independent Gaussian noise on the coordinates along orthonormal axes.

    Attributes:
        mean: of the release, shape (d,).
        stds: of the noise on each coordinate; 0 where nothing is released, the mean neither.
        axes: orthonormal rows, shape (d, d); None for the entries themselves.
    """

    mean: Array
    stds: Array
    axes: Array | None = None

    def scores(self, released: Array) -> Array:
        return self.in_noise(released - self.mean)

    def in_noise(self, difference: Array) -> Array:
        """The coordinates of a difference of two releases in units of the noise; NaN where there is none."""
        along = self._along(difference)
        return np.divide(along, self.stds, out=np.full_like(along, np.nan), where=self.stds > 0)

    def silent(self, released: Array) -> float:
        return float(np.max(np.abs(self._along(released)[self.stds == 0]), initial=0.0))

    def _along(self, vector: Array) -> Array:
        return vector if self.axes is None else product(self.axes, vector)


@dataclass(frozen=True)
class LargestOfGroups(Law):
    """The ``keep`` largest magnitudes of every group of entries of a Gaussian release; the scores are those of the largest.

    The largest magnitude of a group is below x with probability prod_j (Phi((x - m_j)/s) - Phi((-x - m_j)/s)). Where it is x, at
    the place j, its sign is not that of m_j with probability 1 / (1 + exp(2 x abs(m_j) / s^2)): below exp(-30) it counts as refuted.
    """

    mean: Array
    std: float
    size: int
    keep: int

    def scores(self, released: Array) -> Array:
        found = np.full(released.size, np.nan)
        groups = np.abs(released).reshape(-1, self.size)
        means = self.mean.reshape(-1, self.size)
        top = groups.max(1, keepdims=True)
        each = stats.norm.cdf((top - means) / self.std) - stats.norm.cdf((-top - means) / self.std)
        there = groups.argmax(1) + np.arange(0, released.size, self.size)
        turned = -2 * released[there] * self.mean[there] / self.std**2 > 30
        chances = np.where(turned, 0.0, np.prod(each, axis=1))
        found[:: self.size] = stats.norm.ppf(np.clip(chances, np.finfo(float).tiny, 1 - np.finfo(float).epsneg))
        return found

    def silent(self, released: Array) -> float:
        """How many entries too many the fullest group has."""
        return float(max(0, int((released != 0).reshape(-1, self.size).sum(1).max()) - self.keep))


def product(left: Array, right: Array) -> Array:
    """Of matrices, by torch: NumPy's on many processors wait for each other longer than one of them takes."""
    return np.asarray(
        (torch.from_numpy(np.ascontiguousarray(left)) @ torch.from_numpy(np.ascontiguousarray(right))).numpy()
    )


def clipped(rows: Array, clip_norm: float) -> Array:
    """Every row shortened to norm C where it is longer."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, clip_norm / np.maximum(norms, np.finfo(float).tiny)))


def whole(step: Step, rows: Array, clip_norm: float, noise_multiplier: float) -> Law:
    """Clipped sum and noise on every trained entry."""
    return Gaussian(clipped(rows * step.trained, clip_norm).sum(0), noise_multiplier * clip_norm * step.trained)


def masked_then_clipped(step: Step, rows: Array, clip_norm: float, noise_multiplier: float) -> Law:
    """Random and ranked sparsification: the sum of clip(mask * gradient), and noise, on the entries kept."""
    return Gaussian(clipped(rows * step.kept, clip_norm).sum(0), noise_multiplier * clip_norm * step.kept)


def clipped_then_masked(step: Step, rows: Array, clip_norm: float, noise_multiplier: float) -> Law:
    """Posterior freeze, and choices that do not look at the noise: mask * (sum of clip(gradient) + noise)."""
    return Gaussian(step.kept * clipped(rows, clip_norm).sum(0), noise_multiplier * clip_norm * step.kept)


def clipped_by_layer(rows: Array, clips: Array, sizes: Sequence[int]) -> Array:
    """Every row shortened layer by layer."""
    layers = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    return np.hstack([clipped(layer, clip) for layer, clip in zip(layers, clips, strict=True)])


def by_layer(sizes: Sequence[int], shares: Sequence[float], masked: bool = False) -> LawOf:
    """Clips of the layers whose squares are shares of that of the clip, of gradients that a mask may have come before.

    What frozen layers had goes to the others.
    """

    def law(step: Step, rows: Array, clip_norm: float, noise_multiplier: float) -> Law:
        there = np.array([layer.any() for layer in np.split(step.trained, np.cumsum(sizes)[:-1])])
        squares = np.asarray(shares) * there
        left = step.kept if masked else step.trained
        total = clipped_by_layer(rows * left, clip_norm * np.sqrt(squares / squares.sum()), sizes).sum(0)
        return Gaussian(total, noise_multiplier * clip_norm * left)

    return law


def automatic(gamma: float) -> LawOf:
    """Each gradient over its own norm and gamma, times the clip."""

    def law(step: Step, rows: Array, clip_norm: float, noise_multiplier: float) -> Law:
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return Gaussian((clip_norm * rows / (norms + gamma)).sum(0), noise_multiplier * clip_norm * step.trained)

    return law


def at_its_clip(inner: LawOf, share: float) -> LawOf:
    """Another law at the clip of the step, with the noise that is left for the sum beside a count of this share of the budget."""

    def law(step: Step, rows: Array, clip_norm: float, noise_multiplier: float) -> Law:
        return inner(step, rows, step.moving_clips()[0], noise_multiplier / math.sqrt(1 - share))

    return law


def largest_released(size: int, keep: int) -> LawOf:
    """The largest entries of every group of DP-SGD's release."""

    def law(step: Step, rows: Array, clip_norm: float, noise_multiplier: float) -> Law:
        return LargestOfGroups(clipped(rows, clip_norm).sum(0), noise_multiplier * clip_norm, size, keep)

    return law


def embedded(
    sizes: Sequence[int],
    dims: Sequence[int],
    parts: Callable[[Array, Array, float], tuple[Array, Array]],
    stds: Callable[[float, float], tuple[float, float]],
) -> LawOf:
    """Gradient embedding perturbation with a basis for each tensor.

    Args:
        parts: from the gradients within and off the subspace and C to the two clipped contributions, each of shape (n, d).
        stds: from (noise multiplier, clip norm) to the standard deviations of what is released within the subspace and off it.
    """

    def law(step: Step, rows: Array, clip_norm: float, noise_multiplier: float) -> Law:
        basis = _block_diagonal(step.bases, sizes, dims)
        within_it = product(product(rows, basis.T), basis)
        inside, outside = parts(within_it, rows - within_it, clip_norm)
        axes, within = _frame(basis, sizes, dims)
        std, rest_std = stds(noise_multiplier, clip_norm)
        return Gaussian((inside + outside).sum(0), np.where(within, std, rest_std), axes)

    return law


def _block_diagonal(flat: Array, sizes: Sequence[int], dims: Sequence[int]) -> Array:
    blocks = np.split(flat, np.cumsum([k * p for k, p in zip(dims, sizes, strict=True)])[:-1])
    found, row, column = np.zeros((sum(dims), sum(sizes))), 0, 0
    for block, k, p in zip(blocks, dims, sizes, strict=True):
        found[row : row + k, column : column + p] = block.reshape(k, p)
        row, column = row + k, column + p
    return found


def _frame(basis: Array, sizes: Sequence[int], dims: Sequence[int]) -> tuple[Array, NDArray[np.bool_]]:
    """Orthonormal axes of all entries, tensor by tensor: its basis vectors first, then others; and which are the first."""
    axes, within, row, column = np.zeros((sum(sizes), sum(sizes))), np.zeros(sum(sizes), dtype=bool), 0, 0
    for k, p in zip(dims, sizes, strict=True):
        own = slice(column, column + p)
        rotated, _ = torch.linalg.qr(torch.from_numpy(basis[row : row + k, own].T.copy()), mode="complete")
        axes[own, own] = rotated.T.numpy()
        within[column : column + k] = True
        row, column = row + k, column + p
    return axes, within
