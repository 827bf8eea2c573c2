"""The picture of what attackers can do."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptheory.errors import ArgumentError

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
