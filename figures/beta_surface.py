"""GIP's Fig. 5: log beta over keep ratio and dimension."""

import math

import numpy as np
from matplotlib.axes import Axes

from dptheory import pruning
from figures._table import Data


def data() -> Data:
    """log of the exact beta for C = 1 and theta = inf on the grid of the paper, k in [0.1, 0.9] and d in [10, 200]."""
    rows = [(dim, tenth) for dim in range(10, 201, 10) for tenth in range(1, 10)]
    values = [
        math.log(pruning.beta(clip_norm=1.0, keep=dim * tenth // 10, dim=dim, theta=math.inf)) for dim, tenth in rows
    ]
    grid = np.array(rows, dtype=float)
    return {"dim": grid[:, 0], "k": grid[:, 1] / 10, "log beta": np.array(values)}


def draw(ax: Axes, data: Data) -> None:
    """Filled contours: k decides, d hardly matters."""
    dims, ks = np.unique(data["dim"]), np.unique(data["k"])
    surface = data["log beta"].reshape(dims.size, ks.size)
    filled = ax.contourf(ks, dims, surface, levels=np.arange(0, 5.6, 0.25), cmap="viridis")
    lines = ax.contour(ks, dims, surface, levels=np.arange(1, 6), colors="w", linewidths=0.8)
    ax.clabel(lines, fmt="%g", fontsize=8)
    assert ax.figure is not None
    ax.figure.colorbar(filled, ax=ax, label=r"$\log\,\beta$")
    ax.set(
        xlabel="keep ratio k",
        ylabel="dimension d of a group",
        title=r"Exact $\log\,\beta$ for $C = 1$, $\theta = \infty$",
    )
    ax.grid(False)
