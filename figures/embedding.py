"""Pictures of gradient embedding: its errors, its noise beside the gradient, the stated noise."""

import math

import numpy as np
from matplotlib.axes import Axes

from dptheory import embedding
from dptheory.papers import RESNET20_DIM
from figures._table import Data, Gallery

FIGURES = Gallery()

# --- Noise energy of the ways to release, relative to plain perturbation, over the ratio of the clips, for two subspaces


SUBSPACES = (1000, 50_000)
WAYS = {"published": "GEP as published", "optimal": "best split", "joint": "gradient clipped first"}
POINTS = 201


def _embedding_mse_data() -> Data:
    """Relative energies over S2/S with S1 = S; ratios at which each way meets plain perturbation in the first row."""
    ratios = np.linspace(0.0, 1.2, POINTS)
    columns = {"S2/S": ratios}

    def first(value: float) -> np.ndarray:
        return np.concatenate([[value], np.full(POINTS - 1, np.nan)])

    for k in SUBSPACES:
        found = [
            embedding.gep_mse(dim=RESNET20_DIM, subspace_dim=k, clip_norm=1.0, residual_clip=float(r), mu=1.0)
            for r in ratios
        ]
        limits = embedding.largest_residual_ratio(dim=RESNET20_DIM, subspace_dim=k)
        for way in WAYS:
            columns[f"{way} k={k}"] = np.array([getattr(one, way) / one.plain for one in found])
            columns[f"meets {way} k={k}"] = first(getattr(limits, way))
        columns[f"embedding_only k={k}"] = np.array([one.embedding_only / one.plain for one in found])
    return columns


_PLACES = {"published": (0.735, 1.52), "optimal": (1.19, 1.04), "joint": (1.19, 0.7)}


@FIGURES.picture(
    _embedding_mse_data, "As published, GEP has less noise than plain perturbation only if it clips the residual short"
)
def _draw_embedding_mse(ax: Axes, data: Data) -> None:
    """Solid for the small subspace, dashed for the large one; dots where the noise is that of GP."""
    for k, style in zip(SUBSPACES, ("-", "--"), strict=True):
        ax.plot([], [], style, color="0.3", label=f"k = {k}")
        for i, way in enumerate(WAYS):
            ax.plot(data["S2/S"], data[f"{way} k={k}"], style, color=f"C{i}")
            ax.plot(data[f"meets {way} k={k}"][0], 1.0, "o", color=f"C{i}", ms=5, zorder=4, clip_on=False)
        ax.plot(data["S2/S"], data[f"embedding_only k={k}"], style, color="0.55", zorder=1)
    for i, (way, label) in enumerate(WAYS.items()):
        ax.text(*_PLACES[way], label, color=f"C{i}", ha="right", fontsize=9)
    ax.text(1.19, 0.22, "B-GEP, residual not counted", color="0.4", ha="right", fontsize=9)
    ax.axhline(1, color="0.4", lw=0.8)
    ax.annotate("GP", (0.01, 1.03), color="0.3", fontsize=9)
    ax.set(
        xlabel=r"clip of the residual over clip of the gradient, $S_2/S$ ($S_1 = S$)",
        ylabel="noise energy relative to GP",
        title="p = 269722, the same privacy for every way",
        xlim=(0, 1.2),
        ylim=(0, 2.2),
    )
    ax.legend(loc="upper left")


# --- Norm of the noise over the largest norm of a clipped batch gradient, against the model size: plain perturbation and GEP


SUBSPACE, CLIP, RESIDUAL_CLIP, BATCH, MU = 1000, 10.0, 2.0, 1000, 1.0
NOISE_WAYS = {
    "plain": "GP",
    "published": "GEP as published",
    "optimal": "GEP, best split",
    "joint": "GEP, gradient clipped first",
    "embedding_only": "B-GEP (residual lost)",
}


def _noise_vs_gradient_data() -> Data:
    """sqrt(E|noise|^2) / (n S) for each way; the last row is ResNet20."""
    sizes = [*(round(x) for x in np.geomspace(2 * SUBSPACE, 1e9, 80)), RESNET20_DIM]
    found = [
        embedding.gep_mse(dim=p, subspace_dim=SUBSPACE, clip_norm=CLIP, residual_clip=RESIDUAL_CLIP, mu=MU)
        for p in sizes
    ]
    return {
        "p": np.array(sizes, dtype=np.float64),
        **{way: np.sqrt([getattr(one, way) for one in found]) / (BATCH * CLIP) for way in NOISE_WAYS},
    }


@FIGURES.picture(
    _noise_vs_gradient_data,
    "In large models the noise exceeds the largest clipped gradient, unless the residual is lost",
)
def _draw_noise_vs_gradient(ax: Axes, data: Data) -> None:
    """Curves over p; dots at ResNet20."""
    for i, (way, label) in enumerate(NOISE_WAYS.items()):
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


# --- How many times the least noise the stated noise of GEP is, and the noise that RDP asks for at its best order


DELTAS = (1e-5, 1e-6)
_POINTS = 121


def _sigma_ratio_data() -> Data:
    """Ratios over epsilon from 1e-4 to 2 log(1 / delta), the end of the theorem's range; NaN beyond it."""
    ends = [2 * math.log(1 / delta) for delta in DELTAS]
    epsilons = np.unique(np.concatenate([np.geomspace(1e-4, max(ends), _POINTS), ends]))
    columns: Data = {"epsilon": epsilons}
    for delta, end in zip(DELTAS, ends, strict=True):
        columns[f"stated delta={delta:g}"] = np.array(
            [embedding.noise_ratio_excess(epsilon=float(e), delta=delta) if e <= end else math.nan for e in epsilons]
        )
        columns[f"renyi delta={delta:g}"] = np.array(
            [embedding.noise_ratio_excess(epsilon=float(e), delta=delta, method="renyi") for e in epsilons]
        )
    return columns


@FIGURES.picture(_sigma_ratio_data, "The noise stated for GEP is more than is needed, the more so the smaller epsilon")
def _draw_sigma_ratio(ax: Axes, data: Data) -> None:
    """Logarithmic in epsilon, cut at 4: below, the curves go up without end."""
    epsilons = data["epsilon"]
    for i, delta in enumerate(DELTAS):
        power = round(math.log10(delta))
        stated, renyi = data[f"stated delta={delta:g}"], data[f"renyi delta={delta:g}"]
        ax.semilogx(epsilons, stated, color=f"C{i}", label=rf"stated, $\delta = 10^{{{power}}}$")
        ax.semilogx(epsilons, renyi, color=f"C{i}", ls="--", label=rf"RDP, best order, $\delta = 10^{{{power}}}$")
        last = int(np.flatnonzero(np.isfinite(stated))[-1])
        ax.plot(epsilons[last], stated[last], "o", color=f"C{i}", ms=5)
    ax.axhline(1, color="0.4", lw=0.8)
    ax.set(
        xlabel=r"$\epsilon$ (dots: $2\log(1/\delta)$, where the theorem ends)",
        ylabel="noise over the least noise",
        title="Noise of GEP's two releases, against the exact trade-off",
        ylim=(0.9, 4),
    )
    ax.legend(loc="upper right")
