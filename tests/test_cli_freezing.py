"""`dptheory bound angle` and `bound freeze`: the same numbers as the calculators, as table and as JSON."""

import json
import re

import pytest
from typer.testing import CliRunner, Result

from dptheory import cli
from dptheory.angles import DistortionAngle
from dptheory.freezing import freezing_effect
from dptheory.freezing_bound import freezing_bounds

FREEZE = ["--layer-sizes", "100,200,300", "--layer-norms", "1,2,3", "--frozen", "1"]
FREEZE += ["--clip", "1", "--sigma", "1.5", "--batch-size", "256"]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def _json(*arguments: str) -> dict[str, float | None]:
    result = _run("bound", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("dim", "snr"), [(2, 0.0), (1000, 20.0), (10**9, 30.0), (1000, 1e30)])
def test_angle(dim: int, snr: float) -> None:
    law = DistortionAngle(dim, snr)
    values = _json("angle", "--dim", str(dim), "--snr", str(snr))
    assert values["expected cosine"] == law.expected_cos()
    assert values["mean angle, radians"] == law.mean()
    for share in (5, 50, 95):
        quantile = values[f"{share}% quantile, radians"]
        assert quantile is not None
        assert float(law.cdf(quantile)) == pytest.approx(share / 100, abs=1e-9)


def test_angle_without_noise_is_zero() -> None:
    values = _json("angle", "--dim", "10", "--snr", "inf")
    assert values["expected cosine"] == 1.0 and values["95% quantile, radians"] == 0.0


def test_freeze() -> None:
    values = _json("freeze", *FREEZE)
    effect = freezing_effect([100, 200, 300], [1.0, 2.0, 3.0], 1, 1.0, 1.5, 256)
    bounds = freezing_bounds([100, 200, 300], 1, 1.0, 0.1, 1000, 1.0, 1.0, 1.5, 256)
    assert values["signal-to-noise ratio, before"] == effect.before.snr
    assert values["signal-to-noise ratio, after"] == effect.after.snr
    assert values["bound on E|trainable part of it|^2, frozen"] == bounds.frozen.value
    assert values["E|frozen part|^2 below which freezing lowers the bound"] == bounds.largest_frozen_gradient


@pytest.mark.parametrize("command", ["angle", "freeze"])
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
        (("angle", "--dim", "0", "--snr", "1"), "dim must"),
        (("angle", "--dim", "10", "--snr", "-1"), "snr must"),
        (("freeze", "--layer-sizes", "a", *FREEZE[2:]), "layer_sizes must"),
        (("freeze", "--layer-sizes", "1,2.5,3", *FREEZE[2:]), "layer_sizes must"),
        (("freeze", "--layer-sizes", "1,2", *FREEZE[2:]), "layer_norms must"),
        (("freeze", *FREEZE[:5], "3", *FREEZE[6:]), "frozen"),
        (("freeze", *FREEZE, "--learning-rate", "0"), "learning_rate must"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], says: str) -> None:
    result = _run("bound", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr and result.stderr.count("\n") == 1
