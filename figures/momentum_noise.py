"""Noise that momentum leaves in the velocity and in the parameters, printed and exact."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import convergence
from dptheory.claims.rf.momentum import printed_velocity_variance
from dptheory.claims.rs.appH import printed_adam_variance
from figures._table import Data

_LONG = 5000  # steps after which the printed sums have converged
_STEPS = (20, 1000)


def data() -> Data:
    """Standard deviations in units of one step's, over the momentum."""
    grid = 1 - np.logspace(0, -2.3, 47)
    columns: Data = {
        "momentum": grid,
        "velocity printed": np.array([printed_velocity_variance(1.0, float(mu), _LONG) for mu in grid]) ** 0.5,
        "velocity": np.array([convergence.velocity_variance(noise_std=1.0, momentum=float(mu)) for mu in grid]) ** 0.5,
        "Adam printed": np.array([printed_adam_variance(1.0, float(mu), _LONG) for mu in grid]) ** 0.5,
        "Adam": np.array([convergence.adam_velocity_variance(noise_std=1.0, momentum=float(mu)) for mu in grid]) ** 0.5,
    }
    for steps in _STEPS:
        moved = np.array(
            [
                convergence.displacement_variance(learning_rate=1.0, noise_std=1.0, momentum=float(mu), steps=steps)
                for mu in grid
            ]
        )
        columns[f"displacement T = {steps}"] = np.sqrt(moved / steps)
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Over 1 - mu on logarithmic axes, more momentum to the right."""
    x = 1 - data["momentum"]
    ax.loglog(x, data["velocity printed"], color="tab:red", ls="-.", label=r"velocity, as printed: $1/(1-\mu)$")
    ax.loglog(x, data["velocity"], color="C0", label=r"velocity: $1/\sqrt{1-\mu^2}$")
    ax.loglog(x, data["Adam printed"], color="C1", ls="-.", label="Adam, as printed: 1")
    ax.loglog(x, data["Adam"], color="C1", label=r"Adam: $\sqrt{(1-\mu)/(1+\mu)}$")
    for steps, style in zip(_STEPS, (":", "--"), strict=True):
        ax.loglog(
            x,
            data[f"displacement T = {steps}"],
            color="0.3",
            ls=style,
            label=rf"$(w_T-w_0)/(\gamma\sqrt{{T}})$, T = {steps}",
        )
    ax.axvline(0.1, color="0.8", lw=1, zorder=0)
    ax.text(0.098, 0.045, r"$\mu = 0.9$", color="0.4", fontsize=8.5)
    ax.invert_xaxis()
    ax.set(
        xlabel=r"$1-\mu$",
        ylabel="std of the noise / std of one step's noise",
        title="Noise under momentum",
        ylim=(0.03, 400),
    )
    ax.legend(loc="upper left")
