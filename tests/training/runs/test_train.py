"""Runs from end to end: metrics, budgets, interruptions."""

import csv
import errno
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from opacus.grad_sample import GradSampleModule
from rich.console import Console
from torch import nn
from torch.nn.utils import parameters_to_vector
from typer.testing import CliRunner

from dptheory.cli import app
from dptheory.training import engine, runs
from dptheory.training.data import Images
from dptheory.training.networks import per_sample_gradients
from dptheory.training.runs import CSV, JSON, STATE, _checkpoint, _config, _prepare, _train, accuracy, build_model
from dptheory.training.runs._train import interrupts_between_steps, pooled_channels_last, trained_outputs
from tests.refused import refused
from tests.rounding import rounding
from tests.training import tiny
from tests.training.forked import FORKSERVER, ROOT, Forked
from tests.training.tiny import OF_ANY_SIZE, TEST, TRAIN, small_images, tiny_config, tiny_load

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG"),
    pytest.mark.usefixtures("small_data"),
]

CPU = torch.device("cpu")
SPARSE = {"name": "random-sparsification", "drop_rate": 0.5}


def weights(run: runs.Run) -> list[torch.Tensor]:
    return [p.detach().clone() for p in run.model.parameters()]


def same(a: runs.Run, b: runs.Run) -> bool:
    return all(torch.equal(x, y) for x, y in zip(weights(a), weights(b), strict=True))


def read(folder: Path) -> tuple[list[dict[str, str]], dict]:
    with (folder / CSV).open() as file:
        rows = list(csv.DictReader(file))
    return rows, json.loads((folder / JSON).read_text())


def test_metrics_of_every_epoch(tmp_path: Path) -> None:
    run = runs.train(tiny_config(SPARSE), CPU, tmp_path, resume=False)
    rows, done = read(tmp_path)
    assert [(r["epoch"], r["step"]) for r in rows] == [("1", "4"), ("2", "8"), ("3", "12")]
    assert float(rows[-1]["test_accuracy"]) == accuracy(run.model, run.test, CPU)
    assert float(rows[-1]["epsilon"]) == run.optimizer.epsilon(1e-5)
    epsilons = [float(r["epsilon"]) for r in rows]
    assert epsilons == sorted(epsilons) and epsilons[0] > 0
    assert [{k: str(v) for k, v in row.items()} for row in done["epochs"]] == rows
    assert done["config"] == run.config.as_dict() and done["mechanism"] == "random sparsification"
    assert (done["noise_multiplier"], done["budget_spent"]) == (1.0, False)
    assert (done["training_images"], done["test_images"]) == (TRAIN, TEST)


@pytest.mark.parametrize("name", ["random-k", "dp-sgd", "index-pruning", "clipped-sgd"])
def test_results_hold_the_guarantee_and_what_it_rests_on(tmp_path: Path, name: str) -> None:
    arguments = {"random-k": {"keep_share": 0.1}, "index-pruning": {"keep_share": 0.1, "index_epsilon": 0.5}}.get(
        name, {}
    )
    run = runs.train(tiny_config({"name": name} | arguments), CPU, tmp_path, resume=False)
    found = read(tmp_path)[1]["privacy"]
    epsilon = run.rows[-1]["epsilon"]
    assert found["epsilon"] == (epsilon if math.isfinite(epsilon) else None)
    assert (found["delta"], found["steps"], found["sampling_rate"]) == (1e-5, 12, 30 / TRAIN)
    assert (found["adjacency"], found["secure"], found["noise"]) == ("zero-out", False, "simulation: seeded")
    assert "number of training examples" in found["public"]


def test_only_a_secure_run_counts_its_masks(tmp_path: Path) -> None:
    """The masks of a seeded run can be known: it is as private as DP-SGD, and says what a secure one would be."""
    masked = {"name": "random-k", "keep_share": 0.1}
    names = {"seeded": tiny_config(masked), "secure": tiny_config(masked, secure=True), "plain": tiny_config()}
    for name, config in names.items():
        runs.train(config, CPU, tmp_path / name, resume=False)
    found = {name: read(tmp_path / name)[1]["privacy"] for name in names}
    assert found["seeded"]["epsilon"] == found["plain"]["epsilon"] > found["secure"]["epsilon"]
    assert found["seeded"]["epsilon_if_secure"] == found["secure"]["epsilon"] == found["secure"]["epsilon_if_secure"]
    assert found["secure"]["secure"] is True and "cryptographic" in found["secure"]["noise"]


@pytest.mark.parametrize(("batch_size", "epochs"), [(80, 7), (50, 5), (7, 1), (119, 4)])
def test_as_many_rows_as_epochs_whatever_the_batch_size(tmp_path: Path, batch_size: int, epochs: int) -> None:
    run = runs.train(tiny_config(epochs=epochs, batch_size=batch_size, physical_batch_size=120), CPU, tmp_path, False)
    assert [row["epoch"] for row in run.rows] == list(range(1, epochs + 1))
    assert run.rows[-1]["step"] == run.steps == max(epochs, round(epochs * TRAIN / batch_size))


def test_learns_without_noise(tmp_path: Path) -> None:
    config = tiny_config({"name": "clipped-sgd"}, epochs=12)
    run = runs.train(config, CPU, tmp_path, resume=False)
    assert run.rows[-1]["test_accuracy"] > 0.3 and run.rows[-1]["train_loss"] < run.rows[0]["train_loss"]
    rows, done = read(tmp_path)
    assert rows[-1]["epsilon"] == "inf" and done["epochs"][-1]["epsilon"] is None


@pytest.mark.parametrize(
    "refreshes", [None, {}, {"refreshes_per_epoch": 1}], ids=["dp-sgd", "sparsification", "freeze"]
)
@pytest.mark.parametrize("model", ["small-cnn", "dp-cnn", "linear-probe"])
def test_a_run_is_its_algorithm_written_out(
    model: str, refreshes: dict[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six steps from epoch to epoch, their noise left out: the sum of clip(mask * g) over B, with momentum, by functorch."""
    mechanism = {"name": "dp-sgd"} if refreshes is None else SPARSE | refreshes
    monkeypatch.setattr(tiny, "TRAIN", 16)
    data = "cifar-10" if model == "dp-cnn" else "excerpt"
    run = runs.prepare(tiny_config(mechanism, model=model, data=data, batch_size=4), CPU)
    run.optimizer._noise = lambda like, std: torch.zeros_like(like)
    bare = runs.build_model(model, features=run.train.pixels[0].numel(), seed=0)
    velocity = torch.zeros(sum(p.numel() for p in bare.parameters()))
    for step in range(6):
        bare.load_state_dict(run.model.state_dict())
        before, drawn = parameters_to_vector(weights(run)), run.batches.batch(step, *engine.place())
        gradients = per_sample_gradients(bare, run.train.pixels[drawn], run.train.labels[drawn])
        _train.one_step(run)
        if refreshes is not None:
            gradients = gradients * parameters_to_vector(run.optimizer.mechanism.mask)
        norms = gradients.norm(dim=1, keepdim=True)
        velocity = 0.9 * velocity + (gradients / norms.clamp_min(1.0)).sum(0) / 4
        assert (before - 0.5 * velocity - parameters_to_vector(weights(run))).norm() < 1e-3 * velocity.norm()
    assert (norms > 1.0).any(), "the clip must have been seen"


def test_the_learning_rate_decays_from_epoch_to_epoch() -> None:
    """To a quarter in the last of three epochs of four steps; without decay nothing touches it."""
    kind = {"name": "sgd", "learning_rate": 0.5}
    found = {}
    for name, decay in (("decayed", {"decay": 0.75}), ("plain", {})):
        run = runs.prepare(tiny_config(optimizer=kind | decay), torch.device("cpu"))
        rates, moved = [], []
        for _ in range(run.steps):
            before = run.model.fc2.bias.detach().clone()
            _train.one_step(run)
            rates.append(run.optimizer.param_groups[0]["lr"])
            moved.append(torch.allclose(before - run.model.fc2.bias, rates[-1] * run.model.fc2.bias.grad, rtol=1e-4))
        found[name] = rates
        assert all(moved)
    assert found["decayed"] == [0.5] * 4 + [0.3125] * 4 + [0.125] * 4 and found["plain"] == [0.5] * 12


def test_the_learning_rate_decays_to_the_end_where_epochs_hold_no_whole_number_of_steps() -> None:
    """Ten epochs of 1.7 steps: the last step has a quarter of the rate."""
    optimizer = {"name": "sgd", "learning_rate": 0.5, "decay": 0.75}
    run = runs.prepare(
        tiny_config(optimizer=optimizer, epochs=10, batch_size=70, model="linear-probe"), torch.device("cpu")
    )
    assert run.steps == 17 == round(10 * len(run.train) / 70)
    rates = []
    for _ in range(run.steps):
        _train.one_step(run)
        rates.append(run.optimizer.param_groups[0]["lr"])
    assert rates[0] == 0.5 and rates[-1] == 0.125 and len(set(rates)) == 10


def test_the_seed_fixes_everything(tmp_path: Path) -> None:
    one, two = (runs.train(tiny_config(SPARSE), CPU, tmp_path / n, resume=False) for n in "ab")
    other = runs.train(tiny_config(SPARSE, seed=6), CPU, tmp_path / "c", resume=False)
    assert same(one, two) and not same(one, other)


def test_physical_batches_change_nothing_but_rounding(tmp_path: Path) -> None:
    """Of a smooth network: where max pooling has a near tie, rounding decides whose gradient counts, by the machine's kernels."""
    one, two = (
        runs.train(
            tiny_config(SPARSE, model="linear-probe", physical_batch_size=size), CPU, tmp_path / str(size), False
        )
        for size in (3, 500)
    )
    for x, y in zip(weights(one), weights(two), strict=True):
        torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-4)


def test_the_records_of_all_parts_take_the_same_memory() -> None:
    run = runs.prepare(tiny_config(physical_batch_size=5), CPU)
    places = set()
    for part in (torch.tensor([3, 1, 4, 1, 5]), torch.tensor([2]), torch.tensor([6, 0, 7])):
        found = _train._records(run, part)
        places.add(found.data_ptr())
        assert torch.equal(found, run.train.pixels[part])
    assert len(places) == 1


def test_stops_before_the_budget_would_be_exceeded(tmp_path: Path) -> None:
    config = tiny_config(SPARSE, epsilon=8.0, epochs=30)
    run = runs.train(config, CPU, tmp_path, resume=False)
    assert run.spent and 0 < run.step < run.steps
    assert run.rows[-1]["step"] == run.step and run.rows[-1]["epsilon"] <= 8.0
    run.optimizer.accountant.record(run.optimizer.mechanism.cost(1.0))
    assert run.optimizer.epsilon(1e-5) > 8.0
    assert read(tmp_path)[1]["budget_spent"] is True
    assert [row["step"] for row in run.rows] == sorted({row["step"] for row in run.rows})  # no row for an empty epoch
    again = runs.train(config, CPU, tmp_path, resume=True)
    assert again.spent and again.step == run.step and len(again.rows) == len(run.rows) and same(run, again)


def test_noise_from_the_budget_affords_every_step(tmp_path: Path) -> None:
    config = tiny_config(noise_multiplier=None, epsilon=2.0, batch_size=120, physical_batch_size=120)
    run = runs.train(config, CPU, tmp_path, resume=False)
    assert not run.spent and run.step == run.steps and 1.98 < run.rows[-1]["epsilon"] <= 8.0


def test_a_selection_on_top_of_the_noise_stops_the_run_earlier(tmp_path: Path) -> None:
    pruned = {"name": "index-pruning", "keep_share": 0.2, "index_epsilon": 0.5}
    run = runs.train(
        tiny_config(pruned, noise_multiplier=None, epsilon=2.0, batch_size=120), CPU, tmp_path, resume=False
    )
    assert run.spent and run.step < run.steps and all(row["epsilon"] <= 2.0 for row in run.rows)


def test_a_budget_for_no_step_at_all(tmp_path: Path) -> None:
    run = runs.train(tiny_config(epsilon=1e-3), CPU, tmp_path, resume=False)
    start = runs.prepare(tiny_config(), CPU)
    assert run.spent and run.step == 0 and run.rows == [] and same(run, start)


@pytest.mark.usefixtures("usual_signals")
def test_an_interruption_between_steps_leaves_a_state_to_go_on_from(tmp_path: Path, monkeypatch) -> None:
    """At the end of an epoch and, after going on, in the middle of one, whose metrics are then those of the whole epoch."""
    whole = runs.train(tiny_config(SPARSE), CPU, tmp_path / "whole", resume=False)
    step = _train.one_step

    def interrupted(run: runs.Run) -> tuple[float, int]:
        found = step(run)
        if run.step in (4, 6):
            signal.raise_signal(signal.SIGINT)
        return found

    for resume in (False, True):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(_train, "one_step", interrupted)
            runs.train(tiny_config(SPARSE), CPU, tmp_path / "broken", resume=resume)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    again = runs.train(tiny_config(SPARSE), CPU, tmp_path / "broken", resume=True)
    assert same(whole, again)
    kept = [{k: v for k, v in row.items() if k != "seconds"} for row in again.rows]
    assert kept == [{k: v for k, v in row.items() if k != "seconds"} for row in whole.rows]
    assert len(read(tmp_path / "broken")[0]) == 3


@pytest.mark.usefixtures("usual_signals")
def test_an_interruption_of_the_last_step_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = _train.one_step

    def interrupted(run: runs.Run) -> tuple[float, int]:
        found = step(run)
        if run.step == 12:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(_train, "one_step", interrupted)
    assert runs.train(tiny_config(), CPU, tmp_path, resume=False).step == 12


def small_run(out: Path, **changes: object) -> list[str]:
    command = ["run", "configs/fashion_mnist/dp_sgd.toml", "--device", "cpu", "--out", str(out)]
    for key, value in ({"data": "excerpt", "epochs": 3, "batch_size": 100, "seed": 2} | changes).items():
        command += ["--set", f"{key}={value}"]
    return command


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_signals_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A real process, a real signal: exit code 130, and the rest of the run is that of one never interrupted."""
    command = small_run(tmp_path, epochs=2)
    code, said = Forked(
        tmp_path / "said", Path(__file__).parents[1] / "interrupted.py", ["25", name, *command]
    ).finish()
    assert code == 130, said
    assert "interrupted; the same command with --resume continues from" in said and "Traceback" not in said
    assert torch.load(tmp_path / STATE, weights_only=True)["step"] == 25
    monkeypatch.undo()
    done = CliRunner().invoke(app, [*command, "--resume"])
    assert done.exit_code == 0, done.output
    resumed = torch.load(tmp_path / STATE, weights_only=True)
    assert resumed["step"] == 40 and [row["epoch"] for row in resumed["rows"]] == [1, 2]


def test_a_secure_run_says_that_its_state_is_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dptheory.training.runs.read_config", lambda *_, **__: tiny_config(secure=True, epochs=1))
    done = CliRunner().invoke(app, ["run", "x.toml", "--out", str(tmp_path), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "Keep checkpoints secret" in said and "for its owner alone" in said
    assert (tmp_path / STATE).stat().st_mode & 0o777 == 0o600


def hold(folder: Path, held: Event) -> None:
    """What a process does that is in the middle of a run."""
    with _checkpoint.locked(folder):
        held.set()
        signal.pause()


def test_two_runs_in_one_folder(tmp_path: Path) -> None:
    """The second is refused in one line, and leaves the first alone; a lock whose holder was killed is free again."""
    held = FORKSERVER.Event()
    holder = FORKSERVER.Process(target=hold, args=(tmp_path, held))
    holder.start()
    assert held.wait(600)
    said = CliRunner().invoke(app, small_run(tmp_path))
    assert said.exit_code == 2 and said.output.startswith(f"Error: --out={tmp_path}") and said.output.count("\n") == 1
    with refused("out", tmp_path):
        runs.train(tiny_config(), CPU, tmp_path, resume=True)
    holder.kill()
    holder.join()
    assert runs.train(tiny_config(), CPU, tmp_path, resume=False).step == 12
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "checkpoint.pt", "metrics.csv", "metrics.json"]


def test_a_folder_is_free_after_an_error(tmp_path: Path) -> None:
    with refused("batch_size"):
        runs.train(tiny_config(batch_size=121), CPU, tmp_path, resume=False)
    assert runs.train(tiny_config(), CPU, tmp_path, resume=False).step == 12


@pytest.mark.parametrize(
    ("key", "value"),
    [("max_grad_norm", "1e30"), ("data", "[1]"), ("inputs", "raw"), ("mechanism.name", "1e308")],
)
def test_bad_values_on_the_command_line_are_answered_in_one_line(tmp_path: Path, key: str, value: str) -> None:
    done = CliRunner().invoke(app, small_run(tmp_path, **{key: value}))
    assert done.exit_code == 2 and done.output.count("\n") == 1, done.output
    assert done.output.startswith(f"Error: {key} ")


@pytest.mark.parametrize("out", ["/dev/null/x", "/proc/x", "a file"])
def test_folders_that_there_cannot_be(tmp_path: Path, out: str) -> None:
    (tmp_path / "a file").write_text("")
    done = CliRunner().invoke(app, small_run(tmp_path / out))
    assert done.exit_code == 2 and done.output.count("\n") == 1, done.output
    assert done.output.startswith(f"Error: --out={tmp_path / out} must be a folder, or one that can be made: ")


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", str(tmp_path), "--out", str(tmp_path / "out")])
    assert (done.exit_code, done.output) == (2, f"Error: CONFIG must be a TOML file, got the folder {tmp_path}\n")


def test_a_budget_for_no_step_is_an_error_of_the_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, small_run(tmp_path, noise_multiplier=0, epsilon=1))
    assert done.exit_code == 2 and done.output.startswith("Error: epsilon ") and done.output.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [_checkpoint.LOCK]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_below_the_output(tmp_path: Path) -> None:
    """As ``dptheory``, in an interpreter of its own."""
    command = [sys.executable, "-m", "dptheory", *small_run(tmp_path, epochs=1, batch_size=500)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, env=env, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and done.stderr == "Error: [Errno 28] No space left on device\n"


def test_a_full_disk_below_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_checkpoint, "write_atomically", full)
    done = CliRunner().invoke(app, small_run(tmp_path))
    assert done.exit_code == 2 and done.output == "Error: [Errno 28] No space left on device\n"


def test_command_line(tmp_path: Path) -> None:
    command = ["run", "configs/fashion_mnist/random_sparsification", "--set", "data=excerpt", "--device", "cpu"]
    small = ["--set", "batch_size=30", "--set", "epochs=2", "--set", "mechanism.cooling_epochs=2"]
    done = CliRunner().invoke(app, [*command, *small, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "random sparsification" in done.output and "metrics.json" in done.output
    report = json.loads((tmp_path / JSON).read_text())["privacy"]
    assert f"epsilon = {report['epsilon']:.6g} at delta = 1e-05 after {report['steps']} steps." in done.output
    assert "Neighbours (zero-out)" in done.output and "Simulation: seeded" in " ".join(done.output.split())
    spent = CliRunner().invoke(app, [*command, *small, "--out", str(tmp_path / "b"), "--set", "epsilon=3"])
    assert spent.exit_code == 0 and "stopped: one more step would exceed the budget" in spent.output
    other = CliRunner().invoke(app, [*command, *small, "--out", str(tmp_path), "--set", "seed=9", "--resume"])
    assert other.exit_code == 2 and "belongs to another run: seed differ" in other.output
    wrong = CliRunner().invoke(app, [*command, "--set", "batch_size=0"])
    assert wrong.exit_code == 2 and "batch_size must be an integer in 1..1000000000, got 0" in wrong.output


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_physical_batch_too_large_for_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    def full(*_: object) -> float:
        if device == "cpu":
            torch.empty(10**15)
        raise torch.OutOfMemoryError

    monkeypatch.setattr(_train, "_backward", full)
    with refused("physical_batch_size", "16"):
        runs.train(tiny_config(), CPU, tmp_path, resume=False)


@pytest.mark.parametrize("model", ["dp-cnn", "resnet20", "wrn-16-4", "linear-probe"])
@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
def test_empty_batches_in_every_network(monkeypatch: pytest.MonkeyPatch, model: str, mode: str) -> None:
    if model in OF_ANY_SIZE:
        small_images(monkeypatch)
    run = runs.prepare(tiny_config(model=model, data="cifar-10", grad_sample_mode=mode, batch_size=2), CPU)
    monkeypatch.setattr(type(run.batches), "batch", lambda *_: torch.zeros(0, dtype=torch.long))
    assert _train.one_step(run) == (0.0, 0) and run.optimizer.accountant.steps == 1
    assert all(torch.isfinite(p).all() for p in run.model.parameters())


def test_an_epoch_of_empty_batches_has_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_prepare.PoissonBatches, "batch", lambda *_: torch.zeros(0, dtype=torch.long))
    run = runs.train(tiny_config(epochs=1), CPU, tmp_path, resume=False)
    assert math.isnan(run.rows[0]["train_loss"]) and read(tmp_path)[1]["epochs"][0]["train_loss"] is None


def test_another_error_of_a_step_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> float:
        raise RuntimeError("shapes do not fit")

    run = runs.prepare(tiny_config(), CPU)
    monkeypatch.setattr(_train, "_backward", fail)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        _train.one_step(run)


def test_the_first_process_alone_writes_and_knows_the_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_train.engine, "first", lambda: False)
    run = runs.train(tiny_config(epochs=1), CPU, tmp_path / "out", resume=False)
    assert run.step == 4 and not (tmp_path / "out" / STATE).exists() and not (tmp_path / "out" / CSV).exists()
    run.losses, run.seen = 3.0, 7
    _train._sum_over_processes(run)
    assert (run.losses, run.seen) == (0.0, 0)
    monkeypatch.setattr(_train.engine, "first", lambda: True)
    run.losses, run.seen = 3.0, 7
    _train._sum_over_processes(run)
    assert (run.losses, run.seen) == (3.0, 7)


class Shown:
    """Stands in for the progress bar, and notes what it shows."""

    made: ClassVar[list["Shown"]] = []

    def __init__(self, *columns: object, console: Console, disable: bool) -> None:
        self.console, self.disable, self.said = console, disable, []
        self.made.append(self)

    def __enter__(self) -> "Shown":
        return self

    def __exit__(self, *_: object) -> None: ...

    def add_task(self, description: str, total: int, completed: int) -> int:
        self.said.append((description, total, completed))
        return 77

    def update(self, task: int, **shown: object) -> None:
        assert task == 77
        self.said.append(shown)


@pytest.mark.parametrize(("terminal", "first", "shown"), [(1, 1, True), (0, 1, False), (1, 0, False), (0, 0, False)])
def test_a_bar_for_the_first_process_on_a_terminal(monkeypatch, tmp_path: Path, terminal, first, shown: bool) -> None:
    monkeypatch.setattr(_train, "Progress", Shown)
    monkeypatch.setattr(Shown, "made", [])
    run = runs.prepare(tiny_config(epochs=1), CPU)
    monkeypatch.setattr(_train.engine, "first", lambda: bool(first))
    monkeypatch.setattr(_train.sys, "stderr", SimpleNamespace(isatty=lambda: bool(terminal)))
    _train._train(run, tmp_path)
    (bar,) = Shown.made
    assert bar.disable is not shown and bar.console.stderr is True
    epsilon = f"epsilon {run.rows[-1]['epsilon']:.3g}"
    assert bar.said == [("training", 4, 0), *({"completed": n} for n in (1, 2, 3, 4)), {"description": epsilon}]


def test_a_bar_before_the_first_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_train, "Progress", Shown)
    monkeypatch.setattr(Shown, "made", [])
    run = runs.prepare(tiny_config(epsilon=1e-3), CPU)
    _train._train(run, tmp_path)
    assert Shown.made[0].said[-1] == {"description": "training"}


def test_every_epoch_begins_its_sums_anew(tmp_path: Path) -> None:
    config = tiny_config(epochs=2, optimizer={"name": "sgd", "learning_rate": 1e-12})
    begun = time.perf_counter()
    run = runs.train(config, CPU, tmp_path, resume=False)
    assert 0 < sum(row["seconds"] for row in run.rows) <= time.perf_counter() - begun
    for epoch, row in enumerate(run.rows):
        chosen = torch.cat([run.batches.batch(4 * epoch + step) for step in range(4)])
        expected = nn.functional.cross_entropy(run.model(run.train.pixels[chosen]), run.train.labels[chosen])
        assert row["train_loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert (run.losses, run.seen, run.seconds) == (0.0, 0, 0.0)


CROPPED = {"views": 3, "augmentation": "crops-and-flips"}


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("mode", engine.GRAD_SAMPLE_MODES)
def test_a_run_with_views_goes_on_as_it_would_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """The same views of the same images, to the last bit, interrupted in the middle of an epoch."""
    config = tiny_config(SPARSE, epochs=2, model="linear-probe", grad_sample_mode=mode, **CROPPED)
    whole = runs.train(config, CPU, tmp_path / "whole", resume=False)
    step = _train.one_step

    def interrupted(run: runs.Run) -> tuple[float, int]:
        found = step(run)
        if run.step == 6:
            signal.raise_signal(signal.SIGINT)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(_train, "one_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runs.train(config, CPU, tmp_path / "broken", resume=False)
    torch.manual_seed(12345)  # another process has other global random numbers
    again = runs.train(config, CPU, tmp_path / "broken", resume=True)
    assert same(whole, again) and [row["train_loss"] for row in again.rows] == [row["train_loss"] for row in whole.rows]


def test_a_run_with_other_views_is_another_one(tmp_path: Path) -> None:
    config = tiny_config(epochs=1, model="linear-probe", **CROPPED)
    runs.train(config, CPU, tmp_path, resume=False)
    with refused(STATE, "views"):
        runs.train(tiny_config(epochs=1, model="linear-probe", **CROPPED | {"views": 4}), CPU, tmp_path, resume=True)


def test_views_do_not_depend_on_what_fits_into_memory_and_cost_no_privacy(tmp_path: Path) -> None:
    """The step on views is that on the images which they are, clipped once an example."""
    one, parts, plain = (
        runs.train(tiny_config(epochs=1, model="linear-probe", **changes), CPU, tmp_path / name, resume=False)
        for name, changes in (
            ("one", CROPPED | {"physical_batch_size": 120}),
            ("parts", CROPPED | {"physical_batch_size": 7}),
            ("plain", {}),
        )
    )
    for a, b in zip(weights(one), weights(parts), strict=True):
        torch.testing.assert_close(
            a, b, rtol=0, atol=1e-4
        )  # sums in single precision of 120 gradients, in another order
    assert not same(one, plain)
    assert one.optimizer.epsilon(1e-5) == plain.optimizer.epsilon(1e-5)


def test_the_step_of_a_run_with_views_is_written_out() -> None:
    """Without noise: the sum of the clipped means over the views, by torch alone."""
    run = runs.prepare(
        tiny_config(
            epochs=1, model="linear-probe", noise_multiplier=0.0, max_grad_norm=0.3, optimizer={"learning_rate": 1.0}, **CROPPED,
        ),
        CPU,
    )  # fmt: skip
    before, drawn = weights(run), run.batches.batch(0)
    draws = torch.Generator().manual_seed(_prepare.stream(run.config.seed, _prepare.VIEWS, 0, 0))
    crops = _config.AUGMENTATIONS["crops-and-flips"]
    pixels = crops.views(run.train.pixels[drawn], crops.draws(3 * len(drawn), draws))
    total = [torch.zeros_like(p) for p in before]
    run.private.disable_hooks()
    for i, index in enumerate(drawn.tolist()):
        loss = nn.functional.cross_entropy(run.model(pixels[3 * i : 3 * i + 3]), run.train.labels[index].expand(3))
        gradients = torch.autograd.grad(loss, list(run.model.parameters()))
        norm = torch.sqrt(sum(g.square().sum() for g in gradients))
        total = [t + g * min(1.0, 0.3 / float(norm)) for t, g in zip(total, gradients, strict=True)]
    run.private.enable_hooks()
    runs.one_step(run)
    for old, new, summed in zip(before, weights(run), total, strict=True):
        torch.testing.assert_close(old - new, summed / 30, rtol=1e-4, atol=1e-6)  # single precision


# --- Signals between the steps of a run: held back, noted, and handed back to whoever had them before


@pytest.mark.usefixtures("usual_signals")
def test_a_second_interruption_comes_through_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_between_steps() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("usual_signals")
def test_a_background_job_goes_on_through_the_control_c_that_it_ignores() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_between_steps() as interrupted:
        signal.raise_signal(signal.SIGINT)
        assert not interrupted()
        signal.raise_signal(signal.SIGTERM)
        assert interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_signals_are_those_of_before_and_other_threads_get_none() -> None:
    said: list[bool] = []

    def elsewhere() -> None:
        with interrupts_between_steps() as interrupted:
            said.append(interrupted())

    found = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert said == [False] and (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == found


@pytest.mark.usefixtures("usual_signals")
def test_of_several_processes_none_stops_at_a_second_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    with interrupts_between_steps() as interrupted:
        monkeypatch.setattr(engine, "active", lambda: True)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        monkeypatch.undo()
        assert interrupted()


# --- Another order of memory inside a pooling changes neither its numbers nor how its output lies


SHAPES = {"small-cnn": (1, 28, 28), "dp-cnn": (3, 32, 32), "scattering-cnn": (243, 8, 8)}


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("name", SHAPES)
def test_the_same_scores_and_per_sample_gradients(name: str) -> None:
    """Also where ties decide whose gradient counts: half of the images are black."""
    pixels = torch.rand(6, *SHAPES[name], generator=torch.Generator().manual_seed(0))
    pixels[3:] = 0.0
    model = build_model(name, features=pixels[0].numel(), seed=0)
    private = GradSampleModule(model)
    lies: list[tuple[bool, bool]] = []
    pools = [module for module in model.modules() if isinstance(module, nn.MaxPool2d)]
    found = []
    for last in (False, True):
        private.zero_grad()
        if last:
            with pooled_channels_last(model):
                for pool in pools:
                    pool.register_forward_hook(
                        lambda _, inputs, output: lies.append((inputs[0].is_contiguous(), output.is_contiguous()))
                    )
                scores = private(pixels)
        else:
            scores = private(pixels)
        nn.functional.cross_entropy(scores, torch.arange(6), reduction="sum").backward()  # type: ignore[no-untyped-call]
        found.append((scores.detach(), [p.grad_sample for p in private.parameters()]))
    assert pools and lies == [(False, True)] * len(pools)
    assert torch.equal(found[0][0], found[1][0])
    for one, other in zip(found[0][1], found[1][1], strict=True):
        assert one.norm() > 1e-4 and (one - other).norm() <= 1e-6 * one.norm()


def test_maps_of_records_without_channels_are_pooled_as_they_lie() -> None:
    maps, model = torch.rand(5, 6, 6, generator=torch.Generator().manual_seed(0)), nn.Sequential(nn.MaxPool2d(2))
    with pooled_channels_last(model):
        assert torch.equal(model(maps), nn.functional.max_pool2d(maps, 2))


def test_hooks_are_gone_after_the_context() -> None:
    model = build_model("small-cnn", features=784, seed=0)
    pools = [module for module in model.modules() if isinstance(module, nn.MaxPool2d)]
    with pytest.raises(KeyError), pooled_channels_last(model):
        assert [bool(module._forward_pre_hooks) for module in pools] == [True, True]
        raise KeyError
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


# --- Per-sample gradients by a backward pass that ends at the outputs of the layers, against those of one example at a time


GREY, COLOUR, FEATURES = (1, 28, 28), (3, 32, 32), (243, 8, 8)
INPUTS = {
    "small-cnn": GREY, "linear-probe": GREY, "dp-cnn": COLOUR, "resnet20": COLOUR, "wrn-16-4": COLOUR,
    "scattering-cnn": FEATURES, "scattering-linear": FEATURES,
    "scattering-small-cnn": (81, 8, 8),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize(
    ("name", "mode", "frozen"),
    [
        *((name, "hooks", 0) for name in INPUTS),
        *((name, "hooks", 2) for name in INPUTS if name not in ("linear-probe", "scattering-linear")),
        ("small-cnn", "functorch", 0),
        ("small-cnn", "functorch", 2),
    ],
)
def test_gradients_are_those_of_a_whole_pass(name: str, mode: str, frozen: int) -> None:
    """Bit by bit, with all layers trained and with the first ones frozen; no gradient of the batch is formed."""
    shape = INPUTS[name]
    generator = torch.Generator().manual_seed(3)
    pixels, labels = torch.rand(3, *shape, generator=generator), torch.tensor([4, 0, 9])
    found = []
    for whole in (True, False):
        model = build_model(name, features=pixels[0].numel(), seed=0)
        for p in list(model.parameters())[:frozen]:
            p.requires_grad = False
        private = GradSampleModule(model, force_functorch=mode == "functorch")
        with trained_outputs(model) as outputs:
            loss = nn.functional.cross_entropy(private(pixels), labels)
        if whole:
            loss.backward()
        else:
            torch.autograd.grad(loss, outputs)
            assert all(p.grad is None for p in model.parameters())
        found.append([p.grad_sample for p in model.parameters() if p.requires_grad])
    assert len(found[0]) > 1
    assert all(torch.equal(one, other) and one.shape[0] == 3 for one, other in zip(*found, strict=True))


@pytest.mark.numerics
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, mode) for name in INPUTS for mode in ("factors", "hooks")),
        ("small-cnn", "functorch"),
        ("dp-cnn", "functorch"),
    ],
)
def test_gradients_are_those_of_one_example_at_a_time(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each parameter's, against a backward pass of one example at a time without Opacus.

    In float64: a deep network in float32 has few digits left, and each processor others. A gradient has fewer than 10^7
    operations behind it, and sizes along the way that are at most 1,000 times its norm.
    """
    if name == "wrn-16-4":
        small_images(monkeypatch)
    monkeypatch.setattr(_prepare, "load", tiny_load)
    data = "cifar-10" if INPUTS[name] in (COLOUR, FEATURES) else "excerpt"
    run = _prepare.prepare(tiny_config(model=name, data=data, grad_sample_mode=mode), torch.device("cpu"))
    run.model.double()
    run.train = Images(data, run.train.pixels.double(), run.train.labels)
    part = torch.tensor([5, 0, 3])
    run.optimizer.begin_batch(3)
    _train._backward(run, part, torch.zeros(len(part), 1, 3, dtype=torch.long))

    bare = build_model(name, features=run.train.pixels[0].numel(), seed=1).double()
    bare.load_state_dict(run.model.state_dict())
    parameters = dict(bare.named_parameters())
    losses = [nn.functional.cross_entropy(bare(run.train.pixels[i, None]), run.train.labels[i, None]) for i in part]
    expected = [torch.autograd.grad(loss, list(parameters.values())) for loss in losses]
    found = run.optimizer.grad_samples
    assert len(found) == len(parameters)
    for parameter, one, wanted in zip(parameters, found, zip(*expected, strict=True), strict=True):
        whole = torch.stack(wanted)
        assert whole.norm() > 1e-4, parameter
        assert one.dtype == torch.float64
        assert (one - whole).norm() < rounding(1e7, 1e3 * float(whole.norm()), torch.float64), parameter


def test_hooks_are_gone_after_the_context_trained_outputs() -> None:
    model = build_model("small-cnn", features=784, seed=0)
    with pytest.raises(KeyError), trained_outputs(model) as outputs:
        model(torch.zeros(1, *GREY))
        raise KeyError
    assert len(outputs) == 4 and not any(module._forward_hooks for module in model.modules())
