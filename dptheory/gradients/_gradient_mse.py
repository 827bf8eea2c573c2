"""Mean squared error of the gradient that DP-SGD releases: unclipped (Theorem 1 of RF), and clipped, masked and noised.

Notation: d = dim, n = number of examples, x = 1 - drop_rate, k = x d = entries kept, C = clip_norm, s = deviation (standard
deviation of one entry of one example's gradient), sigma = noise multiplier, B = batch size, w the true gradient, w' = m * w.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.gradients._clipping import gaussian_clip_moments
from dptheory.gradients._joined import Levels, joined
from dptheory.gradients._masks import kept_entries
from dptheory.gradients._quadratic_form import QuadraticForm

Method = Literal["exact", "welch-satterthwaite"]

_MAX_DIM = 10**12
_MAX_DRAWS = 10**9
_MAX_BATCH = 10**12
_NOTHING = 1e-30  # smaller shares of the largest eigenvalue change no digit
_MOST_DIFFERENT, _FEWEST_CELLS, _JOINED = 2000, 700, 1e-7
_METHODS = ("exact", "welch-satterthwaite")
_TARGETS = np.array([24.0, 3.0, 0.05])
_GRID = 17
_GAUSS = np.polynomial.legendre.leggauss(16)


def mse_lower_bound(*, trace: float, dim: int, noise_multiplier: float) -> float:
    r"""Theorem 1: the noised, unclipped gradient has an error of at least :math:`\mathrm{Tr}\Sigma (1 + d \sigma^2)`.

    The exact error at w = 0 is :func:`stationary_mse`.

    Args:
        trace: trace of the covariance of one example's gradient, in [0, 1e70].
        dim: number of entries d, 1..1e12.
        noise_multiplier: noise multiplier, in [0, 1e70].

    Returns:
        The bound, in units of the trace.

    Source: RF, Theorem 1, equations 2, 26 and 27 (rf.thm1, rf.eq26-27).

    Example: the noise on the 550,000 entries of RF's CNN multiplies the error of a single example by more than a million.
        >>> from dptheory.gradients import mse_lower_bound
        >>> round(mse_lower_bound(trace=1.0, dim=550_000, noise_multiplier=1.54))
        1304381
    """
    trace = _validate.real("trace", trace, 0.0, _validate.LARGEST)
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    noise_multiplier = _validate.real("noise_multiplier", noise_multiplier, 0.0, _validate.LARGEST)
    return trace * (1.0 + dim * noise_multiplier**2)


def stationary_mse(eigenvalues: ArrayLike, *, n: int, noise_multiplier: float) -> float:
    r"""Exact error of the noised, unclipped gradient at w = 0: :math:`\mathrm{Tr}\Sigma + d\sigma^2 E\max_{i\le n}|\xi_i|^2`.

    For w != 0 it is a lower bound. The noise follows the largest norm among n examples, so this mechanism alone is not
    differentially private.

    Args:
        eigenvalues: of the covariance, in [0, 1e70], not all zero, shape (d,).
        n: number of examples that the maximum is over, 1..1e9.
        noise_multiplier: noise multiplier, in [0, 1e70].

    Returns:
        The error, in units of the eigenvalues.

    Source: RF, Theorem 1, equations 11 to 17 (rf.thm1).

    Example: by hand: 1 of the example itself, and 1 + 2 / pi of noise as large as the longer of two examples.
        >>> from dptheory.gradients import stationary_mse
        >>> round(stationary_mse([1.0], n=2, noise_multiplier=1.0), 6)
        2.63662
    """
    eigenvalues = _spectrum(eigenvalues)
    noise_multiplier = _validate.real("noise_multiplier", noise_multiplier, 0.0, _validate.LARGEST)
    largest = expected_max_quadratic_form(eigenvalues, n)
    return float(eigenvalues.sum()) + eigenvalues.size * noise_multiplier**2 * largest


def expected_max_quadratic_form(eigenvalues: ArrayLike, n: int, *, method: Method = "exact") -> float:
    r"""E max of n independent draws of :math:`\sum_j \lambda_j z_j^2`, z_j standard normal.

    .. math:: E = \int_0^\infty 1 - F(x)^n\, dx

    F is the law of the form by contour integration, or with ``method="welch-satterthwaite"`` that of the Gamma variable with the
    same mean and variance, whose skewness is too small. Equal eigenvalues are grouped. Of more than 2,000 different ones near ones
    are joined, to a lower and to an upper bound that differ by less than 1e-7 of the mean; it lies half-way.

    Args:
        eigenvalues: in [0, 1e70], the largest at least 1e-70, shape (d,).
        n: number of draws, 1..1e9.
        method: "exact" (relative error under 1e-7) or "welch-satterthwaite".

    Returns:
        The mean, in units of the eigenvalues.

    Source: RF, Appendix A, equations 15 to 24 (rf.thm1, rf.eq19, rf.eq24).

    Example: by hand: the larger of two squared normal numbers is 1 + 2 / pi on average.
        >>> from dptheory.gradients import expected_max_quadratic_form
        >>> round(expected_max_quadratic_form([1.0], 2), 6)
        1.63662
    """
    eigenvalues = _spectrum(eigenvalues)
    n = _validate.integer("n", n, 1, _MAX_DRAWS)
    _validate.choice("method", method, _METHODS)
    if n == 1:
        return float(eigenvalues.sum())
    scale = float(eigenvalues.max())
    weights, counts = np.unique(eigenvalues[eigenvalues > _NOTHING * scale] / scale, return_counts=True)
    if method == "welch-satterthwaite":
        # Gamma(k, rate) as a single term p chi2_m: p = sum l^2 / sum l, m = (sum l)^2 / sum l^2
        first, second = float(weights @ counts), float(weights**2 @ counts)
        return scale * _expected_max(np.array([second / first]), np.array([first**2 / second]), n)
    cells = _FEWEST_CELLS
    while weights.size > max(_MOST_DIFFERENT, 2 * cells):
        lower, upper = (_expected_max(*levels, n) for levels in joined(Levels(weights, counts), cells))
        if upper - lower <= _JOINED * upper:
            return scale * (lower + upper) / 2
        cells *= 2
    return scale * _expected_max(weights, counts, n)


@dataclass(frozen=True, kw_only=True)
class GradientError:
    """How far a released gradient is from the true one, and what a step along it is worth.

    Attributes:
        signal_loss: E|w - g|^2 of the clipped (and masked) batch mean without noise.
        noise: E|noise|^2 of the entries that receive it.
        alignment: E<w, g>.
        second_moment: E|g|^2, noise included.
        clip_probability: chance that one example's (masked) gradient is clipped.
    """

    signal_loss: float
    noise: float
    alignment: float
    second_moment: float
    clip_probability: float

    @property
    def mse(self) -> float:
        """Error with noise: signal loss plus noise."""
        return self.signal_loss + self.noise

    @property
    def descent_ratio(self) -> float:
        """(E<w, g>)^2 / E|g|^2: on a G-smooth loss the best learning rate is sure of a decrease of this over 2 G."""
        return self.alignment**2 / self.second_moment if self.second_moment > 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class MseBreakdown:
    """DP-SGD beside random freeze. A smaller error is no reason to mask: compare the descent ratios.

    Attributes:
        full: the error of DP-SGD.
        masked: that of random freeze.
    """

    full: GradientError
    masked: GradientError

    @property
    def delta_signal(self) -> float:
        """Signal loss of DP-SGD minus that of random freeze; negative where the mask loses more."""
        return self.full.signal_loss - self.masked.signal_loss

    @property
    def delta_mse(self) -> float:
        """MSE of DP-SGD minus that of random freeze; positive where the mask has the smaller error."""
        return self.full.mse - self.masked.mse


def clipped_gradient_mse(
    *,
    grad_norm: float,
    dim: int,
    deviation: float,
    clip_norm: float,
    noise_multiplier: float,
    batch_size: int,
    drop_rate: float,
    masked_norms: ArrayLike | None = None,
) -> MseBreakdown:
    r"""Error of the clipped, masked, noised batch mean for gradients g_i ~ N(w, s^2 I), independent: exact.

    With a and V the slope and variance of :func:`dptheory.gradients.gaussian_clip_moments` at (\|w'\|, k), over masks m:

    .. math:: \mathrm{MSE} = (1-x)|w|^2 + E_m[(1-a)^2|w'|^2 + V/B] + k C^2\sigma^2/B^2

    Args:
        grad_norm: \|w\|, in [0, 1e70].
        dim: number of entries d, 1..1e12.
        deviation: s, standard deviation of an entry of one example's gradient, in [0, 1e70].
        clip_norm: clipping norm C, in [1e-70, 1e70].
        noise_multiplier: noise multiplier, in [0, 1e70]; the noise of the batch mean has standard deviation C sigma / B in
            every entry kept.
        batch_size: B, 1..1e12.
        drop_rate: share of entries frozen, in [0, 1), drop_rate * dim an integer.
        masked_norms: \|m * w\| of equally likely masks, shape (masks,), all masks or a sample; None for a flat w, whose
            masked norm is always sqrt(1 - drop_rate) \|w\|.

    Returns:
        The errors without and with the mask, and their parts.

    Source: RF, equations 6 and 7 (rf.eq6, rf.eq7, rf.mse_criterion, rf.clip_probability).

    Example: freezing 70 % of RF's CNN loses signal, and saves 70 % of a noise that is larger.
        >>> from dptheory.gradients import clipped_gradient_mse
        >>> found = clipped_gradient_mse(grad_norm=0.5, dim=550_000, deviation=0.001, clip_norm=1.0, noise_multiplier=1.54,
        ...                              batch_size=1000, drop_rate=0.7)
        >>> round(found.full.mse, 3), round(found.masked.mse, 3)
        (1.305, 0.566)
    """
    grad_norm = _validate.real("grad_norm", grad_norm, 0.0, _validate.LARGEST)
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    deviation = _validate.real("deviation", deviation, 0.0, _validate.LARGEST)
    clip_norm = _validate.size("clip_norm", clip_norm)
    noise_multiplier = _validate.real("noise_multiplier", noise_multiplier, 0.0, _validate.LARGEST)
    batch_size = _validate.integer("batch_size", batch_size, 1, _MAX_BATCH)
    kept = kept_entries(dim=dim, drop_rate=drop_rate)
    norms = np.array([math.sqrt(kept / dim) * grad_norm])
    if masked_norms is not None:
        norms = _validate.nonnegative("masked_norms", masked_norms)
        if norms.ndim != 1 or not norms.size or norms.max() > grad_norm * (1.0 + 1e-12):
            raise ArgumentError("masked_norms", f"have the shape (masks,) and lie in [0, {grad_norm:g}]", masked_norms)

    def error(norms: Array, entries: int) -> GradientError:
        values, counts = np.unique(norms, return_counts=True)
        moments = [
            gaussian_clip_moments(grad_norm=float(v), dim=entries, deviation=deviation, clip_norm=clip_norm)
            for v in values
        ]
        slope, shortfall, variance, chance = (
            np.array([getattr(m, name) for m in moments])
            for name in ("slope", "shortfall", "variance", "clip_probability")
        )
        share, square = counts / norms.size, values**2
        noise = entries * (clip_norm * noise_multiplier / batch_size) ** 2
        return GradientError(
            signal_loss=(1.0 - entries / dim) * grad_norm**2
            + float(share @ (shortfall**2 * square + variance / batch_size)),
            noise=noise,
            alignment=float(share @ (slope * square)),
            second_moment=float(share @ (slope**2 * square + variance / batch_size)) + noise,
            clip_probability=float(share @ chance),
        )

    return MseBreakdown(full=error(np.array([grad_norm]), dim), masked=error(norms, kept))


def _expected_max(weights: Array, freedoms: NDArray[Any], n: int) -> float:
    """int_0^inf (1 - F(u^2)^n) 2 u du: Gauss-Legendre on three panels, cut where -n log F is near the targets."""
    form = QuadraticForm(weights=weights, freedoms=freedoms.astype(np.float64), noncentralities=np.zeros(weights.size))

    def rarity(u: Array) -> Array:
        """-n log F(u^2)."""
        lower, upper = form.tails(u**2)
        with np.errstate(divide="ignore"):
            return -n * np.where(upper < 0.5, np.log1p(-upper), np.log(lower))

    top = math.sqrt(form.chernoff(-27.0 - math.log(n)))
    grid = np.linspace(0.0, top, _GRID)[:-1]
    edge = grid[np.sum(rarity(grid)[:, None] > _TARGETS, axis=0) - 1]
    spread = math.sqrt(float(form.weights**2 @ form.freedoms) / (2.0 * form.mean))  # of the root of the form
    for zoom in range(1, 2 + max(0, math.ceil(math.log(2.0 * top / spread / _GRID**2) / math.log(_GRID - 1)))):
        finer = edge[:, None] + grid / (_GRID - 1) ** zoom
        edge = finer[np.arange(3), np.sum(rarity(finer) > _TARGETS[:, None], axis=1) - 1]
    edges = np.append(edge, top)
    points, weights = _GAUSS
    half = 0.5 * np.diff(edges)[:, None]
    u = edges[:-1, None] + half * (1.0 + points)
    return float(edges[0] ** 2 + np.sum(half * weights * -np.expm1(-rarity(u)) * 2.0 * u))


def _spectrum(eigenvalues: ArrayLike) -> Array:
    array = _validate.bounded("eigenvalues", _validate.nonnegative("eigenvalues", eigenvalues))
    if array.ndim != 1 or not array.any():
        raise ArgumentError("eigenvalues", "have the shape (d,) and not all be zero", eigenvalues)
    if array.max() < _validate.SMALLEST:
        raise ArgumentError("eigenvalues", f"hold one >= {_validate.SMALLEST:g}", eigenvalues)
    return array
