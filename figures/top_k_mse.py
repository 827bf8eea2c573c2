"""Top-k pruning MSE over the keep ratio: printed, asymptotic, exact, simulated."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import pruning
from dptheory.claims.gip.mse_t0 import printed_top_k_mse
from figures._table import Data

DIM = 20
_DRAWS = 4000


def data() -> Data:
    """Pruning MSE over d sigma_g^2 for every keep below DIM; simulated with a fixed seed."""
    keeps = np.arange(1, DIM)
    squares = np.sort(np.square(np.random.default_rng(0).standard_normal((_DRAWS, DIM))), axis=1)
    lost = np.cumsum(squares, axis=1)[:, DIM - 1 - keeps] / DIM
    return {
        "k": keeps / DIM,
        "random-k": np.array([float(pruning.random_k_mse(DIM, int(K), sigma_g=1.0)) / DIM for K in keeps]),
        "exact": np.array([float(pruning.top_k_mse(DIM, int(K), sigma_g=1.0)) / DIM for K in keeps]),
        "asymptotic": np.array(
            [float(pruning.top_k_mse(DIM, int(K), sigma_g=1.0, method="asymptotic")) / DIM for K in keeps]
        ),
        "printed": np.array([printed_top_k_mse(DIM, int(K), 1.0) / DIM for K in keeps]),
        "simulated": lost.mean(axis=0),
        "standard error": lost.std(axis=0, ddof=1) / np.sqrt(_DRAWS),
    }


def draw(ax: Axes, data: Data) -> None:
    """Curves over k; the simulation lies on the exact one."""
    k = data["k"]
    ax.plot(k, data["random-k"], color="0.5", label="random-k")
    ax.plot(k, data["exact"], color="C0", label="top-k, exact")
    ax.plot(k, data["asymptotic"], color="C1", ls="--", label="top-k, asymptotic")
    ax.plot(k, data["printed"], color="tab:red", ls="-.", label="top-k, as printed (eq. 16)")
    ax.errorbar(k, data["simulated"], 2 * data["standard error"], fmt="ko", ms=3.5, label=r"simulated ($\pm$ 2 SE)")
    ax.set(
        xlabel="keep ratio k",
        ylabel=r"pruning MSE / ($d\,\sigma_g^2$)",
        title=f"Gaussian gradient, d = {DIM}",
        ylim=(0, 1),
        xlim=(0, 1),
    )
    ax.legend()
