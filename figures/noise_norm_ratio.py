"""RS Fig. 1c predicted: norm of the masked noise over that of the noise."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import gradients, papers
from figures._table import Data

DIMS = (papers.setting("rs.fig2.e").whole("dim"), 20, 4)
_DRAWS = 4000


def data() -> Data:
    """Mean ratio over the rate for the paper's dimension and two small ones; d = 20 simulated with a fixed seed."""
    rates = np.linspace(0, 0.95, 20)
    columns: Data = {"r": rates, "sqrt(1 - r)": np.sqrt(1 - rates)}
    for dim in DIMS:
        keeps = [max(1, round(dim * (1 - r))) for r in rates]
        columns[f"kept d = {dim}"] = np.array(keeps) / dim
        columns[f"d = {dim}"] = np.array([gradients.noise_norm_ratio(dim, keep) for keep in keeps])
    squares = np.square(np.random.default_rng(0).standard_normal((_DRAWS, 20))).cumsum(axis=1)
    kept = (20 * columns["kept d = 20"]).round().astype(np.intp)
    columns["simulated d = 20"] = np.sqrt(squares[:, kept - 1] / squares[:, -1:]).mean(axis=0)
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Curves over r; those of small dimensions lie below."""
    ax.plot(
        data["r"], data["sqrt(1 - r)"], color="k", ls="--", label=r"$\sqrt{1-r}$ (root mean square, every d)", zorder=3
    )
    for index, dim in enumerate(DIMS):
        rate = 1 - data[f"kept d = {dim}"]
        style = {"lw": 4, "alpha": 0.45} if index == 0 else {"marker": ".", "ls": "-", "lw": 1}
        ax.plot(rate, data[f"d = {dim}"], color=f"C{index}", label=f"mean ratio, d = {dim:,}", **style)
    ax.plot(1 - data["kept d = 20"], data["simulated d = 20"], "kx", ms=5, label="simulated, d = 20")
    ax.set(
        xlabel="sparsification rate r",
        ylabel=r"$E\;\|m\odot\xi\|\,/\,\|\xi\|$",
        title="Norm of the noise under a mask",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    ax.legend(loc="lower left")
