"""Largest of n quadratic forms over n: exact, Welch-Satterthwaite, simulated."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import gradients
from figures._table import Data

DIM = 100
_DRAWS = 2000
_SIMULATED = 1000  # largest n that is simulated


def data() -> Data:
    """E max of n draws of sum p_j z_j^2, p_j proportional to 1 / j, trace one; simulated with a fixed seed."""
    eigenvalues = 1.0 / np.arange(1, DIM + 1)
    eigenvalues /= eigenvalues.sum()
    n = np.unique(np.logspace(0, 6, 25).round().astype(int))
    rng = np.random.default_rng(0)
    maxima = np.empty((_DRAWS, n.size))
    for row in maxima:
        forms = np.square(rng.standard_normal((_SIMULATED, DIM))) @ eigenvalues
        row[:] = np.maximum.accumulate(forms)[np.minimum(n, _SIMULATED) - 1]
    simulated = n <= _SIMULATED
    return {
        "n": n.astype(np.float64),
        "exact": np.array([gradients.expected_max_quadratic_form(eigenvalues, int(k)) for k in n]),
        "Welch-Satterthwaite": np.array(
            [gradients.expected_max_quadratic_form(eigenvalues, int(k), method="welch-satterthwaite") for k in n]
        ),
        "simulated": np.where(simulated, maxima.mean(axis=0), np.nan),
        "standard error": np.where(simulated, maxima.std(axis=0, ddof=1) / np.sqrt(_DRAWS), np.nan),
    }


def draw(ax: Axes, data: Data) -> None:
    """Curves over n; the simulation lies on the exact one."""
    n = data["n"]
    ax.axhline(1.0, color="0.5", label="printed bound (Theorem 1)")
    ax.plot(n, data["exact"], color="C0", label="exact")
    ax.plot(n, data["Welch-Satterthwaite"], color="C1", ls="--", label="Welch-Satterthwaite")
    ax.errorbar(n, data["simulated"], 2 * data["standard error"], fmt="ko", ms=3.5, label=r"simulated ($\pm$ 2 SE)")
    ax.set(
        xscale="log",
        xlabel="number of examples n",
        ylabel=r"$E_n = E\,\max_{i \leq n}\ \sum_j p_j z_{ij}^2$",
        title=rf"$p_j \propto 1/j$, d = {DIM}",
        xlim=(1, 1e6),
        ylim=(0, None),
    )
    ax.legend()
