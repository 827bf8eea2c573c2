"""The ways to prune a gradient beside DP-SGD and beside not moving at all."""

from dataclasses import dataclass

from dptheory import _validate
from dptheory.pruning._direction import least_retained_gain
from dptheory.pruning._error import noise_mse, random_k_mse, top_k_mse, zero_update_mse


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
        dim: number of entries d, 2..1e9.
        keep: number of entries kept K, 1..dim - 1.
        sigma_g: standard deviation of an entry of the batch gradient, 0 or in [1e-70, 1e70].
        noise_std: standard deviation of the noise on one entry, 0 or in [1e-70, 1e70].

    Returns:
        The errors in the squared unit of ``sigma_g``, and the share that a selection must keep.

    Raises:
        ValueError: an argument outside its range.

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
