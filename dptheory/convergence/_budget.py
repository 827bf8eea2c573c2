"""The bound at a privacy budget, and its best number of steps."""

import math

from dptheory import _validate
from dptheory.convergence import _ranges as ranges
from dptheory.convergence._bounds import dpsgd_bound
from dptheory.convergence._terms import DescentBound, batch_second_moment


def privacy_term(
    *,
    epsilon: float,
    delta: float,
    clip_norm: float,
    dim: int,
    train_size: int,
    constant: float,
    drop_rate: float = 0.0,
) -> float:
    r"""What sqrt(T) is multiplied by in the bound of :func:`private_bound`: x d C^2 u^2 log(1/delta) / (2 N^2 eps^2).

    The batch size cancels: the noise multiplier u (B/N) sqrt(T log(1/delta)) / eps grows with it.

    Args:
        epsilon: in [1e-35, 1e35]; inf is allowed and gives 0.
        delta: in (0, 1).
        clip_norm: C in [1e-35, 1e35].
        dim: d, 1..1e18.
        train_size: N, 1..1e12, size of the data set.
        constant: u in [1e-35, 1e35] of the moments accountant's theorem.
        drop_rate: share of entries that the mask drops, in [0, 1).

    Returns:
        D, in squared units of the gradient.

    Source: RS, Corollary C.1.1, with q = B/N put in (rs.cor_c11).

    Example: RF's CNN at epsilon 3, with a constant of 2 in the theorem of the moments accountant.
        >>> from dptheory.convergence import privacy_term
        >>> term = privacy_term(epsilon=3.0, delta=1e-5, clip_norm=0.1, dim=550_000, train_size=50_000, constant=2.0)
        >>> round(1e6 * term, 2)
        5.63
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="(]")
    if epsilon != math.inf:
        epsilon = ranges.positive("epsilon", epsilon)
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    clip_norm, constant = ranges.positive("clip_norm", clip_norm), ranges.positive("constant", constant)
    dim = _validate.integer("dim", dim, 1, ranges.MAX_DIM)
    train_size = _validate.integer("train_size", train_size, 1, ranges.MAX_COUNT)
    return (
        (1 - ranges.drop_rate(drop_rate))
        * dim
        * (clip_norm * constant / train_size / epsilon) ** 2
        * -math.log(delta)
        / 2
    )


def private_bound(
    *,
    objective_gap: float,
    steps: int,
    smoothness: float,
    clip_norm: float,
    noise_per_root_step: float,
    drop_rate: float = 0.0,
    kappa: float | None = None,
    batch_size: int = 1,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> DescentBound:
    r"""The bound of Theorem 3.5 at a privacy budget and gamma = 1/(G sqrt T), zero bias on average.

    The closed form whose best T is known. Where no step is biased, :func:`dpsgd_bound` at the same step size is smaller
    (rs.clipped_steps): for large x sqrt T, x = 1 - drop_rate, its terms of clipping and noise by a factor of about
    1 - 1/(2 x sqrt T), its first term hardly.

    (1/kappa) [(G Delta + M / 2) / sqrt T + D sqrt T] with D = :func:`privacy_term`; M = C^2 (1 + (1 - q) / B) for Poisson
    batches, C^2 for batches of fixed size. It falls up to T = (G Delta + M/2) / D and grows without bound after it.

    Needs what :func:`dpsgd_bound` needs, and the accountant's condition eps < v q^2 T, whose constant v is not given.

    Args:
        objective_gap: Delta in [0, 1e140].
        steps: T, 1..1e12.
        smoothness: G in [1e-35, 1e35].
        clip_norm: C in [1e-35, 1e35].
        noise_per_root_step: D, mask included, 0 or in [1e-100, 1e200].
        drop_rate: share of entries that the mask drops, in [0, 1), for the default of kappa.
        kappa: as in :func:`dpsgd_bound`.
        batch_size: B, 1..1e12: of the noise it cancels, and counts in M alone; the bound for 1 holds for every B.
        sampling, sampling_rate: as in :func:`dpsgd_bound`.

    Returns:
        The terms; ``.value`` is the bound.

    Source: RS, Corollary C.1.1, with q = B/N put in (rs.cor_c11).

    Example: more steps at the same budget: past the best number the bound grows.
        >>> from dptheory.convergence import private_bound
        >>> run = dict(objective_gap=2.3, smoothness=1.0, clip_norm=0.1, noise_per_root_step=0.01)
        >>> [round(private_bound(steps=steps, **run).value, 3) for steps in (1, 230, 10_000)]
        [2.32, 0.304, 1.023]
    """
    root = math.sqrt(_validate.integer("steps", steps, 1, ranges.MAX_COUNT))
    noise, drop_rate = ranges.noise_per_root_step(noise_per_root_step), ranges.drop_rate(drop_rate)
    still = dpsgd_bound(
        objective_gap=objective_gap,
        learning_rate=1 / (ranges.positive("smoothness", smoothness) * root),
        steps=steps,
        smoothness=smoothness,
        clip_norm=clip_norm,
        batch_size=_validate.integer("batch_size", batch_size, 1, ranges.MAX_COUNT),
        drop_rate=drop_rate,
        kappa=kappa,
        bias=0.0,
        sampling=sampling,
        sampling_rate=sampling_rate,
    )
    return DescentBound(
        optimization=still.optimization,
        clipping=still.clipping,
        noise=noise * root / ranges.kappa(kappa, drop_rate),
        bias=0.0,
    )


def optimal_steps(
    *,
    objective_gap: float,
    smoothness: float,
    clip_norm: float,
    noise_per_root_step: float,
    batch_size: int = 1,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> float:
    r"""T* = max(1, (G Delta + M/2) / D), where :func:`private_bound` is smallest; inf without noise (D = 0).

    A real number: the best integer is one of its two neighbours, because the bound falls before T* and grows after it. There
    the two parts are equal, and the bound is 2 sqrt((G Delta + M/2) D) / kappa.

    Args:
        objective_gap, smoothness, clip_norm, noise_per_root_step: as for :func:`private_bound`.
        batch_size, sampling, sampling_rate: as for :func:`private_bound`; 1 gives at most twice the steps that the true B gives.

    Returns:
        The number of steps, >= 1; inf without noise.

    Source: RS, Corollary C.1.1, with q = B/N put in (rs.cor_c11).

    Example: at the privacy term of RF's CNN the bound grows again after 410,000 steps.
        >>> from dptheory.convergence import optimal_steps
        >>> round(optimal_steps(objective_gap=2.3, smoothness=1.0, clip_norm=0.1, noise_per_root_step=5.63e-6) / 1000)
        410
    """
    clip_norm = ranges.positive("clip_norm", clip_norm)
    moment = batch_second_moment(
        mean_norm=clip_norm,
        second_moment=clip_norm**2,
        batch_size=batch_size,
        sampling=sampling,
        sampling_rate=sampling_rate,
    )
    falling = ranges.positive("smoothness", smoothness) * ranges.gap(objective_gap) + moment / 2
    noise = ranges.noise_per_root_step(noise_per_root_step)
    return max(1.0, falling / noise) if noise else math.inf
