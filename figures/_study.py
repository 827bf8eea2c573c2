"""The differences that a study measured, each with its interval, beside where the theory expects it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from figures._table import Data

STUDIES: Mapping[str, Sequence[Mapping[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "proofs" / "results.json").read_text(encoding="utf-8")
)
"""The comparisons of every study that has results, in the order of its page."""
_LONG = 8
"""More comparisons than these make the picture taller."""
_WIDE = 10.0
"""Points: where intervals reach beyond, the axis is logarithmic outside of _LINEAR, so that small differences can be seen."""
_LINEAR = 2.0
_TICKS = (1.0, 2.0, 5.0, 20.0)


@dataclass(frozen=True)
class StudyFigure:
    """The picture of one study."""

    study: str

    @property
    def message(self) -> str:
        """What the study asks, in bold on its page, and how many differences are negative, positive or undecided by their interval."""
        page = Path(__file__).parents[1] / "proofs" / "results" / f"{self.study}.md"
        asked = page.read_text(encoding="utf-8").split("**")[1]
        rows = STUDIES[self.study]
        lost, gained = sum(row["high"] < 0 for row in rows), sum(row["low"] > 0 for row in rows)
        open_ = len(rows) - lost - gained
        counts = f"{lost or 'none'} {'lies' if lost == 1 else 'lie'} below zero, {gained or 'none'} above, {open_ or 'none'} undecided"
        if len(rows) == 1:
            counts = "is undecided" if open_ else f"lies {'below' if lost else 'above'} zero"
            return f"{asked} The one difference {counts}"
        return f"{asked} Of {len(rows)} differences {counts}"

    def data(self) -> Data:
        """Mean difference, its 95 % interval, the mean at the best epoch and the ends of the forecast, by comparison."""
        rows = [[*(row[name] for name in ("mean", "low", "high", "best")), *_ends(row)] for row in STUDIES[self.study]]
        names = ("mean", "low", "high", "best", "forecast_low", "forecast_high")
        return dict(zip(names, np.array(rows, dtype=float).T, strict=True))

    def draw(self, ax: Axes, data: Data) -> None:
        """An interval per comparison, on a band where the theory expects it."""
        rows = STUDIES[self.study]
        figure = ax.get_figure(root=True)
        assert figure is not None
        if len(rows) > _LONG:
            figure.set_size_inches(6.4, 0.5 * len(rows))
        places = np.arange(len(rows))
        reach = np.abs(np.concatenate([data["low"], data["high"], [1.0]])).max() * 1.15
        expected = ~np.isnan(data["forecast_low"])
        low, high = (np.clip(data[f"forecast_{end}"][expected], -reach, reach) for end in ("low", "high"))
        ax.barh(places[expected], high - low, left=low, height=0.8, color="0.88", label="forecast of the theory")
        ax.axvline(0, color="0.3", lw=1)
        error = [data["mean"] - data["low"], data["high"] - data["mean"]]
        ax.errorbar(data["mean"], places, xerr=error, fmt="o", color="C0", capsize=3, label="last epoch, 95 % interval")
        ax.plot(data["best"], places, "d", color="C1", mfc="none", label="best epoch")
        ax.set_yticks(
            places,
            [f"{_arm(row['arm'])}\nless {_arm(row['against'])} ({_phases(row['phases'])})" for row in rows],
        )
        ax.tick_params(axis="y", labelsize=7)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlim(-reach, reach)
        ax.grid(visible=False, axis="y")
        label = "points of test accuracy"
        if reach > _WIDE:
            ax.set_xscale("symlog", linthresh=_LINEAR, linscale=1.5)
            shown = [value for value in _TICKS if value < reach]
            ax.set_xticks([-value for value in reversed(shown)] + [0.0, *shown])
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_locator(NullLocator())
            label += f" (logarithmic beyond {_LINEAR:g})"
        ax.set(xlabel=label, title=_pairs(rows))
        figure.legend(loc="outside lower center", ncols=3)


def _ends(row: Mapping[str, Any]) -> tuple[float, float]:
    """Of the forecast: NaN where there is none, infinite where it is open."""
    if row["forecast"] is None:
        return np.nan, np.nan
    low, high = row["forecast"]
    return -np.inf if low is None else low, np.inf if high is None else high


_ARMS = {
    "dp-sgd": "DP-SGD",
    "dp-sgd-partition": "DP-SGD, shuffled batches",
    "tuned": "DP-SGD, tuned",
    "freeze": "random freeze",
    "ranked-freeze": "random freeze by rank",
    "sparsification": "random sparsification",
    "printed": "random sparsification as printed",
    "fresh": "random sparsification, fresh masks",
    "freezing": "layer freezing",
    "freezing-1": "layer freezing, 1 layer",
    "freezing-2": "layer freezing, 2 layers",
    "freezing-2-early": "layer freezing, 2 layers, early",
    "quiet-layers": "first layers without noise, not private",
    "first": "first layer alone",
    "second": "second layer alone",
    "third": "third layer alone",
    "all": "all layers",
    "gp": "gradient perturbation",
    "gp-clip-1": "gradient perturbation, clip 1",
    "gep": "GEP",
    "gep-optimal": "GEP, best split of the noise",
    "gep-joint": "GEP, one joint release",
    "biased-gep": "biased GEP",
    "random-k": "random k",
    "random-half": "random half",
    "index-pruning": "index pruning",
    "index-pruning-1000": "index pruning, index budget 10",
    "fixed": "index pruning, a tenth throughout",
    "top-k-of-released": "largest entries of what is released",
    "noisy-magnitudes": "largest noisy entries",
    "both": "clip and noise",
    "clipped": "clip alone",
    "noisy": "noise alone",
    "given": "clip .1, momentum .9",
    "half": "clip .5, momentum .5",
    "plain": "clip 1, momentum 0",
    "large-clip": "clip 1, momentum .9",
    "no-momentum": "clip .1, momentum 0",
    "shorter": "10 epochs",
    "longer": "15 epochs",
    "longer-same-rate": "15 epochs at the rate of 10",
    "gep-few": "GEP, few anchors",
    "gep-many": "GEP, many anchors",
    "biased-gep-few": "biased GEP, few anchors",
    "biased-gep-many": "biased GEP, many anchors",
    "gep-1": "GEP, 1 power iteration",
    "gep-5": "GEP, 5 power iterations",
    "biased-gep-1": "biased GEP, 1 power iteration",
    "biased-gep-5": "biased GEP, 5 power iterations",
    "own": "random labels",
    "own-true": "true labels",
    "other": "images of FashionMNIST",
    "constant": "DP-SGD",
    "decayed": "DP-SGD, falling rate",
    "uncooled": "random sparsification, not cooled",
    "adam": "Adam, clip .1, momentum .9",
    "adam-large-clip": "Adam, clip 1, momentum .9",
    "adam-no-momentum": "Adam, clip .1, momentum 0",
    "adam-plain": "Adam, clip 1, momentum 0",
}
"""What the arms of studies are called, without the share that "-90" drops."""
_PHASES = {
    "final": "main runs",
    "others": "further runs",
    "plugged-in": "at DP-SGD's rate",
    "linear": "linear model",
    "adam": "tuned rate",
    "epsilon-7": "$\\varepsilon$ = 7.53",
}


def _arm(name: str) -> str:
    if name in _ARMS:
        return _ARMS[name]
    start, _, share = name.rpartition("-")
    return f"{_ARMS[start]}, {share} % dropped"


def _phase(name: str) -> str:
    """In words: "mnist-3" is at epsilon 3, "noise-4-small-clip" at sigma 4."""
    if name in _PHASES:
        return _PHASES[name]
    start, _, last = name.rpartition("-")
    if last == "clip":
        noise, _, size = start.rpartition("-")
        level = noise.replace("-", " ").replace("noise ", "$\\sigma$ = ")
        return f"{level}, {size} clip"
    data = {"mnist": "MNIST, ", "fashion": "FashionMNIST, ", "final": "", "final-epsilon": "", "epsilon": ""}[start]
    return f"{data}$\\varepsilon$ = {last}"


def _phases(names: Sequence[str]) -> str:
    """What they have in common stands once: "MNIST, epsilon = 1, 2, 3"."""
    words = [_phase(name) for name in names]
    start = words[0].rpartition(" = ")[0]
    if len(words) > 1 and start and all(word.startswith(f"{start} = ") and "clip" not in word for word in words):
        return f"{start} = {', '.join(word.rpartition(' = ')[2] for word in words)}"
    return "; ".join(words)


def _pairs(rows: Sequence[Mapping[str, Any]]) -> str:
    least, most = (pick(row["pairs"] for row in rows) for pick in (min, max))
    return f"{least if least == most else f'{least} to {most}'} pairs of seeds each"
