"""GIP Fig. 4a on our small network: cosine of the released with the unperturbed gradient over training."""

from matplotlib.axes import Axes

from figures._instrument import columns, epoch, rows
from figures._table import Data

_ARMS = {"index-pruning": "GIP (1 to 0.1 kept)", "dp-sgd": "DP-SGD", "random-k": "random-k (1 to 0.5 kept)"}


def data() -> Data:
    """Mean cosine of each method over the epochs."""
    table = {"epoch": [epoch("index", "dp-sgd", row["step"]) for row in rows("index", "dp-sgd", "cosines")]}
    return columns(
        table | {label: [row["cosine"] for row in rows("index", arm, "cosines")] for arm, label in _ARMS.items()}
    )


def draw(ax: Axes, data: Data) -> None:
    """A line a method."""
    for label in _ARMS.values():
        ax.plot(data["epoch"], data[label], "o-", label=label)
    ax.set(
        xlabel="epoch (of 10)",
        ylabel="cosine of released and unperturbed gradient",
        ylim=(0, None),
        title=r"small CNN on FashionMNIST, $\epsilon$ = 1, C = 0.1, B = 1000",
    )
    ax.legend()
