"""The probe's picture: top-k error, cosine and the distribution of the entries."""

import io
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from dptheory import pruning
from dptheory.files import write_atomically
from dptheory.training.probe._measurement import EXACT, GAUSSIAN, Row
from dptheory.training.probe._probe import ProbeResult, Record

_METHODS = (("cosine_top_k", "top-k", "C0"), ("cosine_random_k", "random-k", "C1"))


def write_figure(result: ProbeResult, path: Path) -> None:
    """Draw the three panels as a PNG file; records of empty batches are left out.

    Args:
        result: of :func:`run_probe`.
        path: of the file, replaced if it is there.

    Raises:
        ValueError: every recorded batch was empty.
        OSError: the file cannot be written.
    """
    records = [record for record in result.records if record.measurement]
    if not records:
        raise ValueError("every recorded batch was empty: nothing to draw; raise batch_size")
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.8), layout="constrained")
    _draw_errors(axes[0], records)
    _draw_cosines(axes[1], records[-1])
    _draw_entries(axes[2], records)
    s = result.training
    figure.suptitle(
        f"Clipped batch gradients of DP-SGD on {result.data}: small tanh CNN, d = {records[0].gradient.size:,}, "
        f"$\\sigma$ = {s.noise_multiplier:g}, C = {s.max_grad_norm:g}, "
        f"mean batch {result.sampling_rate * result.train_images:.0f}"
    )
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120, metadata={"Software": None})
    plt.close(figure)
    write_atomically(path, drawn.getvalue())


def _rows(record: Record, quantity: str, assumption: str) -> list[Row]:
    rows = record.measurement.rows if record.measurement else ()
    return sorted((r for r in rows if (r.quantity, r.assumption) == (quantity, assumption)), key=lambda r: r.keep)


def _colours(count: int) -> list[tuple[float, float, float, float]]:
    return [plt.get_cmap("viridis")(x) for x in np.linspace(0.0, 0.85, count)]


def _draw_errors(ax: Axes, records: list[Record]) -> None:
    dim = records[0].gradient.size
    keeps = np.unique(np.geomspace(max(1, dim // 1000), dim, 60).astype(int))
    ax.plot(
        keeps / dim,
        [pruning.random_k_mse(dim, int(k), sigma_g=1.0) / dim for k in keeps],
        "k:",
        label="random-k, any g",
    )
    ax.plot(
        keeps / dim,
        [pruning.top_k_mse(dim, int(k), sigma_g=1.0) / dim for k in keeps],
        "k-",
        label="top-k, Gaussian entries",
    )
    for record, colour in zip(records, _colours(len(records)), strict=True):
        rows = _rows(record, "top_k_mse", GAUSSIAN)
        share = [row.measured / np.sum(record.gradient.astype(float) ** 2) for row in rows]
        ax.plot(
            [r.keep / dim for r in rows], share, "o", color=colour, ms=5, label=f"top-k measured, step {record.step}"
        )
    ax.set(xscale="log", xlabel="share of entries kept, k", ylabel=r"pruning MSE / $|g|^2$", ylim=(-0.03, 1.05))
    ax.set_title("(a) Pruning error: lines predicted, dots measured", loc="left")
    ax.legend(fontsize=8, loc="lower left")


def _draw_cosines(ax: Axes, record: Record) -> None:
    for quantity, name, colour in _METHODS:
        exact, fitted = _rows(record, quantity, EXACT), _rows(record, quantity, GAUSSIAN)
        k = [row.keep / record.gradient.size for row in exact]
        ax.plot(k, [row.predicted for row in exact], "-", color=colour, label=f"{name}, from kept norm")
        ax.plot(k, [row.predicted for row in fitted], "--", color=colour, label=f"{name}, by Assumption 1")
        errors = [2 * row.standard_error for row in fitted]
        ax.errorbar(
            k,
            [r.measured for r in exact],
            yerr=errors,
            fmt="o",
            ms=4,
            color=colour,
            capsize=3,
            label=f"{name}, measured",
        )
    (whole,) = _rows(record, "cosine_dp_sgd", EXACT)
    ax.axhline(whole.predicted, color="0.4", ls=":", label="DP-SGD (k = 1)")
    ax.set(xscale="log", xlabel="share of entries kept, k", ylabel=r"mean cosine of $(g + Z) \odot I$ with $g$")
    ax.set_ylim(0.0, 1.6 * max(ax.dataLim.y1, whole.predicted))
    ax.set_title(f"(b) Direction kept, step {record.step}; bars 2 SE", loc="left")
    ax.legend(fontsize=8, loc="upper left", ncols=2)


def _draw_entries(ax: Axes, records: list[Record]) -> None:
    edges = np.linspace(-12.0, 12.0, 121)
    for record, colour in zip(records, _colours(len(records)), strict=True):
        g = record.gradient.astype(float)
        scaled = g / np.sqrt(np.mean(g**2))
        density = np.histogram(scaled, edges)[0] / (g.size * np.diff(edges))
        outside = int(np.sum(np.abs(scaled) > edges[-1]))
        ax.stairs(
            np.where(density > 0, density, np.nan),
            edges,
            color=colour,
            label=f"step {record.step} ({outside} beyond ±12)",
        )
    ax.plot(edges, np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi), "k-", label="N(0, 1)")
    ax.set(yscale="log", xlabel=r"$g_i / \sigma_g$", ylabel="density", ylim=(1e-5, 30.0), xlim=(-12, 12))
    ax.set_title("(c) Entries of g against Assumption 1", loc="left")
    ax.legend(fontsize=8, loc="upper left", ncols=2)
