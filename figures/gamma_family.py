"""RF Fig. 5: densities of Gamma(k, k), the approximate law of |g|^2 over its mean, and the mean of the largest of n draws."""

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import gamma

from dptheory import gradients
from figures._table import Data

SHAPES = (0.5, 1.0, 2.0, 5.0, 20.0, 100.0)
_DRAWS = 100


def _largest(shape: float) -> float:
    """E max of _DRAWS draws of Gamma(k, k), which is the mean of 2k squared standard normal entries."""
    entries = round(2 * shape)
    return gradients.expected_max_quadratic_form([1 / entries] * entries, _DRAWS)


def data() -> Data:
    """Densities on a grid, and in a constant column each the mean of the largest of 100 draws."""
    x = np.linspace(0.02, 4, 200)
    columns: Data = {"x": x}
    for shape in SHAPES:
        columns[f"k = {shape:g}"] = gamma.pdf(x, shape, scale=1 / shape)
        columns[f"largest k = {shape:g}"] = np.full(x.size, _largest(shape))
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Curves from wide to narrow; the triangles move towards the common mean 1."""
    for index, shape in enumerate(SHAPES):
        largest = float(data[f"largest k = {shape:g}"][0])
        label = rf"k = {shape:g}: $E\,M_{{{_DRAWS}}}$ = {largest:.2f}"
        ax.plot(data["x"], data[f"k = {shape:g}"], color=f"C{index}", label=label)
        ax.plot(
            min(largest, 3.95),
            0.06,
            marker="v" if largest < 4 else ">",
            color=f"C{index}",
            mec="k",
            ms=7,
            clip_on=False,
        )
    ax.axvline(1, color="0.7", lw=1, zorder=0)
    ax.set(
        xlabel=r"$\|g\|^2\;/\;E\|g\|^2$",
        ylabel="density",
        title=f"Gamma(k, k); triangles: mean of the largest of {_DRAWS} draws",
        xlim=(0, 4),
        ylim=(0, 4.2),
    )
    ax.legend(loc="upper right")
