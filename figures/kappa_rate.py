"""kappa over the sparsification rate: its range, three gradients without deviation, and one with Gaussian deviation."""

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import chi2

from dptheory import sparsification
from figures._table import Data

DIM = 100
SCALE = 3.0
PROBABILITY = 0.75


def data() -> Data:
    """Columns over r = 1 - k / DIM; |w| = SCALE c, C = 1."""
    keeps = np.unique(np.rint(np.concatenate([np.geomspace(1, DIM, 40), np.arange(4, DIM + 1, 4)])))[::-1]
    rates = 1 - keeps / DIM
    gradients = {
        "equal entries": np.ones(DIM),
        "exponential entries": np.exp(-0.15 * np.arange(DIM)),
        "one entry": np.eye(1, DIM)[0],
    }
    spread = 0.75 / float(np.sqrt(chi2.ppf(PROBABILITY, DIM)))

    def kappa(gradient: np.ndarray, rate: float, deviation: float) -> sparsification.Kappa:
        w = 0.25 * SCALE * gradient / np.linalg.norm(gradient)
        return sparsification.kappa(w, clip_norm=1.0, drop_rate=rate, deviation=deviation)

    columns = {name: np.array([kappa(g, float(r), 0.0).value for r in rates]) for name, g in gradients.items()}
    noisy = [kappa(gradients["equal entries"], float(r), spread) for r in rates]
    exact = [kappa(gradients["equal entries"], float(r), 0.0) for r in rates]
    return {
        "r": rates,
        "lower": np.array([one.lower for one in exact]),
        "upper": np.array([one.upper for one in exact]),
        "assumed": np.sqrt(1 - rates),
        **columns,
        "Gaussian deviation": np.array([one.value for one in noisy]),
    }


def draw(ax: Axes, data: Data) -> None:
    """The range as a band; the curve above 1 stays below it once P >= sqrt(1 - r), right of the dotted line."""
    r = data["r"]
    ax.plot(r, data["equal entries"], color="C0", label="equal entries: upper end")
    ax.plot(r, data["assumed"], color="tab:red", ls=(0, (2, 4)), lw=1.8, label=r"as printed (Appendix G): $\sqrt{1-r}$")
    ax.plot(r, data["exponential entries"], color="C1", label="exponentially falling entries")
    ax.plot(r, data["one entry"], color="C2", label="one entry: lower end, $1-r$")
    ax.fill_between(r, data["lower"], data["upper"], color="0.9", lw=0, label="range without deviation, $|w| = 3c$")
    ax.plot(r, data["Gaussian deviation"], color="C3", ls="-.")
    ax.text(0.5, 1.1, f"equal entries, Gaussian deviation, P = {PROBABILITY:g}", color="C3", fontsize=8.5)
    ax.axhline(1, color="0.4", lw=0.8)
    ax.vlines(1 - PROBABILITY**2, 0.5, 1.18, color="0.3", ls=":", lw=1)
    ax.text(1 - PROBABILITY**2 + 0.01, 1.02, r"from here on $P \geq \sqrt{1-r}$", fontsize=8.5)
    ax.set(xlabel="sparsification rate r", ylabel=r"$\kappa$", title=f"d = {DIM}, z = 3/4", xlim=(0, 1), ylim=(0, 1.25))
    ax.legend(loc="lower left")
