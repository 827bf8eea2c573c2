"""Error of pruned, noised gradients whose entries are iid N(0, sigma_g^2) (GIP's Assumption 1).

Notation: d = dim, K = keep, k = K / d, s = sigma_g, C = clip, sigma = noise_multiplier; for the asymptotic forms
a = Phi^-1(1 - k/2) and phi the standard normal density.
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.gradients import small_snr_slope
from dptheory.pruning._mallows import SubsetMallows

Method = Literal["exact", "asymptotic"]

_MAX_DIM = 10**12
_METHODS = ("exact", "asymptotic")


def top_k_mask(gradient: ArrayLike, *, keep: int) -> NDArray[np.bool_]:
    """The keep entries of largest absolute value in each row; ties go to the lower index, so exactly keep are True.

    Args:
        gradient: finite array of shape (..., dim).
        keep: number of entries kept, 0..dim.

    Returns:
        Boolean array of the same shape.

    Raises:
        ValueError: a NaN or infinite entry, no axis, or keep outside 0..dim.

    Source: GIP, Algorithm 1 with the percentile and ties corrected (gip.alg1).

    Example: the entry of largest size, whatever its sign.
        >>> from dptheory.pruning import top_k_mask
        >>> top_k_mask([3.0, -5.0, 1.0], keep=1)
        array([False,  True, False])
    """
    gradient = _validate.finite("gradient", gradient)
    if gradient.ndim == 0:
        raise ArgumentError("gradient", "have at least one axis", gradient)
    keep = _validate.integer("keep", keep, 0, gradient.shape[-1])
    order = np.argsort(-np.abs(gradient), axis=-1, kind="stable")
    mask = np.zeros(gradient.shape, dtype=np.bool_)
    np.put_along_axis(mask, order[..., :keep], True, axis=-1)
    return mask


def expected_norm(dim: int, *, sigma_g: ArrayLike) -> Array:
    r"""E|g| = s sqrt(2) Gamma((d+1)/2) / Gamma(d/2), about s sqrt(d).

    Args:
        dim: number of entries, 1..1e12.
        sigma_g: standard deviation of an entry, 0 or in [1e-70, 1e70]; any shape.

    Returns:
        Array of the shape of sigma_g.

    Source: GIP, section 5, text before equation 5 (gip.norm).

    Example: by hand: sqrt(pi / 2) in the plane; about sqrt(dim) in the 550,000 dimensions of RF's CNN.
        >>> from dptheory.pruning import expected_norm
        >>> round(float(expected_norm(2, sigma_g=1.0)), 4), round(float(expected_norm(550_000, sigma_g=1.0)), 2)
        (1.2533, 741.62)
    """
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    sigma_g = _validate.scale("sigma_g", sigma_g)
    # Gamma((d+1)/2) / Gamma(d/2) is d/2 times the ratio that small_snr_slope holds without overflow.
    return sigma_g * dim * small_snr_slope(dim)


def zero_update_mse(dim: int, *, sigma_g: ArrayLike) -> Array:
    """MSE of not moving at all, E|0 - g|^2 = d s^2: what any noisy estimate has to beat.

    Args:
        dim, sigma_g: as for :func:`expected_norm`.

    Returns:
        Array of the shape of sigma_g.

    Source: GIP, Corollary 1 (gip.criterion).

    Example: any estimate of 100 unit entries that errs by more than this is worse than none.
        >>> from dptheory.pruning import zero_update_mse
        >>> float(zero_update_mse(100, sigma_g=1.0))
        100.0
    """
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    return dim * _validate.scale("sigma_g", sigma_g) ** 2


def noise_mse(*, keep: int, clip_norm: ArrayLike, noise_multiplier: ArrayLike) -> Array:
    """Noise MSE of a mask with keep ones, E|Z*I|^2 = sigma^2 C^2 K; keep = dim is plain DP-SGD.

    Args:
        keep: number of entries that receive noise, 0..1e12.
        clip_norm: clipping norm C, 0 or in [1e-70, 1e70]; any shape.
        noise_multiplier: sigma, 0 or in [1e-70, 1e70]; broadcast with clip_norm.

    Returns:
        Array of the broadcast shape.

    Source: GIP, equation 6 (gip.eq6).

    Example: by hand: 1.1^2 for each of 100 entries.
        >>> from dptheory.pruning import noise_mse
        >>> round(float(noise_mse(keep=100, clip_norm=1.0, noise_multiplier=1.1)), 6)
        121.0
    """
    keep = _validate.integer("keep", keep, 0, _MAX_DIM)
    clip_norm, noise = _validate.scale("clip_norm", clip_norm), _validate.scale("noise_multiplier", noise_multiplier)
    _validate.broadcast(noise_multiplier=noise, clip_norm=clip_norm)
    return (noise * clip_norm) ** 2 * keep


def random_k_mse(dim: int, keep: int, *, sigma_g: ArrayLike) -> Array:
    """Pruning MSE of a uniformly random mask with keep ones, (d - K) s^2; exact for any g with |g|^2 = d s^2.

    Args:
        dim, keep: 1 <= keep <= dim <= 1e12.
        sigma_g: standard deviation of an entry, 0 or in [1e-70, 1e70]; any shape.

    Returns:
        Array of the shape of sigma_g.

    Source: GIP, Proposition 2, equation 13 (gip.mse_r).

    Example: by hand: the squares of the 7 entries that are dropped.
        >>> from dptheory.pruning import random_k_mse
        >>> float(random_k_mse(10, 3, sigma_g=1.0))
        7.0
    """
    dim, keep = _dim_keep(dim, keep)
    return (dim - keep) * _validate.scale("sigma_g", sigma_g) ** 2


def top_k_mse(dim: int, keep: int, *, sigma_g: ArrayLike, method: Method = "exact") -> Array:
    r"""Pruning MSE of keeping the keep largest entries: the expected sum of the d - K smallest squares.

    .. math:: d s^2\, E[H(U)],\quad U \sim \mathrm{Beta}(d-K, K),\quad H(u) = u - 2 a_u \phi(a_u),\ a_u = \Phi^{-1}((1+u)/2)

    ``method="asymptotic"`` puts U at its mean: d s^2 (1 - k - 2 a phi(a)), never more than the exact value and short of it
    by about k (1 - k) a s^2 / (2 phi(a)) for fixed k and large d.

    Args:
        dim, keep: 1 <= keep <= dim <= 1e12.
        sigma_g: standard deviation of an entry, 0 or in [1e-70, 1e70]; any shape.
        method: "exact" (relative error under 1e-9) or "asymptotic".

    Returns:
        Array of the shape of sigma_g.

    Source: GIP, Proposition 2, equation 16 (gip.mse_t0).

    Example: the largest tenth of a group of 256 holds 44 % of its energy, so that 56 % are lost.
        >>> from dptheory.pruning import top_k_mse
        >>> round(float(top_k_mse(256, 26, sigma_g=1.0)) / 256, 3)
        0.559
    """
    dim, keep = _dim_keep(dim, keep)
    return _validate.scale("sigma_g", sigma_g) ** 2 * dim * _share(_lost, dim, keep, method)


def top_k_energy(dim: int, keep: int, *, sigma_g: ArrayLike, method: Method = "exact") -> Array:
    """Expected sum of the keep largest squares, d s^2 - MSE, without cancellation when keep << dim.

    Args:
        dim, keep, sigma_g, method: as for :func:`top_k_mse`.

    Returns:
        Array of the shape of sigma_g.

    Source: GIP, Proposition 2 (gip.mse_t0).

    Example: by hand: the larger of two squared normal numbers is 1 + 2 / pi on average.
        >>> from dptheory.pruning import top_k_energy
        >>> round(float(top_k_energy(2, 1, sigma_g=1.0)), 6)
        1.63662
    """
    dim, keep = _dim_keep(dim, keep)
    return _validate.scale("sigma_g", sigma_g) ** 2 * dim * _share(_kept, dim, keep, method)


def retained_gain(dim: int, keep: int, *, theta: float) -> float:
    """Share rho of the top-k gain over random-k that survives the Mallows perturbation, in [0, 1].

    Args:
        dim, keep: 1 <= keep < dim <= 1e7.
        theta: dispersion in [0, inf].

    Returns:
        The share, in [0, 1].

    Raises:
        ValueError: an argument outside its range (keep = dim has no gain to retain).

    Source: GIP, Proposition 2 (gip.order).

    Example: by hand: of two entries the right one is kept three times in four, half-way from chance to certainty.
        >>> import math
        >>> from dptheory.pruning import retained_gain
        >>> round(retained_gain(2, 1, theta=math.log(3) / 2), 6)
        0.5
    """
    return SubsetMallows(dim, keep, theta=theta).retained_gain()


def perturbed_top_k_mse(dim: int, keep: int, *, theta: float, sigma_g: ArrayLike, method: Method = "exact") -> Array:
    """Pruning MSE of the Mallows-perturbed top-k mask: rho MSE_top-k + (1 - rho) MSE_random-k.

    Args:
        dim, keep: 1 <= keep < dim <= 1e7.
        theta: dispersion in [0, inf].
        sigma_g: standard deviation of an entry, 0 or in [1e-70, 1e70]; any shape.
        method: how the top-k MSE is computed; rho is exact in both.

    Returns:
        Array of the shape of sigma_g.

    Source: GIP, Proposition 2, equation 24 (gip.mse_t).

    Example: half-way between the 1 - 2 / pi of the larger of two entries and the 1 of a random one.
        >>> import math
        >>> from dptheory.pruning import perturbed_top_k_mse
        >>> round(float(perturbed_top_k_mse(2, 1, theta=math.log(3) / 2, sigma_g=1.0)), 4)
        0.6817
    """
    rho = retained_gain(dim, keep, theta=theta)
    return rho * top_k_mse(dim, keep, sigma_g=sigma_g, method=method) + (1.0 - rho) * random_k_mse(
        dim, keep, sigma_g=sigma_g
    )


def beta(dim: int, keep: int, *, theta: float, clip_norm: float, method: Method = "exact") -> float:
    r"""Largest sigma_g^2 / sigma^2 (not included) for which pruning + noise has a smaller MSE than DP-SGD.

    .. math:: \beta = C^2 (d - K) s^2 / \mathrm{MSE}_t \;\; (\ge C^2),
        \qquad \beta_{asym} = C^2 / (1 - 2 a \phi(a) \rho / (1 - k)) \ge \beta

    The asymptotic value is the larger one: the exact one is safe at finite dim. A small MSE is no reason to prune: see
    :func:`least_retained_gain` and :func:`zero_update_mse`.

    Args:
        clip_norm: clipping norm C, in [1e-70, 1e70].
        keep, dim: 1 <= keep < dim <= 1e7.
        theta: dispersion in [0, inf].
        method: as for :func:`top_k_mse`.

    Returns:
        beta, a bound on sigma_g^2 / sigma^2.

    Source: GIP, Corollary 1 (gip.cor1, gip.beta_values).

    Example: by hand: C^2 times 1, the error of a random one of two entries, over 0.6817, that of one chosen with theta.
        >>> import math
        >>> from dptheory.pruning import beta
        >>> round(beta(2, 1, theta=math.log(3) / 2, clip_norm=1.0), 4)
        1.4669
    """
    clip_norm = _validate.real("clip_norm", clip_norm, 1e-70, 1e70)
    return clip_norm**2 * float(
        random_k_mse(dim, keep, sigma_g=1.0) / perturbed_top_k_mse(dim, keep, theta=theta, sigma_g=1.0, method=method)
    )


def _dim_keep(dim: int, keep: int) -> tuple[int, int]:
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    return dim, _validate.integer("keep", keep, 1, dim)


def top_k_gain(dim: int, keep: int, method: Method) -> float:
    """What top-k keeps of |g|^2 beyond random-k, S - k = (1 - k) - lost, from whichever side cancels less."""
    if 2 * keep > dim:
        return (dim - keep) / dim - _share(_lost, dim, keep, method)
    return _share(_kept, dim, keep, method) - keep / dim


def _lost(threshold: Array) -> Array:
    """E[x^2; |x| <= a] = P(chi2_3 <= a^2) = P(|x| <= a) - 2 a phi(a), from threshold = a^2 / 2."""
    return np.asarray(scipy.special.gammainc(1.5, threshold))


def _kept(threshold: Array) -> Array:
    """E[x^2; |x| > a] = P(chi2_3 > a^2), from threshold = a^2 / 2."""
    return np.asarray(scipy.special.gammaincc(1.5, threshold))


def _share(part: Callable[[Array], Array], dim: int, keep: int, method: str) -> float:
    """Share of |g|^2 that top-k loses or keeps: ``part`` at the mean threshold, or averaged over its Beta law."""
    _validate.choice("method", method, _METHODS)
    if keep == dim:
        return float(part(np.zeros(())))
    if method == "asymptotic":
        return float(part(_threshold(np.asarray((dim - keep) / dim), np.asarray(keep / dim))))
    return _beta_mean(lambda u, v: part(_threshold(u, v)), dim - keep, keep)


def _threshold(u: Array, v: Array) -> Array:
    """a^2 / 2 with P(|x| <= a) = u = 1 - v, accurate at both ends."""
    return np.asarray(np.where(u < 0.5, scipy.special.gammaincinv(0.5, u), scipy.special.gammainccinv(0.5, v)))


def _beta_mean(function: Callable[[Array, Array], Array], alpha: int, beta: int) -> float:
    """E f(U, 1 - U) for U ~ Beta(alpha, beta): trapezoidal rule in y = logit(U), where the density is log-concave.

    The rule converges geometrically (the integrand is analytic for |Im y| < pi). The weights are taken relative to the
    mode and normalised by their own sum, so no Beta function of order 1e12 is needed.
    """
    mode = math.log(alpha / beta)
    u0, v0 = alpha / (alpha + beta), beta / (alpha + beta)

    def log_weight(y: Array) -> Array:
        return np.asarray(-alpha * np.log1p(v0 * np.expm1(-y)) - beta * np.log1p(u0 * np.expm1(y)))

    def edge(beyond: float) -> float:
        return float(scipy.optimize.brentq(lambda y: float(log_weight(y)) + 50.0, 0.0, beyond))

    y = np.linspace(edge(-60.0), edge(60.0), 513)
    weights = np.exp(log_weight(y))
    return float(weights @ function(scipy.special.expit(mode + y), scipy.special.expit(-mode - y)) / weights.sum())
