"""RS Fig. 1d on our small network: how much larger clipped gradients are on the entries that a mask keeps."""

import numpy as np
from matplotlib.axes import Axes

from figures._instrument import columns, epoch, rows
from figures._table import Data


def data() -> Data:
    """Ratio of the norms of the clipped mean gradient on the kept entries, with a mask over without."""
    found = rows("masks", "dp-sgd", "relaxed")
    table = {"drop_rate": found[0]["drop_rates"]}
    return columns(table | {f"after epoch {epoch('masks', 'dp-sgd', row['step']):g}": row["ratio"] for row in found})


def draw(ax: Axes, data: Data) -> None:
    """A line a step; the ratio of flat gradients as a bound."""
    rates = data["drop_rate"]
    for name in list(data)[1:]:
        ax.plot(rates, data[name], "o-", label=name)
    ax.plot(rates, 1 / np.sqrt(1 - rates), ":", color="0.3", label=r"$1/\sqrt{1-r}$: flat gradients, all clipped")
    ax.axhline(1, color="0.3", lw=0.8)
    ax.set(
        xlabel="sparsification rate r",
        ylabel="norm on the kept entries, with mask / without",
        title="small CNN on FashionMNIST, C = 0.1",
    )
    ax.legend()
