"""RS Fig. 1d predicted: clipped gradient on the kept coordinates, with the mask before the clipping over after it."""

import math

import numpy as np
from matplotlib.axes import Axes

from dptheory import gradients
from figures._table import Data

_NORMS = (1.0, 1.25, 1.5, 2.0, 1e6)


def data() -> Data:
    """The ratio for a flat gradient of several norms |g| / C, over the rate."""
    rates = np.linspace(0, 0.95, 96)
    columns: Data = {"r": rates}
    for norm in _NORMS:
        columns[f"|g| = {norm:g} C"] = gradients.relaxed_gradient_ratio(
            grad_norm=norm, masked_norm=norm * np.sqrt(1 - rates), clip_norm=1.0
        )
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Each curve leaves the common one where the masked gradient is no longer clipped."""
    for index, norm in enumerate(_NORMS[::-1]):
        label = r"$\|g\|\gg C$: $1/\sqrt{1-r}$" if math.isclose(norm, 1e6) else rf"$\|g\| = {norm:g}\,C$"
        ax.plot(data["r"], data[f"|g| = {norm:g} C"], color=f"C{index}", label=label, zorder=2 + index)
    ax.set(
        xlabel="sparsification rate r",
        ylabel=r"$\|\mathrm{clip}(m\odot g)\|\,/\,\|m\odot\mathrm{clip}(g)\|$",
        title="One example, a gradient spread evenly over its entries",
        xlim=(0, 1),
        ylim=(0.9, 3.5),
    )
    ax.legend(loc="upper left")
