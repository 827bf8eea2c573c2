"""What the probe writes and prints, on a made-up result whose every number is known."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.table import Table

from dptheory.training.probe import (
    EXACT,
    GAUSSIAN,
    Fit,
    Measurement,
    MeasureSettings,
    ProbeResult,
    Record,
    Row,
    fit_table,
    row_table,
    to_dict,
    write_gradients,
    write_json,
)
from dptheory.training.runs import DpSgdSettings

CPU = torch.device("cpu")
FIT = Fit(
    dim=4,
    grad_norm=2.5,
    sigma_g=1.25,
    layer_sigmas={"a": 0.5, "b": 4.0},
    zero_share=0.25,
    zero_update_mse=6.25,
    dp_sgd_mse=25.0,
    snr=0.0625,
)
ROWS = (
    Row(
        quantity="ks_distance",
        keep_share=1.0,
        keep=4,
        predicted=0.1,
        measured=0.3456,
        standard_error=0.05,
        assumption=GAUSSIAN,
    ),
    Row(
        quantity="excess_kurtosis",
        keep_share=1.0,
        keep=4,
        predicted=0.5,
        measured=12.345,
        standard_error=0.25,
        assumption=GAUSSIAN,
    ),
    Row(
        quantity="top_k_mse",
        keep_share=0.125,
        keep=1,
        predicted=0.0,
        measured=12345.6,
        standard_error=0.0,
        assumption=GAUSSIAN,
    ),
    Row(
        quantity="random_k_mse",
        keep_share=0.5,
        keep=2,
        predicted=4.0,
        measured=3.0,
        standard_error=0.25,
        assumption=EXACT,
    ),
    Row(
        quantity="cosine_dp_sgd",
        keep_share=1.0,
        keep=4,
        predicted=0.5,
        measured=0.5,
        standard_error=0.0,
        assumption=EXACT,
    ),
)
GRADIENT = np.array([1.5, -2.0, 0.0, 0.25], np.float32)


def result(**changes: Any) -> ProbeResult:
    quiet = dataclasses.replace(FIT, snr=None, layer_sigmas={"a": 0.0, "b": 1.0})
    records = (
        Record(step=0, batch_size=7, gradient=GRADIENT, measurement=Measurement(FIT, ROWS)),
        Record(step=3, batch_size=0, gradient=np.zeros(4, np.float32), measurement=None),
        Record(step=9, batch_size=11, gradient=2 * GRADIENT, measurement=Measurement(quiet, ROWS)),
    )
    training = DpSgdSettings(
        steps=10, batch_size=8, noise_multiplier=1.0, max_grad_norm=1.25, learning_rate=2.0, seed=6
    )
    made = ProbeResult(
        data="mnist",
        train_images=2000,
        test_images=500,
        sampling_rate=0.004,
        training=training,
        measuring=MeasureSettings((0.125, 0.5), draws=4, noise_multiplier=1.0, max_grad_norm=1.25),
        records=records,
        accuracy=0.75,
    )
    return dataclasses.replace(made, **changes)


@pytest.mark.parametrize("build", ["2.13.0", "2.13.0+cu130", "2.14.0a0+git1234"])
def test_the_file_names_the_build_of_torch(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch itself does; the installed package's metadata leave out what PyPI's own build calls itself."""
    monkeypatch.setattr(torch, "__version__", build)
    assert to_dict(result(), CPU)["versions"]["torch"] == build


def test_the_file_holds_every_number(tmp_path: Path) -> None:
    write_json(result(), CPU, tmp_path / "probe.json")
    text = (tmp_path / "probe.json").read_text()
    found = json.loads(text)
    assert text.startswith('{\n "data"') and text.endswith("}\n")
    assert [found[name] for name in ("data", "train_images", "test_images", "device", "test_accuracy")] == [
        "mnist", 2000, 500, "cpu", 0.75,
    ]  # fmt: skip
    assert (found["sampling_rate"], found["expected_batch_size"]) == (0.004, 8.0)
    assert found["training"] == dataclasses.asdict(result().training)
    assert found["measuring"]["keep_shares"] == [0.125, 0.5] and found["measuring"]["draws"] == 4
    assert torch.__version__ == found["versions"]["torch"]
    first, empty, last = found["records"]
    assert first == {"step": 0, "batch_size": 7, "fit": dataclasses.asdict(FIT) | {"layer_sigma_spread": 8.0}}
    assert empty == {"step": 3, "batch_size": 0, "fit": None, "note": "empty Poisson batch: nothing to compare"}
    assert last["fit"]["layer_sigma_spread"] is None and last["fit"]["snr"] is None
    assert [row["step"] for row in found["rows"]] == [0] * 5 + [9] * 5
    assert found["rows"][3] == {"step": 0, "ratio": 0.75, "standard_errors_off": -4.0} | dataclasses.asdict(ROWS[3])
    assert found["rows"][4]["standard_errors_off"] is None and found["rows"][2]["ratio"] is None
    assert found == json.loads(json.dumps(to_dict(result(), CPU)))


def test_a_file_without_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(result(accuracy=math.nan), CPU, tmp_path / "probe.json")
    assert list(tmp_path.iterdir()) == []


def test_vectors_by_their_steps(tmp_path: Path) -> None:
    write_gradients(result(), tmp_path / "gradients.npz")
    with np.load(tmp_path / "gradients.npz") as found:
        assert sorted(found) == ["step_0", "step_3", "step_9"]
        np.testing.assert_array_equal(found["step_9"], [3.0, -4.0, 0.0, 0.5])
        assert found["step_0"].dtype == np.float32


def cells(table: Table) -> dict[str, list[str]]:
    return {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}


def test_the_table_of_the_fits() -> None:
    table = fit_table(result())
    assert cells(table) == {
        "step": ["0", "3", "9"],
        "batch": ["7", "0", "11"],
        "sigma_g": ["1.2500", "empty batch", "1.2500"],
        "|g|": ["2.50", "", "2.50"],
        "KS": ["0.346", "", "0.346"],
        "kurtosis": ["12.3", "", "12.3"],
        "zeros": ["25.0%", "", "25.0%"],
        "layers": ["1 : 8", "", "-"],
        "s/n": ["0.062", "", "no noise"],
    }
    assert {column.justify for column in table.columns} == {"right"}
    assert (table.title_justify, table.caption_justify) == ("left", "left")


def test_the_table_of_the_rows() -> None:
    first, empty, _ = result().records
    table = row_table(first)
    assert str(table.title) == "step 0: predicted and measured; needs Gauss: rests on Assumption 1"
    assert cells(table) == {
        "quantity": [row.quantity for row in ROWS],
        "k": ["1", "1", "0.125", "0.5", "1"],
        "predicted": ["0.1", "0.5", "0", "4", "0.5"],
        "measured": ["0.3456", "12.35", "1.235e+04", "3", "0.5"],
        "ratio": ["3.456", "24.690", "-", "0.750", "1.000"],
        "SE off": ["+4.9", "+47.4", "-", "-4.0", "-"],
        "needs": ["Gauss", "Gauss", "Gauss", "-", "-"],
    }
    assert all(column.no_wrap for column in table.columns)  # numbers are read down the column
    assert [column.justify for column in table.columns] == ["left", *["right"] * 5, "left"]
    assert row_table(empty).row_count == 0
