"""``python -m figures``: regenerate every picture of ``proofs/figures`` and its data."""

import importlib
import io
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import matplotlib
import typer

from dptheory.cli._common import user_errors
from dptheory.files import require_writable, write_atomically
from figures._study import STUDIES, StudyFigure
from figures._table import Data, Figure, from_lines, to_csv, to_lines


def _modules() -> Iterator[tuple[str, Figure]]:
    for name in sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")):
        yield from importlib.import_module(f"figures.{name}").FIGURES.items()


FIGURES: dict[str, Figure] = dict(sorted(_modules())) | {f"study_{name}": StudyFigure(name) for name in STUDIES}
"""What the modules of this folder have whose names begin without an underscore; and every study with results."""

STYLE = Path(__file__).with_name("style.mplstyle")
DATA = "data.jsonl"
"""What every picture shows, a line for each: drawings differ between versions of matplotlib, numbers do not."""


def render(figure: Figure) -> tuple[bytes, Data]:
    """One figure as PNG, and its data; the same input gives the same bytes on the same versions."""
    table = figure.data()
    return drawn(figure, table), table


def drawn(figure: Figure, table: Data) -> bytes:
    """The PNG of a figure with this data: its message, below it the setting, and what it draws."""
    import matplotlib.pyplot as plt

    with plt.style.context(STYLE):
        canvas, ax = plt.subplots(layout="constrained")
        canvas.suptitle(textwrap.fill(figure.message, 76))
        figure.draw(ax, table)
        png = io.BytesIO()
        canvas.savefig(png, format="png", metadata={"Software": None})
        plt.close(canvas)
    return png.getvalue()


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Figures to draw; all where none is named.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the pictures, and for data.jsonl with their data.")] = Path(
        "proofs/figures"
    ),
    csv: Annotated[bool, typer.Option("--csv", help="Also write the data of each figure as NAME.csv.")] = False,
) -> None:
    """Regenerate the figures, as in `python -m figures top_k_mse`."""
    with user_errors():
        unknown = set(names or ()) - set(FIGURES)
        if unknown:
            raise ValueError(f"names must be figures, got {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
        require_writable(out / DATA)
        kept = from_lines((out / DATA).read_text(encoding="utf-8")) if (out / DATA).exists() else {}
        tables: dict[str, Data] = {name: table for name, table in kept.items() if name in FIGURES}
        for name in names or FIGURES:
            png, tables[name] = render(FIGURES[name])
            write_atomically(out / f"{name}.png", png)
            if csv:
                write_atomically(out / f"{name}.csv", to_csv(tables[name]))
            typer.echo(f"{out / name}.png")
        write_atomically(out / DATA, to_lines(tables))


if __name__ == "__main__":
    matplotlib.use("Agg")
    typer.run(main)
