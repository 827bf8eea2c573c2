"""Share of the top-k gain that four private selections retain at one budget, over the norm of the batch gradient."""

import math

import numpy as np
from matplotlib.axes import Axes

from dptheory import privacy, pruning
from figures._table import Data

DIM, KEEP, GROUPS, STEPS, DELTA, EPSILON = 256, 26, 10_547, 875, 1e-5, 1.0
SIGMA = 10.0
NAMES = ("mallows", "magnitude", "gumbel", "released")


def data() -> Data:
    """Retained gains over |g| / C; the indices may add EPSILON to the run."""
    norms = np.logspace(-1, 4, 51)
    rho = privacy.zcdp_budget(epsilon=EPSILON, delta=DELTA) / STEPS
    gains = [
        pruning.selection_gains(
            zcdp_rho=rho,
            dim=DIM,
            keep=KEEP,
            groups=GROUPS,
            sigma_g=float(n) / math.sqrt(DIM * GROUPS),
            clip_norm=1.0,
            noise_multiplier=SIGMA,
        )
        for n in norms
    ]
    exact = privacy.index_sets.retained_gain_for_delta_budget(
        epsilon=EPSILON, delta=DELTA, dim=DIM, keep=KEEP, steps=STEPS, groups=GROUPS
    )
    return {
        "norm": norms,
        **{name: np.array([getattr(gain, name) for gain in gains]) for name in NAMES},
        "mallows exact": np.full(norms.size, exact),
    }


def draw(ax: Axes, data: Data) -> None:
    """Log-log curves; the Mallows mechanism does not see sizes."""
    labels = {
        "mallows": "Mallows (GIP), zCDP",
        "magnitude": r"$|g|$ + Gaussian noise",
        "gumbel": "one-shot Gumbel in every group",
        "released": rf"the released $g + Z$, $\sigma = {SIGMA:g}$: free",
    }
    for i, (name, label) in enumerate(labels.items()):
        ax.loglog(data["norm"], data[name], color=f"C{i}", label=label)
    ax.loglog(data["norm"], data["mallows exact"], color="C0", ls="--", label="Mallows, exact composition")
    ax.set(
        xlabel=r"norm of the batch gradient over the clipping norm, $|g|/C$",
        ylabel="retained share of the top-k gain",
        title=rf"Indices add $\epsilon = {EPSILON:g}$: {STEPS} steps, {GROUPS:,} groups of {DIM}, {KEEP} kept",
        ylim=(1e-10, 3),
    )
    ax.legend(loc="lower right")
