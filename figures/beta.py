"""beta of Corollary 1 over the keep ratio: exact, asymptotic, printed, and the paper's two values."""

import math

import numpy as np
from matplotlib.axes import Axes

from dptheory import pruning
from dptheory.claims.gip.cor1 import printed_beta
from figures._table import Data

DIMS = (10, 200)


def data() -> Data:
    """beta for C = 1 and no index perturbation (theta = inf, where it is largest)."""
    keeps = {dim: np.arange(dim // 10, 9 * dim // 10 + 1, dim // 10) for dim in DIMS}
    columns: Data = {"k": keeps[DIMS[0]] / DIMS[0]}
    for dim in DIMS:
        columns[f"exact d={dim}"] = np.array(
            [pruning.beta(clip_norm=1.0, keep=int(K), dim=dim, theta=math.inf) for K in keeps[dim]]
        )
    dim = DIMS[0]
    columns["asymptotic"] = np.array(
        [pruning.beta(clip_norm=1.0, keep=int(K), dim=dim, theta=math.inf, method="asymptotic") for K in keeps[dim]]
    )
    columns["printed"] = np.array([printed_beta(1.0, int(K), dim, math.inf) for K in keeps[dim]])
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Logarithmic curves over k, with the floor beta >= 1."""
    k = data["k"]
    ax.semilogy(k, data["printed"], "C3-.", label="printed")
    ax.semilogy(k, data["asymptotic"], "C1--", label="asymptotic")
    for dim, colour in zip(reversed(DIMS), ("C2", "C0"), strict=True):
        ax.semilogy(k, data[f"exact d={dim}"], color=colour, marker="o", ms=3, label=f"exact, d = {dim}")
    ax.axhline(1.0, color="k", lw=1, ls=":")
    ax.text(0.9, 0.93, r"$\beta \geq C^2 = 1$ for every $\theta \geq 0$", fontsize=8.5, va="top", ha="right")
    ax.plot(0.1, 0.78, "kx", ms=7, label="the paper's 0.78 at k = 0.1, d = 10")
    ax.plot([], [], " ", label="(its 0.9913 names no k)")
    ax.set(
        xlabel="keep ratio k",
        ylabel=r"$\beta$",
        title=r"Largest $\sigma_g^2/\sigma^2$ at which pruning has the smaller MSE ($C = 1$, $\theta = \infty$)",
    )
    ax.legend(loc="upper left")
