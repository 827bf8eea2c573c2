"""`dptheory bound` and `dptheory preset`: the same numbers as the calculators, as table and as JSON."""

import json
import re

import pytest
from typer.testing import CliRunner, Result

from dptheory import cli, papers, pruning, sparsification
from dptheory.gradients import clipped_gradient_mse

MSE = ["--grad-norm", "1", "--dim", "100", "--deviation", "0.1", "--clip-norm", "1"]
MSE += ["--noise-multiplier", "1", "--batch-size", "8", "--drop-rate", "0.5"]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def _json(*arguments: str) -> dict[str, float | None]:
    result = _run("bound", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_prune() -> None:
    values = _json("prune", "--dim", "1000", "--keep", "100")
    assert values["pruning MSE of top-k"] == float(pruning.top_k_mse(1000, 100, sigma_g=1.0))
    assert values["MSE of top-k with noise"] == float(pruning.top_k_mse(1000, 100, sigma_g=1.0)) + 100
    assert values["retained gain needed to beat DP-SGD's direction"] == pruning.least_retained_gain(1000, 100)


def test_mse() -> None:
    found = clipped_gradient_mse(
        grad_norm=1, dim=100, deviation=0.1, clip_norm=1, noise_multiplier=1, batch_size=8, drop_rate=0.5
    )
    values = _json("mse", *MSE)
    assert values["MSE, masked"] == found.masked.mse
    assert values["descent ratio, DP-SGD"] == found.full.descent_ratio
    assert values["Delta_MSE"] == found.delta_mse


def test_kappa() -> None:
    values = _json(
        "kappa", "--grad-norm", "2", "--dim", "100", "--clip-norm", "4", "--drop-rate", "0.5", "--deviation", "0.05"
    )
    assert values["kappa"] == pytest.approx(
        sparsification.kappa([0.2] * 100, clip_norm=4.0, drop_rate=0.5, deviation=0.05).value, rel=1e-12
    )
    assert values["lower end, 1 - r"] == 0.5


def test_rate() -> None:
    assert _json("rate", "--delta-c", "0.1", "--step-noise", "1")["best rate for a = 0.5"] == pytest.approx(0.9)


def test_reconstruction_says_why_it_is_infinite() -> None:
    values = _json("reconstruction", "--vector", "1,0,0,0", "--drop-rate", "0.5", "--noise-std", "0.1")
    assert values["expected error"] is None and values["why infinite"]
    assert values["lower bound where it works"] == sparsification.error_lower_bound(
        [1, 0, 0, 0], drop_rate=0.5, noise_std=0.1
    )


def test_presets() -> None:
    rows = json.loads(_run("preset", "list", "--json").stdout)
    assert [row["name"] for row in rows] == [one.name for one in papers.all_presets()]
    assert "rf.gep.eps8" in _run("preset", "list").stdout


def test_kappa_is_said_to_compare_bounds() -> None:
    text = " ".join(_run("bound", "kappa", "--help").stdout.replace("│", " ").split())
    assert "kappa, the ratio of the papers' lower bounds on the descent with and without the mask" in text


@pytest.mark.parametrize("command", ["prune", "mse", "kappa", "rate", "reconstruction"])
def test_the_examples_of_the_help_work(command: str) -> None:
    text = re.sub(r"[\s│]+", " ", _run("bound", command, "--help").stdout)
    words = re.search(r"Example: dptheory (bound [^╰]*?) ?(?:╰|$)", text)
    assert words is not None
    result = _run(*words[1].split())
    assert result.exit_code == 0, result.output
    assert "quantity" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("prune", "--dim", "10", "--keep", "11"), "keep "),
        (("mse", *MSE[:-1], "0.555"), "rate"),
        (("kappa", "--grad-norm", "0", "--dim", "10", "--clip-norm", "1", "--drop-rate", "0.5"), "grad_norm "),
        (("rate", "--delta-c", "-1", "--step-noise", "1"), "delta_c "),
        (("reconstruction", "--vector", "a", "--drop-rate", "0.5", "--noise-std", "1"), "vector "),
        (("reconstruction", "--vector", "0,0", "--drop-rate", "0.5", "--noise-std", "1"), "vector "),
    ],
)
def test_bad_input(arguments: tuple[str, ...], says: str) -> None:
    result = _run("bound", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr and result.stderr.count("\n") == 1
