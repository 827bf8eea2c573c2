"""What instruments measure, kind by kind, and what a validation writes and prints."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.table import Table
from typer.testing import CliRunner

from dptheory import gradients
from dptheory.cli import app
from dptheory.sparsification import captured_energy
from dptheory.training import mechanisms
from dptheory.training.data import Images, data_folder, load
from dptheory.training.measure import (
    GAUSSIAN,
    MeasureSettings,
    Moment,
    Result,
    ValidateSettings,
    _measurements,
    measure_gradient,
    prepare,
    row_table,
    to_dict,
    write_json,
)
from dptheory.training.measure._measurements import View
from dptheory.training.mechanisms import clipped_sum
from dptheory.training.runs import DpSgdSettings
from tests.refused import refused
from tests.training.made_rows import row as made_row
from tests.training.measure.looked_at import invented, run_after, view_of
from tests.training.tiny import tiny_load

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")

# --- The command from its options to its files ---


CPU = torch.device("cpu")


SETS = ("'excerpt'", "'fashion-mnist'", "'mnist'", "'cifar-10'")


@pytest.mark.parametrize(
    ("words", "name", "shown"),
    [
        (["validate", "--keep-shares", "0.1;2"], "keep_shares", ()),
        (["validate", "--data", "cifar-10"], "data", SETS),
        (["validate", "--steps", "12"], "steps", ("3", "13", "12")),
        (["validate", "--batch-size", "2001"], "batch_size", ("1..2000", "2001")),
        (["validate", "--keep-shares", "a"], "keep_shares", ("'a'",)),
        (["validate", "--subspace-dims", "0"], "subspace_dims", ("1..256",)),
        (["validate", "--pool", "2001"], "pool", ("2000", "2001")),
        (["validate", "--anchors", "501"], "anchors", ("500", "501")),
        (["validate", "--draws", "19"], "draws", ("20..1000000000", "19")),
        (["validate", "--device", "tpu"], "device", ()),
    ],
)
def test_bad_arguments_end_in_one_line(tmp_path: Path, words: list[str], name: str, shown: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "new")])
    code, text = result.exit_code, result.output
    assert code == 2 and text.startswith(f"Error: --{name.replace('_', '-')} ") and "Traceback" not in text
    assert [one for one in shown if one not in text] == []
    assert not (tmp_path / "new").exists()


def test_missing_data_ends_in_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fashion-mnist").mkdir()
    (tmp_path / "fashion-mnist" / "train-images-idx3-ubyte").write_bytes(b"cut off")
    for name in ("train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        (tmp_path / "fashion-mnist" / name).touch()
    monkeypatch.setenv("DPTHEORY_DATA", str(tmp_path))
    result = CliRunner().invoke(app, ["validate", "--data", "fashion-mnist", "--out", str(tmp_path / "new")])
    assert result.exit_code == 2
    assert "train-images-idx3-ubyte: 7 bytes; expected 47,040,016 bytes" in result.output


def test_help_shows_an_example() -> None:
    assert "dptheory validate --data excerpt" in CliRunner().invoke(app, ["validate", "--help"]).output


def test_top_k_prediction_is_rejected_on_the_published_fashion_mnist() -> None:
    """Assumption 1 does not hold on real gradients, and its rows see it; what needs no assumption holds."""
    if not (data_folder() / "fashion-mnist" / "train-images-idx3-ubyte").is_file():
        pytest.skip(f"needs the published FashionMNIST files in {data_folder() / 'fashion-mnist'}")
    training = DpSgdSettings(
        steps=20, batch_size=250, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=2.0, seed=0
    )
    settings = ValidateSettings(training, keep_shares=(0.01, 0.1))
    images = load(name="fashion-mnist", train=True)
    assert len(images) == 60_000
    trainer = prepare(images, load(name="fashion-mnist", train=False).pixels, settings, CPU)
    trainer.step(0)
    gradient = clipped_sum([trainer.batch_gradients(trainer.batches.batch(1))], 1.0).total[0].numpy()
    measuring = MeasureSettings((0.01, 0.1), draws=50, noise_multiplier=1.0, max_grad_norm=1.0)
    rows = measure_gradient(gradient, measuring, np.random.default_rng(3))
    for row in rows:
        off = row.standard_errors_off
        assert off is not None
        if row.quantity == "top_k_mse":
            assert off < -5
        if row.assumption != GAUSSIAN:
            assert math.fabs(off) < 5


# --- What a validation writes and prints, on a made-up result whose every number is known ---


ENTRIES = {"group": "entries", "claims": "gip.assumption1", "keep": 4, "assumption": GAUSSIAN}
TOP_K = {"group": "pruning", "claims": "gip.mse_t0", "keep": 1, "assumption": GAUSSIAN}
RANDOM_K = {"group": "pruning", "claims": "gip.mse_r", "keep": 2}
COSINES = {"group": "cosines", "claims": "gip.criterion", "keep": 4}

ROWS = (
    made_row(0.1, 0.3456, 0.05, quantity="ks_distance", **ENTRIES),
    made_row(0.5, 12.345, 0.25, quantity="excess_kurtosis", **ENTRIES),
    made_row(0.0, 12345.6, quantity="top_k_mse", setting="keep 0.125", **TOP_K),
    made_row(4.0, 3.0, 0.25, quantity="random_k_mse", setting="keep 0.5", **RANDOM_K),
    made_row(0.5, 0.5, quantity="cosine_dp_sgd", **COSINES),
)


def result(**changes: Any) -> Result:
    moments = (
        Moment(name="start", step=0, batch_size=7, rows=ROWS),
        Moment(name="middle", step=3, batch_size=2, rows=(), notes=("empty",)),
        Moment(name="end", step=9, batch_size=11, rows=ROWS),
    )
    training = DpSgdSettings(
        steps=20, batch_size=8, noise_multiplier=1.0, max_grad_norm=1.25, learning_rate=2.0, seed=6
    )
    made = Result(
        data="mnist",
        train_images=2000,
        test_images=500,
        settings=ValidateSettings(training, keep_shares=(0.125, 0.5), draws=40),
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
    write_json(result(), CPU, tmp_path / "validate.json")
    text = (tmp_path / "validate.json").read_text()
    found = json.loads(text)
    assert text.startswith('{\n "data"') and text.endswith("}\n")
    assert [found[name] for name in ("data", "train_images", "test_images", "device", "test_accuracy")] == [
        "mnist", 2000, 500, "cpu", 0.75,
    ]  # fmt: skip
    assert (found["sampling_rate"], found["expected_batch_size"]) == (0.004, 8.0)
    assert found["settings"]["training"] == dataclasses.asdict(result().settings.training)
    assert found["settings"]["keep_shares"] == [0.125, 0.5] and found["settings"]["draws"] == 40
    assert torch.__version__ == found["versions"]["torch"]
    first, empty, _ = found["moments"]
    assert first == {"moment": "start", "step": 0, "batch_size": 7, "notes": []}
    assert empty == {"moment": "middle", "step": 3, "batch_size": 2, "notes": ["empty"]}
    assert [row["step"] for row in found["rows"]] == [0] * 5 + [9] * 5
    derived = {"ratio": 0.75, "standard_errors_off": -4.0, "within": True}
    assert found["rows"][3] == {"moment": "start", "step": 0} | derived | dataclasses.asdict(ROWS[3])
    assert found["rows"][4]["standard_errors_off"] is None and found["rows"][2]["ratio"] is None
    assert found == json.loads(json.dumps(to_dict(result(), CPU)))


def test_a_file_without_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(result(accuracy=math.nan), CPU, tmp_path / "validate.json")
    assert list(tmp_path.iterdir()) == []


def cells(table: Table) -> dict[str, list[str]]:
    return {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}


def test_the_table_of_the_rows() -> None:
    first, empty, _ = result().moments
    table = row_table(first)
    assert str(table.title) == "start: step 0, batch of 7; * off by more than 5 SE and the prediction's error"
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


# --- Norms, errors and deviations: against batches drawn one by one, and numbers by hand ---


def test_law_of_the_norms() -> None:
    view = invented(torch.diag(torch.tensor([0.1, 1.0, 10.0])), clip=0.5, kept=torch.tensor([True, True, False]))
    found = _measurements.norms(view)
    assert found["clipped_share"] == pytest.approx(1 / 3) and found["kept"] == 2
    assert found["quantiles"][3] == pytest.approx(0.1)  # the norms are 0.1, 1 and, masked out, 0
    assert sum(found["histogram"]) == 3 and found["histogram"][0] == 1 and found["histogram"][50] == 1


def test_errors_are_those_of_drawn_batches() -> None:
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(30, 20, generator=generator) + 0.5
    view = invented(gradients, clip=1.5, sigma=2.0, batch=5)
    masks = view.drawn_masks(0.5, 1)
    found = _measurements._error(view, masks)
    kept = masks[:, 0].float()
    clipped = gradients * kept
    clipped = clipped * (1.5 / clipped.norm(dim=1)).clamp_max(1.0)[:, None]
    chosen = torch.randint(30, (40_000, 5), generator=generator)
    drawn = (clipped[chosen].mean(1) - gradients.mean(0)).square().sum(1)
    assert found == pytest.approx(float(drawn.mean()), rel=0.02)
    rows = _measurements.errors(view, [0.5], 3)
    noise = [after - before for after, before in zip(rows["mse"], rows["signal_loss"], strict=True)]
    assert noise == pytest.approx([20 * (3 / 5) ** 2, 10 * (3 / 5) ** 2]) and rows["drop_rates"] == [0.0, 0.5]


def test_kept_entries_grow_where_the_clip_binds() -> None:
    gradients = torch.ones(4, 100)
    assert _measurements.relaxed(invented(gradients, clip=1.0), [0.75], 2)["ratio"] == pytest.approx([2.0])
    assert _measurements.relaxed(invented(gradients, clip=100.0), [0.75], 2)["ratio"] == pytest.approx([1.0])


def test_a_skewed_law_is_told_from_its_mirror_image() -> None:
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(200, 300, generator=generator)
    skewed = 0.1 * normal + 3.0 * (torch.rand(200, 1, generator=generator) < 0.1)
    even, odd = (
        _measurements.deviations(invented(g, clip=1.0, kept=torch.ones(300, dtype=torch.bool)), 5, 50)
        for g in (normal, skewed)
    )
    assert abs(even["mirror_distance"]) < 0.02 < 0.2 < odd["mirror_distance"]
    assert even["skewness_rms"] < 0.3 < 1.0 < odd["skewness_rms"]
    assert len(even["points"]) == 5 and all(len(pair) == 2 for pair in even["points"])


def test_how_often_an_entry_was_out() -> None:
    view = invented(torch.ones(2, 4), clip=1.0, kept=torch.tensor([True, True, False, False]))
    assert _measurements.frozen(view)["times"] == [2, 2]
    vars(view)["kept"] = torch.tensor([True, False, False, True])
    assert _measurements.frozen(view)["times"] == [1, 2, 1]


# --- What a mask keeps and the sums that are ranked: numbers by hand, and the formula of the theory at the sizes of users
def ranked(entries: int, steps_per_epoch: int) -> mechanisms.RankedSparsification:
    mechanism = mechanisms.RankedSparsification(mechanisms.Constant(0.5), steps_per_epoch=steps_per_epoch, seed=0)
    mechanism.begin_step([torch.zeros(entries)])
    return mechanism


def test_energy_on_the_kept_entries() -> None:
    gradients = torch.tensor([[3.0, 4.0, 0.0, 0.0], [30.0, 40.0, 0.0, 0.0]])  # clipped to half of the first
    view = invented(gradients, clip=2.5, kept=torch.tensor([True, False, False, False]))
    assert _measurements.captured(view) == {"kept_share": 0.25, "energy": pytest.approx(9 / 25), "snr": None}
    none = invented(torch.zeros(2, 3), clip=1.0, kept=torch.ones(3, dtype=torch.bool))
    assert _measurements.captured(none) == {"kept_share": 1.0, "energy": None, "snr": None}


def test_signal_over_noise_of_the_sums() -> None:
    mechanism = ranked(4, 3)
    view = invented(torch.ones(2, 4), clip=0.5, sigma=2.0, kept=torch.ones(4, dtype=torch.bool))
    view.run.optimizer.mechanism = mechanism
    assert _measurements.captured(view)["snr"] is None  # nothing is summed yet
    found = []
    for _ in range(3):
        mechanism.end_step([torch.full((4,), 2.0)], std=1.0)
        found.append(_measurements.captured(view)["snr"])
    # sums of 2 and 4 in each entry, of variance 1 and 2; then they are ranked, and begin anew
    assert found == [pytest.approx(math.sqrt(3)), pytest.approx(math.sqrt(7)), None]


def test_sums_below_their_noise_show_no_signal() -> None:
    view = invented(torch.ones(2, 4), clip=1.0, kept=torch.ones(4, dtype=torch.bool))
    view.run.optimizer.mechanism = ranked(4, 3)
    view.run.optimizer.mechanism.end_step([torch.full((4,), 0.5)], std=1.0)
    assert _measurements.captured(view)["snr"] == 0.0


@pytest.mark.parametrize("signal", [0.1, 0.8])
def test_a_mask_keeps_what_the_theory_says(signal: float) -> None:
    entries, steps = 200_000, 25
    generator = torch.Generator().manual_seed(0)
    gradient = torch.randn(1, entries, generator=generator)
    mechanism = ranked(entries, steps)
    view = invented(gradient, clip=1.0, kept=torch.ones(entries, dtype=torch.bool))
    view.run.optimizer.mechanism = mechanism
    per_step = gradient[0] * signal / math.sqrt(steps)
    for step in range(steps):
        if step == steps - 1:
            assert _measurements.captured(view)["snr"] == pytest.approx(signal * math.sqrt(step / steps), abs=0.03)
        mechanism.end_step([per_step + torch.randn(entries, generator=generator)], std=1.0)
    after = invented(gradient, clip=1.0, kept=mechanism.mask[0])
    found = _measurements.captured(after)
    assert found["kept_share"] == 0.5
    assert found["energy"] == pytest.approx(captured_energy(entries, entries // 2, snr=signal), abs=0.01)


def test_true_gradients_are_summed_without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        name: _measurements.captured(
            view_of(run_after(1, monkeypatch, {"name": name, "drop_rate": 0.5, "cooling_epochs": 2}))
        )["snr"]
        for name in ("ranked-sparsification", "ranked-by-true-gradients")
    }
    assert found["ranked-sparsification"] is not None and found["ranked-by-true-gradients"] is None


# --- Cosines of released gradients against their law, and entries against laws that are known
def test_cosine_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(run_after(1, monkeypatch))
    found = _measurements.cosines(view, 20)
    snr = found["norm_over_noise"] * 26010**0.5
    predicted = gradients.DistortionAngle(26010, snr=snr).expected_cos()
    assert found["cosine"] == pytest.approx(predicted, abs=5 * found["standard_error"])
    half = _measurements.cosines(view_of(run_after(1, monkeypatch, {"name": "random-k", "keep_share": 0.5})), 20)
    assert half["cosine"] == pytest.approx(predicted / 2**0.5, abs=6 * half["standard_error"])


def test_entries_against_a_gaussian_law() -> None:
    normal = torch.randn(20_000, generator=torch.Generator().manual_seed(0))
    found = _measurements.entries(invented(normal[None], clip=1e6))
    assert found["ks_distance"] < 0.01 and abs(found["excess_kurtosis"]) < 0.1 and found["outside"] == 0
    assert sum(found["histogram"]) == 20_000
    signs = _measurements.entries(invented(normal.sign()[None], clip=1e6))
    assert signs["excess_kurtosis"] == pytest.approx(-2.0, abs=1e-3)
    assert signs["ks_distance"] == pytest.approx(
        0.3413, abs=0.01
    )  # N(0, 1) has .16 below -1, where half of the signs are
    spike = torch.ones(400)
    spike[0] = 1000.0
    assert _measurements.entries(invented(spike[None], clip=1e6))["outside"] == 1


# --- Signals, angles and status of layer freezing, by hand
LAYERS = {"first": slice(0, 1), "last": slice(1, 3)}


def looked_at(gradients: list[list[float]], sigma: float = 0.0, kept: list[bool] | None = None) -> View:
    everything = torch.tensor(kept or [True, True, True])
    view = invented(torch.tensor(gradients), clip=1.0, sigma=sigma, batch=2, layers=LAYERS, kept=everything)
    view.without_first = lambda count: torch.tensor([False, True, True])  # type: ignore[method-assign]
    return view


def test_signal_of_each_layer() -> None:
    found = _measurements.signals(looked_at([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]]), 4, 1)
    assert found["layers"] == ["first", "last"]
    as_it_is, frozen = found["as_it_is"], found["if_frozen"]
    assert as_it_is["signal"] == pytest.approx([0.3, math.hypot(0.4, 0.5)])
    assert as_it_is["clipping_angle"] == pytest.approx([0.0, math.atan2(1, 4 / 5) - math.atan2(1, 4)])
    assert as_it_is["noise_angle"] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert frozen["signal"][0] is None and frozen["signal"][1] == pytest.approx(math.hypot(0.5, 0.5))
    assert frozen["clipping_angle"] == [None, pytest.approx(math.pi / 4 - math.atan2(1, 4))]
    noisy = _measurements.signals(looked_at([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]], sigma=1e6), 4000, 1)["as_it_is"]
    assert noisy["noise_angle"] == pytest.approx(
        [math.pi / 2, math.pi / 2], abs=0.05
    )  # half of the draws turn it around


def test_norms_of_noise_and_batch_gradient() -> None:
    """Clipped to (.6, .8, 0), (0, 0, 1) and (0, 0, .5): mean (.2, .8 / 3, .5), mean square .75; batches of two."""
    found = _measurements.noise(looked_at([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.5]], sigma=4.0))
    mean_square = 0.04 + 0.64 / 9 + 0.25
    spread = (0.75 - mean_square) * 1.5
    assert found["dim"] == 3 and found["noise_norm"] == pytest.approx(3**0.5 * 4.0 / 2)
    assert found["gradient_norm"] == pytest.approx(math.sqrt(0.75 - spread + spread / 2), rel=1e-6)
    alone = _measurements.noise(looked_at([[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0]]))  # the estimate of |E|^2 is negative
    assert alone["gradient_norm"] == pytest.approx(1.0)
    with refused("examples", "2"):
        _measurements.noise(looked_at([[3.0, 0.0, 0.0]]))


def test_sums_above_and_below_the_clip() -> None:
    view = looked_at([[2.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    vars(view)["true"] = torch.tensor([0.0, 1.0, 0.0])
    found = _measurements.alignment(view)
    assert (found["clipped"], found["unclipped"]) == (2, 1)
    assert found["clipped_angle"] == pytest.approx(math.pi / 2)
    assert found["unclipped_angle"] == pytest.approx(math.pi / 4)
    vars(view)["gradients"] = view.gradients * 10
    del vars(view)["squares"]
    assert _measurements.alignment(view)["unclipped_angle"] is None


def test_what_freezing_changes() -> None:
    view = looked_at([[3.0, 0.0, 0.5], [0.0, 2.0, 0.0], [0.0, 0.0, 0.4]])
    found = _measurements.status(view, 1)
    assert (found["clipped_before"], found["clipped_after"], found["changed"], found["examples"]) == (2, 1, 1, 3)
    assert found["clipped_turn"] == pytest.approx(math.atan2(0.5, 2)) and found["unclipped_turn"] == pytest.approx(
        0.0, abs=1e-6
    )


# --- Stable ranks and projection errors of matrices whose spectrum is known
def test_stable_rank() -> None:
    assert _measurements.stable_rank(torch.diag(torch.tensor([2.0, 1.0, 1.0]))) == pytest.approx(6 / 4)
    assert _measurements.stable_rank(torch.ones(5, 3)) == pytest.approx(1.0)
    view = invented(torch.eye(6), clip=1.0, layers={"one": slice(0, 4), "two": slice(4, 6)})
    assert _measurements.spectrum(view, 4)["rank"] == pytest.approx(
        {"all": 4.0, "one": 4.0, "two": float("nan")}, nan_ok=True
    )


def test_projection_errors_and_residuals(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = torch.zeros(40, 50)
    gradients[:, 0], gradients[:20, 1], gradients[20:, 2] = (
        3.0,
        1.0,
        1.0,
    )  # mean (3, .5, .5): the anchors see the first two
    anchors = torch.zeros(10, 50)
    anchors[:, 0], anchors[5:, 1] = 1.0, 1.0
    view = invented(gradients, clip=1.0, model=None)
    view.test = lambda first, last: Images("x", torch.zeros(0), torch.zeros(0))  # type: ignore[method-assign]
    monkeypatch.setattr(_measurements, "gradients_of", lambda model, images: anchors)
    monkeypatch.setattr(_measurements, "_other", lambda view, count, name: anchors[:5])
    found = _measurements.projection(view, [1], 10, "x")["error"]
    whole = 9.5**0.5
    assert found["other"] == pytest.approx([0.5**0.5 / whole], abs=1e-4) and found["same"][0] > 0.5 / whole
    assert _measurements.projection(view, [2], 10, "x")["error"]["random"][0] == pytest.approx(
        (1 - 2 / 50) ** 0.5, abs=0.05
    )
    rest = _measurements.residuals(view, 1, 10, "x", 40)
    assert rest["residual"] == pytest.approx(2.0, abs=1e-3) and rest["original"] < 1.2


# --- An image is found from its gradient, and not from a gradient of which a mask has left next to nothing
def test_reconstruction(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(run_after(0, monkeypatch, inputs="unit"), 2)
    found = _measurements.inversion(view, 2, [0.999], 0.0, 30, 0.0)
    exact, masked = found["mse"]
    assert exact < 0.075 < 0.12 < masked and found["drop_rates"] == [0.999]
    torch.testing.assert_close(view.run.test.pixels, tiny_load("excerpt", train=False).pixels)
