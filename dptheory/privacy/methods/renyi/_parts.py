"""Upper bounds of delta and epsilon of steps of several kinds by the sum of their Renyi curves; that of index sets with values."""

import functools
import math

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import MAX_RELEASES, RENYI, Direction
from dptheory.privacy._parts import Apart, IndexSteps, JointStep, MaskedStep, Part, Parts, Step, Steps
from dptheory.privacy.methods._closed_forms import LEAST
from dptheory.privacy.methods._log_sum import log_sum
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods.lattice._index_law import index_renyi
from dptheory.privacy.methods.renyi import _conversion as _renyi
from dptheory.privacy.methods.renyi._curves import ORDERS, subsampled_gaussian_rdp
from dptheory.privacy.methods.saddle._brackets import bins
from dptheory.pruning import SubsetMallows

Array = NDArray[np.float64]

MAX_ORDER = 10_000
_MOST_KINDS = 512
"""Curves of steps: more kinds are binned, as a curve takes some milliseconds."""


class Renyi:
    """The sum of the Renyi curves: quick, never far off, never close; add/remove alone."""

    name = RENYI

    def serves(self, parts: Parts, direction: Direction) -> bool:
        return direction != "replace" and all(isinstance(part, Step) for part in parts)

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        return Bracket(0.0, renyi_delta(steps, epsilon))

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        return Bracket(0.0, renyi_epsilon(steps, delta))


def renyi_epsilon(parts: Parts, delta: float) -> float:
    return _renyi.epsilon_from_rdp(orders=ORDERS, rdp=_curve(parts), delta=delta)


def renyi_delta(parts: Parts, epsilon: float) -> float:
    """The least delta whose ``conversion`` gives at most epsilon."""
    orders, curve = np.array(ORDERS, dtype=np.float64), _curve(parts)
    logs = (orders - 1) * (curve + np.log1p(-1 / orders) - epsilon) - np.log(orders)
    return max(math.exp(min(0.0, float(logs.min()))), LEAST)


@functools.lru_cache(maxsize=64)
def _curve(parts: Parts) -> Array:
    steps = tuple(part for part in parts if isinstance(part, Step))
    others = [part for part in parts if not isinstance(part, Step)]
    curves = [_part_curve(part) for part in (*others, *bins(steps, upper=True, most=_MOST_KINDS))]
    return np.array([math.fsum(column) for column in zip(*curves, strict=True)])


@functools.lru_cache(maxsize=1024)
def _part_curve(part: Part) -> Array:
    if isinstance(part, IndexSteps):
        return part.steps * part.groups * index_renyi(part.mechanism, np.array(ORDERS, dtype=np.float64))
    assert not isinstance(part, Apart)  # has methods of its own
    sampled = {"orders": ORDERS, "sampling_rate": part.sampling_rate, "noise_multiplier": part.noise_multiplier}
    if isinstance(part, MaskedStep):
        return part.count * part.mask.rdp(**sampled)  # type: ignore[arg-type]
    if isinstance(part, JointStep):
        return part.count * joint_rdp(**sampled, mechanism=part.mechanism, groups=part.groups)  # type: ignore[arg-type]
    return part.count * subsampled_gaussian_rdp(**sampled)  # type: ignore[arg-type]


def joint_rdp(
    *, orders: ArrayLike, sampling_rate: float, noise_multiplier: float, mechanism: SubsetMallows, groups: int = 1
) -> Array:
    r"""Exact Renyi curve of the worst pair for one step of GIP: the index sets of all groups and the noisy sum, one sample.

    .. math:: e^{(a-1)R_a} = \sum_{i=0}^a \binom ai (1-q)^{a-i}q^i\, e^{(i-1)GD_i}\, e^{i(i-1)/(2\sigma^2)}

    D_i is the Renyi divergence of one group's index set at the largest distance. At most eps_2 + the curve of
    :func:`subsampled_gaussian_rdp`, and at least the sum of the two parts, each amplified on its own: that sum is invalid.

    Args:
        orders: whole numbers in 2..10000, any shape.
        sampling_rate: q in [0, 1].
        noise_multiplier: sigma in (0, inf]; inf releases the index sets alone.
        mechanism: index mechanism of one group.
        groups: number of groups, 1..1e12.

    Returns:
        Array of the shape of orders; inf where the divergence overflows.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: order 2, one sample for both: more than the sum of the two curves, each amplified on its own.
        >>> from dptheory.privacy import subsampled_gaussian_rdp
        >>> from dptheory.privacy.index_sets import joint_rdp
        >>> from dptheory.pruning import SubsetMallows
        >>> sampled = dict(orders=[2], sampling_rate=0.01)
        >>> joint = joint_rdp(**sampled, noise_multiplier=1.0, mechanism=SubsetMallows(256, 26, theta=0.05))
        >>> alone = joint_rdp(**sampled, noise_multiplier=float("inf"), mechanism=SubsetMallows(256, 26, theta=0.05))
        >>> (1e6 * joint).round(1), (1e6 * (alone + subsampled_gaussian_rdp(**sampled, noise_multiplier=1.0))).round(1)
        (array([185.5]), array([176.9]))
    """
    groups = _validate.integer("groups", groups, 1, MAX_RELEASES)
    mechanism = _validate.instance("mechanism", mechanism, SubsetMallows)
    order = _validate.finite("orders", orders)
    if order.size == 0 or not ((order >= 2) & (order <= MAX_ORDER) & (order == np.floor(order))).all():
        raise ArgumentError("orders", f"hold whole numbers in 2..{MAX_ORDER}", orders)
    rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="(]")
    i = np.arange(2.0, float(order.max()) + 1.0)
    with np.errstate(over="ignore", divide="ignore"):
        log_moments = (i - 1.0) * groups * index_renyi(mechanism, i) + i * (i - 1.0) / 2.0 / sigma / sigma
        # log(moment - 1): the binomial weights sum to 1, so e^((a-1) R) - 1 = sum over i >= 2 of weight * (moment - 1)
        log_excess = log_moments + np.log(-np.expm1(-log_moments))
    log_factorials = scipy.special.gammaln(np.arange(1.0, float(order.max()) + 2.0))
    values = [_log_mean(int(a), rate, log_excess, log_factorials) / (a - 1.0) for a in order.ravel()]
    return np.array(values).reshape(order.shape)


def _log_mean(order: int, rate: float, log_excess: Array, log_factorials: Array) -> float:
    """log(1 + sum_{i=2}^order Binomial(order, rate)(i) e^log_excess(i))."""
    i = np.arange(2.0, order + 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        fails = np.where(i < order, (order - i) * np.log1p(-rate), 0.0)
        choices = log_factorials[order] - log_factorials[2 : order + 1] - log_factorials[order - 2 :: -1]
        weights = choices + i * np.log(rate) + fails
    possible = np.isfinite(weights)  # rate 0 or 1; a weight of 0 takes an overflown moment with it
    if not possible.any():
        return 0.0
    total = log_sum(weights[possible] + log_excess[: order - 1][possible])
    return total + math.log1p(math.exp(-total)) if total > 0 else math.log1p(math.exp(total))
