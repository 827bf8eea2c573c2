"""Law of the noise angle: mean and standard deviation over snr / sqrt(d), exact and asymptotic, for five dimensions."""

import numpy as np
from matplotlib.axes import Axes

from dptheory.gradients import DistortionAngle
from figures._table import Data

DIMS = (2, 10, 100, 10**4, 10**6)


def data() -> Data:
    """Mean and standard deviation in degrees over snr / sqrt(d)."""
    ratio = np.logspace(-2, 2, 81)
    columns: Data = {"snr / sqrt(d)": ratio, "arctan": np.degrees(np.arctan(1 / ratio))}
    for dim in DIMS:
        found = [DistortionAngle(dim, snr=float(t) * dim**0.5) for t in ratio]
        columns[f"mean d = {dim}"] = np.degrees([angle.mean() for angle in found])
        columns[f"sd d = {dim}"] = np.degrees([angle.var() ** 0.5 for angle in found])
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Above the means, of which all but the lowest dimensions coincide with their limit; below the spread."""
    ratio = data["snr / sqrt(d)"]
    grid = ax.figure.add_gridspec(2, 1)
    ax.set_subplotspec(grid[0])
    below = ax.figure.add_subplot(grid[1], sharex=ax)
    for i, dim in enumerate(DIMS):
        name = f"{dim}" if dim < 10**4 else rf"10^{len(str(dim)) - 1}"
        if dim < 100:
            ax.plot(ratio, data[f"mean d = {dim}"], color=f"C{i}")
        below.loglog(ratio, data[f"sd d = {dim}"], color=f"C{i}", label=rf"$d = {name}$")
    ax.plot(ratio, data["arctan"], "k--", lw=1.2, label=r"$\arctan(\sqrt{d}/\kappa)$; so close for every $d \geq 100$")
    ax.set(
        xscale="log",
        ylabel=r"mean of $\gamma^{BP}$ (degrees)",
        title="angle that the noise adds",
        xlim=(ratio[0], ratio[-1]),
        ylim=(0, 95),
        yticks=range(0, 91, 30),
    )
    ax.tick_params(labelbottom=False)
    below.set(
        xlabel=r"$\kappa/\sqrt{d}$,   $\kappa = \|s^B\|/\tau$", ylabel="standard\ndeviation (degrees)", ylim=(2e-4, 100)
    )
    ax.legend(loc="upper right")
    below.legend(loc="lower left", ncols=3)
