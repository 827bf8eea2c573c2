"""What a figure is made of: a table of named columns, and what computes and draws it."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes

from dptheory._arrays import Array

Data = dict[str, Array]
"""Columns of equal length; NaN where a column has no value in a row."""
Draw = Callable[[Axes, Data], None]


class Figure(Protocol):
    """A picture, or that of a study."""

    @property
    def message(self) -> str: ...

    def data(self) -> Data: ...

    def draw(self, ax: Axes, data: Data) -> None: ...


@dataclass(frozen=True)
class Picture:
    """One of the figures of a module.

    Args:
        draw: draws; the title of its axes says for what setting.
        message: what is seen, one sentence; above the picture.
    """

    data: Callable[[], Data]
    draw: Draw
    message: str


class Gallery(dict[str, Picture]):
    """The figures of a module by name; ``prefix`` is that of the names."""

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self._prefix = prefix

    def picture(self, data: Callable[[], Data], message: str) -> Callable[[Draw], Draw]:
        """Add the picture that ``_draw_NAME`` draws, see :class:`Picture`."""

        def added(draw: Draw) -> Draw:
            self[self._prefix + draw.__name__.removeprefix("_draw_")] = Picture(data, draw, message)
            return draw

        return added


def to_csv(data: Data) -> str:
    """The columns as CSV with a header, twelve digits per number."""
    out = io.StringIO()
    np.savetxt(
        out, np.column_stack(list(data.values())), fmt="%.12g", delimiter=",", header=",".join(data), comments=""
    )
    return out.getvalue()


def to_lines(tables: Mapping[str, Data]) -> str:
    """The data of figures, by name: a line of JSON for each, twelve digits per number, NaN and Infinity as Python writes them."""
    lines = [
        {"figure": name, "columns": {key: [float(f"{x:.12g}") for x in column] for key, column in tables[name].items()}}
        for name in sorted(tables)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def from_lines(text: str) -> dict[str, Data]:
    """The inverse of :func:`to_lines`."""
    lines = map(json.loads, text.splitlines())
    return {line["figure"]: {key: np.array(x, float) for key, x in line["columns"].items()} for line in lines}
