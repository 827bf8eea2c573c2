"""Privacy of the index mechanism: the law of its privacy loss, and the dispersion that a budget allows."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate, pruning
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import MAX_RELEASES, total_loss
from dptheory.privacy._parts import zcdp_rho
from dptheory.privacy.methods.lattice._index_law import IndexLoss
from dptheory.privacy.methods.renyi import _conversion as _renyi
from dptheory.pruning import SubsetMallows

# --- The dispersion that a budget pays for


_LEAST_THETA, _LARGEST_THETA = 1e-300, 1e9  # between them lies every dispersion that a budget up to 1e6 pays for
_STEP = 1e-10  # small, as rounding decides, by the machine, whether the root or the step before it fits
_FAR = 1e9  # stands for an infinite excess, which the root finder cannot take


def largest_theta(spent: Callable[[float], float], budget: float, start: float) -> float:
    """The largest dispersion that spends no more than ``budget``, within a relative 1e-6; ``start`` where that spends more.

    Args:
        spent: epsilon or log delta of a dispersion, rising.
        budget: what may be spent.
        start: a dispersion that a proof affords, whatever ``spent`` says of it; >= 0.
    """
    low = max(start, _LEAST_THETA)
    if spent(low) > budget:
        return start
    high, factor = 2.0 * low, 4.0
    while high < _LARGEST_THETA and spent(high) <= budget:
        low, high, factor = high, factor * high, factor * factor
    high = min(high, _LARGEST_THETA)
    if spent(high) <= budget:
        return high

    def excess(log_theta: float) -> float:
        return min(max(spent(math.exp(log_theta)) - budget, -_FAR), _FAR)

    ends = math.log(low), math.log(high)
    if excess(ends[0]) > 0.0 or excess(ends[1]) <= 0.0:  # only by the rounding of the logarithm
        return low
    x = float(scipy.optimize.brentq(excess, *ends, xtol=_STEP, maxiter=200))
    for power in range(34):  # the root is known up to a step: go back until it fits
        theta = math.exp(x) * (1.0 - _STEP * (2.0**power - 1.0))
        if spent(theta) <= budget:
            return max(low, theta)
    return low


Array = NDArray[np.float64]
Method = Literal["basic", "zcdp", "exact"]

_METHODS = ("basic", "zcdp", "exact")


def theta_for_delta_budget(
    *, epsilon: float, delta: float, dim: int, keep: int, steps: int = 1, groups: int = 1, method: Method = "exact"
) -> float:
    r"""Dispersion with which steps * groups index releases are (epsilon, delta)-private, by one of three accountings.

    - ``"basic"``: pure epsilons add up, :func:`dptheory.pruning.theta_for_budget`; delta buys nothing.
    - ``"zcdp"``: rho = 2 theta^2 min(K, d - K) a release adds up: theta = sqrt(rho(epsilon, delta) / (2 N min(K, d - K))).
    - ``"exact"``: the composed lattice law of the worst pair itself; never less than the other two.

    All are for a given batch: nothing is amplified by sampling. Where index and values share one Poisson sample, use
    :func:`dptheory.privacy.index_sets.theta_for_joint_budget`.

    Args:
        epsilon: in (0, 1e6].
        delta: in (0, 1).
        dim, keep: size of one group and number kept in it, 1 <= keep < dim.
        steps, groups: >= 1; every group of every step is one release, 1e12 releases at most.
        method: see above.

    Returns:
        theta, > 0.

    Source: GIP, Theorems 1 and 2, section 4.2 (gip.tight).

    Example: 100 releases at epsilon 1: a delta of 1e-5 affords thirty times the theta of pure accounting, 1 / 5200.
        >>> from dptheory.privacy.index_sets import theta_for_delta_budget
        >>> budget = dict(epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=100)
        >>> [round(theta_for_delta_budget(**budget, method=how), 5) for how in ("basic", "zcdp", "exact")]
        [0.00019, 0.00242, 0.00613]
    """
    method = _validate.choice("method", method, _METHODS)  # type: ignore[assignment]
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    basic = pruning.theta_for_budget(epsilon=epsilon, dim=dim, keep=keep, steps=steps, groups=groups)
    epsilon = _validate.real("epsilon", epsilon, 0.0)
    steps, groups = _validate.integer("steps", steps, 1), _validate.integer("groups", groups, 1)
    rho = _renyi.zcdp_budget(epsilon=epsilon, delta=delta)
    if method == "basic":
        return basic
    concentrated = math.sqrt(rho / (steps * groups * pruning.index_sensitivity(dim, keep)))
    if method == "zcdp":
        return concentrated
    releases = _releases(steps, groups)

    def log_delta(theta: float) -> float:
        spent = IndexLoss(SubsetMallows(dim, keep, theta=theta)).delta(epsilon=epsilon, count=releases)
        return math.log(spent) if spent > 0.0 else -math.inf

    return largest_theta(log_delta, math.log(delta), max(basic, concentrated))


def _releases(steps: int, groups: int) -> int:
    """Number of index releases, which the accounting takes up to 1e12."""
    steps, groups = _validate.integer("steps", steps, 1), _validate.integer("groups", groups, 1)
    releases = steps * groups
    if releases > MAX_RELEASES:
        raise ArgumentError("steps * groups", f"be an integer in 1..{MAX_RELEASES}", steps, got=f"{steps} * {groups}")
    return releases


def epsilon_for_retained_gain(
    *,
    retained_gain: float,
    delta: float,
    dim: int,
    keep: int,
    steps: int = 1,
    groups: int = 1,
    method: Method = "exact",
) -> float:
    r"""Epsilon that all index releases of a run cost where each retains the share ``retained_gain`` of the top-k gain.

    With theta from :func:`dptheory.pruning.theta_for_retained_gain`, N = steps * groups and s = 2 min(K, d - K):
    N theta s by basic composition, the conversion of N theta^2 s by zCDP, and the composed lattice law of the worst pair
    exactly. Under ``"exact"`` the least of the three; for a given batch, as :func:`theta_for_delta_budget`.

    Args:
        retained_gain: share rho in [0, 1]; 0 is random-k and costs nothing, 1 is top-k and costs inf.
        delta: in (0, 1).
        dim, keep: size of one group and number kept in it, 1 <= keep < dim.
        steps, groups: >= 1, 1e12 releases at most.
        method: "basic", "zcdp" or "exact".

    Returns:
        Epsilon in nats, in [0, inf].

    Source: GIP, Theorems 1 and 2, sections 4.2 and 6.1 (gip.tight, gip.retained_gain).

    Example: one group of 256, 100 steps: 2 % of the top-k gain cost an epsilon of 30, half of it thousands.
        >>> from dptheory.privacy.index_sets import epsilon_for_retained_gain
        >>> run = dict(delta=1e-5, dim=256, keep=26, steps=100)
        >>> [round(epsilon_for_retained_gain(retained_gain=gain, **run)) for gain in (0.02, 0.5)]
        [30, 4360]
    """
    method = _validate.choice("method", method, _METHODS)  # type: ignore[assignment]
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    theta = pruning.theta_for_retained_gain(retained_gain=retained_gain, dim=dim, keep=keep)
    steps, groups = _validate.integer("steps", steps, 1), _validate.integer("groups", groups, 1)
    releases = _releases(steps, groups)
    model = SubsetMallows(dim, keep, theta=theta)
    basic = total_loss(2.0 * theta, releases * model.max_swaps)
    if method == "basic" or basic == 0.0 or math.isinf(basic):
        return basic
    rho = zcdp_rho(model, releases)
    concentrated = _renyi.zcdp_epsilon(zcdp_rho=rho, delta=delta) if rho <= _renyi.MAX_RHO else math.inf
    if method == "zcdp":
        return concentrated
    return min(basic, concentrated, IndexLoss(model).epsilon(delta=delta, count=releases))


def retained_gain_for_delta_budget(
    *, epsilon: float, delta: float, dim: int, keep: int, steps: int = 1, groups: int = 1, method: Method = "exact"
) -> float:
    """Share rho of the top-k gain that the dispersion of :func:`theta_for_delta_budget` leaves.

    Args:
        epsilon, delta, dim, keep, steps, groups, method: as for :func:`theta_for_delta_budget`.

    Returns:
        The share, in [0, 1].

    Source: GIP, section 6.1 (gip.tight).

    Example: an epsilon of 1 for 100 releases of a group of 256 retains a thousandth.
        >>> from dptheory.privacy.index_sets import retained_gain_for_delta_budget
        >>> budget = dict(epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=100)
        >>> [round(retained_gain_for_delta_budget(**budget, method=how), 4) for how in ("basic", "zcdp", "exact")]
        [0.0, 0.0004, 0.0011]
    """
    return SubsetMallows(
        dim,
        keep,
        theta=theta_for_delta_budget(
            epsilon=epsilon, delta=delta, dim=dim, keep=keep, steps=steps, groups=groups, method=method
        ),
    ).retained_gain()
