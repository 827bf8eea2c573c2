"""`dptheory privacy`: the accounting as commands."""

import json

import pytest
from typer.testing import CliRunner, Result

from dptheory import cli, privacy


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["privacy", *arguments])


def test_epsilon() -> None:
    result = _run(
        "epsilon", "--noise-multiplier", "2", "--sampling-rate", "0.01", "--steps", "100", "--delta", "1e-5", "--json"
    )
    values = json.loads(result.stdout)
    found = privacy.epsilon_bounds(noise_multiplier=2, sampling_rate=0.01, steps=100, delta=1e-5)
    assert values["upper"] == found.upper and values["lower"] == found.lower and values["method"] == "saddle line"
    assert values["upper bound by Renyi privacy"] > found.upper
    table = _run(
        "epsilon", "--noise-multiplier", "2", "--sampling-rate", "0.01", "--steps", "100", "--delta", "1e-5"
    ).stdout
    assert f"{found.upper:.6g}" in table


def test_epsilon_without_replacement() -> None:
    options = ["--noise-multiplier", "2", "--sampling-rate", "0.01", "--steps", "10", "--delta", "1e-5", "--json"]
    result = _run("epsilon", *options, "--adjacency", "replace-one", "--sampling", "without replacement")
    assert json.loads(result.stdout)["method"] == "saddle line, dominating pair"


def test_sigma() -> None:
    result = _run(
        "noise-multiplier", "--epsilon", "3", "--delta", "1e-5", "--sampling-rate", "0.01", "--steps", "100", "--json"
    )
    values = json.loads(result.stdout)
    assert values["noise multiplier"] == privacy.least_noise_multiplier(
        epsilon=3, delta=1e-5, sampling_rate=0.01, steps=100
    )
    assert 2.99999 < values["lower"] <= values["upper"] <= 3


def test_steps() -> None:
    result = _run(
        "steps", "--epsilon", "1", "--delta", "1e-5", "--noise-multiplier", "2", "--sampling-rate", "0.1", "--json"
    )
    values = json.loads(result.stdout)
    assert values["steps"] == privacy.max_steps(epsilon=1, delta=1e-5, noise_multiplier=2, sampling_rate=0.1)
    assert values["epochs"] == values["steps"] * 0.1


@pytest.mark.parametrize("command", ["epsilon", "noise-multiplier", "steps"])
def test_errors_are_one_line(command: str) -> None:
    given = {"--noise-multiplier": "1", "--sampling-rate": "2", "--steps": "10", "--delta": "1e-5", "--epsilon": "1"}
    unused = {"epsilon": "--epsilon", "noise-multiplier": "--noise-multiplier", "steps": "--steps"}[command]
    result = _run(command, *(part for name, value in given.items() if name != unused for part in (name, value)))
    assert result.exit_code == 2
    assert "Error: sampling_rate must be a number in [1e-08, 1], got 2.0" in result.stderr
