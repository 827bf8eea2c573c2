"""GIP's Fig. 1: the cosine between a clipped gradient and its DP release against the dimension."""

from functools import partial

import numpy as np
from dp_accounting import get_sigma_gaussian
from matplotlib.axes import Axes

from dptheory._arrays import Array
from dptheory.checks import estimate
from dptheory.gradients import DistortionAngle
from figures._table import Data

EPSILONS = (0.5, 1.0, 4.0, 16.0)
DELTA = 1e-5
_SIMULATED = (10, 100, 1000)
_DRAWS = 40_000


def data() -> Data:
    """Expected cosine for one release at each epsilon, and simulated means for epsilon = 1."""
    dims = np.unique(np.round(np.logspace(0, 7, 57)).astype(int))
    sigmas = {epsilon: float(get_sigma_gaussian(epsilon, DELTA)) for epsilon in EPSILONS}
    columns: Data = {"dim": dims.astype(float)}
    for epsilon, sigma in sigmas.items():
        columns[f"epsilon {epsilon:g}"] = np.array(
            [DistortionAngle(int(d), snr=1 / sigma).expected_cos() for d in dims]
        )
    mean, error = np.full(dims.size, np.nan), np.full(dims.size, np.nan)
    for dim in _SIMULATED:
        sampler = partial(_cosines, dim=dim, sigma=sigmas[1.0])
        found = estimate(sampler, lambda m: m.count >= _DRAWS, budget=60, seed=0, row_bytes=24 * dim)
        mean[dims == dim], error[dims == dim] = found.mean, found.standard_error
    return {**columns, "simulated": mean, "standard error": error}


def _cosines(rng: np.random.Generator, n: int, dim: int, sigma: float) -> Array:
    """The paper's experiment: Gaussian gradients clipped to norm 1, noise of standard deviation sigma."""
    gradient = rng.standard_normal((n, dim))
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    noisy = gradient + sigma * rng.standard_normal((n, dim))
    return np.asarray(np.sum(gradient * noisy, axis=1) / np.linalg.norm(noisy, axis=1))


def draw(ax: Axes, data: Data) -> None:
    """Log-log curves, one an epsilon."""
    for index, epsilon in enumerate(EPSILONS):
        ax.loglog(data["dim"], data[f"epsilon {epsilon:g}"], color=f"C{index}", label=rf"$\epsilon$ = {epsilon:g}")
    label = r"simulated, $\epsilon$ = 1 ($\pm$ 2 SE)"
    ax.errorbar(data["dim"], data["simulated"], 2 * data["standard error"], fmt="ko", ms=4, capsize=3, label=label)
    ax.set(
        xlabel="dimension d",
        ylabel="expected cosine with the gradient",
        title=rf"One Gaussian release of a gradient clipped to C, $\delta$ = {DELTA:g}",
    )
    ax.legend()
