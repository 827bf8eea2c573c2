"""`dptheory plan`: the calculator's numbers, as table and as JSON, with noise rounded up, and what is refused."""

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dptheory.cli import app
from dptheory.planning import candidates

_BUDGET = {"num_examples": 2000, "epsilon": 3.0, "delta": 1e-5}
_WORDS = ["--num-examples", "2000", "--epsilon", "3", "--delta", "1e-5"]


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["plan", *_WORDS, *map(str, words)])


def rows(*words: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*words, "--json").stdout)
    return found


def test_json_is_the_candidates() -> None:
    found = rows("--batch-size", 500, "--max-epochs", 4)
    expected = candidates(**_BUDGET, batch_size=500, max_epochs=4)  # type: ignore[arg-type]
    assert len(found) == 4
    for row, one in zip(found, expected, strict=True):
        assert row == vars(one) | {"noise_per_step": one.noise_per_step}


def test_the_most_passes_that_are_left_out() -> None:
    assert [row["epochs"] for row in rows("--batch-size", 2000)] == [20.0, 10.0, 5.0, 2.5]
    assert [row["epochs"] for row in rows("--batch-size", 2000, "--epochs", 30)] == [30.0]


def test_the_table_rounds_noise_up_and_says_that_it_is_not_enough() -> None:
    shown = run("--batch-size", 2000).stdout
    cells = [re.findall(r"[\d.]+", line) for line in shown.splitlines() if re.match(r"\W+2000 ", line)]
    expected = candidates(**_BUDGET, batch_size=2000, max_epochs=20)  # type: ignore[arg-type]
    assert len(cells) == 4
    for row, one in zip(cells, expected, strict=True):
        assert [float(row[1]), int(row[2]), float(row[3])] == [one.epochs, one.steps, 1.0]
        assert one.noise_multiplier <= float(row[4]) < one.noise_multiplier * (1 + 1e-4)  # five digits
        assert float(row[5]) == pytest.approx(one.noise_per_step, rel=5e-3)  # three
    assert "not enough to train with" in shown and "dptheory.training.plan" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--epochs", 5, "--max-epochs", 2), "epochs must be a number in (0, 2], got 5.0"),
        (("--batch-size", 2001), "batch_size must be an integer in 1..2000, got 2001"),
        (("--epsilon", 0), "epsilon must be a number in (0, inf), got 0.0"),
    ],
)
def test_what_is_out_of_range_is_refused_in_one_line(words: tuple[object, ...], message: str) -> None:
    result = run(*words)
    assert result.exit_code == 2 and result.stderr == f"Error: {message}\n"
