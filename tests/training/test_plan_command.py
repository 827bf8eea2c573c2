"""``dptheory plan``: where every option goes, what is written and printed, and that the configuration trains as it is."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

import dptheory.training._plan_command as command
from dptheory.cli import app
from dptheory.planning import candidates
from dptheory.training import planning
from dptheory.training.planning import Choice, Range
from dptheory.training.runs import read_config
from tests.training.planning.small import TINY, Here

BUDGET = ["--epsilon", "3", "--delta", "1e-5"]
OWN = ["mynetwork.py:build", "--public", "public.npz", "--num-examples", "240", *BUDGET]
THEORY = {"num_examples": 2000, "epsilon": 3.0, "delta": 1e-5}
WORDS = ["--num-examples", "2000", *BUDGET]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mynetwork.py").write_text("import torch\ndef build():\n    return torch.nn.Linear(4, 2)\n")
    rng = np.random.default_rng(0)
    for name, count in (("public", 60), ("private", 240)):
        features = rng.normal(size=(count, 4))
        np.savez(f"{name}.npz", features=features.astype(np.float32), labels=(features[:, 0] > 0).astype(int))


class Planned:
    """Notes what ``plan`` is called with and chooses at once."""

    def __init__(self) -> None:
        self.model: Any = None
        self.public: Any = None
        self.given: dict[str, Any] = {}

    def __call__(self, model: Any, public: Any, **given: Any) -> Choice:
        self.model, self.public, self.given = model, public, given
        (one,) = candidates(
            num_examples=given["num_examples"], epsilon=given["epsilon"], delta=given["delta"], max_epochs=2.5,
            batch_size=min(60, given["num_examples"]), epochs=2.5,
        )  # fmt: skip
        return Choice(
            batch_size=one.batch_size, epochs=one.epochs, steps=one.steps, noise_multiplier=one.noise_multiplier,
            clip_norm=0.75, learning_rate=0.25, momentum=0.9, schedule="cosine", average=0.2, metric="accuracy",
            num_examples=given["num_examples"], epsilon=given["epsilon"], delta=given["delta"],
            expected=Range(0.5, float("nan")),
        )  # fmt: skip


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Planned:
    found = Planned()
    monkeypatch.setattr(planning, "plan", found)
    return found


def call(*words: object) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, words)])


# --- with a network ---------------------------------------------------------------------------------------------------------


def test_where_every_option_goes(planned: Planned) -> None:
    fixed = {
        "--max-epochs": 4.0, "--batch-size": 60, "--epochs": 2.5, "--clip-norm": 0.5, "--learning-rate": 0.125, "--momentum": 0.5,
        "--schedule": "linear", "--average": 0.5, "--seconds": 9.0, "--seed": 3,
    }  # fmt: skip
    result = call(
        *OWN, *(word for pair in fixed.items() for word in pair), "--private", "private.npz", "--journal", "j"
    )
    assert result.exit_code == 0, result.output
    given = dict(planned.given)
    assert len(given.pop("private")) == 240
    assert given.pop("journal") == Path("j")
    wanted = {name[2:].replace("-", "_"): value for name, value in fixed.items()}
    assert given == wanted | {"num_examples": 240, "epsilon": 3.0, "delta": 1e-5, "executor": None}
    assert isinstance(planned.model, torch.nn.Linear) and len(planned.public) == 60


def test_what_is_left_out(planned: Planned) -> None:
    assert call(*OWN).exit_code == 0
    assert planned.given["max_epochs"] == 20.0 and planned.given["journal"] is None
    assert len(planned.given["private"]) == 240, "private.npz is compared where it is there"
    Path("private.npz").unlink()
    assert call(*OWN).exit_code == 0 and planned.given["private"] is None
    assert planned.given["seed"] == 0 and planned.given["seconds"] is None
    assert call(*OWN, "--epochs", 3, "--write", "config.toml").exit_code == 0
    assert planned.given["max_epochs"] == 3.0 and planned.given["journal"] == Path("config.toml.pilots.jsonl")


def test_the_configuration_trains_as_it_is_and_keeps_the_budget(planned: Planned) -> None:
    result = call(*OWN, "--write", "config.toml", "--seed", 4)
    assert (
        result.exit_code == 0
        and "Next: dptheory run config.toml --out run --set secure=true" in result.stdout.splitlines()
    )
    config = read_config(Path("config.toml"))
    assert (config.model, config.data, config.seed) == ("mynetwork.py:build", "private.npz", 4)
    assert (config.batch_size, config.epochs, config.max_grad_norm, config.average) == (60, 2.5, 0.75, 0.2)
    rates = config.optimizer
    assert (rates.learning_rate, rates.momentum, rates.schedule) == (0.25, 0.9, "cosine")
    ran = CliRunner().invoke(app, ["run", "config.toml", "--out", "run", "--device", "cpu"])
    assert ran.exit_code == 0, ran.output
    done = json.loads(Path("run/metrics.json").read_text())
    assert done["privacy"]["steps"] == 10 and not done["budget_spent"]
    assert done["privacy"]["epsilon"] <= 3.0
    (one,) = candidates(num_examples=240, epsilon=3.0, delta=1e-5, max_epochs=2.5, batch_size=60, epochs=2.5)
    assert done["noise_multiplier"] == pytest.approx(
        one.noise_multiplier, abs=1e-5
    )  # the run rounds up to six decimals
    assert "the last 2 steps" in Path("run/statement.md").read_text()


def test_a_plan_of_pilots_is_written_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, with few short pilots; made again, it has its pilots from the journal."""
    monkeypatch.setattr(planning, "plan", partial(planning.plan, effort=TINY, executor=Here()))
    words = [
        *OWN,
        "--max-epochs",
        2,
        "--batch-size",
        60,
        "--learning-rate",
        0.5,
        "--write",
        "config.toml",
        "--seconds",
        1e6,
    ]
    first = call(*words, "--json")
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout)["batch_size"] == 60, "where it stands goes to stderr"
    assert "config.toml.pilots.jsonl" in first.stderr
    written = Path("config.toml").read_text()
    read_config(Path("config.toml"))
    noted = Path("config.toml.pilots.jsonl").read_text().split()
    monkeypatch.setattr(planning, "plan", partial(planning.plan.func, effort=TINY, executor=Here(most=0)))  # type: ignore[attr-defined]
    again = call(*words)
    assert again.exit_code == 0, again.output
    assert Path("config.toml").read_text() == written
    assert Path("config.toml.pilots.jsonl").read_text().split() == noted


def test_the_code_is_written_or_printed(planned: Planned) -> None:
    assert "make_private(" in call(*OWN).stdout
    result = call(*OWN, "--code", "train.py")
    assert result.stdout.splitlines()[-1].startswith("Next: train.py ")
    compile(Path("train.py").read_text(), "train.py", "exec")
    assert call(*OWN, "--code", "train.py").exit_code == 0, "its own file may be written again"


def test_json_is_the_choice(planned: Planned) -> None:
    found = json.loads(call(*OWN, "--json").stdout)
    assert found["expected"] == {"low": 0.5, "high": None}
    wanted = asdict(planned(None, None, **planned.given))
    assert {**found, "expected": None, "methods": (), "not_compared": ()} == {**wanted, "expected": None}


def test_shipped_data_and_network(planned: Planned) -> None:
    result = call("small-cnn", "--data", "excerpt", *BUDGET, "--write", "config.toml")
    assert result.exit_code == 0, result.output
    assert planned.given["num_examples"] == 2000
    features, labels = planned.public.tensors
    assert features.shape == (250, 1, 28, 28) and len(labels) == 250, "half of the 500 test images"
    assert abs(float(features.mean())) < 0.1, "standardised"
    config = read_config(Path("config.toml"))
    assert (config.data, config.model, config.unjudged, config.inputs) == ("excerpt", "small-cnn", 250, "standardised")


def test_a_stopped_plan_says_how_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "plan", stopped)
    result = call(*OWN, "--write", "config.toml")
    assert result.exit_code == 130 and "run the same command again to continue" in result.stderr
    assert not Path("config.toml").exists()


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["none.py:build", *OWN[1:]], "NETWORK"),
        (["mynetwork", *OWN[1:]], "NETWORK"),
        ([*OWN, "--public", "none.npz"], "none.npz"),
        ([*OWN[:3], *BUDGET], "--num-examples"),
        (["mynetwork.py:build", "--num-examples", "240", *BUDGET], "--public"),
        ([*OWN, "--data", "excerpt"], "--public"),
        (["small-cnn", "--data", "none", *BUDGET], "--data"),
        (["small-cnn", "--data", "excerpt", "--num-examples", "5", *BUDGET], "--num-examples"),
        (["small-cnn", "--data", "excerpt", "--private", "private.npz", *BUDGET], "--private"),
        ([*OWN, "--private", "none.npz"], "none.npz"),
        ([*OWN, "--delta", "0.5", "--write", "config.toml"], "--delta"),
        ([*OWN, "--write", "mynetwork.py"], "mynetwork.py"),
        ([*OWN, "--code", "public.npz"], "public.npz"),
        ([*OWN, "--write", "/dev/null/x"], ""),
        ([*OWN, "--momentum", "2"], "--momentum"),
        ([*OWN, "--average", "0.3"], "--average"),
        ([*OWN, "--private", "public.npz"], "--public"),
        ([*OWN, "--journal", "mynetwork.py"], "--journal"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(words: list[str], start: str) -> None:
    result = call(*words)
    assert result.exit_code == 2, result.output
    assert re.fullmatch(f"Error: {re.escape(start)}[^\n]*\n", result.stderr), result.stderr
    assert result.stdout == ""


# --- without one: what theory alone can say ---------------------------------------------------------------------------------


def rows(*words: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call(*WORDS, *words, "--json").stdout)
    return found


def test_json_is_the_candidates() -> None:
    found = rows("--batch-size", 500, "--max-epochs", 4)
    expected = candidates(**THEORY, batch_size=500, max_epochs=4)  # type: ignore[arg-type]
    assert len(found) == 4
    for row, one in zip(found, expected, strict=True):
        assert row == vars(one) | {"noise_per_step": one.noise_per_step}


def test_the_most_passes_that_are_left_out() -> None:
    assert [row["epochs"] for row in rows("--batch-size", 2000)] == [20.0, 10.0, 5.0, 2.5]
    assert [row["epochs"] for row in rows("--batch-size", 2000, "--epochs", 30)] == [30.0]


def test_the_table_rounds_noise_up_and_says_that_it_is_not_enough() -> None:
    shown = call(*WORDS, "--batch-size", 2000).stdout
    cells = [re.findall(r"[\d.]+", line) for line in shown.splitlines() if re.match(r"\W+2000 ", line)]
    expected = candidates(**THEORY, batch_size=2000, max_epochs=20)  # type: ignore[arg-type]
    assert len(cells) == 4
    for row, one in zip(cells, expected, strict=True):
        assert [float(row[1]), int(row[2]), float(row[3])] == [one.epochs, one.steps, 1.0]
        assert one.noise_multiplier <= float(row[4]) < one.noise_multiplier * (1 + 1e-4)  # five digits
        assert float(row[5]) == pytest.approx(one.noise_per_step, rel=5e-3)  # three
    assert "not enough to train with" in shown and "dptheory.training.plan" in shown


def test_it_needs_no_torch() -> None:
    code = "import sys\nfrom dptheory.cli import app\ntry:\n    app(sys.argv[1:])\nfinally:\n    assert 'torch' not in sys.modules"
    words = ["plan", *WORDS, "--batch-size", "2000", "--epochs", "2"]
    assert "Least noise" in subprocess.check_output([sys.executable, "-c", code, *words], text=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epochs", 5, "--max-epochs", 2], "--epochs (0, 2] 5.0"),
        (["--batch-size", 2001], "--batch-size 1..2000 2001"),
        (["--epsilon", 0], "--epsilon (0, inf) 0.0"),
    ],
)
def test_what_is_out_of_range_is_refused_in_one_line(words: list[object], message: str) -> None:
    result = call(*WORDS, *words)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"Error: {message.split()[0]} ") and all(
        one in result.stderr for one in message.split()
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--public", "public.npz"],
        ["--write", "x"],
        ["--code", "x"],
        ["--momentum", "0.9"],
        ["--seconds", "3"],
        ["--data", "mnist"],
    ],
)
def test_options_that_need_a_network(words: list[str]) -> None:
    result = call(*WORDS, *words)
    assert result.exit_code == 2 and result.stderr.startswith(f"Error: {words[0]} ")


def test_the_number_of_records_is_needed() -> None:
    assert call(*BUDGET).stderr.startswith("Error: --num-examples ")


def test_files_that_may_be_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    command._may_write(None), command._may_write(path)
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(ValueError):
        command._may_write(path)
