"""Noise energy of the ways to release, relative to plain perturbation, over the ratio of the clips, for two subspaces."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import embedding
from dptheory.papers import RESNET20_DIM
from figures._table import Data

SUBSPACES = (1000, 50_000)
WAYS = {"published": "GEP as published", "optimal": "best split", "joint": "gradient clipped first"}
POINTS = 201


def data() -> Data:
    """Relative energies over S2/S with S1 = S; ratios at which each way meets plain perturbation in the first row."""
    ratios = np.linspace(0.0, 1.2, POINTS)
    columns = {"S2/S": ratios}

    def first(value: float) -> np.ndarray:
        return np.concatenate([[value], np.full(POINTS - 1, np.nan)])

    for k in SUBSPACES:
        found = [
            embedding.gep_mse(dim=RESNET20_DIM, subspace_dim=k, clip_norm=1.0, residual_clip=float(r), mu=1.0)
            for r in ratios
        ]
        limits = embedding.largest_residual_ratio(dim=RESNET20_DIM, subspace_dim=k)
        for way in WAYS:
            columns[f"{way} k={k}"] = np.array([getattr(one, way) / one.plain for one in found])
            columns[f"meets {way} k={k}"] = first(getattr(limits, way))
        columns[f"embedding_only k={k}"] = np.array([one.embedding_only / one.plain for one in found])
    return columns


_PLACES = {"published": (0.735, 1.52), "optimal": (1.19, 1.04), "joint": (1.19, 0.7)}


def draw(ax: Axes, data: Data) -> None:
    """Solid for the small subspace, dashed for the large one; dots where the noise is that of GP."""
    for k, style in zip(SUBSPACES, ("-", "--"), strict=True):
        ax.plot([], [], style, color="0.3", label=f"k = {k}")
        for i, way in enumerate(WAYS):
            ax.plot(data["S2/S"], data[f"{way} k={k}"], style, color=f"C{i}")
            ax.plot(data[f"meets {way} k={k}"][0], 1.0, "o", color=f"C{i}", ms=5, zorder=4, clip_on=False)
        ax.plot(data["S2/S"], data[f"embedding_only k={k}"], style, color="0.55", zorder=1)
    for i, (way, label) in enumerate(WAYS.items()):
        ax.text(*_PLACES[way], label, color=f"C{i}", ha="right", fontsize=9)
    ax.text(1.19, 0.22, "B-GEP, residual not counted", color="0.4", ha="right", fontsize=9)
    ax.axhline(1, color="0.4", lw=0.8)
    ax.annotate("GP", (0.01, 1.03), color="0.3", fontsize=9)
    ax.set(
        xlabel=r"clip of the residual over clip of the gradient, $S_2/S$ ($S_1 = S$)",
        ylabel="noise energy relative to GP",
        title="p = 269722, the same privacy for every way",
        xlim=(0, 1.2),
        ylim=(0, 2.2),
    )
    ax.legend(loc="upper left")
