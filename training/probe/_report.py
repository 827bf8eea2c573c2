"""A probe's result as a JSON file, a file of vectors and a table on the terminal."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table

from dptheory.files import write_atomically
from dptheory.training._machine import device_name, versions
from dptheory.training.probe._measurement import GAUSSIAN, Row
from dptheory.training.probe._probe import ProbeResult, Record


def write_json(result: ProbeResult, device: torch.device, path: Path) -> None:
    """Write settings, versions, fits and rows as strict JSON (no NaN: null stands where a value does not exist).

    Args:
        result: of :func:`run_probe`, whose example writes one.
        device: that it was made on, for the record.
        path: of the file, replaced if it is there.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(path, json.dumps(to_dict(result, device), indent=1, allow_nan=False) + "\n")


def write_gradients(result: ProbeResult, path: Path) -> None:
    """Write the recorded vectors, float32, under the names step_0, step_50, ...

    Args:
        result: of :func:`run_probe`, whose example writes them.
        path: of the file (NumPy's .npz), replaced if it is there.

    Raises:
        OSError: the file cannot be written.
    """
    packed = io.BytesIO()
    np.savez_compressed(packed, **{f"step_{r.step}": r.gradient for r in result.records})  # type: ignore[arg-type]
    write_atomically(path, packed.getvalue())


def to_dict(result: ProbeResult, device: torch.device) -> dict[str, Any]:
    """The whole result, less the vectors, as plain Python values.

    Args:
        result: of :func:`run_probe`.
        device: that it was made on, for the record.

    Returns:
        What :func:`write_json` writes: settings, versions, device, accuracy, "records" (the fits) and "rows".
    """
    return {
        "data": result.data,
        "train_images": result.train_images,
        "test_images": result.test_images,
        "sampling_rate": result.sampling_rate,
        "expected_batch_size": result.sampling_rate * result.train_images,
        "training": dataclasses.asdict(result.training),
        "measuring": dataclasses.asdict(result.measuring),
        "versions": versions(),
        "device": device_name(device),
        "test_accuracy": result.accuracy,
        "records": [_fit_dict(record) for record in result.records],
        "rows": [
            {"step": record.step} | _row_dict(row)
            for record in result.records
            if record.measurement
            for row in record.measurement.rows
        ],
    }


def _fit_dict(record: Record) -> dict[str, Any]:
    known = {"step": record.step, "batch_size": record.batch_size}
    if record.measurement is None:
        return known | {"fit": None, "note": "empty Poisson batch: nothing to compare"}
    fit = record.measurement.fit
    return known | {"fit": dataclasses.asdict(fit) | {"layer_sigma_spread": fit.layer_sigma_spread}}


def _row_dict(row: Row) -> dict[str, Any]:
    return dataclasses.asdict(row) | {"ratio": row.ratio, "standard_errors_off": row.standard_errors_off}


def fit_table(result: ProbeResult) -> Table:
    """One line per recorded step: the Gaussian fit, and how far the entries are from it.

    Args:
        result: of :func:`run_probe`.

    Returns:
        A table of rich, for the terminal.
    """
    table = Table(title="Assumption 1: entries of g iid N(0, sigma_g^2)", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("step", "batch", "sigma_g", "|g|", "KS", "kurtosis", "zeros", "layers"):
        table.add_column(heading, justify="right")
    table.add_column("s/n", justify="right")
    for record in result.records:
        if record.measurement is None:
            table.add_row(str(record.step), "0", "empty batch")
            continue
        fit = record.measurement.fit
        shape = {
            row.quantity: row for row in record.measurement.rows if row.quantity in ("ks_distance", "excess_kurtosis")
        }
        table.add_row(
            str(record.step),
            str(record.batch_size),
            f"{fit.sigma_g:.4f}",
            f"{fit.grad_norm:.2f}",
            f"{shape['ks_distance'].measured:.3f}",
            f"{shape['excess_kurtosis'].measured:.1f}",
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


def row_table(record: Record) -> Table:
    """The predictions of one recorded step beside the measurements; SE off = (measured - predicted) / standard error.

    Args:
        record: of :func:`run_probe`.

    Returns:
        A table of rich, for the terminal; without rows for an empty batch.
    """
    table = Table(
        title=f"step {record.step}: predicted and measured; needs Gauss: rests on Assumption 1",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("quantity", no_wrap=True)
    for heading in ("k", "predicted", "measured", "ratio", "SE off"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("needs", no_wrap=True)
    for row in record.measurement.rows if record.measurement else ():
        table.add_row(
            row.quantity,
            f"{row.keep_share:g}",
            f"{row.predicted:.4g}",
            f"{row.measured:.4g}",
            "-" if row.ratio is None else f"{row.ratio:.3f}",
            "-" if row.standard_errors_off is None else f"{row.standard_errors_off:+.1f}",
            "Gauss" if row.assumption == GAUSSIAN else "-",
        )
    return table
