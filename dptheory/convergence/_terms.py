"""The terms of the descent bounds, and the bound on one step."""

import math
from dataclasses import dataclass

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.convergence import _ranges as ranges
from dptheory.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class DescentBound:
    """Upper bound on a stationarity measure, term by term.

    Attributes:
        optimization: the part of the initial gap Delta; falls with T.
        clipping: the part of the clipped gradients' own second moment; where nothing better is known that is
            C^2 (1 + (1 - q) / B) for Poisson batches, 2 C^2 at the defaults, and C^2 for batches of fixed size. Without
            clipping, the part of the deviations.
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
    *,
    mean_norm: float,
    second_moment: float,
    batch_size: int,
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

    Returns:
        The second moment, in squared units of the gradient.

    Source: RS, Lemma 3.1, in place of the C^2 printed there (rs.lem3.1, rs.lem3.4).

    Example: a Poisson batch of 10 can hold more than 10 examples, so that it exceeds the squared clipping norm, 1.
        >>> from dptheory.convergence import batch_second_moment
        >>> [round(batch_second_moment(mean_norm=1.0, second_moment=1.0, batch_size=10, sampling=how), 4)
        ...  for how in ("poisson", "fixed")]
        [1.1, 1.0]
    """
    mean_norm = _validate.size("mean_norm", mean_norm, ranges.SMALLEST, ranges.LARGEST, zero=True)
    least = mean_norm**2 * (1 - 1e-12)  # rounding of a norm computed elsewhere
    second_moment = _validate.real("second_moment", second_moment, least, ranges.LARGEST_SQUARE)
    share = 1 / _validate.integer("batch_size", batch_size, 1, ranges.MAX_COUNT)
    if _validate.choice("sampling", sampling, ("poisson", "fixed")) == "poisson":
        rate = 0.0 if sampling_rate is None else _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
        return mean_norm**2 + (1 - rate) * share * second_moment
    if sampling_rate is not None:
        raise ArgumentError("sampling_rate", "be None with sampling='fixed'", sampling_rate)
    return (1 - share) * mean_norm**2 + share * second_moment


def noise_term(*, smoothness: float, clip_norm: float, noise_multiplier: float, dim: int, batch_size: int) -> float:
    r"""Delta_sigma = C^2 sigma^2 d G / (2 B^2), the noise of a step in units of the bound before learning rate and mask.

    Args:
        smoothness: G in [1e-35, 1e35].
        clip_norm: C in [1e-35, 1e35].
        noise_multiplier: sigma, 0 or in [1e-35, 1e35].
        dim: d, 1..1e18.
        batch_size: B, 1..1e12, the number that the sum is divided by.

    Returns:
        Delta_sigma, in squared units of the gradient times the smoothness.

    Source: RS, Lemma 3.4 (rs.lem3.4); RF, Theorem 2, where it is called Delta_DP (rf.thm2).

    Example: RF's CNN at epsilon 3: the noise of a step is this over 0.005 = 1.3 times the term of clipped gradients.
        >>> from dptheory.convergence import noise_term
        >>> round(noise_term(smoothness=1.0, clip_norm=0.1, noise_multiplier=1.54, dim=550_000, batch_size=1000), 5)
        0.00652
    """
    smoothness, clip_norm = ranges.positive("smoothness", smoothness), ranges.positive("clip_norm", clip_norm)
    noise_multiplier = ranges.not_negative("noise_multiplier", noise_multiplier)
    dim = _validate.integer("dim", dim, 1, ranges.MAX_DIM)
    batch_size = _validate.integer("batch_size", batch_size, 1, ranges.MAX_COUNT)
    return (clip_norm * noise_multiplier / batch_size) ** 2 * dim * smoothness / 2


def alignment_bound(
    *,
    decrease: float,
    learning_rate: float,
    smoothness: float,
    second_moment: float,
    noise_term: float = 0.0,
    drop_rate: float = 0.0,
) -> DescentBound:
    r"""Bound on E<grad, update>, the alignment of the clipped update with the gradient, from the fall of the objective.

    E<grad, update> <= E[L_t - L_{t+1}] / gamma + gamma G M / 2 + (1 - drop_rate) gamma Delta_sigma, where M is any bound on
    E|update|^2 without noise: :func:`batch_second_moment`; C^2 is one for batches of fixed size, not for Poisson batches.
    Equality for L with Hessian G I and M = E|update|^2.

    Needs: L is G-smooth; the noise is independent of the iterate, batch and mask. The mask may be old.

    Args:
        decrease: E[L_t - L_{t+1}] in one step, or its mean over steps; of size at most 1e140.
        learning_rate: gamma in [1e-70, 1e70].
        smoothness: G in [1e-35, 1e35].
        second_moment: M in [0, 1e140], of the update without noise.
        noise_term: Delta_sigma of :func:`noise_term`, in [0, 1e200].
        drop_rate: share of entries that the mask drops, in [0, 1).

    Returns:
        The terms; ``.value`` is the bound.

    Source: RS, Lemmas 3.1 and 3.4 (rs.lem3.1, rs.lem3.4).

    Example: by hand: 0.01 / 0.1 for what the step gained, and 0.1 / 2 for its length.
        >>> from dptheory.convergence import alignment_bound
        >>> round(alignment_bound(decrease=0.01, learning_rate=0.1, smoothness=1.0, second_moment=1.0).value, 4)
        0.15
    """
    decrease = _validate.real("decrease", decrease, -ranges.LARGEST_SQUARE, ranges.LARGEST_SQUARE)
    learning_rate, smoothness = ranges.learning_rate(learning_rate), ranges.positive("smoothness", smoothness)
    second_moment = _validate.real("second_moment", second_moment, 0.0, ranges.LARGEST_SQUARE)
    noise_term, drop_rate = (
        _validate.real("noise_term", noise_term, 0.0, ranges.LARGEST_TERM),
        ranges.drop_rate(drop_rate),
    )
    return DescentBound(
        optimization=decrease / learning_rate,
        clipping=learning_rate * smoothness * second_moment / 2,
        noise=(1 - drop_rate) * learning_rate * noise_term,
        bias=0.0,
    )


# --- Sums of the powers of a number just below 1, without cancellation


def power_sums(gap: float, count: int) -> tuple[float, float]:
    r"""A_n = sum_{t<n} (1 - gap)^t and B_n = sum_{t<n} A_t, n = ``count`` >= 1, gap in [0, 1].

    A_n = (1 - (1 - gap)^n) / gap and B_n = (n - A_n) / gap, but as sums of positive terms, by doubling n:
    A_{2n} = A_n + (1 - gap)^n A_n and B_{2n} = B_n + n A_n + (1 - gap)^n B_n.
    """
    if gap == 1:
        return 1.0, count - 1.0
    slope = math.log1p(-gap)
    first, second, done = 1.0, 0.0, 1
    for bit in bin(count)[3:]:
        power = math.exp(done * slope)
        first, second = first + power * first, second + done * first + power * second
        done *= 2
        if bit == "1":
            first, second = 1 + first - gap * first, second + first
            done += 1
    return first, second


def changing_sums(gaps: Array, kicks: Array) -> tuple[float, float]:
    r"""p_1 / sum_t gap_t and sum_t kick_t p_{t+1} / sum_t gap_t, p_t = 1 - prod_{s>=t} (1 - gap_s), shapes (n,).

    With gap and kick constant they are A_n / n and kick B_n / n of :func:`power_sums`, so their limits where all gaps are 0.
    """
    with np.errstate(divide="ignore"):  # a gap of 1 leaves nothing
        left = np.cumsum(np.log1p(-np.minimum(gaps, 1.0))[::-1])[::-1]  # rounding can lift a gap above 1
    used = np.append(-np.expm1(left), 0.0)
    total = float(gaps.sum())
    if total == 0.0:
        return 1.0, float(kicks @ np.arange(len(kicks) - 1.0, -1.0, -1.0)) / len(kicks)
    return float(used[0]) / total, float((kicks * used[1:]).sum()) / total
