"""RF Fig. 3 and RS Fig. 12 on our small network: how often an entry is frozen."""

import numpy as np
from matplotlib.axes import Axes

from figures._instrument import columns, rows
from figures._table import Data

_ARMS = {"freeze": "random", "ranked": "ranked", "ranked-without-noise": "ranked without noise (not private)"}


def data() -> Data:
    """Share of the entries that were frozen 0, 1, ... times."""
    last = {label: rows("masks", arm, "frozen")[-1]["times"] for arm, label in _ARMS.items()}
    table = {"times": list(range(len(last["random"])))}
    return columns(table | {label: [n / sum(times) for n in times] for label, times in last.items()})


def draw(ax: Axes, data: Data) -> None:
    """Three bars a count."""
    for number, label in enumerate(_ARMS.values()):
        ax.bar(data["times"] + 0.27 * (number - 1), data[label], width=0.27, color=f"C{number}", label=label)
    ax.set_xticks(np.arange(len(data["times"])))
    ax.set(
        xlabel="epochs of 6 in which an entry is frozen (rate 0 to 0.9)",
        ylabel="share of the entries",
        title="small CNN on FashionMNIST, $\\epsilon$ = 7.53",
    )
    ax.legend()
