"""What the divisor |B| of Algorithm 1 gives away: two sizes of a batch told apart, and a drawn size that is published."""

import math

import numpy as np
import scipy

from dptheory import _validate
from dptheory._arrays import Array

_LARGEST_BATCH = 10**9


def divisor_kl(*, batch_size: int, other_batch_size: int, keep: int) -> float:
    r"""KL divergence of the noise in batches of two sizes b and b': N(0, (s/b)^2) from N(0, (s/b')^2) in k entries.

    .. math:: \frac k2\Big(\rho - 1 - \log\rho\Big), \qquad \rho = (b'/b)^2

    About k / b^2 for b' = b + 1 and for b' = b - 1: the square of the sensitivity 1 over the variance with which k entries of
    pure noise tell b. The noise multiplier and the clip cancel.

    Args:
        batch_size: batch size b of the first law, 1..10^9.
        other_batch_size: batch size b' of the second, 1..10^9.
        keep: number k of entries that have noise and a sum of zero, 0..10^12.

    Returns:
        The divergence in nats.

    Source: RS, Algorithm 1, lines 5 and 6 (rs.alg1.divisor).

    Example: about k / b^2 = 1.
        >>> from dptheory.sparsification import divisor_kl
        >>> round(divisor_kl(batch_size=1000, other_batch_size=1001, keep=1_000_000), 3)
        1.0
    """
    log_ratio, keep = _log_ratio(batch_size, other_batch_size, keep)
    return keep / 2 * _above_tangent(log_ratio)


def divisor_renyi(*, order: float, batch_size: int, other_batch_size: int, keep: int) -> float:
    r"""Renyi divergence of order a of the same two laws.

    .. math:: -\frac k2\Big(\log\rho + \frac{\log(a - (a-1)\rho)}{a-1}\Big), \qquad \rho = (b'/b)^2

    Infinite for b' > b from order rho / (rho - 1) on, however small k >= 1: for b' = b + 1 that is (b + 1)^2 / (2b + 1).

    Args:
        order: a > 1, finite.
        batch_size, other_batch_size, keep: as for :func:`divisor_kl`.

    Returns:
        The divergence in nats; inf as said above.

    Source: RS, Algorithm 1, lines 5 and 6 (rs.alg1.divisor).

    Example: about k / b^2 times the order, and infinite from order (b + 1)^2 / (2 b + 1) = 501 on.
        >>> from dptheory.sparsification import divisor_renyi
        >>> [round(divisor_renyi(order=a, batch_size=1000, other_batch_size=1001, keep=1_000_000), 3) for a in (2.0, 501.0)]
        [2.002, inf]
    """
    order = _validate.real("order", order, 1.0, ends="()")
    log_ratio, keep = _log_ratio(batch_size, other_batch_size, keep)
    if keep == 0 or log_ratio == 0.0:
        return 0.0
    excess = (order - 1.0) * math.expm1(log_ratio)  # a - (a - 1) rho = 1 - excess
    if excess >= 1.0:
        return math.inf
    # log1p(-excess) = -excess - its distance to the tangent; what is left of log rho is another. Neither cancels.
    return keep / 2 * (_above_tangent(log_ratio) + _below_tangent(excess) / (order - 1.0))


def divisor_delta(*, epsilon: float, batch_size: int, other_batch_size: int, keep: int) -> float:
    r"""The smallest delta >= P(S) - e^epsilon P'(S) over all sets S, for the same two laws, exactly.

    With chi-square's distribution function F_k and tail Q_k, :math:`\tau = (2\epsilon + k\log\rho)/(\rho - 1)`:

    .. math:: \delta = Q_k(\tau) - e^\epsilon Q_k(\rho\tau) \;(\rho > 1),\qquad
        F_k(\tau) - e^\epsilon F_k(\rho\tau) \;(\rho < 1)

    Tends to 1 as k grows, at every epsilon: no budget covers it.

    Args:
        epsilon: in [0, 500].
        batch_size, other_batch_size, keep: as for :func:`divisor_kl`.

    Returns:
        delta, in [0, 1].

    Source: RS, Algorithm 1, lines 5 and 6 (rs.alg1.divisor).

    Example: a million entries of pure noise tell a batch of 1000 from one of 1001, whatever the noise.
        >>> from dptheory.sparsification import divisor_delta
        >>> [round(divisor_delta(epsilon=1.0, batch_size=1000, other_batch_size=1001, keep=keep), 3)
        ...  for keep in (1000, 10**6, 10**7)]
        [0.0, 0.286, 0.959]
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, 500.0)
    log_ratio, keep = _log_ratio(batch_size, other_batch_size, keep)
    if keep == 0 or log_ratio == 0.0:
        return 0.0
    tau = (2.0 * epsilon + keep * log_ratio) / math.expm1(log_ratio)
    if tau <= 0.0:  # rho < 1 and epsilon above the largest loss
        return 0.0
    law = scipy.special.chdtrc if log_ratio > 0 else scipy.special.chdtr
    first, second = float(law(keep, tau)), float(law(keep, math.exp(log_ratio) * tau))
    return max(0.0, first - math.exp(epsilon) * second)


def average_sensitivity(*, batch_size: int, clip_norm: float) -> float:
    r"""How far one example that joins a batch of ``batch_size`` moves the average of clipped gradients, at most.

    .. math:: \Big\lVert\frac{S + g}{b+1} - \frac Sb\Big\rVert = \frac{\lVert g - S/b\rVert}{b+1} \le \frac{2C}{b+1}

    Attained by g = -S/b of norm C: twice what the noise of the sum, divided by b + 1, is made for.

    Args:
        batch_size: b in 1..10^9, without the example.
        clip_norm: C in [1e-70, 1e70].

    Returns:
        The distance, in units of the gradient.

    Source: RS, Algorithm 1, line 5 (rs.alg1.divisor).

    Example: by hand: 2 / 1000, twice what noise for the sum is made for.
        >>> from dptheory.sparsification import average_sensitivity
        >>> average_sensitivity(batch_size=999, clip_norm=1.0)
        0.002
    """
    batch_size = _validate.integer("batch_size", batch_size, 1, _LARGEST_BATCH)
    return 2.0 * _validate.size("clip_norm", clip_norm) / (batch_size + 1.0)


def published_size_delta(*, epsilon: float, train_size: int, sampling_rate: float, shift: float) -> float:
    r"""delta of a Poisson-sampled noisy sum published together with the drawn batch size \|B\|, exactly; worst direction.

    With the N examples common to both worlds, p = Binomial(N, q), and L the likelihood ratio of N(shift, 1) against N(0, 1),

    .. math:: \frac{P}{Q}(b, y) = (1-q)\Big(1 + \frac{b}{N - b + 1} L(y)\Big)\;(b \le N),
        \qquad P(b = N + 1) = q^{N+1},

    where the sum alone has :math:`1 - q + qL`. Over all gradients the largest shift is 2 / sigma. With it this is the account
    of division by \|B\|, which the published pair allows to compute, and which tells \|B\| as the number of entries grows.

    Args:
        epsilon: in [0, 500].
        train_size: N, those in both worlds, 0..10^7; only likely batch sizes cost time.
        sampling_rate: q in [0, 1].
        shift: distance, in standard deviations sigma C of the noise, between the noisy sums of one batch size with the example
            and without it, >= 0: 2 / sigma for the worst gradients, 1 / sigma if only the example's is not zero, 0 for \|B\|
            alone, where delta at epsilon = 0 is q max p.

    Returns:
        delta, in [0, 1].

    Source: RS, Algorithm 1, lines 3 to 6 (rs.alg1.divisor).

    Example: at epsilon 0, with nothing but the batch size, it is q times the largest chance of a size: 0.5 * 184756 / 2^20.
        >>> from dptheory.sparsification import published_size_delta
        >>> round(published_size_delta(epsilon=0.0, train_size=20, sampling_rate=0.5, shift=0.0), 4)
        0.0881
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, 500.0)
    count = _validate.integer("train_size", train_size, 0, 10**7)
    rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    shift = _validate.real("shift", shift, 0.0, 1e6)
    if rate == 0.0 or rate == 1.0:  # no example is drawn; the batch size tells the worlds apart
        return rate
    size = _likely_sizes(count, rate)
    chances = _binomial(size, count, rate)
    weight = (1.0 - rate) * size / (count - size + 1.0)  # of L; the rest is 1 - q
    above = float(chances @ _excess(math.expm1(epsilon) + rate, weight, shift))
    # 1 - e^eps (1 - q + w L) = e^eps (e^-eps - (1 - q) - w L)
    below = float(chances @ _shortfall(math.expm1(-epsilon) + rate, weight, shift)) * math.exp(epsilon)
    alone = math.exp((count + 1) * math.log(rate))  # b = N + 1
    return min(1.0, max(0.0, above + alone, below))


def _log_ratio(size: int, other: int, kept: int) -> tuple[float, int]:
    """log (b' / b)^2, and k."""
    size = _validate.integer("batch_size", size, 1, _LARGEST_BATCH)
    other = _validate.integer("other_batch_size", other, 1, _LARGEST_BATCH)
    return 2.0 * math.log1p((other - size) / size), _validate.integer("keep", kept, 0, 10**12)


def _above_tangent(x: float) -> float:
    """e^x - 1 - x."""
    if abs(x) > 1e-2:
        return math.expm1(x) - x
    return x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6))))


def _below_tangent(x: float) -> float:
    """-x - log(1 - x), for x < 1."""
    if abs(x) > 1e-2:
        return -x - math.log1p(-x)
    return x * x * sum(x**j / (j + 2) for j in range(8))


def _likely_sizes(count: int, rate: float) -> Array:
    """Sizes whose chances matter: beyond 40 standard deviations and 400 they are below 1e-300 in sum."""
    spread = 40.0 * math.sqrt(count * rate * (1.0 - rate)) + 400.0
    return np.arange(max(0, math.floor(count * rate - spread)), min(count, math.ceil(count * rate + spread)) + 1.0)


def _binomial(size: Array, count: int, rate: float) -> Array:
    logs = (
        scipy.special.gammaln(count + 1.0)
        - scipy.special.gammaln(size + 1.0)
        - scipy.special.gammaln(count - size + 1.0)
    )
    weights = np.exp(logs + scipy.special.xlogy(size, rate) + scipy.special.xlog1py(count - size, -rate))
    return np.asarray(weights / weights.sum())


def _excess(level: float, weight: Array, shift: float) -> Array:
    """E max(0, w L - level) under N(0, 1), for level > 0."""
    if shift == 0.0:
        return np.maximum(weight - level, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        cut = np.log(level / weight) / shift  # where w L = level, from the middle of the two means
    return np.asarray(
        np.maximum(weight * scipy.special.ndtr(shift / 2 - cut) - level * scipy.special.ndtr(-shift / 2 - cut), 0.0)
    )


def _shortfall(level: float, weight: Array, shift: float) -> Array:
    """E max(0, level - w L) under N(0, 1); 0 for level <= 0."""
    if level <= 0.0:
        return np.zeros_like(weight)
    if shift == 0.0:
        return np.maximum(level - weight, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        cut = np.log(level / weight) / shift
    return np.asarray(
        np.maximum(level * scipy.special.ndtr(cut + shift / 2) - weight * scipy.special.ndtr(cut - shift / 2), 0.0)
    )
