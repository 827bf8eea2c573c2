r"""Descent bounds for SGD with clipping, noise and random masks, as sums of their terms.

Notation: w_t the iterate, grad its true gradient, gamma the learning rate, G the smoothness of the objective, x = 1 - rate
the share of entries that a mask keeps, C the clipping norm, sigma the noise multiplier (noise N(0, C^2 sigma^2 I) on the sum
of B clipped gradients, B the batch size), T the number of steps, Delta = E L(w_1) - inf L.

All statements are expectations over the iterates of plain steps w_{t+1} = w_t - gamma * update (no momentum), with batch
and noise drawn afresh at every step. What no function can check is named in the docstrings.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptheory import _validate


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


def batch_second_moment(mean_norm: float, second_moment: float, batch_size: int) -> float:
    r"""E|average of B clipped gradients|^2 = (1 - 1/B) |E g|^2 + E|g|^2 / B, at most C^2.

    Exact for B gradients that are independent given the iterate; an upper bound for a batch drawn without replacement.

    Args:
        mean_norm: |E g|, norm of the mean clipped gradient, >= 0.
        second_moment: E|g|^2 of one clipped gradient, at least mean_norm^2.
        batch_size: B >= 1.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Lemma 3.1, in place of the C^2 printed there (rs.lem3.1, rs.lem3.4).
    """
    mean_norm = _validate.real("mean_norm", mean_norm, 0.0, ends="[)")
    least = mean_norm**2 * (1 - 1e-12)  # rounding of a norm computed elsewhere
    second_moment = _validate.real("second_moment", second_moment, least, ends="[)")
    share = 1 / _validate.integer("batch_size", batch_size, 1)
    return (1 - share) * mean_norm**2 + share * second_moment


def noise_term(smoothness: float, clip: float, noise_multiplier: float, dim: int, batch_size: int) -> float:
    r"""Delta_sigma = C^2 sigma^2 d G / (2 B^2), the noise of a step in units of the bound before learning rate and mask.

    Args:
        smoothness: G > 0.
        clip: C > 0.
        noise_multiplier: sigma >= 0.
        dim: d >= 1.
        batch_size: B >= 1.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Lemma 3.4 (rs.lem3.4); RF, Theorem 2, where it is called Delta_DP (rf.thm2).
    """
    smoothness, clip = _positive("smoothness", smoothness), _positive("clip", clip)
    noise_multiplier = _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="[)")
    dim, batch_size = _validate.integer("dim", dim, 1), _validate.integer("batch_size", batch_size, 1)
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
    E|update|^2: C^2, or :func:`batch_second_moment`. Equality for L with Hessian G I.

    Needs: L is G-smooth; the noise is independent of the iterate, batch and mask. The mask may be old.

    Args:
        decrease: E[L_t - L_{t+1}] in one step, or its mean over steps; any finite number.
        learning_rate: gamma > 0.
        smoothness: G > 0.
        second_moment: M >= 0, of the update without noise.
        noise: Delta_sigma of :func:`noise_term`, >= 0.
        rate: share of entries that the mask drops, in [0, 1).

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Lemmas 3.1 and 3.4 (rs.lem3.1, rs.lem3.4).
    """
    decrease = _validate.real("decrease", decrease, -math.inf, ends="()")
    learning_rate, smoothness = _positive("learning_rate", learning_rate), _positive("smoothness", smoothness)
    second_moment = _validate.real("second_moment", second_moment, 0.0, ends="[)")
    noise, rate = _validate.real("noise", noise, 0.0, ends="[)"), _rate(rate)
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
) -> DescentBound:
    r"""Bound on (1/T) sum_t E[P_t h_t |grad_t|] for DP-SGD whose gradients are masked, then clipped, then noised.

    (1/kappa) (Delta / (gamma T) + gamma G C^2 / 2 + (1 - rate) gamma Delta_sigma - bias), where for a fixed z in (0, 1)
    P_t = P(|xi| < z C) and h_t = min(|grad_t|, (1 - z) C): z = 3/4 in RS, z = 1/4 in RF. Rate 0 is DP-SGD, noise multiplier 0
    is clipped SGD.

    Needs, and cannot check: L is G-smooth and bounded below; no momentum; at every step a fresh mask, independent of the
    iterate, and fresh noise; P_t is taken under a law that is symmetric given the iterate, and ``bias`` is the mean of
    E<mask * grad, clipped> under the true law of the deviations minus that under the symmetric one. A mask held over
    many steps breaks the bound.

    Args:
        objective_gap: Delta >= 0.
        learning_rate: gamma > 0.
        steps: T >= 1.
        smoothness: G > 0.
        clip: C > 0.
        noise_multiplier: sigma >= 0.
        dim: d >= 1, counted only where there is noise.
        batch_size: B >= 1, likewise.
        rate: share of entries that the mask drops, in [0, 1).
        kappa: sum_t E[P'_t h'_t |mask * grad_t|] / sum_t E[P_t h_t |grad_t|], at least 1 - rate, and 1 for rate 0;
            None takes 1 - rate, with which the bound holds whatever kappa is.
        bias: mean of the bias over the steps, any finite number.
        second_moment: bound on the mean of E|update without noise|^2, in [0, C^2]; None takes C^2.

    Returns:
        The terms; ``.value`` is the bound.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Theorems 3.3, 3.4 and 3.5 (rs.thm3.3, rs.thm3.4, rs.thm3.5); RF, Theorem 2 (rf.thm2).
    """
    objective_gap = _validate.real("objective_gap", objective_gap, 0.0, ends="[)")
    steps, clip, rate = _validate.integer("steps", steps, 1), _positive("clip", clip), _rate(rate)
    bias = _validate.real("bias", bias, -math.inf, ends="()")
    most = clip**2 * (1 + 1e-12)  # rounding of a mean computed elsewhere
    second_moment = clip**2 if second_moment is None else _validate.real("second_moment", second_moment, 0.0, most)
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
) -> DescentBound:
    r"""Bound on (1/T) sum_t E|grad_t|^2 for masked SGD with noise and without clipping.

    [Delta / ((1 - rate) gamma T) + gamma G (s^2 / B + d sigma^2 / B^2) / 2] / (1 - gamma G / 2). At gamma = 1/(G sqrt T) this is
    the printed bound divided by 2 - 1/sqrt T. Equality up to E L_{T+1} - inf L for L with Hessian G I.

    Needs, and cannot check: L is G-smooth and bounded below; no momentum; at every step a fresh mask, independent of the
    iterate, a fresh batch whose deviations have mean zero and are uncorrelated, and fresh noise.

    Args:
        objective_gap: Delta >= 0.
        learning_rate: gamma in (0, 2/G); the paper takes 1/(G sqrt T).
        steps: T >= 1.
        smoothness: G > 0.
        deviation: s >= 0 with E|g_i - grad|^2 <= s^2.
        noise_std: standard deviation sigma >= 0 of an entry of the noise on the sum of the batch.
        dim: d >= 1, counted only where there is noise.
        batch_size: B >= 1.
        rate: share of entries that the mask drops, in [0, 1).

    Returns:
        The terms; ``clipping`` is the part of the sampling deviation, ``bias`` is 0.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Theorem 3.2, with the constant that its proof gives away (rs.thm3.2).
    """
    objective_gap = _validate.real("objective_gap", objective_gap, 0.0, ends="[)")
    smoothness = _positive("smoothness", smoothness)
    learning_rate = _validate.real("learning_rate", learning_rate, 0.0, 2 / smoothness, ends="()")
    deviation = _validate.real("deviation", deviation, 0.0, ends="[)")
    noise_std = _validate.real("noise_std", noise_std, 0.0, ends="[)")
    steps, dim = _validate.integer("steps", steps, 1), _validate.integer("dim", dim, 1)
    batch_size = _validate.integer("batch_size", batch_size, 1)
    factor = 1 - learning_rate * smoothness / 2
    half = learning_rate * smoothness / 2 / factor
    return DescentBound(
        optimization=objective_gap / ((1 - _rate(rate)) * learning_rate * steps * factor),
        clipping=half * deviation**2 / batch_size,
        noise=half * dim * (noise_std / batch_size) ** 2,
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
) -> DescentBound:
    r"""Bound on sum_t eta_t E|P_t grad_t|^2 / sum_t eta_t, P_t grad_t the gradient of the layers trained at step t, for DP-SGD.

    [f_1 - E f_{T+1} - sum eta_t E<grad_t, b_t> + (G/2) sum eta_t^2 (E|s_t|^2 + d_t tau^2)] / sum eta_t with s_t the mean of the
    clipped gradients, tau = sigma C / B, b_t = E s_t - P_t grad_t the clipping bias. Without ``bias`` it bounds the mean of
    E<grad_t, s_t>. Equality for Hessian G I. Nothing is said of the gradient of frozen layers. Needs, and cannot check: L is
    G-smooth; no momentum; noise drawn afresh, and only on the layers that are trained.

    Args:
        decrease: f_1 - E f_{T+1}, any finite number; f_1 - inf f is at least as large.
        learning_rate: eta_t in [1e-70, 1e70]; a number or shape (steps,), like every argument that may be an array.
        steps: T >= 1.
        smoothness: G > 0.
        clip: C > 0.
        noise_multiplier: sigma >= 0.
        dim: number of parameters trained at step t, >= 1: d before freezing, less after.
        batch_size: B >= 1, the number that the sum is divided by.
        second_moment: bound on E|s_t|^2, up to (1 + 1/B) C^2; None takes C^2, but Poisson batches need (1 + (1 - q)/B) C^2.
        bias: E<grad_t, b_t>, any finite numbers.

    Raises:
        ValueError: an argument outside its range, or a shape that is neither () nor (steps,).

    Source: LF, Lemma 3.1, with what it drops put back (lf.lem3.1, lf.freeze_bound).
    """
    decrease = _validate.real("decrease", decrease, -math.inf, ends="()")
    steps = _validate.integer("steps", steps, 1)
    noise = noise_term(smoothness, clip, noise_multiplier, 1, batch_size)
    most = clip**2 * (1 + 1 / batch_size) * (1 + 1e-12)  # rounding of a mean computed elsewhere
    moments = _per_step("second_moment", clip**2 if second_moment is None else second_moment, steps, 0.0, most)
    dims = _per_step("dim", dim, steps, 1.0)
    if not (dims == np.floor(dims)).all():
        raise ValueError(f"dim must hold integers >= 1 only, got {dim!r}")
    rates = _per_step("learning_rate", learning_rate, steps, 1e-70, 1e70)
    share = rates / np.mean(rates)  # of a step in the weighted mean
    return DescentBound(
        optimization=decrease / (steps * float(np.mean(rates))),
        clipping=smoothness / 2 * float(np.mean(share * rates * moments)),
        noise=noise * float(np.mean(share * rates * dims)),
        bias=0.0 - float(np.mean(share * _per_step("bias", bias, steps))),
    )


def privacy_term(
    epsilon: float, delta: float, clip: float, dim: int, samples: int, constant: float, rate: float = 0.0
) -> float:
    r"""What sqrt(T) is multiplied by in the bound of :func:`private_bound`: x d C^2 u^2 log(1/delta) / (2 N^2 eps^2).

    The batch size cancels: the noise multiplier u (B/N) sqrt(T log(1/delta)) / eps grows with it.

    Args:
        epsilon: > 0; inf is allowed and gives 0.
        delta: in (0, 1).
        clip: C > 0.
        dim: d >= 1.
        samples: N >= 1, size of the data set.
        constant: u > 0 of the moments accountant's theorem.
        rate: share of entries that the mask drops, in [0, 1).

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Corollary C.1.1, with q = B/N put in (rs.cor_c11).
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="(]")
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    clip, constant = _positive("clip", clip), _positive("constant", constant)
    dim, samples = _validate.integer("dim", dim, 1), _validate.integer("samples", samples, 1)
    return (1 - _rate(rate)) * dim * (clip * constant / samples / epsilon) ** 2 * math.log(1 / delta) / 2


def private_bound(
    objective_gap: float,
    steps: int,
    smoothness: float,
    clip: float,
    noise_per_root_step: float,
    rate: float = 0.0,
    kappa: float | None = None,
) -> DescentBound:
    r"""The bound of :func:`dpsgd_bound` at a privacy budget and gamma = 1/(G sqrt T), zero bias.

    (1/kappa) [(G Delta + C^2 / 2) / sqrt T + D sqrt T] with D = :func:`privacy_term`. It falls up to T = (G Delta + C^2/2) / D
    and grows without bound after it.

    Needs what :func:`dpsgd_bound` needs, and the accountant's condition eps < v q^2 T, whose constant v is not given.

    Args:
        objective_gap: Delta >= 0.
        steps: T >= 1.
        smoothness: G > 0.
        clip: C > 0.
        noise_per_root_step: D >= 0, mask included.
        rate: share of entries that the mask drops, in [0, 1), for the default of kappa.
        kappa: as in :func:`dpsgd_bound`.

    Raises:
        ValueError: an argument outside its range.

    Source: RS, Corollary C.1.1, with q = B/N put in (rs.cor_c11).
    """
    root = math.sqrt(_validate.integer("steps", steps, 1))
    noise = _validate.real("noise_per_root_step", noise_per_root_step, 0.0, ends="[)")
    step_size = 1 / (_positive("smoothness", smoothness) * root)
    still = dpsgd_bound(objective_gap, step_size, steps, smoothness, clip, rate=rate, kappa=kappa)
    return DescentBound(still.optimization, still.clipping, noise * root / _kappa(kappa, rate), 0.0)


def optimal_steps(objective_gap: float, smoothness: float, clip: float, noise_per_root_step: float) -> float:
    r"""T* = max(1, (G Delta + C^2/2) / D), where :func:`private_bound` is smallest; inf without noise (D = 0).

    A real number: the best integer is one of its two neighbours, because the bound falls before T* and grows after it. There
    the two parts are equal, and the bound is 2 sqrt((G Delta + C^2/2) D) / kappa.

    Args and errors: as :func:`private_bound`.

    Source: RS, Corollary C.1.1, with q = B/N put in (rs.cor_c11).
    """
    gap = _validate.real("objective_gap", objective_gap, 0.0, ends="[)")
    falling = _positive("smoothness", smoothness) * gap + _positive("clip", clip) ** 2 / 2
    noise = _validate.real("noise_per_root_step", noise_per_root_step, 0.0, ends="[)")
    return max(1.0, falling / noise) if noise else math.inf


def _positive(name: str, value: float) -> float:
    return _validate.real(name, value, 0.0, ends="()")


def _per_step(
    name: str, value: ArrayLike, steps: int, low: float = -math.inf, high: float = math.inf
) -> NDArray[np.float64]:
    """``value`` as an array of shape () or (steps,), finite and within ``low..high``."""
    array = _validate.finite(name, value)
    if array.shape not in ((), (steps,)) or not ((array >= low) & (array <= high)).all():
        raise ValueError(
            f"{name} must be a number in {low:g}..{high:g}, or one for each of {steps} steps, got {value!r}"
        )
    return array


def _rate(rate: float) -> float:
    return _validate.real("rate", rate, 0.0, 1.0, ends="[)")


def _kappa(kappa: float | None, rate: float) -> float:
    """``kappa`` within its range, or the least value in it; 1e-12 is for rounding."""
    least = 1 - rate
    if kappa is None:
        return least
    return _validate.real("kappa", kappa, least * (1 - 1e-12), 1.0 if rate == 0 else math.inf)
