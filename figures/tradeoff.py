"""The bound over the sparsification rate, relative to no mask: three kappas at a fixed learning rate, one at the tuned rate."""

import numpy as np
from matplotlib.axes import Axes

from dptheory import sparsification
from figures._table import Data

DELTA_C, NOISE = 1.0, 10.0
DIM = 200
SCALE = 2.0
EXPONENTS = (0.5, 0.75)


def data() -> Data:
    """U(r) / U(0) over r = 1 - k / DIM, and the best rates (first row of their columns)."""
    rates = 1 - np.arange(DIM, 1, -1) / DIM
    x = 1 - rates
    flat = np.full(DIM, 0.25 * SCALE / np.sqrt(DIM))
    kappas = {f"a = {a:g}": x**a for a in EXPONENTS}
    kappas["exact"] = np.array([sparsification.kappa(flat, clip_norm=1.0, drop_rate=float(r)).value for r in rates])
    full = sparsification.relative_bound(drop_rate=0.0, delta_c=DELTA_C, step_noise=NOISE, kappa=1.0)
    tuned = sparsification.tuned_bound(
        drop_rate=0.0, kappa=1.0, objective_gap=1.0, steps=1.0, curvature_term=DELTA_C, noise_term=NOISE
    ).bound

    def first(value: float) -> np.ndarray:
        return np.concatenate([[value], np.full(len(rates) - 1, np.nan)])

    return {
        "r": rates,
        **{
            f"U {name}": np.array(
                [
                    sparsification.relative_bound(drop_rate=float(r), delta_c=DELTA_C, step_noise=NOISE, kappa=float(k))
                    / full
                    for r, k in zip(rates, kappa, strict=True)
                ]
            )
            for name, kappa in kappas.items()
        },
        "U tuned": np.array(
            [
                sparsification.tuned_bound(
                    drop_rate=float(r),
                    kappa=float(k),
                    objective_gap=1.0,
                    steps=1.0,
                    curvature_term=DELTA_C,
                    noise_term=NOISE,
                ).bound
                / tuned
                for r, k in zip(rates, kappas["a = 0.5"], strict=True)
            ]
        ),
        **{
            f"best a = {a:g}": first(sparsification.optimal_rate(delta_c=DELTA_C, step_noise=NOISE, exponent=a))
            for a in EXPONENTS
        },
        "best exact": first(
            sparsification.optimal_rate_flat(delta_c=DELTA_C, step_noise=NOISE, grad_norm=0.25 * SCALE, clip_norm=1.0)
        ),
    }


def draw(ax: Axes, data: Data) -> None:
    """Curves over r; a dot at each best rate."""
    r = data["r"]
    labels = {
        "a = 0.5": r"$\kappa = \sqrt{1-r}$ (the paper)",
        "a = 0.75": r"$\kappa = (1-r)^{3/4}$",
        "exact": r"$\kappa$ exact, equal entries, $|w| = 2c$, $P' = P$",
    }
    for i, (name, label) in enumerate(labels.items()):
        curve, best = data[f"U {name}"], float(data[f"best {name}"][0])
        ax.plot(r, curve, color=f"C{i}", ls="--" if name == "exact" else "-", label=label, zorder=3 if i else 2)
        ax.plot(best, np.interp(best, r, curve), "o", color=f"C{i}", ms=6, zorder=4)
    ax.plot(r, data["U tuned"], color="C3", label=r"$\kappa = \sqrt{1-r}$, learning rate tuned for each r")
    ax.axhline(1, color="0.4", lw=0.8)
    ax.set(
        xlabel="sparsification rate r",
        ylabel="bound relative to no mask",
        title=r"$\gamma\Delta_\sigma = 10\,\Delta_C$ (tuned: $\Delta_\sigma = 10\,GC^2/2$)",
        xlim=(0, 1),
        ylim=(0.4, 1.6),
    )
    ax.legend(loc="upper left")
