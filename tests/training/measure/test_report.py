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

from dptheory.training.measure import (
    GAUSSIAN,
    Fit,
    MeasureSettings,
    Moment,
    ProbeSettings,
    Result,
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
ENTRIES = {"group": "entries", "claims": "gip.assumption1", "keep": 4, "assumption": GAUSSIAN}
ROWS = (
    Row(quantity="ks_distance", predicted=0.1, measured=0.3456, standard_error=0.05, **ENTRIES),
    Row(quantity="excess_kurtosis", predicted=0.5, measured=12.345, standard_error=0.25, **ENTRIES),
    Row(
        group="pruning",
        quantity="top_k_mse",
        setting="keep 0.125",
        claims="gip.mse_t0",
        keep=1,
        predicted=0.0,
        measured=12345.6,
        standard_error=0.0,
        assumption=GAUSSIAN,
    ),
    Row(
        group="pruning",
        quantity="random_k_mse",
        setting="keep 0.5",
        claims="gip.mse_r",
        keep=2,
        predicted=4.0,
        measured=3.0,
        standard_error=0.25,
    ),
    Row(
        group="cosines",
        quantity="cosine_dp_sgd",
        claims="gip.criterion",
        keep=4,
        predicted=0.5,
        measured=0.5,
        standard_error=0.0,
    ),
)
GRADIENT = np.array([1.5, -2.0, 0.0, 0.25], np.float32)


def result(**changes: Any) -> Result:
    quiet = dataclasses.replace(FIT, snr=None, layer_sigmas={"a": 0.0, "b": 1.0})
    moments = (
        Moment(name="step 0", step=0, batch_size=7, rows=ROWS, fit=FIT, gradient=GRADIENT),
        Moment(name="step 3", step=3, batch_size=0, rows=(), notes=("empty",), gradient=np.zeros(4, np.float32)),
        Moment(name="step 9", step=9, batch_size=11, rows=ROWS, fit=quiet, gradient=2 * GRADIENT),
    )
    training = DpSgdSettings(
        steps=10, batch_size=8, noise_multiplier=1.0, max_grad_norm=1.25, learning_rate=2.0, seed=6
    )
    measuring = MeasureSettings((0.125, 0.5), draws=4, noise_multiplier=1.0, max_grad_norm=1.25)
    made = Result(
        data="mnist",
        train_images=2000,
        test_images=500,
        settings=ProbeSettings(training, measuring),
        moments=moments,
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
    measuring = found["settings"]["measuring"]
    assert found["settings"]["training"] == dataclasses.asdict(result().settings.training)
    assert measuring["keep_shares"] == [0.125, 0.5] and measuring["draws"] == 4
    assert torch.__version__ == found["versions"]["torch"]
    first, empty, last = found["moments"]
    fit = dataclasses.asdict(FIT) | {"layer_sigma_spread": 8.0}
    assert first == {"moment": "step 0", "step": 0, "batch_size": 7, "notes": [], "fit": fit}
    assert empty == {"moment": "step 3", "step": 3, "batch_size": 0, "notes": ["empty"], "fit": None}
    assert last["fit"]["layer_sigma_spread"] is None and last["fit"]["snr"] is None
    assert [row["step"] for row in found["rows"]] == [0] * 5 + [9] * 5
    derived = {"ratio": 0.75, "standard_errors_off": -4.0, "within": True}
    assert found["rows"][3] == {"moment": "step 0", "step": 0} | derived | dataclasses.asdict(ROWS[3])
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
    first, empty, _ = result().moments
    table = row_table(first)
    assert str(table.title) == "step 0: step 0, batch of 7; * off by more than 5 SE and the prediction's error"
    assert cells(table) == {
        "quantity": ["entries", *(row.quantity for row in ROWS[:2]), "pruning", *(row.quantity for row in ROWS[2:4]), "cosines",
                     "cosine_dp_sgd"],
        "setting": ["", "", "", "", "keep 0.125", "keep 0.5", "", ""],
        "predicted": ["", "0.1", "0.5", "", "0", "4", "", "0.5"],
        "error": ["", "-", "-", "", "-", "-", "", "-"],
        "measured": ["", "0.3456", "12.35", "", "1.235e+04", "3", "", "0.5"],
        "SE": ["", "0.05", "0.25", "", "-", "0.25", "", "-"],
        "ratio": ["", "3.456", "24.69", "", "-", "0.75", "", "1"],
        "SE off": ["", "+4.9", "+47.4", "", "-", "-4.0", "", "-"],
        "": ["", "", "*", "", "*", "", "", ""],
        "rests on": ["", "gip.assumption1", "gip.assumption1", "", "gip.assumption1", "-", "", "-"],
    }  # fmt: skip
    assert all(column.no_wrap for column in table.columns[2:])  # numbers are read down the column
    assert row_table(empty).row_count == 0
    mixed = dataclasses.replace(first, rows=(ROWS[4], *ROWS[:4]))
    assert cells(row_table(mixed))["quantity"][0] == "cosines"


def test_rows_of_a_group_stand_together() -> None:
    moment = Moment(name="m", step=0, batch_size=1, rows=(ROWS[2], ROWS[4], ROWS[3]))
    assert cells(row_table(moment))["quantity"] == ["pruning", "top_k_mse", "random_k_mse", "cosines", "cosine_dp_sgd"]
