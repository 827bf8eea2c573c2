"""The law of the privacy loss of the index mechanism, on a lattice."""

import math

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy.methods.lattice._loss import LatticeLoss
from dptheory.pruning import SubsetMallows

Array = NDArray[np.float64]

_CUT = 230.0  # nats: three factors of e^-230 do not underflow
_MOST_ENTRIES = 10**7
_POINT_MASS = 300.0  # dispersion above which the mechanism returns its reference, up to e^-500


def loss_law(*, mechanism: SubsetMallows, distance: int | None = None) -> LatticeLoss:
    r"""Law of the privacy loss of two references at Hamming distance ``distance``, on the lattice of step 2 theta.

    With A, B the references, m = distance / 2 = |A \\ B| and I drawn around A, the loss is
    :math:`2\theta(X - Y)`, X = \|I ∩ (A \\ B)\|, Y = \|I ∩ (B \\ A)\|, and

    .. math:: P(x, y) \propto \binom mx\binom my e^{2\theta x}\; [t^{K-x-y}]\,(1 + e^{2\theta}t)^{K-m}(1+t)^{d-K-m} .

    The two orders of the pair have the same law. The pair at the largest distance dominates all others, so its law is the
    one to compose; releases compose as in :meth:`dptheory.privacy.index_sets.LatticeLoss.delta`.

    The counts of X, Y, of the other members and of the other entries of I have binomial weights. Those below e^-230 of their
    largest are left out; ``log_omitted`` is then log(d^3 e^-230 / Z), Z the sum of all products of the four weights, each
    relative to its largest, with the odds tilted so that the mean size of I is K. Where nothing is left out it is -inf.

    Args:
        mechanism: the mechanism.
        distance: even integer in 2..2 max_swaps; None for the largest.

    Returns:
        The law.

    Raises:
        ValueError: an argument outside its range, or a group of more than 1e7 entries.

    Source: GIP, Theorems 1 and 2 (gip.tight).

    Example: by hand: keep one of two at odds 3 : 1. The loss is log 3 three times in four, else -log 3.
        >>> import math
        >>> from dptheory.privacy.index_sets import loss_law
        >>> from dptheory.pruning import SubsetMallows
        >>> law = loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2))
        >>> round(law.spacing, 4), law.low, [round(math.exp(log), 4) for log in law.log_pmf]
        (1.0986, -1, [0.25, 0.0, 0.75])
    """
    _validate.instance("mechanism", mechanism, SubsetMallows)
    if mechanism.dim > _MOST_ENTRIES:
        raise ArgumentError("dim", f"be at most {_MOST_ENTRIES} for the law of a loss", mechanism.dim)
    if distance is None:
        distance = 2 * mechanism.max_swaps
    distance = _validate.integer("distance", distance, 2, 2 * mechanism.max_swaps)
    mechanism.epsilon(distance)  # an odd distance is an error
    m, theta = distance // 2, mechanism.theta
    if theta > _POINT_MASS:
        return LatticeLoss(spacing=2.0 * theta, low=m, log_pmf=np.zeros(1), top=m)
    # A tilt tau of all sizes changes nothing, as |I| is fixed; this one makes K the mean size of independent choices.
    log_tau = _log_size_tilt(mechanism)
    members, others = log_tau + 2.0 * theta, log_tau
    x_low, x_weight, x_cut = _binomial(m, members)
    y_low, y_weight, y_cut = _binomial(m, others)
    in_low, inside, in_cut = _binomial(mechanism.keep - m, members)
    out_low, outside, out_cut = _binomial(mechanism.dim - mechanism.keep - m, others)
    rest_low, rest = in_low + out_low, np.convolve(inside, outside)

    low = x_low - (y_low + y_weight.size - 1)
    law = np.zeros(x_weight.size + y_weight.size - 1)
    for y, weight in enumerate(y_weight, start=y_low):
        # x from x_low on; the rest of I has K - x - y members, which falls as x rises
        first = max(x_low, mechanism.keep - y - (rest_low + rest.size - 1))
        last = min(x_low + x_weight.size - 1, mechanism.keep - y - rest_low)
        if first > last:
            continue
        sizes = rest[mechanism.keep - y - last - rest_low : mechanism.keep - y - first - rest_low + 1][::-1]
        law[first - y - low : last - y - low + 1] += weight * x_weight[first - x_low : last - x_low + 1] * sizes
    total = float(law.sum())
    with np.errstate(divide="ignore"):
        log_pmf = np.log(law / total)
    omitted = (
        3.0 * math.log(mechanism.dim) - _CUT - math.log(total) if x_cut or y_cut or in_cut or out_cut else -math.inf
    )
    return LatticeLoss(spacing=2.0 * theta, low=low, log_pmf=log_pmf, top=m, log_omitted=omitted)


def _log_size_tilt(model: SubsetMallows) -> float:
    """log tau with K p(tau e^(2 theta)) + (d - K) p(tau) = K, p(o) = o / (1 + o)."""
    excess = float(model.dim - 2 * model.keep)
    product = 4.0 * model.keep * (model.dim - model.keep) * math.exp(2.0 * model.theta)
    root = math.sqrt(excess**2 + product)
    if excess >= 0:
        return math.log(2.0 * model.keep / (excess + root))
    return math.log((root - excess) / (2.0 * (model.dim - model.keep))) - 2.0 * model.theta


def _binomial(trials: int, log_odds: float) -> tuple[int, Array, bool]:
    """First value, weights relative to the mode, and whether weights below e^-230 were left out."""
    x = np.arange(trials, dtype=np.float64)
    ratios = np.log((trials - x) / (x + 1.0)) + log_odds
    mode = int(np.count_nonzero(ratios > 0))
    left = -np.cumsum(ratios[:mode][::-1])[::-1]
    logs = np.concatenate([left, [0.0], np.cumsum(ratios[mode:])])
    kept = np.flatnonzero(logs > -_CUT)
    return int(kept[0]), np.exp(logs[kept]), kept.size < logs.size
