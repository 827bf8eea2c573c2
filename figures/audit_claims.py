"""What audits of one step prove about epsilon, against what is claimed, for every mechanism of the package ``training``."""

import json
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from figures._table import Data

RESULTS = Path(__file__).parents[1] / "proofs" / "figures" / "audit_claims.json"
"""Written by ``python -m dptheory.training.audits proofs/figures/audit_claims.json``."""


def data() -> Data:
    """Claimed and audited epsilon of every audit of the results, in their order; private: 1 where the claim should stand."""
    rows = json.loads(RESULTS.read_text())
    return {key: np.array([float(row[key]) for row in rows]) for key in ("claimed", "audited", "private")}


def draw(ax: Axes, data: Data) -> None:
    """One row a mechanism: a bar up to what the audit proves, a mark at what is claimed."""
    names = [row["name"] for row in json.loads(RESULTS.read_text())]
    places = -np.arange(len(names))
    private = data["private"] == 1
    for chosen, colour, label in ((private, "C0", "audited, claim stands"), (~private, "C1", "audited, claim refuted")):
        ax.barh(places[chosen], data["audited"][chosen], height=0.6, color=colour, alpha=0.75, label=label)
    ax.plot(data["claimed"], places, "|", color="0.1", ms=12, mew=2, label="claimed")
    ax.set_yticks(places, names, fontsize="small")
    ax.grid(False, axis="y")
    ax.set(
        xlabel=r"$\epsilon$ at $\delta = 10^{-5}$",
        title=r"$\sigma = 2$, whole data in a step, confidence 99 %",
        xlim=(0, 6.2),
    )
    ax.legend(loc="upper right")
