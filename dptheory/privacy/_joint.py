"""Index and values released from one Poisson sample, and random-k under a fresh public mask."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from dptheory import _validate, pruning
from dptheory.privacy import _accountant, _gaussian, _index, _renyi
from dptheory.privacy._largest_theta import largest_theta
from dptheory.privacy._lattice_loss import MAX_RELEASES
from dptheory.privacy._log_sum import log_sum
from dptheory.pruning import SubsetMallows

Array = NDArray[np.float64]

_MAX_ORDER = 10_000
ORDERS = (*range(2, 64), *range(64, 128, 4), *range(128, 257, 16))
"""Orders at which a budget is accounted for."""
_SHARES = (0.001, 0.01, 0.1, 0.5)  # of delta, for the index sets
_MAX_SHIFT = 1e100


def subsampled_gaussian_rdp(orders: ArrayLike, sampling_rate: float, noise_multiplier: float) -> Array:
    r"""Renyi curve of one DP-SGD step: Poisson sampling, one example added or removed, noise sigma C on the sum.

    .. math:: e^{(a-1)R_a} = \sum_{i=0}^a \binom ai (1-q)^{a-i}q^i e^{i(i-1)/(2\sigma^2)}

    This is D_a(with the example, without it), and bounds the other direction.

    Args:
        orders: whole numbers in 2..10000, any shape.
        sampling_rate: q in [0, 1].
        noise_multiplier: sigma in (0, inf].

    Returns:
        Array of the shape of orders; inf where the divergence overflows.

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Lemma 1 (gip.lem1).
    """
    return _joint(orders, sampling_rate, noise_multiplier, lambda order: np.zeros(order.shape))


def joint_rdp(
    orders: ArrayLike, sampling_rate: float, noise_multiplier: float, model: SubsetMallows, groups: int = 1
) -> Array:
    r"""Exact Renyi curve of the worst pair for one step of GIP: the index sets of all groups and the noisy sum, one sample.

    .. math:: e^{(a-1)R_a} = \sum_{i=0}^a \binom ai (1-q)^{a-i}q^i\, e^{(i-1)GD_i}\, e^{i(i-1)/(2\sigma^2)}

    D_i is the Renyi divergence of one group's index set at the largest distance. At most eps_2 + the curve of
    :func:`subsampled_gaussian_rdp`, and at least the sum of the two parts, each amplified on its own: that sum is invalid.

    Args:
        orders: whole numbers in 2..10000, any shape.
        sampling_rate: q in [0, 1].
        noise_multiplier: sigma in (0, inf]; inf releases the index sets alone.
        model: index mechanism of one group.
        groups: number of groups, 1..1e12.

    Returns:
        Array of the shape of orders; inf where the divergence overflows.

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Theorem 2 (gip.thm2).
    """
    groups = _validate.integer("groups", groups, 1, MAX_RELEASES)
    law = _index.loss_law(model)
    return _joint(
        orders,
        sampling_rate,
        noise_multiplier,
        lambda order: groups * np.array([law.renyi(float(a)) for a in order]),
    )


def _joint(
    orders: ArrayLike, sampling_rate: float, noise_multiplier: float, index_curve: Callable[[Array], Array]
) -> Array:
    """Curve of index sets with Renyi curve ``index_curve`` and Gaussian values from one Poisson sample."""
    order = _validate.finite("orders", orders)
    if order.size == 0 or not ((order >= 2) & (order <= _MAX_ORDER) & (order == np.floor(order))).all():
        raise ValueError(f"orders must hold whole numbers in 2..{_MAX_ORDER}, got {_validate.shown(orders)}")
    rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="(]")
    i = np.arange(2.0, float(order.max()) + 1.0)
    with np.errstate(over="ignore", divide="ignore"):
        log_moments = (i - 1.0) * index_curve(i) + i * (i - 1.0) / 2.0 / sigma / sigma
        # log(moment - 1): the binomial weights sum to 1, so e^((a-1) R) - 1 = sum over i >= 2 of weight * (moment - 1)
        log_excess = log_moments + np.log(-np.expm1(-log_moments))
    values = [_log_mean(int(a), rate, log_excess) / (a - 1.0) for a in order.ravel()]
    return np.array(values).reshape(order.shape)


def _log_mean(order: int, rate: float, log_excess: Array) -> float:
    """log(1 + sum_{i=2}^order Binomial(order, rate)(i) e^log_excess(i))."""
    i = np.arange(2.0, order + 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        fails = np.where(i < order, (order - i) * np.log1p(-rate), 0.0)
        weights = gammaln(order + 1.0) - gammaln(i + 1.0) - gammaln(order - i + 1.0) + i * np.log(rate) + fails
    possible = np.isfinite(weights)  # rate 0 or 1; a weight of 0 takes an overflown moment with it
    if not possible.any():
        return 0.0
    total = log_sum(weights[possible] + log_excess[: order - 1][possible])
    return total + math.log1p(math.exp(-total)) if total > 0 else math.log1p(math.exp(total))


@dataclass(frozen=True)
class FreshMask:
    """A mask with ``keep`` of ``dim`` ones, new in every step, that nobody can tell before it is used, applied after clipping.

    Given everything before, earlier masks included, it is uniform and independent of data, batch and noise; once used it is
    public, a part of the release. A mask from a seed has this property for nobody who knows the seed: an example made for it is
    protected as by DP-SGD, and no better. ``training`` counts amplification in secure runs alone, whose masks come from the
    operating system's cryptographic generator once gradients are computed.

    The other conditions are in what it can do: it computes the curve of masked DP-SGD itself, from the noise and the sampling
    rate, in the direction in which the bound holds; it takes no privacy loss distribution, because the pair of the bound does
    not dominate outside Renyi divergences; and it has no argument for a mask that is used twice or applied before clipping (such
    masks amplify once at most, or not at all).

    Args:
        dim: number of entries, 1..1e9.
        keep: number of ones, 0..dim. Groups with the same share of ones count as one.

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Proposition 1 (gip.prop1).
    """

    dim: int
    keep: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", _validate.integer("dim", self.dim, 1, 10**9))
        object.__setattr__(self, "keep", _validate.integer("keep", self.keep, 0, self.dim))

    def rdp(self, orders: ArrayLike, sampling_rate: float, noise_multiplier: float, steps: int = 1) -> Array:
        r"""Renyi curve of ``steps`` steps of DP-SGD with random-k: steps log(1 - k + k e^((a-1) R_a)) / (a - 1), k = keep/dim.

        R_a is the curve of :func:`subsampled_gaussian_rdp`. The mask is part of the release. Tight: an example whose clipped
        gradient has one entry attains it.

        Args:
            orders: whole numbers in 2..10000, any shape.
            sampling_rate: q in [0, 1].
            noise_multiplier: sigma in (0, inf], of the entries kept.
            steps: 1..1e12, each with its own mask.

        Returns:
            Array of the shape of orders.

        Raises:
            ValueError: an argument outside its range.

        Source: GIP, Proposition 1 (gip.prop1).
        """
        steps = _validate.integer("steps", steps, 1, MAX_RELEASES)
        order = _validate.finite("orders", orders)
        nats = (order - 1.0) * subsampled_gaussian_rdp(orders, sampling_rate, noise_multiplier)
        share = self.keep / self.dim
        near = np.log1p(share * np.expm1(np.minimum(nats, 500.0)))
        if share == 0.0:
            return np.zeros_like(near)
        far = nats + math.log(share) + np.log1p((1.0 - share) / share * np.exp(-nats))
        return np.asarray(steps * np.where(nats < 500.0, near, far) / (order - 1.0))


@dataclass(frozen=True)
class IndexSteps:
    """Steps of GIP that share one index mechanism; a run whose dispersion changes is a sequence of them.

    Args:
        steps: how many, 1..1e12.
        model: index mechanism of one group.
        groups: number of groups, 1..1e12.

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Algorithm 2 (gip.alg2).
    """

    steps: int
    model: SubsetMallows
    groups: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _validate.integer("steps", self.steps, 1, MAX_RELEASES))
        object.__setattr__(self, "groups", _validate.integer("groups", self.groups, 1, MAX_RELEASES))
        _validate.instance("model", self.model, SubsetMallows)

    @property
    def epsilon(self) -> float:
        """Pure epsilon of all index sets of these steps, by basic composition."""
        return self.steps * self.groups * self.model.epsilon(2 * self.model.max_swaps)

    @property
    def rho(self) -> float:
        """zCDP of all index sets of these steps."""
        return self.steps * self.groups * self.model.zcdp(2 * self.model.max_swaps)


def joint_epsilon(
    delta: float,
    values: Callable[[float], float],
    *,
    index_epsilon: float,
    index_rho: float = math.inf,
    orders: ArrayLike | None = None,
    rdp: ArrayLike | None = None,
) -> float:
    r"""Epsilon of index sets and noisy sums together, for any accountant of the sums: the least of three bounds.

    .. math:: \epsilon_v(\delta) + \epsilon_2,\qquad
        \min_s\; \epsilon_v((1-s)\delta) + \epsilon_\rho(s\delta),\qquad \epsilon_{\mathrm{RDP}}(\delta)

    epsilon_v is that of the sums alone, epsilon_2 and rho the pure epsilon and the zCDP of all index sets for given batches,
    added up over groups and steps, which may all differ. The third bound needs the joint Renyi curve. As the index sets
    spend less and less it tends to epsilon_v.

    Args:
        delta: in (0, 1).
        values: upper bound on the epsilon of the noisy sums alone at a delta, e.g. ``privacy.epsilon(...).upper``.
        index_epsilon: epsilon_2 in [0, inf].
        index_rho: rho in [0, inf]; inf leaves the second bound out.
        orders: Renyi orders of ``rdp``, each > 1; given with ``rdp``.
        rdp: joint Renyi curve of the whole run, sums of :func:`joint_rdp`, in [0, inf].

    Raises:
        ValueError: an argument outside its range, or one of orders and rdp without the other.

    Source: GIP, Theorem 2 (gip.thm2, gip.tight).
    """
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    index_epsilon = _validate.real("index_epsilon", index_epsilon, 0.0)
    index_rho = _validate.real("index_rho", index_rho, 0.0)
    _validate.calls("values", values)
    if (orders is None) != (rdp is None):
        raise ValueError(f"orders and rdp must be given together, got {_validate.shown(orders)} and {rdp!r}")
    found = values(delta) + index_epsilon
    if orders is not None and rdp is not None:
        found = min(found, _renyi.epsilon_from_rdp(orders, rdp, delta))
    if index_epsilon > 0.0 and index_rho <= _renyi.MAX_RHO:
        found = min(found, _shared(delta, values, lambda mine: _renyi.zcdp_epsilon(index_rho, mine), found))
    return found


def _shared(delta: float, values: Callable[[float], float], index: Callable[[float], float], known: float) -> float:
    """Least sum of both epsilons over the ways to share delta; ``known`` where none is below it."""
    best = known
    for mine, rest in _split(delta):
        spent = index(mine)
        if spent < best:  # else no epsilon of the values can help
            best = min(best, values(rest) + spent)
    return best


def run_epsilon(
    releases: Sequence[IndexSteps], *, sampling_rate: float, noise_multiplier: float, delta: float
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

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Theorem 2 (gip.thm2).
    """
    rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="(]")
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    if not isinstance(releases, Sequence) or not releases or not all(isinstance(one, IndexSteps) for one in releases):
        raise ValueError(f"releases must hold one or more IndexSteps, got {_validate.shown(releases)}")
    steps = sum(one.steps for one in releases)
    if _chance_to_join(rate, steps) <= delta:
        return 0.0
    curve = np.sum([one.steps * joint_rdp(ORDERS, rate, sigma, one.model, one.groups) for one in releases], axis=0)

    def values(share: float) -> float:
        return values_epsilon(share, rate, sigma, steps)

    found = joint_epsilon(
        delta,
        values,
        index_epsilon=math.fsum(one.epsilon for one in releases),
        index_rho=math.fsum(one.rho for one in releases),
        orders=ORDERS,
        rdp=curve,
    )
    count = sum(one.steps * one.groups for one in releases)
    if len({one.model for one in releases}) > 1 or count > MAX_RELEASES or math.isinf(releases[0].model.theta):
        return found
    law = _index.loss_law(releases[0].model)  # of one mechanism the index sets are composed exactly
    return _shared(delta, values, lambda mine: law.epsilon(mine, count), found)


def values_epsilon(delta: float, sampling_rate: float, noise_multiplier: float, steps: int) -> float:
    """Upper bound on epsilon of the noisy sums alone, Poisson sampling, add-remove; for every noise and number of steps.

    That of :func:`dptheory.privacy.epsilon` within its ranges and next to them; at most that without sampling, and that
    of the Renyi curve.

    Args:
        delta: in (0, 1).
        sampling_rate: q in [0, 1].
        noise_multiplier: sigma in (0, inf].
        steps: >= 1.

    Raises:
        ValueError: an argument outside its range.

    Source: GIP, Lemma 1 (gip.lem1, gip.thm2).
    """
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="(]")
    steps = _validate.integer("steps", steps, 1)
    if math.isinf(sigma) or _chance_to_join(rate, steps) <= delta:
        return 0.0
    shift = math.sqrt(steps) / sigma
    bounds = [_gaussian.gaussian_epsilon(shift, delta) if shift <= _MAX_SHIFT else math.inf]
    least_noise, most_noise = _accountant.NOISE
    if sigma >= least_noise and steps <= _accountant.MAX_STEPS and delta >= _accountant.DELTA[0]:
        # less noise, more examples and a smaller delta only cost more
        found = _accountant.epsilon(
            min(sigma, most_noise), max(rate, _accountant.RATE[0]), steps, min(delta, _accountant.DELTA[1])
        )
        bounds.append(found.upper)
    else:
        orders = _orders(min(bounds), delta)
        bounds.append(_renyi.epsilon_from_rdp(orders, steps * subsampled_gaussian_rdp(orders, rate, sigma), delta))
    return min(bounds)


def _split(delta: float) -> list[tuple[float, float]]:
    """Ways to share delta between index sets and values."""
    parts = [(share * delta, (1.0 - share) * delta) for share in _SHARES]
    return [(mine, rest) for mine, rest in parts if mine > 0.0 and rest > 0.0]


def _chance_to_join(rate: float, steps: int) -> float:
    """Chance that the example joins a batch at all: where delta covers it, the run is (0, delta)-private."""
    return 1.0 if rate == 1.0 else -math.expm1(steps * math.log1p(-rate))


def _orders(epsilon: float, delta: float) -> tuple[int, ...]:
    """:data:`ORDERS`, and larger ones up to a few times the best order of a Gaussian with this epsilon."""
    best = -2.0 * math.log(delta) / epsilon if epsilon > 0.0 else math.inf
    orders = list(ORDERS)
    while orders[-1] < min(4.0 * best, _MAX_ORDER):
        orders.append(min(math.ceil(1.25 * orders[-1]), _MAX_ORDER))
    return tuple(orders)


def theta_for_joint_budget(
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
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, 1e6, ends="(]")
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0)
    sigma = _validate.real("noise_multiplier", noise_multiplier, 0.0, ends="(]")
    pure = pruning.theta_for_budget(epsilon, dim, keep, steps, groups)  # checks the rest
    dim, keep = _validate.integer("dim", dim, 2), _validate.integer("keep", keep, 1)
    steps, groups = _validate.integer("steps", steps, 1), _validate.integer("groups", groups, 1)
    if _chance_to_join(rate, steps) <= delta:
        return math.inf
    alone = values_epsilon(delta, rate, sigma, steps)
    if alone >= epsilon:
        raise ValueError(f"epsilon must exceed what the values spend alone, {alone:.6g}, got {epsilon!r}")
    start = pure * ((epsilon - alone) / epsilon) * (1.0 - 1e-12)
    parts = [(delta, delta)] if math.isinf(sigma) else _split(delta)  # without values there is nothing to share
    sizes = (dim, keep, steps, groups)
    best = (0.0, 0.0, 0.0)  # what zCDP affords; epsilon and delta of the index sets
    for mine, rest in parts:
        left = epsilon - values_epsilon(rest, rate, sigma, steps)
        if left > 0.0:
            theta = _index.theta_for_delta_budget(left, mine, *sizes, "zcdp")
            best = max(best, (theta, left, mine))
    if best[0] > 0.0:
        method: _index.Method = "exact" if steps * groups <= MAX_RELEASES else "zcdp"
        start = max(start, _index.theta_for_delta_budget(*best[1:], *sizes, method))
    orders = _orders(epsilon, delta)

    def spent(theta: float) -> float:
        curve = joint_rdp(orders, rate, sigma, SubsetMallows(dim, keep, theta), groups)
        return _renyi.epsilon_from_rdp(orders, steps * curve, delta)

    return largest_theta(spent, epsilon, start)
