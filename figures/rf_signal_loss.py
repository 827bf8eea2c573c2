"""RF's Fig. 1 as predicted: signal loss and MSE of DP-SGD minus those of random freeze, over the freeze rate."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import gradients, papers
from figures._table import Data

DIM = 500_000  # of the order of the End-to-end CNN's
_RUN = papers.setting("rf.end-to-end-cnn.eps7.53")
CLIP, SIGMA, BATCH = _RUN.number("clip_norm"), _RUN.number("noise_multiplier"), _RUN.whole("batch_size")
_NORMS = {"early": 0.2, "late": 0.1}
_DEVIATION_NORM = 1.0


def data() -> Data:
    """Differences over the freeze rate, flat true gradient of norm 0.2 and 0.1, deviation of norm 1.

    And the relative change of the descent ratio.
    """
    rates = np.linspace(0.0, 0.95, 20)
    table: Data = {"freeze rate": rates}
    for stage, norm in _NORMS.items():
        errors = [
            gradients.clipped_gradient_mse(
                grad_norm=norm,
                dim=DIM,
                deviation=_DEVIATION_NORM / DIM**0.5,
                clip_norm=CLIP,
                noise_multiplier=SIGMA,
                batch_size=BATCH,
                drop_rate=round(float(rate), 2),
            )
            for rate in rates
        ]
        table[f"signal {stage}"] = np.array([e.delta_signal for e in errors])
        table[f"mse {stage}"] = np.array([e.delta_mse for e in errors])
        table[f"descent {stage}"] = np.array([e.masked.descent_ratio / e.full.descent_ratio - 1.0 for e in errors])
    return table


def draw(ax: Axes, data: Data) -> None:
    """Above, the signal loss falls below zero and the MSE rises above it; below, the descent ratio is lower all the same."""
    rates = data["freeze rate"]
    grid = ax.figure.add_gridspec(2, 1, height_ratios=(3, 2))
    ax.set_subplotspec(grid[0])
    below = ax.figure.add_subplot(grid[1], sharex=ax)
    for panel in (ax, below):
        panel.axhline(0.0, color="0.5", lw=1)
    for color, (stage, norm) in zip(("C0", "C1"), _NORMS.items(), strict=True):
        error = rf"error $\Delta_{{MSE}}$, $|w|$ = {norm:g}"
        ax.plot(rates, data[f"mse {stage}"] / norm**2, color=color, label=error)
        below.plot(rates, 100 * data[f"descent {stage}"], color=color, label=f"$|w|$ = {norm:g}")
    # relative to |w|^2 the signal losses of the two stages coincide
    ax.plot(
        rates, data["signal early"] / _NORMS["early"] ** 2, color="k", ls="--", label=r"signal loss $\Delta_S$, both"
    )
    ax.set(
        ylabel="DP-SGD minus\n" + r"random freeze, over $|w|^2$",
        title=f"Gaussian gradients, d = {DIM:,}, C = {CLIP}, B = {BATCH}",
        xlim=(0, 1),
    )
    ax.tick_params(labelbottom=False)
    below.set(xlabel="freeze rate r", ylabel="change of the\ndescent ratio (%)")
    ax.legend(loc="upper left")
    below.legend(loc="lower left")
