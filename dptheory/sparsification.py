"""Random sparsification of clipped gradients: kappa, the share of the descent that a random mask keeps.

Notation: w = gradient, C = clip, r = rate, x = 1 - r, m a uniformly random mask with x d ones, xi = deviation of one example's
gradient from w; P = P(|xi| < z C), P'_m = P(|m*xi| < z C), c = (1 - z) C, f(X) = min(X, c sqrt X), which is
min(|v|, c) |v| at X = |v|^2. The random-sparsification paper has z = 3/4, random freeze z = 1/4.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc
from scipy.stats import hypergeom

from dptheory import _validate
from dptheory import masks as _masks
from dptheory.masks import NormBounds, expected_masked_inner, kept_entries, mask_norm_bounds
from dptheory.tradeoff import (
    TunedBound,
    least_kappa,
    least_kappa_tuned,
    optimal_rate,
    optimal_rate_flat,
    tradeoff,
    tuned_bound,
)

__all__ = [
    "BestRate",
    "Kappa",
    "NormBounds",
    "TunedBound",
    "best_rate",
    "expected_masked_inner",
    "kappa",
    "kept_entries",
    "least_kappa",
    "least_kappa_tuned",
    "mask_norm_bounds",
    "optimal_rate",
    "optimal_rate_flat",
    "tradeoff",
    "tuned_bound",
]

Array = NDArray[np.float64]

_BLOCK = 2**22
_RATES = 48
_LOG_LARGEST = 709.0


@dataclass(frozen=True)
class Kappa:
    """kappa at one gradient, and what it is made of.

    Attributes:
        value: kappa = E_m[P'_m f(|m*w|^2)] / (P f(|w|^2)); inf where it exceeds the largest float.
        standard_error: of ``value``; 0 where no mask was drawn at random.
        norm_ratio: R = E_m f(|m*w|^2) / f(|w|^2), kappa without deviation.
        probability: P.
        lower: x, no kappa of this rate is smaller.
        upper: min(x max(1, |w| / c), sqrt x) / P, no kappa of this rate, |w| and P is larger.
    """

    value: float
    standard_error: float
    norm_ratio: float
    probability: float
    lower: float
    upper: float

    @property
    def condition(self) -> bool:
        """P >= sqrt(x), which makes ``upper`` at most 1; the paper asks for it."""
        return self.probability >= math.sqrt(self.lower)


@dataclass(frozen=True)
class BestRate:
    """The rate with the smallest bound among those tried, that bound, and kappa there."""

    rate: float
    bound: float
    kappa: Kappa


def kappa(
    gradient: ArrayLike,
    clip: float,
    rate: float,
    deviation: ArrayLike = 0.0,
    *,
    z: float = 0.75,
    masks: int = 2000,
    seed: int = 0,
) -> Kappa:
    r"""kappa = E_m[P'_m f(|m*w|^2)] / (P f(|w|^2)), in [1 - r, 1] where P >= sqrt(1 - r).

    Isotropic Gaussian deviation: the ratio of two chi-square distribution functions times R. R is exact for |w| <= c (then
    it is x), for gradients whose entries that are not zero have one size (hypergeometric: flat and one-hot among them), and
    where there are at most ``masks`` masks; elsewhere ``masks`` of them are drawn, with |m*w|^2 as control variate.

    Args:
        gradient: w, shape (d,), finite and not zero.
        clip: C, > 0.
        rate: r in [0, 1) with (1 - r) d whole.
        deviation: a number s >= 0 for xi ~ N(0, s^2 I), or an array (n, d) whose rows are equally likely values of xi
            (the examples' gradients less w).
        z: share of C left to the deviation, in (0, 1).
        masks: number of masks drawn, >= 100.
        seed: of the draw.

    Raises:
        ValueError: an argument outside its range; a zero gradient, or P = 0, where kappa is undefined.

    Source: RS, Lemma 3.3 (rs.lem3.3, rs.kappa).
    """
    w = _masks.vector("gradient", gradient)
    clip = _validate.real("clip", clip, 0.0, ends="()")
    keep = kept_entries(w.size, rate)
    z = _validate.real("z", z, 0.0, 1.0, ends="()")
    masks = _validate.integer("masks", masks, 100)
    size = _masks.norm(w)
    if size == 0.0:
        raise ValueError("gradient must not be zero, where kappa is undefined, got zeros only")
    scale = max(1.0, size / ((1.0 - z) * clip))
    draw = _Draw(np.square(w / size), keep, scale, masks, seed)
    xi = _validate.finite("deviation", deviation)
    if xi.ndim == 0:
        spread = _validate.real("deviation", float(xi), 0.0, ends="[)")
        probability, gain = _gaussian_gain(w.size, keep, spread / (z * clip))
        ratio, error = draw.norm_ratio()
        value, error = ratio * gain, error * gain if error else 0.0
    else:
        if xi.ndim != 2 or xi.shape[1] != w.size or len(xi) == 0:
            raise ValueError(f"deviation must be a number or an array of shape (n, {w.size}), got shape {xi.shape}")
        squares = np.square(xi / (z * clip))
        probability = float((squares.sum(axis=1) < 1.0).mean())
        if probability == 0.0:
            raise ValueError(
                f"deviation must have a row shorter than z * clip, kappa is undefined, got none of {len(xi)}"
            )
        ratio, value, error = draw.with_rows(squares, probability)
    x = keep / w.size
    highest = min(x * scale, math.sqrt(x))
    return Kappa(value, error, ratio, probability, x, highest / probability if probability > 0.0 else math.inf)


def best_rate(
    gradient: ArrayLike,
    clip: float,
    delta_c: float,
    noise_term: float,
    deviation: ArrayLike = 0.0,
    *,
    z: float = 0.75,
) -> BestRate:
    r"""The rate with the least U(r), with the exact kappa of the gradient; of about 50 rates up to that which keeps one entry.

    All rates are tried for d <= 20; above, their number of entries kept is spread evenly on a logarithmic scale.

    Args:
        gradient, clip, deviation, z: as in :func:`kappa`.
        delta_c, noise_term: as in :func:`tradeoff`.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Appendix G, with the exact kappa (rs.appG).
    """
    dim = _masks.vector("gradient", gradient).size
    keeps = np.unique(np.rint(np.concatenate([np.geomspace(1, dim, _RATES), np.arange(1, min(dim, 20) + 1)])))
    tried = []
    for keep in keeps[::-1]:
        rate = 1.0 - float(keep) / dim
        found = kappa(gradient, clip, rate, deviation, z=z)
        bound = tradeoff(rate, delta_c, noise_term, found.value) if math.isfinite(found.value) else 0.0
        tried.append(BestRate(rate, bound, found))
    return min(tried, key=lambda one: one.bound)


@dataclass(frozen=True)
class _Draw:
    """Masks of one gradient: ``shares`` = w_j^2 / |w|^2, ``scale`` = max(1, |w| / c)."""

    shares: Array
    keep: int
    scale: float
    masks: int
    seed: int

    def norm_ratio(self) -> tuple[float, float]:
        """R and its standard error."""
        dim, present = self.shares.size, self.shares[self.shares > 0.0]
        if self.scale == 1.0 or self.keep == dim:
            return self.keep / dim, 0.0
        if np.ptp(present) <= 1e-12 * present.max():
            count = present.size
            hits = np.arange(max(0, self.keep - dim + count), min(count, self.keep) + 1)
            law = hypergeom.pmf(hits, dim, count, self.keep)
            return float(law @ self._kept(hits / count) / law.sum()), 0.0
        shares = np.concatenate([block @ self.shares for block in self._blocks()])
        return self._mean(self._kept(shares), shares)

    def with_rows(self, squares: Array, probability: float) -> tuple[float, float, float]:
        """R, kappa and its standard error; ``squares`` = (xi / zC)^2, one example a row."""
        if self.keep == self.shares.size:
            return 1.0, 1.0, 0.0
        found = [(block @ self.shares, (block @ squares.T < 1.0).mean(axis=1)) for block in self._blocks()]
        shares, below = (np.concatenate(column) for column in zip(*found, strict=True))
        kept = self._kept(shares)
        value, error = self._mean(kept * below / probability, shares)
        return self._mean(kept, shares)[0], value, error

    def _kept(self, share: Array) -> Array:
        """f(|m*w|^2) / f(|w|^2) for |m*w|^2 = share |w|^2."""
        return np.asarray(np.minimum(share * self.scale, np.sqrt(share)))

    @property
    def _complete(self) -> bool:
        """There are no more masks than would be drawn."""
        dim = self.shares.size
        rough = math.lgamma(dim + 1) - math.lgamma(self.keep + 1) - math.lgamma(dim - self.keep + 1)
        return rough < math.log(self.masks) + 1.0 and math.comb(dim, self.keep) <= self.masks

    def _blocks(self) -> Iterator[Array]:
        """All masks, or ``masks`` random ones, in blocks of bounded memory."""
        dim = self.shares.size
        if self._complete:
            yield _masks.all_masks(dim, self.keep)
            return
        rng = np.random.default_rng(self.seed)
        step = max(1, _BLOCK // dim)
        for start in range(0, self.masks, step):
            yield _masks.random_masks(rng, min(step, self.masks - start), dim, self.keep)

    def _mean(self, values: Array, shares: Array) -> tuple[float, float]:
        """Mean of ``values`` over the masks and its standard error; E[shares] = x is known."""
        if self._complete:
            return float(values.mean()), 0.0
        centred = shares - shares.mean()
        variance = float(centred @ centred)
        slope = float(centred @ values) / variance if variance > 0.0 else 0.0
        mean = float(values.mean()) - slope * (float(shares.mean()) - self.keep / self.shares.size)
        residual = values - values.mean() - slope * centred
        return mean, math.sqrt(float(residual @ residual) / (values.size - 2) / values.size)


def _gaussian_gain(dim: int, keep: int, spread: float) -> tuple[float, float]:
    """P and P' / P for xi ~ N(0, spread^2 I) and threshold 1."""
    if spread == 0.0:
        return 1.0, 1.0
    half = 0.5 / spread / spread
    if math.isinf(half):
        return 1.0, 1.0
    log_gain = _log_gammainc(keep / 2, half) - _log_gammainc(dim / 2, half)
    return float(gammainc(dim / 2, half)), math.exp(log_gain) if log_gain < _LOG_LARGEST else math.inf


def _log_gammainc(shape: float, point: float) -> float:
    """Logarithm of the regularised lower incomplete gamma function; its power series where that underflows."""
    value = float(gammainc(shape, point))
    if value > 1e-290:
        return math.log(value)
    terms = 50 + math.ceil(40.0 / (1.0 - point / (shape + 1.0)))
    series = 1.0 + float(np.cumprod(point / (shape + np.arange(1.0, terms))).sum())
    if shape < 20.0:
        peak = shape * math.log(point) - point - math.lgamma(shape + 1.0)
    else:  # Stirling: the large parts of the three terms cancel
        excess = (point - shape) / shape
        rest = 1.0 / (12.0 * shape) - 1.0 / (360.0 * shape**3) + 1.0 / (1260.0 * shape**5)
        log_ratio = math.log1p(excess) if excess > -0.5 else math.log(point / shape)
        peak = shape * (log_ratio - excess) - 0.5 * math.log(2.0 * math.pi * shape) - rest
    return peak + math.log(series)
