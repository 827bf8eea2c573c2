"""LF Fig. 7 on our small network: angles of the clipped and of the unclipped gradients to the true one."""

from matplotlib.axes import Axes

from figures._instrument import columns, rows
from figures._table import Data

_CLIPS = ("0.1", "1", "5", "10")


def data() -> Data:
    """Both angles over the steps, for every clip; empty where no gradient is of the kind."""
    table = {"step": [row["step"] for row in rows("clips", "clip-1", "alignment")]}
    for clip in _CLIPS:
        for kind in ("clipped", "unclipped"):
            table[f"{kind} at C = {clip}"] = [
                row[f"{kind}_angle"] for row in rows("clips", f"clip-{clip}", "alignment")
            ]
    return columns(table)


def draw(ax: Axes, data: Data) -> None:
    """A colour per clip: solid for the clipped ones, dashed for the others."""
    for number, clip in enumerate(_CLIPS):
        for kind, style in (("clipped", "o-"), ("unclipped", "s--")):
            ax.plot(
                data["step"],
                data[f"{kind} at C = {clip}"],
                style,
                ms=4,
                color=f"C{number}",
                label=f"{kind} at C = {clip}",
            )
    ax.set(
        xlabel="step",
        ylabel="angle to the true gradient (radians)",
        ylim=(0, 3.4),
        title=r"small CNN on FashionMNIST, B = 512, $\sigma$ = 1, learning rate 0.15",
    )
    ax.legend(ncols=2, loc="upper left")
