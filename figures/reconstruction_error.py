"""Reconstruction error over the sparsification rate, for a vector without and one with many zeros."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import sparsification
from dptheory._arrays import Array
from dptheory.claims.rs.thm5_1 import printed_error_bound
from figures._table import Data

DIM, NONZERO = 40, 4
PRIOR_STD = 1.5
_DRAWS = 20_000


def _unit(values: Array) -> Array:
    return np.asarray(values / np.linalg.norm(values))


DENSE = _unit(np.geomspace(1.0, 0.9 ** (DIM - 1), DIM))
SPARSE = _unit((np.arange(DIM) < NONZERO).astype(np.float64))


def _simulated(keep: int) -> tuple[float, float]:
    """Mean squared error of the attack on DENSE and its standard error; fixed seed."""
    rng = np.random.default_rng(keep)
    mask = rng.random((_DRAWS, DIM)).argsort(axis=1) < keep
    energy = mask @ DENSE**2
    squares = np.square((mask * rng.standard_normal(mask.shape)) @ DENSE / energy)
    return float(squares.mean()), float(squares.std(ddof=1) / np.sqrt(_DRAWS))


def data() -> Data:
    """Errors for sigma = 1 and every number of kept entries."""
    keeps = range(DIM, 0, -1)
    rates = [1 - keep / DIM for keep in keeps]
    points = [_simulated(keep) if keep % 4 == 0 else (np.nan, np.nan) for keep in keeps]
    return {
        "r": np.array(rates),
        "dense": np.array(
            [sparsification.expected_error(DENSE, drop_rate=rate, noise_std=1.0).value for rate in rates]
        ),
        "simulated": np.array([mean for mean, _ in points]),
        "standard error": np.array([error for _, error in points]),
        "printed": np.array([printed_error_bound(DENSE.tolist(), rate, 1.0) for rate in rates]),
        "sparse given": np.array(
            [sparsification.expected_error(SPARSE, drop_rate=r, noise_std=1.0).given_recoverable for r in rates]
        ),
        "sparse bound": np.array(
            [sparsification.error_lower_bound(SPARSE, drop_rate=rate, noise_std=1.0) for rate in rates]
        ),
        "sparse Bayes": np.array(
            [sparsification.bayes_error(SPARSE, drop_rate=rate, noise_std=1.0, prior_std=PRIOR_STD) for rate in rates]
        ),
    }


def draw(ax: Axes, data: Data) -> None:
    """The printed bound is one curve for both vectors."""
    r = data["r"]
    ax.plot(r, data["dense"], color="C0", label=r"exact, $k_j\propto 0.9^{\,j}$")
    seen = np.isfinite(data["simulated"])
    ax.errorbar(
        r[seen],
        data["simulated"][seen],
        2 * data["standard error"][seen],
        fmt="ko",
        ms=3.5,
        label=r"simulated ($\pm$ 2 SE)",
    )
    ax.plot(r, data["printed"], color="tab:red", ls="-.", label="bound as printed (eq. 17)")
    ax.plot(r, data["sparse given"], color="C1", label=f"exact given $m\\odot k\\ne 0$, {DIM - NONZERO} zeros")
    ax.plot(
        r, data["sparse bound"], color="C1", ls="--", label=f"bound with $P(m\\odot k\\ne 0)$, {DIM - NONZERO} zeros"
    )
    ax.plot(r, data["sparse Bayes"], color="C2", label=rf"Bayes attacker, $\tau={PRIOR_STD}$, {DIM - NONZERO} zeros")
    ax.set(
        xlabel="sparsification rate r",
        ylabel=r"mean squared error / ($\sigma^2/\|k\|^2$)",
        yscale="log",
        xlim=(0, 1),
        title=rf"least-squares attack, d = {DIM}, $\|k\|=\sigma=1$",
    )
    ax.legend()
