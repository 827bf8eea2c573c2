"""LF Fig. 3 on our small network: norm of the clipped mean gradient of the layers that stay, before and after freezing."""

from typing import Any

from matplotlib.axes import Axes

from figures._instrument import columns, rows
from figures._table import Data

LAYERS = (2, 3)
FROZEN_AFTER = 120
LOOKS = {"freezing": "as_it_is", "dp-sgd": "as_it_is", "dp-sgd if frozen": "if_frozen"}
"""Runs, and how the same gradients would be with the first layers frozen."""
STYLES: dict[str, dict[str, Any]] = {
    "freezing": {"ls": "-", "marker": "o", "ms": 4},
    "dp-sgd": {"ls": ":"},
    "dp-sgd if frozen": {"ls": "", "marker": "x", "ms": 5},
}


def layer_columns(keys: tuple[str, ...]) -> Data:
    """One column per run, layer and quantity over the steps."""
    found = rows("freezing", "freezing", "signals")
    names = found[0]["layers"]
    table = {"step": [row["step"] for row in found]}
    for arm, where in LOOKS.items():
        for layer in LAYERS:
            for key in keys:
                measured = rows("freezing", arm.split()[0], "signals")
                table[f"{arm}; {names[layer]}; {key}"] = [row[where][key][layer] for row in measured]
    return columns(table)


def data() -> Data:
    """|s^B| of both layers, with and without freezing."""
    return layer_columns(("signal",))


def draw(ax: Axes, data: Data) -> None:
    """Solid with freezing, dotted without; a cross where its gradients would be with the layers frozen."""
    words = {"freezing": "frozen below", "dp-sgd": "nothing frozen", "dp-sgd if frozen": "the same, if frozen"}
    for name in list(data)[1:]:
        arm, layer, _ = name.split("; ")
        colour = "C0" if layer == "fc1" else "C1"
        ax.plot(data["step"], data[name], color=colour, label=f"{layer}, {words[arm]}", **STYLES[arm])
    ax.axvline(FROZEN_AFTER, color="0.3", ls="--", lw=0.8)
    ax.set(
        xlabel="step (two of four layers frozen after step 120)",
        ylabel=r"$|s^B|$",
        ylim=(0, 0.065),
        title="small CNN on FashionMNIST, 2000 test images as the batch",
    )
    ax.legend(fontsize="small", ncols=3)
