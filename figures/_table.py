"""What a figure is made of: a table of named columns, and a module that computes and draws it."""

import io
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

Data = dict[str, NDArray[np.float64]]
"""Columns of equal length; NaN where a column has no value in a row."""


class Figure(Protocol):
    """A module of this package."""

    def data(self) -> Data: ...

    def draw(self, ax: Axes, data: Data) -> None: ...


def to_csv(data: Data) -> str:
    """The columns as CSV with a header, twelve digits per number."""
    out = io.StringIO()
    np.savetxt(
        out, np.column_stack(list(data.values())), fmt="%.12g", delimiter=",", header=",".join(data), comments=""
    )
    return out.getvalue()


def from_csv(text: str) -> Data:
    """The inverse of :func:`to_csv`."""
    header, *rows = text.splitlines()
    values = np.array([[float(cell) for cell in row.split(",")] for row in rows])
    return dict(zip(header.split(","), values.T, strict=True))
