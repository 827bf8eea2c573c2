"""What every command does alike: errors of the user in one line, output that is not wrapped when piped."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from dptheory.report import finite_or_none


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn a ValueError or OSError into one line on stderr and exit code 2."""
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None


def console_for_output() -> Console:
    """A console for tables; piped output is for programs and logs and is not wrapped at 80 columns."""
    console = Console()
    return console if console.is_terminal else Console(width=220)


def show_values(title: str, values: dict[str, Any], as_json: bool) -> None:
    """Names and values as a table, or as JSON without NaN and infinity."""
    if as_json:
        plain = {name: finite_or_none(value) for name, value in values.items()}
        typer.echo(json.dumps(plain, indent=2, allow_nan=False))
        return
    table = Table("quantity", "value", title=title)
    for name, value in values.items():
        table.add_row(name, cell(value))
    console_for_output().print(table)


def cell(value: object) -> str:
    """A value as it stands in a table."""
    if value is None:
        return "not given"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
