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
        found = [DistortionAngle(dim, float(t) * dim**0.5) for t in ratio]
        columns[f"mean d = {dim}"] = np.degrees([angle.mean() for angle in found])
        columns[f"sd d = {dim}"] = np.degrees([angle.var() ** 0.5 for angle in found])
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Bands narrow as the dimension grows; the dashed curve is their limit."""
    ratio = data["snr / sqrt(d)"]
    for i, dim in enumerate(DIMS):
        mean, spread = data[f"mean d = {dim}"], data[f"sd d = {dim}"]
        name = f"{dim}" if dim < 10**4 else rf"10^{len(str(dim)) - 1}"
        ax.fill_between(ratio, mean - spread, mean + spread, color=f"C{i}", alpha=0.22, lw=0, zorder=1 + i)
        ax.plot(ratio, mean, color=f"C{i}", label=rf"$d = {name}$", zorder=10 + i)
    ax.plot(ratio, data["arctan"], "k--", lw=1.2, label=r"$\arctan(\sqrt{d}/\kappa)$", zorder=20)
    ax.set(
        xscale="log",
        xlabel=r"$\kappa/\sqrt{d}$,   $\kappa = \|s^B\|/\tau$",
        ylabel=r"angle $\gamma^{BP}$ (degrees)",
        title="angle that the noise adds: mean and one standard deviation to each side",
        xlim=(ratio[0], ratio[-1]),
        ylim=(0, 150),
        yticks=range(0, 151, 30),
    )
    ax.legend(loc="upper right")
