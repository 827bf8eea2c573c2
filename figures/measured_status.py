"""LF Fig. 8 on our small network: clipped and unclipped gradients before and after freezing."""

from matplotlib.axes import Axes

from figures._instrument import columns, rows
from figures._table import Data


def data() -> Data:
    """Numbers of clipped gradients before and after, and the angles between the sums."""
    found = rows("freezing", "dp-sgd", "status")
    keys = ("step", "examples", "clipped_before", "clipped_after", "changed", "clipped_turn", "unclipped_turn")
    return columns({key: [row[key] for row in found] for key in keys})


def draw(ax: Axes, data: Data) -> None:
    """Two bars a step, and the angles above them."""
    places = range(len(data["step"]))
    for shift, key, colour in ((-0.2, "clipped_before", "C0"), (0.2, "clipped_after", "C1")):
        below = [place + shift for place in places]
        ax.bar(below, data[key], width=0.38, color=colour, label=key.replace("_", " "))
        ax.bar(below, data["examples"] - data[key], bottom=data[key], width=0.38, color=colour, alpha=0.3)
    for place in places:
        turns = (
            f"turned by\n{data['clipped_turn'][place]:.2f} (clipped)\n{data['unclipped_turn'][place]:.2f} (unclipped)"
        )
        ax.text(place, 1.02 * data["examples"][place], turns, ha="center", fontsize=8)
    ax.set_xticks(list(places), [f"step {step:g}" for step in data["step"]])
    ax.set(
        ylabel="gradients (pale: unclipped)",
        ylim=(0, 1.5 * data["examples"].max()),
        title="small CNN on FashionMNIST, two of four layers frozen; angles in radians",
    )
    ax.legend(loc="upper left", ncols=2)
