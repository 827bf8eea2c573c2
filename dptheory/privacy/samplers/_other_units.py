"""Other ways to draw batches, other units of privacy: users with several records, batches with a largest size."""

import math

import numpy as np
import scipy

from dptheory import _validate
from dptheory.privacy._bounds import DELTA, MAX_STEPS, NOISE, RATE
from dptheory.privacy.methods._closed_forms import gaussian_epsilon
from dptheory.privacy.methods.lattice._epsilon import LEFT_OUT, least_epsilon
from dptheory.privacy.methods.lattice._rising_loss import RisingLoss, mixed, sampled_loss

MAX_RECORDS = 1000
_SHARE = LEFT_OUT / 2  # of delta: the largest outputs; numbers of records that are never drawn together


def user_epsilon_upper_bound(
    *, noise_multiplier: float, sampling_rate: float, steps: int, delta: float, records_per_user: int
) -> float:
    r"""Epsilon of a user with several records, added or removed together: Poisson-subsampled Gaussian steps.

    The number of the user's records in a batch is binomial. The worst data have them all alike, so that a step is

    .. math:: \sum_j \binom kj q^j (1-q)^{k-j} N(j / \sigma, 1) \quad\text{against}\quad N(0, 1)

    or the reverse. This pair is attained: what the bound is too high is what the lattice costs, in general less than 1 %.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm of a record, in [0.05, 1000].
        sampling_rate: of each record, in [1e-8, 1].
        steps: 1 to 10^6.
        delta: in [1e-30, 0.99].
        records_per_user: the most records that a user has, 1 to 1000.

    Returns:
        The upper bound; inf where it has no answer.

    Source: not of the five papers; proved in proofs/privacy/other_samplers.md.

    Example: four records cost more than four times as much as one, at the same delta.
        >>> from dptheory.privacy.samplers import user_epsilon_upper_bound
        >>> run = {"noise_multiplier": 2.0, "sampling_rate": 0.02, "steps": 100, "delta": 1e-5}
        >>> [round(user_epsilon_upper_bound(**run, records_per_user=k), 2) for k in (1, 4)]
        [0.4, 1.87]
    """
    sigma, q, steps, delta = _checked(noise_multiplier, sampling_rate, steps, delta)
    k = _validate.integer("records_per_user", records_per_user, 1, MAX_RECORDS)
    if q == 1.0:
        return gaussian_epsilon(k * math.sqrt(steps) / sigma, delta)
    hits = np.arange(k + 1, dtype=np.float64)
    hits = hits[
        scipy.stats.binom.sf(hits - 1, k, q) > _SHARE * delta / steps
    ]  # without the others P has less mass, Q is no larger
    none = np.zeros(hits.size)
    none[0] = 1.0
    remove = RisingLoss(hits / sigma, scipy.stats.binom.pmf(hits, k, q), none)
    return max(_epsilon([(1.0, one)], steps, delta) for one in (remove, remove.reversed()))


def truncated_epsilon_upper_bound(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    train_size: int,
    max_batch_size: int,
) -> float:
    r"""Epsilon of Gaussian steps on Poisson batches that are cut to a largest size by dropping records at random.

    One record more or less. Where the other records fill a batch, which has a probability p that does not depend on the
    record, it takes the place of another one: a change of up to 2 / sigma. A step is one of two, and told which:

    .. math:: (1-q) N(0,1) + q N(1/\sigma, 1) \text{ with probability } 1 - p, \qquad
              (1-q') N(0,1) + q' N(2/\sigma, 1) \text{ with } p, \qquad \text{against } N(0,1),

    q' the chance to be in a batch that the others fill; or the reverse. The larger of both. Nobody is told in fact, so that the
    bound may be too high: 1.7 times where 4 records are cut to 2.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.05, 1000].
        sampling_rate: before batches are cut, in [1e-8, 1].
        steps: 1 to 10^6.
        delta: in [1e-30, 0.99].
        train_size: number of records with the one in question; whole, 2 to 10^9.
        max_batch_size: the largest size of a batch; whole, 1 to train_size.

    Returns:
        The upper bound; inf where it has no answer.

    Source: not of the five papers; proved in proofs/privacy/other_samplers.md.

    Example: a mean batch of 1,000; cutting at 1,150 is seldom and costs next to nothing, at 1,000 it happens every other time.
        >>> from dptheory.privacy.samplers import truncated_epsilon_upper_bound
        >>> run = {"noise_multiplier": 1.0, "sampling_rate": 0.02, "steps": 1000, "delta": 1e-5, "train_size": 50_000}
        >>> [round(truncated_epsilon_upper_bound(**run, max_batch_size=most), 2) for most in (1150, 1000)]
        [3.9, 17.61]
    """
    sigma, q, steps, delta = _checked(noise_multiplier, sampling_rate, steps, delta)
    n = _validate.integer("train_size", train_size, 2, 10**9)
    most = _validate.integer("max_batch_size", max_batch_size, 1, n)
    others_fill = float(scipy.stats.binom.sf(most - 1, n - 1, q))
    # in the batch, given that the others fill it: by symmetry max_batch_size of the n records are, if more than that are drawn
    within = min(1.0, float(scipy.stats.binom.sf(most, n, q)) * most / n / others_fill) if others_fill > 0.0 else 0.0
    plain, replaced = sampled_loss(sigma, q, "remove"), sampled_loss(sigma / 2, within, "remove")
    return max(
        _epsilon([(1 - others_fill, a), (others_fill, b)], steps, delta)
        for a, b in ((plain, replaced), (plain.reversed(), replaced.reversed()))
    )


def _checked(
    noise_multiplier: float, sampling_rate: float, steps: int, delta: float
) -> tuple[float, float, int, float]:
    return (
        _validate.real("noise_multiplier", noise_multiplier, *NOISE),
        _validate.real("sampling_rate", sampling_rate, *RATE),
        _validate.integer("steps", steps, 1, MAX_STEPS),
        _validate.real("delta", delta, *DELTA),
    )


def _epsilon(parts: list[tuple[float, RisingLoss]], steps: int, delta: float) -> float:
    """The least epsilon that surely suffices for steps that are one of these, and say which."""
    log_above = math.log(_SHARE * delta / steps)
    kept = [(share, loss.cells(log_above)) for share, loss in parts if share > 0.0]
    if all(cells.losses[-1] <= 0.0 for _, cells in kept):
        return 0.0  # what has a loss above 0 is left out, and less likely than delta
    span = max(float(max(np.ptp(cells.losses), cells.losses[-1])) for _, cells in kept)  # the losses may be all alike
    return least_epsilon(lambda h: mixed([(share, cells.from_above(h)) for share, cells in kept]), span, steps, delta)
