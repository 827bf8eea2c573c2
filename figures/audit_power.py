"""How much of a true epsilon an audit of one run proves, where every gradient is seen."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from dptheory.training._json_lines import JsonLines
from figures._table import Data

RESULTS = Path(__file__).parents[1] / "proofs" / "results" / "audits.jsonl"
"""Written by ``python -m dptheory.training.audits._power``."""
PUBLISHED = (4.0, 1.8)
"""Steinke, Nasr and Jagielski (2023): true epsilon, and what their audit of one run proves with gradients, on CIFAR-10."""


def data() -> Data:
    """One entry a run, in the order of the file."""
    lines = JsonLines(RESULTS).lines()
    return {key: np.array([float(line[key]) for line in lines]) for key in ("epsilon", "proved", "rate", "canaries")}


def draw(ax: Axes, data: Data) -> None:
    """Proved against true epsilon, by sampling rate; half of it, and all, as lines."""
    for place, rate in enumerate(sorted(set(data["rate"]))):
        chosen = (data["rate"] == rate) & (data["canaries"] == 1000)
        label = "whole data in a step" if rate == 1.0 else f"sampling rate {rate:g}"
        ax.plot(data["epsilon"][chosen], data["proved"][chosen], "os"[place % 2], color=f"C{place}", label=label)
    ax.plot(*PUBLISHED, "x", color="0.2", ms=8, mew=2, label="Steinke et al. (2023)")
    ends = np.array([0.0, 8.5])
    ax.plot(ends, ends, color="0.6", lw=1, label="all of it")
    ax.plot(ends, ends / 2, color="0.6", lw=1, ls="--", label="half of it")
    ax.set(
        xlabel=r"true $\epsilon$ at $\delta = 10^{-5}$",
        ylabel=r"proved $\epsilon$, confidence 95 %",
        title="one run with 1,000 canaries, every gradient seen",
        xlim=(0, 8.5),
        ylim=(0, 8.5),
    )
    ax.legend(loc="upper left", fontsize="small")
