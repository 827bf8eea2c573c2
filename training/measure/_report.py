"""A result as a JSON file, a file of vectors, tables on the terminal and pictures."""

import dataclasses
import io
import itertools
import json
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from dptheory import pruning
from dptheory._arrays import Array
from dptheory.files import write_atomically
from dptheory.training._machine import device_name, versions
from dptheory.training.measure._rows import GAUSSIAN, NONE, Moment, ProbeSettings, Result, Row
from dptheory.training.runs import sampling_rate

matplotlib.use("Agg")


_MARKERS = {"equal": "o", "at least": ">", "at most": "<"}
_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0)
_METHODS = (("cosine_top_k", "top-k", "C0"), ("cosine_random_k", "random-k", "C1"))
_Key = tuple[str, str, str, str]


def write_figure(result: Result, path: Path) -> None:
    """Draw a PNG file.

    Of a validation: above, equations that need no assumption; below, bounds and what rests on an assumption; rows without a ratio
    are left out. Of a probe: three panels, without the moments whose batch was empty.

    Args:
        result: of :func:`run_probe` or :func:`validate`.
        path: of the file, replaced if it is there.

    Raises:
        ValueError: every recorded batch of a probe was empty.
        OSError: the file cannot be written.
    """
    probed = isinstance(result.settings, ProbeSettings)
    figure = _probe(result) if probed else _validation(result)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120 if probed else 110, metadata={"Software": None})
    plt.close(figure)
    write_atomically(path, drawn.getvalue())


# --- a validation ---------------------------------------------------------------------------------------------------------


def _validation(result: Result) -> Figure:
    rows = result.rows
    exact, other = _keys([r for r in rows if _exact(r)]), _keys([r for r in rows if not _exact(r)])
    height = 0.17 * (len(exact) + len(other)) + 2.4
    figure, axes = plt.subplots(
        2,
        3,
        figsize=(13.5, height),
        sharex="row",
        sharey="row",
        layout="constrained",
        height_ratios=(len(exact), len(other)),
    )
    for column, moment in enumerate(result.moments):
        top, bottom = axes[0][column], axes[1][column]
        _draw(top, exact, [r for r in moment.rows if _exact(r)])
        _draw(bottom, other, [r for r in moment.rows if not _exact(r)])
        top.set_title(f"{moment.name} (step {moment.step}): equations without assumption", fontsize=8)
        bottom.set_title("bounds, and what rests on an assumption", fontsize=8)
        bottom.set_xscale("log")
        bottom.xaxis.set_major_locator(FixedLocator(_TICKS))
        bottom.xaxis.set_minor_locator(NullLocator())
        bottom.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        bottom.set_xlabel("measured / predicted")
    s = result.settings.training
    figure.suptitle(
        f"Predicted against measured on {result.data}: small tanh CNN, $\\sigma$ = {s.noise_multiplier:g}, "
        f"C = {s.max_grad_norm:g}, mean batch {s.batch_size}\n"
        "blue: agrees within 5 SE and the prediction's error (bars); orange: does not; open: rests on the claim in brackets; "
        "triangles: predicted is the least (pointing right) or the most (left)",
        fontsize=10,
    )
    return figure


def _exact(row: Row) -> bool:
    return row.assumption == NONE and row.relation == "equal"


def _key(row: Row) -> _Key:
    return row.group, row.quantity, row.setting, "" if row.assumption == NONE else row.assumption.split(":")[0]


def _keys(rows: list[Row]) -> list[_Key]:
    """The lines of a panel, group by group, in the order in which they first come."""
    keys = list(dict.fromkeys(_key(row) for row in rows if row.ratio is not None))
    groups = list(dict.fromkeys(key[0] for key in keys))
    return sorted(keys, key=lambda key: groups.index(key[0]))


def _draw(ax: Axes, keys: list[_Key], rows: list[Row]) -> None:
    places = {key: place for place, key in enumerate(keys)}
    for row in rows:
        if row.ratio is None:
            continue
        colour = "C0" if row.within else "C1"
        ax.errorbar(
            row.ratio,
            places[_key(row)],
            xerr=row.reach / abs(row.predicted),
            fmt=_MARKERS[row.relation],
            color=colour,
            mfc=colour if row.assumption == NONE else "white",
            ms=4.5,
            lw=1,
        )
    ax.axvline(1.0, color="0.3", lw=0.8, zorder=0)
    for place, (key, after) in enumerate(itertools.pairwise(keys)):
        if key[0] != after[0]:
            ax.axhline(place + 0.5, color="0.85", lw=0.8, zorder=0)
    ax.set_yticks(range(len(keys)), [_label(key) for key in keys], fontsize=7)
    ax.tick_params(axis="x", labelsize=8)
    ax.set_ylim(len(keys) - 0.4, -0.6)
    ax.grid(axis="x", color="0.92")
    ax.set_axisbelow(True)


def _label(key: _Key) -> str:
    group, quantity, setting, assumption = key
    return f"{group}: {quantity}, {setting}" + (f"  [{assumption}]" if assumption else "")


# --- a probe --------------------------------------------------------------------------------------------------------------


def _probe(result: Result) -> Figure:
    moments = [moment for moment in result.moments if moment.fit]
    if not moments:
        raise ValueError("every recorded batch was empty: nothing to draw; raise batch_size")
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.8), layout="constrained")
    _draw_errors(axes[0], moments)
    _draw_cosines(axes[1], moments[-1])
    _draw_entries(axes[2], moments)
    s = result.settings.training
    figure.suptitle(
        f"Clipped batch gradients of DP-SGD on {result.data}: small tanh CNN, d = {_gradient(moments[0]).size:,}, "
        f"$\\sigma$ = {s.noise_multiplier:g}, C = {s.max_grad_norm:g}, "
        f"mean batch {sampling_rate(batch_size=s.batch_size, train_size=result.train_images) * result.train_images:.0f}"
    )
    return figure


def _gradient(moment: Moment) -> Array:
    assert moment.gradient is not None
    return moment.gradient.astype(float)


def _rows(moment: Moment, quantity: str, assumption: str) -> list[Row]:
    rows = (row for row in moment.rows if (row.quantity, row.assumption) == (quantity, assumption))
    return sorted(rows, key=lambda row: row.keep or 0)


def _colours(count: int) -> list[tuple[float, float, float, float]]:
    return [plt.get_cmap("viridis")(x) for x in np.linspace(0.0, 0.85, count)]


def _draw_errors(ax: Axes, moments: list[Moment]) -> None:
    dim = _gradient(moments[0]).size
    keeps = np.unique(np.geomspace(max(1, dim // 1000), dim, 60).astype(int))
    for predicted, line, label in (
        (pruning.random_k_mse, "k:", "random-k, any g"),
        (pruning.top_k_mse, "k-", "top-k, Gaussian entries"),
    ):
        ax.plot(keeps / dim, [predicted(dim, int(k), sigma_g=1.0) / dim for k in keeps], line, label=label)
    for moment, colour in zip(moments, _colours(len(moments)), strict=True):
        rows = _rows(moment, "top_k_mse", GAUSSIAN)
        lost = [row.measured / np.sum(_gradient(moment) ** 2) for row in rows]
        shares = [(row.keep or 0) / dim for row in rows]
        ax.plot(shares, lost, "o", color=colour, ms=5, label=f"top-k measured, step {moment.step}")
    ax.set(xscale="log", xlabel="share of entries kept, k", ylabel=r"pruning MSE / $|g|^2$", ylim=(-0.03, 1.05))
    ax.set_title("(a) Pruning error: lines predicted, dots measured", loc="left")
    ax.legend(fontsize=8, loc="lower left")


def _draw_cosines(ax: Axes, moment: Moment) -> None:
    for quantity, name, colour in _METHODS:
        exact, fitted = _rows(moment, quantity, NONE), _rows(moment, quantity, GAUSSIAN)
        k = [(row.keep or 0) / _gradient(moment).size for row in exact]
        ax.plot(k, [row.predicted for row in exact], "-", color=colour, label=f"{name}, from kept norm")
        ax.plot(k, [row.predicted for row in fitted], "--", color=colour, label=f"{name}, by Assumption 1")
        measured, errors = [row.measured for row in exact], [2 * row.standard_error for row in fitted]
        ax.errorbar(k, measured, yerr=errors, fmt="o", ms=4, color=colour, capsize=3, label=f"{name}, measured")
    (whole,) = _rows(moment, "cosine_dp_sgd", NONE)
    ax.axhline(whole.predicted, color="0.4", ls=":", label="DP-SGD (k = 1)")
    ax.set(xscale="log", xlabel="share of entries kept, k", ylabel=r"mean cosine of $(g + Z) \odot I$ with $g$")
    ax.set_ylim(0.0, 1.6 * max(ax.dataLim.y1, whole.predicted))
    ax.set_title(f"(b) Direction kept, step {moment.step}; bars 2 SE", loc="left")
    ax.legend(fontsize=8, loc="upper left", ncols=2)


def _draw_entries(ax: Axes, moments: list[Moment]) -> None:
    edges = np.linspace(-12.0, 12.0, 121)
    for moment, colour in zip(moments, _colours(len(moments)), strict=True):
        g = _gradient(moment)
        scaled = g / np.sqrt(np.mean(g**2))
        density = np.histogram(scaled, edges)[0] / (g.size * np.diff(edges))
        outside = int(np.sum(np.abs(scaled) > edges[-1]))
        label = f"step {moment.step} ({outside} beyond ±12)"
        ax.stairs(np.where(density > 0, density, np.nan), edges, color=colour, label=label)
    ax.plot(edges, np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi), "k-", label="N(0, 1)")
    ax.set(yscale="log", xlabel=r"$g_i / \sigma_g$", ylabel="density", ylim=(1e-5, 30.0), xlim=(-12, 12))
    ax.set_title("(c) Entries of g against Assumption 1", loc="left")
    ax.legend(fontsize=8, loc="upper left", ncols=2)


def write_json(result: Result, device: torch.device, path: Path) -> None:
    """Write settings, versions, fits and rows as strict JSON (no NaN: null stands where a value does not exist).

    Args:
        result: of :func:`run_probe` or :func:`validate`.
        device: that it was made on, for the record.
        path: of the file, replaced if it is there.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(path, json.dumps(to_dict(result, device), indent=1, allow_nan=False) + "\n")


def write_gradients(result: Result, path: Path) -> None:
    """Write the recorded vectors of a probe, float32, under the names step_0, step_50, ...

    Args:
        result: of :func:`run_probe`, whose example writes them.
        path: of the file (NumPy's .npz), replaced if it is there.

    Raises:
        OSError: the file cannot be written.
    """
    packed = io.BytesIO()
    vectors = {f"step_{m.step}": m.gradient for m in result.moments if m.gradient is not None}
    np.savez_compressed(packed, **vectors)  # type: ignore[arg-type]
    write_atomically(path, packed.getvalue())


def to_dict(result: Result, device: torch.device) -> dict[str, Any]:
    """The whole result, less the vectors, as plain Python values.

    Args:
        result: of :func:`run_probe` or :func:`validate`.
        device: that it was made on, for the record.

    Returns:
        What :func:`write_json` writes: settings, versions, device, accuracy, "moments" (with the fits of a probe) and "rows".
    """
    rate = sampling_rate(batch_size=result.settings.training.batch_size, train_size=result.train_images)
    return {
        "data": result.data,
        "train_images": result.train_images,
        "test_images": result.test_images,
        "sampling_rate": rate,
        "expected_batch_size": rate * result.train_images,
        "settings": dataclasses.asdict(result.settings),
        "versions": versions(),
        "device": device_name(device),
        "test_accuracy": result.accuracy,
        "moments": [_moment_dict(moment) for moment in result.moments],
        "rows": [{"moment": m.name, "step": m.step} | _row_dict(row) for m in result.moments for row in m.rows],
    }


def _moment_dict(moment: Moment) -> dict[str, Any]:
    fit = moment.fit and dataclasses.asdict(moment.fit) | {"layer_sigma_spread": moment.fit.layer_sigma_spread}
    known = {"moment": moment.name, "step": moment.step, "batch_size": moment.batch_size}
    return known | {"notes": list(moment.notes), "fit": fit}


def _row_dict(row: Row) -> dict[str, Any]:
    derived = ("ratio", "within", "standard_errors_off")
    return dataclasses.asdict(row) | {name: getattr(row, name) for name in derived}


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", caption_justify="left", box=SIMPLE_HEAD)


def fit_table(result: Result) -> Table:
    """One line per step of a probe: the Gaussian fit, and how far the entries are from it.

    Args:
        result: of :func:`run_probe`.

    Returns:
        A table of rich, for the terminal.
    """
    table = _table("Assumption 1: entries of g iid N(0, sigma_g^2)")
    for heading in ("step", "batch", "sigma_g", "|g|", "KS", "kurtosis", "zeros", "layers", "s/n"):
        table.add_column(heading, justify="right")
    for moment in result.moments:
        if moment.fit is None:
            table.add_row(str(moment.step), "0", "empty batch")
            continue
        fit, measured = moment.fit, {row.quantity: row.measured for row in moment.rows if row.group == "entries"}
        table.add_row(
            str(moment.step),
            str(moment.batch_size),
            f"{fit.sigma_g:.4f}",
            f"{fit.grad_norm:.2f}",
            f"{measured['ks_distance']:.3f}",
            f"{measured['excess_kurtosis']:.1f}",
            f"{fit.zero_share:.1%}",
            "-" if fit.layer_sigma_spread is None else f"1 : {fit.layer_sigma_spread:.0f}",
            "no noise" if fit.snr is None else f"{fit.snr:.2g}",
        )
    table.caption = (
        "KS distance from N(0, 1) and excess kurtosis of g / sigma_g; layers: smallest : largest layer sigma_g; "
        "s/n: sigma_g^2 / (sigma C)^2"
    )
    return table


def row_table(moment: Moment) -> Table:
    """All rows of a moment.

    Args:
        moment: of a probe or a validation.

    Returns:
        A table of rich, for the terminal: groups in bold, rows that break a statement without assumption in red. SE off is
        (measured - predicted) / standard error.
    """
    title = f"{moment.name}: step {moment.step}, batch of {moment.batch_size}; * off by more than 5 SE and the prediction's error"
    table = _table(title)
    table.add_column("quantity")
    table.add_column("setting")
    for heading in ("predicted", "error", "measured", "SE", "ratio", "SE off", ""):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    table.add_column("rests on", no_wrap=True)
    group, groups = "", list(dict.fromkeys(row.group for row in moment.rows))
    for row in sorted(moment.rows, key=lambda row: groups.index(row.group)):
        if row.group != group:
            group = row.group
            table.add_section()
            table.add_row(Text(group, style="bold"))
        sign = {"equal": "", "at least": ">= ", "at most": "<= "}[row.relation]
        table.add_row(
            Text(row.quantity),
            Text(row.setting),
            f"{sign}{row.predicted:.4g}",
            f"{row.error:.2g}" if row.error else "-",
            f"{row.measured:.4g}",
            f"{row.standard_error:.2g}" if row.standard_error else "-",
            "-" if row.ratio is None else f"{row.ratio:.4g}",
            "-" if row.standard_errors_off is None else f"{row.standard_errors_off:+.1f}",
            "" if row.within else "*",
            "-" if row.assumption == NONE else row.assumption.split(":")[0],
            style="red" if row.broken else None,
        )
    needed = dict.fromkeys(row.assumption for row in moment.rows if row.assumption != NONE)
    table.caption = Text("\n".join([*needed, *moment.notes]))
    return table


def summary(result: Result) -> str:
    """How many rows agree, and the accuracy.

    Args:
        result: of :func:`run_probe` or :func:`validate`.

    Returns:
        One line.
    """
    exact = [row for row in result.rows if row.assumption == NONE]
    resting = [row for row in result.rows if row.assumption != NONE]
    return (
        f"{sum(row.within for row in exact)} of {len(exact)} rows that need no assumption agree within 5 SE; "
        f"{sum(row.within for row in resting)} of {len(resting)} that rest on one; "
        f"test accuracy {result.accuracy:.1%} on {result.test_images:,} images"
    )
