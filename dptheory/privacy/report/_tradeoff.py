r"""The least false negative rate at a false positive rate, from bounds of the privacy curve alone.

With :math:`H_\gamma(P, Q) = \sup_A P(A) - \gamma Q(A)`, tests of Q against P have the trade-off curve

.. math:: f(\alpha) = \sup_{\gamma \ge 0}\; 1 - H_\gamma(P, Q) - \gamma\alpha ,

a concave function of gamma. Any gamma gives a lower bound. Two chords of it, one on each side of a gamma near its maximum,
give an upper bound. Proof: proofs/privacy/tradeoff_curve.md.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory.errors import ArgumentError

# --- The picture of what attackers can do


Array = NDArray[np.float64]

_LEAST = 1e-5


def draw(guaranteed: Callable[[Array], Array], ax: object | None) -> None:
    """True positive rate of the best attacker over the false positive rate, at most, on logarithmic axes.

    ``guaranteed``: the share that every attack misses at least, at each false positive rate.
    """
    axes: Any
    if ax is None:
        from matplotlib import pyplot

        axes = pyplot.subplots(figsize=(4.8, 4.2), layout="constrained")[1]
    elif hasattr(ax, "plot") and hasattr(ax, "set_xscale"):
        axes = ax
    else:
        raise ArgumentError("ax", "be matplotlib axes or None", ax)
    rates = np.geomspace(_LEAST, 1.0, 200)
    found = 1.0 - guaranteed(rates)
    axes.plot(rates, found, color="tab:blue", label="best attacker, at most")
    axes.plot(rates, rates, color="gray", linestyle=":", label="guessing")
    axes.fill_between(rates, rates, found, color="tab:blue", alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(_LEAST, 1.0)
    axes.set_ylim(_LEAST, 1.0)
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    axes.legend(loc="upper left")


Curve = Callable[[float], tuple[float, float]]
"""Bounds of H at the logarithm of gamma."""

_COARSE, _FAR = 1.0, 60.0
_SPREADS = (2e-4, 2e-5, 1e-3, 5e-3, 2.5e-2)
"""Distances of the points of the chords, in log gamma: smaller where the curve bends, larger where its bounds are wide."""
_ROUNDING = 1e-14
_WIDE = 1e-3


@dataclass(frozen=True)
class _Point:
    """Bounds of 1 - H - gamma alpha."""

    gamma: float
    low: float
    high: float


def least_false_negatives(curve: Curve, alpha: float, about: Curve) -> tuple[float, float]:
    """Bounds of f(alpha) in [0, 1] for alpha in [0, 1].

    Args:
        curve: bounds of H at log gamma, any real number; a bound may be 0 or 1 where nothing better is known.
        about: the curve, or one near it that is quicker to compute: where to look, no more.
    """
    if alpha >= 1.0:
        return 0.0, 0.0

    def at(log_gamma: float) -> _Point:
        low, high = curve(log_gamma)
        gamma = math.exp(log_gamma)
        return _Point(gamma, 1.0 - high - gamma * alpha, 1.0 - low - gamma * alpha)

    # maximising over gamma is stable where it is flat: what is found is used through bounds alone
    best = _highest(lambda x: sum(about(x)) / 2 + math.exp(x) * alpha)
    lower, upper = 0.0, 1.0 - alpha
    for spread in _SPREADS:
        points = [at(best + k * spread) for k in (-2.0, -1.0, 0.0, 1.0, 2.0)]
        lower = max(lower, *(point.low for point in points))
        upper = min(upper, _above(points))
        if upper - lower <= 1e-7 * upper:
            break
    if upper - lower > _WIDE and alpha > 0.0:
        upper = min(upper, _by_cells(curve, alpha))
    return max(0.0, lower - _ROUNDING), min(1.0, max(upper, lower) + _ROUNDING)


def _by_cells(curve: Curve, alpha: float) -> float:
    """Upper bound of f where H is known roughly: it falls with gamma, so it is at least what it is at the end of a cell."""
    best = _highest(lambda x: curve(x)[0] + math.exp(x) * alpha)
    near = [sign * 0.002 * 1.4**k for k in range(18) for sign in (-1.0, 1.0)]
    logs = sorted({-_FAR, best, *(best + x for x in near), -math.log(alpha)})
    found = math.exp(logs[0])  # H is at least 1 - gamma
    for low, high in itertools.pairwise(logs):
        found = max(found, 1.0 - curve(high)[0] - math.exp(low) * alpha)
    return found


def _highest(minus: Callable[[float], float]) -> float:
    """About the log gamma where 1 - H - gamma alpha is largest: on a coarse grid first, as it is flat far away."""
    x, step = 0.0, _COARSE
    for direction in (step, -step):
        while abs(x + direction) <= _FAR and minus(x + direction) < minus(x):
            x += direction
    found = scipy.optimize.minimize_scalar(
        minus, bounds=(x - step, x + step), method="bounded", options={"xatol": 1e-5}
    )
    return float(found.x)


def _above(points: list[_Point]) -> float:
    """Upper bound of a concave function that is at least 0 at 0, from bounds at five rising gammas.

    Beyond the middle one it lies below the line through the two points before it, and the other way round.
    """
    one, two, middle, four, five = points
    right = _beyond(one, middle, five.gamma)  # on [middle, five]
    left = _beyond(five, middle, one.gamma)
    outside = max(_flat(two, five), _flat(four, one))
    return max(right, left, outside)


def _beyond(base: _Point, hinge: _Point, end: float) -> float:
    """Largest value between hinge and end of the line that goes through a low point at base and a high one at hinge."""
    slope = (hinge.high - base.low) / (hinge.gamma - base.gamma)
    return hinge.high + max(0.0, slope * (end - hinge.gamma))


def _flat(inner: _Point, outer: _Point) -> float:
    """Bound beyond outer, away from inner: its own value where the function falls there, else nothing."""
    return outer.high if outer.high <= inner.low else math.inf
