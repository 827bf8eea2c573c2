"""What a step of each method was worth beside DP-SGD's, and the interval that the planner had forecast."""

import numpy as np
from matplotlib.axes import Axes

from figures._planner import columns, rows
from figures._table import Data

TABLE = "covered"
"""Of the planner's tables; without rows there is no picture."""

_METHODS = ("random-sparsification", "random-k", "layer-freezing", "gep-joint", "biased-gep")
_KINDS = ("descent", "curved_descent")


def data() -> Data:
    """Measured ratio, its standard error, the forecast interval, whether it lies inside or near.

    ``method`` and ``kind`` are places in their rows.
    """
    table = [{**row, "method": _METHODS.index(row["method"]), "kind": _KINDS.index(row["kind"])} for row in rows(TABLE)]
    table.sort(key=lambda row: (row["method"], row["kind"], row["lower"], row["upper"]))
    return columns(table, "method", "kind", "value", "error", "lower", "upper", "inside", "near")


def draw(ax: Axes, data: Data) -> None:
    """Grey intervals; a point a measurement, a cross where it lies outside."""
    places = np.arange(len(data["value"]))
    inside, near = data["inside"] == 1, data["near"] == 1
    marks = (
        (inside, ".", "C0", "inside"),
        (near & ~inside, "x", "0.4", "within two standard errors"),
        (~near, "x", "C1", "outside"),
    )
    ax.vlines(places, data["lower"], data["upper"], color="0.85", lw=2, label="forecast")
    for here, mark, colour, label in marks:
        ax.plot(places[here], data["value"][here], mark, color=colour, ms=4, label=f"{label}: {int(here.sum())}")
    for index, name in enumerate(_METHODS):
        mine = places[data["method"] == index]
        if len(mine):
            ax.text(float(mine.mean()), 1.01, name, transform=ax.get_xaxis_transform(), ha="center", fontsize=8)
            ax.axvline(float(mine[-1]) + 0.5, color="0.8", lw=0.8)
    ax.set_yscale("symlog", linthresh=0.01)
    ax.set(xlabel="measurement", ylabel="descent of the best step over DP-SGD's", xticks=[], ylim=(0, None))
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, 0.97))
