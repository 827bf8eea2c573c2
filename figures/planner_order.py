"""Differences in accuracy between methods, and whether the planner had forecast which is the better one."""

import numpy as np
from matplotlib.axes import Axes

from figures._planner import columns, rows
from figures._table import Data

TABLE = "pairs"
"""Of the planner's tables; without rows there is no picture."""

_OUTCOMES = {"contradicts": "C3", "agrees": "C2", "not forecast": "C0", "not separated": "0.6"}
_SAID = {
    "contradicts": "forecast the other way round",
    "agrees": "as forecast",
    "not forecast": "no order forecast",
    "not separated": "measured interval holds 0",
}


def data() -> Data:
    """Every pair of methods with the better one first; ``outcome`` is a place in the row of outcomes."""
    table = []
    for row in rows(TABLE):
        sign = 1.0 if row["mean"] >= 0 else -1.0
        low, high = sorted((sign * row["low"], sign * row["high"]))
        table.append(
            {
                **row,
                "mean": sign * row["mean"],
                "low": low,
                "high": high,
                "outcome": list(_OUTCOMES).index(row["outcome"]),
            }
        )
    table.sort(key=lambda row: row["mean"])
    return columns(table, "mean", "low", "high", "outcome")


def draw(ax: Axes, data: Data) -> None:
    """An interval a pair, the largest difference last."""
    places = np.arange(len(data["mean"]))
    for index, (outcome, colour) in enumerate(_OUTCOMES.items()):
        here = data["outcome"] == index
        if not here.any():
            continue
        reach = [(data["mean"] - data["low"])[here], (data["high"] - data["mean"])[here]]
        label = f"{_SAID[outcome]}: {int(here.sum())}"
        ax.errorbar(places[here], data["mean"][here], yerr=reach, fmt="o", ms=4, lw=1, color=colour, label=label)
    ax.axhline(0, color="0.3", lw=1)
    ax.set(
        xlabel="pair of methods in one setting, the better one first",
        ylabel="difference in test accuracy, points",
        title="methods at their own best learning rates, 95 % intervals",
    )
    ax.legend(loc="upper left")
