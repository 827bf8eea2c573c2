"""RS Figs 6 to 9 on our small network: deviations of per-sample gradients in a random plane, with and without masks."""

import numpy as np
from matplotlib.axes import Axes

from figures._instrument import rows
from figures._table import Data

_PLACES = (("dp-sgd", "DP-SGD"), ("freeze", "random freeze"))
_REACH = 4.0


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
    """Six clouds, each in a frame of its own: a column per step, a row per method; points beyond a frame are counted."""
    steps = np.unique(data["step"])
    for column, step in enumerate(steps):
        for number, (_, label) in enumerate(_PLACES):
            chosen = (data["step"] == step) & (data["method"] == number)
            x, y = data["x"][chosen], data["y"][chosen]
            frame = ax.inset_axes((column / len(steps), (1 - number) / 2, 1 / len(steps), 0.37))
            frame.plot(x, y, ".", ms=3, color=f"C{number}")
            frame.set(xticks=[], yticks=[], xlim=(-_REACH, _REACH), ylim=(-_REACH, _REACH))
            outside = int(np.sum((np.abs(x) > _REACH) | (np.abs(y) > _REACH)))
            distance = data["mirror_distance"][chosen][0]
            title = f"{label}, step {step:g}\nmirror distance {distance:.3f}, {outside} of {len(x)} outside"
            frame.set_title(title, fontsize=7)
    ax.set(xticks=[], yticks=[], xlabel="two random directions of 26,010")
    ax.spines[:].set_visible(False)
    ax.set_title("deviations from the mean gradient, small CNN on FashionMNIST", pad=4)
