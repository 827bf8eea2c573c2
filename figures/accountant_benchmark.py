"""Time of an answer and its distance from the certified epsilon, for every accountant of ``python -m dptheory.training.benchmarks``."""

import json
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from figures._table import Data

RESULTS = Path(__file__).parents[1] / "proofs" / "figures" / "accountant_benchmark.json"
"""Written by ``python -m dptheory.training.benchmarks accountants --out proofs/figures/accountant_benchmark.json``."""

FLOOR = 1e-15
MARKS = "osDv^P<>"


def _tools() -> list[str]:
    return list(dict.fromkeys(one["tool"] for one in json.loads(RESULTS.read_text())["answers"]))


def data() -> Data:
    """Number of the tool, seconds, and the distance of its upper bound from epsilon over max(1, epsilon); NaN where refused."""
    results, tools = json.loads(RESULTS.read_text()), _tools()
    rows = []
    for one in results["answers"]:
        if one["quantity"] == "epsilon":
            setting = results["settings"][one["number"]]
            truth = (setting["lower"] + setting["upper"]) / 2
            upper = np.nan if one["upper"] is None else one["upper"]
            rows.append((tools.index(one["tool"]), one["seconds"], (upper - truth) / max(1.0, truth)))
    return dict(zip(("tool", "seconds", "distance"), np.array(rows, dtype=float).T, strict=True))


def draw(ax: Axes, data: Data) -> None:
    """A cloud per tool, its medians as a large mark; what is below the truth stands as a cross."""
    count = int((data["tool"] == 0).sum())
    for number, name in enumerate(_tools()):
        mine = data["tool"] == number
        given = mine & np.isfinite(data["distance"])
        if not given.any():
            ax.plot([], [], " ", label=f"{name}: no answer to any of {mine.sum()}")
            continue
        seconds, distance = data["seconds"][given], data["distance"][given]
        height = np.maximum(np.abs(distance), FLOOR)
        colour, below = f"C{number}", distance < -1e-9
        refused = int(mine.sum() - given.sum())
        label = name if refused == 0 else f"{name} ({refused} of {mine.sum()} without answer)"
        ax.scatter(seconds[~below], height[~below], s=9, color=colour, alpha=0.45, lw=0)
        ax.scatter(seconds[below], height[below], s=26, color=colour, marker="x", lw=1)
        middle = float(np.median(seconds)), float(np.median(height))
        ax.plot(*middle, MARKS[number], color=colour, ms=9, mec="white", mew=1.2, label=label, zorder=5)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="seconds of CPU time per answer",
        ylabel=r"distance from the certified $\epsilon$, over max(1, $\epsilon$)",
        title=f"{count} settings over the core; large marks: medians, crosses: below the truth",
    )
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.14), ncols=2)
