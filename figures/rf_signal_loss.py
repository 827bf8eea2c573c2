"""RF's Fig. 1 as predicted: signal loss and MSE of DP-SGD minus those of random freeze, over the freeze rate."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import gradients
from figures._table import Data

# C, sigma and B of RF's Table 5 at epsilon = 7.53; the number of parameters is of the order of the End-to-end CNN's.
DIM, CLIP, SIGMA, BATCH = 500_000, 0.1, 1.1, 1000
_NORMS = {"early": 0.2, "late": 0.1}
_DEVIATION_NORM = 1.0


def data() -> Data:
    """Differences over the freeze rate, flat true gradient of norm 0.2 and 0.1, deviation of norm 1; and the relative change
    of the descent ratio."""
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
    """The signal loss falls below zero, the MSE rises above it; the descent ratio of random freeze is lower all the same."""
    rates = data["freeze rate"]
    ax.axhline(0.0, color="0.5", lw=1)
    for color, (stage, norm) in zip(("C0", "C1"), _NORMS.items(), strict=True):
        ax.plot(
            rates,
            data[f"signal {stage}"] / norm**2,
            color=color,
            ls="--",
            label=rf"signal loss $\Delta_S$, |w| = {norm:g}",
        )
        ax.plot(rates, data[f"mse {stage}"] / norm**2, color=color, label=rf"error $\Delta_{{MSE}}$, |w| = {norm:g}")
        ax.plot(
            rates,
            data[f"descent {stage}"],
            color=color,
            ls=":",
            label=f"relative change of the descent ratio, |w| = {norm:g}",
        )
    ax.set(
        xlabel="freeze rate r",
        ylabel=r"DP-SGD minus random freeze, over $|w|^2$",
        title=f"Gaussian gradients, d = {DIM:,}, C = {CLIP}, B = {BATCH}",
        xlim=(0, 1),
    )
    ax.legend()
