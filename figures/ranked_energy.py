"""Signal energy that a ranked mask keeps, over the share of entries kept."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import papers, sparsification
from figures._table import Data

DIM = papers.setting("rs.fig2.e").whole("dim")
_SNRS = (0.1, 0.5, 1.0, np.inf)
_SPARSE = (0.1, 0.01)  # snr, share of non-zero entries


def data() -> Data:
    """Kept share of the energy for several signal-to-noise ratios t, the signed sort, and a sparse signal."""
    keeps = np.unique(np.linspace(0.01, 0.99, 50).round(2))
    columns: Data = {"x": keeps, "random": keeps}
    for snr in _SNRS:
        columns[f"t = {snr:g}"] = np.array(
            [sparsification.captured_energy(DIM, round(x * DIM), snr=snr) for x in keeps]
        )
    columns["signed t = 1"] = np.array(
        [sparsification.signed_captured_energy(keep_share=float(x), snr=1.0) for x in keeps]
    )
    columns["sparse"] = np.array(
        [
            sparsification.sparse_captured_energy(keep_share=float(x), snr=_SPARSE[0], nonzero_share=_SPARSE[1])
            for x in keeps
        ]
    )
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Curves over x; random is the diagonal."""
    x = data["x"]
    ax.plot(x, data["t = inf"], color="C0", label=r"ranked, no noise ($t = \infty$)")
    for index, snr in enumerate(_SNRS[2::-1], start=1):
        ax.plot(x, data[f"t = {snr:g}"], color="C0", alpha=1 - 0.25 * index, ls="-", label=f"ranked, t = {snr:g}")
    ax.plot(
        x, data["sparse"], color="C2", label=f"ranked, t = {_SPARSE[0]:g}, 1 entry in {1 / _SPARSE[1]:.0f} non-zero"
    )
    ax.plot(x, data["signed t = 1"], color="tab:red", ls="-.", label="signed sort (Algorithm 2 as printed), t = 1")
    ax.plot(x, data["random"], color="0.3", ls=":", label="random mask")
    ax.set(
        xlabel="share x of entries kept",
        ylabel="share of the signal's energy kept",
        title="t: signal std / noise std in the ranked sum",
        xlim=(0, 1),
        ylim=(0, 1.01),
    )
    ax.legend(loc="lower right")
