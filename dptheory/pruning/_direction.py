"""Direction of pruned, noised gradients: what a mask does to the cosine with the gradient. Notation as in ``_error``."""

import math
from dataclasses import dataclass

from dptheory import _validate
from dptheory.gradients import DistortionAngle, small_snr_slope
from dptheory.pruning._error import (
    Method,
    noise_mse,
    random_k_mse,
    retained_gain,
    top_k_gain,
    top_k_mse,
    zero_update_mse,
)

_MAX_DIM = 10**12


def pruned_cosine(*, grad_norm: float, retained_norm: float, keep: int, noise_std: float) -> float:
    """Expected cosine between g and (g + Z) * I for given g and I, Z ~ N(0, noise_std^2 I): exact.

    (|g*I| / |g|) times the expected cosine of the keep-dimensional g*I with its noisy self. I all ones is DP-SGD.

    Args:
        grad_norm: |g|, > 0.
        retained_norm: |g * I|, in [0, grad_norm].
        keep: number of ones of I, 1..1e12.
        noise_std: standard deviation of one entry of Z, >= 0.

    Returns:
        The mean cosine, in [0, 1].

    Source: GIP, section 5 and Fig. 4a (gip.criterion, gip.fig4).

    Example: without noise it is |g * I| / |g|; noise as long as what is kept divides it by about sqrt(2).
        >>> from dptheory.pruning import pruned_cosine
        >>> [round(pruned_cosine(grad_norm=5.0, retained_norm=3.0, keep=100, noise_std=std), 3) for std in (0.0, 0.3)]
        [0.6, 0.425]
    """
    grad_norm = _validate.real("grad_norm", grad_norm, 0.0, ends="()")
    retained_norm = _validate.real("retained_norm", retained_norm, 0.0, grad_norm)
    keep = _validate.integer("keep", keep, 1, _MAX_DIM)
    noise_std = _validate.real("noise_std", noise_std, 0.0, ends="[)")
    if retained_norm == 0.0:
        return 0.0
    snr = retained_norm / noise_std if noise_std > 0.0 else math.inf
    return retained_norm / grad_norm * DistortionAngle(keep, snr=snr).expected_cos()


def cosine_ratio(dim: int, keep: int, *, theta: float, method: Method = "exact", groups: int = 1) -> float:
    """E cos of perturbed top-k over E cos of DP-SGD in the limit of large noise; below 1, pruning loses direction.

    (k + (S - k) rho) c_K / c_d with S the top-k share of |g|^2 and c = :func:`dptheory.gradients.small_snr_slope`; exact at
    every dim. Asymptotically (k + 2 a phi(a) rho) / sqrt(k). With groups, S and rho are those of one group and c is that of
    the whole gradient.

    Args:
        dim, keep: size of a group and number kept in it, 1 <= keep < dim <= 1e7.
        theta: dispersion in [0, inf].
        method: as for :func:`dptheory.pruning.top_k_mse`.
        groups: number of groups, >= 1; at most 1e12 entries in all.

    Returns:
        The ratio, > 0.

    Source: GIP, section 5 (gip.criterion).

    Example: of groups of 256 keep 26. Top-k without perturbation gains direction, random-k loses two thirds of it.
        >>> import math
        >>> from dptheory.pruning import cosine_ratio
        >>> [round(cosine_ratio(256, 26, theta=theta, groups=10_547), 3) for theta in (math.inf, 0.0)]
        [1.383, 0.319]
    """
    rho = retained_gain(dim, keep, theta=theta)
    dim, keep = int(dim), int(keep)
    groups = _validate.integer("groups", groups, 1, _MAX_DIM // dim)
    k = keep / dim
    kept = k + rho * top_k_gain(dim, keep, method)
    return kept / (math.sqrt(k) if method == "asymptotic" else _noise_share(dim * groups, keep * groups))


def least_retained_gain(dim: int, keep: int, *, method: Method = "exact", groups: int = 1) -> float:
    """The rho above which perturbed top-k beats the direction of DP-SGD under large noise; above 1 means never.

    Solves :func:`cosine_ratio` = 1 for rho; asymptotically sqrt(k) (1 - sqrt(k)) / (2 a phi(a)), which is least, 0.478,
    near k = 0.65 and exceeds 1 for k below 0.0186. The exact value is larger than the asymptotic one; its relative error is
    about 1e-16 dim / (dim - keep).

    Args:
        dim, keep: size of a group and number kept in it, 1 <= keep < dim <= 1e12.
        method: as for :func:`dptheory.pruning.top_k_mse`.
        groups: number of groups, >= 1; at most 1e12 entries in all.

    Returns:
        The share, > 0; above 1 no perturbed top-k is good enough.

    Source: GIP, section 5 (gip.criterion).

    Example: of groups of 256 keep 26: 64 % of the top-k gain has to survive the privacy of the indices.
        >>> from dptheory.pruning import least_retained_gain
        >>> round(least_retained_gain(256, 26, groups=10_547), 3)
        0.64
    """
    dim = _validate.integer("dim", dim, 2, _MAX_DIM)
    keep = _validate.integer("keep", keep, 1, dim - 1)
    groups = _validate.integer("groups", groups, 1, _MAX_DIM // dim)
    gain = top_k_gain(dim, keep, method)
    if method == "asymptotic":
        root = math.sqrt(keep / dim)
        return root / (1 + root) * ((dim - keep) / dim) / gain  # sqrt(k) - k without cancellation
    return (_noise_share(dim * groups, keep * groups) - keep / dim) / gain


def _noise_share(dim: int, keep: int) -> float:
    """Share of |g|^2 that a mask has to keep to make up for having keep noisy entries instead of dim."""
    return small_snr_slope(dim) / small_snr_slope(keep)


# --- The ways to prune a gradient beside DP-SGD and beside not moving at all


@dataclass(frozen=True, kw_only=True)
class PruningComparison:
    """Errors of one release of a gradient g with iid N(0, sigma_g^2) entries, each E|released - g|^2.

    Attributes:
        dp_sgd_mse: noise on all entries, none pruned.
        zero_update_mse: nothing is released, and the update is 0.
        random_k_mse: keep random entries, with noise on them.
        top_k_mse: the keep largest entries, with noise on them; nothing is paid for knowing which these are.
        top_k_pruning_mse: what pruning alone adds to ``top_k_mse``.
        least_retained_gain: share of the top-k gain that a selection must keep to point as well as DP-SGD, by
            :func:`dptheory.pruning.least_retained_gain`; above 1 even top-k does not.
    """

    dp_sgd_mse: float
    zero_update_mse: float
    random_k_mse: float
    top_k_mse: float
    top_k_pruning_mse: float
    least_retained_gain: float


def compare_methods(dim: int, keep: int, *, sigma_g: float = 1.0, noise_std: float = 1.0) -> PruningComparison:
    r"""Errors and direction of random-k and top-k pruning beside DP-SGD.

    With d = dim, K = keep, s = sigma_g and tau = noise_std the errors are :math:`d\tau^2`, :math:`d s^2`,
    :math:`(d-K)s^2 + K\tau^2` and :math:`M + K\tau^2`, with M of :func:`dptheory.pruning.top_k_mse`.

    Args:
        dim: number of entries d, 2..1e12.
        keep: number of entries kept K, 1..dim - 1.
        sigma_g: standard deviation of an entry of the batch gradient, 0 or in [1e-70, 1e70].
        noise_std: standard deviation of the noise on one entry, 0 or in [1e-70, 1e70].

    Returns:
        The errors in the squared unit of ``sigma_g``, and the share that a selection must keep.

    Source: GIP, Propositions 1 and 2, Corollary 1 (gip.eq6, gip.mse_r, gip.mse_t0, gip.criterion).

    Example: where noise and gradient are of one size, top-k alone is better than not updating.
        >>> from dptheory.pruning import compare_methods
        >>> found = compare_methods(1000, 100, sigma_g=1.0, noise_std=1.0)
        >>> found.dp_sgd_mse, found.zero_update_mse, found.random_k_mse
        (1000.0, 1000.0, 1000.0)
        >>> round(found.top_k_mse, 2)
        661.43
    """
    sigma_g, noise_std = (
        _validate.size("sigma_g", sigma_g, zero=True),
        _validate.size("noise_std", noise_std, zero=True),
    )
    needed = least_retained_gain(dim, keep)  # first: it has the narrowest ranges of dim and keep
    noise = float(noise_mse(keep=keep, clip_norm=1.0, noise_multiplier=noise_std))
    pruned = float(top_k_mse(dim, keep, sigma_g=sigma_g))
    return PruningComparison(
        dp_sgd_mse=float(noise_mse(keep=dim, clip_norm=1.0, noise_multiplier=noise_std)),
        zero_update_mse=float(zero_update_mse(dim, sigma_g=sigma_g)),
        random_k_mse=float(random_k_mse(dim, keep, sigma_g=sigma_g)) + noise,
        top_k_mse=pruned + noise,
        top_k_pruning_mse=pruned,
        least_retained_gain=needed,
    )
