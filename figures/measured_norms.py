"""RF Fig. 2 on our small network: laws of the gradient norm with and without random freeze."""

import numpy as np
from matplotlib.axes import Axes

from figures._instrument import columns, epoch, rows
from figures._table import Data

_CLIP = 0.1


def data() -> Data:
    """Share of the examples in every tenth of a decade of the norm, after three epochs of both runs."""
    table = {"log10_norm": [round(-5 + 0.1 * (i + 0.5), 2) for i in range(80)]}
    for arm in ("dp-sgd", "freeze"):
        for row in rows("masks", arm, "norms"):
            total = sum(row["histogram"])
            table[f"{arm} at epoch {epoch('masks', arm, row['step']):g}"] = [n / total for n in row["histogram"]]
    return columns(table)


def draw(ax: Axes, data: Data) -> None:
    """Shares below each norm: solid without freezing, dashed with it."""
    norms = 10 ** (data["log10_norm"] + 0.05)
    names = [name for name in data if name.startswith("dp-sgd")]
    for number, name in enumerate(names):
        at = name.removeprefix("dp-sgd at ")
        ax.plot(norms, np.cumsum(data[name]), color=f"C{number}", label=f"no freeze, {at}")
        ax.plot(norms, np.cumsum(data[f"freeze at {at}"]), "--", color=f"C{number}", label=f"random freeze, {at}")
    ax.axvline(_CLIP, color="0.3", ls=":", label="C")
    ax.set(
        xscale="log",
        xlim=(1e-4, 1e2),
        ylim=(0, 1),
        xlabel="norm of an example's gradient (of the kept entries)",
        ylabel="share of the examples below",
        title="small CNN on FashionMNIST: freeze rate 0, 0.54 and 0.9",
    )
    ax.legend(loc="upper left")
