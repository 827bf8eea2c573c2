"""Norm of the noise over the largest norm of a clipped batch gradient, against the model size: plain perturbation and GEP."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import embedding
from dptheory.papers import RESNET20_DIM
from figures._table import Data

SUBSPACE, CLIP, RESIDUAL_CLIP, BATCH, MU = 1000, 10.0, 2.0, 1000, 1.0
WAYS = {
    "plain": "GP",
    "published": "GEP as published",
    "optimal": "GEP, best split",
    "joint": "GEP, gradient clipped first",
    "embedding_only": "B-GEP (residual lost)",
}


def data() -> Data:
    """sqrt(E|noise|^2) / (n S) for each way; the last row is ResNet20."""
    sizes = [*(round(x) for x in np.geomspace(2 * SUBSPACE, 1e9, 80)), RESNET20_DIM]
    found = [
        embedding.gep_mse(dim=p, subspace_dim=SUBSPACE, clip_norm=CLIP, residual_clip=RESIDUAL_CLIP, mu=MU)
        for p in sizes
    ]
    return {
        "p": np.array(sizes, dtype=np.float64),
        **{way: np.sqrt([getattr(one, way) for one in found]) / (BATCH * CLIP) for way in WAYS},
    }


def draw(ax: Axes, data: Data) -> None:
    """Curves over p; dots at ResNet20."""
    for i, (way, label) in enumerate(WAYS.items()):
        dashed = "--" if way in ("joint", "embedding_only") else "-"
        ax.loglog(data["p"][:-1], data[way][:-1], dashed, color=f"C{i}", label=label)
        ax.plot(data["p"][-1], data[way][-1], "o", color=f"C{i}", ms=4.5)
    ax.axhline(1, color="0.4", lw=0.8)
    ax.annotate("largest clipped batch gradient", (2e3, 1.1), color="0.3", fontsize=8)
    ax.axvline(RESNET20_DIM, color="0.7", lw=0.8, zorder=0)
    ax.annotate("ResNet20", (RESNET20_DIM * 1.15, 1.1e-2), color="0.3", fontsize=8)
    ax.set(
        xlabel="number of parameters p",
        ylabel="norm of the noise / (n S)",
        title=r"k = 1000, S = 10, $S_2$ = 2, n = 1000, noise multiplier 1 for every method",
        ylim=(1e-2, 50),
    )
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, 0.94))
