"""GEP Figs 2 and 5 on our small network: stable ranks of gradients and of their residuals over training."""

from matplotlib.axes import Axes

from figures._instrument import columns, epoch, rows
from figures._table import Data


def data() -> Data:
    """Stable rank of 1000 per-sample gradients by layer, and of their residuals."""
    found = rows("subspaces", "gep", "spectrum")
    table = {"epoch": [epoch("subspaces", "gep", row["step"]) for row in found]}
    table |= {name: [row["rank"][name] for row in found] for name in found[0]["rank"]}
    table["residuals of all"] = [row["residual"] for row in rows("subspaces", "gep", "residuals")]
    return columns(table)


def draw(ax: Axes, data: Data) -> None:
    """A line a layer; the residuals dashed."""
    for name in list(data)[1:]:
        style = "s--" if name.startswith("residuals") else "o-"
        ax.plot(data["epoch"], data[name], style, ms=4, label=name)
    ax.set(
        xlabel="epoch",
        ylabel="stable rank (1000 at most)",
        ylim=(0, None),
        title="small CNN on MNIST under GEP; residuals on 500 vectors of other images",
    )
    ax.legend(ncols=3, loc="upper right")
