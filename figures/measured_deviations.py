"""RS Figs 6 to 9 on our small network: deviations of per-sample gradients in a random plane, with and without masks."""

import numpy as np
from matplotlib.axes import Axes

from figures._instrument import rows
from figures._table import Data

_PLACES = (("dp-sgd", "DP-SGD"), ("freeze", "random freeze"))


def data() -> Data:
    """The points of every step and method, shifted apart; distance of the law from its mirror image beside them."""
    columns: dict[str, list[float]] = {"method": [], "step": [], "x": [], "y": [], "mirror_distance": []}
    for number, (arm, _) in enumerate(_PLACES):
        for row in rows("masks", arm, "deviations"):
            for x, y in row["points"]:
                for name, value in zip(columns, (number, row["step"], x, y, row["mirror_distance"]), strict=True):
                    columns[name].append(float(value))
    return {name: np.array(values) for name, values in columns.items()}


def draw(ax: Axes, data: Data) -> None:
    """Six clouds: a column per step, a row per method."""
    for column, step in enumerate(np.unique(data["step"])):
        for number, (_, label) in enumerate(_PLACES):
            chosen = (data["step"] == step) & (data["method"] == number)
            ax.plot(data["x"][chosen] + 8 * column, data["y"][chosen] - 8 * number, ".", ms=3, color=f"C{number}")
            distance = data["mirror_distance"][chosen][0]
            ax.text(
                8 * column,
                3.4 - 8 * number,
                f"{label}, step {step:g}\nmirror distance {distance:.3f}",
                ha="center",
                fontsize=8,
            )
    ax.set(xticks=[], yticks=[], ylim=(-12, 5.4), xlim=(-4, 20), xlabel="two random directions of 26,010")
    ax.set_title("deviations from the mean gradient, small CNN on FashionMNIST")
