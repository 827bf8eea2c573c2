"""Epsilon over the number of steps by four accountants, for one setting of DP-SGD."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import privacy
from dptheory.privacy.methods import references
from figures._table import Data

SIGMA, RATE, DELTA = 1.0, 0.02, 1e-5
STEPS = np.unique(np.geomspace(10, 10_000, 13).round()).astype(int)
PLD_STEPS = (10, 100, 1000)  # slow: a few points


def data() -> Data:
    """The bracket by the library and by PLD (where asked), Renyi privacy, and the Gaussian mechanism without subsampling."""
    rows = []
    for steps in (int(T) for T in STEPS):
        found = privacy.epsilon_bounds(noise_multiplier=SIGMA, sampling_rate=RATE, steps=steps, delta=DELTA)
        pld = (np.nan, np.nan)
        if steps in PLD_STEPS:
            pld = references.cross_check(
                noise_multiplier=SIGMA, sampling_rate=RATE, steps=steps, delta=DELTA, width=0.02
            ).pld
        rows.append(
            (
                steps,
                found.lower,
                found.upper,
                *pld,
                privacy.rdp_epsilon(noise_multiplier=SIGMA, sampling_rate=RATE, steps=steps, delta=DELTA),
                privacy.gaussian_epsilon(np.sqrt(steps) / SIGMA, DELTA),
            )
        )
    names = ("steps", "lower", "upper", "PLD lower", "PLD upper", "RDP", "not subsampled")
    return dict(zip(names, np.array(rows, dtype=float).T, strict=True))


def draw(ax: Axes, data: Data) -> None:
    """All over the upper end of the library's bracket: the brackets agree, Renyi privacy is above by less and less."""
    steps, unit = data["steps"], data["upper"]
    ax.plot(steps, data["RDP"] / unit, color="C1", ls="--", label="Rényi privacy, upper bound")
    ax.plot(steps, data["lower"] / unit, color="C0", lw=2, label="saddle line, bracket (narrower than the line)")
    asked = np.isfinite(data["PLD upper"])
    lower, upper = data["PLD lower"][asked] / unit[asked], data["PLD upper"][asked] / unit[asked]
    ax.vlines(steps[asked], lower, upper, color="k", lw=2, zorder=4, label="PLD, bracket")
    ax.plot(np.tile(steps[asked], 2), np.concatenate([lower, upper]), "k_", ms=9, mew=2, zorder=4, clip_on=False)
    for at in (steps[asked]).astype(int):
        ax.annotate(rf"$\epsilon \leq {unit[steps == at][0]:.2f}$", (at * 1.05, 1.04), fontsize=8.5, color="C0")
    factors = data["not subsampled"] / unit
    ax.set(
        xscale="log",
        xlabel="steps T",
        ylabel=r"$\epsilon$ at $\delta = 10^{-5}$, over the upper bound",
        title=rf"DP-SGD, $\sigma$ = {SIGMA:g}, sampling rate {RATE:g}",
        xlim=(steps[0], steps[-1]),
        ylim=(0.7, 1.85),
    )
    ax.text(
        0.98,
        0.70,
        f"without subsampling: {factors.min():.0f} to {factors.max():.0f} times, off the scale",
        transform=ax.transAxes,
        ha="right",
        color="0.4",
        fontsize=8.5,
    )
    ax.legend(loc="upper right")
