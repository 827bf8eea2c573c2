"""Epsilon over the number of steps by four accountants, for one setting of DP-SGD."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import privacy
from figures._table import Data

SIGMA, RATE, DELTA = 1.0, 0.02, 1e-5
STEPS = np.unique(np.geomspace(10, 10_000, 13).round()).astype(int)
PLD_STEPS = (10, 100, 1000)  # slow: a few points


def data() -> Data:
    """The bracket by PRV and by PLD (where asked), Renyi privacy, and the Gaussian mechanism without subsampling."""
    rows = []
    for steps in (int(T) for T in STEPS):
        found = privacy.epsilon_bounds(noise_multiplier=SIGMA, sampling_rate=RATE, steps=steps, delta=DELTA, width=0.02)
        pld = (np.nan, np.nan)
        if steps in PLD_STEPS:
            pld = privacy.cross_check(
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
    names = ("steps", "PRV lower", "PRV upper", "PLD lower", "PLD upper", "RDP", "not subsampled")
    return dict(zip(names, np.array(rows, dtype=float).T, strict=True))


def draw(ax: Axes, data: Data) -> None:
    """The two brackets agree; Renyi privacy is a tenth above."""
    steps = data["steps"]
    ax.loglog(steps, data["not subsampled"], color="0.5", ls=":", label="Gaussian mechanism, not subsampled")
    ax.loglog(steps, data["RDP"], color="C3", ls="--", label="Rényi privacy, upper bound")
    ax.fill_between(steps, data["PRV lower"], data["PRV upper"], color="C0", alpha=0.4, lw=0)
    ax.loglog(steps, data["PRV upper"], color="C0", label="PRV, bracket")
    asked = np.isfinite(data["PLD upper"])
    middle, low = data["PLD upper"][asked], data["PLD lower"][asked]
    ax.errorbar(
        steps[asked],
        middle,
        yerr=[middle - low, np.zeros_like(middle)],
        color="k",
        fmt="o",
        ms=4,
        capsize=3,
        label="PLD, bracket",
        zorder=4,
    )
    ax.set(
        xlabel="steps T",
        ylabel=r"$\epsilon$ at $\delta = 10^{-5}$",
        title=rf"DP-SGD, $\sigma$ = {SIGMA:g}, sampling rate {RATE:g}",
        xlim=(steps[0], steps[-1]),
        ylim=(0.3, 2000),
    )
    ax.legend(loc="upper left")
