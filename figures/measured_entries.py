"""Entries of the clipped batch gradient of our small network against GIP's Gaussian law."""

import numpy as np
from matplotlib.axes import Axes

from figures._instrument import columns, epoch, rows
from figures._table import Data


def data() -> Data:
    """Density of the entries over their root mean square, at four times."""
    found = rows("index", "dp-sgd", "entries")
    edges = np.linspace(-12.0, 12.0, len(found[0]["histogram"]) + 1)
    table = {"entry": ((edges[1:] + edges[:-1]) / 2).tolist()}
    for row in found:
        counts = np.array(row["histogram"]) / (sum(row["histogram"]) + row["outside"]) / np.diff(edges)
        table[f"after epoch {epoch('index', 'dp-sgd', row['step']):g}"] = counts.tolist()
    return columns(table)


def draw(ax: Axes, data: Data) -> None:
    """A line a time, and the Gaussian law."""
    for name in list(data)[1:]:
        ax.plot(data["entry"], np.where(data[name] > 0, data[name], np.nan), label=name)
    ax.plot(data["entry"], np.exp(-(data["entry"] ** 2) / 2) / np.sqrt(2 * np.pi), "k--", label="N(0, 1)")
    ax.set(
        yscale="log",
        ylim=(1e-5, 5),
        xlabel="entry / root mean square",
        ylabel="density",
        title="clipped batch gradient, small CNN on FashionMNIST",
    )
    ax.legend()
