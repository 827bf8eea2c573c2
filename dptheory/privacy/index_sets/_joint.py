"""Epsilon of index sets and noisy values released from one Poisson sample, and the dispersion that a budget pays for."""

import functools
import math
from collections.abc import Sequence

import numpy as np

from dptheory import _validate, pruning
from dptheory.errors import ArgumentError
from dptheory.privacy import _bounds, _composition
from dptheory.privacy._bounds import MAX_RELEASES
from dptheory.privacy._parts import IndexSteps, index_epsilon, index_zcdp_rho
from dptheory.privacy.index_sets import _budgets as _index
from dptheory.privacy.index_sets._budgets import largest_theta
from dptheory.privacy.methods._added import joint_epsilon, least_sum, split_delta
from dptheory.privacy.methods._closed_forms import gaussian_epsilon
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.lattice._index_law import IndexLoss
from dptheory.privacy.methods.renyi import _conversion as _renyi
from dptheory.privacy.methods.renyi._curves import ORDERS
from dptheory.privacy.methods.renyi._parts import MAX_ORDER, joint_rdp
from dptheory.privacy.methods.renyi._sampled import sampled_renyi_epsilon
from dptheory.pruning import SubsetMallows

_MAX_SHIFT = 1e100
MAX_EPSILON = 1e6


def run_epsilon(
    *, releases: Sequence[IndexSteps], sampling_rate: float, noise_multiplier: float, delta: float
) -> float:
    """Epsilon of a run of GIP, index sets and noisy sums, by :func:`joint_epsilon` with the accountant's values.

    Where all steps share one index mechanism, the second bound takes the exact epsilon of the index sets instead of zCDP's.

    Args:
        releases: the steps of the run, one or more; their dispersion, K and groups may change.
        sampling_rate: q in [0, 1].
        noise_multiplier: sigma of the values, in (0, inf].
        delta: in (0, 1).

    Returns:
        Upper bound on epsilon; inf where theta = inf reveals the index sets.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: ten full-batch steps: the index sets add little to what the noisy sums spend.
        >>> from dptheory.privacy import IndexSteps
        >>> from dptheory.privacy.index_sets import run_epsilon
        >>> from dptheory.pruning import SubsetMallows
        >>> [round(run_epsilon(releases=[IndexSteps(steps=10, mechanism=SubsetMallows(256, 26, theta=theta))], sampling_rate=1.0,
        ...                    noise_multiplier=10.0, delta=1e-5), 3) for theta in (0.0, 1e-3)]
        [1.199, 1.255]
    """
    rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="(]")
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    if not isinstance(releases, Sequence) or not releases or not all(isinstance(one, IndexSteps) for one in releases):
        raise ArgumentError("releases", "hold one or more IndexSteps", releases)
    steps = sum(one.steps for one in releases)
    if _chance_to_join(rate, steps) <= delta:
        return 0.0
    curve = np.sum(
        [
            one.steps
            * joint_rdp(
                orders=ORDERS, sampling_rate=rate, noise_multiplier=sigma, mechanism=one.mechanism, groups=one.groups
            )
            for one in releases
        ],
        axis=0,
    )

    @functools.cache
    def values(share: float) -> float:
        return values_epsilon(delta=share, sampling_rate=rate, noise_multiplier=sigma, steps=steps)

    found = joint_epsilon(
        delta=delta,
        values=values,
        index_epsilon=index_epsilon(tuple(releases)),
        index_zcdp_rho=index_zcdp_rho(tuple(releases)),
        orders=ORDERS,
        rdp=curve,
    )
    count = sum(one.steps * one.groups for one in releases)
    if len({one.mechanism for one in releases}) > 1 or count > MAX_RELEASES or math.isinf(releases[0].mechanism.theta):
        return found
    law = IndexLoss(releases[0].mechanism)  # of one mechanism the index sets are composed exactly
    return least_sum(delta, values, lambda mine: law.epsilon(delta=mine, count=count), found, values(delta))


def values_epsilon(*, delta: float, sampling_rate: float, noise_multiplier: float, steps: int) -> float:
    """Upper bound on epsilon of the noisy sums alone, Poisson sampling, add-remove; for every noise and number of steps.

    That of :func:`dptheory.privacy.epsilon_bounds` within its ranges and next to them; at most that without sampling, and that
    of the Renyi curve.

    Args:
        delta: in (0, 1).
        sampling_rate: q in [0, 1].
        noise_multiplier: sigma in (0, inf].
        steps: >= 1.

    Returns:
        The upper bound.

    Source: GIP, Lemma 1 (gip.lem1, gip.thm2).

    Example: ten full-batch steps of noise 10 are one of noise 10 / sqrt(10).
        >>> from dptheory.privacy import gaussian_epsilon
        >>> from dptheory.privacy.index_sets import values_epsilon
        >>> round(values_epsilon(delta=1e-5, sampling_rate=1.0, noise_multiplier=10.0, steps=10), 4)
        1.1994
        >>> round(gaussian_epsilon(10**-0.5, 1e-5), 4)
        1.1994
    """
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="(]")
    steps = _validate.integer("steps", steps, 1)
    if math.isinf(sigma) or _chance_to_join(rate, steps) <= delta:
        return 0.0
    shift = math.sqrt(steps) / sigma
    bounds = [gaussian_epsilon(shift, delta) if shift <= _MAX_SHIFT else math.inf]
    least_noise, most_noise = _bounds.NOISE
    if sigma >= least_noise and steps <= _bounds.MAX_STEPS and delta >= _bounds.DELTA[0]:
        # less noise, more examples and a smaller delta only cost more
        found = _composition.epsilon_bounds(
            noise_multiplier=min(sigma, most_noise),
            sampling_rate=max(rate, _bounds.RATE[0]),
            steps=steps,
            delta=min(delta, _bounds.DELTA[1]),
        )
        bounds.append(found.upper)
    else:
        bounds.append(sampled_renyi_epsilon(Loss("remove", sigma, rate), steps, delta))
    return min(bounds)


def _chance_to_join(rate: float, steps: int) -> float:
    """Chance that the example joins a batch at all: where delta covers it, the run is (0, delta)-private."""
    return 1.0 if rate == 1.0 else -math.expm1(steps * math.log1p(-rate))


def _orders(epsilon: float, delta: float) -> tuple[int, ...]:
    """:data:`ORDERS`, and larger ones up to a few times the best order of a Gaussian with this epsilon."""
    best = -2.0 * math.log(delta) / epsilon if epsilon > 0.0 else math.inf
    orders = list(ORDERS)
    while orders[-1] < min(4.0 * best, MAX_ORDER):
        orders.append(min(math.ceil(1.25 * orders[-1]), MAX_ORDER))
    return tuple(orders)


def theta_for_joint_budget(
    *,
    epsilon: float,
    delta: float,
    dim: int,
    keep: int,
    sampling_rate: float,
    noise_multiplier: float,
    steps: int = 1,
    groups: int = 1,
) -> float:
    r"""Dispersion with which a whole run of GIP, index sets and noisy sums, is (epsilon, delta)-private.

    The largest that one of the bounds of :func:`joint_epsilon` affords. So never less than basic composition gives:
    :math:`\theta \ge (\epsilon - \epsilon_v) / (T G s)`, epsilon_v what the noisy sums spend alone.

    Args:
        epsilon: budget of the run, in (0, 1e6].
        delta: in (0, 1).
        dim, keep: size of one group and number kept in it, 1 <= keep < dim.
        sampling_rate: q in [0, 1].
        noise_multiplier: sigma of the values, in (0, inf].
        steps, groups: 1..1e12.

    Returns:
        theta > 0; inf where an example joins a batch so seldom that delta covers it.

    Raises:
        ValueError: an argument outside its range, or values that spend the budget alone.

    Source: GIP, Theorem 2 (gip.thm2, gip.tight).

    Example: ten full-batch steps, of which the noisy sums alone spend 1.2 of a budget of 2.
        >>> from dptheory.privacy.index_sets import theta_for_joint_budget
        >>> round(theta_for_joint_budget(epsilon=2.0, delta=1e-5, dim=256, keep=26, sampling_rate=1.0, noise_multiplier=10.0,
        ...                              steps=10), 4)
        0.0245
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, MAX_EPSILON, ends="(]")
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="(]")
    pure = pruning.theta_for_budget(epsilon=epsilon, dim=dim, keep=keep, steps=steps, groups=groups)  # checks the rest
    dim, keep = _validate.integer("dim", dim, 2), _validate.integer("keep", keep, 1)
    steps, groups = _validate.integer("steps", steps, 1), _validate.integer("groups", groups, 1)
    if _chance_to_join(rate, steps) <= delta:
        return math.inf
    alone = values_epsilon(delta=delta, sampling_rate=rate, noise_multiplier=sigma, steps=steps)
    if alone >= epsilon:
        raise ArgumentError("epsilon", f"exceed what the values spend alone, {alone:.6g}", epsilon)
    start = pure * ((epsilon - alone) / epsilon) * (1.0 - 1e-12)
    parts = [(delta, delta)] if math.isinf(sigma) else split_delta(delta)  # without values there is nothing to share
    best = (0.0, 0.0, 0.0)  # what zCDP affords; epsilon and delta of the index sets
    for mine, rest in parts:
        left = epsilon - values_epsilon(delta=rest, sampling_rate=rate, noise_multiplier=sigma, steps=steps)
        if left > 0.0:
            theta = _index.theta_for_delta_budget(
                epsilon=left, delta=mine, dim=dim, keep=keep, steps=steps, groups=groups, method="zcdp"
            )
            best = max(best, (theta, left, mine))
    if best[0] > 0.0:
        method: _index.Method = "exact" if steps * groups <= MAX_RELEASES else "zcdp"
        start = max(
            start,
            _index.theta_for_delta_budget(
                epsilon=best[1], delta=best[2], dim=dim, keep=keep, steps=steps, groups=groups, method=method
            ),
        )
    orders = _orders(epsilon, delta)

    def spent(theta: float) -> float:
        curve = joint_rdp(
            orders=orders,
            sampling_rate=rate,
            noise_multiplier=sigma,
            mechanism=SubsetMallows(dim, keep, theta=theta),
            groups=groups,
        )
        return _renyi.epsilon_from_rdp(orders=orders, rdp=steps * curve, delta=delta)

    return largest_theta(spent, epsilon, start)
