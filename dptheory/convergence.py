r"""Descent bounds for SGD with clipping, noise and random masks, as sums of their terms.

Notation: w_t the iterate, grad its true gradient, gamma the learning rate, G the smoothness of the objective, x = 1 - rate
the share of entries that a mask keeps, C the clipping norm, sigma the noise multiplier (noise N(0, C^2 sigma^2 I) on the sum
of B clipped gradients, B the batch size), T the number of steps, Delta = E L(w_1) - inf L.

All statements are expectations over the iterates of plain steps w_{t+1} = w_t - gamma * update (no momentum), with batch
and noise drawn afresh at every step. What no function can check is named in the docstrings.

``sampling`` says how a batch is drawn: "poisson", every example with probability ``sampling_rate`` q, the sum divided by the
expected size B = qN; or "fixed", B examples drawn independently or without replacement, the sum divided by B. |update| <= C
holds for "fixed" alone: a Poisson batch can be larger than B, and E|update|^2 reaches C^2 (1 + (1 - q) / B). The default is
"poisson" at an unknown rate, q = 0, which is right for every rate and for "fixed". Division by the drawn size is not offered:
the noise term would need E[1 / size^2], and the size would have to be released.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory._power_sums import power_sums

_MAX_COUNT, _MAX_DIM = 10**12, 10**18
# with these limits the products of all arguments of a bound neither over- nor underflow
_SMALLEST, _LARGEST, _LARGEST_SQUARE, _LARGEST_TERM = 1e-35, 1e35, 1e140, 1e200


@dataclass(frozen=True)
class DescentBound:
    """Upper bound on a stationarity measure, term by term.

    Attributes:
        optimization: the part of the initial gap Delta; falls with T.
        clipping: the part of the clipped gradients' own second moment; C^2 where nothing better is known.
        noise: the part of the injected noise.
        bias: minus the mean bias, the price of a deviation law that is not symmetric.
    """

    optimization: float
    clipping: float
    noise: float
    bias: float

    @property
    def value(self) -> float:
        """The bound: the sum of its terms."""
        return self.optimization + self.clipping + self.noise + self.bias


def batch_second_moment(
    mean_norm: float,
    second_moment: float,
    batch_size: int,
    *,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> float:
    r"""E|update|^2 of a batch of clipped gradients: |E g|^2 + (1 - q) E|g|^2 / B for Poisson batches.

    For batches of fixed size (1 - 1/B) |E g|^2 + E|g|^2 / B. With |g| <= C the first is at most C^2 (1 + (1 - q) / B), the second
    at most C^2; both are reached where all g are equal. Exact for Poisson batches and for B independent draws given the iterate
    (and mask, if there is one); an upper bound for B drawn without replacement.

    Args:
        mean_norm: |E g|, norm of the mean clipped gradient, 0 or in [1e-35, 1e35].
        second_moment: E|g|^2 of one clipped gradient, at least mean_norm^2, up to 1e140.
        batch_size: B, 1..1e12, the number that the sum is divided by; for Poisson batches the expected size.
        sampling: "poisson" or "fixed".
        sampling_rate: q in [0, 1] of Poisson batches; None takes 0, right for every q. Not allowed with "fixed".

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Lemma 3.1, in place of the C^2 printed there (rs.lem3.1, rs.lem3.4).
    """
    mean_norm = _validate.size("mean_norm", mean_norm, _SMALLEST, _LARGEST, zero=True)
    least = mean_norm**2 * (1 - 1e-12)  # rounding of a norm computed elsewhere
    second_moment = _validate.real("second_moment", second_moment, least, _LARGEST_SQUARE)
    share = 1 / _validate.integer("batch_size", batch_size, 1, _MAX_COUNT)
    if _validate.choice("sampling", sampling, ("poisson", "fixed")) == "poisson":
        rate = 0.0 if sampling_rate is None else _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
        return mean_norm**2 + (1 - rate) * share * second_moment
    if sampling_rate is not None:
        raise ValueError(f"sampling_rate must be None with sampling='fixed', got {sampling_rate!r}")
    return (1 - share) * mean_norm**2 + share * second_moment


def noise_term(smoothness: float, clip: float, noise_multiplier: float, dim: int, batch_size: int) -> float:
    r"""Delta_sigma = C^2 sigma^2 d G / (2 B^2), the noise of a step in units of the bound before learning rate and mask.

    Args:
        smoothness: G in [1e-35, 1e35].
        clip: C in [1e-35, 1e35].
        noise_multiplier: sigma, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18.
        batch_size: B, 1..1e12, the number that the sum is divided by.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Lemma 3.4 (rs.lem3.4); RF, Theorem 2, where it is called Delta_DP (rf.thm2).
    """
    smoothness, clip = _positive("smoothness", smoothness), _positive("clip", clip)
    noise_multiplier = _not_negative("noise_multiplier", noise_multiplier)
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    batch_size = _validate.integer("batch_size", batch_size, 1, _MAX_COUNT)
    return (clip * noise_multiplier / batch_size) ** 2 * dim * smoothness / 2


def alignment_bound(
    decrease: float,
    learning_rate: float,
    smoothness: float,
    second_moment: float,
    noise: float = 0.0,
    rate: float = 0.0,
) -> DescentBound:
    r"""Bound on E<grad, update>, the alignment of the clipped update with the gradient, from the fall of the objective.

    E<grad, update> <= E[L_t - L_{t+1}] / gamma + gamma G M / 2 + (1 - rate) gamma Delta_sigma, where M is any bound on
    E|update|^2 without noise: :func:`batch_second_moment`; C^2 is one for batches of fixed size, not for Poisson batches.
    Equality for L with Hessian G I and M = E|update|^2.

    Needs: L is G-smooth; the noise is independent of the iterate, batch and mask. The mask may be old.

    Args:
        decrease: E[L_t - L_{t+1}] in one step, or its mean over steps; of size at most 1e140.
        learning_rate: gamma in [1e-70, 1e70].
        smoothness: G in [1e-35, 1e35].
        second_moment: M in [0, 1e140], of the update without noise.
        noise: Delta_sigma of :func:`noise_term`, in [0, 1e200].
        rate: share of entries that the mask drops, in [0, 1).

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Lemmas 3.1 and 3.4 (rs.lem3.1, rs.lem3.4).
    """
    decrease = _validate.real("decrease", decrease, -_LARGEST_SQUARE, _LARGEST_SQUARE)
    learning_rate, smoothness = _learning_rate(learning_rate), _positive("smoothness", smoothness)
    second_moment = _validate.real("second_moment", second_moment, 0.0, _LARGEST_SQUARE)
    noise, rate = _validate.real("noise", noise, 0.0, _LARGEST_TERM), _rate(rate)
    return DescentBound(
        optimization=decrease / learning_rate,
        clipping=learning_rate * smoothness * second_moment / 2,
        noise=(1 - rate) * learning_rate * noise,
        bias=0.0,
    )


def dpsgd_bound(
    objective_gap: float,
    learning_rate: float,
    steps: int,
    smoothness: float,
    clip: float,
    noise_multiplier: float = 0.0,
    dim: int = 1,
    batch_size: int = 1,
    rate: float = 0.0,
    kappa: float | None = None,
    bias: float = 0.0,
    second_moment: float | None = None,
    *,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> DescentBound:
    r"""Bound on (1/T) sum_t E[P_t h_t |grad_t|] for DP-SGD whose gradients are masked, then clipped, then noised.

    (1/kappa) (Delta / (gamma T) + gamma G M / 2 + (1 - rate) gamma Delta_sigma - bias), where for a fixed z in (0, 1)
    P_t = P(|xi| < z C) and h_t = min(|grad_t|, (1 - z) C): z = 3/4 in RS, z = 1/4 in RF. M is C^2 (1 + (1 - q) / B) for Poisson
    batches and C^2 for batches of fixed size. Rate 0 is DP-SGD, noise multiplier 0 is clipped SGD.

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
        clip: C in [1e-35, 1e35].
        noise_multiplier: sigma, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise.
        batch_size: B, 1..1e12, the number that the sum is divided by.
        rate: share of entries that the mask drops, in [0, 1).
        kappa: sum_t E[P'_t h'_t |mask * grad_t|] / sum_t E[P_t h_t |grad_t|], at least 1 - rate, and 1 for rate 0;
            None takes 1 - rate, with which the bound holds whatever kappa is; at most 1e70.
        bias: mean of the bias over the steps, of size at most 1e140.
        second_moment: bound on the mean of E|update without noise|^2, at most the M above; None takes that.
        sampling: "poisson" or "fixed", see the head of this module.
        sampling_rate: q of Poisson batches; None takes 0, right for every q. Not allowed with "fixed".

    Returns:
        The terms; ``.value`` is the bound.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Theorems 3.3, 3.4 and 3.5 (rs.thm3.3, rs.thm3.4, rs.thm3.5); RF, Theorem 2 (rf.thm2).
    """
    objective_gap = _gap(objective_gap)
    steps, clip, rate = _validate.integer("steps", steps, 1, _MAX_COUNT), _positive("clip", clip), _rate(rate)
    bias = _validate.real("bias", bias, -_LARGEST_SQUARE, _LARGEST_SQUARE)
    most = batch_second_moment(clip, clip**2, batch_size, sampling=sampling, sampling_rate=sampling_rate)
    slack = most * (1 + 1e-12)  # rounding of a mean computed elsewhere
    second_moment = most if second_moment is None else _validate.real("second_moment", second_moment, 0.0, slack)
    kappa = _kappa(kappa, rate)
    noise = noise_term(smoothness, clip, noise_multiplier, dim, batch_size)
    step = alignment_bound(objective_gap / steps, learning_rate, smoothness, second_moment, noise, rate)
    return DescentBound(step.optimization / kappa, step.clipping / kappa, step.noise / kappa, -bias / kappa)


def noisy_sgd_bound(
    objective_gap: float,
    learning_rate: float,
    steps: int,
    smoothness: float,
    deviation: float = 0.0,
    noise_std: float = 0.0,
    dim: int = 1,
    batch_size: int = 1,
    rate: float = 0.0,
    *,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> DescentBound:
    r"""Bound on (1/T) sum_t E|grad_t|^2 for masked SGD with noise and without clipping, t = 1..T.

    The worst case, attained by L = G |w|^2 / 2 for every T: with b = (1 - q) / B, rho = x gamma G (2 - (1 + b) gamma G),
    V = b s^2 + d sigma^2 / B^2, A_n = sum_{t<n} (1 - rho)^t and B_n = sum_{t<n} A_t it is
    2 G Delta A_T / T + x (gamma G)^2 V B_T / T. Batches of fixed size have b = 0 in rho and s^2 / B in V. As T -> inf, A_T and
    B_T / T tend to 1 / rho.

    Needs, and cannot check: L is G-smooth and bounded below; no momentum; at every step a fresh mask, independent of the
    iterate, a fresh batch, and fresh noise. L is the mean over the examples that a Poisson batch is drawn from; the deviations
    of a batch of fixed size have mean zero and are uncorrelated given the iterate.

    Args:
        objective_gap: Delta in [0, 1e140].
        learning_rate: gamma in [1e-70, 2 / ((1 + b) G)); the paper takes 1/(G sqrt T).
        steps: T, 1..1e12.
        smoothness: G in [1e-35, 1e35].
        deviation: s with E|g_i - grad|^2 <= s^2, 0 or in [1e-35, 1e35].
        noise_std: standard deviation sigma of an entry of the noise on the sum of the batch, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18, counted only where there is noise.
        batch_size: B, 1..1e12, the number that the sum is divided by.
        rate: share of entries that the mask drops, in [0, 1).
        sampling: "poisson" or "fixed", see the head of this module.
        sampling_rate: q of Poisson batches; None takes 0, right for every q. Not allowed with "fixed".

    Returns:
        The terms; ``clipping`` is the part of the sampling deviation, ``bias`` is 0.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Theorem 3.2, with the constants that its proof gives away (rs.thm3.2).
    """
    objective_gap = _gap(objective_gap)
    smoothness = _positive("smoothness", smoothness)
    deviation, noise_std = _not_negative("deviation", deviation), _not_negative("noise_std", noise_std)
    steps = _validate.integer("steps", steps, 1, _MAX_COUNT)
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    batch_size = _validate.integer("batch_size", batch_size, 1, _MAX_COUNT)
    # of the gradient itself, and of the deviations
    growth = batch_second_moment(1.0, 1.0, batch_size, sampling=sampling, sampling_rate=sampling_rate)
    spread = batch_second_moment(0.0, 1.0, batch_size, sampling=sampling, sampling_rate=sampling_rate)
    learning_rate = _validate.real("learning_rate", learning_rate, 1e-70, 2 / (growth * smoothness), ends="[)")
    keep, move = 1 - _rate(rate), learning_rate * smoothness
    first, second = power_sums(keep * move * (2 - growth * move), steps)
    per_variance = keep * move**2 * second / steps
    return DescentBound(
        optimization=2 * smoothness * objective_gap * first / steps,
        clipping=per_variance * spread * deviation**2,
        noise=per_variance * dim * (noise_std / batch_size) ** 2,
        bias=0.0,
    )


def layer_freezing_bound(
    decrease: float,
    learning_rate: ArrayLike,
    steps: int,
    smoothness: float,
    clip: float,
    noise_multiplier: float,
    dim: ArrayLike,
    batch_size: int,
    second_moment: ArrayLike | None = None,
    bias: ArrayLike = 0.0,
    *,
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
        clip: C in [1e-35, 1e35].
        noise_multiplier: sigma, 0 or in [1e-35, 1e35].
        dim: number of parameters trained at step t, 1..1e18: d before freezing, less after.
        batch_size: B, 1..1e12, the number that the sum is divided by.
        second_moment: bound on E|s_t|^2, at most C^2 (1 + (1 - q)/B) for Poisson batches, C^2 for fixed ones; None takes that.
        bias: E<grad_t, b_t>, or less, of size at most 1e140.
        sampling: "poisson" or "fixed", see the head of this module.
        sampling_rate: q of Poisson batches; None takes 0, right for every q. Not allowed with "fixed".

    Raises:
        ValueError: an argument outside its range, or a shape that is neither () nor (steps,).

    Source: LF, Lemma 3.1, with what it drops put back (lf.lem3.1, lf.freeze_bound).
    """
    decrease = _validate.real("decrease", decrease, -_LARGEST_SQUARE, _LARGEST_SQUARE)
    steps = _validate.integer("steps", steps, 1, _MAX_COUNT)
    clip = _positive("clip", clip)
    noise = noise_term(smoothness, clip, noise_multiplier, 1, batch_size)
    most = batch_second_moment(clip, clip**2, batch_size, sampling=sampling, sampling_rate=sampling_rate)
    slack = most * (1 + 1e-12)  # rounding of a mean computed elsewhere
    moments = _validate.per_step("second_moment", most if second_moment is None else second_moment, steps, 0.0, slack)
    dims = _validate.per_step("dim", dim, steps, 1.0, 1e18)
    if not (dims == np.floor(dims)).all():
        raise ValueError(f"dim must hold integers >= 1 only, got {dim!r}")
    rates = _validate.per_step("learning_rate", learning_rate, steps, 1e-70, 1e70)
    share = rates / np.mean(rates)  # of a step in the weighted mean
    return DescentBound(
        optimization=decrease / (steps * float(np.mean(rates))),
        clipping=smoothness / 2 * float(np.mean(share * rates * moments)),
        noise=noise * float(np.mean(share * rates * dims)),
        bias=0.0 - float(np.mean(share * _validate.per_step("bias", bias, steps, -_LARGEST_SQUARE, _LARGEST_SQUARE))),
    )


def privacy_term(
    epsilon: float, delta: float, clip: float, dim: int, samples: int, constant: float, rate: float = 0.0
) -> float:
    r"""What sqrt(T) is multiplied by in the bound of :func:`private_bound`: x d C^2 u^2 log(1/delta) / (2 N^2 eps^2).

    The batch size cancels: the noise multiplier u (B/N) sqrt(T log(1/delta)) / eps grows with it.

    Args:
        epsilon: in [1e-35, 1e35]; inf is allowed and gives 0.
        delta: in (0, 1).
        clip: C in [1e-35, 1e35].
        dim: d, 1..1e18.
        samples: N, 1..1e12, size of the data set.
        constant: u in [1e-35, 1e35] of the moments accountant's theorem.
        rate: share of entries that the mask drops, in [0, 1).

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Corollary C.1.1, with q = B/N put in (rs.cor_c11).
    """
    if epsilon != math.inf:
        epsilon = _positive("epsilon", epsilon)
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    clip, constant = _positive("clip", clip), _positive("constant", constant)
    dim = _validate.integer("dim", dim, 1, _MAX_DIM)
    samples = _validate.integer("samples", samples, 1, _MAX_COUNT)
    return (1 - _rate(rate)) * dim * (clip * constant / samples / epsilon) ** 2 * math.log(1 / delta) / 2


def private_bound(
    objective_gap: float,
    steps: int,
    smoothness: float,
    clip: float,
    noise_per_root_step: float,
    rate: float = 0.0,
    kappa: float | None = None,
    *,
    batch_size: int = 1,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> DescentBound:
    r"""The bound of :func:`dpsgd_bound` at a privacy budget and gamma = 1/(G sqrt T), zero bias.

    (1/kappa) [(G Delta + M / 2) / sqrt T + D sqrt T] with D = :func:`privacy_term`; M = C^2 (1 + (1 - q) / B) for Poisson
    batches, C^2 for batches of fixed size. It falls up to T = (G Delta + M/2) / D and grows without bound after it.

    Needs what :func:`dpsgd_bound` needs, and the accountant's condition eps < v q^2 T, whose constant v is not given.

    Args:
        objective_gap: Delta in [0, 1e140].
        steps: T, 1..1e12.
        smoothness: G in [1e-35, 1e35].
        clip: C in [1e-35, 1e35].
        noise_per_root_step: D, mask included, 0 or in [1e-100, 1e200].
        rate: share of entries that the mask drops, in [0, 1), for the default of kappa.
        kappa: as in :func:`dpsgd_bound`.
        batch_size: B, 1..1e12: of the noise it cancels, and counts in M alone.
        sampling, sampling_rate: as in :func:`dpsgd_bound`.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Corollary C.1.1, with q = B/N put in (rs.cor_c11).
    """
    root = math.sqrt(_validate.integer("steps", steps, 1, _MAX_COUNT))
    noise = _noise_per_root_step(noise_per_root_step)
    still = dpsgd_bound(
        objective_gap,
        1 / (_positive("smoothness", smoothness) * root),
        steps,
        smoothness,
        clip,
        batch_size=batch_size,
        rate=rate,
        kappa=kappa,
        sampling=sampling,
        sampling_rate=sampling_rate,
    )
    return DescentBound(still.optimization, still.clipping, noise * root / _kappa(kappa, rate), 0.0)


def optimal_steps(
    objective_gap: float,
    smoothness: float,
    clip: float,
    noise_per_root_step: float,
    *,
    batch_size: int = 1,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
) -> float:
    r"""T* = max(1, (G Delta + M/2) / D), where :func:`private_bound` is smallest; inf without noise (D = 0).

    A real number: the best integer is one of its two neighbours, because the bound falls before T* and grows after it. There
    the two parts are equal, and the bound is 2 sqrt((G Delta + M/2) D) / kappa.

    Args and errors: as :func:`private_bound`.

    Source: RS, Corollary C.1.1, with q = B/N put in (rs.cor_c11).
    """
    clip = _positive("clip", clip)
    moment = batch_second_moment(clip, clip**2, batch_size, sampling=sampling, sampling_rate=sampling_rate)
    falling = _positive("smoothness", smoothness) * _gap(objective_gap) + moment / 2
    noise = _noise_per_root_step(noise_per_root_step)
    return max(1.0, falling / noise) if noise else math.inf


def _positive(name: str, value: float) -> float:
    return _validate.size(name, value, _SMALLEST, _LARGEST)


def _not_negative(name: str, value: float) -> float:
    return _validate.size(name, value, _SMALLEST, _LARGEST, zero=True)


def _gap(objective_gap: float) -> float:
    return _validate.size("objective_gap", objective_gap, 1 / _LARGEST_SQUARE, _LARGEST_SQUARE, zero=True)


def _learning_rate(learning_rate: float) -> float:
    return _validate.size("learning_rate", learning_rate)


def _noise_per_root_step(value: float) -> float:
    return _validate.size("noise_per_root_step", value, 1e-100, _LARGEST_TERM, zero=True)


def _rate(rate: float) -> float:
    return _validate.real("rate", rate, 0.0, 1.0, ends="[)")


def _kappa(kappa: float | None, rate: float) -> float:
    """``kappa`` within its range, or the least value in it; 1e-12 is for rounding."""
    least = 1 - rate
    if kappa is None:
        return least
    return _validate.real("kappa", kappa, least * (1 - 1e-12), 1.0 if rate == 0 else 1e70)
