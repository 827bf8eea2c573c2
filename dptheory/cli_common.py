"""What every command does alike: errors of the user in one line, output that is not wrapped when piped."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console


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
