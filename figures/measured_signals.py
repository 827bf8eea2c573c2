"""LF Fig. 3 on our small network: norm of the clipped mean gradient of the layers that stay, before and after freezing."""

from matplotlib.axes import Axes

from figures._instrument import columns, rows
from figures._table import Data

LAYERS = (2, 3)
FROZEN_AFTER = 120


def layer_columns(keys: tuple[str, ...]) -> Data:
    """One column per run, layer and quantity over the steps."""
    found = rows("freezing", "freezing", "signals")
    names = found[0]["layers"]
    table = {"step": [row["step"] for row in found]}
    for arm in ("freezing", "dp-sgd"):
        for layer in LAYERS:
            for key in keys:
                values = [row["as_it_is"][key][layer] for row in rows("freezing", arm, "signals")]
                table[f"{arm}; {names[layer]}; {key}"] = values
    return columns(table)


def data() -> Data:
    """|s^B| of both layers, with and without freezing."""
    return layer_columns(("signal",))


def draw(ax: Axes, data: Data) -> None:
    """Solid with freezing, dotted without."""
    for name in list(data)[1:]:
        arm, layer, _ = name.split("; ")
        colour = "C0" if layer == "fc1" else "C1"
        style = {"ls": "-", "marker": "o", "ms": 4} if arm == "freezing" else {"ls": ":"}
        label = f"{layer}, {'frozen below' if arm == 'freezing' else 'nothing frozen'}"
        ax.plot(data["step"], data[name], color=colour, label=label, **style)
    ax.axvline(FROZEN_AFTER, color="0.3", ls="--", lw=0.8)
    ax.set(
        xlabel="step (two of four layers frozen after step 120)",
        ylabel=r"$|s^B|$",
        ylim=(0, None),
        title="small CNN on FashionMNIST, 2000 test images as the batch",
    )
    ax.legend()
