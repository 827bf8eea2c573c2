"""Pictures of pruning: its errors, directions, thresholds, and the privacy of index sets."""

import math
from functools import partial
from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from dptheory import privacy, pruning
from dptheory.claims.gip.cor1 import printed_beta
from dptheory.claims.gip.prop2 import printed_top_k_mse
from figures._table import Data, Gallery

FIGURES = Gallery()

# --- beta of Corollary 1 over the keep ratio: exact, asymptotic, printed, and the paper's two values


DIMS = (10, 200)


def _beta_data() -> Data:
    """beta for C = 1 and no index perturbation (theta = inf, where it is largest)."""
    keeps = {dim: np.arange(dim // 10, 9 * dim // 10 + 1, dim // 10) for dim in DIMS}
    columns: Data = {"k": keeps[DIMS[0]] / DIMS[0]}
    for dim in DIMS:
        columns[f"exact d={dim}"] = np.array(
            [pruning.beta(clip_norm=1.0, keep=int(K), dim=dim, theta=math.inf) for K in keeps[dim]]
        )
    dim = DIMS[0]
    columns["asymptotic"] = np.array(
        [pruning.beta(clip_norm=1.0, keep=int(K), dim=dim, theta=math.inf, method="asymptotic") for K in keeps[dim]]
    )
    columns["printed"] = np.array([printed_beta(1.0, int(K), dim, math.inf) for K in keeps[dim]])
    return columns


@FIGURES.picture(_beta_data, "The printed threshold below which pruning has the smaller error is too large")
def _draw_beta(ax: Axes, data: Data) -> None:
    """Logarithmic curves over k, with the floor beta >= 1."""
    k = data["k"]
    ax.semilogy(k, data["printed"], color="tab:red", ls="-.", label="printed")
    ax.semilogy(k, data["asymptotic"], "C1--", label="asymptotic")
    for dim, colour in zip(reversed(DIMS), ("C2", "C0"), strict=True):
        ax.semilogy(k, data[f"exact d={dim}"], color=colour, marker="o", ms=3, label=f"exact, d = {dim}")
    ax.axhline(1.0, color="k", lw=1, ls=":")
    ax.text(0.9, 0.93, r"$\beta \geq C^2 = 1$ for every $\theta \geq 0$", fontsize=8.5, va="top", ha="right")
    ax.plot(0.1, 0.78, "kx", ms=7, label="the paper's 0.78 at k = 0.1, d = 10")
    ax.plot([], [], " ", label="(its 0.9913 names no k)")
    ax.set(
        xlabel="keep ratio k",
        ylabel=r"$\beta$",
        title=r"Largest $\sigma_g^2/\sigma^2$ at which pruning has the smaller MSE ($C = 1$, $\theta = \infty$)",
    )
    ax.legend(loc="upper left")


# --- GIP's Fig. 5: log beta over keep ratio and dimension


def _beta_surface_data() -> Data:
    """log of the exact beta for C = 1 and theta = inf on the grid of the paper, k in [0.1, 0.9] and d in [10, 200]."""
    rows = [(dim, tenth) for dim in range(10, 201, 10) for tenth in range(1, 10)]
    values = [
        math.log(pruning.beta(clip_norm=1.0, keep=dim * tenth // 10, dim=dim, theta=math.inf)) for dim, tenth in rows
    ]
    grid = np.array(rows, dtype=float)
    return {"dim": grid[:, 0], "k": grid[:, 1] / 10, "log beta": np.array(values)}


@FIGURES.picture(_beta_surface_data, "The threshold rises steeply with the share kept, and less with the dimension")
def _draw_beta_surface(ax: Axes, data: Data) -> None:
    """Filled contours: k decides, d hardly matters."""
    dims, ks = np.unique(data["dim"]), np.unique(data["k"])
    surface = data["log beta"].reshape(dims.size, ks.size)
    filled = ax.contourf(ks, dims, surface, levels=np.arange(0, 5.6, 0.25), cmap="viridis")
    lines = ax.contour(ks, dims, surface, levels=np.arange(1, 6), colors="w", linewidths=0.8)
    ax.clabel(lines, fmt="%g", fontsize=8)
    assert ax.figure is not None
    ax.figure.colorbar(filled, ax=ax, label=r"$\log\,\beta$")
    ax.set(
        xlabel="keep ratio k",
        ylabel="dimension d of a group",
        title=r"Exact $\log\,\beta$ for $C = 1$, $\theta = \infty$",
    )
    ax.grid(False)


# --- How much of DP-SGD's direction pruning keeps under large noise, over the keep ratio


DIM = 10_000
GAINS = (1.0, 0.75, 0.478, 0.25, 0.0)


def _cosine_ratio_data() -> Data:
    """Cosine of perturbed top-k over the cosine of DP-SGD, linear in rho between random-k and top-k."""
    keeps = np.unique(np.round(np.concatenate([np.logspace(0.7, 4, 80), np.linspace(500, 9999, 40)])).astype(int))
    keeps = keeps[keeps < DIM]
    random, top = (
        np.array([pruning.cosine_ratio(DIM, int(keep), theta=theta) for keep in keeps]) for theta in (0.0, np.inf)
    )
    columns: Data = {"k": keeps / DIM}
    for rho in GAINS:
        columns[f"rho {rho:g}"] = random + rho * (top - random)
    return columns


@FIGURES.picture(
    _cosine_ratio_data, "Pruning betters DP-SGD's direction only if it keeps about half of the top-k gain or more"
)
def _draw_cosine_ratio(ax: Axes, data: Data) -> None:
    """Curves over k, one a retained gain, with break-even at 1."""
    names = {1.0: "exact top-k", 0.0: "random-k"}
    for index, rho in enumerate(GAINS):
        label = rf"$\rho$ = {rho:g}" + (f" ({names[rho]})" if rho in names else "")
        ax.semilogx(data["k"], data[f"rho {rho:g}"], color=f"C{index}", label=label)
    ax.axhline(1.0, color="k", lw=1, ls=":")
    ax.text(6e-4, 1.02, "DP-SGD without pruning", fontsize=8.5)
    ax.axvline(0.0186, color="0.6", lw=1, ls="--")
    ax.text(0.0195, 1.53, "k = 0.0186: below it\neven exact top-k loses", fontsize=8.5)
    ax.set(
        xlabel="keep ratio k",
        ylabel="cosine with the gradient / that of DP-SGD",
        title=f"Direction under noise much larger than the gradient, d = {DIM:,}",
        ylim=(0, 1.65),
        xlim=(5e-4, 1),
    )
    ax.legend(loc="upper left")


# --- Share of the top-k gain that an index budget leaves, with the paper's setting marked


GAIN_DIM, KEEP = 256, 26
SETTINGS = {"1 release": (1, 1), "T = 875 in 1 group": (875, 1), "T = 875": (875, 10_547), "T = 2500": (2500, 10_547)}
PAPER_EPSILON = 0.01


def _retained_gain_data() -> Data:
    """rho over the total index budget epsilon_2, by basic composition over steps and groups."""
    budgets = np.logspace(-4, 9, 66)
    columns: Data = {"epsilon_2": budgets}
    for name, (steps, groups) in SETTINGS.items():
        columns[name] = np.array(
            [
                pruning.index_budget(
                    epsilon=float(e), dim=GAIN_DIM, keep=KEEP, steps=steps, groups=groups
                ).retained_gain
                for e in budgets
            ]
        )
    return columns


@FIGURES.picture(_retained_gain_data, "The paper's index budget retains a few parts in a trillion of the top-k gain")
def _draw_retained_gain(ax: Axes, data: Data) -> None:
    """Log-log curves with the rho that is needed and the paper's point."""
    labels = {
        name: name if groups == 1 else f"{name}, 10,547 groups (WRN-16-4)" for name, (_, groups) in SETTINGS.items()
    }
    for index, name in enumerate(SETTINGS):
        ax.loglog(data["epsilon_2"], data[name], color=f"C{index}", label=labels[name])
    needed = pruning.least_retained_gain(GAIN_DIM, KEEP, groups=SETTINGS["T = 2500"][1])
    ax.axhline(needed, color="k", lw=1, ls=":")
    ax.text(1.3e-4, 2.5 * needed, rf"needed to beat DP-SGD's direction: $\rho$ = {needed:.2f}", fontsize=8.5)
    for index, (name, (steps, groups)) in enumerate(SETTINGS.items()):
        if groups > 1:
            rho = pruning.index_budget(
                epsilon=PAPER_EPSILON, dim=GAIN_DIM, keep=KEEP, steps=steps, groups=groups
            ).retained_gain
            ax.plot(PAPER_EPSILON, rho, "o", color=f"C{index}", ms=7, mec="k", label=f"the paper's budget, {name}")
    ax.set(
        xlabel=r"index budget $\epsilon_2$ of the whole run",
        ylabel=r"retained share $\rho$ of the top-k gain",
        title=f"Groups of {GAIN_DIM}, {KEEP} kept",
        ylim=(1e-15, 30),
    )
    ax.legend(loc="lower right")


# --- Top-k pruning MSE over the keep ratio: printed, asymptotic, exact, simulated


MSE_DIM = 20
_DRAWS = 4000


def _top_k_mse_data() -> Data:
    """Pruning MSE over d sigma_g^2 for every keep below MSE_DIM; simulated with a fixed seed."""
    keeps = np.arange(1, MSE_DIM)
    squares = np.sort(np.square(np.random.default_rng(0).standard_normal((_DRAWS, MSE_DIM))), axis=1)
    lost = np.cumsum(squares, axis=1)[:, MSE_DIM - 1 - keeps] / MSE_DIM
    return {
        "k": keeps / MSE_DIM,
        "random-k": np.array([float(pruning.random_k_mse(MSE_DIM, int(K), sigma_g=1.0)) / MSE_DIM for K in keeps]),
        "exact": np.array([float(pruning.top_k_mse(MSE_DIM, int(K), sigma_g=1.0)) / MSE_DIM for K in keeps]),
        "asymptotic": np.array(
            [float(pruning.top_k_mse(MSE_DIM, int(K), sigma_g=1.0, method="asymptotic")) / MSE_DIM for K in keeps]
        ),
        "printed": np.array([printed_top_k_mse(MSE_DIM, int(K), 1.0) / MSE_DIM for K in keeps]),
        "simulated": lost.mean(axis=0),
        "standard error": lost.std(axis=0, ddof=1) / np.sqrt(_DRAWS),
    }


@FIGURES.picture(_top_k_mse_data, "The printed error of top-k is too small: it counts the factor 1 - k twice")
def _draw_top_k_mse(ax: Axes, data: Data) -> None:
    """Curves over k; the simulation lies on the exact one."""
    k = data["k"]
    ax.plot(k, data["random-k"], color="0.5", label="random-k")
    ax.plot(k, data["exact"], color="C0", label="top-k, exact")
    ax.plot(k, data["asymptotic"], color="C1", ls="--", label="top-k, asymptotic")
    ax.plot(k, data["printed"], color="tab:red", ls="-.", label="top-k, as printed (eq. 16)")
    ax.errorbar(k, data["simulated"], 2 * data["standard error"], fmt="ko", ms=3.5, label=r"simulated ($\pm$ 2 SE)")
    ax.set(
        xlabel="keep ratio k",
        ylabel=r"pruning MSE / ($d\,\sigma_g^2$)",
        title=f"Gaussian gradient, d = {MSE_DIM}",
        ylim=(0, 1),
        xlim=(0, 1),
    )
    ax.legend()


# --- Share of the top-k gain that four private selections retain at one budget, over the norm of the batch gradient


SETS_DIM, SETS_KEEP, GROUPS, STEPS, DELTA, EPSILON = 256, 26, 10_547, 875, 1e-5, 1.0
SIGMA = 10.0
NAMES = ("mallows", "magnitude", "gumbel", "released")


def _index_alternatives_data() -> Data:
    """Retained gains over |g| / C; the indices may add EPSILON to the run."""
    norms = np.logspace(-1, 4, 51)
    rho = privacy.zcdp_budget(epsilon=EPSILON, delta=DELTA) / STEPS
    gains = [
        pruning.selection_gains(
            zcdp_rho=rho,
            dim=SETS_DIM,
            keep=SETS_KEEP,
            groups=GROUPS,
            sigma_g=float(n) / math.sqrt(SETS_DIM * GROUPS),
            clip_norm=1.0,
            noise_multiplier=SIGMA,
        )
        for n in norms
    ]
    exact = privacy.index_sets.retained_gain_for_delta_budget(
        epsilon=EPSILON, delta=DELTA, dim=SETS_DIM, keep=SETS_KEEP, steps=STEPS, groups=GROUPS
    )
    return {
        "norm": norms,
        **{name: np.array([getattr(gain, name) for gain in gains]) for name in NAMES},
        "mallows exact": np.full(norms.size, exact),
    }


@FIGURES.picture(
    _index_alternatives_data, "To choose by the released gradient is free, and best where the gradient is long"
)
def _draw_index_alternatives(ax: Axes, data: Data) -> None:
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
        title=rf"Indices add $\epsilon = {EPSILON:g}$: {STEPS} steps, {GROUPS:,} groups of {SETS_DIM}, {SETS_KEEP} kept",
        ylim=(1e-10, 3),
    )
    ax.legend(loc="lower right")


# --- Dispersion and retained gain that an index budget buys, by four accountings of the same run


RATE = 4096 / 45_000
METHODS: tuple[Literal["basic", "zcdp", "exact"], ...] = ("basic", "zcdp", "exact")


def _theta_accounting_data() -> Data:
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
                    epsilon=float(e),
                    delta=DELTA,
                    dim=SETS_DIM,
                    keep=SETS_KEEP,
                    steps=STEPS,
                    groups=GROUPS,
                    method=method,
                )
                for e in budgets
            ]
        )
    columns["theta joint"] = np.array(
        [
            privacy.index_sets.theta_for_joint_budget(
                epsilon=alone + float(e),
                delta=DELTA,
                dim=SETS_DIM,
                keep=SETS_KEEP,
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
        columns[f"rho {name}"] = np.array([pruning.retained_gain(SETS_DIM, SETS_KEEP, theta=float(t)) for t in thetas])
    return columns


@FIGURES.picture(
    _theta_accounting_data, "Better accounting retains far more of the top-k gain, and still far less than is needed"
)
def _draw_theta_accounting(ax: Axes, data: Data) -> None:
    """rho (left) and theta (right axis, the same curves where both are small)."""
    labels = {
        "basic": "basic composition (the paper)",
        "zcdp": r"zCDP, $2\theta^2 m$ a release",
        "exact": "exact composition on the lattice",
        "joint": "with the values under one Poisson sample (RDP)",
    }
    for i, (name, label) in enumerate(labels.items()):
        ax.loglog(data["epsilon"], data[f"rho {name}"], color=f"C{i}", marker="o", ms=3, label=label)
    needed = pruning.least_retained_gain(SETS_DIM, SETS_KEEP, groups=GROUPS)
    ax.axhline(needed, color="k", lw=1, ls=":")
    ax.text(1.1e-2, 1.6 * needed, rf"needed to beat DP-SGD's direction: $\rho$ = {needed:.2f}", fontsize=8.5)
    slope = 2 * SETS_KEEP * (SETS_DIM - SETS_KEEP) / SETS_DIM / (SETS_DIM - 1)
    theta = ax.secondary_yaxis("right", functions=(partial(np.multiply, 1 / slope), partial(np.multiply, slope)))
    theta.set_ylabel(r"dispersion $\theta$ (where $\rho \ll 1$)")
    ax.set(
        xlabel=r"$\epsilon$ that the indices add to the run, $\delta = 10^{-5}$",
        ylabel=r"retained share $\rho$ of the top-k gain",
        title=f"WRN-16-4: {STEPS} steps, {GROUPS:,} groups of {SETS_DIM}, {SETS_KEEP} kept",
        ylim=(1e-17, 30),
    )
    ax.legend(loc="lower right")
