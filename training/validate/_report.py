"""A validation as a JSON file and as tables."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from dptheory.files import write_atomically
from dptheory.training._machine import device_name, versions
from dptheory.training.validate._rows import NONE, Row
from dptheory.training.validate._run import Moment, Validation


def write_json(result: Validation, device: torch.device, path: Path) -> None:
    """Write settings, versions and rows as strict JSON (no NaN: null stands for the ratio to a prediction of 0).

    Args:
        result: of :func:`validate`.
        device: that it was made on, for the record.
        path: of the file, replaced if it is there.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(path, json.dumps(to_dict(result, device), indent=1, allow_nan=False) + "\n")


def to_dict(result: Validation, device: torch.device) -> dict[str, Any]:
    """The whole result as plain Python values.

    Args:
        result: of :func:`validate`.
        device: that it was made on, for the record.

    Returns:
        What :func:`write_json` writes: settings, versions, device, accuracy, "moments" and "rows".
    """
    return {
        "data": result.data,
        "train_images": result.train_images,
        "test_images": result.test_images,
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
    return dataclasses.asdict(row) | {"ratio": row.ratio, "within": row.within}


def row_table(moment: Moment) -> Table:
    """All rows of a moment.

    Args:
        moment: of a validation.

    Returns:
        A table of rich, for the terminal: groups in bold, rows that break a statement without assumption in red.
    """
    title = f"{moment.name}: step {moment.step}, batch of {moment.batch_size}; * off by more than 5 SE and the prediction's error"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("quantity")
    table.add_column("setting")
    for heading in ("predicted", "error", "measured", "SE", "ratio", ""):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    table.add_column("rests on", no_wrap=True)
    group = ""
    for row in moment.rows:
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
            "" if row.within else "*",
            "-" if row.assumption == NONE else row.assumption.split(":")[0],
            style="red" if row.broken else None,
        )
    needed = dict.fromkeys(row.assumption for row in moment.rows if row.assumption != NONE)
    table.caption_justify = "left"
    table.caption = Text("\n".join([*needed, *moment.notes]))
    return table


def summary(result: Validation) -> str:
    """How many rows agree, and the accuracy.

    Args:
        result: of :func:`validate`.

    Returns:
        One line.
    """
    rows = [row for moment in result.moments for row in moment.rows]
    exact = [row for row in rows if row.assumption == NONE]
    resting = [row for row in rows if row.assumption != NONE]
    return (
        f"{sum(row.within for row in exact)} of {len(exact)} rows that need no assumption agree within 5 SE; "
        f"{sum(row.within for row in resting)} of {len(resting)} that rest on one; "
        f"test accuracy {result.accuracy:.1%} on {result.test_images:,} images"
    )
