"""How much of DP-SGD's direction pruning keeps under large noise, over the keep ratio."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import pruning
from figures._table import Data

DIM = 10_000
GAINS = (1.0, 0.75, 0.478, 0.25, 0.0)


def data() -> Data:
    """Cosine of perturbed top-k over the cosine of DP-SGD, linear in rho between random-k and top-k."""
    keeps = np.unique(np.round(np.concatenate([np.logspace(0.7, 4, 80), np.linspace(500, 9999, 40)])).astype(int))
    keeps = keeps[keeps < DIM]
    random, top = (
        np.array([pruning.cosine_ratio(DIM, int(keep), theta=theta) for keep in keeps]) for theta in (0.0, np.inf)
    )
    columns: Data = {"k": keeps / DIM}
    for rho in GAINS:
        columns[f"rho {rho:g}"] = random + rho * (top - random)
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Curves over k, one a retained gain, with break-even at 1."""
    names = {1.0: "exact top-k", 0.0: "random-k"}
    for index, rho in enumerate(GAINS):
        label = rf"$\rho$ = {rho:g}" + (f" ({names[rho]})" if rho in names else "")
        ax.semilogx(data["k"], data[f"rho {rho:g}"], color=f"C{index}", label=label)
    ax.axhline(1.0, color="k", lw=1, ls=":")
    ax.text(6e-4, 1.02, "DP-SGD without pruning", fontsize=8.5)
    ax.axvline(0.0186, color="0.6", lw=1, ls="--")
    ax.text(0.0195, 1.53, "k = 0.0186: below it\neven exact top-k loses", fontsize=8.5)
    ax.set(
        xlabel="keep ratio k",
        ylabel="cosine with the gradient / that of DP-SGD",
        title=f"Direction under noise much larger than the gradient, d = {DIM:,}",
        ylim=(0, 1.65),
        xlim=(5e-4, 1),
    )
    ax.legend(loc="upper left")
