"""A console whose tables are whole: in a narrow window words are wrapped, and no number and no name is cut."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

_ENDLESS = 100_000
"""A width at which nothing is wrapped."""


class TableConsole(Console):
    """A console that gives every column room for its longest word; where there is none, each row becomes a block of lines."""

    def print(self, *objects: Any, **options: Any) -> None:
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
    title = [] if table.title is None else [_text(console, table.title)]
    return Text("\n\n").join([*title, *rows]).append("\n")


def _text(console: Console, cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else console.render_str(str(cell), highlight=False)
