"""The probe from the command line to its files."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from dptheory.cli import app
from dptheory.training.data import Images, data_folder
from dptheory.training.measure import GAUSSIAN, MeasureSettings, ProbeSettings, _probe, run_probe, spread_steps, to_dict
from dptheory.training.networks import layer_slices, small_tanh_cnn
from dptheory.training.runs import DpSgdSettings
from tests.refused import refused
from tests.training.tiny import TEST, TRAIN, tiny_load

TINY = ["--steps", "3", "--record", "0,2", "--batch-size", "40", "--keep-shares", "0.01,0.5", "--draws", "4"]
CPU = torch.device("cpu")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["probe", *arguments])
    return result.exit_code, result.output


def test_probe_on_the_excerpt_writes_its_files(tmp_path: Path) -> None:
    code, text = call(*TINY, "--device", "cpu", "--out", str(tmp_path / "new"))
    assert code == 0, text
    assert "test accuracy" in text
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["gradients.npz", "probe.json", "probe.png"]

    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} in the JSON file")

    found = json.loads((tmp_path / "new" / "probe.json").read_text(), parse_constant=no_constant)
    assert found["settings"]["training"]["seed"] == 0
    assert found["device"] == "cpu"
    assert found["sampling_rate"] == 0.02
    assert {"torch", "opacus", "dptheory"} <= set(found["versions"])
    assert [r["step"] for r in found["moments"]] == [0, 2]
    assert {row["step"] for row in found["rows"]} == {0, 2}
    assert {row["keep"] for row in found["rows"] if row["quantity"] == "top_k_mse"} == {260, 13005}
    with np.load(tmp_path / "new" / "gradients.npz") as vectors:
        assert sorted(vectors) == ["step_0", "step_2"]
        assert vectors["step_0"].shape == (26_010,)
        assert vectors["step_0"].dtype == np.float32
        norm = float(np.linalg.norm(vectors["step_0"].astype(float)))
    assert found["moments"][0]["fit"]["grad_norm"] == pytest.approx(norm)
    assert found["moments"][0]["batch_size"] >= norm  # each clipped to norm 1
    assert (tmp_path / "new" / "probe.png").read_bytes().startswith(b"\x89PNG")


def test_same_seed_same_numbers() -> None:
    settings = DpSgdSettings(steps=2, batch_size=40, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=2.0, seed=7)
    first, second = (
        to_dict(run_probe(data="excerpt", training=settings, record=(1,), keep_shares=(0.1,), draws=3, device=CPU), CPU)
        for _ in range(2)
    )
    assert first == second


def test_empty_batches_are_reported_not_measured(tmp_path: Path) -> None:
    arguments = ["--steps", "12", "--record", ",".join(map(str, range(12))), "--batch-size", "1", "--draws", "2"]
    code, text = call(*arguments, "--keep-shares", "0.1", "--device", "cpu", "--out", str(tmp_path))
    assert code == 0, text
    records = json.loads((tmp_path / "probe.json").read_text())["moments"]
    assert {r["fit"] is None for r in records if r["batch_size"] == 0} == {True}
    assert {r["fit"] is None for r in records if r["batch_size"] > 0} == {False}


def test_spread_steps() -> None:
    assert spread_steps(120) == (0, 30, 60, 89, 119)
    assert spread_steps(1) == (0,)
    assert spread_steps(3) == (0, 1, 2)


def test_who_hands_what_to_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights from the seed's stream 0, the measuring from stream 3; every image set and number where it belongs."""
    settings = DpSgdSettings(steps=5, batch_size=30, noise_multiplier=1.5, max_grad_norm=0.7, learning_rate=2.0, seed=7)
    asked: dict[str, Any] = {}
    gradients = {index: torch.full((26_010,), float(index)) for index in range(5)}

    def dp_sgd(model: torch.nn.Module, images: Images, training: DpSgdSettings, device: torch.device) -> Iterator[Any]:
        asked.update(model=model, images=images, training=training, device=device)
        for index in range(5):
            yield SimpleNamespace(index=index, batch_size=0 if index == 3 else 10 + index, gradient=gradients[index])

    def measure(gradient: np.ndarray, slices: dict[str, slice], measuring: MeasureSettings, rng: Any) -> Any:
        asked.setdefault("measured", []).append((float(gradient[0]), rng.bit_generator.seed_seq.entropy))
        assert slices == layer_slices(small_tanh_cnn(0))
        assert measuring == MeasureSettings((0.5, 0.1), draws=6, noise_multiplier=1.5, max_grad_norm=0.7)
        return f"fit of {gradient[0]:g}", (f"measured {gradient[0]:g}",)

    monkeypatch.setattr(_probe, "load", tiny_load)
    monkeypatch.setattr(_probe, "dp_sgd", dp_sgd)
    monkeypatch.setattr(_probe, "measure_gradient", measure)
    monkeypatch.setattr(_probe, "accuracy", lambda model, test, device: (model, len(test), device))
    found = run_probe(data="mnist", training=settings, record=[1, 3, 4, 4], keep_shares=(0.5, 0.1), draws=6, device=CPU)
    empty = ("empty Poisson batch: nothing to compare",)
    assert [(m.name, m.step, m.batch_size, m.fit, m.rows, m.notes) for m in found.moments] == [
        ("step 1", 1, 11, "fit of 1", ("measured 1",), ()),
        ("step 3", 3, 0, None, (), empty),
        ("step 4", 4, 14, "fit of 4", ("measured 4",), ()),
    ]
    assert all((m.gradient == m.step).all() for m in found.moments)
    assert asked["measured"] == [(1.0, settings.stream(3)), (4.0, settings.stream(3))]
    assert len(asked["images"]) == TRAIN and (asked["training"], asked["device"]) == (settings, CPU)
    wanted = small_tanh_cnn(settings.stream(0)).state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in asked["model"].state_dict().items())
    assert (found.data, found.train_images, found.test_images) == ("mnist", TRAIN, TEST)
    measured = MeasureSettings((0.5, 0.1), draws=6, noise_multiplier=1.5, max_grad_norm=0.7)
    assert found.accuracy == (asked["model"], TEST, CPU) and found.settings == ProbeSettings(settings, measured)
    for record in ([-1], [5], []):
        with refused("record", "0..4"):
            run_probe(data="mnist", training=settings, record=record, keep_shares=(0.5,), draws=6, device=CPU)
    wide = Images("wide", torch.zeros(30, 1, 28, 27), torch.zeros(30))
    monkeypatch.setattr(_probe, "load", lambda name, *, train: wide)
    with refused("images", "1", "28", "27"):
        run_probe(data="mnist", training=settings, record=[1], keep_shares=(0.5,), draws=6, device=CPU)


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_for_terminals_and_never_in_the_output(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    def track(steps: Any, title: str, *, total: int, console: Any, disable: bool) -> Any:
        shown.append((title, total, console.stderr, disable))
        return steps

    monkeypatch.setattr(_probe, "track", track)
    monkeypatch.setattr(_probe, "dp_sgd", lambda *a: iter(()))
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: terminal, write=None, flush=None))
    assert (
        _probe._train(
            torch.nn.Linear(1, 1),
            tiny_load("mnist", train=True),
            DpSgdSettings(steps=5, batch_size=3, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=1.0, seed=0),
            {1},
            CPU,
        )
        == []
    )
    assert shown == [("training", 5, True, not terminal)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--data", "cifar-10"], "data must be one of 'excerpt', 'fashion-mnist', 'mnist', got 'cifar-10'"),
        (["--steps", "0"], "steps must be"),
        (["--record", "3"], "record must be an integer in 0..2, got 3"),
        (["--record", "a"], "record must be whole numbers separated by commas, got 'a'"),
        (["--batch-size", "2001"], "batch_size must be an integer in 1..2000, got 2001"),
        (["--noise-multiplier", "-1"], "noise_multiplier must be"),
        (["--noise-multiplier", "nan"], "noise_multiplier must be"),
        (["--max-grad-norm", "0"], "max_grad_norm must be"),
        (["--learning-rate", "0"], "learning_rate must be"),
        (["--keep-shares", "0.1,2"], "keep_shares must be"),
        (["--keep-shares", "0.1;2"], "keep_shares must be numbers separated by commas"),
        (["--keep-shares", "1e-9"], "keep_shares must keep at least one of 26010"),
        (["--draws", "1"], "draws must be"),
        (["--seed", "-1"], "seed must be"),
        (["--device", "tpu"], "device must be one of"),
    ],
)
def test_bad_arguments_end_in_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    code, text = call(*TINY, *arguments, "--out", str(tmp_path / "new"))
    assert code == 2
    assert says in text
    assert "Traceback" not in text
    assert not (tmp_path / "new").exists()


def test_missing_data_ends_in_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fashion-mnist").mkdir()
    (tmp_path / "fashion-mnist" / "train-images-idx3-ubyte").write_bytes(b"cut off")
    for name in ("train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
        (tmp_path / "fashion-mnist" / name).touch()
    monkeypatch.setenv("DPTHEORY_DATA", str(tmp_path))
    code, text = call(*TINY, "--data", "fashion-mnist", "--out", str(tmp_path / "new"))
    assert code == 2
    assert "train-images-idx3-ubyte: 7 bytes; expected 47,040,016 bytes" in text


def test_help_shows_an_example() -> None:
    assert "dptheory probe --data excerpt" in CliRunner().invoke(app, ["probe", "--help"]).output


def test_top_k_prediction_is_rejected_on_the_published_fashion_mnist() -> None:
    """Assumption 1 does not hold on real gradients, and the probe sees it; what needs no assumption holds."""
    if not (data_folder() / "fashion-mnist" / "train-images-idx3-ubyte").is_file():
        pytest.skip(f"needs the published FashionMNIST files in {data_folder() / 'fashion-mnist'}")
    settings = DpSgdSettings(
        steps=2, batch_size=250, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=2.0, seed=0
    )
    result = run_probe(
        data="fashion-mnist", training=settings, record=(1,), keep_shares=(0.01, 0.1), draws=50, device=CPU
    )
    assert result.train_images == 60_000
    (moment,) = result.moments
    assert moment.fit is not None
    for row in moment.rows:
        off = row.standard_errors_off
        assert off is not None
        if row.quantity == "top_k_mse":
            assert off < -5
        if row.assumption != GAUSSIAN:
            assert math.fabs(off) < 5
