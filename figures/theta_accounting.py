"""Dispersion and retained gain that an index budget buys, by four accountings of the same run."""

from functools import partial
from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from dptheory import privacy, pruning
from figures._table import Data

DIM, KEEP, GROUPS, STEPS, DELTA = 256, 26, 10_547, 875, 1e-5
RATE, SIGMA = 4096 / 45_000, 10.0
METHODS: tuple[Literal["basic", "zcdp", "exact"], ...] = ("basic", "zcdp", "exact")


def data() -> Data:
    """theta and rho over the epsilon that the indices add; "joint" adds it to what the values spend alone."""
    budgets = np.logspace(-2, 1, 4)
    columns: Data = {"epsilon": budgets}
    orders = privacy.ORDERS
    alone = privacy.epsilon_from_rdp(
        orders=orders,
        rdp=STEPS * privacy.subsampled_gaussian_rdp(orders=orders, sampling_rate=RATE, noise_multiplier=SIGMA),
        delta=DELTA,
    )
    for method in METHODS:
        columns[f"theta {method}"] = np.array(
            [
                privacy.index_sets.theta_for_delta_budget(
                    epsilon=float(e), delta=DELTA, dim=DIM, keep=KEEP, steps=STEPS, groups=GROUPS, method=method
                )
                for e in budgets
            ]
        )
    columns["theta joint"] = np.array(
        [
            privacy.index_sets.theta_for_joint_budget(
                epsilon=alone + float(e),
                delta=DELTA,
                dim=DIM,
                keep=KEEP,
                sampling_rate=RATE,
                noise_multiplier=SIGMA,
                steps=STEPS,
                groups=GROUPS,
            )
            for e in budgets
        ]
    )
    for name in (*METHODS, "joint"):
        thetas = columns[f"theta {name}"]
        columns[f"rho {name}"] = np.array([pruning.retained_gain(DIM, KEEP, theta=float(t)) for t in thetas])
    return columns


def draw(ax: Axes, data: Data) -> None:
    """rho (left) and theta (right axis, the same curves where both are small)."""
    labels = {
        "basic": "basic composition (the paper)",
        "zcdp": r"zCDP, $2\theta^2 m$ a release",
        "exact": "exact composition on the lattice",
        "joint": "with the values under one Poisson sample (RDP)",
    }
    for i, (name, label) in enumerate(labels.items()):
        ax.loglog(data["epsilon"], data[f"rho {name}"], color=f"C{i}", marker="o", ms=3, label=label)
    needed = pruning.least_retained_gain(DIM, KEEP, groups=GROUPS)
    ax.axhline(needed, color="k", lw=1, ls=":")
    ax.text(1.1e-2, 1.6 * needed, rf"needed to beat DP-SGD's direction: $\rho$ = {needed:.2f}", fontsize=8.5)
    slope = 2 * KEEP * (DIM - KEEP) / DIM / (DIM - 1)
    theta = ax.secondary_yaxis("right", functions=(partial(np.multiply, 1 / slope), partial(np.multiply, slope)))
    theta.set_ylabel(r"dispersion $\theta$ (where $\rho \ll 1$)")
    ax.set(
        xlabel=r"$\epsilon$ that the indices add to the run, $\delta = 10^{-5}$",
        ylabel=r"retained share $\rho$ of the top-k gain",
        title=f"WRN-16-4: {STEPS} steps, {GROUPS:,} groups of {DIM}, {KEEP} kept",
        ylim=(1e-17, 30),
    )
    ax.legend(loc="lower right")
