"""What every command does alike: errors of the user in one line, output that is not wrapped when piped; tables that are whole."""

import copy
import importlib
import io
import json
import math
import os
import re
import secrets
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import typer
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text
from typer.core import TyperGroup

from dptheory import _validate
from dptheory._rounding import for_json, rounded_down, rounded_up

_click = typer.Context.__mro__[1].__module__.rpartition(".")[0]  # newer versions of typer bring their own
_current_context = importlib.import_module(f"{_click}.globals").get_current_context

_ENDLESS = 100_000
"""A width at which nothing is wrapped."""


class TableConsole(Console):
    """A console that gives every column room for its longest word; where there is none, each row becomes a block of lines."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Tables as they fit, each below its title: Rich would wrap that at the width of the table."""
        for one in objects:
            if isinstance(one, Table) and one.title is not None:
                super().print(one.title, highlight=False)
                one.title = None
        super().print(*(_whole(self, one) if isinstance(one, Table) else one for one in objects), **options)


def _whole(console: Console, table: Table) -> RenderableType:
    """A table as it fits into the window."""
    needed = _measured(console, table)
    if needed.maximum <= console.width:
        return table
    if needed.minimum > console.width:
        return _blocks(console, table)
    spans = [_span(console, column) for column in table.columns]
    room = console.width - needed.minimum + sum(span.minimum for span in spans)
    narrow = copy.copy(table)
    narrow.columns = [
        replace(column, width=width) for column, width in zip(table.columns, _widths(spans, room), strict=True)
    ]
    return narrow


def _measured(console: Console, what: RenderableType) -> Measurement:
    """Width of the longest word, and that without any wrapping."""
    return Measurement.get(console, console.options.update_width(_ENDLESS), what)


def _span(console: Console, column: Column) -> Measurement:
    found = [_measured(console, cell) for cell in (column.header, *column.cells)]
    return Measurement(max(one.minimum for one in found), max(one.maximum for one in found))


def _widths(spans: Sequence[Measurement], room: int) -> list[int]:
    """The longest word for each, and what is left one by one to the narrowest that can use it."""
    widths = [span.minimum for span in spans]
    for _ in range(room - sum(widths)):
        open_ones = [place for place, span in enumerate(spans) if widths[place] < span.maximum]
        if open_ones:
            widths[min(open_ones, key=lambda place: widths[place])] += 1
    return widths


def _blocks(console: Console, table: Table) -> Text:
    """Each row as lines of a heading and a cell, those without a cell left out."""
    heads = [_text(console, column.header) for column in table.columns]
    rows = [
        Text("\n").join(
            Text(": ").join([head, cell]) if head else cell for head, cell in zip(heads, cells, strict=True) if cell
        )
        for cells in zip(*([_text(console, cell) for cell in column.cells] for column in table.columns), strict=True)
    ]
    return Text("\n\n").join(rows).append("\n")


def _text(console: Console, cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else console.render_str(str(cell), highlight=False)


Number = TypeVar("Number", int, float)
_LISTED = 3
"""Entries of a list that a cell shows at most."""


class Commands(TyperGroup):
    """A tree of commands; what goes wrong is said in one line on stderr, with exit code 2.

    That is so for a wrong option and for output that cannot be written. A reader that has seen enough, as in ``| head -1``,
    is no error.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command; a wrong name is answered with the nearest, of groups that are not loaded yet too."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{_validate.meant(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a pipe on Windows knows 200 letters, and no epsilon among them
                stream.reconfigure(errors="replace")
        try:
            code = super().main(args, standalone_mode=False, **extra)
            sys.stdout.flush()
        except SystemExit as end:  # Rich and Typer leave with 1 when nobody reads the output any more
            if end.code != 1:
                raise
            code = 0
            _discard_output()
        except OSError as error:
            code = 0 if isinstance(error, BrokenPipeError) else _say(f"output cannot be written: {error.strerror}")
            _discard_output()
        except Exception as error:
            message = getattr(error, "format_message", None)  # of a mistake that Typer has found
            if message is None:
                raise
            text = " ".join(message().split()) + _given(error)
            code = 2 if text == "" or text.startswith("Usage:") else _say(text)  # without arguments: the help
        sys.exit(code if isinstance(code, int) else 0)


def _given(error: Exception) -> str:
    """The value that Typer could not read, which its message leaves out; a percentage as the share that it is."""
    (given,) = [one["input"] for one in getattr(error.__cause__, "errors", list)()][:1] or [""]
    percent = re.fullmatch(r"([0-9]*\.?[0-9]+) *%", str(given))
    share = f"; as a share that is {float(percent[1]) / 100:g}" if percent else ""
    return f", got {given!r}{share}" if given else ""


def _say(message: str) -> int:
    typer.echo(f"Error: {message}", err=True)
    return 2


def _discard_output() -> None:
    """What is still in the buffer has nowhere to go; Python would complain of it when it ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (io.UnsupportedOperation, OSError):  # not a stream of the system
        return


@contextmanager
def user_errors(**options: str) -> Iterator[None]:
    """Turn a ValueError, TypeError or OSError into one line on stderr and exit code 2.

    Arguments of the command are named as its options are.

    Args:
        options: what the command calls an argument of a calculator, where the names differ, as in noise_multiplier="sigma".
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, OSError) as error:
        first, blank, rest = str(error).partition(" ")
        _say(_with_options(f"{options.get(first, first)}{blank}{rest}", _options()))
        raise typer.Exit(2) from None


def _options() -> dict[str, str]:
    """What the arguments of the command under way are called on the command line."""
    context = _current_context(silent=True)
    shown = {} if context is None else {one.name: max(one.opts, key=len) for one in context.command.params}
    return {name: option if option.startswith("-") else name.upper() for name, option in shown.items()}


def _with_options(message: str, options: Mapping[str, str]) -> str:
    """A message with its arguments as options: in what must be otherwise, and beyond that where ``=`` or ``_`` tell them from words."""

    def named(text: str, wanted: str) -> str:
        found = rf"(?<![\w./'\"-])({wanted})(?![\w./'\"-])"
        return re.sub(found, lambda match: options.get(match[0], match[0]), text)

    subject, must, rest = message.partition(" must ")
    if not must:
        subject, must, rest = message.partition(" ")
    return named(subject, r"\w+") + must + named(named(rest, r"\w+(?==)"), r"[a-z]+_\w+")


def numbers(name: str, text: str, kind: type[Number]) -> tuple[Number, ...]:
    """The numbers of an option that is a list with commas."""
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        wanted = "whole numbers" if kind is int else "numbers"
        raise ValueError(f"{name} must be {wanted} separated by commas, got {text!r}") from None


def parse_budget(text: str) -> float:
    """Seconds from "30s", "10m", "1h" or a plain number."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text.strip())
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else math.nan
    if not seconds > 0:
        raise ValueError(f"budget must be a time > 0 such as 30s, 10m or 1h, got {text!r}")
    return seconds


def parse_seed(text: str) -> int:
    """A whole number >= 0 from its digits, or a fresh one from "random"."""
    if text == "random":
        return secrets.randbits(32)
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError(f"seed must be a whole number in 0..10^18 or 'random', got {text!r}")
    return int(text)


def console_for_output() -> Console:
    """A console for tables: as wide as the terminal; a pipe's is 80 columns, or as many as COLUMNS says."""
    return TableConsole()


def line_width(console: Console) -> int:
    """Where the lines of a list are cut: at the window's edge; grep behind a pipe gets more of them."""
    return console.width if console.is_terminal else 220


_SAFE_SIDE: dict[str, Callable[[float], str]] = {
    "lower": partial(rounded_down, digits=10),
    "estimate": "{:.10g}".format,
    **dict.fromkeys(("upper", "noise", "factor", "epsilon"), partial(rounded_up, digits=10)),
}
"""By the first word of a name: bounds, and the noise that a budget asks for, hold as they are read."""


def show_values(title: str, values: dict[str, Any], as_json: bool, note: str = "", bounds_of: str = "") -> None:
    """Names and values as a table, with a line below it; or as JSON without NaN and infinity.

    Args:
        bounds_of: what "lower", "estimate" and "upper" are of, for readers of the table.
    """
    if as_json:
        typer.echo(json.dumps(for_json(values), indent=2, allow_nan=False))
        return
    table = Table("quantity", "value", title=title)
    for name, value in values.items():
        shown = f"{bounds_of}, {name}" if bounds_of and name in ("lower", "estimate", "upper") else name
        table.add_row(shown, cell(value, _SAFE_SIDE.get(name.split()[0], _six_digits)))
    console_for_output().print(table)
    if note:
        say(note)


def say(text: str) -> None:
    """Lines of words, wrapped at the width of the output."""
    width = console_for_output().width
    for line in text.splitlines():
        typer.echo(textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False))


_six_digits = "{:.6g}".format


def cell(value: object, number: Callable[[float], str] = _six_digits) -> str:
    """A value as it stands in a table."""
    if value is None:
        return "not given"
    if isinstance(value, list):
        shown = value if len(value) <= _LISTED else [*value[: _LISTED - 1], "...", value[-1]]
        return ", ".join(cell(one, number) for one in shown)
    return number(value) if isinstance(value, float) else str(value)
