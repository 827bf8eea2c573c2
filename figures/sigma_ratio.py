"""How many times the least noise the stated noise of GEP is, and the noise that RDP asks for at its best order."""

import math

import numpy as np
from matplotlib.axes import Axes

from dptheory import embedding
from figures._table import Data

DELTAS = (1e-5, 1e-6)
_POINTS = 121


def data() -> Data:
    """Ratios over epsilon from 1e-4 to 2 log(1 / delta), the end of the theorem's range; NaN beyond it."""
    ends = [2 * math.log(1 / delta) for delta in DELTAS]
    epsilons = np.unique(np.concatenate([np.geomspace(1e-4, max(ends), _POINTS), ends]))
    columns: Data = {"epsilon": epsilons}
    for delta, end in zip(DELTAS, ends, strict=True):
        columns[f"stated delta={delta:g}"] = np.array(
            [embedding.noise_ratio_excess(epsilon=float(e), delta=delta) if e <= end else math.nan for e in epsilons]
        )
        columns[f"renyi delta={delta:g}"] = np.array(
            [embedding.noise_ratio_excess(epsilon=float(e), delta=delta, method="renyi") for e in epsilons]
        )
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Logarithmic in epsilon, cut at 4: below, the curves go up without end."""
    epsilons = data["epsilon"]
    for i, delta in enumerate(DELTAS):
        power = round(math.log10(delta))
        stated, renyi = data[f"stated delta={delta:g}"], data[f"renyi delta={delta:g}"]
        ax.semilogx(epsilons, stated, color=f"C{i}", label=rf"stated, $\delta = 10^{{{power}}}$")
        ax.semilogx(epsilons, renyi, color=f"C{i}", ls="--", label=rf"RDP, best order, $\delta = 10^{{{power}}}$")
        last = int(np.flatnonzero(np.isfinite(stated))[-1])
        ax.plot(epsilons[last], stated[last], "o", color=f"C{i}", ms=5)
    ax.axhline(1, color="0.4", lw=0.8)
    ax.set(
        xlabel=r"$\epsilon$ (dots: $2\log(1/\delta)$, where the theorem ends)",
        ylabel="noise over the least noise",
        title="Noise of GEP's two releases, against the exact trade-off",
        ylim=(0.9, 4),
    )
    ax.legend(loc="upper right")
