"""Printed and corrected convergence bound of DP-SGD on a quadratic, over the number of parameters trained."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import convergence
from dptheory.claims.lf.lem3_1 import printed_bound
from figures._table import Data

STEPS = 100
LEARNING_RATE = 0.1
_TAU = 0.01  # noise in an entry of the mean gradient
_CLIP = 100.0  # above every gradient met: nothing is clipped
DIMS = np.unique(np.geomspace(1, 20_000, 41).round()).astype(int)


def data() -> Data:
    """f = |theta|^2 / 2 from |theta| = 1: exact mean and least E|grad|^2, corrected bound, printed one by both readings."""
    rows = []
    for dim in (int(d) for d in DIMS):
        # one coordinate carries the mean, so d coordinates are two numbers: E|theta|^2 follows the recursion with d tau^2
        squares = convergence.fresh_mask_moments(
            1.0, start=np.ones(1), steps=STEPS, learning_rate=LEARNING_RATE, drop_rate=0.0, variance=dim * _TAU**2
        )[:, 0]
        met = squares[:-1]
        corrected = convergence.layer_freezing_bound(
            decrease=0.5,
            learning_rate=LEARNING_RATE,
            steps=STEPS,
            smoothness=1.0,
            clip_norm=_CLIP,
            noise_multiplier=_TAU / _CLIP,
            dim=dim,
            batch_size=1,
            second_moment=met,
        )
        # as printed the sums run over the iterates that the steps lead to
        printed, reindexed = (
            printed_bound(
                float(squares[0] - squares[-1]) / 2,
                (LEARNING_RATE,) * STEPS,
                tuple(summed.tolist()),
                1.0,
                _CLIP,
                _TAU / _CLIP,
                1,
            )
            for summed in (squares[1:], met)
        )
        rows.append((float(met.mean()), float(squares.min()), corrected.value, printed, reindexed))
    columns = np.array(rows).T
    names = ("parameters", "mean", "least", "corrected", "printed", "re-indexed")
    return dict(zip(names, (DIMS.astype(float), *columns), strict=True))


def draw(ax: Axes, data: Data) -> None:
    """The printed bound falls where the truth rises, and re-indexed it lies below zero throughout."""
    dims = data["parameters"] / 1000
    ax.axhspan(-1, 0, color="0.92", lw=0)
    ax.plot(dims, data["corrected"], color="C1", ls="--", label="corrected bound, with the gap $f_1-\\inf f$")
    ax.plot(dims, data["mean"], color="C0", label=r"exact mean of $E|\nabla f_t|^2$")
    ax.plot(dims, data["least"], color="k", label=r"exact least $E|\nabla f_t|^2$")
    ax.plot(dims, data["printed"], color="tab:red", ls="-.", label="bound as printed (Lemma 3.1)")
    ax.plot(dims, data["re-indexed"], color="tab:red", ls=":", label="as printed, re-indexed as in its proof")
    ax.text(0.3, -0.095, "no bound on a square can lie here", va="top", color="0.4")
    ax.set(
        xlabel="parameters trained, d (thousands)",
        ylabel=r"$E|\nabla f|^2$",
        title=rf"$f = |\theta|^2/2$, {STEPS} steps, $\eta = {LEARNING_RATE:g}$, $\tau = {_TAU:g}$",
        xlim=(0, dims[-1]),
        ylim=(-0.12, 0.25),
    )
    ax.legend(loc="upper left")
