"""Index sets and noisy values added up: upper bounds of epsilon from what each spends alone."""

import math
from collections.abc import Callable

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import added_up
from dptheory.privacy.methods.renyi import _conversion as _renyi

_SHARES = (0.001, 0.01, 0.1, 0.5)  # of delta, for the index sets


def joint_epsilon(
    *,
    delta: float,
    values: Callable[[float], float],
    index_epsilon: float,
    index_zcdp_rho: float = math.inf,
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
        values: upper bound on the epsilon of the noisy sums alone at a delta, e.g. ``privacy.epsilon_bounds(...).upper``; no
            less at a smaller delta.
        index_epsilon: epsilon_2 in [0, inf].
        index_zcdp_rho: rho in [0, inf]; inf leaves the second bound out.
        orders: Renyi orders of ``rdp``, each > 1; given with ``rdp``.
        rdp: joint Renyi curve of the whole run, sums of :func:`joint_rdp`, in [0, inf].

    Returns:
        Upper bound on epsilon.

    Raises:
        ValueError: an argument outside its range, or one of orders and rdp without the other.

    Source: GIP, Theorem 2 (gip.thm2, gip.tight).

    Example: values that spend 2 at any delta, and index sets that spend 0.5: together at most 2.5.
        >>> from dptheory.privacy.index_sets import joint_epsilon
        >>> joint_epsilon(delta=1e-5, values=lambda delta: 2.0, index_epsilon=0.5)
        2.5
    """
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    index_epsilon = _validate.real("index_epsilon", index_epsilon, 0.0)
    index_zcdp_rho = _validate.real("index_zcdp_rho", index_zcdp_rho, 0.0)
    _validate.calls("values", values)
    if (orders is None) != (rdp is None):
        raise ArgumentError("orders and rdp", "be given together", orders, got=f"{_validate.shown(orders)} and {rdp!r}")
    alone = values(delta)
    found = added_up((alone, index_epsilon))
    if orders is not None and rdp is not None:
        found = min(found, _renyi.epsilon_from_rdp(orders=orders, rdp=rdp, delta=delta))
    if index_epsilon > 0.0 and index_zcdp_rho <= _renyi.MAX_RHO:
        found = least_sum(
            delta, values, lambda mine: _renyi.zcdp_epsilon(zcdp_rho=index_zcdp_rho, delta=mine), found, alone
        )
    return found


def least_sum(
    delta: float, values: Callable[[float], float], index: Callable[[float], float], known: float, alone: float
) -> float:
    """Least sum of both epsilons over the ways to share delta; ``known`` where none is below it.

    ``alone`` is what the values spend at the whole of delta. With less of it they spend more: where that is too much,
    they are not asked.
    """
    best = known
    for mine, rest in split_delta(delta):
        spent = index(mine)
        if alone + spent < best:
            alone = values(rest)
            best = min(best, added_up((alone, spent)))
    return best


def split_delta(delta: float) -> list[tuple[float, float]]:
    """Ways to share delta between index sets and values."""
    parts = [(share * delta, (1.0 - share) * delta) for share in _SHARES]
    return [(mine, rest) for mine, rest in parts if mine > 0.0 and rest > 0.0]
