"""The learning rate at which the bound of DP-SGD is least."""

import math

import scipy

from dptheory import _validate
from dptheory.convergence import _ranges as ranges
from dptheory.convergence._power_sums import power_sums
from dptheory.convergence._terms import batch_second_moment, noise_term

_SHORT = 1e-4  # of rho T: below, the first two terms of a power series are exact to nine digits


def tuned_learning_rate(
    *,
    objective_gap: float,
    steps: int,
    smoothness: float,
    clip_norm: float,
    noise_multiplier: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: float = 0.0,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> float:
    r"""The learning rate at which :func:`dpsgd_bound` without bias is least. It does not depend on kappa.

    With x = 1 - drop_rate, theta = (G M / 2 + x Delta_sigma) / (4 x^2 G^2 Delta) and rho = 2 x gamma G the bound is
    (2 G x Delta / kappa) (A_T + theta rho (T - A_T)) / T. Where theta T >= 1 its least value is at the only root of
    sum_{t<T} t (1 - rho)^(t-1) = theta T (1 - (1 - rho)^(T-1)); where theta T < 1, at rho = 1 or at the rate of the bound of
    Theorem 3.5, rho = 1 / sqrt(theta T).

    Args:
        objective_gap: Delta in [1e-70, 1e140].
        steps: T, 1..1e12. For T = 1 all rates up to 1 / (2 x G) may give the same bound; this is one of the best.
        smoothness: G in [1e-35, 1e35].
        clip_norm: C in [1e-35, 1e35].
        noise_multiplier: sigma, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise; needed there.
        batch_size: B, 1..1e12, the number that the sum is divided by; needed where there is noise. Without noise None takes 1,
            as in :func:`dpsgd_bound`.
        drop_rate: share of entries that the mask drops, in [0, 1).
        sampling: "poisson" or "fixed", see :mod:`dptheory.convergence`.
        sampling_rate: q of Poisson batches; None takes 0, right for every q. Not allowed with "fixed".

    Returns:
        gamma.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Theorem 3.5; our own (rs.clipped_steps, rs.phase).

    Example: at its own best rate a mask whose kappa is sqrt(1 - r) raises the bound of RF's CNN.
        >>> from dptheory.convergence import dpsgd_bound, tuned_learning_rate
        >>> run = dict(objective_gap=2.3, steps=2000, smoothness=1.0, clip_norm=0.1, noise_multiplier=1.54, dim=550_000,
        ...            batch_size=1000)
        >>> masks = (dict(drop_rate=0.0), dict(drop_rate=0.7, kappa=0.3**0.5))
        >>> rates = [tuned_learning_rate(**run, drop_rate=mask["drop_rate"]) for mask in masks]
        >>> [round(dpsgd_bound(**run, **mask, learning_rate=rate).value, 4) for mask, rate in zip(masks, rates)]
        [0.0073, 0.0103]
    """
    gap = _validate.size("objective_gap", objective_gap, high=ranges.LARGEST_SQUARE)
    steps = _validate.integer("steps", steps, 1, ranges.MAX_COUNT)
    clip_norm, smoothness = ranges.positive("clip_norm", clip_norm), ranges.positive("smoothness", smoothness)
    kept = 1 - ranges.drop_rate(drop_rate)
    noise_multiplier = ranges.not_negative("noise_multiplier", noise_multiplier)
    dim = ranges.beside_noise("dim", dim, ranges.MAX_DIM, "noise_multiplier", noise_multiplier)
    batch_size = ranges.beside_noise("batch_size", batch_size, ranges.MAX_COUNT, "noise_multiplier", noise_multiplier)
    moment = batch_second_moment(
        mean_norm=clip_norm,
        second_moment=clip_norm**2,
        batch_size=batch_size,
        sampling=sampling,
        sampling_rate=sampling_rate,
    )
    noise = noise_term(
        smoothness=smoothness, clip_norm=clip_norm, noise_multiplier=noise_multiplier, dim=dim, batch_size=batch_size
    )
    unit = 2 * kept * smoothness  # rho = unit * gamma
    theta = (smoothness * moment / 2 + kept * noise) / unit / unit / gap
    return _best_share(theta, steps) / unit


def _best_share(theta: float, steps: int) -> float:
    """rho of the least bound."""
    if theta * steps < 1:
        longer = 1 / math.sqrt(theta * steps)
        return longer if 2 * theta * longer * steps < 1 + theta * (steps - 1) else 1.0
    if steps == 1:
        return 1.0
    short = 1 / (2 * theta + (steps - 2) / 6)
    if short * steps < _SHORT:
        return short

    def slope(log_share: float) -> float:
        """Derivative of A_T + theta rho (T - A_T) over T."""
        share = min(math.exp(log_share), 1.0)
        decay = (steps - 1) * math.log1p(-share) if share < 1 else -math.inf  # 1 - share would round a small share away
        last, used = math.exp(decay), -math.expm1(decay)
        falls = (power_sums(share, steps)[0] / steps - last) / share
        return theta * used - falls

    return math.exp(float(scipy.optimize.brentq(slope, -math.log(4 * theta + 4 * steps), 0.0, xtol=1e-14)))
