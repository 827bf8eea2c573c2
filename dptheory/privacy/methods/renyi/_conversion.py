"""From Renyi privacy to (epsilon, delta): curves over orders, and zero-concentrated privacy."""

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError

Array = NDArray[np.float64]

_HUGE = 1e300
MAX_RHO = 1e12
_LEAST_EXCESS = 1e-7  # of an order over 1
_GRID = 17
_FINEST = 1e-5


def epsilon_from_rdp(*, orders: ArrayLike, rdp: ArrayLike, delta: float) -> float:
    r"""Smallest epsilon that a Renyi curve proves at delta.

    .. math:: \epsilon = \min_a\; R_a + \log(1 - 1/a) + \frac{\log(1/\delta) - \log a}{a - 1}\; (\ge 0)

    A curve that is larger by a constant c gives an epsilon that is larger by c at most.

    Args:
        orders: Renyi orders, each > 1.
        rdp: Renyi divergence at each order, in [0, inf].
        delta: in (0, 1).

    Returns:
        Epsilon, >= 0; inf where no order has a finite divergence.

    Raises:
        ValueError: an argument outside its range, or orders and rdp of different shapes.

    Source: GIP, Lemma 1 and section 4.2, "Theorem 21 in Balle et al. (2020)" (gip.lem1, gip.tight).

    Example: the curve a / 2 of one Gaussian release with noise 1 proves 4.75; the exact value is 4.38.
        >>> import numpy as np
        >>> from dptheory.privacy import epsilon_from_rdp
        >>> orders = np.arange(2, 64)
        >>> round(epsilon_from_rdp(orders=orders, rdp=orders / 2, delta=1e-5), 2)
        4.75
    """
    order = _validate.finite("orders", orders)
    curve = np.minimum(_validate.extended("rdp", rdp), _HUGE)
    if order.shape != curve.shape or order.size == 0:
        raise ArgumentError(
            "orders and rdp", "have one shape and a member", orders, got=f"{order.shape} and {curve.shape}"
        )
    _above_one("orders", order)
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    if (curve == 0.0).any():
        return 0.0  # a divergence of 0 at one order: the two laws are the same
    best = float(np.min(curve + conversion(order=order, delta=delta)))
    return max(0.0, best) if best < _HUGE / 2 else math.inf


def least_epsilon(curve: Callable[[Array], Array], delta: float, largest_order: float) -> float:
    """The least epsilon that a Renyi curve of all real orders proves at delta, over orders in (1, largest_order].

    As (a - 1) R_a is convex in a, epsilon times (a - 1) is as well, and epsilon has one minimum. It is 0 where delta covers the
    total variation distance, which is at most sqrt(1 - e^-R) for the divergence R at any order (Bretagnolle and Huber).
    """

    def epsilon(log_excess: Array) -> Array:
        orders = 1.0 + np.exp(log_excess)
        return np.minimum(curve(orders), _HUGE) + conversion(order=orders, delta=delta)

    if -math.expm1(-float(curve(np.array([1.0 + _LEAST_EXCESS]))[0])) <= delta * delta:
        return 0.0
    grid = np.linspace(math.log(_LEAST_EXCESS), math.log(largest_order - 1.0), _GRID)
    values = epsilon(grid)
    while grid[1] - grid[0] > _FINEST:
        least = int(np.argmin(values))
        grid = np.linspace(grid[max(least - 1, 0)], grid[min(least + 1, grid.size - 1)], _GRID)
        values = epsilon(grid)
    best = float(values.min())
    return max(0.0, best) if best < _HUGE / 2 else math.inf


def zcdp_epsilon(*, zcdp_rho: float, delta: float) -> float:
    r"""Smallest epsilon that rho-zCDP (R_a = rho a at every order) proves at delta; about rho + 2 sqrt(rho log(1/delta)).

    Args:
        zcdp_rho: in [0, 1e12].
        delta: in (0, 1).

    Returns:
        Epsilon, >= 0.

    Source: GIP, section 4.2 (gip.tight).

    Example: noise as large as the sensitivity is 1/2-zCDP; it costs 4.38 exactly.
        >>> from dptheory.privacy import zcdp_epsilon
        >>> round(zcdp_epsilon(zcdp_rho=0.5, delta=1e-5), 2)
        4.73
    """
    zcdp_rho = _validate.real("zcdp_rho", zcdp_rho, 0.0, MAX_RHO)
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    if zcdp_rho == 0.0:
        return 0.0

    def bound(log_excess: float) -> float:
        order = 1.0 + max(math.exp(log_excess), 1e-15)
        return zcdp_rho * order + float(conversion(order=np.asarray(order), delta=delta))

    middle = 0.5 * (math.log(-math.log(delta)) - math.log(zcdp_rho))
    best = scipy.optimize.minimize_scalar(
        bound, bounds=(middle - 8.0, middle + 8.0), method="bounded", options={"xatol": 1e-9}
    )
    return max(0.0, float(best.fun))


def zcdp_budget(*, epsilon: float, delta: float) -> float:
    """Largest rho whose :func:`zcdp_epsilon` is at most epsilon.

    Args:
        epsilon: in (0, 1e6].
        delta: in (0, 1).

    Returns:
        rho, > 0.

    Source: GIP, section 4.2 (gip.tight).

    Example: the inverse of :func:`zcdp_epsilon`; an epsilon of 1 is worth 0.03.
        >>> from dptheory.privacy import zcdp_budget, zcdp_epsilon
        >>> rho = zcdp_budget(epsilon=1.0, delta=1e-5)
        >>> round(rho, 4), round(zcdp_epsilon(zcdp_rho=rho, delta=1e-5), 6)
        (0.0306, 1.0)
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, 1e6, ends="(]")
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    high = 2.0 * (epsilon + 1.0)
    while zcdp_epsilon(zcdp_rho=high, delta=delta) <= epsilon:
        high *= 2.0
    low = high
    while zcdp_epsilon(zcdp_rho=low, delta=delta) > epsilon:
        low /= 4.0
    if low == 0.0:
        return 0.0  # the root underflows
    log_rho = float(
        scipy.optimize.brentq(
            lambda x: zcdp_epsilon(zcdp_rho=math.exp(x), delta=delta) - epsilon, math.log(low), math.log(high)
        )
    )
    return math.exp(log_rho) * (1.0 - 1e-9)  # on the safe side of the root


def conversion(*, order: ArrayLike, delta: float) -> Array:
    """What to add to a Renyi divergence of order a for an epsilon at delta: log(1 - 1/a) - (log delta + log a) / (a - 1).

    Args:
        order: orders a > 1, any shape.
        delta: in (0, 1).

    Returns:
        Array of the shape of order.

    Source: GIP, section 4.2 (gip.lem1); GEP, Lemma D.4, improved (gep.lemD.2-4).

    Example: what a delta of 1e-5 costs at order 2 and at order 32.
        >>> import numpy as np
        >>> from dptheory.privacy import conversion
        >>> conversion(order=np.array([2.0, 32.0]), delta=1e-5).round(3)
        array([10.127,  0.228])
    """
    order = _validate.finite("order", order)
    _above_one("order", order)
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    excess = order - 1.0
    return np.asarray(np.log(excess / order) - (math.log(delta) + np.log(order)) / excess)


def _above_one(name: str, order: Array) -> None:
    if not (order > 1).all():
        raise ArgumentError(name, "hold numbers > 1", order)
