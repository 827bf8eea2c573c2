"""Tables in a narrow terminal: no number and no name is cut, and no line is too wide."""

import io
import json
import re

import pytest
from rich.cells import cell_len
from rich.table import Table
from typer.testing import CliRunner

from dptheory.cli import app
from dptheory.cli._common import cell
from dptheory.cli._console import TableConsole

_SETUP = ["--num-examples", "2000", "--epsilon", "3", "--delta", "1e-5", "--batch-size", "2000", "--epochs", "1"]


def shown(width: int, *words: str) -> str:
    """What a terminal of this width shows, without its colours."""
    result = CliRunner().invoke(app, words, env={"FORCE_COLOR": "1", "COLUMNS": str(width)})
    assert result.exit_code == 0, result.output[:300]
    return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)


def numbers_and_names(*words: str) -> list[str]:
    rows = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    return [part for row in rows for value in row.values() for part in cell(value).split()]


@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize("words", [("preset", "list"), ("preset", "embedding")], ids=" ".join)
def test_presets_are_whole(width: int, words: tuple[str, ...]) -> None:
    text = shown(width, *words)
    assert "…" not in text and max(map(cell_len, text.splitlines())) <= width
    found = text.split()
    assert all(found.count(one) >= numbers_and_names(*words).count(one) for one in set(numbers_and_names(*words)))


@pytest.mark.parametrize("width", [80, 60])
def test_a_plan_is_whole(width: int) -> None:
    plan = ["plan", *_SETUP]
    text = shown(width, *plan)
    (row,) = json.loads(CliRunner().invoke(app, [*plan, "--json"]).stdout)
    assert "…" not in text
    assert {"2000", "1", f"{row['noise_per_step']:.3g}", "batch", "noise"} <= set(text.split())
    assert max(map(cell_len, text.partition("Noise per step:")[0].splitlines())) <= width


def printed(width: int, *rows: tuple[str, ...]) -> list[str]:
    table = Table("name", "said of it", "number")
    for row in rows:
        table.add_row(*row)
    file = io.StringIO()
    TableConsole(width=width, file=file).print(table)
    return file.getvalue().splitlines()


def test_words_are_wrapped_and_the_widest_words_get_their_room() -> None:
    rows = (("random-sparsification", "a b c d e f g h i j k l m n o p", "1234567890"),)
    lines = printed(50, *rows)
    assert lines[0].startswith("┏") and {cell_len(line) for line in lines} == {50}
    (first,) = [line for line in lines if "random-sparsification" in line]
    assert "1234567890" in first
    assert printed(90, *rows)[3].split() == ["│", rows[0][0], "│", *rows[0][1].split(), "│", rows[0][2], "│"]


def test_what_does_not_fit_is_a_block_per_row() -> None:
    rows = (("random-sparsification", "one [bold]two[/] three", "1234567890"), ("x", "", "2"))
    expected = [
        "name: random-sparsification",
        "said of it: one two three",
        "number: 1234567890",
        "",
        "name: x",
        "number: 2",
        "",
    ]
    assert printed(30, *rows) == expected
