"""Bounds over all steps: clipped and masked, unclipped, and with layers frozen."""

import math

import numpy as np
import scipy

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.convergence import _ranges as ranges
from dptheory.convergence._terms import (
    DescentBound,
    alignment_bound,
    batch_second_moment,
    changing_sums,
    noise_term,
    power_sums,
)
from dptheory.errors import ArgumentError

_MAX_TRAIN_SIZE = 10**9
_TAIL = 40.0  # standard deviations that are summed on both sides of the mean


def drawn_size_factor(*, train_size: int, sampling_rate: float) -> float:
    r"""E[(qN / K)^2 | K >= 1], K binomial (N, q): the noise of a sum divided by the drawn size, over that of one divided by qN.

    It tends to 1 + 3 (1 - q) / B as B = qN grows. It is below 1 only for B below about 1.3: empty batches are left out, and the
    others are larger than B on average.

    Args:
        train_size: N, 1..1e9.
        sampling_rate: q in [1e-30, 1].

    Returns:
        The factor on the variance of the noise; at most N^2.

    Source: RS, Algorithm 1, line 6; our own (rs.batch_divisors).

    Example: at a mean batch size of 10 the drawn divisor makes the noise's variance half as large again.
        >>> from dptheory.convergence import drawn_size_factor
        >>> [round(drawn_size_factor(train_size=1000, sampling_rate=q), 3) for q in (0.01, 0.1, 1.0)]
        [1.524, 1.028, 1.0]
    """
    train_size = _validate.integer("train_size", train_size, 1, _MAX_TRAIN_SIZE)
    rate = _validate.real("sampling_rate", sampling_rate, 1e-30, 1.0)
    mean = rate * train_size
    reach = _TAIL * math.sqrt(mean * (1 - rate)) + _TAIL
    sizes = np.arange(max(1, math.floor(mean - reach)), min(train_size, math.ceil(mean + reach)) + 1)
    chances = scipy.stats.binom.pmf(sizes, train_size, rate)
    return float((chances * (mean / sizes) ** 2).sum() / chances.sum())


def dpsgd_bound(
    *,
    objective_gap: float,
    learning_rate: float,
    steps: int,
    smoothness: float,
    clip_norm: float,
    noise_multiplier: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: float = 0.0,
    kappa: float | None = None,
    bias: float | None = None,
    second_moment: float | None = None,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> DescentBound:
    r"""Bound on (1/T) sum_t E[P_t h_t |grad_t|] for DP-SGD whose gradients are masked, then clipped, then noised.

    For a fixed z in (0, 1) P_t = P(|xi| < z C) and h_t = min(|grad_t|, (1 - z) C): z = 3/4 in RS, z = 1/4 in RF. M is
    C^2 (1 + (1 - q) / B) for Poisson batches and C^2 for batches of fixed size. Rate 0 is DP-SGD, noise multiplier 0 is
    clipped SGD. Where no step is biased (``bias`` is None), with x = 1 - drop_rate, v = gamma^2 G M / 2 + x gamma^2 Delta_sigma,
    rho = min(1, 2 x gamma G), A_n = sum_{t<n} (1 - rho)^t and B_n = sum_{t<n} A_t, it is the smaller of
    (2 G x / kappa) (Delta A_T + v B_T) / T and (1/kappa) (Delta / (gamma T) + v / gamma). The first is never larger for
    rho < 1, and attained. With a bias it is the second less bias / kappa, as the papers have it.

    Needs, and cannot check: L is G-smooth and bounded below; no momentum; at every step a fresh mask, independent of the
    iterate, and fresh noise; P_t is taken under a law that is symmetric given the iterate, and ``bias`` is the mean of
    E<mask * grad, clipped> under the true law of the deviations minus that under the symmetric one. A mask held over
    many steps breaks the bound, and so does M = C^2 for Poisson batches. What the true law of the sampling is
    counts: batches cut from a shuffled data set depend on the iterate.

    Args:
        objective_gap: Delta in [0, 1e140].
        learning_rate: gamma in [1e-70, 1e70].
        steps: T, 1..1e12.
        smoothness: G in [1e-35, 1e35].
        clip_norm: C in [1e-35, 1e35].
        noise_multiplier: sigma, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise; needed there.
        batch_size: B, 1..1e12, the number that the sum is divided by; needed where there is noise. Without noise None takes 1,
            whose bound holds for every B.
        drop_rate: share of entries that the mask drops, in [0, 1).
        kappa: sum_t E[P'_t h'_t |mask * grad_t|] / sum_t E[P_t h_t |grad_t|], at least 1 - drop_rate, and 1 for rate 0;
            None takes 1 - drop_rate, with which the bound holds whatever kappa is; at most 1e70.
        bias: mean of the bias over the steps, of size at most 1e140; None says that it is at no step negative.
        second_moment: bound m on the mean of E|update without noise|^2 over the steps, at most the M above; None takes that.
            With it the first form has the smaller of m T A_{T-1} and M B_T for M B_T, because early steps count for more.
        sampling: "poisson" or "fixed", see :mod:`dptheory.convergence`.
        sampling_rate: q of Poisson batches; None takes 0, right for every q. Not allowed with "fixed".

    Returns:
        The terms; ``.value`` is the bound.

    Source: RS, Theorems 3.3, 3.4 and 3.5 (rs.thm3.3, rs.thm3.4, rs.thm3.5); RF, Theorem 2 (rf.thm2); the geometric form is our
    own (rs.clipped_steps).

    Example: RF's CNN at epsilon 3, smoothness 1: half of the bound is the price of noise; a bias moves it by bias / kappa.
        >>> from dptheory.convergence import dpsgd_bound
        >>> run = {"objective_gap": 2.3, "learning_rate": 1.0, "steps": 2000, "smoothness": 1.0, "clip_norm": 0.1,
        ...        "noise_multiplier": 1.54, "dim": 550_000, "batch_size": 1000}
        >>> bound = dpsgd_bound(**run)
        >>> round(bound.value, 4), round(bound.noise, 4)
        (0.0127, 0.0065)
        >>> biased = [dpsgd_bound(**run, drop_rate=0.5, bias=bias).value for bias in (-0.001, 0.0)]
        >>> round(biased[0] - biased[1], 6)
        0.002
    """
    objective_gap = ranges.gap(objective_gap)
    steps = _validate.integer("steps", steps, 1, ranges.MAX_COUNT)
    clip_norm, drop_rate = ranges.positive("clip_norm", clip_norm), ranges.drop_rate(drop_rate)
    learning_rate, smoothness = ranges.learning_rate(learning_rate), ranges.positive("smoothness", smoothness)
    noise_multiplier = ranges.not_negative("noise_multiplier", noise_multiplier)
    dim = ranges.beside_noise("dim", dim, ranges.MAX_DIM, "noise_multiplier", noise_multiplier)
    batch_size = ranges.beside_noise("batch_size", batch_size, ranges.MAX_COUNT, "noise_multiplier", noise_multiplier)
    if bias is not None:
        bias = _validate.real("bias", bias, -ranges.LARGEST_SQUARE, ranges.LARGEST_SQUARE)
    most = batch_second_moment(
        mean_norm=clip_norm,
        second_moment=clip_norm**2,
        batch_size=batch_size,
        sampling=sampling,
        sampling_rate=sampling_rate,
    )
    slack = most * (1 + 1e-12)  # rounding of a mean computed elsewhere
    moment = most if second_moment is None else _validate.real("second_moment", second_moment, 0.0, slack)
    kappa = ranges.kappa(kappa, drop_rate)
    noise = noise_term(
        smoothness=smoothness, clip_norm=clip_norm, noise_multiplier=noise_multiplier, dim=dim, batch_size=batch_size
    )
    step = alignment_bound(
        decrease=objective_gap / steps,
        learning_rate=learning_rate,
        smoothness=smoothness,
        second_moment=moment,
        noise_term=noise,
        drop_rate=drop_rate,
    )
    summed = DescentBound(
        optimization=step.optimization / kappa,
        clipping=step.clipping / kappa,
        noise=step.noise / kappa,
        bias=0.0 if bias is None else -bias / kappa,
    )
    if bias is not None:
        return summed
    share = 2 * smoothness * (1 - drop_rate) / kappa  # of the gap that is left, the most that a step's term can be
    rho = min(1.0, 2 * (1 - drop_rate) * learning_rate * smoothness)
    first, second = power_sums(rho, steps)
    early = steps * _before(rho, steps)  # a moment that is known in the mean may all come at the first step
    clipped = early if moment * early <= most * second else most / moment * second
    geometric = DescentBound(
        optimization=share * objective_gap * first / steps,
        clipping=share * learning_rate * step.clipping * clipped / steps,
        noise=share * learning_rate * step.noise * second / steps,
        bias=0.0,
    )
    return min(geometric, summed, key=lambda bound: bound.value)


def _before(rho: float, steps: int) -> float:
    """A_{T-1} of :func:`power_sums`, 0 for one step."""
    return power_sums(rho, steps - 1)[0] if steps > 1 else 0.0


def noisy_sgd_bound(
    *,
    objective_gap: float,
    learning_rate: ArrayLike,
    steps: int,
    smoothness: float,
    deviation_norm: float = 0.0,
    sum_noise_std: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: ArrayLike = 0.0,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> DescentBound:
    r"""Bound on sum_t rho_t E|grad_t|^2 / sum_t rho_t for masked SGD with noise and without clipping, t = 1..T.

    rho_t = x_t gamma_t G (2 - (1 + b) gamma_t G), b = (1 - q) / B: the plain mean where step size and mask are constant, else
    the mean for an iterate that is drawn with chances proportional to rho_t. The worst case, attained by L = G |w|^2 / 2: with
    V = b s^2 + d sigma^2 / B^2, A_n = sum_{t<n} (1 - rho)^t and B_n = sum_{t<n} A_t it is
    2 G Delta A_T / T + x (gamma G)^2 V B_T / T for constants, else with p_t = 1 - prod_{s>=t} (1 - rho_s)
    (2 G Delta p_1 + V sum_t x_t (gamma_t G)^2 p_{t+1}) / sum_t rho_t. Batches of fixed size have b = 0 in rho and s^2 / B in V.
    As T -> inf, A_T and B_T / T tend to 1 / rho.

    Needs, and cannot check: L is G-smooth and bounded below; no momentum; at every step a fresh mask, independent of the
    iterate, a fresh batch, and fresh noise. L is the mean over the examples that a Poisson batch is drawn from; the deviations
    of a batch of fixed size have mean zero and are uncorrelated given the iterate.

    Args:
        objective_gap: Delta in [0, 1e140].
        learning_rate: gamma in [1e-70, 2 / ((1 + b) G)), a number or shape (steps,); the paper takes 1/(G sqrt T).
        steps: T, 1..1e12.
        smoothness: G in [1e-35, 1e35].
        deviation_norm: s with E|g_i - grad|^2 <= s^2, 0 or in [1e-35, 1e35].
        sum_noise_std: standard deviation sigma of an entry of the noise on the sum of the batch, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise; needed there.
        batch_size: B, 1..1e12, the number that the sum is divided by; needed where there is noise. Without noise None takes 1,
            whose bound holds for every B.
        drop_rate: share of entries that the mask drops, in [0, 1), a number or shape (steps,).
        sampling: "poisson" or "fixed", see :mod:`dptheory.convergence`.
        sampling_rate: q of Poisson batches; None takes 0, right for every q. Not allowed with "fixed".

    Returns:
        The terms; ``clipping`` is the part of the sampling deviation, ``bias`` is 0.

    Source: RS, Theorem 3.2, with the constants that its proof gives away (rs.thm3.2); changing steps are our own
    (rs.changing_steps).

    Example: by hand: the first gradient of a gap of 1 is at most 2 G long, squared, whatever the learning rate.
        >>> from dptheory.convergence import noisy_sgd_bound
        >>> round(noisy_sgd_bound(objective_gap=1.0, learning_rate=0.5, steps=1, smoothness=1.0).value, 6)
        2.0
    """
    objective_gap = ranges.gap(objective_gap)
    smoothness = ranges.positive("smoothness", smoothness)
    deviation_norm, sum_noise_std = (
        ranges.not_negative("deviation_norm", deviation_norm),
        ranges.not_negative("sum_noise_std", sum_noise_std),
    )
    steps = _validate.integer("steps", steps, 1, ranges.MAX_COUNT)
    dim = ranges.beside_noise("dim", dim, ranges.MAX_DIM, "sum_noise_std", sum_noise_std)
    batch_size = ranges.beside_noise("batch_size", batch_size, ranges.MAX_COUNT, "sum_noise_std", sum_noise_std)
    # of the gradient itself, and of the deviations
    growth = batch_second_moment(
        mean_norm=1.0, second_moment=1.0, batch_size=batch_size, sampling=sampling, sampling_rate=sampling_rate
    )
    spread = batch_second_moment(
        mean_norm=0.0, second_moment=1.0, batch_size=batch_size, sampling=sampling, sampling_rate=sampling_rate
    )
    longest = 2 / (growth * smoothness)
    if _validate.finite("learning_rate", learning_rate).ndim == _validate.finite("drop_rate", drop_rate).ndim == 0:
        move = smoothness * _validate.real("learning_rate", learning_rate, 1e-70, longest, ends="[)")
        keep = 1 - ranges.drop_rate(drop_rate)  # type: ignore[arg-type]
        first, second = power_sums(keep * move * (2 - growth * move), steps)
        per_gap, per_variance = first / steps, keep * move**2 * second / steps
    else:
        rates = _validate.per_step("learning_rate", learning_rate, steps, 1e-70, longest, ends="[)")
        keeps = 1 - _validate.per_step("drop_rate", drop_rate, steps, 0.0, 1.0, ends="[)")
        moves = smoothness * rates
        per_gap, per_variance = changing_sums(keeps * moves * (2 - growth * moves), keeps * moves**2)
    return DescentBound(
        optimization=2 * smoothness * objective_gap * per_gap,
        clipping=per_variance * spread * deviation_norm**2,
        noise=per_variance * dim * (sum_noise_std / batch_size) ** 2,
        bias=0.0,
    )


def layer_freezing_bound(
    *,
    decrease: float,
    learning_rate: ArrayLike,
    steps: int,
    smoothness: float,
    clip_norm: float,
    noise_multiplier: float,
    dim: ArrayLike,
    batch_size: int,
    second_moment: ArrayLike | None = None,
    bias: ArrayLike = 0.0,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> DescentBound:
    r"""Bound on sum_t eta_t E<grad_t, s_t> / sum_t eta_t for DP-SGD, and with ``bias`` on that of E|P_t grad_t|^2.

    [f_1 - E f_{T+1} - sum eta_t E<grad_t, b_t> + (G/2) sum eta_t^2 (E|s_t|^2 + d_t tau^2)] / sum eta_t with s_t the sum of the
    clipped gradients over B, P_t grad_t the gradient of the layers trained at step t, tau = sigma C / B and
    b_t = E s_t - P_t grad_t the clipping bias. At the default ``bias`` of 0 it bounds the mean of E<grad_t, s_t>, which is
    E|P_t grad_t|^2 only where nothing is clipped. Equality for Hessian G I. Nothing is said of the gradient of frozen layers.
    Needs, and cannot check: L is G-smooth; no momentum; noise drawn afresh, and only on the layers that are trained.

    Args:
        decrease: f_1 - E f_{T+1}, of size at most 1e140; f_1 - inf f is at least as large.
        learning_rate: eta_t in [1e-70, 1e70]; a number or shape (steps,), like every argument that may be an array.
        steps: T, 1..1e12.
        smoothness: G in [1e-35, 1e35].
        clip_norm: C in [1e-35, 1e35].
        noise_multiplier: sigma, 0 or in [1e-35, 1e35].
        dim: number of parameters trained at step t, 1..1e18: d before freezing, less after.
        batch_size: B, 1..1e12, the number that the sum is divided by.
        second_moment: bound on E|s_t|^2, at most C^2 (1 + (1 - q)/B) for Poisson batches, C^2 for fixed ones; None takes that.
        bias: E<grad_t, b_t>, or less, of size at most 1e140.
        sampling: "poisson" or "fixed", see :mod:`dptheory.convergence`.
        sampling_rate: q of Poisson batches; None takes 0, right for every q. Not allowed with "fixed".

    Returns:
        The terms; ``.value`` is the bound.

    Raises:
        ValueError: an argument outside its range, or a shape that is neither () nor (steps,).

    Source: LF, Lemma 3.1, with what it drops put back (lf.lem3.1, lf.freeze_bound).

    Example: by hand: 1 / (0.1 * 100) for the gap, and 0.1 / 2 each for signal and noise, 400 (1 / 20)^2 = 1.
        >>> from dptheory.convergence import layer_freezing_bound
        >>> bound = layer_freezing_bound(decrease=1.0, learning_rate=0.1, steps=100, smoothness=1.0, clip_norm=1.0,
        ...                              noise_multiplier=1.0, dim=400, batch_size=20, sampling="fixed")
        >>> round(bound.optimization, 4), round(bound.clipping, 4), round(bound.noise, 4)
        (0.1, 0.05, 0.05)
    """
    decrease = _validate.real("decrease", decrease, -ranges.LARGEST_SQUARE, ranges.LARGEST_SQUARE)
    steps = _validate.integer("steps", steps, 1, ranges.MAX_COUNT)
    clip_norm, smoothness = ranges.positive("clip_norm", clip_norm), ranges.positive("smoothness", smoothness)
    noise = noise_term(
        smoothness=smoothness, clip_norm=clip_norm, noise_multiplier=noise_multiplier, dim=1, batch_size=batch_size
    )
    most = batch_second_moment(
        mean_norm=clip_norm,
        second_moment=clip_norm**2,
        batch_size=batch_size,
        sampling=sampling,
        sampling_rate=sampling_rate,
    )
    slack = most * (1 + 1e-12)  # rounding of a mean computed elsewhere
    moments = _validate.per_step("second_moment", most if second_moment is None else second_moment, steps, 0.0, slack)
    dims = _validate.per_step("dim", dim, steps, 1.0, 1e18)
    if not (dims == np.floor(dims)).all():
        raise ArgumentError("dim", "hold integers >= 1 only", dim)
    rates = _validate.per_step("learning_rate", learning_rate, steps, 1e-70, 1e70)
    biases = _validate.per_step("bias", bias, steps, -ranges.LARGEST_SQUARE, ranges.LARGEST_SQUARE)
    share = rates / np.mean(rates)  # of a step in the weighted mean
    return DescentBound(
        optimization=decrease / (steps * float(np.mean(rates))),
        clipping=smoothness / 2 * float(np.mean(share * rates * moments)),
        noise=noise * float(np.mean(share * rates * dims)),
        bias=0.0 - float(np.mean(share * biases)),
    )


# --- The learning rate at which the bound of DP-SGD is least


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


# --- The least squared gradient of a run, in place of the mean


def least_gradient_bound(
    *,
    objective_gap: float,
    learning_rate: float,
    steps: int,
    smoothness: float,
    deviation_norm: float = 0.0,
    sum_noise_std: float = 0.0,
    dim: int | None = None,
    batch_size: int | None = None,
    drop_rate: float = 0.0,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> float:
    r"""Bound on min_t E|grad_t|^2 over the iterates t = 1..T of masked SGD with noise and without clipping.

    With rho and V of :func:`noisy_sgd_bound`, n = T - 1 and u = x (gamma G)^2 V / 4: the least over r in [sqrt(1 - rho), 1] of
    (G Delta + n u (1 + 1/r)) / (1/2 + n (1/2 + rho/4 - (1 - rho)/(4 r) - r/4)), and never more than 2 G Delta. Without noise
    that is G Delta / (1/2 + n (rho/4 + (1 - sqrt(1 - rho))/2)): for long runs a third below the mean at gamma = 1/G without a
    mask. For small steps it is up to 23 % below (at rho T = 1.79), and hardly below where rho T is large. The worst case without
    mask and noise for gamma G <= 1.

    Needs, and cannot check: what :func:`noisy_sgd_bound` needs. Which iterate has the least gradient the run does not tell.

    Args:
        objective_gap, steps, smoothness, deviation_norm, sum_noise_std, dim, batch_size: as for :func:`noisy_sgd_bound`.
        learning_rate: gamma in [1e-70, 2 / ((1 + b) G)).
        drop_rate: share of entries that the mask drops, in [0, 1).
        sampling, sampling_rate: as for :func:`noisy_sgd_bound`.

    Returns:
        The bound, in squared units of the gradient.

    Source: new, on RS, Theorem 3.2; its page says whose result it is without mask and noise (rs.least_gradient).

    Example: by hand: steps of length 1 / G lower the gap by 3/4 of the squared gradient each, the last iterate by half of it.
        >>> from dptheory.convergence import least_gradient_bound, noisy_sgd_bound
        >>> run = dict(objective_gap=1.0, learning_rate=1.0, steps=3, smoothness=1.0, sampling="fixed")
        >>> least_gradient_bound(**run), round(noisy_sgd_bound(**run).value, 4)
        (0.5, 0.6667)
    """
    gap, smoothness = ranges.gap(objective_gap), ranges.positive("smoothness", smoothness)
    deviation_norm, sum_noise_std = (
        ranges.not_negative("deviation_norm", deviation_norm),
        ranges.not_negative("sum_noise_std", sum_noise_std),
    )
    more = _validate.integer("steps", steps, 1, ranges.MAX_COUNT) - 1
    dim = ranges.beside_noise("dim", dim, ranges.MAX_DIM, "sum_noise_std", sum_noise_std)
    batch_size = ranges.beside_noise("batch_size", batch_size, ranges.MAX_COUNT, "sum_noise_std", sum_noise_std)
    growth, spread = (
        batch_second_moment(
            mean_norm=norm, second_moment=1.0, batch_size=batch_size, sampling=sampling, sampling_rate=sampling_rate
        )
        for norm in (1.0, 0.0)
    )
    learning_rate = _validate.real("learning_rate", learning_rate, 1e-70, 2 / (growth * smoothness), ends="[)")
    keep, move = 1 - ranges.drop_rate(drop_rate), learning_rate * smoothness
    rho = min(1.0, keep * move * (2 - growth * move))
    left = 1 - rho
    first = 2 * smoothness * gap
    if more == 0 or gap == 0:
        return first
    kick = more * keep * move**2 * (spread * deviation_norm**2 + dim * (sum_noise_std / batch_size) ** 2) / 4
    still = smoothness * gap + kick
    slope = 1 / 2 + more * (1 / 2 + rho / 4)
    # the least of (still r + kick) / (slope r - more left / 4 - more r^2 / 4), in units of still
    noise, pull = kick / still, left + 4 * slope * (kick / still) / more
    ratio = pull / (noise + math.sqrt(noise**2 + pull)) if pull else 0.0
    ratio = min(1.0, max(math.sqrt(left), ratio))
    if rho > 0.5:
        gain = (2 + rho - (left / ratio if left else 0.0) - ratio) / 4
    else:  # the same without cancellation
        gain = (rho * (1 + 1 / ratio) - (1 - ratio) ** 2 / ratio) / 4
    return min(first, (still + (kick / ratio if kick else 0.0)) / (1 / 2 + more * gain))
