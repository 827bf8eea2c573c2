"""Share of the top-k gain that an index budget leaves, with the paper's setting marked."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import pruning
from figures._table import Data

DIM, KEEP = 256, 26
SETTINGS = {"1 release": (1, 1), "T = 875 in 1 group": (875, 1), "T = 875": (875, 10_547), "T = 2500": (2500, 10_547)}
PAPER_EPSILON = 0.01


def data() -> Data:
    """rho over the total index budget epsilon_2, by basic composition over steps and groups."""
    budgets = np.logspace(-4, 9, 66)
    columns: Data = {"epsilon_2": budgets}
    for name, (steps, groups) in SETTINGS.items():
        columns[name] = np.array(
            [
                pruning.index_budget(epsilon=float(e), dim=DIM, keep=KEEP, steps=steps, groups=groups).retained_gain
                for e in budgets
            ]
        )
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Log-log curves with the rho that is needed and the paper's point."""
    labels = {
        name: name if groups == 1 else f"{name}, 10,547 groups (WRN-16-4)" for name, (_, groups) in SETTINGS.items()
    }
    for index, name in enumerate(SETTINGS):
        ax.loglog(data["epsilon_2"], data[name], color=f"C{index}", label=labels[name])
    needed = pruning.least_retained_gain(DIM, KEEP, groups=SETTINGS["T = 2500"][1])
    ax.axhline(needed, color="k", lw=1, ls=":")
    ax.text(1.3e-4, 2.5 * needed, rf"needed to beat DP-SGD's direction: $\rho$ = {needed:.2f}", fontsize=8.5)
    for index, (name, (steps, groups)) in enumerate(SETTINGS.items()):
        if groups > 1:
            rho = pruning.index_budget(
                epsilon=PAPER_EPSILON, dim=DIM, keep=KEEP, steps=steps, groups=groups
            ).retained_gain
            ax.plot(PAPER_EPSILON, rho, "o", color=f"C{index}", ms=7, mec="k", label=f"the paper's budget, {name}")
    ax.set(
        xlabel=r"index budget $\epsilon_2$ of the whole run",
        ylabel=r"retained share $\rho$ of the top-k gain",
        title=f"Groups of {DIM}, {KEEP} kept",
        ylim=(1e-15, 30),
    )
    ax.legend(loc="lower right")
