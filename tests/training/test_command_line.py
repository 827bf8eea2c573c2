"""The commands: every default, where every option goes, and what is printed at the end."""

import contextlib
import io
import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import dptheory.training._commands as commands
import dptheory.training._measure_commands
import dptheory.training.audits
import dptheory.training.measure
import dptheory.training.runs
import dptheory.training.studies
from dptheory.cli import app
from dptheory.training import _demo_command
from dptheory.training.measure import (
    Moment,
    Result,
    ValidateSettings,
)
from dptheory.training.planning import Choice, Range
from dptheory.training.runs import DpSgdSettings
from tests.training.made_rows import row as made_row

LONG = "a folder with [red]brackets[/red] " + "and a long name " * 13
"""Printed as it is: not taken for markup, and not broken into lines."""


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_without_a_command_there_is_help() -> None:
    text = call()[1]
    assert "Usage" in text and "validate" in text
    assert "completion" not in call("--help")[1]


SETTINGS = ["--steps", "40", "--batch-size", "30", "--noise-multiplier", "1.5", "--max-grad-norm", "0.7"]
SETTINGS += ["--learning-rate", "0.3", "--seed", "9", "--device", "cpu"]
TRAINED = DpSgdSettings(steps=40, batch_size=30, noise_multiplier=1.5, max_grad_norm=0.7, learning_rate=0.3, seed=9)
USUAL = {"batch_size": 250, "noise_multiplier": 1.0, "max_grad_norm": 1.0, "learning_rate": 2.0, "seed": 0}
CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command takes 42 seconds."""
    times = itertools.count(100.0, 42.0)
    monkeypatch.setattr(dptheory.training._measure_commands, "time", SimpleNamespace(perf_counter=lambda: next(times)))


def without_options(command: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """It writes to its own folder, and takes the device by itself."""
    asked: list[str] = []
    monkeypatch.chdir(folder)
    monkeypatch.setattr(dptheory.training._measure_commands, "_one_thread", lambda name: asked.append(name) or CPU)
    assert call(command)[0] == 0 and Path(f"{command}-results").is_dir() and asked == ["auto"]


def validated(broken: bool = False) -> Result:
    row = made_row(1.0, 2.0 if broken else 1.0, quantity="a quantity", setting="s")
    moments = tuple(Moment(name=name, step=1, batch_size=30, rows=(row,), notes=()) for name in ("start", "middle"))
    settings = ValidateSettings(TRAINED)
    return Result(data="excerpt", train_images=2000, test_images=500, settings=settings, moments=moments, accuracy=0.5)


@pytest.mark.usefixtures("clock")
def test_validate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []
    answers = [validated(), validated(broken=True)]
    monkeypatch.setattr(dptheory.training.measure, "validate", lambda *a: asked.append(a) or answers[len(asked) - 1])
    monkeypatch.setattr(dptheory.training.measure, "write_figure", lambda result, path: path.write_bytes(b"picture"))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: asked.append(count))
    options = [
        "--drop-rate",
        "0.3",
        "--keep-shares",
        "0.2,0.4",
        "--subspace-dims",
        "4,5",
        "--pool",
        "31",
        "--anchors",
        "17",
    ]
    options += ["--window", "6", "--draws", "27", "--data", "mnist"]
    out = tmp_path / LONG.strip()
    code, text = call("validate", *SETTINGS, *options, "--out", str(out))
    assert code == 1 and "*" in text  # the second answer: set_num_threads asked first
    wanted = ValidateSettings(
        TRAINED, drop_rate=0.3, keep_shares=(0.2, 0.4), subspace_dims=(4, 5), pool=31, anchors=17, window=6, draws=27
    )
    assert asked == [1, ("mnist", wanted, CPU)]
    assert sorted(path.name for path in out.iterdir()) == ["validate.json", "validate.png"]
    end = text.strip().split("\n")[-1]
    assert "; 42 s on cpu; written to " in end and end.endswith(f"{out}: validate.json, validate.png")
    assert "start: step 1" in text and "middle: step 1" in text
    monkeypatch.setattr(dptheory.training.measure, "validate", lambda *a: asked.append(a) or validated())
    without_options("validate", monkeypatch, tmp_path)
    settings = ValidateSettings(DpSgdSettings(steps=60, **USUAL))
    assert repr(asked[-1]) == repr(("excerpt", settings, CPU))
    assert (settings.drop_rate, settings.pool, settings.anchors, settings.window, settings.draws) == (
        0.5,
        300,
        256,
        10,
        50,
    )
    assert (settings.keep_shares, settings.subspace_dims) == ((0.01, 0.1, 0.5), (10, 50, 100))


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 1)])
def test_audit(answer: bool, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def report(seed: int, long: bool, say: Callable[[str], object], mechanism: str | None) -> bool:
        asked.append((seed, long, mechanism))
        say("a line")
        return answer

    monkeypatch.setattr(dptheory.training.audits, "report", report)
    assert call("audit") == (code, "a line\n")
    assert call("audit", "--seed", "4", "--long", "--mechanism", "B-GEP") == (code, "a line\n")
    assert asked == [(0, False, None), (4, True, "B-GEP")] and type(asked[0][1]) is bool
    assert call("audit", "--seed", "-1")[0] == 2


_OWN = """
import torch
records = [(torch.randn(4), i % 3) for i in range(100)]
def data():
    return records
def train(data):
    return torch.nn.Linear(4, 3)
def by_heart(data):
    class Told(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.known = {tuple(x.tolist()) + (int(y),) for x, y in (data[i] for i in range(len(data)))}
            self.one = torch.nn.Parameter(torch.zeros(1))
        def forward(self, rows):
            hits = [[float((*x.tolist(), y) in self.known) for y in range(3)] for x in rows]
            return 10 * torch.tensor(hits) + self.one
    return Told()
"""


@pytest.mark.parametrize(("loop", "code", "said"), [("train", 0, "is not refuted"), ("by_heart", 1, "is false")])
def test_audit_of_a_loop_in_a_file(loop: str, code: int, said: str, tmp_path: Path) -> None:
    file = tmp_path / "myloop.py"
    file.write_text(_OWN)
    options = ("--data", f"{file}:data", "--epsilon", "0.5", "--delta", "1e-5", "--canaries", "100", "--seed", "0")
    found, text = call("audit", "--of", f"{file}:{loop}", *options)
    assert found == code and said in text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--epsilon", "1"), "epsilon"),
        (("--canaries", "1000"), "canaries"),
        (("--confidence", "0.95"), "confidence"),
        (("--access", "model"), "access"),
        (("--checkpoint", "seed.json"), "checkpoint"),
        (("--of", "n.py:t", "--data", "n.py:d", "--epsilon", "1", "--delta", "1e-5", "--long"), "long"),
        (
            ("--of", "n.py:t", "--data", "n.py:d", "--epsilon", "1", "--delta", "1e-5", "--mechanism", "B-GEP"),
            "mechanism",
        ),
        (("--of", "nothing.py:train"), "data"),
        (("--of", "nothing.py:train", "--data", "n.py:d", "--epsilon", "1", "--delta", "1e-5"), "of"),
        (("--of", "train", "--data", "n.py:d", "--epsilon", "1", "--delta", "1e-5"), "of"),
    ],
)
def test_audit_of_a_loop_refuses(arguments: tuple[str, ...], named: str) -> None:
    code, text = call("audit", *arguments)
    assert code == 2 and named in text


def ended(**changes: Any) -> SimpleNamespace:
    """What is left of a run, as far as it is printed."""
    report = SimpleNamespace(lines=lambda: [f"a line of the report, {LONG}"])
    mechanism = SimpleNamespace(title="an algorithm")
    rows = [
        {"epoch": epoch, "step": 40 + epoch, "train_loss": 0.123456, "test_accuracy": 0.5, "epsilon": 1.23412}
        for epoch in (1, 2, 3)
    ]
    told = SimpleNamespace(mechanism=mechanism, privacy=lambda delta: report)
    config = SimpleNamespace(delta=1e-5, secure=False)
    return SimpleNamespace(
        **({"rows": rows, "optimizer": told, "config": config, "spent": False, "step": 43} | changes)
    )


def printed(done: SimpleNamespace) -> list[str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        commands._print_end(done, Path(LONG))
    return said.getvalue().strip().split("\n")


def test_the_end_of_a_run() -> None:
    text = printed(ended())
    table = {tuple(cell.strip() for cell in line.strip("│┃ ").replace("┃", "│").split("│")) for line in text}
    assert {("quantity", "value"), ("epoch", "3"), ("step", "43"), ("train loss", "0.1235")} <= table
    assert {("test accuracy", "0.5"), ("epsilon", "1.23412"), ("nonfinite samples", "none")} <= table
    assert "an algorithm" in text[0]
    assert f"a line of the report, {LONG}".strip() in " ".join(" ".join(text).split()), "wrapped at words alone"
    assert text[-3] == f"written to {LONG}:"
    assert (
        "model.pt, statement.md, statement.json" in text[-2] and "metrics.csv, metrics.json, checkpoint.pt" in text[-1]
    )
    assert max(map(len, text[:-3])) <= commands.console_for_output().width and max(map(len, text[-2:])) <= 80
    spent = printed(ended(spent=True, rows=[], config=SimpleNamespace(delta=1e-5, secure=True)))
    assert spent[-3].startswith("stopped: one more step would exceed the budget; written to ")
    assert spent[-2].strip().startswith("to be released: ") and "not to be released: " in text[-2]


def test_a_run_without_test_records_says_so() -> None:
    text = printed(ended(rows=[{"epoch": 1, "step": 43, "test_accuracy": math.nan}]))
    assert any("no test records" in line for line in text) and not any("nan" in line for line in text)


def test_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(dptheory.training.runs, "train", lambda *a: asked.append(a) or ended())
    stated: list[Any] = []
    for what in ("write_statement", "write_weights"):
        monkeypatch.setattr(dptheory.training.runs, what, lambda done, out: stated.append(out))
    path = tmp_path / "run.toml"
    path.write_text(
        'data = "excerpt"\nmodel = "small-cnn"\nepochs = 2\nbatch_size = 5\nmax_grad_norm = 1.0\nepsilon = 3.0\n'
    )
    code, text = call(
        "run", str(path), "--out", str(tmp_path / "out"), "--device", "cpu", "--set", "epochs=4", "--resume"
    )
    assert code == 0 and "an algorithm" in text
    settings, device, out, resume = asked[0]
    assert (settings.epochs, settings.batch_size, device, out, resume) == (4, 5, CPU, tmp_path / "out", True)
    named: list[str] = []
    monkeypatch.setattr(dptheory.training.runs, "pick_device", lambda name: named.append(name) or CPU)
    assert call("run", str(path))[0] == 0 and named == ["auto"]
    assert asked[1][0].epochs == 2 and asked[1][2:] == (Path("run"), False)
    monkeypatch.setattr(dptheory.training.engine, "first", lambda: False)
    assert call("run", str(path), "--device", "cpu") == (0, "")


def test_an_interrupted_run_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dptheory.training.runs, "train", interrupted)
    path = tmp_path / "run.toml"
    path.write_text(
        'data = "excerpt"\nmodel = "small-cnn"\nepochs = 2\nbatch_size = 5\nmax_grad_norm = 1.0\nepsilon = 3.0\n'
    )
    arguments = ["run", str(path), "--out", str(tmp_path), "--device", "cpu"]
    found = CliRunner().invoke(app, arguments)
    assert (found.exit_code, found.stdout, found.stderr) == (130, "", "interrupted; before the first step\n")
    (tmp_path / "checkpoint.pt").touch()
    assert CliRunner().invoke(app, arguments).stderr == (
        f"interrupted; the same command with --resume continues from {tmp_path}\n"
    )


STUDY = ["sweep", "configs/studies/masking.toml", "--results", "a", "--state", "b"]


def test_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options arrive; what is said goes to stderr; the exit code tells failed runs from those that are left."""
    asked: list[Any] = []
    start = SimpleNamespace(epochs=0, epochs_in_all=1)
    ends = [({}, True), ({}, False), ({"y": "2", "x": "1"}, False), ({"x": "1"}, True)]

    def swept(study: Any, **options: Any) -> SimpleNamespace:
        asked.append((study.name, options))
        failed, complete = ends[len(asked) - 1]
        return SimpleNamespace(failed=failed, complete=complete)

    monkeypatch.setattr(dptheory.training.studies, "sweep", swept)
    monkeypatch.setattr(
        dptheory.training.studies,
        "standing",
        lambda study, places: asked_standing.append((study.name, places)) or start,
    )
    asked_standing: list[Any] = []
    places = dptheory.training.studies.Places(results=Path("a"), state=Path("b"))
    done = CliRunner().invoke(app, STUDY)
    assert (done.exit_code, done.output) == (0, "")
    watcher = asked[0][1].pop("watcher")
    assert watcher._start is start and watcher._console.stderr is True
    usual = {"places": places, "workers": 1, "executor": None, "device": "cpu", "hours": None, "allow_dirty": False}
    assert asked == [("masking", usual)] and asked_standing == [("masking", places)]
    left = CliRunner().invoke(app, [*STUDY, "--workers", "3", "--hours", "1.5", "--device", "auto", "--allow-dirty"])
    assert (left.exit_code, left.stdout, left.stderr) == (
        75,
        "",
        "runs are left; run the same command again to continue\n",
    )
    asked[1][1].pop("watcher")
    asked_for = {"places": places, "workers": 3, "executor": None, "device": "auto", "hours": 1.5, "allow_dirty": True}
    assert asked[1][1] == asked_for
    for says in ("failed: x, y\n", "failed: x\n"):
        failed = CliRunner().invoke(app, STUDY)
        assert (failed.exit_code, failed.stdout, failed.stderr) == (1, "", says)


def test_the_status_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(dptheory.training.studies, "show", lambda *given: asked.append(given))
    assert call(*STUDY, "--status") == call(*STUDY[:2], "--status") == (0, "")
    (study, places, console), (_, usual, _) = asked
    assert usual == dptheory.training.studies.Places()
    assert (study.name, places, console.stderr) == (
        "masking",
        dptheory.training.studies.Places(results=Path("a"), state=Path("b")),
        False,
    )


def test_an_interrupted_sweep_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dptheory.training.studies, "sweep", interrupted)
    found = CliRunner().invoke(app, [*STUDY[:2], "--results", str(tmp_path), "--state", str(tmp_path)])
    assert (found.exit_code, found.stdout, found.stderr) == (
        130,
        "",
        "interrupted; run the same command again to continue\n",
    )


def test_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        dptheory.training.studies, "write_answers", lambda *given: asked.append(given) or {"not run": 2, "seen": 1}
    )
    assert call("answers", "--results", "a", "--out", "b", "--page", "c") == (0, "2 not run\n1 seen\n")
    assert call("answers")[0] == 0
    usual = Path("proofs/results"), Path("dptheory/claims/answers.json"), Path("proofs/results.md")
    assert asked == [(Path("a"), Path("b"), Path("c")), usual]


def _choice() -> Choice:
    return Choice(
        batch_size=500,
        epochs=20.0,
        steps=80,
        noise_multiplier=3.31,
        clip_norm=1.18,
        learning_rate=0.464,
        momentum=0.0,
        schedule="constant",
        average=0.0,
        num_examples=2000,
        epsilon=3.0,
        delta=1e-5,
        metric="accuracy",
        expected=Range(low=0.69, high=0.85),
    )


def test_one_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The print lies far from the simulation, the correction within its error, the leak is refused; no line is too long."""
    monkeypatch.setattr(_demo_command, "_planned", _choice)
    shown = io.StringIO()
    monkeypatch.setattr(_demo_command, "console_for_output", lambda: Console(file=shown, width=100))
    _demo_command.demo()
    lines = shown.getvalue().splitlines()
    assert len(lines) <= 45 and max(map(len, lines)) <= 100
    off = {
        name: float(re.search(rf"{name} .* ([\d.]+) standard errors", shown.getvalue())[1])
        for name in ("printed", "corrected")
    }  # type: ignore[index]
    assert off["corrected"] < 4 < 100 < off["printed"]
    assert "records must stay apart" in " ".join(shown.getvalue().split())
    assert "the leak was not seen" not in shown.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_heading_that_is_wrapped_keeps_its_style_and_its_words(width: int) -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=width, force_terminal=True, color_system="standard")
    _demo_command._say(
        console,
        "1. A printed formula, and the simulation [of draws] that decides between the two of them",
        style="bold",
    )
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.getvalue().splitlines()]
    assert " ".join(" ".join(lines).split()).endswith("the simulation [of draws] that decides between the two of them")
    assert max(map(len, lines)) <= width and all("\x1b[1m" in line for line in shown.getvalue().splitlines())
