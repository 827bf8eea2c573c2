"""GEP Figs 4 and 7 on our small network: what a subspace of k vectors leaves out of the mean gradient."""

import numpy as np
from matplotlib.axes import Axes

from figures._instrument import columns, rows
from figures._table import Data

_SOURCES = {
    "same": "test images with their labels",
    "other": "FashionMNIST with random labels",
    "random": "random vectors",
}


def data() -> Data:
    """Mean relative projection error over the steps, and its least and greatest, by k."""
    found = rows("subspaces", "gep", "projection")
    table = {"k": found[0]["dims"]}
    for source, label in _SOURCES.items():
        each = np.array([row["error"][source] for row in found])
        table |= {
            label: each.mean(0).tolist(),
            f"{label} (least)": each.min(0).tolist(),
            f"{label} (greatest)": each.max(0).tolist(),
        }
    return columns(table)


def draw(ax: Axes, data: Data) -> None:
    """A line with its range a source."""
    for number, label in enumerate(_SOURCES.values()):
        ax.plot(data["k"], data[label], "o-", color=f"C{number}", label=label)
        ax.fill_between(data["k"], data[f"{label} (least)"], data[f"{label} (greatest)"], color=f"C{number}", alpha=0.2)
    ax.set(
        xlabel="vectors k",
        ylabel="relative projection error",
        ylim=(0, 1.05),
        title="small CNN (d = 26,010) on MNIST under GEP; range over two epochs",
    )
    ax.legend(loc=(0.45, 0.7))
