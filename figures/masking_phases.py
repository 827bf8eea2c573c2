"""Where a mask that keeps a tenth of 1,000 entries pays, over the lengths of gradient and deviation: boundaries by roots."""

import math
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import brentq

from dptheory import gradients, sparsification
from figures._table import Data

DIM, RATE = 1_000, 0.9
NOISES = (4.0, 20.0)
ANGLES = np.concatenate([np.linspace(0.01, 0.945, 8), np.linspace(1.1, 0.5 * np.pi - 0.01, 3)])
"""Between the axes; the sector in which kappa exceeds sqrt(1 - r) ends at 0.955."""
REACH = 5.0


def _kappa(length: float, angle: float) -> float:
    """Exact kappa at |w| = length cos(angle), sqrt(E|xi|^2) = length sin(angle), C = 1."""
    return sparsification.isotropic_kappa(
        grad_norm=length * math.cos(angle),
        dim=DIM,
        clip_norm=1.0,
        drop_rate=RATE,
        deviation=length * math.sin(angle) / math.sqrt(DIM),
    )


def _surviving(length: float, angle: float) -> float:
    """H, the share of the gradient that survives clipping."""
    return gradients.gaussian_clip_moments(
        grad_norm=length * math.cos(angle),
        dim=DIM,
        clip_norm=1.0,
        deviation=length * math.sin(angle) / math.sqrt(DIM),
    ).slope


def _boundary(function: Callable[[float, float], float], level: float, low: float, high: float) -> np.ndarray:
    """At each angle the length in low..high at which the function is ``level``; NaN where there is none."""

    def root(angle: float) -> float:
        ends = [function(length, angle) - level for length in (low, high)]
        if ends[0] * ends[1] > 0:
            return math.nan
        return float(brentq(lambda length: function(length, angle) - level, low, high, xtol=1e-12))

    return np.array([root(float(angle)) for angle in ANGLES])


def data() -> Data:
    """Distance of each boundary from the origin, by the angle."""
    root = math.sqrt(1 - RATE)
    columns = {"angle": ANGLES}
    for noise in NOISES:
        level = sparsification.least_kappa(drop_rate=RATE, delta_c=1.0, step_noise=noise)
        about = level / (1 - RATE)
        columns[f"fixed {noise:g}"] = _boundary(_kappa, level, 0.98 * about, 1.02 * about)
    columns["tuned"] = _boundary(_kappa, root, 3.0, 4.5)
    columns["surviving"] = _boundary(_surviving, root, 0.98 / root, 1.02 / root)
    return columns


def draw(ax: Axes, data: Data) -> None:
    """Arcs beyond which a fixed rate gains, the arc within which item 1 excludes a tuned one, and the sector of larger kappa."""
    across, up = np.cos(data["angle"]), np.sin(data["angle"])
    for i, noise in enumerate(NOISES):
        length = data[f"fixed {noise:g}"]
        label = "a fixed rate gains beyond,\n" rf"$d\sigma^2/B^2 = {noise:g}$"
        ax.plot(length * across, length * up, color=f"C{i}", label=label)
    length = data["surviving"]
    within = "a tuned rate never within:\n" r"$1-r\leq H^2$"
    ax.plot(length * across, length * up, color="0.2", ls="--", label=within)
    inside = np.isfinite(data["tuned"])
    length = data["tuned"][inside]
    last = float(data["angle"][inside][-1])
    keep = round((1 - RATE) * DIM)
    least_noise = math.sqrt(6 - 1 / keep - 1 / DIM)  # rs.phase, item 3
    most = sparsification.largest_isotropic_kappa(dim=DIM, drop_rate=RATE) / math.sqrt(1 - RATE) - 1
    ax.fill(
        np.concatenate([[2 * REACH], length * across[inside], [2 * REACH * math.cos(last)]]),
        np.concatenate([[0.0], length * up[inside], [2 * REACH * math.sin(last)]]),
        color="0.85",
        label=f"a tuned rate only here,\nonly for $\\sigma>{math.floor(10 * least_noise) / 10:g}B$:\n"
        r"$\kappa^\ast>\sqrt{1-r}$"
        f"\nby at most {100 * most:.2f} %",
    )
    ends = np.array([0.0, REACH])
    ax.plot(ends, math.sqrt(2) * ends, color="0.3", ls=":", lw=1.2, label=r"$|w|^2 = \frac{1}{2}E|\xi|^2$")
    ax.set(
        xlabel=r"$|w|/C$",
        ylabel=r"$\sqrt{E|\xi|^2}/C$",
        title=f"d = {DIM}, k = {keep}, isotropic deviation",
        xlim=(0, REACH),
        ylim=(0, REACH),
        aspect="equal",
    )
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0))
