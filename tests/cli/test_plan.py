"""`dptheory plan`: options that do not go together are refused, and what is written can be run."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptheory.cli import app

_MADE = Path(__file__).parents[1] / "planning" / "made.json"
_SETUP = ["--num-examples", "2000", "--epsilon", "3", "--delta", "1e-5", "--batch-size", "2000"]


def refused(*words: object) -> str:
    """What is said of a command line, on one line."""
    result = CliRunner().invoke(app, ["plan", *_SETUP, *map(str, words)])
    assert result.exit_code == 2, result.output[:200]
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").strip()


def test_more_epochs_than_can_be_afforded_are_refused() -> None:
    assert refused("--dim", 200, "--epochs", 5, "--max-epochs", 2) == "epochs must be at most max_epochs = 2, got 5"
    enough = CliRunner().invoke(app, ["plan", *_SETUP, "--dim", "200", "--epochs", "101"])
    assert enough.exit_code == 0, "100 is only where a plan stops to look"


@pytest.mark.parametrize("option", ["--data", "--model"])
def test_names_without_a_file_to_write_are_refused(option: str) -> None:
    said = refused("--dim", 200, "--epochs", 1, option, "excerpt")
    assert said == f"{option} must be left out without --write, got 'excerpt'"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--model", "no-such-model"], "--model must be one of 'small-cnn', "),
        (["--data", "no-such-data"], "--data must be one of 'excerpt', "),
        (["--num-examples", "60000"], "num_examples must be 2000, the training images of data='excerpt', got 60000"),
    ],
)
def test_a_configuration_that_cannot_run_is_not_written(changes: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    given = ["--epochs", 1, "--clip-norm", 1, "--learning-rate", 1, "--stats", _MADE]
    said = refused(*given, "--write", path, "--data", "excerpt", "--model", "small-cnn", *changes)
    assert said.startswith(message) and not path.exists()


def test_a_run_without_a_finished_epoch_is_refused_by_its_option(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"epochs": []}')
    said = refused("--dim", 200, "--epochs", 1, "--compare", tmp_path)
    assert said.startswith("--compare must be results of dptheory run, got ")
    assert said.endswith("metrics.json: it has no finished epoch")
