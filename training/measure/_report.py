"""A result as a JSON file, a file of vectors and tables on the terminal."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from dptheory.files import write_atomically
from dptheory.training._machine import device_name, versions
from dptheory.training.measure._rows import NONE, Moment, Result, Row
from dptheory.training.runs import sampling_rate


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


def fit_table(result: Result) -> Table:
    """One line per step of a probe: the Gaussian fit, and how far the entries are from it.

    Args:
        result: of :func:`run_probe`.

    Returns:
        A table of rich, for the terminal.
    """
    table = Table(title="Assumption 1: entries of g iid N(0, sigma_g^2)", title_justify="left", box=SIMPLE_HEAD)
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
    table.caption_justify = "left"
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
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
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
    table.caption_justify = "left"
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
