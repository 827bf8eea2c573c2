"""A result as a JSON file, tables on the terminal and a picture."""

import dataclasses
import io
import itertools
import json
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from dptheory.files import write_atomically
from dptheory.training._machine import device_name, versions
from dptheory.training.measure._rows import NONE, Moment, Result, Row
from dptheory.training.runs import sampling_rate

matplotlib.use("Agg")


_MARKERS = {"equal": "o", "at least": ">", "at most": "<"}
_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0)
_Key = tuple[str, str, str, str]


def write_figure(result: Result, path: Path) -> None:
    """Draw a PNG file: above, equations that need no assumption; below, bounds and what rests on one; without rows that have no ratio.

    Args:
        result: of :func:`validate`.
        path: of the file, replaced if it is there.

    Raises:
        OSError: the file cannot be written.
    """
    figure = _drawn(result)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110, metadata={"Software": None})
    plt.close(figure)
    write_atomically(path, picture.getvalue())


def _drawn(result: Result) -> Figure:
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
    named = ", ".join(filter(None, (quantity, setting)))
    return f"{group}: {named}" + (f"  [{assumption}]" if assumption else "")


def write_json(result: Result, device: torch.device, path: Path) -> None:
    """Write settings, versions and rows as strict JSON (no NaN: null stands where a value does not exist).

    Args:
        result: of :func:`validate`.
        device: that it was made on, for the record.
        path: of the file, replaced if it is there.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(path, json.dumps(to_dict(result, device), indent=1, allow_nan=False) + "\n")


def to_dict(result: Result, device: torch.device) -> dict[str, Any]:
    """The whole result, less the vectors, as plain Python values.

    Args:
        result: of :func:`validate`.
        device: that it was made on, for the record.

    Returns:
        What :func:`write_json` writes: settings, versions, device, accuracy, "moments" and "rows".
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
        "moments": [
            {"moment": m.name, "step": m.step, "batch_size": m.batch_size, "notes": list(m.notes)}
            for m in result.moments
        ],
        "rows": [{"moment": m.name, "step": m.step} | _row_dict(row) for m in result.moments for row in m.rows],
    }


def _row_dict(row: Row) -> dict[str, Any]:
    derived = ("ratio", "within", "standard_errors_off")
    return dataclasses.asdict(row) | {name: getattr(row, name) for name in derived}


def row_table(moment: Moment) -> Table:
    """All rows of a moment.

    Args:
        moment: of a validation.

    Returns:
        A table of rich, for the terminal: groups in bold, rows that break a statement without assumption in red. SE off is
        (measured - predicted) / standard error.
    """
    title = f"{moment.name}: step {moment.step}, batch of {moment.batch_size}; * off by more than 5 SE and the prediction's error"
    table = Table(title=title, title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
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
        result: of :func:`validate`.

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
